//! Access control lists: who may do what to a znode.

use std::fmt;
use std::ops::BitOr;

use bytestring::ByteString;

use crate::id::integer_newtype;
use crate::record;

/// A set of permissions. Unknown bits are kept, as ZooKeeper keeps them.
///
/// ```
/// use zoolet_protocol::Permissions;
///
/// let both = Permissions::READ | Permissions::WRITE;
/// assert!(both.intersects(Permissions::READ));
/// assert_eq!(Permissions::ALL.to_string(), "cdrwa");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permissions(pub i32);

impl Permissions {
    /// Data, Stat, children.
    pub const READ: Self = Self(1);
    /// Setting data.
    pub const WRITE: Self = Self(2);
    /// Creating a child.
    pub const CREATE: Self = Self(4);
    /// Deleting a child.
    pub const DELETE: Self = Self(8);
    /// Setting the access control list.
    pub const ADMIN: Self = Self(16);
    /// All of the above.
    pub const ALL: Self = Self(31);

    /// Whether the two sets share a permission.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Permissions {
    /// In `zkCli`'s letters and order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::CREATE, "c"),
            (Self::DELETE, "d"),
            (Self::READ, "r"),
            (Self::WRITE, "w"),
            (Self::ADMIN, "a"),
        ];
        letters
            .iter()
            .filter(|(permission, _)| self.intersects(*permission))
            .try_for_each(|(_, letter)| f.write_str(letter))
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permissions({self})")
    }
}

integer_newtype!(Permissions(i32));

record! {
    /// An identity: a scheme and what it means there.
    ///
    /// Either part may be null on the wire; ZooKeeper refuses such an entry with
    /// [`ErrorCode::INVALID_ACL`](crate::ErrorCode::INVALID_ACL), so it must be able to arrive.
    ///
    /// ```
    /// use zoolet_protocol::Id;
    ///
    /// assert_eq!(Id::new("world", "anyone").to_string(), "world:anyone");
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Id {
        /// `world`, `digest`, `ip`, `auth`, `sasl`, `x509`, or a scheme of someone's own.
        pub scheme: Option<ByteString>,
        /// Who, in the terms of the scheme.
        pub id: Option<ByteString>,
    }
}

impl Id {
    /// An identity with both parts.
    pub fn new(scheme: impl Into<ByteString>, id: impl Into<ByteString>) -> Self {
        Self { scheme: Some(scheme.into()), id: Some(id.into()) }
    }

    /// Whether this is exactly `scheme:id`.
    #[must_use]
    pub fn is(&self, scheme: &str, id: &str) -> bool {
        self.scheme.as_deref() == Some(scheme) && self.id.as_deref() == Some(id)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &Option<ByteString>| part.clone().unwrap_or_else(|| "null".into());
        write!(f, "{}:{}", part(&self.scheme), part(&self.id))
    }
}

record! {
    /// One entry of an access control list.
    ///
    /// ```
    /// use zoolet_protocol::Acl;
    ///
    /// assert_eq!(Acl::open().to_string(), "world:anyone:cdrwa");
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Acl {
        /// What is permitted.
        pub permissions: Permissions,
        /// To whom.
        pub id: Id,
    }
}

impl Acl {
    /// Everything to everyone: `world:anyone:cdrwa`, `ZooDefs.Ids.OPEN_ACL_UNSAFE`.
    #[must_use]
    pub fn open() -> Self {
        Self { permissions: Permissions::ALL, id: Id::new("world", "anyone") }
    }
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.id, self.permissions)
    }
}
