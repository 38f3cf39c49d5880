//! The data of the znodes of Curator's queues: one or more items (`ItemSerializer` of Curator).
//!
//! ```text
//! 00 01 00 01                 the version
//! 01 <length, 4 bytes> <item> for each item
//! 02                          the end
//! ```
//!
//! Numbers have their most significant byte first. What follows the end is ignored, as in Curator.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The version of the format.
const VERSION: u32 = 0x0001_0001;

/// The byte before an item.
const ITEM: u8 = 0x01;

/// The byte after the last item.
const END: u8 = 0x02;

/// The longest item: Curator reads the length as a signed number.
const ITEM_BYTES_MAX: usize = i32::MAX as usize;

/// Why data is not a list of items, or a list of items cannot be data.
///
/// ```
/// use zoolet_recipes::queue::{ItemError, decode_items};
///
/// assert_eq!(decode_items(&b"\0\0\0\x07".as_slice().into()), Err(ItemError::Version(7)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ItemError {
    /// The data ends within a list of items.
    #[error("the data of the queue's znode ends within a list of items, after {0} bytes")]
    Short(usize),
    /// The version is not that of Curator's queues.
    #[error("the data of the queue's znode begins with {0:#010x}, not with Curator's 0x00010001")]
    Version(u32),
    /// There is neither an item nor the end of the list.
    #[error("byte {at} of the queue's znode is {found:#04x}, where an item or the end must begin")]
    Code {
        /// The index of the byte.
        at: usize,
        /// The byte.
        found: u8,
    },
    /// The length of an item is negative.
    #[error("an item of the queue's znode has the length {0}")]
    Length(i32),
    /// An item is longer than Curator's format allows.
    #[error("an item has {0} bytes, and Curator's format allows 2147483647")]
    TooLong(usize),
}

/// The data of a znode with these items, as Curator's queues write it.
///
/// # Errors
///
/// [`ItemError::TooLong`].
///
/// ```
/// use zoolet_recipes::queue::{decode_items, encode_items};
///
/// let data = encode_items(["a", "bc"])?;
/// assert_eq!(&data[..], b"\0\x01\0\x01\x01\0\0\0\x01a\x01\0\0\0\x02bc\x02");
/// assert_eq!(decode_items(&data)?, ["a", "bc"]);
/// # Ok::<_, zoolet_recipes::queue::ItemError>(())
/// ```
pub fn encode_items(items: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Bytes, ItemError> {
    let mut out = BytesMut::new();
    out.put_u32(VERSION);
    for item in items {
        let item = item.as_ref();
        let length = u32::try_from(item.len()).ok().filter(|_| item.len() <= ITEM_BYTES_MAX);
        let length = length.ok_or(ItemError::TooLong(item.len()))?;
        out.put_u8(ITEM);
        out.put_u32(length);
        out.put_slice(item);
    }
    out.put_u8(END);
    Ok(out.freeze())
}

/// The items in the data of a znode of Curator's queues. They share the memory of the data.
///
/// # Errors
///
/// If the data is not such a list.
pub fn decode_items(data: &Bytes) -> Result<Vec<Bytes>, ItemError> {
    let mut rest = data.clone();
    let short = ItemError::Short(data.len());
    let version = rest.try_get_u32().map_err(|_| short)?;
    if version != VERSION {
        return Err(ItemError::Version(version));
    }
    let mut items = Vec::new();
    loop {
        let at = data.len() - rest.len();
        match rest.try_get_u8().map_err(|_| short)? {
            END => return Ok(items),
            ITEM => {}
            found => return Err(ItemError::Code { at, found }),
        }
        let length = rest.try_get_i32().map_err(|_| short)?;
        let length = usize::try_from(length).map_err(|_| ItemError::Length(length))?;
        if length > rest.len() {
            return Err(short);
        }
        items.push(rest.split_to(length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(data: &'static [u8]) -> Result<Vec<Bytes>, ItemError> {
        decode_items(&Bytes::from_static(data))
    }

    #[test]
    fn a_list_is_curators() {
        let none: [&[u8]; 0] = [];
        assert_eq!(&encode_items(none).expect("short")[..], b"\0\x01\0\x01\x02");
        assert_eq!(&encode_items([b""]).expect("short")[..], b"\0\x01\0\x01\x01\0\0\0\0\x02");
        assert_eq!(decoded(b"\0\x01\0\x01\x01\0\0\0\x01a\x02rest"), Ok(vec!["a".into()]));
    }

    #[test]
    fn every_list_is_read_again_and_every_part_of_it_is_short() {
        for lengths in [vec![], vec![0], vec![1, 0, 300], vec![70_000]] {
            let items: Vec<_> = lengths.iter().map(|length| vec![7_u8; *length]).collect();
            let data = encode_items(&items).expect("short");
            assert_eq!(decode_items(&data).expect("a list"), items);
            for length in 0..data.len() {
                let part = data.slice(..length);
                assert_eq!(decode_items(&part), Err(ItemError::Short(length)), "{lengths:?}");
            }
        }
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        assert_eq!(decoded(b""), Err(ItemError::Short(0)));
        assert_eq!(decoded(b"plain text"), Err(ItemError::Version(0x706c_6169)));
        assert_eq!(decoded(b"\0\x01\0\x01\x03"), Err(ItemError::Code { at: 4, found: 3 }));
        assert_eq!(decoded(b"\0\x01\0\x01\x01\xff\xff\xff\xff"), Err(ItemError::Length(-1)));
        let huge = b"\0\x01\0\x01\x01\x7f\xff\xff\xffx\x02";
        assert_eq!(decoded(huge), Err(ItemError::Short(huge.len())), "nothing is allocated");
    }
}
