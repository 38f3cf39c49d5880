//! Access control lists: the permissions that identities have on a znode.

use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use sha1::{Digest, Sha1};

use crate::id::integer_newtype;
use crate::jute::{Decode, Encode, Parsed, length_prefixed, within};
use crate::record;

/// A set of permissions. As in ZooKeeper, unknown bits are kept.
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
    /// To read the data and to list the children.
    pub const READ: Self = Self(1);
    /// To set the data.
    pub const WRITE: Self = Self(2);
    /// To create a child.
    pub const CREATE: Self = Self(4);
    /// To delete a child.
    pub const DELETE: Self = Self(8);
    /// To set the access control list.
    pub const ADMIN: Self = Self(16);
    /// All five permissions.
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
    /// The letters of `zkCli`, in its order.
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

impl FromStr for Permissions {
    type Err = ParsePermissionsError;

    /// Parses the letters of `zkCli`, in any order.
    fn from_str(letters: &str) -> Result<Self, ParsePermissionsError> {
        letters.chars().try_fold(Self::default(), |permissions, letter| {
            Ok(permissions
                | match letter {
                    'c' => Self::CREATE,
                    'd' => Self::DELETE,
                    'r' => Self::READ,
                    'w' => Self::WRITE,
                    'a' => Self::ADMIN,
                    _ => return Err(ParsePermissionsError(letters.to_owned())),
                })
        })
    }
}

/// Why a text is not a set of permissions.
///
/// ```
/// use zoolet_protocol::Permissions;
///
/// assert_eq!("rw".parse(), Ok(Permissions::READ | Permissions::WRITE));
/// assert!("x".parse::<Permissions>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} are no permissions: use c (create), d (delete), r (read), w (write) and a (admin)")]
pub struct ParsePermissionsError(String);

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permissions({self})")
    }
}

integer_newtype!(Permissions(i32));

/// An identity: a scheme, and an id in that scheme.
///
/// Either part may be null on the wire. ZooKeeper decodes such an identity and refuses it with
/// [`ErrorCode::INVALID_ACL`](crate::ErrorCode::INVALID_ACL).
///
/// ```
/// use zoolet_protocol::Id;
///
/// assert_eq!(Id::new("world", "anyone").to_string(), "world:anyone");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// `world`, `digest`, `ip`, `auth`, `sasl`, `x509`, or the scheme of another provider.
    pub scheme: Option<ByteString>,
    /// The id, in the format of the scheme.
    pub id: Option<ByteString>,
}

impl Decode for Id {
    const MIN_BYTES: usize = 8;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, scheme) = within("Id", part(frame, input))?;
        let (input, id) = within("Id", part(frame, input))?;
        Ok((input, Self { scheme, id }))
    }
}

impl Encode for Id {
    fn encode(&self, out: &mut BytesMut) {
        self.scheme.encode(out);
        self.id.encode(out);
    }

    fn encoded_len(&self) -> usize {
        self.scheme.encoded_len() + self.id.encoded_len()
    }
}

/// A part of an identity. Those of `world:anyone`, which most lists have and nothing else, take
/// nothing of the frame.
fn part<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Option<ByteString>> {
    let (rest, text) = length_prefixed(input)?;
    let known = match text {
        Some(b"world") => "world",
        Some(b"anyone") => "anyone",
        _ => return Option::decode(frame, input),
    };
    Ok((rest, Some(ByteString::from_static(known))))
}

impl Id {
    /// An identity of which neither part is null.
    pub fn new(scheme: impl Into<ByteString>, id: impl Into<ByteString>) -> Self {
        Self { scheme: Some(scheme.into()), id: Some(id.into()) }
    }

    /// Whether this is the identity `scheme:id`.
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
        /// The permissions.
        pub permissions: Permissions,
        /// The identity that has them.
        pub id: Id,
    }
}

/// The entries that are used most. Those with an identity grant all permissions;
/// [`Acl::with_permissions`] grants fewer.
///
/// ```
/// use zoolet_protocol::{Acl, Permissions};
///
/// let reader = Acl::ip("10.0.0.0/8").with_permissions(Permissions::READ);
/// assert_eq!(reader.to_string(), "ip:10.0.0.0/8:r");
/// let list = vec![Acl::digest("super", "test"), reader];
/// assert_eq!(list[0].to_string(), "digest:super:D/InIHSb7yEEbrWz8b9l71RjZJU=:cdrwa");
/// ```
impl Acl {
    /// An entry of any scheme.
    #[must_use]
    pub fn new(permissions: Permissions, id: Id) -> Self {
        Self { permissions, id }
    }

    /// All permissions for everyone: `world:anyone:cdrwa`, the entry of
    /// `ZooDefs.Ids.OPEN_ACL_UNSAFE`.
    #[must_use]
    pub fn open() -> Self {
        Self::new(Permissions::ALL, Id::new("world", "anyone"))
    }

    /// Permission to read to everyone: `world:anyone:r`, `ZooDefs.Ids.READ_ACL_UNSAFE`.
    #[must_use]
    pub fn read_only() -> Self {
        Self::open().with_permissions(Permissions::READ)
    }

    /// All permissions to the identities that the session has authenticated: `auth::cdrwa`,
    /// `ZooDefs.Ids.CREATOR_ALL_ACL`. The server stores those identities in its place, and refuses
    /// the request with [`INVALID_ACL`](crate::ErrorCode::INVALID_ACL) if there are none.
    #[must_use]
    pub fn creator_all() -> Self {
        Self::new(Permissions::ALL, Id::new("auth", ""))
    }

    /// All permissions to a user of the scheme `digest` with this password. The entry contains the
    /// SHA-1 hash that `DigestAuthenticationProvider.generateDigest` makes of both, which is the
    /// default of ZooKeeper's servers (`zookeeper.DigestAuthenticationProvider.digestAlg`).
    #[must_use]
    pub fn digest(user: &str, password: &str) -> Self {
        let credentials = format!("{user}:{password}");
        let hash = STANDARD.encode(Sha1::digest(&credentials));
        // As in Java the user ends at the first colon.
        let user = credentials.split(':').next().unwrap_or_default();
        Self::new(Permissions::ALL, Id::new("digest", format!("{user}:{hash}")))
    }

    /// All permissions to the clients of an IP address, or of a subnet as `10.0.0.0/8`.
    pub fn ip(address: impl Into<ByteString>) -> Self {
        Self::new(Permissions::ALL, Id::new("ip", address))
    }

    /// All permissions to the clients whose TLS certificate has this subject, as
    /// `CN=client,O=example`.
    pub fn x509(subject: impl Into<ByteString>) -> Self {
        Self::new(Permissions::ALL, Id::new("x509", subject))
    }

    /// All permissions to a principal that was authenticated by SASL, as `user@EXAMPLE.ORG`.
    pub fn sasl(principal: impl Into<ByteString>) -> Self {
        Self::new(Permissions::ALL, Id::new("sasl", principal))
    }

    /// The same entry with other permissions.
    #[must_use]
    pub fn with_permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.id, self.permissions)
    }
}
