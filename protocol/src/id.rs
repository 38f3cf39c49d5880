//! The integers that mean something: transaction, session and request ids, and versions.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::jute::{Decode, Encode, Parsed};

/// A transaction id: the position of a change in the order of all changes.
///
/// ZooKeeper's zxid. A standalone server counts from 0 by 1; a write that is refused takes one too.
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
    /// The zxid of a server that has seen no change; of replies that depend on none.
    pub const ZERO: Self = Self(0);
    /// What stands in the header of replies to unknown operations, and of events that report the
    /// past (`setWatches`).
    pub const NONE: Self = Self(-1);

    /// The zxid of the change after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// A session's id, chosen by the server and never 0 for a session that exists.
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
    /// No session: what a client sends to get a new one.
    pub const NONE: Self = Self(0);

    /// Whether this stands for no session.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// A request's id within its connection, by which a reply finds its request.
///
/// Ordinary ones are positive; replies come in the order of the requests.
///
/// ```
/// use zoolet_protocol::Xid;
///
/// assert_eq!(Xid::PING, Xid(-2));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub i32);

impl Xid {
    /// Marks a watch event.
    pub const EVENT: Self = Self(-1);
    /// Marks a ping and its reply.
    pub const PING: Self = Self(-2);
    /// Marks an `auth` packet and its reply.
    pub const AUTH: Self = Self(-4);
    /// Marks `setWatches` and its reply.
    pub const SET_WATCHES: Self = Self(-8);
}

/// The version that a conditional change expects.
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
    /// Whatever it is: -1 on the wire.
    Any,
    /// This version and no other. On the wire -1 would mean [`Expect::Any`], and no znode is ever
    /// at that version.
    Exactly(i32),
}

impl Expect {
    /// Whether a znode at `version` may be changed.
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

/// Gives a newtype over an integer the wire form of that integer.
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
