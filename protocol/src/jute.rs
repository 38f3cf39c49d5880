//! Jute, ZooKeeper's serialisation: big-endian integers, length-prefixed strings and buffers,
//! counted vectors, and records as their fields in order.
//!
//! The class that this follows is `BinaryInputArchive` / `BinaryOutputArchive`. A record has no tag
//! and no padding, and bytes after the last field are ignored.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use nom::bytes::complete::take;
use nom::number::complete::{be_i32, be_i64, be_u8};
use nom::{Err as NomError, IResult};

/// What [`Decode::decode`] returns: the rest of the input, and the value.
pub type Parsed<'a, T> = Result<(&'a [u8], T), DecodeError>;

/// A value that can be read from a frame.
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
    /// The fewest bytes a value takes, by which the claimed count of a vector is checked.
    const MIN_BYTES: usize;

    /// Reads one value from the front of `input`, which must be a part of `frame`.
    ///
    /// Strings and buffers share the memory of `frame`.
    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self>;
}

/// A value that can be written to a frame.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, out: &mut BytesMut);

    /// How many bytes [`Encode::encode`] appends.
    fn encoded_len(&self) -> usize;
}

/// Reads one value from the front of a frame; bytes after it are ignored, as ZooKeeper does.
///
/// # Errors
///
/// [`DecodeError`] names the record and what was wrong with it.
pub fn decode_all<T: Decode>(frame: &Bytes) -> Result<T, DecodeError> {
    finish(T::decode(frame, frame))
}

/// Reads one value from the front of `bytes`, and leaves what comes after it.
///
/// # Errors
///
/// As [`decode_all`]; `bytes` is as it was then.
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
    let (left, value) = match T::decode(bytes, bytes) {
        Ok((rest, value)) => (rest.len(), value),
        Err(error) => return Err(error),
    };
    bytes.advance(bytes.len() - left);
    Ok(value)
}

pub(crate) fn finish<T>(parsed: Parsed<'_, T>) -> Result<T, DecodeError> {
    parsed.map(|(_rest, value)| value)
}

/// The result of one of nom's parsers, all of which only fail when the input is too short.
fn from_nom<T>(parsed: IResult<&[u8], T>) -> Parsed<'_, T> {
    parsed.map_err(|error| match error {
        NomError::Error(error) | NomError::Failure(error) => {
            DecodeError { record: "", fault: DecodeFault::Truncated { left: error.input.len() } }
        }
        NomError::Incomplete(_) => unreachable!("only complete parsers are used"),
    })
}

/// Bytes that are not the record they should be.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_protocol::{Stat, decode_all};
///
/// let error = decode_all::<Stat>(&Bytes::from_static(&[0; 10])).unwrap_err();
/// assert_eq!(error.to_string(), "Stat: the bytes end inside a field, 2 left of it");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError {
    /// The outermost record that was being read; empty for a bare value.
    pub record: &'static str,
    /// What was wrong.
    pub fault: DecodeFault,
}

/// What can be wrong with the bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeFault {
    /// The input ends before the field does.
    Truncated {
        /// The bytes that were there.
        left: usize,
    },
    /// A length below -1, which means null.
    NegativeLength(i32),
    /// A length or count greater than the bytes that follow can hold.
    LengthBeyondInput {
        /// What was claimed.
        claimed: i32,
        /// The bytes that were there.
        left: usize,
    },
    /// Null where ZooKeeper does not take it.
    Null,
    /// A code that does not exist.
    UnknownCode(i32),
    /// A read among the operations of a multi, or a write among those of a multiRead.
    MixedMulti,
    /// A multiRead of nothing but writes, to which ZooKeeper answers an error *with* a body.
    WriteInMultiRead,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.record.is_empty() {
            write!(f, "{}: ", self.record)?;
        }
        match self.fault {
            DecodeFault::Truncated { left } => {
                write!(f, "the bytes end inside a field, {left} left of it")
            }
            DecodeFault::NegativeLength(length) => write!(f, "a length of {length}"),
            DecodeFault::LengthBeyondInput { claimed, left } => {
                write!(f, "a length of {claimed} where {left} bytes are left")
            }
            DecodeFault::Null => f.write_str("null where a value is needed"),
            DecodeFault::UnknownCode(code) => write!(f, "unknown code {code}"),
            DecodeFault::MixedMulti => f.write_str("reads and writes in one multi"),
            DecodeFault::WriteInMultiRead => f.write_str("a write in a multiRead"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A parse that ends with `fault`.
pub(crate) fn fail<T>(fault: DecodeFault) -> Parsed<'static, T> {
    Err(DecodeError { record: "", fault })
}

/// Names the record in an error that came from within it.
pub(crate) fn within<'a, T>(record: &'static str, parsed: Parsed<'a, T>) -> Parsed<'a, T> {
    parsed.map_err(|error| DecodeError { record, ..error })
}

/// Declares a record: a struct whose wire form is its fields in order.
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
        from_nom(be_i32(input))
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
        from_nom(be_i64(input))
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

    /// Any byte but zero is true.
    fn decode<'a>(_: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, byte) = from_nom(be_u8(input))?;
        Ok((input, byte != 0))
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

/// The bytes of a string or buffer, `None` for the length -1.
fn length_prefixed(input: &[u8]) -> Parsed<'_, Option<&[u8]>> {
    let (input, length) = from_nom(be_i32(input))?;
    match usize::try_from(length) {
        Ok(length_bytes) if length_bytes <= input.len() => {
            let (input, bytes) = from_nom(take(length_bytes)(input))?;
            Ok((input, Some(bytes)))
        }
        Ok(_) => fail(DecodeFault::LengthBeyondInput { claimed: length, left: input.len() }),
        Err(_) if length == -1 => Ok((input, None)),
        Err(_) => fail(DecodeFault::NegativeLength(length)),
    }
}

fn encode_length_prefixed(bytes: Option<&[u8]>, out: &mut BytesMut) {
    match bytes {
        None => out.put_i32(-1),
        Some(bytes) => {
            put_count(bytes.len(), out);
            out.put_slice(bytes);
        }
    }
}

/// Writes a length or a count.
pub(crate) fn put_count(count: usize, out: &mut BytesMut) {
    out.put_i32(i32::try_from(count).expect("what is encoded is shorter than 2 GiB"));
}

impl Decode for Option<Bytes> {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, bytes) = length_prefixed(input)?;
        Ok((input, bytes.map(|bytes| slice_of(frame, bytes))))
    }
}

impl Encode for Option<Bytes> {
    fn encode(&self, out: &mut BytesMut) {
        encode_length_prefixed(self.as_deref(), out);
    }

    fn encoded_len(&self) -> usize {
        4 + self.as_ref().map_or(0, Bytes::len)
    }
}

/// `part` of `frame` as bytes that share its memory.
fn slice_of(frame: &Bytes, part: &[u8]) -> Bytes {
    if part.is_empty() { Bytes::new() } else { frame.slice_ref(part) }
}

/// Text whose malformed parts are U+FFFD, as in Java: like [`String::from_utf8_lossy`], but that
/// an encoded surrogate is one malformed part, and not one for each of its bytes.
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
        text.push_str(std::str::from_utf8(valid).expect("it was just found valid"));
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

    /// A count below -1 reads as an empty vector, as in Java.
    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (mut input, count) = from_nom(be_i32(input))?;
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
    fn malformed_text_is_repaired_as_java_does() {
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
