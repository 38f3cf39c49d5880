//! The modes in which a client creates a znode. Invalid combinations cannot be expressed.

use std::time::Duration;

use super::{CreateFlags, CreateKind};

/// The mode of a created znode: ZooKeeper's `CreateMode`.
///
/// ```
/// use std::time::Duration;
/// use zoolet_protocol::{CreateFlags, CreateKind, CreateMode};
///
/// assert_eq!(CreateMode::EphemeralSequential.flags(), CreateFlags::EPHEMERAL_SEQUENTIAL);
/// let mode = CreateMode::PersistentWithTtl(Duration::from_secs(60));
/// assert_eq!(mode.kind(), CreateKind::Ttl { ttl_ms: 60_000 });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CreateMode {
    /// `PERSISTENT`: the znode exists until a client deletes it.
    #[default]
    Persistent,
    /// `PERSISTENT_SEQUENTIAL`: persistent, and the server appends a number of ten digits to the
    /// name, greater than that of each child of the same parent before it.
    PersistentSequential,
    /// `EPHEMERAL`: the server deletes the znode when the session ends. It can have no children.
    Ephemeral,
    /// `EPHEMERAL_SEQUENTIAL`: ephemeral, and the server appends a number.
    EphemeralSequential,
    /// `CONTAINER`: the server deletes the znode some time after its last child is deleted.
    Container,
    /// `PERSISTENT_WITH_TTL`: the server deletes the znode when its data was not set for this long
    /// and it has no children. Apache ZooKeeper refuses it unless `extendedTypesEnabled` is set.
    /// The time is cut to milliseconds; the server refuses 0.
    PersistentWithTtl(Duration),
    /// `PERSISTENT_SEQUENTIAL_WITH_TTL`: with a time to live, and the server appends a number.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// The flags of the mode in a request.
    #[must_use]
    pub fn flags(self) -> CreateFlags {
        match self {
            Self::Persistent => CreateFlags::PERSISTENT,
            Self::PersistentSequential => CreateFlags::PERSISTENT_SEQUENTIAL,
            Self::Ephemeral => CreateFlags::EPHEMERAL,
            Self::EphemeralSequential => CreateFlags::EPHEMERAL_SEQUENTIAL,
            Self::Container => CreateFlags::CONTAINER,
            Self::PersistentWithTtl(_) => CreateFlags::PERSISTENT_WITH_TTL,
            Self::PersistentSequentialWithTtl(_) => CreateFlags::PERSISTENT_SEQUENTIAL_WITH_TTL,
        }
    }

    /// The operation that creates such a znode, alone or in a multi: `create`, `createContainer` or
    /// `createTTL`. A time to live of more than 2^63 - 1 milliseconds is cut to that.
    #[must_use]
    pub fn kind(self) -> CreateKind {
        match self {
            Self::Container => CreateKind::Container,
            Self::PersistentWithTtl(ttl) | Self::PersistentSequentialWithTtl(ttl) => {
                CreateKind::Ttl { ttl_ms: i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX) }
            }
            _ => CreateKind::Create,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_flags_and_operation() {
        const MINUTE: Duration = Duration::from_secs(60);
        let ttl = CreateKind::Ttl { ttl_ms: 60_000 };
        let modes = [
            (CreateMode::Persistent, 0, CreateKind::Create),
            (CreateMode::Ephemeral, 1, CreateKind::Create),
            (CreateMode::PersistentSequential, 2, CreateKind::Create),
            (CreateMode::EphemeralSequential, 3, CreateKind::Create),
            (CreateMode::Container, 4, CreateKind::Container),
            (CreateMode::PersistentWithTtl(MINUTE), 5, ttl),
            (CreateMode::PersistentSequentialWithTtl(MINUTE), 6, ttl),
        ];
        for (mode, flags, kind) in modes {
            assert_eq!((mode.flags(), mode.kind()), (CreateFlags(flags), kind), "{mode:?}");
        }
        let forever = CreateMode::PersistentWithTtl(Duration::MAX);
        assert_eq!(forever.kind(), CreateKind::Ttl { ttl_ms: i64::MAX });
    }
}
