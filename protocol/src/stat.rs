//! The Stat of a znode.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::id::{SessionId, Zxid};
use crate::jute::{Decode, Encode, Parsed, within};

/// The Stat of a znode, as a client sees it: 68 bytes on the wire.
///
/// ```
/// use zoolet_protocol::{Encode, Stat};
///
/// assert_eq!(Stat::default().encoded_len(), 68);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Stat {
    /// The transaction that created the znode.
    pub czxid: Zxid,
    /// The transaction that last set its data.
    pub mzxid: Zxid,
    /// When it was created, in milliseconds since 1970.
    pub ctime: i64,
    /// When its data was last set, in milliseconds since 1970.
    pub mtime: i64,
    /// How many times its data was set. After an overflow, -1 is skipped.
    pub version: i32,
    /// How many times a child was created or deleted.
    pub cversion: i32,
    /// How many times its access control list was set.
    pub aversion: i32,
    /// The session of an ephemeral; 0 for every other znode.
    pub ephemeral_owner: SessionId,
    /// The length of its data in bytes; 0 for null.
    pub data_length: i32,
    /// The number of its children.
    pub num_children: i32,
    /// The transaction that last created or deleted a child; before that, the one that created
    /// the znode.
    pub pzxid: Zxid,
}

/// The bytes of a Stat.
pub(crate) const STAT_BYTES: usize = 68;

impl Stat {
    fn parse<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, czxid) = Decode::decode(frame, input)?;
        let (input, mzxid) = Decode::decode(frame, input)?;
        let (input, ctime) = Decode::decode(frame, input)?;
        let (input, mtime) = Decode::decode(frame, input)?;
        let (input, version) = Decode::decode(frame, input)?;
        let (input, cversion) = Decode::decode(frame, input)?;
        let (input, aversion) = Decode::decode(frame, input)?;
        let (input, ephemeral_owner) = Decode::decode(frame, input)?;
        let (input, data_length) = Decode::decode(frame, input)?;
        let (input, num_children) = Decode::decode(frame, input)?;
        let (input, pzxid) = Decode::decode(frame, input)?;
        let stat = Self {
            czxid,
            mzxid,
            ctime,
            mtime,
            version,
            cversion,
            aversion,
            ephemeral_owner,
            data_length,
            num_children,
            pzxid,
        };
        Ok((input, stat))
    }

    /// Its fields in their order. Every other reply has a Stat, so it is put together as one piece.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; STAT_BYTES] {
        let mut bytes = [0; STAT_BYTES];
        let mut rest = &mut bytes[..];
        rest.put_i64(self.czxid.0);
        rest.put_i64(self.mzxid.0);
        rest.put_i64(self.ctime);
        rest.put_i64(self.mtime);
        rest.put_i32(self.version);
        rest.put_i32(self.cversion);
        rest.put_i32(self.aversion);
        rest.put_i64(self.ephemeral_owner.0);
        rest.put_i32(self.data_length);
        rest.put_i32(self.num_children);
        rest.put_i64(self.pzxid.0);
        bytes
    }
}

impl Decode for Stat {
    const MIN_BYTES: usize = STAT_BYTES;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        within("Stat", Self::parse(frame, input))
    }
}

impl Encode for Stat {
    fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&self.to_bytes());
    }

    fn encoded_len(&self) -> usize {
        STAT_BYTES
    }
}
