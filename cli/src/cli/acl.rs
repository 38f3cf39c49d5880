//! Access control lists as text.

use std::fmt;
use std::str::FromStr;

use zoolet_protocol::{Acl, Id};

use crate::server_options::values;

/// An access control list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AclList(pub(crate) Vec<Acl>);

/// Why a text is no access control list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not SCHEME:ID:PERMISSIONS, such as world:anyone:cdrwa, with commas between several; \
     PERMISSIONS are of c (create), d (delete), r (read), w (write) and a (admin)"
)]
pub(crate) struct BadAcl(String);

impl AclList {
    /// The users of the `digest` entries after which no hash stands, but a password perhaps.
    pub(crate) fn without_hash(&self) -> impl Iterator<Item = &str> {
        let digests = self.0.iter().filter(|acl| acl.id.scheme.as_deref() == Some("digest"));
        let ids = digests.map(|acl| acl.id.id.as_deref().unwrap_or_default());
        let without = ids.filter(|id| values::super_digest(id).is_err());
        without.map(|id| id.split_once(':').map_or("", |(user, _)| user))
    }
}

impl FromStr for AclList {
    type Err = BadAcl;

    fn from_str(text: &str) -> Result<Self, BadAcl> {
        let mut list = Vec::new();
        let mut rest = text;
        loop {
            let end = end_of_entry(rest);
            let written = &rest[..end];
            list.push(entry(written).ok_or_else(|| BadAcl(written.to_owned()))?);
            match rest[end..].strip_prefix(',') {
                Some(next) => rest = next,
                None => return Ok(Self(list)),
            }
        }
    }
}

/// Where the first entry ends: at a comma. The name of a certificate's subject has commas too, so an
/// entry of x509 ends at the first comma before which it is whole.
fn end_of_entry(text: &str) -> usize {
    let mut commas = text.match_indices(',').map(|(at, _)| at).chain([text.len()]);
    let is_name = text.trim_start().starts_with("x509:");
    let is_end = |end: &usize| !is_name || entry(&text[..*end]).is_some();
    commas.find(is_end).unwrap_or(text.len())
}

/// The id may contain colons, as that of the digest scheme does.
fn entry(text: &str) -> Option<Acl> {
    let (scheme, rest) = text.trim().split_once(':')?;
    let (id, letters) = rest.rsplit_once(':')?;
    let permissions = letters.parse().ok()?;
    let is_whole = !scheme.is_empty() && !letters.is_empty();
    is_whole.then(|| Acl { permissions, id: Id::new(scheme, id) })
}

impl fmt::Display for AclList {
    /// One entry a line, each in the form in which it is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|acl| writeln!(f, "{acl}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_printed() {
        for text in ["world:anyone:cdrwa", "digest:ann:h4sh=:rw", "ip:fe80::1:r", "auth::cdrwa"] {
            let list: AclList = text.parse().unwrap();
            assert_eq!(list.to_string(), format!("{text}\n"));
        }
        let names: AclList = "x509:CN=a,O=b:r,world:anyone:w,x509:CN=c:a".parse().unwrap();
        assert_eq!(names.to_string(), "x509:CN=a,O=b:r\nworld:anyone:w\nx509:CN=c:a\n");
        let both: AclList = "world:anyone:r,digest:a:b:w".parse().unwrap();
        assert_eq!(both.to_string(), "world:anyone:r\ndigest:a:b:w\n");
    }

    #[test]
    fn a_password_in_place_of_a_hash_is_noticed() {
        let list: AclList =
            "digest:ann:secret:r,digest:bob:2jmj7l5rSw0yVb/vlWAYkK/YBwk=:r,digest:x:r,world:anyone:r"
                .parse()
                .unwrap();
        assert_eq!(list.without_hash().collect::<Vec<_>>(), ["ann", ""]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "",
            "world",
            "world:anyone",
            "world:anyone:x",
            "world:anyone:",
            ":a:r",
            "a:b:r,",
            "x509:CN=a,O=b",
        ] {
            assert!(text.parse::<AclList>().is_err(), "{text}");
        }
    }
}
