//! Reads the names of znodes.

use zoolet_protocol::SEQUENCE_DIGITS;

use crate::style::Style;

/// A name of a recipe's znode, read.
///
/// ```
/// use zoolet_layouts::{Name, Style};
///
/// let name = Name::read("00112233445566778899aabbccddeeff__lock__0000000012").unwrap();
/// assert_eq!((name.style, name.number), (Style::KazooLock, Some(12)));
/// assert_eq!(Name::read("config"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name<'a> {
    /// The style of the name.
    pub style: Style,
    /// The number that the server appended, if names of this style have one. After 2^31 - 1 numbers
    /// the server goes on with negative ones.
    pub number: Option<i32>,
    /// The name itself.
    pub text: &'a str,
}

/// How many characters a UUID has.
const UUID_CHARS: usize = 36;

/// How many characters it has without its dashes.
const HEX_CHARS: usize = 32;

/// What Curator and go-zookeeper write before a name, so that they find it again.
const PROTECTED: &str = "_c_";

impl<'a> Name<'a> {
    /// Reads a name, and allocates nothing. `None` if no recipe writes such names.
    #[must_use]
    pub fn read(name: &'a str) -> Option<Self> {
        let read = |style, number| Some(Self { style, number, text: name });
        if let Some((stem, digits)) = numbered(name) {
            // Where both readings are possible, the dash belongs to the name, not to the number.
            if let Some(style) = style_of_stem(stem) {
                return read(style, Some(digits.parse().ok()?));
            }
            let negative = stem.strip_suffix('-').and_then(style_of_stem);
            if let Some(style) = negative {
                let number: i64 = digits.parse().ok()?;
                return read(style, Some(i32::try_from(-number).ok()?));
            }
        }
        if let Some((stem, digits)) = negative_of_ten(name)
            && let Some(style) = style_of_stem(stem)
        {
            return read(style, Some(digits.parse().ok()?));
        }
        read(style_of_whole(name)?, None)
    }

    /// The number as it grows: after the greatest positive number come the negative ones.
    pub(crate) fn order(&self) -> u32 {
        self.number.unwrap_or_default().cast_unsigned()
    }
}

/// A name that ends in ten digits, and these.
fn numbered(name: &str) -> Option<(&str, &str)> {
    let (stem, digits) = name.split_at_checked(name.len().checked_sub(SEQUENCE_DIGITS)?)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some((stem, digits))
}

/// A name that ends in a negative number of ten characters, and this number with its sign.
fn negative_of_ten(name: &str) -> Option<(&str, &str)> {
    let (stem, number) = name.split_at_checked(name.len().checked_sub(SEQUENCE_DIGITS)?)?;
    let digits = number.strip_prefix('-')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some((stem, number))
}

/// The style of names that begin so and end in a number.
fn style_of_stem(stem: &str) -> Option<Style> {
    // The last character rules most names out.
    match stem.as_bytes().last()? {
        b'-' => style_before_dash(stem),
        b'_' => style_before_underscore(stem),
        _ => curators_queue(stem),
    }
}

fn style_before_dash(stem: &str) -> Option<Style> {
    if let Some(before) = stem.strip_suffix("lock-") {
        return Some(match protection(before) {
            Some(UUID_CHARS) => Style::CuratorLock,
            Some(_) => Style::GoLock,
            None => Style::OtherLock,
        });
    }
    if stem.ends_with("lease-") {
        return Some(Style::CuratorPermit);
    }
    if stem.ends_with("latch-") {
        return Some(Style::CuratorLatch);
    }
    if let Some(session) = stem.strip_prefix("x-").and_then(|rest| rest.strip_suffix('-')) {
        return session.parse::<i64>().is_ok().then_some(Style::ApacheLock);
    }
    if let Some(priority) = stem.strip_prefix("entry-").and_then(|rest| rest.strip_suffix('-')) {
        let is_priority = priority.len() == 3 && priority.bytes().all(|it| it.is_ascii_digit());
        return is_priority.then_some(Style::KazooQueue);
    }
    match stem {
        "qn-" => Some(Style::SimpleQueue),
        stem => curators_queue(stem),
    }
}

fn style_before_underscore(stem: &str) -> Option<Style> {
    let by_ending = [
        ("__lock__", Style::KazooLock),
        ("__rlock__", Style::KazooRead),
        ("__READ__", Style::CuratorRead),
        ("__WRIT__", Style::CuratorWrite),
    ];
    if let Some((_, style)) = by_ending.into_iter().find(|(ending, _)| stem.ends_with(ending)) {
        return Some(style);
    }
    match stem.strip_suffix('_')? {
        "n" => Some(Style::ApacheElection),
        id => is_uuid(id).then_some(Style::UuidLock),
    }
}

/// `queue-`, and behind it nothing, an id or a time between bars, or a priority.
fn curators_queue(stem: &str) -> Option<Style> {
    let rest = stem.strip_prefix("queue-")?;
    let is_between_bars = rest.len() >= 2 && rest.starts_with('|') && rest.ends_with('|');
    let is_priority = || {
        let digits = rest.strip_prefix(['0', '1']);
        digits.is_some_and(|it| it.len() == 8 && it.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    (rest.is_empty() || is_between_bars || is_priority()).then_some(Style::CuratorQueue)
}

/// The style of a name without a number.
fn style_of_whole(name: &str) -> Option<Style> {
    match name {
        "ready" => return Some(Style::BarrierReady),
        "lease_holder" => return Some(Style::KazooLease),
        _ if is_uuid(name) => return Some(Style::BarrierMember),
        _ => {}
    }
    let (id, rest) = name.split_at_checked(HEX_CHARS)?;
    match rest {
        _ if !is_hex(id) => None,
        "" => Some(Style::KazooPermit),
        "__party__" => Some(Style::KazooParty),
        rest => rest.starts_with('-').then_some(Style::KazooShallowParty),
    }
}

/// How long the id of a protected create is that is all there is before a name.
fn protection(before: &str) -> Option<usize> {
    let id = before.strip_prefix(PROTECTED)?.strip_suffix('-')?;
    (is_uuid(id) || is_hex(id)).then_some(id.len())
}

/// All characters are looked at, without a branch: that is faster than to stop at the first wrong one.
fn is_uuid(text: &str) -> bool {
    let Ok(text) = <&[u8; UUID_CHARS]>::try_from(text.as_bytes()) else { return false };
    let digits: u8 = text.iter().map(|byte| u8::from(byte.is_ascii_hexdigit())).sum();
    usize::from(digits) == HEX_CHARS && [8, 13, 18, 23].iter().all(|index| text[*index] == b'-')
}

fn is_hex(text: &str) -> bool {
    text.len() == HEX_CHARS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1f";
    const HEX: &str = "00112233445566778899aabbccddeeff";

    /// U stands for a UUID, H for 32 hexadecimal digits.
    fn read(name: &str) -> Option<(Style, Option<i32>)> {
        let name = name.replace('U', UUID).replace('H', HEX);
        Name::read(&name).map(|name| (name.style, name.number))
    }

    #[test]
    fn each_library_is_known_by_its_names() {
        let cases = [
            ("_c_U-lock-0000000007", Style::CuratorLock, Some(7)),
            ("_c_H-lock-0000000007", Style::GoLock, Some(7)),
            ("_c_11-lock-0000000007", Style::OtherLock, Some(7)),
            ("lock-0000000007", Style::OtherLock, Some(7)),
            ("_c_U-__READ__0000000012", Style::CuratorRead, Some(12)),
            ("__WRIT__-2147483648", Style::CuratorWrite, Some(i32::MIN)),
            ("__WRIT__-000000001", Style::CuratorWrite, Some(-1)),
            ("_c_U-lease-0000000000", Style::CuratorPermit, Some(0)),
            ("_c_U-latch-0000000003", Style::CuratorLatch, Some(3)),
            ("x-latch-0000000000", Style::CuratorLatch, Some(0)),
            ("H__lock__0000000001", Style::KazooLock, Some(1)),
            ("H__rlock__0000000002", Style::KazooRead, Some(2)),
            ("H__lock__-2147483647", Style::KazooLock, Some(-i32::MAX)),
            ("x-72057594037927936-0000000004", Style::ApacheLock, Some(4)),
            ("x--72057594037927936-0000000004", Style::ApacheLock, Some(4)),
            ("x-7--2147483648", Style::ApacheLock, Some(i32::MIN)),
            ("n_0000000005", Style::ApacheElection, Some(5)),
            ("U_0000000006", Style::UuidLock, Some(6)),
            ("H", Style::KazooPermit, None),
            ("U", Style::BarrierMember, None),
            ("ready", Style::BarrierReady, None),
            ("H__party__", Style::KazooParty, None),
            ("H-host-1", Style::KazooShallowParty, None),
            ("lease_holder", Style::KazooLease, None),
            ("queue-0000000000", Style::CuratorQueue, Some(0)),
            ("queue-|id|0000000001", Style::CuratorQueue, Some(1)),
            ("queue-0800000000000000002", Style::CuratorQueue, Some(2)),
            ("qn-0000000003", Style::SimpleQueue, Some(3)),
            ("entry-100-0000000004", Style::KazooQueue, Some(4)),
        ];
        for (name, style, number) in cases {
            assert_eq!(read(name), Some((style, number)), "{name}");
        }
    }

    #[test]
    fn names_that_only_look_like_those_of_a_recipe_are_none() {
        let names = [
            "",
            "0000000007",
            "lock",
            "lock-7",
            "lock-00000000x7",
            "lock-99999999990",
            "lock-0000000007-",
            "locks",
            "leases",
            "READY",
            "n_7",
            "x-host-0000000004",
            "entry-1-0000000004",
            "queue-id0000000001",
            "member-0000000001",
            "0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1g",
            "äöü-lock-００００００００００",
        ];
        for name in names {
            assert_eq!(Name::read(name), None, "{name}");
        }
    }

    #[test]
    fn negative_numbers_come_after_all_others() {
        let order = |name| Name::read(name).map(|name| name.order());
        let greatest = order("lock-2147483647");
        assert!(order("lock-0000000000") < greatest);
        assert!(greatest < order("lock--2147483648"));
        assert!(order("lock--2147483648") < order("lock--000000001"));
    }
}
