//! What a znode's life depends on, and how ZooKeeper packs it into one number.

use zoolet_protocol::{CreateKind, Decode, Encode, Parsed, SessionId};

/// The longest time to live: 2^40 - 1 milliseconds, nearly 35 years.
pub const TTL_MS_MAX: i64 = (1 << 40) - 1;

/// A znode's `ephemeralOwner` as it is stored: `EphemeralType`.
///
/// Containers and TTL znodes are recognised whatever the settings say: ZooKeeper takes TTL znodes
/// for ephemerals of dead sessions when its flag is dropped, and deletes them.
///
/// ```
/// use zoolet_core::{EphemeralOwner, Owner};
///
/// let owner = EphemeralOwner::from(Owner::Ttl { ttl_ms: 5_000 });
/// assert_eq!(owner, EphemeralOwner(0xff00_0000_0000_1388_u64 as i64));
/// assert_eq!(owner.owner(), Owner::Ttl { ttl_ms: 5_000 });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct EphemeralOwner(pub i64);

/// What a znode's life depends on.
///
/// ```
/// use zoolet_core::{EphemeralOwner, Owner};
///
/// assert_eq!(EphemeralOwner(0).owner(), Owner::Nobody);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nothing: it stays until it is deleted.
    Nobody,
    /// Its session: an ephemeral.
    Session(SessionId),
    /// Its children: it may go once the last is gone.
    Container,
    /// Being changed: it may go when it was not, for this long.
    Ttl {
        /// In milliseconds, from 1 to [`TTL_MS_MAX`].
        ttl_ms: i64,
    },
}

impl Owner {
    /// What a created znode's life depends on. The operation decides, not the flags: a plain
    /// create with the flag of a container makes a plain znode.
    pub(crate) fn of_created(kind: CreateKind, ephemeral: bool, session: SessionId) -> Self {
        match kind {
            CreateKind::Container => Self::Container,
            CreateKind::Ttl { ttl_ms } => Self::Ttl { ttl_ms },
            CreateKind::Create | CreateKind::Create2 if ephemeral => Self::Session(session),
            CreateKind::Create | CreateKind::Create2 => Self::Nobody,
        }
    }
}

const CONTAINER: i64 = i64::MIN;
/// The high byte that marks a time to live, and the two reserved bytes after it.
const TTL_MARK: i64 = 0xff00_0000_0000_0000_u64 as i64;
const TTL_MARK_MASK: i64 = 0xffff_ff00_0000_0000_u64 as i64;

impl EphemeralOwner {
    /// What the number means.
    #[must_use]
    pub fn owner(self) -> Owner {
        match self.0 {
            0 => Owner::Nobody,
            CONTAINER => Owner::Container,
            packed if packed & TTL_MARK_MASK == TTL_MARK => {
                Owner::Ttl { ttl_ms: packed & TTL_MS_MAX }
            }
            session => Owner::Session(SessionId(session)),
        }
    }

    /// What a Stat shows: the session, 0 for all that is no ephemeral.
    #[must_use]
    pub fn visible(self) -> SessionId {
        match self.owner() {
            Owner::Session(session) => session,
            _ => SessionId::NONE,
        }
    }
}

impl From<Owner> for EphemeralOwner {
    fn from(owner: Owner) -> Self {
        Self(match owner {
            Owner::Nobody => 0,
            Owner::Session(session) => session.0,
            Owner::Container => CONTAINER,
            Owner::Ttl { ttl_ms } => TTL_MARK | ttl_ms,
        })
    }
}

impl Decode for EphemeralOwner {
    const MIN_BYTES: usize = 8;

    fn decode<'a>(frame: &bytes::Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, packed) = i64::decode(frame, input)?;
        Ok((input, Self(packed)))
    }
}

impl Encode for EphemeralOwner {
    fn encode(&self, out: &mut bytes::BytesMut) {
        self.0.encode(out);
    }

    fn encoded_len(&self) -> usize {
        8
    }
}
