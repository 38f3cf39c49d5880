//! Paths: [`RawPath`] as it came over the wire, and [`ZPath`], which is valid.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use memchr::memrchr;

use crate::jute::{Decode, Encode, Parsed};

/// A path as it came over the wire: any text, or null.
///
/// ZooKeeper makes other checks before it validates a path. So a request carries a `RawPath`, and
/// the server makes a [`ZPath`] of it at the same point as ZooKeeper.
///
/// ```
/// use zoolet_protocol::RawPath;
///
/// assert_eq!(RawPath::from("/a//b").text(), Some("/a//b"));
/// assert_eq!(RawPath::NULL.text(), None);
/// ```
#[derive(Clone)]
pub struct RawPath(Text);

#[derive(Clone)]
enum Text {
    Received(Option<ByteString>),
    /// That of a znode, whose memory a reply shares.
    Valid(ZPath),
}

impl RawPath {
    /// The null string, length -1.
    pub const NULL: Self = Self(Text::Received(None));

    /// The text, or `None` for null.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.0 {
            Text::Received(text) => text.as_deref(),
            Text::Valid(path) => Some(path),
        }
    }
}

impl PartialEq for RawPath {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for RawPath {}

impl PartialOrd for RawPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RawPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text().cmp(&other.text())
    }
}

impl Hash for RawPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl fmt::Debug for RawPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawPath").field(&self.text()).finish()
    }
}

impl From<&str> for RawPath {
    fn from(path: &str) -> Self {
        ByteString::from(path).into()
    }
}

impl From<String> for RawPath {
    fn from(path: String) -> Self {
        ByteString::from(path).into()
    }
}

impl From<ByteString> for RawPath {
    fn from(path: ByteString) -> Self {
        Some(path).into()
    }
}

impl From<Option<ByteString>> for RawPath {
    /// `None` is null.
    fn from(path: Option<ByteString>) -> Self {
        Self(Text::Received(path))
    }
}

impl From<&ZPath> for RawPath {
    /// The two share one allocation.
    fn from(path: &ZPath) -> Self {
        Self(Text::Valid(path.clone()))
    }
}

impl fmt::Display for RawPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().unwrap_or("null"))
    }
}

impl Decode for RawPath {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, text) = Option::<ByteString>::decode(frame, input)?;
        Ok((input, Self(Text::Received(text))))
    }
}

impl Encode for RawPath {
    fn encode(&self, out: &mut BytesMut) {
        match &self.0 {
            Text::Received(text) => text.encode(out),
            Text::Valid(path) => path.encode(out),
        }
    }

    fn encoded_len(&self) -> usize {
        4 + self.text().map_or(0, str::len)
    }
}

/// A valid path by the rules of ZooKeeper's `PathUtils`.
///
/// Clones share one allocation.
///
/// ```
/// use zoolet_protocol::ZPath;
///
/// let path = ZPath::parse("/locks/lock-0000000001")?;
/// assert_eq!(path.name(), "lock-0000000001");
/// assert_eq!(path.parent(), Some("/locks"));
/// assert_eq!(ZPath::root().parent(), None);
/// assert_eq!(ZPath::parse("/a/../b").unwrap_err().to_string(), "\"/a/../b\": a component is \"..\"");
/// # Ok::<(), zoolet_protocol::PathError>(())
/// ```
#[derive(Clone, Eq, PartialOrd, Ord)]
pub struct ZPath(Arc<str>);

impl PartialEq for ZPath {
    /// Clones are seen to be equal without a look at their text, which in a large tree no cache holds.
    fn eq(&self, other: &Self) -> bool {
        self.is_clone_of(other) || self.0 == other.0
    }
}

impl Hash for ZPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl ZPath {
    /// `/`.
    #[must_use]
    pub fn root() -> Self {
        Self("/".into())
    }

    /// Whether the two share one allocation.
    ///
    /// ```
    /// use zoolet_protocol::ZPath;
    ///
    /// let path = ZPath::parse("/a")?;
    /// assert!(path.clone().is_clone_of(&path));
    /// assert!(!ZPath::parse("/a")?.is_clone_of(&path));
    /// # Ok::<(), zoolet_protocol::PathError>(())
    /// ```
    #[must_use]
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The bytes of the text, which share its allocation: a key that is found by bytes.
    ///
    /// ```
    /// use zoolet_protocol::ZPath;
    ///
    /// assert_eq!(&*ZPath::root().to_shared_bytes(), b"/");
    /// ```
    #[must_use]
    pub fn to_shared_bytes(&self) -> Arc<[u8]> {
        Arc::clone(&self.0).into()
    }

    /// Validates a path.
    ///
    /// # Errors
    ///
    /// [`PathError`] tells which rule the path breaks.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        Self::check(path)?;
        Ok(Self(path.into()))
    }

    /// Validates a path without allocating.
    ///
    /// # Errors
    ///
    /// [`PathError`] tells which rule the path breaks.
    pub fn check(path: &str) -> Result<(), PathError> {
        validate(path).map_err(|fault| PathError { path: path.to_owned(), fault })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        &*self.0 == "/"
    }

    /// The path of the parent, `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        match last_slash(&*self.0)? {
            slash if slash + 1 == self.0.len() => None,
            0 => Some("/"),
            slash => Some(&self.0[..slash]),
        }
    }

    /// The last component; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        last_slash(&*self.0).map_or("", |slash| &self.0[slash + 1..])
    }
}

/// The index of the last slash of a path. Names of locks have some fifty bytes, so that this searches
/// many bytes at once.
///
/// ```
/// use zoolet_protocol::last_slash;
///
/// assert_eq!([last_slash("/locks/lock-0"), last_slash("relative")], [Some(6), None]);
/// ```
#[must_use]
pub fn last_slash(path: impl AsRef<[u8]>) -> Option<usize> {
    memrchr(b'/', path.as_ref())
}

/// The digits of the number that a server appends to the name of a sequential znode. Numbers beyond
/// 2^31 - 1 are negative and have a sign before them.
pub const SEQUENCE_DIGITS: usize = 10;

/// The number that a server has appended to a name after `prefix`. `None` if the name does not end
/// in `prefix` and such a number. Other text may stand before the prefix, as the id of Curator's
/// protected creates does. With an empty prefix, the number is the last ten characters.
///
/// ```
/// use zoolet_protocol::sequence_number;
///
/// assert_eq!(sequence_number("_c_5b1f-lock-0000000012", "lock-"), Some(12));
/// assert_eq!(sequence_number("lock-12", "lock-"), None);
/// ```
#[must_use]
pub fn sequence_number(name: &str, prefix: &str) -> Option<i32> {
    let number = match prefix {
        "" => name.get(name.len().checked_sub(SEQUENCE_DIGITS)?..)?,
        _ => name.rsplit_once(prefix)?.1,
    };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number =
        number.len() >= SEQUENCE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().ok())?
}

impl Deref for ZPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ZPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ZPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ZPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ZPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Encode for ZPath {
    fn encode(&self, out: &mut BytesMut) {
        crate::jute::put_count(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }

    fn encoded_len(&self) -> usize {
        4 + self.len()
    }
}

/// Why a text is not a valid path.
///
/// ```
/// use zoolet_protocol::ZPath;
///
/// let error = ZPath::parse("no-slash").unwrap_err();
/// assert_eq!(error.to_string(), "\"no-slash\": does not begin with /");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?}: {fault}")]
pub struct PathError {
    /// The text.
    pub path: String,
    fault: PathFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum PathFault {
    #[error("empty")]
    Empty,
    #[error("does not begin with /")]
    NoLeadingSlash,
    #[error("ends with /")]
    TrailingSlash,
    #[error("a component is empty")]
    EmptyComponent,
    #[error("a component is \".\"")]
    Dot,
    #[error("a component is \"..\"")]
    DotDot,
    #[error("the character {0:?} is not allowed")]
    Character(char),
}

fn validate(path: &str) -> Result<(), PathFault> {
    if path.is_empty() {
        return Err(PathFault::Empty);
    }
    let Some(components) = path.strip_prefix('/') else {
        return Err(PathFault::NoLeadingSlash);
    };
    if components.is_empty() {
        return Ok(());
    }
    if components.ends_with('/') {
        return Err(PathFault::TrailingSlash);
    }
    // Most paths are ASCII without control characters, and no component begins with a dot. Bytes are looked at
    // without a branch, many at once: that is faster than to stop at the first wrong one.
    let pairs = path.as_bytes().iter().zip(components.as_bytes());
    let is_plain = |(before, byte): (&u8, &u8)| {
        (0x20..0x7f).contains(byte) & ((*before != b'/') | ((*byte != b'/') & (*byte != b'.')))
    };
    if pairs.fold(true, |all, pair| all & is_plain(pair)) {
        return Ok(());
    }
    for component in components.split('/') {
        match component {
            "" => return Err(PathFault::EmptyComponent),
            "." => return Err(PathFault::Dot),
            ".." => return Err(PathFault::DotDot),
            _ => {}
        }
    }
    path.chars().find(|&c| is_forbidden(c)).map_or(Ok(()), |c| Err(PathFault::Character(c)))
}

/// The characters that `PathUtils.validatePath` refuses. Java represents characters beyond U+FFFF
/// by two surrogates, and refuses surrogates.
fn is_forbidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{fff0}'..='\u{ffff}'
            | '\u{10000}'..
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_paths_are_refused() {
        let refused = [
            ("", PathFault::Empty),
            ("a", PathFault::NoLeadingSlash),
            ("/a/", PathFault::TrailingSlash),
            ("//", PathFault::TrailingSlash),
            ("/a//b", PathFault::EmptyComponent),
            ("/.", PathFault::Dot),
            ("/a/../b", PathFault::DotDot),
            ("/a\0", PathFault::Character('\0')),
            ("/\u{1}", PathFault::Character('\u{1}')),
            ("/\u{7f}", PathFault::Character('\u{7f}')),
            ("/\u{9f}", PathFault::Character('\u{9f}')),
            ("/\u{e000}", PathFault::Character('\u{e000}')),
            ("/\u{fffd}", PathFault::Character('\u{fffd}')),
            ("/😀", PathFault::Character('😀')),
        ];
        for (path, fault) in refused {
            assert_eq!(validate(path), Err(fault), "{path:?}");
        }
        for path in ["/", "/a", "/a/b", "/...", "/.a", "/ ", "/ä", "/中文", "/\u{a0}"] {
            assert_eq!(validate(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn what_is_invalid_is_found_at_each_place_of_paths_of_many_lengths() {
        let is_allowed = |path: &str| {
            let has_plain_names = path[1..].split('/').all(|name| !matches!(name, "" | "." | ".."));
            has_plain_names && !path.chars().any(is_forbidden)
        };
        for pair in (0..0x80_u8).flat_map(|first| (0..0x80_u8).map(move |second| [first, second])) {
            let path = format!("/a/many{}names", String::from_utf8_lossy(&pair));
            assert_eq!(validate(&path).is_ok(), is_allowed(&path), "{path:?}");
        }
        for length in 1..70 {
            for part in
                ["a", "\0", "\u{1f}", " ", "~", "\u{7f}", "ä", "\u{80}", "/b", "//", "/.", "/.a"]
            {
                for place in 1..=length {
                    let mut path = format!("/{}", "a".repeat(length));
                    path.replace_range(place..=place, part);
                    for path in [format!("{path}/b"), path] {
                        let is_valid = validate(&path).is_ok();
                        assert_eq!(is_valid, is_allowed(&path), "{path:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_path_of_a_znode_is_the_same_as_one_that_was_received() {
        let valid = RawPath::from(&ZPath::parse("/a/b").unwrap());
        let received = RawPath::from("/a/b");
        assert_eq!((&valid, valid.cmp(&received)), (&received, Ordering::Equal));
        assert_eq!(format!("{valid:?} {valid}"), format!("{received:?} {received}"));
        let encoded = |path: &RawPath| {
            let mut out = BytesMut::new();
            path.encode(&mut out);
            assert_eq!(out.len(), path.encoded_len());
            out
        };
        assert_eq!(encoded(&valid), encoded(&received));
        assert!(valid > RawPath::NULL && valid != RawPath::NULL);
    }

    #[test]
    fn a_sequence_number_ends_the_name() {
        let cases = [
            ("lock-0000000007", Some(7)),
            ("_c_lock-11-lock-0000000007", Some(7)),
            ("lock--2147483648", Some(i32::MIN)),
            ("lock-00000000x7", None),
            ("lock-0000000007-", None),
            ("lock-99999999999", None),
            ("lock-7", None),
            ("0000000007", None),
        ];
        for (name, number) in cases {
            assert_eq!(sequence_number(name, "lock-"), number, "{name}");
        }
        assert_eq!(sequence_number("any-0000000007", ""), Some(7));
        assert_eq!(sequence_number("0000000007", ""), Some(7));
        assert_eq!(sequence_number("any", ""), None);
    }

    #[test]
    fn a_path_has_a_parent_and_a_name() {
        let parts = |path: &str| {
            let path = ZPath::parse(path).unwrap();
            (path.parent().map(str::to_owned), path.name().to_owned())
        };
        assert_eq!(parts("/"), (None, String::new()));
        assert_eq!(parts("/a"), (Some("/".into()), "a".into()));
        assert_eq!(parts("/a/b"), (Some("/a".into()), "b".into()));
    }
}
