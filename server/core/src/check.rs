//! The self-check: what the state machine keeps twice must agree.
//!
//! The tree is the truth. Everything else that [`Core`] keeps is an index or a count that could be
//! derived from the znodes and from the registered watches. [`Core::check`] derives it again and
//! compares. Each part compares its own fields in a file of its own: `tree/check.rs`,
//! `watches/check.rs`, `sessions.rs`, `quota.rs`.

use std::collections::BTreeSet;
use std::fmt;

use zoolet_protocol::ZPath;

use crate::core::Core;
use crate::ephemeral_owner::EphemeralType;

/// The disagreements that an error message shows; the others are counted.
const SHOWN_MAX: usize = 10;

/// One place where two parts of the state machine contradict each other.
///
/// ```
/// use zoolet_core::Disagreement;
///
/// let missing = Disagreement::NotListed { index: "the containers".into(), entry: "/locks".into() };
/// assert_eq!(missing.to_string(), "the containers do not list /locks");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// An index lacks an entry that it must have.
    #[error("{index} do not list {entry}")]
    NotListed {
        /// The index, in the plural: "the children of /a".
        index: String,
        /// The missing entry.
        entry: String,
    },
    /// An index has an entry that it must not have.
    #[error("{index} list {entry}, which does not belong there")]
    ListedWrongly {
        /// The index, in the plural: "the children of /a".
        index: String,
        /// The surplus entry.
        entry: String,
    },
    /// A count or a cached value is not what the znodes or the watches give.
    #[error("{what}: {kept} is kept, {actual} is right")]
    Differs {
        /// What is counted.
        what: String,
        /// The value that the state machine keeps.
        kept: String,
        /// The value that was derived again.
        actual: String,
    },
}

/// Everything that [`Core::check`] found. It is never empty.
///
/// ```
/// use zoolet_core::{Core, Settings};
///
/// let core = Core::new(Settings::default());
/// if let Err(disagreements) = core.check() {
///     panic!("{disagreements}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreements(Vec<Disagreement>);

impl Disagreements {
    /// The disagreements, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Disagreement> {
        self.0.iter()
    }
}

impl fmt::Display for Disagreements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the state machine contradicts itself: ")?;
        for (index, disagreement) in self.0.iter().take(SHOWN_MAX).enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{disagreement}")?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for Disagreements {}

/// Collects disagreements.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Disagreement>);

impl Findings {
    /// Compares a kept value with the derived one.
    pub(crate) fn compare<T: PartialEq + fmt::Display>(
        &mut self,
        what: impl FnOnce() -> String,
        kept: T,
        actual: T,
    ) {
        if kept != actual {
            let (kept, actual) = (kept.to_string(), actual.to_string());
            self.0.push(Disagreement::Differs { what: what(), kept, actual });
        }
    }

    /// Compares the entries of an index with those that it must have.
    pub(crate) fn compare_index<'a>(
        &mut self,
        index: &str,
        listed: &BTreeSet<&'a str>,
        wanted: &BTreeSet<&'a str>,
    ) {
        for entry in wanted.difference(listed) {
            self.not_listed(index, entry);
        }
        for entry in listed.difference(wanted) {
            self.listed_wrongly(index, entry);
        }
    }

    #[cfg(test)]
    pub(crate) fn to_strings(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    pub(crate) fn not_listed(&mut self, index: &str, entry: &str) {
        let (index, entry) = (index.to_owned(), entry.to_owned());
        self.0.push(Disagreement::NotListed { index, entry });
    }

    pub(crate) fn listed_wrongly(&mut self, index: &str, entry: &str) {
        let (index, entry) = (index.to_owned(), entry.to_owned());
        self.0.push(Disagreement::ListedWrongly { index, entry });
    }
}

impl Core {
    /// Derives every index and every count again and compares it with what the state machine keeps:
    ///
    /// - the tree: each znode is found by its path and has a parent; the names, the number and the
    ///   encoded list of the children of a znode; the number of znodes and the bytes of paths and
    ///   data; each access control list is the shared copy;
    /// - each session's ephemerals, and the containers and TTL znodes that the sweeper looks at;
    /// - the paths that have a quota, and the counters of each quota that no client has set;
    /// - the watches by path and by connection, and their totals.
    ///
    /// This reads every znode and every watch: it is for tests, for the simulation and for recovery
    /// in debug builds. No other thread may answer a read at the same time: it may just be caching
    /// a list of children, and then the bytes of the cached lists differ for a moment.
    ///
    /// # Errors
    ///
    /// [`Disagreements`], if two parts contradict each other. That is a defect of this crate,
    /// whatever the requests and the log were.
    ///
    /// ```
    /// use zoolet_core::{Core, Settings};
    ///
    /// assert_eq!(Core::new(Settings::default()).check(), Ok(()));
    /// ```
    pub fn check(&self) -> Result<(), Disagreements> {
        let mut findings = Findings::default();
        self.tree.check(&mut findings);
        self.sessions.check(&self.tree, &mut findings);
        self.check_swept(&mut findings);
        self.quotas.check(&self.tree, &mut findings);
        self.watches.check(&mut findings);
        if findings.0.is_empty() { Ok(()) } else { Err(Disagreements(findings.0)) }
    }

    /// The containers and the TTL znodes.
    fn check_swept(&self, findings: &mut Findings) {
        let paths_of = |wanted: fn(EphemeralType) -> bool| -> BTreeSet<&str> {
            let znodes = self.tree.iter().filter(|znode| !znode.path.is_root());
            let znodes = znodes.filter(|znode| wanted(znode.stat.ephemeral_owner.ephemeral_type()));
            znodes.map(|znode| znode.path.as_str()).collect()
        };
        let containers = paths_of(|owner| owner == EphemeralType::Container);
        let ttls = paths_of(|owner| matches!(owner, EphemeralType::Ttl { .. }));
        findings.compare_index("the containers", &as_text(&self.containers), &containers);
        findings.compare_index("the TTL znodes", &as_text(&self.ttls), &ttls);
    }
}

fn as_text(paths: &BTreeSet<ZPath>) -> BTreeSet<&str> {
    paths.iter().map(ZPath::as_str).collect()
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::{Acl, Create, CreateFlags, CreateKind, MultiOp, SessionId, Write, Xid};

    use super::*;
    use crate::core::Requester;
    use crate::settings::Settings;
    use crate::watches::ConnectionId;

    /// A container, a TTL znode and an ephemeral.
    fn filled() -> Core {
        let mut core = Core::new(Settings::default());
        core.apply(&core.prepare_create_session(SessionId(1), 30_000, 0));
        let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
        let kinds = [
            ("/container", CreateKind::Container, CreateFlags::CONTAINER),
            ("/ttl", CreateKind::Ttl { ttl_ms: 1_000 }, CreateFlags::PERSISTENT_WITH_TTL),
            ("/ephemeral", CreateKind::Create, CreateFlags::EPHEMERAL),
        ];
        for (path, kind, flags) in kinds {
            let acl = Some(vec![Acl::open()]);
            let create = Create { kind, path: path.into(), data: None, acl, flags };
            let txn = core.prepare(&Write::Op(MultiOp::Create(create)), &requester, 0);
            assert!(core.apply(&txn).reply.is_ok(), "{path}");
        }
        assert_eq!(core.check(), Ok(()));
        core
    }

    fn found(core: &Core) -> Vec<String> {
        core.check().unwrap_err().iter().map(Disagreement::to_string).collect()
    }

    #[test]
    fn check_finds_a_container_that_the_sweeper_does_not_see() {
        let mut core = filled();
        core.containers.clear();
        assert_eq!(found(&core), ["the containers do not list /container"]);
    }

    #[test]
    fn check_finds_a_ttl_znode_that_the_sweeper_does_not_see() {
        let mut core = filled();
        core.ttls.clear();
        assert_eq!(found(&core), ["the TTL znodes do not list /ttl"]);
    }

    #[test]
    fn check_finds_a_swept_path_without_such_a_znode() {
        let mut core = filled();
        core.containers.insert(ZPath::parse("/ttl").unwrap());
        core.ttls.insert(ZPath::parse("/gone").unwrap());
        assert_eq!(
            found(&core),
            [
                "the containers list /ttl, which does not belong there",
                "the TTL znodes list /gone, which does not belong there",
            ]
        );
    }

    #[test]
    fn check_finds_an_ephemeral_that_its_session_does_not_own() {
        let mut core = filled();
        core.sessions.disown(SessionId(1), &ZPath::parse("/ephemeral").unwrap());
        assert_eq!(found(&core), ["the ephemerals of session 0x1 do not list /ephemeral"]);
    }

    #[test]
    fn check_finds_a_session_that_owns_what_is_no_ephemeral() {
        let mut core = filled();
        core.sessions.own(SessionId(1), ZPath::parse("/ttl").unwrap());
        let surplus = "the ephemerals of session 0x1 list /ttl, which does not belong there";
        assert_eq!(found(&core), [surplus]);
    }

    #[test]
    fn the_message_shows_the_first_disagreements_and_counts_the_others() {
        let mut core = filled();
        for number in 0..SHOWN_MAX + 2 {
            core.ttls.insert(ZPath::parse(&format!("/gone-{number:02}")).unwrap());
        }
        let message = core.check().unwrap_err().to_string();
        assert!(message.starts_with("the state machine contradicts itself: the TTL znodes list"));
        assert!(message.contains("/gone-09, which does not belong there; and 2 more"), "{message}");
    }
}
