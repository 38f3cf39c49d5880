//! The type of a znode, and how ZooKeeper packs it into the field `ephemeralOwner`.

use zoolet_protocol::{CreateKind, Decode, Encode, Parsed, SessionId};

/// The longest time to live that a znode can have: 2^40 - 1 milliseconds, nearly 35 years.
pub const TTL_MS_MAX: i64 = (1 << 40) - 1;

/// The field `ephemeralOwner` of a znode as the log and the snapshots store it.
///
/// Containers and TTL znodes are recognised whatever the settings say. ZooKeeper with
/// `extendedTypesEnabled` switched off takes TTL znodes for ephemerals of dead sessions and deletes
/// them.
///
/// ```
/// use zoolet_core::{EphemeralOwner, EphemeralType};
///
/// let owner = EphemeralOwner::from(EphemeralType::Ttl { ttl_ms: 5_000 });
/// assert_eq!(owner, EphemeralOwner(0xff00_0000_0000_1388_u64 as i64));
/// assert_eq!(owner.ephemeral_type(), EphemeralType::Ttl { ttl_ms: 5_000 });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct EphemeralOwner(pub i64);

/// The type of a znode: when the server deletes it by itself (ZooKeeper's `EphemeralType`).
///
/// ```
/// use zoolet_core::{EphemeralOwner, EphemeralType};
///
/// assert_eq!(EphemeralOwner(0).ephemeral_type(), EphemeralType::Persistent);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EphemeralType {
    /// Never: it exists until a client deletes it.
    Persistent,
    /// When this session ends.
    Ephemeral(SessionId),
    /// When its last child was deleted.
    Container,
    /// When it has no children and its data was not set for this long.
    Ttl {
        /// In milliseconds, from 1 to [`TTL_MS_MAX`].
        ttl_ms: i64,
    },
}

impl EphemeralType {
    /// The type of a znode that is created. The operation decides and not the flags: a `create`
    /// with the flag of a container makes a persistent znode.
    pub(crate) fn of_created(kind: CreateKind, ephemeral: bool, session: SessionId) -> Self {
        match kind {
            CreateKind::Container => Self::Container,
            CreateKind::Ttl { ttl_ms } => Self::Ttl { ttl_ms },
            CreateKind::Create | CreateKind::Create2 if ephemeral => Self::Ephemeral(session),
            CreateKind::Create | CreateKind::Create2 => Self::Persistent,
        }
    }
}

/// The value that marks a container (`EphemeralType.CONTAINER_EPHEMERAL_OWNER`).
const CONTAINER: i64 = i64::MIN;
/// The high byte that marks a TTL znode, and two reserved bytes of zeros.
const TTL_MARK: i64 = 0xff00_0000_0000_0000_u64 as i64;
const TTL_MARK_MASK: i64 = 0xffff_ff00_0000_0000_u64 as i64;

impl EphemeralOwner {
    /// The type that the number stands for.
    #[must_use]
    pub fn ephemeral_type(self) -> EphemeralType {
        match self.0 {
            0 => EphemeralType::Persistent,
            CONTAINER => EphemeralType::Container,
            packed if packed & TTL_MARK_MASK == TTL_MARK => {
                EphemeralType::Ttl { ttl_ms: packed & TTL_MS_MAX }
            }
            session => EphemeralType::Ephemeral(SessionId(session)),
        }
    }

    /// The `ephemeralOwner` that a Stat shows: the session of an ephemeral, and 0 for every other
    /// znode.
    #[must_use]
    pub fn visible(self) -> SessionId {
        match self.ephemeral_type() {
            EphemeralType::Ephemeral(session) => session,
            _ => SessionId::NONE,
        }
    }
}

impl From<EphemeralType> for EphemeralOwner {
    fn from(ephemeral_type: EphemeralType) -> Self {
        Self(match ephemeral_type {
            EphemeralType::Persistent => 0,
            EphemeralType::Ephemeral(session) => session.0,
            EphemeralType::Container => CONTAINER,
            EphemeralType::Ttl { ttl_ms } => TTL_MARK | ttl_ms,
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
