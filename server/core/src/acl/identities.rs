//! The identities of a connection.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use bytestring::ByteString;
use hashbrown::DefaultHashBuilder;
use zoolet_protocol::{ClientInfo, Id};

use crate::settings::Settings;

/// The identities of a connection: its address, and those that it added with `auth`. None is ever
/// removed.
///
/// Clones share one list. A request carries the list that the connection had when it arrived.
///
/// ```
/// use zoolet_core::Identities;
///
/// let identities = Identities::of_address("127.0.0.1".parse().unwrap());
/// assert_eq!(identities.iter().next().unwrap().to_string(), "ip:127.0.0.1");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identities(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    ids: Box<[Id]>,
    sasl: SaslEntries,
    hasher: DefaultHashBuilder,
    /// The sorted hashes of the identities. Empty for a few identities, which are compared one by
    /// one.
    hashes: Box<[u64]>,
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.ids == other.ids
    }
}

impl Eq for Known {}

/// Which entries of the sasl scheme these identities match.
#[derive(Debug, Clone, Default)]
enum SaslEntries {
    /// None: the client has no such identity, or the server no provider for the scheme.
    #[default]
    None,
    /// Those that are equal to an identity.
    Equal,
    /// These, and the one that every SASL user matches.
    EqualOr(ByteString),
    /// All: the user is `super`.
    All,
}

/// Up to this number, comparing identities one by one is faster than hashing.
pub(super) const COMPARED_IDENTITIES_MAX: usize = 8;

impl Identities {
    fn of(ids: Box<[Id]>, sasl: SaslEntries) -> Self {
        let hasher = DefaultHashBuilder::default();
        let mut hashes = Vec::new();
        if ids.len() > COMPARED_IDENTITIES_MAX {
            hashes.extend(ids.iter().map(|id| hasher.hash_one(id)));
            hashes.sort_unstable();
        }
        Self(Arc::new(Known { ids, sasl, hasher, hashes: hashes.into() }))
    }

    /// The identity that a connection has by its remote address.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        Self::of([Id::new("ip", address.to_canonical().to_string())].into(), SaslEntries::None)
    }

    /// These identities and one more.
    #[must_use]
    pub fn and(&self, id: Id) -> Self {
        if self.contain(&id) {
            return self.clone();
        }
        Self::of(self.iter().cloned().chain([id]).collect(), self.0.sasl.clone())
    }

    /// These identities and that of a user who authenticated by SASL.
    pub(super) fn and_sasl(&self, user: &str, settings: &Settings) -> Self {
        let entries = match &settings.any_sasl_user {
            _ if !settings.sasl_scheme => SaslEntries::None,
            _ if user == "super" || matches!(self.0.sasl, SaslEntries::All) => SaslEntries::All,
            Some(any) => SaslEntries::EqualOr(any.as_str().into()),
            None => SaslEntries::Equal,
        };
        let ids = self.and(Id::new("sasl", user));
        Self::of(ids.iter().cloned().collect(), entries)
    }

    /// The identities, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Id> {
        self.0.ids.iter()
    }

    /// Whether `id` is one of them.
    pub(super) fn contain(&self, id: &Id) -> bool {
        let Known { ids, hasher, hashes, .. } = &*self.0;
        let may = hashes.is_empty() || hashes.binary_search(&hasher.hash_one(id)).is_ok();
        may && ids.contains(id)
    }

    /// Whether one of them matches an entry of the sasl scheme.
    pub(super) fn match_sasl(&self, entry: &Id) -> bool {
        match &self.0.sasl {
            SaslEntries::None => false,
            SaslEntries::Equal => self.contain(entry),
            SaslEntries::EqualOr(any) => entry.id.as_ref() == Some(any) || self.contain(entry),
            SaslEntries::All => true,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.ids.len()
    }

    /// The bytes of the texts of all identities.
    pub(super) fn text_bytes(&self) -> usize {
        self.iter().map(|id| id.id.as_deref().unwrap_or_default().len()).sum()
    }

    /// Whether one of them is of `scheme`.
    #[must_use]
    pub fn have_scheme(&self, scheme: &str) -> bool {
        self.iter().any(|id| id.scheme.as_deref() == Some(scheme))
    }

    /// Whether the connection is the superuser's, whom every list permits everything.
    #[must_use]
    pub fn are_super(&self) -> bool {
        self.have_scheme("super")
    }

    /// The reply to `whoAmI`. Of a digest it shows the user without the hash.
    #[must_use]
    pub fn client_infos(&self) -> Vec<ClientInfo> {
        let info = |id: &Id| {
            let is_digest = id.scheme.as_deref() == Some("digest");
            let user = match id.id.as_deref().and_then(|text| text.split_once(':')) {
                Some((user, _)) if is_digest => Some(user.into()),
                _ => id.id.clone(),
            };
            ClientInfo { scheme: id.scheme.clone(), user }
        };
        self.iter().map(info).collect()
    }
}
