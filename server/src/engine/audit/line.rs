//! The format of a line: `key=value` pairs with tabs between them, always in the same order
//! (`AuditEvent`).

use std::fmt::{self, Write};
use std::net::IpAddr;

use zoolet_core::Identities;
use zoolet_protocol::{Acl, Id, SessionId};

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
    /// It is about to happen: the server stops.
    Invoked,
}

/// Who has asked for an operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum User<'a> {
    /// The server itself, by the name of the user that runs it.
    Server(&'a str),
    /// By the address from which it connects; `None` in process.
    Client(&'a Identities, Option<IpAddr>),
}

/// One line. What is `None` is left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) session: Option<SessionId>,
    pub(super) user: User<'a>,
    pub(super) operation: &'static str,
    pub(super) znode: Option<&'a str>,
    pub(super) znode_type: Option<&'static str>,
    pub(super) acl: Option<&'a [Acl]>,
    pub(super) outcome: Outcome,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(session) = self.session {
            write!(f, "session={session}\t")?;
        }
        match self.user {
            User::Server(name) => write!(f, "user={}\t", OneLine(name))?,
            User::Client(identities, address) => {
                put_users(f, identities)?;
                if let Some(address) = address {
                    write!(f, "ip={address}\t")?;
                }
            }
        }
        write!(f, "operation={}\t", self.operation)?;
        if let Some(znode) = self.znode {
            write!(f, "znode={}\t", OneLine(znode))?;
        }
        if let Some(znode_type) = self.znode_type {
            write!(f, "znode_type={znode_type}\t")?;
        }
        if let Some(acl) = self.acl {
            f.write_str("acl=")?;
            acl.iter().try_for_each(|entry| put_acl(f, entry))?;
            f.write_char('\t')?;
        }
        f.write_str(match self.outcome {
            Outcome::Success => "result=success",
            Outcome::Failure => "result=failure",
            Outcome::Invoked => "result=invoked",
        })
    }
}

/// The users of a connection, with commas between them (`AuthUtil.getUsers`). The identity by the
/// address is one of them; that of the superuser has no name.
fn put_users(f: &mut fmt::Formatter<'_>, identities: &Identities) -> fmt::Result {
    let users = identities.iter().filter(|id| id.scheme.as_deref() != Some("super"));
    let users = users.filter_map(user).filter(|user| !user.trim().is_empty());
    let mut is_first = true;
    for user in users {
        f.write_str(if is_first { "user=" } else { "," })?;
        write!(f, "{}", OneLine(user))?;
        is_first = false;
    }
    if is_first { Ok(()) } else { f.write_char('\t') }
}

/// The name in an identity: of a digest without the hash.
fn user(id: &Id) -> Option<&str> {
    let text = id.id.as_deref()?;
    match id.scheme.as_deref() {
        Some("digest") => Some(text.split_once(':').map_or(text, |(user, _)| user)),
        _ => Some(text),
    }
}

/// An entry of a list as `ZKUtil.aclToString` prints it, with nothing between it and the next. Of a
/// digest ZooKeeper prints the hash too; here it is hidden, as from a client that may not see it.
fn put_acl(f: &mut fmt::Formatter<'_>, entry: &Acl) -> fmt::Result {
    let scheme = entry.id.scheme.as_deref().unwrap_or_default();
    let id = entry.id.id.as_deref().unwrap_or_default();
    match (scheme, id.split_once(':')) {
        ("digest", Some((user, _))) => write!(f, "digest:{}:x", OneLine(user))?,
        _ => write!(f, "{}:{}", OneLine(scheme), OneLine(id))?,
    }
    write!(f, ":{}", entry.permissions)
}

/// A text that a client has chosen: nothing in it can begin another line or field, and different
/// texts stay different.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Most texts are plain, and bytes are compared faster than characters.
        if self.0.bytes().all(|byte| (b' '..b'\x7f').contains(&byte) && byte != b'\\') {
            return f.write_str(self.0);
        }
        self.0.chars().try_for_each(|char| match is_escaped(char) {
            true => write!(f, "{}", char.escape_default()),
            false => f.write_char(char),
        })
    }
}

/// Whether a character could end a line for some reader, or be taken for an escape.
fn is_escaped(char: char) -> bool {
    char.is_control() || matches!(char, '\\' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::Permissions;

    use super::*;

    struct Users(Identities);

    impl fmt::Display for Users {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            put_users(f, &self.0)
        }
    }

    fn line<'a>(user: User<'a>, znode: &'a str) -> Line<'a> {
        Line {
            session: None,
            user,
            operation: "setAcl",
            znode: Some(znode),
            znode_type: None,
            acl: None,
            outcome: Outcome::Failure,
        }
    }

    #[test]
    fn a_client_cannot_forge_lines_or_fields() {
        let line = line(User::Server("root"), "/a\nuser=x\toperation=delete\u{85}");
        let expected = "user=root\toperation=setAcl\tznode=/a\\nuser=x\\toperation=delete\\u{85}\tresult=failure";
        assert_eq!(line.to_string(), expected);
    }

    #[test]
    fn separators_of_unicode_end_no_line_and_a_backslash_is_no_escape() {
        let znode = |znode| line(User::Server("root"), znode).to_string();
        assert!(znode("/a\u{2028}b\u{2029}é").contains("\tznode=/a\\u{2028}b\\u{2029}é\t"));
        assert!(znode("/a\\nb").contains("\tznode=/a\\\\nb\t"));
        assert_ne!(znode("/a\\nb"), znode("/a\nb"));
    }

    #[test]
    fn the_hash_of_a_digest_is_in_no_line() {
        let acl = [
            Acl { permissions: Permissions::READ, id: Id::new("digest", "ann:aGFzaA==") },
            Acl::open(),
        ];
        let line = Line { acl: Some(&acl), ..line(User::Server("root"), "/a") };
        assert!(line.to_string().contains("\tacl=digest:ann:x:rworld:anyone:cdrwa\t"), "{line}");
        let identities = Identities::of_address([127, 0, 0, 1].into());
        let identities =
            identities.and(Id::new("super", "")).and(Id::new("digest", "ann:aGFzaA=="));
        assert_eq!(Users(identities).to_string(), "user=127.0.0.1,ann\t");
    }
}
