//! Jute, ZooKeeper's serialisation: big-endian integers, length-prefixed strings and buffers,
//! counted vectors, and records as their fields in order.
//!
//! The class that this follows is `BinaryInputArchive` / `BinaryOutputArchive`. A record has no tag
//! and no padding, and bytes after the last field are ignored.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use nom::bytes::complete::take;
use nom::error::{ErrorKind, ParseError};
use nom::number::complete::{be_i32, be_i64, be_u8};
use nom::{Err as NomError, Parser};

/// The result of decoding one value from the front of an input: the rest of the input, and the
/// value.
pub type Parsed<'a, T> = Result<(&'a [u8], T), DecodeError>;

/// A value that can be decoded from a frame.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_protocol::{Decode, Encode, decode_all};
///
/// let mut out = bytes::BytesMut::new();
/// 7i32.encode(&mut out);
/// assert_eq!(decode_all::<i32>(&out.freeze()), Ok(7));
/// assert!(decode_all::<i32>(&Bytes::from_static(&[0, 0])).is_err());
/// ```
pub trait Decode: Sized {
    /// The fewest bytes that a value has on the wire. The count of a vector is checked with it.
    const MIN_BYTES: usize;

    /// Decodes one value from the front of `input`, which must be a part of `frame`. Strings and
    /// buffers share the memory of `frame`.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] names the record and what is wrong with its bytes.
    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self>;
}

/// A value that can be encoded into a frame.
pub trait Encode {
    /// Appends the value to `out`.
    fn encode(&self, out: &mut BytesMut);

    /// The number of bytes that [`Encode::encode`] appends.
    fn encoded_len(&self) -> usize;
}

/// Decodes one value from the front of a frame. As in ZooKeeper, bytes after it are ignored.
///
/// # Errors
///
/// [`DecodeError`] names the record and what is wrong with its bytes.
pub fn decode_all<T: Decode>(frame: &Bytes) -> Result<T, DecodeError> {
    T::decode(frame, frame).map(|(_, value)| value)
}

/// Decodes one value from the front of `bytes` and removes its bytes.
///
/// # Errors
///
/// As [`decode_all`]. Then `bytes` is unchanged.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_protocol::decode_front;
///
/// let mut bytes = Bytes::from_static(&[0, 0, 0, 7, 1]);
/// assert_eq!(decode_front::<i32>(&mut bytes), Ok(7));
/// assert_eq!(decode_front::<bool>(&mut bytes), Ok(true));
/// assert!(decode_front::<bool>(&mut bytes).is_err());
/// ```
pub fn decode_front<T: Decode>(bytes: &mut Bytes) -> Result<T, DecodeError> {
    let (left, value) = T::decode(bytes, bytes).map(|(rest, value)| (rest.len(), value))?;
    bytes.advance(bytes.len() - left);
    Ok(value)
}

/// Runs a parser of nom's.
fn run<'a, T>(
    mut parser: impl Parser<&'a [u8], Output = T, Error = DecodeError>,
    input: &'a [u8],
) -> Parsed<'a, T> {
    parser.parse(input).map_err(|error| match error {
        NomError::Error(error) | NomError::Failure(error) => error,
        NomError::Incomplete(_) => unreachable!("only parsers of complete input are used"),
    })
}

/// Why bytes are not the encoding of a record.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_protocol::{Stat, decode_all};
///
/// let error = decode_all::<Stat>(&Bytes::from_static(&[0; 10])).unwrap_err();
/// assert_eq!(error.to_string(), "Stat: the bytes end within a field (2 left)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError {
    /// The outermost record that was being decoded. Empty for a value that is no record.
    pub record: &'static str,
    /// What is wrong.
    pub fault: DecodeFault,
}

/// What can be wrong with the bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeFault {
    /// The input ends within a field.
    Truncated {
        /// The bytes that are left for the field.
        left: usize,
    },
    /// A length is less than -1, the length of null.
    NegativeLength(i32),
    /// A length or count is greater than the bytes after it can hold.
    LengthBeyondInput {
        /// The length or count.
        claimed: i32,
        /// The bytes that are left.
        left: usize,
    },
    /// A value is null where ZooKeeper does not accept null.
    Null,
    /// An operation code is unknown.
    UnknownCode(i32),
    /// A multi contains a read, or a multiRead contains a write beside reads.
    MixedMulti,
    /// A multiRead contains writes only. ZooKeeper replies to it with an error *and* a body.
    WriteInMultiRead,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.record.is_empty() {
            write!(f, "{}: ", self.record)?;
        }
        match self.fault {
            DecodeFault::Truncated { left } => {
                write!(f, "the bytes end within a field ({left} left)")
            }
            DecodeFault::NegativeLength(length) => write!(f, "the length {length} is negative"),
            DecodeFault::LengthBeyondInput { claimed, left } => {
                write!(f, "the length or count is {claimed}, but only {left} bytes are left")
            }
            DecodeFault::Null => f.write_str("a value that must not be null is null"),
            DecodeFault::UnknownCode(code) => write!(f, "the operation code {code} is unknown"),
            DecodeFault::MixedMulti => f.write_str("a multi contains both reads and writes"),
            DecodeFault::WriteInMultiRead => f.write_str("a multiRead contains only writes"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl ParseError<&[u8]> for DecodeError {
    fn from_error_kind(input: &[u8], _: ErrorKind) -> Self {
        Self { record: "", fault: DecodeFault::Truncated { left: input.len() } }
    }

    fn append(_: &[u8], _: ErrorKind, other: Self) -> Self {
        other
    }
}

/// Fails with `fault`.
pub(crate) fn fail<T>(fault: DecodeFault) -> Parsed<'static, T> {
    Err(DecodeError { record: "", fault })
}

/// Names the record in an error about one of its fields.
pub(crate) fn within<'a, T>(record: &'static str, parsed: Parsed<'a, T>) -> Parsed<'a, T> {
    parsed.map_err(|error| DecodeError { record, ..error })
}

/// Declares a record: a struct that is encoded as its fields in order.
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_visibility:vis $field:ident : $type:ty ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $visibility struct $name {
            $( $(#[$field_meta])* $field_visibility $field: $type, )+
        }

        impl $crate::Decode for $name {
            const MIN_BYTES: usize = 0 $( + <$type as $crate::Decode>::MIN_BYTES )+;

            fn decode<'a>(
                frame: &::bytes::Bytes,
                input: &'a [u8],
            ) -> $crate::Parsed<'a, Self> {
                $( let (input, $field) = match <$type as $crate::Decode>::decode(frame, input) {
                    Ok(parsed) => parsed,
                    Err(error) => {
                        return Err($crate::DecodeError { record: stringify!($name), ..error });
                    }
                }; )+
                Ok((input, Self { $( $field ),+ }))
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut ::bytes::BytesMut) {
                $( $crate::Encode::encode(&self.$field, out); )+
            }

            fn encoded_len(&self) -> usize {
                0 $( + $crate::Encode::encoded_len(&self.$field) )+
            }
        }
    };
}

impl Decode for i32 {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(_: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        run(be_i32, input)
    }
}

impl Encode for i32 {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(*self);
    }

    fn encoded_len(&self) -> usize {
        4
    }
}

impl Decode for i64 {
    const MIN_BYTES: usize = 8;

    fn decode<'a>(_: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        run(be_i64, input)
    }
}

impl Encode for i64 {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i64(*self);
    }

    fn encoded_len(&self) -> usize {
        8
    }
}

impl Decode for bool {
    const MIN_BYTES: usize = 1;

    /// Every byte except zero is true.
    fn decode<'a>(_: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        run(be_u8.map(|byte| byte != 0), input)
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(u8::from(*self));
    }

    fn encoded_len(&self) -> usize {
        1
    }
}

/// The bytes of a string or buffer. `None` for the length -1, which is null.
pub(crate) fn length_prefixed(input: &[u8]) -> Parsed<'_, Option<&[u8]>> {
    let (input, length) = run(be_i32, input)?;
    match usize::try_from(length) {
        Ok(length_bytes) if length_bytes <= input.len() => run(take(length_bytes).map(Some), input),
        Ok(_) => fail(DecodeFault::LengthBeyondInput { claimed: length, left: input.len() }),
        Err(_) if length == -1 => Ok((input, None)),
        Err(_) => fail(DecodeFault::NegativeLength(length)),
    }
}

pub(crate) fn encode_length_prefixed(bytes: Option<&[u8]>, out: &mut BytesMut) {
    match bytes {
        None => out.put_i32(-1),
        Some(bytes) => {
            put_count(bytes.len(), out);
            out.put_slice(bytes);
        }
    }
}

/// Appends a length or a count.
pub(crate) fn put_count(count: usize, out: &mut BytesMut) {
    out.put_i32(i32::try_from(count).expect("a frame is shorter than 2 GiB"));
}

impl Decode for Option<Bytes> {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, bytes) = length_prefixed(input)?;
        Ok((input, bytes.map(|bytes| slice_of(frame, bytes))))
    }
}

impl Encode for Option<&[u8]> {
    fn encode(&self, out: &mut BytesMut) {
        encode_length_prefixed(*self, out);
    }

    fn encoded_len(&self) -> usize {
        4 + self.map_or(0, <[u8]>::len)
    }
}

impl Encode for Option<Bytes> {
    fn encode(&self, out: &mut BytesMut) {
        self.as_deref().encode(out);
    }

    fn encoded_len(&self) -> usize {
        self.as_deref().encoded_len()
    }
}

/// The slice of `frame` that `part` is, sharing its memory.
pub(crate) fn slice_of(frame: &Bytes, part: &[u8]) -> Bytes {
    if part.is_empty() { Bytes::new() } else { frame.slice_ref(part) }
}

/// Replaces malformed parts of a text by U+FFFD as Java does. Unlike [`String::from_utf8_lossy`] it
/// replaces an encoded surrogate by one character and not by one for each byte.
pub(crate) fn repaired(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        let error = match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                return text;
            }
            Err(error) => error,
        };
        let (valid, malformed) = rest.split_at(error.valid_up_to());
        text.push_str(std::str::from_utf8(valid).expect("this part was found to be valid"));
        text.push(char::REPLACEMENT_CHARACTER);
        let length = match malformed {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            [0xed, 0xa0..=0xbf, ..] => 2,
            _ => error.error_len().unwrap_or(malformed.len()),
        };
        rest = &malformed[length..];
    }
}

impl Decode for Option<ByteString> {
    const MIN_BYTES: usize = 4;

    /// Malformed UTF-8 becomes U+FFFD, as in Java.
    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let text = |bytes: &[u8]| {
            ByteString::try_from(slice_of(frame, bytes)).unwrap_or_else(|_| repaired(bytes).into())
        };
        let (input, bytes) = length_prefixed(input)?;
        Ok((input, bytes.map(text)))
    }
}

impl Encode for Option<ByteString> {
    fn encode(&self, out: &mut BytesMut) {
        encode_length_prefixed(self.as_ref().map(|text| text.as_bytes().as_ref()), out);
    }

    fn encoded_len(&self) -> usize {
        4 + self.as_ref().map_or(0, |text| text.len())
    }
}

impl Decode for ByteString {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        match Option::<Self>::decode(frame, input)? {
            (rest, Some(text)) => Ok((rest, text)),
            (_, None) => fail(DecodeFault::Null),
        }
    }
}

impl Encode for ByteString {
    fn encode(&self, out: &mut BytesMut) {
        encode_length_prefixed(Some(self.as_bytes()), out);
    }

    fn encoded_len(&self) -> usize {
        4 + self.len()
    }
}

impl<T: Decode> Decode for Option<Vec<T>> {
    const MIN_BYTES: usize = 4;

    /// As in Java, a count less than -1 stands for an empty vector.
    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (mut input, count) = run(be_i32, input)?;
        if count == -1 {
            return Ok((input, None));
        }
        let claimed = usize::try_from(count).unwrap_or(0);
        if claimed > input.len() / T::MIN_BYTES {
            return fail(DecodeFault::LengthBeyondInput { claimed: count, left: input.len() });
        }
        let mut items = Vec::with_capacity(claimed);
        for _ in 0..claimed {
            let (rest, item) = T::decode(frame, input)?;
            items.push(item);
            input = rest;
        }
        Ok((input, Some(items)))
    }
}

impl<T: Encode> Encode for Option<Vec<T>> {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            None => out.put_i32(-1),
            Some(items) => encode_slice(items, out),
        }
    }

    fn encoded_len(&self) -> usize {
        self.as_ref().map_or(4, |items| slice_len(items))
    }
}

impl<T: Decode> Decode for Vec<T> {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        match Option::<Self>::decode(frame, input)? {
            (rest, Some(items)) => Ok((rest, items)),
            (_, None) => fail(DecodeFault::Null),
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut BytesMut) {
        encode_slice(self, out);
    }

    fn encoded_len(&self) -> usize {
        slice_len(self)
    }
}

fn encode_slice<T: Encode>(items: &[T], out: &mut BytesMut) {
    put_count(items.len(), out);
    for item in items {
        item.encode(out);
    }
}

fn slice_len<T: Encode>(items: &[T]) -> usize {
    4 + items.iter().map(Encode::encoded_len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_text_is_replaced_as_in_java() {
        let cases: [(&[u8], &str); 6] = [
            (b"plain", "plain"),
            (b"\xed\xa0\xbd\xed\xb8\x80:x", "\u{fffd}\u{fffd}:x"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xed\xa0x", "\u{fffd}x"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"\xe4\xb8", "\u{fffd}"),
        ];
        for (bytes, text) in cases {
            assert_eq!(repaired(bytes), text, "{bytes:x?}");
        }
    }
}
