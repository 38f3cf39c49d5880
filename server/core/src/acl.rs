//! Access control: the identities of a connection, what a list permits them, and which lists may be
//! set.
//!
//! This follows ZooKeeper's `PrepRequestProcessor.fixupACL`, `ZooKeeperServer.checkACL` and
//! authentication providers. Like ZooKeeper, it refuses lists with a scheme that has no provider,
//! and an entry with such a scheme in an existing list matches no client.

mod authenticate;
mod digest;
mod identities;
mod ip;
mod lists;
mod sasl;
mod x509;

use std::cell::RefCell;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use zoolet_protocol::{Acl, ErrorCode, Id, Permissions};

pub use self::authenticate::{
    AuthRefused, EnsembleName, authenticate, authenticate_certificate, authenticate_sasl,
    check_ensemble_name,
};
pub use self::identities::Identities;
pub use self::lists::AclList;
pub(crate) use self::lists::AclLists;
use crate::limits::{ACL_ENTRIES_MAX, IDENTITY_BYTES_MAX};
use crate::settings::Settings;

/// Whether the identity of an entry matches one of a connection's.
fn matches(id: &Id, identities: &Identities) -> bool {
    match (id.scheme.as_deref(), id.id.as_deref()) {
        (Some("world"), Some("anyone")) => true,
        (Some("ip"), Some(range)) => identities
            .iter()
            .filter(|identity| identity.scheme.as_deref() == Some("ip"))
            .any(|identity| ip::matches(range, identity.id.as_deref().unwrap_or_default())),
        (Some("sasl"), Some(_)) => identities.match_sasl(id),
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
    #[inline]
    pub(crate) fn permits(&self, list: &AclList, wanted: Permissions) -> Result<(), ErrorCode> {
        // Almost every list gives everyone every permission. Then the identities do not matter.
        if list.permits_everyone(wanted) { Ok(()) } else { self.permits_some(list, wanted) }
    }

    fn permits_some(&self, list: &AclList, wanted: Permissions) -> Result<(), ErrorCode> {
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

/// The list that is stored when a client sets `acl` (`fixupACL`): without repeated entries, with
/// `auth` replaced by the identities by which the client authenticated, and with every other entry
/// checked by its scheme.
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
        // `AclLists::last_of_everyone` relies on this: the list is stored as it came.
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
                    .filter(|identity| is_authenticated(identity, settings))
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

/// Whether the client had to prove an identity, so that `auth` in a list includes it.
fn is_authenticated(identity: &Id, settings: &Settings) -> bool {
    identity.scheme.as_deref().is_some_and(|scheme| {
        matches!(scheme, "digest" | "x509" | "sasl") && settings.has_scheme(scheme)
    })
}

/// Whether a list may contain an identity. ZooKeeper's providers throw on a null id, and ZooKeeper
/// then replies with `MarshallingError`.
fn is_valid(scheme: &str, id: Option<&str>, settings: &Settings) -> Result<bool, ErrorCode> {
    let is_valid: fn(&str) -> bool = match scheme {
        "world" => |id| id == "anyone",
        "ip" => ip::is_valid,
        "digest" if settings.digest_scheme => digest::is_valid,
        "x509" if settings.x509_scheme => x509::is_valid,
        "sasl" if settings.sasl_scheme => sasl::is_valid,
        _ => return Ok(false),
    };
    let id = id.ok_or(ErrorCode::MARSHALLING_ERROR)?;
    Ok(id.len() <= IDENTITY_BYTES_MAX && is_valid(id))
}

#[cfg(test)]
mod tests {
    use super::identities::COMPARED_IDENTITIES_MAX;
    use super::*;
    use crate::limits::IDENTITIES_MAX;

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

    fn entry(scheme: &'static str, id: &'static str) -> Acl {
        Acl { permissions: Permissions::ALL, id: Id::new(scheme, id) }
    }

    #[test]
    fn a_list_may_name_only_schemes_that_have_a_provider() {
        let (none, all) = (
            Settings { digest_scheme: false, ..Settings::default() },
            Settings { x509_scheme: true, sasl_scheme: true, ..Settings::default() },
        );
        for (scheme, id) in [("digest", "a:b"), ("x509", "CN=a"), ("sasl", "a")] {
            let list = [entry(scheme, id)];
            let fix_up = |settings| fix_up(Some(&list), &Identities::default(), settings);
            assert_eq!(fix_up(&none), Err(ErrorCode::INVALID_ACL), "{scheme}");
            assert_eq!(fix_up(&all).as_deref(), Ok(&list[..]), "{scheme}");
        }
        for (scheme, id) in [("x509", "a"), ("sasl", "a@b@c"), ("ensemble", "a"), ("super", "")] {
            let list = [entry(scheme, id)];
            let fixed = fix_up(Some(&list), &Identities::default(), &all);
            assert_eq!(fixed, Err(ErrorCode::INVALID_ACL), "{scheme}:{id}");
        }
    }

    #[test]
    fn auth_stands_for_what_the_client_has_proved() {
        let settings = Settings {
            x509_scheme: true,
            x509_super_user: Some("CN=a".to_owned()),
            sasl_scheme: true,
            ..Settings::default()
        };
        let who = Identities::of_address([127, 0, 0, 1].into());
        let who =
            authenticate_certificate("CN=a", &who, &settings).expect("it is within the limits");
        let who = authenticate_sasl("bob", &who, &settings).expect("it is within the limits");
        let fixed = fix_up(Some(&[entry("auth", "")]), &who, &settings).expect("it has identities");
        assert_eq!(*fixed, [entry("x509", "CN=a"), entry("sasl", "bob")]);
        let fixed = fix_up(Some(&[entry("auth", "")]), &who, &Settings::default());
        assert_eq!(fixed, Err(ErrorCode::INVALID_ACL), "without providers");
    }

    #[test]
    fn an_entry_for_a_sasl_user_needs_the_provider() {
        let list = |user| AclLists::default().intern(&[entry("sasl", user)].into());
        let permits = |list: AclList, user, settings: &Settings| {
            let who = authenticate_sasl(user, &Identities::default(), settings);
            list.permits(Permissions::READ, &who.expect("it is within the limits"))
        };
        let with = Settings { sasl_scheme: true, ..Settings::default() };
        assert!(permits(list("bob"), "bob", &with));
        assert!(!permits(list("bob"), "ann", &with));
        assert!(permits(list("bob"), "super", &with), "it matches each entry of the scheme");
        assert!(!permits(list("bob"), "bob", &Settings::default()));
        assert!(!permits(list("bob"), "super", &Settings::default()));
        let any = Settings { any_sasl_user: Some("read".to_owned()), ..with };
        assert!(permits(list("read"), "bob", &any) && permits(list("bob"), "bob", &any));
        assert!(!permits(list("bob"), "ann", &any));
        assert!(!list("read").permits(Permissions::READ, &Identities::default()));
    }
}
