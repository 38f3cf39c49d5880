//! Access control: the identities of a connection, what a list permits them, and which lists may be
//! set.
//!
//! This follows ZooKeeper's `PrepRequestProcessor.fixupACL`, `ZooKeeperServer.checkACL` and
//! authentication providers. There is no provider for SASL and X.509 yet: like ZooKeeper with an
//! unknown scheme, the server refuses lists with their schemes.

mod digest;
mod ip;

use std::cell::RefCell;
use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use bytestring::ByteString;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use zoolet_protocol::{Acl, ClientInfo, ErrorCode, Id, Permissions};

use crate::limits::{
    ACL_ENTRIES_MAX, IDENTITIES_BYTES_MAX, IDENTITIES_MAX, IDENTITY_BYTES_MAX, LOGGED_CHARS_MAX,
};
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

/// Up to this number, comparing identities one by one is faster than hashing.
const COMPARED_IDENTITIES_MAX: usize = 8;

impl Identities {
    fn of(ids: Box<[Id]>) -> Self {
        let hasher = DefaultHashBuilder::default();
        let mut hashes = Vec::new();
        if ids.len() > COMPARED_IDENTITIES_MAX {
            hashes.extend(ids.iter().map(|id| hasher.hash_one(id)));
            hashes.sort_unstable();
        }
        Self(Arc::new(Known { ids, hasher, hashes: hashes.into() }))
    }

    /// The identity that a connection has by its remote address.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        Self::of([Id::new("ip", address.to_canonical().to_string())].into())
    }

    /// These identities and one more.
    #[must_use]
    pub fn and(&self, id: Id) -> Self {
        if self.contain(&id) {
            return self.clone();
        }
        Self::of(self.iter().cloned().chain([id]).collect())
    }

    /// The identities, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Id> {
        self.0.ids.iter()
    }

    /// Whether `id` is one of them.
    fn contain(&self, id: &Id) -> bool {
        let Known { ids, hasher, hashes } = &*self.0;
        let may = hashes.is_empty() || hashes.binary_search(&hasher.hash_one(id)).is_ok();
        may && ids.contains(id)
    }

    /// The bytes of the texts of all identities.
    fn text_bytes(&self) -> usize {
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

/// An access control list. All znodes with the same list share one copy.
///
/// ```
/// use zoolet_core::{AclList, Identities};
/// use zoolet_protocol::Permissions;
///
/// assert!(AclList::OPEN.permits(Permissions::READ, &Identities::default()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AclList(Option<Arc<[Acl]>>);

impl AclList {
    /// The list of the built-in znodes, which permits everyone everything. It is not stored in
    /// snapshots; a list with the same entry that a client has set is.
    pub const OPEN: Self = Self(None);

    /// Whether the list gives one of `identities` one of the permissions in `wanted`. An empty list
    /// permits everything, as in ZooKeeper.
    #[must_use]
    pub fn permits(&self, wanted: Permissions, identities: &Identities) -> bool {
        let Some(entries) = &self.0 else {
            return true;
        };
        entries.is_empty()
            || entries
                .iter()
                .any(|entry| entry.permissions.intersects(wanted) && matches(&entry.id, identities))
            || identities.are_super()
    }

    /// Whether the list gives everyone one of the permissions in `wanted`.
    #[must_use]
    pub fn permits_everyone(&self, wanted: Permissions) -> bool {
        self.permits(wanted, &Identities::default())
    }

    /// The address of a list that takes longer to evaluate than to look up. Two lists that exist at
    /// the same time have different addresses.
    pub(crate) fn long_address(&self) -> Option<usize> {
        let entries = self.0.as_ref().filter(|entries| entries.len() >= LONG_LIST_ENTRIES_MIN)?;
        Some(Arc::as_ptr(entries).cast::<Acl>() as usize)
    }

    /// The entries, as `getACL` shows them.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Acl> {
        self.0.as_ref().map_or_else(|| vec![Acl::open()], |entries| entries.to_vec())
    }

    /// The entries that a client has set. `None` for [`AclList::OPEN`].
    #[must_use]
    pub fn entries(&self) -> Option<&[Acl]> {
        self.0.as_deref()
    }

    /// The entries as `getACL` shows them to a client without the permission `ADMIN`: without the
    /// hashes of the digest scheme.
    #[must_use]
    pub fn to_masked_vec(&self) -> Vec<Acl> {
        let mut entries = self.to_vec();
        for entry in &mut entries {
            if entry.id.scheme.as_deref() == Some("digest") {
                let id = entry.id.id.as_deref().unwrap_or_default();
                let user = id.split_once(':').map_or(id, |(user, _)| user);
                entry.id.id = Some(format!("{user}:x").into());
            }
        }
        entries
    }
}

/// Whether the identity of an entry matches one of a connection's.
fn matches(id: &Id, identities: &Identities) -> bool {
    match (id.scheme.as_deref(), id.id.as_deref()) {
        (Some("world"), Some("anyone")) => true,
        (Some("ip"), Some(range)) => identities
            .iter()
            .filter(|identity| identity.scheme.as_deref() == Some("ip"))
            .any(|identity| ip::matches(range, identity.id.as_deref().unwrap_or_default())),
        _ => identities.contain(id),
    }
}

/// Decides what one requester may do. It evaluates a long list once in a request, however many
/// operations of the request the list governs.
#[derive(Debug)]
pub(crate) struct Authorizer<'a> {
    identities: &'a Identities,
    skips_lists: bool,
    /// The results so far, by the address of the list and the wanted permissions. Each keeps its
    /// list alive, so that no other list gets its address.
    results: RefCell<Option<Box<AuthorizerResults>>>,
}

type AuthorizerResults = HashMap<(usize, Permissions), (AclList, bool)>;

/// Evaluating a list with fewer entries is faster than looking up its result.
const LONG_LIST_ENTRIES_MIN: usize = 8;

impl<'a> Authorizer<'a> {
    /// Decides for a requester with these identities.
    pub(crate) fn new(identities: &'a Identities, settings: &Settings) -> Self {
        Self { identities, skips_lists: settings.skip_acl, results: RefCell::new(None) }
    }

    /// `NoAuth`, unless the list permits what is wanted or the settings skip access control.
    pub(crate) fn permits(&self, list: &AclList, wanted: Permissions) -> Result<(), ErrorCode> {
        let permits = self.skips_lists
            || match list.long_address() {
                Some(address) => self.permits_once(list, address, wanted),
                None => list.permits(wanted, self.identities),
            };
        if permits { Ok(()) } else { Err(ErrorCode::NO_AUTH) }
    }

    fn permits_once(&self, list: &AclList, address: usize, wanted: Permissions) -> bool {
        let mut results = self.results.borrow_mut();
        let (_, permits) = results
            .get_or_insert_default()
            .entry((address, wanted))
            .or_insert_with(|| (list.clone(), list.permits(wanted, self.identities)));
        *permits
    }
}

/// One shared copy of each access control list that is in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct AclLists {
    lists: HashSet<Arc<[Acl]>>,
    /// When there are this many lists, those that no znode uses are dropped.
    sweep_at: usize,
}

/// With fewer lists it is not worth looking for unused ones.
const SWEEP_LISTS_MIN: usize = 64;

impl AclLists {
    /// Whether `list` is the shared copy of its entries, so that equal lists use memory once.
    pub(crate) fn share(&self, list: &AclList) -> bool {
        let Some(entries) = &list.0 else { return true };
        self.lists.get(entries).is_some_and(|shared| Arc::ptr_eq(shared, entries))
    }

    /// The shared copy of `entries`.
    pub(crate) fn intern(&mut self, entries: &Arc<[Acl]>) -> AclList {
        if let Some(list) = self.lists.get(entries) {
            return AclList(Some(Arc::clone(list)));
        }
        if self.lists.len() >= self.sweep_at {
            self.lists.retain(|list| Arc::strong_count(list) > 1);
            self.sweep_at = (2 * self.lists.len()).max(SWEEP_LISTS_MIN);
        }
        // The texts are copied, so that a list does not keep the frame alive in which it came.
        let own: Arc<[Acl]> = entries.iter().map(detached).collect();
        self.lists.insert(Arc::clone(&own));
        AclList(Some(own))
    }
}

/// A copy of an entry that shares no memory with it.
fn detached(entry: &Acl) -> Acl {
    let part = |part: &Option<ByteString>| part.as_deref().map(ByteString::from);
    let id = Id { scheme: part(&entry.id.scheme), id: part(&entry.id.id) };
    Acl { permissions: entry.permissions, id }
}

/// The list that is stored when a client sets `acl` (`fixupACL`): without repeated entries, with
/// `auth` replaced by the client's digest identities, and with every other entry checked by its
/// scheme.
pub(crate) fn fix_up(
    acl: Option<&[Acl]>,
    identities: &Identities,
    settings: &Settings,
) -> Result<Arc<[Acl]>, ErrorCode> {
    let entries = acl.filter(|acl| !acl.is_empty()).ok_or(ErrorCode::INVALID_ACL)?;
    if entries.len() > ACL_ENTRIES_MAX {
        return Err(ErrorCode::INVALID_ACL);
    }
    if let [entry] = entries
        && entry.id.is("world", "anyone")
    {
        return Ok([entry.clone()].into());
    }
    let mut fixed = Vec::with_capacity(entries.len());
    let mut seen = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let is_repeated = match entries.len() {
            ..LONG_LIST_ENTRIES_MIN => entries[..index].contains(entry),
            _ => !seen.insert(entry),
        };
        if is_repeated {
            continue;
        }
        let scheme = entry.id.scheme.as_deref().ok_or(ErrorCode::INVALID_ACL)?;
        if scheme == "auth" {
            let count = fixed.len();
            fixed.extend(
                identities
                    .iter()
                    .filter(|identity| identity.scheme.as_deref() == Some("digest"))
                    .map(|id| Acl { permissions: entry.permissions, id: id.clone() }),
            );
            if fixed.len() == count {
                return Err(ErrorCode::INVALID_ACL);
            }
        } else if is_valid(scheme, entry.id.id.as_deref(), settings)? {
            fixed.push(entry.clone());
        } else {
            return Err(ErrorCode::INVALID_ACL);
        }
        if fixed.len() > ACL_ENTRIES_MAX {
            return Err(ErrorCode::INVALID_ACL);
        }
    }
    Ok(fixed.into())
}

/// Whether an identity may stand in a list. ZooKeeper's providers throw on a null id, and ZooKeeper
/// then replies with `MarshallingError`.
fn is_valid(scheme: &str, id: Option<&str>, settings: &Settings) -> Result<bool, ErrorCode> {
    let is_valid: fn(&str) -> bool = match scheme {
        "world" => |id| id == "anyone",
        "ip" => ip::is_valid,
        "digest" if settings.digest_scheme => digest::is_valid,
        _ => return Ok(false),
    };
    let id = id.ok_or(ErrorCode::MARSHALLING_ERROR)?;
    Ok(id.len() <= IDENTITY_BYTES_MAX && is_valid(id))
}

/// Why the credentials of an `auth` packet were refused.
///
/// ```
/// use zoolet_core::{Identities, Settings, authenticate};
///
/// let refused = authenticate("kerberos", b"", &Identities::default(), &Settings::default());
/// assert_eq!(refused.unwrap_err().to_string(), "no provider for the scheme \"kerberos\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthRefused(Refusal);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// The scheme's name, cut to [`LOGGED_CHARS_MAX`] characters.
    NoProvider(String),
    TooMany,
    /// The identity has this many bytes.
    TooLong(usize),
    TooLongTogether,
}

impl fmt::Display for AuthRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Refusal::NoProvider(scheme) => write!(f, "no provider for the scheme {scheme:?}"),
            Refusal::TooMany => {
                write!(
                    f,
                    "the connection has {IDENTITIES_MAX} identities, which is the limit: add fewer with auth"
                )
            }
            Refusal::TooLong(bytes) => write!(
                f,
                "the identity has {bytes} bytes, the limit is {IDENTITY_BYTES_MAX}: use a shorter user name"
            ),
            Refusal::TooLongTogether => write!(
                f,
                "the identities of the connection have more than {IDENTITIES_BYTES_MAX} bytes together: \
                 use fewer identities or shorter user names"
            ),
        }
    }
}

impl std::error::Error for AuthRefused {}

/// The identities of a connection after an `auth` packet.
///
/// As in ZooKeeper, there is no list of users: any user with any password is accepted in the digest
/// scheme. An access control list then permits only those who know the same user and password.
///
/// # Errors
///
/// [`AuthRefused`] if the scheme has no provider, or if a limit is exceeded: [`IDENTITIES_MAX`],
/// [`IDENTITY_BYTES_MAX`] or [`IDENTITIES_BYTES_MAX`]. The server then closes the connection, as
/// ZooKeeper does.
///
/// ```
/// use zoolet_core::{Identities, Settings, authenticate};
///
/// let who = authenticate("digest", b"ann:secret", &Identities::default(), &Settings::default());
/// assert_eq!(who.unwrap().client_infos()[0].user.as_deref(), Some("ann"));
/// ```
pub fn authenticate(
    scheme: &str,
    credentials: &[u8],
    identities: &Identities,
    settings: &Settings,
) -> Result<Identities, AuthRefused> {
    if identities.0.ids.len() >= IDENTITIES_MAX {
        return Err(AuthRefused(Refusal::TooMany));
    }
    match scheme {
        // The connection has this identity from the start.
        "ip" => Ok(identities.clone()),
        "digest" if settings.digest_scheme => {
            let id = digest::identity(credentials, settings.digest_algorithm);
            let is_super = settings.super_digest.as_deref() == Some(id.as_str());
            if id.len() > IDENTITY_BYTES_MAX {
                return Err(AuthRefused(Refusal::TooLong(id.len())));
            }
            let before =
                if is_super { identities.and(Id::new("super", "")) } else { identities.clone() };
            let all = before.and(Id::new("digest", id));
            if all.text_bytes() > IDENTITIES_BYTES_MAX {
                return Err(AuthRefused(Refusal::TooLongTogether));
            }
            Ok(all)
        }
        _ => {
            let shown = scheme.chars().take(LOGGED_CHARS_MAX).collect();
            Err(AuthRefused(Refusal::NoProvider(shown)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: usize) -> Id {
        Id::new("digest", format!("user-{number}:hash"))
    }

    fn list(users: std::ops::Range<usize>) -> AclList {
        let entry = |number| Acl { permissions: Permissions::READ, id: user(number) };
        AclLists::default().intern(&users.map(entry).collect())
    }

    #[test]
    fn many_identities_match_as_few_do() {
        for count in [1, COMPARED_IDENTITIES_MAX, COMPARED_IDENTITIES_MAX + 1, IDENTITIES_MAX] {
            let ids = (0..count).map(user);
            let identities = ids.fold(Identities::default(), |all, id| all.and(id));
            assert_eq!(identities.iter().count(), count);
            assert_eq!(identities.and(user(0)), identities);
            assert!(list(count - 1..2_000).permits(Permissions::READ, &identities));
            assert!(!list(count..2_000).permits(Permissions::READ, &identities));
            assert!(!list(0..2_000).permits(Permissions::WRITE, &identities));
        }
    }

    #[test]
    fn a_list_at_the_address_of_a_dropped_one_is_evaluated_again() {
        let identities = Identities::default().and(user(0));
        let authorizer = Authorizer::new(&identities, &Settings::default());
        for round in 0..100 {
            let others = list(round + 1..round + 1_000);
            assert_eq!(authorizer.permits(&others, Permissions::READ), Err(ErrorCode::NO_AUTH));
            drop(others);
            let own = list(0..999);
            assert_eq!(authorizer.permits(&own, Permissions::READ), Ok(()));
            assert_eq!(authorizer.permits(&own, Permissions::WRITE), Err(ErrorCode::NO_AUTH));
        }
    }
}
