//! The names of items: which children of a directory are items, in which order they are delivered,
//! and what a new item is called. It works on names alone.

use zoolet_protocol::SEQUENCE_DIGITS;

/// What the names of the items in a queue look like. The server appends a number to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `qn-`: ZooKeeper's own queue, and Curator's `SimpleDistributedQueue`.
    Simple,
    /// `queue-`: Curator's `DistributedQueue`.
    Plain,
    /// `queue-|id|`: Curator's `DistributedIdQueue`.
    Id,
    /// `queue-` and the priority: Curator's `DistributedPriorityQueue`.
    Priority,
    /// `queue-|time|`: Curator's `DistributedDelayQueue`.
    Delay,
    /// `entry-` and three digits of priority: both queues of kazoo.
    Kazoo,
}

/// The prefix of the items of Curator's queues.
const CURATOR: &str = "queue-";

/// Stands on both sides of an id or a time.
const SEPARATOR: char = '|';

/// How many characters a priority has in a name: its sign and its hexadecimal digits.
const PRIORITY_CHARS: usize = 9;

/// How many digits kazoo writes for a priority.
const KAZOO_DIGITS: usize = 3;

/// The order in which items are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    /// The priority or the time, the least first; 0 where there is none.
    pub(crate) rank: i64,
    /// The number that the server gave. After 2^31 items the server goes on with negative numbers;
    /// as unsigned numbers they go on to grow.
    number: u32,
}

/// The name of an item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ItemName<'a> {
    pub(crate) order: Order,
    /// The name without its number: a new item with this name has the same id, priority and time.
    pub(crate) stem: &'a str,
}

impl Layout {
    /// The item of this name; `None` if it is no item of such a queue.
    pub(crate) fn item(self, name: &str) -> Option<ItemName<'_>> {
        let (stem, text) = name.split_at_checked(name.len().checked_sub(SEQUENCE_DIGITS)?)?;
        // A negative number has a minus: before ten digits, or among ten characters with fewer digits.
        let shorter = text.strip_prefix('-');
        let digits = shorter.unwrap_or(text);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: i64 = digits.parse().ok()?;
        let negative = match shorter {
            Some(_) => Some(stem),
            None => stem.strip_suffix('-').filter(|stem| self.rank(stem).is_some()),
        };
        let (stem, number) = negative.map_or((stem, number), |stem| (stem, -number));
        let number = i32::try_from(number).ok()?.cast_unsigned();
        Some(ItemName { order: Order { rank: self.rank(stem)?, number }, stem })
    }

    /// Whether new items always come behind those that are there.
    pub(crate) fn appends_only(self) -> bool {
        matches!(self, Self::Simple | Self::Plain | Self::Id)
    }

    /// The rank of the items whose names begin with this, if the names are of this layout.
    fn rank(self, stem: &str) -> Option<i64> {
        match self {
            Self::Simple => (stem == simple_stem()).then_some(0),
            Self::Plain => (stem == CURATOR).then_some(0),
            Self::Id => (stem == CURATOR || between_separators(stem).is_some()).then_some(0),
            Self::Priority => priority(stem.strip_prefix(CURATOR)?),
            Self::Delay => match stem.strip_prefix(CURATOR)? {
                // As in Curator, an item without a time is due.
                "" => Some(0),
                _ => i64::from_str_radix(between_separators(stem)?, 16).ok(),
            },
            Self::Kazoo => {
                let digits = stem.strip_prefix("entry-")?.strip_suffix('-')?;
                let is_priority =
                    digits.len() == KAZOO_DIGITS && digits.bytes().all(|it| it.is_ascii_digit());
                is_priority.then(|| digits.parse().ok())?
            }
        }
    }
}

/// What is between the two separators of a name that consists of Curator's prefix and of them.
fn between_separators(stem: &str) -> Option<&str> {
    let rest = stem.strip_prefix(CURATOR)?.strip_prefix(SEPARATOR)?.strip_suffix(SEPARATOR)?;
    (!rest.contains(SEPARATOR)).then_some(rest)
}

/// The priority in a name. Curator's priority queue gives an item that it delivers again a name
/// without one, and such an item is in front of all others.
fn priority(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(i64::from(i32::MIN) - 1);
    }
    let (sign, digits) = text.split_at_checked(1).filter(|_| text.len() == PRIORITY_CHARS)?;
    let priority = u32::from_str_radix(digits, 16).ok()?.cast_signed();
    let has_sign = sign == if priority >= 0 { "1" } else { "0" };
    has_sign.then_some(i64::from(priority))
}

/// The id in the name of an item with an id.
pub(crate) fn id_of(stem: &str) -> Option<&str> {
    between_separators(stem)
}

/// The name of an item of a simple queue, without its number.
pub(crate) fn simple_stem() -> &'static str {
    "qn-"
}

/// The name of an item of a plain queue.
pub(crate) fn plain_stem() -> &'static str {
    CURATOR
}

/// An id as it is written in a name.
pub(crate) fn written_id(id: &str) -> String {
    id.replace(['/', SEPARATOR], "_")
}

/// The name of an item with an id.
pub(crate) fn id_stem(id: &str) -> String {
    format!("{CURATOR}{SEPARATOR}{}{SEPARATOR}", written_id(id))
}

/// The name of an item with a priority.
pub(crate) fn priority_stem(priority: i32) -> String {
    let sign = if priority >= 0 { '1' } else { '0' };
    format!("{CURATOR}{sign}{priority:08X}")
}

/// The name of an item that is due at a time, in milliseconds since 1970.
pub(crate) fn delay_stem(due_ms: i64) -> String {
    format!("{CURATOR}{SEPARATOR}{due_ms:08X}{SEPARATOR}")
}

/// The name of an entry of kazoo's queues.
pub(crate) fn kazoo_stem(priority: u16) -> String {
    format!("entry-{priority:03}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: [Layout; 6] =
        [Layout::Simple, Layout::Plain, Layout::Id, Layout::Priority, Layout::Delay, Layout::Kazoo];

    #[test]
    fn names_are_those_of_curator_and_kazoo() {
        assert_eq!(priority_stem(0), "queue-100000000");
        assert_eq!(priority_stem(10), "queue-10000000A");
        assert_eq!(priority_stem(i32::MAX), "queue-17FFFFFFF");
        assert_eq!(priority_stem(-1), "queue-0FFFFFFFF");
        assert_eq!(priority_stem(i32::MIN), "queue-080000000");
        assert_eq!(delay_stem(1), "queue-|00000001|");
        assert_eq!(delay_stem(1_700_000_000_000), "queue-|18BCFE56800|");
        assert_eq!(id_stem("a/b|c"), "queue-|a_b_c|");
        assert_eq!(kazoo_stem(7), "entry-007-");
    }

    #[test]
    fn each_name_is_read_as_it_was_written() {
        let stems = [
            (Layout::Simple, simple_stem().to_owned(), 0),
            (Layout::Plain, plain_stem().to_owned(), 0),
            (Layout::Id, id_stem("7"), 0),
            (Layout::Priority, priority_stem(-3), -3),
            (Layout::Priority, priority_stem(i32::MAX), i64::from(i32::MAX)),
            (Layout::Delay, delay_stem(1_700_000_000_000), 1_700_000_000_000),
            (Layout::Kazoo, kazoo_stem(100), 100),
        ];
        for (layout, stem, rank) in stems {
            for (number, text) in [
                (0, "0000000000"),
                (12, "0000000012"),
                (1 << 31, "-2147483648"),
                (u32::MAX, "-000000001"),
            ] {
                let name = format!("{stem}{text}");
                let order = Order { rank, number };
                let read = Some(ItemName { order, stem: &stem });
                assert_eq!(layout.item(&name), read, "{name}");
            }
        }
    }

    #[test]
    fn other_names_are_no_items() {
        let names = [
            "",
            "0000000001",
            "queue-1",
            "qn-000000000x",
            "_c_5b1f-queue-0000000001",
            "queue-|a0000000001",
            "queue-|a|b|0000000001",
            "entry-1000-0000000001",
            "entry-100_0000000001",
            "entry-\u{e9}00-0000000001",
            "zookeeper",
        ];
        for layout in LAYOUTS {
            for name in names {
                assert_eq!(layout.item(name), None, "{layout:?} {name}");
            }
        }
        assert_eq!(Layout::Priority.item("queue-0000000010000000001"), None, "a wrong sign");
        assert_eq!(Layout::Simple.item("queue-0000000001"), None);
    }

    #[test]
    fn items_are_ordered_by_priority_and_then_by_number() {
        let mut names = [
            "queue-1000000010000000003",
            "queue-1000000000000000009",
            "queue-0FFFFFFFF0000000004",
            "queue-0000000005",
            "queue-0FFFFFFFF0000000002",
            "queue-100000000-2147483648",
        ];
        names.sort_by_key(|name| Layout::Priority.item(name).expect("an item").order);
        let expected = [
            "queue-0000000005",
            "queue-0FFFFFFFF0000000002",
            "queue-0FFFFFFFF0000000004",
            "queue-1000000000000000009",
            "queue-100000000-2147483648",
            "queue-1000000010000000003",
        ];
        assert_eq!(names, expected);
    }
}
