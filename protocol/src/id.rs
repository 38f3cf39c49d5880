//! The ids of transactions, sessions and requests, and expected versions.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::jute::{Decode, Encode, Parsed};

/// A transaction id, ZooKeeper's zxid: the position of a write in the order of all writes.
///
/// A standalone server starts at 0 and adds 1 for each write. A refused write takes a zxid too.
///
/// ```
/// use zoolet_protocol::Zxid;
///
/// assert!(Zxid(2) > Zxid(1));
/// assert_eq!(Zxid(31).to_string(), "0x1f");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

impl Zxid {
    /// The zxid of a new server, and of replies that depend on no write.
    pub const ZERO: Self = Self(0);
    /// The zxid in the header of replies to unknown operations, and of events that `setWatches`
    /// reports.
    pub const NONE: Self = Self(-1);

    /// The zxid of the next write.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// The id of a session. The server chooses it; it is never 0.
///
/// ```
/// use zoolet_protocol::SessionId;
///
/// assert_eq!(SessionId(0x100_0000_0000_0000).to_string(), "0x100000000000000");
/// assert!(SessionId::NONE.is_none());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl SessionId {
    /// No session. A client sends it to get a new session.
    pub const NONE: Self = Self(0);

    /// Whether this is [`SessionId::NONE`].
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// The id of a request within its connection. The reply carries the same xid.
///
/// A client counts its requests with positive xids. Replies come in the order of the requests.
///
/// ```
/// use zoolet_protocol::Xid;
///
/// assert_eq!(Xid::PING, Xid(-2));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub i32);

impl Xid {
    /// The xid of every event.
    pub const EVENT: Self = Self(-1);
    /// The xid of every ping and its reply.
    pub const PING: Self = Self(-2);
    /// The xid of every `auth` packet and its reply.
    pub const AUTH: Self = Self(-4);
    /// The xid of every `setWatches` and its reply.
    pub const SET_WATCHES: Self = Self(-8);
}

/// The version that a conditional write expects.
///
/// ```
/// use zoolet_protocol::Expect;
///
/// assert!(Expect::Any.admits(7));
/// assert!(!Expect::Exactly(6).admits(7));
/// assert_eq!(Expect::from(-1), Expect::Any);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expect {
    /// Any version: -1 on the wire.
    Any,
    /// This version. -1 would mean [`Expect::Any`] on the wire; no znode ever has that version.
    Exactly(i32),
}

impl Expect {
    /// Whether a znode with `version` may be changed.
    #[must_use]
    pub fn admits(self, version: i32) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(expected) => expected == version,
        }
    }
}

impl From<i32> for Expect {
    fn from(version: i32) -> Self {
        if version == -1 { Self::Any } else { Self::Exactly(version) }
    }
}

impl From<Expect> for i32 {
    fn from(expect: Expect) -> Self {
        match expect {
            Expect::Any => -1,
            Expect::Exactly(version) => version,
        }
    }
}

impl Decode for Expect {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, version) = i32::decode(frame, input)?;
        Ok((input, version.into()))
    }
}

impl Encode for Expect {
    fn encode(&self, out: &mut BytesMut) {
        i32::from(*self).encode(out);
    }

    fn encoded_len(&self) -> usize {
        4
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zxid({self})")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

impl fmt::Debug for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Xid({})", self.0)
    }
}

/// Encodes and decodes a newtype over an integer like that integer.
macro_rules! integer_newtype {
    ($($name:ident($integer:ty)),+ $(,)?) => { $(
        impl $crate::Decode for $name {
            const MIN_BYTES: usize = size_of::<$integer>();

            fn decode<'a>(frame: &bytes::Bytes, input: &'a [u8]) -> $crate::Parsed<'a, Self> {
                let (input, integer) = <$integer as $crate::Decode>::decode(frame, input)?;
                Ok((input, Self(integer)))
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut bytes::BytesMut) {
                $crate::Encode::encode(&self.0, out);
            }

            fn encoded_len(&self) -> usize {
                size_of::<$integer>()
            }
        }
    )+ };
}
pub(crate) use integer_newtype;

integer_newtype!(Zxid(i64), SessionId(i64), Xid(i32));
