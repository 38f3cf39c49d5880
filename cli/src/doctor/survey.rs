//! What a look at the tree has found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use zoolet_layouts::{Directory, Part, Place, Queue, Recipe, Site, Step, Style, Znode, semaphore};
use zoolet_protocol::{Acl, SessionId, Stat, Zxid};

use super::limits::LEFT_OUT_NAMED_MAX;
use super::sessions::Sessions;

/// What a look at the tree has found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The directories in which someone holds or waits, by their paths.
    pub(crate) locks: BTreeMap<String, LockDirectory>,
    /// Znodes with long data, and its length.
    pub(crate) large: Vec<(String, usize)>,
    /// Directories with a long list of children.
    pub(crate) long: Vec<LongList>,
    /// The empty directories below each parent.
    pub(crate) empty: BTreeMap<String, Empty>,
    /// How many znodes were looked at.
    pub(crate) znodes: u64,
    /// How many requests that took.
    pub(crate) requests: u64,
    /// Paths that the client may not read.
    pub(crate) unreadable: Vec<String>,
    /// Znodes that are no ephemerals, whose names are of no recipe and whose data is short: below these
    /// locks may come. Up to some number.
    pub(crate) candidates: Vec<(String, Stamp)>,
    /// Whether the look ended before the tree, at the limit of the options.
    pub(crate) is_cut: bool,
    /// How many children of which directories were not looked at then.
    pub(crate) left_out: BTreeMap<String, u64>,
    /// When it ended, by the clock of this machine, in milliseconds since 1970.
    pub(crate) now_ms: i64,
}

/// What tells whether the children of a znode, or its data, are the same: the transactions that created it,
/// set its data and changed its children, how often these changed, and how many they are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) czxid: Zxid,
    pub(crate) mzxid: Zxid,
    pub(crate) pzxid: Zxid,
    pub(crate) cversion: i32,
    pub(crate) children: i32,
}

impl From<&Stat> for Stamp {
    fn from(stat: &Stat) -> Self {
        let Stat { czxid, mzxid, pzxid, cversion, num_children: children, .. } = *stat;
        Self { czxid, mzxid, pzxid, cversion, children }
    }
}

impl Stamp {
    /// The number that the server gives to the next child, as far as a Stat tells it: without its sign. The
    /// server counts the children that were created; a Stat has twice that, less those that are there, which
    /// is the number of changes.
    fn next_number(self) -> u32 {
        self.cversion.wrapping_add(self.children).cast_unsigned() >> 1
    }

    /// Whether the server may have given this number to a child. Otherwise somebody has made it by hand.
    pub(crate) fn has_given(self, number: i32) -> bool {
        (number.cast_unsigned() & i32::MAX.cast_unsigned()) < self.next_number()
    }
}

/// A directory in which someone may hold or wait.
#[derive(Debug, Default)]
pub(crate) struct LockDirectory {
    pub(crate) directory: Directory,
    /// Of its own znode, before its children were read.
    pub(crate) stamp: Stamp,
    /// The first of the other names, in the order of text.
    pub(crate) first_other: Option<String>,
    /// Who may do what there, if that was asked.
    pub(crate) acl: Option<Vec<Acl>>,
}

/// A directory with a list of children that is long in a reply.
#[derive(Debug)]
pub(crate) struct LongList {
    pub(crate) path: String,
    pub(crate) children: i32,
    /// The bytes of the list; `None` if it was not read for its length.
    pub(crate) bytes: Option<usize>,
}

/// Empty directories of one parent.
#[derive(Debug, Default)]
pub(crate) struct Empty {
    pub(crate) count: u64,
    /// One of them.
    pub(crate) example: String,
}

impl LockDirectory {
    /// Whether a session has a place of this style here.
    fn has(&self, style: Style, session: SessionId) -> bool {
        let is_it = |place: &Place| place.style == style && place.znode.session == session;
        self.directory.places().any(is_it)
    }

    fn learn(&mut self, path: &str, sessions: &Sessions) {
        let mut strangers = self.directory.strangers();
        strangers.retain(|(later, ahead, _)| {
            let is_watched = |place: &Place| {
                let watching = sessions.watchers.get(&child(path, &place.name));
                watching.is_some_and(|all| all.iter().any(|it| self.has(*later, *it)))
            };
            self.directory.places().any(|place| place.style == *ahead && is_watched(place))
        });
        for (later, ahead, _) in strangers {
            self.directory.learn(later, ahead);
        }
    }

    /// Whether permits of Curator's semaphore stand here.
    fn has_permits(&self) -> bool {
        self.directory.styles().any(|style| style == Style::CuratorPermit)
    }
}

impl Survey {
    /// The queues of all paths. Both directories of a semaphore are one queue, at its path.
    pub(crate) fn queues(&self) -> Vec<(&str, Queue<'_>)> {
        self.locks.keys().flat_map(|path| self.queues_of(path)).collect()
    }

    /// The queues that are told at this directory.
    pub(crate) fn queues_of(&self, path: &str) -> Vec<(&str, Queue<'_>)> {
        let Some((path, lock)) = self.locks.get_key_value(path) else { return Vec::new() };
        let site = Site::of(path);
        let mut queues = Vec::new();
        match site.part {
            // It is told with its permits.
            Part::Gate if self.permits_of(site.root).is_some() => return queues,
            Part::Permits if lock.has_permits() => {
                let gate = self.directory(&child(site.root, Site::GATE));
                queues.push((site.root, semaphore(&lock.directory, gate)));
            }
            Part::Gate | Part::Permits | Part::Line => {
                for queue in lock.directory.queues() {
                    if queue.recipe == Recipe::KazooSemaphore {
                        let gate = self.directory(&format!("{path}-__lock__"));
                        queues.push((path.as_str(), semaphore(&lock.directory, gate)));
                    } else if queue.recipe.excludes() || queue.recipe == Recipe::Lease {
                        queues.push((path.as_str(), queue));
                    }
                }
            }
        }
        queues.retain(|(_, queue)| !queue.rows.is_empty());
        queues
    }

    /// The directories whose queues may be others when this one has changed.
    pub(crate) fn touched_by(path: &str) -> [String; 5] {
        let root = Site::of(path).root;
        let parts = [child(root, Site::PERMITS), child(root, Site::GATE)];
        let [permits, gate] = parts;
        [path.to_owned(), root.to_owned(), permits, gate, format!("{root}-__lock__")]
    }

    /// Those that stand in a directory; nobody if it was not found.
    fn directory(&self, path: &str) -> &Directory {
        static NOBODY: LazyLock<Directory> = LazyLock::new(Directory::new);
        match self.locks.get(path) {
            Some(lock) => &lock.directory,
            None => &NOBODY,
        }
    }

    /// The directory of the permits of a semaphore at this path.
    fn permits_of(&self, root: &str) -> Option<&LockDirectory> {
        let curators = self.locks.get(&child(root, Site::PERMITS)).filter(|it| it.has_permits());
        let kazoos = || self.locks.get(root).filter(|it| it.directory.permits().is_some());
        curators.or_else(kazoos)
    }

    /// Takes notice of locks that wait for names of other libraries, because they were told to: a session
    /// with a place of the one watches a place of the other. Those behind it watch places of their own.
    pub(crate) fn learn(&mut self, sessions: &Sessions) {
        for (path, lock) in &mut self.locks {
            lock.learn(path, sessions);
        }
    }

    /// The same in some directories.
    pub(crate) fn learn_in<'a>(
        &mut self,
        paths: impl Iterator<Item = &'a str>,
        sessions: &Sessions,
    ) {
        for path in paths {
            if let Some(lock) = self.locks.get_mut(path) {
                lock.learn(path, sessions);
            }
        }
    }

    /// The directories of the locks in which these wait.
    pub(crate) fn directories_of<'a>(
        &self,
        steps: impl IntoIterator<Item = &'a Step>,
    ) -> BTreeSet<String> {
        let of_path = |path: &str| {
            let kazoos_gate = format!("{path}-__lock__");
            [path.to_owned(), child(path, Site::PERMITS), child(path, Site::GATE), kazoos_gate]
        };
        let paths = steps.into_iter().flat_map(|step| of_path(&step.path));
        paths.filter(|path| self.locks.contains_key(path)).collect()
    }

    /// What was left out, the directories with most of it first, in a text; `None` if that is nothing.
    pub(crate) fn left_out_text(&self) -> Option<String> {
        let mut most: Vec<(&String, u64)> =
            self.left_out.iter().map(|(path, count)| (path, *count)).collect();
        most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let named = most.iter().take(LEFT_OUT_NAMED_MAX);
        let mut texts: Vec<String> =
            named.map(|(path, count)| format!("{count} children of {path}")).collect();
        let more = most.len().saturating_sub(texts.len());
        if more > 0 {
            texts.push(format!("and some of {more} other directories"));
        }
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// How long a znode has existed, in milliseconds. A server may tell any time.
    pub(crate) fn age_ms(&self, znode: Znode) -> i64 {
        self.now_ms.saturating_sub(znode.ctime)
    }

    /// Records an empty directory that had children once.
    pub(crate) fn add_empty(&mut self, path: &str) {
        let (parent, _) = split(path);
        let empty = self.empty.entry(parent.to_owned()).or_default();
        empty.count += 1;
        empty.example = path.to_owned();
    }
}

/// The path of a child.
pub(crate) fn child(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// The path of the parent, and the name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((parent, name)) => (parent, name),
        None => ("/", path),
    }
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::CreateMode;
    use zoolet_testkit::TestServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_next_number_is_that_of_the_server() {
        let server = TestServer::start().await.unwrap();
        let client = server.connect().await.unwrap();
        client.create("/d").await.unwrap();
        for name in ["by-hand", "lock--000000005", "lock-2147483000", "gone"] {
            client.create(&format!("/d/{name}")).await.unwrap();
        }
        client.delete("/d/gone").await.unwrap();
        for expected in 4..7 {
            let stamp = Stamp::from(&client.exists("/d").await.unwrap().unwrap());
            assert_eq!(stamp.next_number(), expected);
            let created = client.create("/d/lock-").mode(CreateMode::PersistentSequential);
            let path = created.await.unwrap().path.to_string();
            assert_eq!(path, format!("/d/lock-{expected:010}"));
        }
    }

    #[test]
    fn numbers_by_hand_are_told_from_those_of_the_server() {
        let of = |created: i32, children: i32| {
            let cversion = created.wrapping_mul(2).wrapping_sub(children);
            Stamp { cversion, children, ..Stamp::default() }
        };
        let young = of(7, 3);
        assert!(young.has_given(6) && !young.has_given(7));
        assert!(!young.has_given(-5) && !young.has_given(i32::MAX - 1));
        // At its end the server gives the last number and the first negative one again and again.
        let old = of(i32::MAX, 100);
        assert!(old.has_given(i32::MAX - 1) && old.has_given(i32::MIN) && old.has_given(-5));
        // A server that counts on.
        let wrapped = of(i32::MIN + 3, 2);
        assert!(wrapped.has_given(i32::MIN + 2) && !wrapped.has_given(-5));
    }
}
