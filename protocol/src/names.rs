//! A list of names that is kept in its encoding.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::jute::{Decode, DecodeFault, Encode, Parsed, fail, put_count};
use crate::limits::SHARED_BYTES_MIN;
use crate::parts::Parts;

/// A list of names in its encoding, a `vector<ustring>`: children, ephemerals, watched paths.
///
/// Such a list can have ten thousand entries, of which the receiver mostly needs a few. It is
/// validated when it is decoded; iterating over it allocates nothing. As on the wire, a null list
/// and an empty list differ.
///
/// ```
/// use zoolet_protocol::Names;
///
/// let names: Names = ["lock-1", "lock-2"].into_iter().collect();
/// assert_eq!(names.len(), 2);
/// assert_eq!(names.iter().last(), Some("lock-2"));
/// ```
#[derive(Clone)]
pub struct Names {
    /// -1 for null.
    count: i32,
    /// The entries, each after its length.
    encoded: Encoded,
}

/// Encoded names.
#[derive(Clone)]
enum Encoded {
    Whole(Bytes),
    /// Parts that other lists may share, and the bytes of all of them. No name is in two parts.
    Parts(Arc<[Bytes]>, usize),
}

impl Names {
    /// The null list. Some operations refuse it, others treat it as an empty one.
    pub const NULL: Self = Self { count: -1, encoded: Encoded::Whole(Bytes::new()) };

    /// A list without names.
    pub const EMPTY: Self = Self { count: 0, encoded: Encoded::Whole(Bytes::new()) };

    /// Encodes names. With `bytes`, the bytes of all names and 4 more for each, this is one
    /// allocation.
    pub fn with_capacity<'a>(bytes: usize, names: impl Iterator<Item = &'a str>) -> Self {
        let mut encoded = BytesMut::with_capacity(bytes);
        let mut count = 0;
        for name in names {
            put_count(name.len(), &mut encoded);
            encoded.put_slice(name.as_bytes());
            count += 1;
        }
        Self { count, encoded: Encoded::Whole(encoded.freeze()) }
    }

    /// The names of several lists, one after the other. It shares their bytes.
    ///
    /// ```
    /// use zoolet_protocol::Names;
    ///
    /// let [first, second]: [Names; 2] = [["a", "b"], ["c", "d"]].map(Names::from_iter);
    /// assert_eq!(Names::joined([&first, &second]).to_vec(), ["a", "b", "c", "d"]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are more names than a list can have on the wire: 2^31.
    #[must_use]
    pub fn joined<'a>(lists: impl IntoIterator<Item = &'a Self>) -> Self {
        let (mut count, mut bytes, mut parts) = (0, 0, Vec::new());
        for list in lists {
            count += list.len();
            bytes += list.encoded_bytes();
            parts.extend_from_slice(list.parts());
        }
        let count = i32::try_from(count).expect("a list has fewer than 2^31 names");
        Self { count, encoded: Encoded::Parts(parts.into(), bytes) }
    }

    /// The encoded names, without their count.
    fn parts(&self) -> &[Bytes] {
        match &self.encoded {
            Encoded::Whole(bytes) => std::slice::from_ref(bytes),
            Encoded::Parts(parts, _) => parts,
        }
    }

    /// The bytes of all parts.
    fn encoded_bytes(&self) -> usize {
        match &self.encoded {
            Encoded::Whole(bytes) => bytes.len(),
            Encoded::Parts(_, bytes) => *bytes,
        }
    }

    /// Whether it shares all bytes with `other`, so that making one of the other copied none.
    #[must_use]
    pub fn shares_bytes_with(&self, other: &Self) -> bool {
        let place = |part: &Bytes| (part.as_ptr(), part.len());
        self.count == other.count
            && self.parts().iter().map(place).eq(other.parts().iter().map(place))
    }

    /// The number of names; 0 for the null list.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is the null list.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.count == -1
    }

    /// The names, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (mut parts, mut rest) = (self.parts().iter(), &[][..]);
        std::iter::from_fn(move || {
            while rest.is_empty() {
                rest = parts.next()?;
            }
            let (length, tail) = rest.split_first_chunk::<4>()?;
            let (name, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
            rest = tail;
            Some(std::str::from_utf8(name).expect("names are validated when they are decoded"))
        })
    }

    /// Whether the list is so long that replies share it instead of copying it.
    pub(crate) fn is_long(&self) -> bool {
        self.encoded_bytes() >= SHARED_BYTES_MIN
    }

    pub(crate) fn encode_in_parts(&self, out: &mut impl Parts) {
        out.buffer().put_i32(self.count);
        match &self.encoded {
            Encoded::Whole(bytes) => out.share(bytes),
            Encoded::Parts(parts, bytes) => out.share_all(parts, *bytes),
        }
    }

    /// The names as separate strings.
    #[must_use]
    pub fn to_vec(&self) -> Vec<String> {
        self.iter().map(str::to_owned).collect()
    }
}

/// Two lists are equal if their names are, however their bytes are shared.
impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl Eq for Names {}

impl Hash for Names {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.count.hash(state);
        self.iter().for_each(|name| name.hash(state));
    }
}

impl<'a> FromIterator<&'a str> for Names {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        Self::with_capacity(0, names.into_iter())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            f.write_str("null")
        } else {
            f.debug_list().entries(self.iter()).finish()
        }
    }
}

impl Decode for Names {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (start, count) = i32::decode(frame, input)?;
        if count == -1 {
            return Ok((start, Self::NULL));
        }
        let names = usize::try_from(count).unwrap_or(0);
        if names > start.len() / 4 {
            return fail(DecodeFault::LengthBeyondInput { claimed: count, left: start.len() });
        }
        let mut rest = start;
        let mut is_clean = true;
        for _ in 0..names {
            let (tail, name) = Option::<Bytes>::decode(frame, rest)?;
            is_clean &= name.is_some_and(|name| std::str::from_utf8(&name).is_ok());
            rest = tail;
        }
        let encoded = &start[..start.len() - rest.len()];
        let count = count.max(0);
        Ok((
            rest,
            if is_clean {
                Self { count, encoded: Encoded::Whole(frame.slice_ref(encoded)) }
            } else {
                repaired(encoded)
            },
        ))
    }
}

/// The names of a validated list with malformed UTF-8 replaced as in Java. A null name becomes the
/// empty string, which is not the name of a znode either.
fn repaired(mut rest: &[u8]) -> Names {
    let mut names = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (name, tail) = tail.split_at(length);
        names.push(crate::jute::repaired(name));
        rest = tail;
    }
    names.iter().map(String::as_str).collect()
}

impl Encode for Names {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.count);
        self.parts().iter().for_each(|part| out.put_slice(part));
    }

    fn encoded_len(&self) -> usize {
        4 + self.encoded_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jute::decode_all;

    #[test]
    fn malformed_names_are_replaced_as_in_java() {
        let mut wire = BytesMut::new();
        wire.put_i32(3);
        for name in [&b"good"[..], b"\xff", b"\xe4\xb8\xad"] {
            put_count(name.len(), &mut wire);
            wire.put_slice(name);
        }
        let names: Names = decode_all(&wire.freeze()).unwrap();
        assert_eq!(names.to_vec(), ["good", "\u{fffd}", "中"]);
    }

    #[test]
    fn a_joined_list_equals_one_that_was_made_at_once() {
        let list = |names: &[&'static str]| names.iter().copied().collect::<Names>();
        let whole = list(&["a", "", "bc", "d"]);
        let empty = Names::EMPTY;
        let joined = Names::joined([&list(&["a", ""]), &empty, &list(&["bc", "d"]), &empty]);
        assert_eq!(joined, whole);
        assert_eq!(joined.len(), 4);
        assert_eq!(joined.to_vec(), whole.to_vec());
        assert_eq!(joined.encoded_len(), whole.encoded_len());
        let encoded = |names: &Names| {
            let mut out = BytesMut::new();
            names.encode(&mut out);
            out.freeze()
        };
        assert_eq!(encoded(&joined), encoded(&whole));
        let hash = |names: &Names| {
            let mut hasher = std::hash::DefaultHasher::new();
            names.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&joined), hash(&whole));
        assert_eq!(Names::joined([&joined, &joined]).len(), 8);
        assert!(joined.shares_bytes_with(&joined.clone()) && !joined.shares_bytes_with(&whole));
        assert_ne!(Names::joined([]), Names::NULL);
    }

    #[test]
    fn counts_are_validated() {
        let decode =
            |count: i32| decode_all::<Names>(&Bytes::copy_from_slice(&count.to_be_bytes()));
        assert!(decode(-1).unwrap().is_null());
        assert!(!decode(0).unwrap().is_null());
        assert_eq!(decode(-7), Ok(Names::EMPTY));
        assert!(decode(1_000_000).is_err());
    }
}
