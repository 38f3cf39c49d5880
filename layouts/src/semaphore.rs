//! Semaphores, which have two directories: one of permits, and one in which those stand who want some.

use crate::directory::{Directory, Place};
use crate::queue::{Queue, Row};
use crate::role::Role;
use crate::style::{Recipe, Style};

/// Which part of a recipe a directory may be.
///
/// ```
/// use zoolet_layouts::{Part, Site};
///
/// assert_eq!(Site::of("/pool/leases").part, Part::Permits);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The only directory of its recipe.
    Line,
    /// Where those stand in line who want a permit. Any lock may have such a path: it is one only if
    /// the directory of the permits exists.
    Gate,
    /// Where the permits of Curator's semaphore are.
    Permits,
}

/// The recipe to which a directory may belong, by its path.
///
/// ```
/// use zoolet_layouts::{Part, Site};
///
/// assert_eq!(Site::of("/pool/locks"), Site { root: "/pool", part: Part::Gate });
/// assert_eq!(Site::of("/pool-__lock__"), Site { root: "/pool", part: Part::Gate });
/// assert_eq!(Site::of("/pool"), Site { root: "/pool", part: Part::Line });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Site<'a> {
    /// The path that a program gave to its recipe.
    pub root: &'a str,
    /// Which part of it the directory is.
    pub part: Part,
}

/// The child of a semaphore's path whose children are its permits.
const PERMITS: &str = "leases";

/// The child of a semaphore's path whose children want permits.
const GATE: &str = "locks";

/// What kazoo appends to the path of a semaphore for those who want permits.
const KAZOO_GATE: &str = "-__lock__";

impl<'a> Site<'a> {
    /// The child of a semaphore's path whose children are its permits, with Curator's names.
    pub const PERMITS: &'static str = PERMITS;

    /// The child of a semaphore's path whose children want permits, with Curator's names.
    pub const GATE: &'static str = GATE;

    /// Reads the path of a directory.
    #[must_use]
    pub fn of(path: &'a str) -> Self {
        if let Some(root) = path.strip_suffix(KAZOO_GATE).filter(|root| !root.ends_with('/')) {
            return Self { root, part: Part::Gate };
        }
        let part = match path.rsplit_once('/') {
            Some((_, PERMITS)) => Part::Permits,
            Some((_, GATE)) => Part::Gate,
            _ => return Self { root: path, part: Part::Line },
        };
        let root = path.rsplit_once('/').map_or(path, |(root, _)| root);
        Self { root: if root.is_empty() { "/" } else { root }, part }
    }
}

/// The queue of a semaphore: those that have a permit, the one in front of the line for permits, and
/// those behind it. Other znodes of the two directories are left out.
///
/// Curator creates the znode of a permit while it waits for it. Such a znode waits here too: it is one
/// of the session in front of the line, and younger than its place there.
///
/// ```
/// use zoolet_layouts::{Directory, Role, Znode, semaphore};
///
/// let permits = Directory::of([("lease-0000000000", Znode::default())]);
/// let gate = Directory::of([("lock-0000000004", Znode::default())]);
/// let queue = semaphore(&permits, &gate);
/// assert_eq!(queue.rows[0].role, Role::HasPermit);
/// assert_eq!(queue.rows[1].role, Role::WaitsForPermit);
/// ```
#[must_use]
pub fn semaphore<'a>(permits: &'a Directory, gate: &'a Directory) -> Queue<'a> {
    let is_permit = |place: &&Place| {
        let is_kazoos = place.style == Style::KazooPermit && permits.permits().is_some();
        place.style == Style::CuratorPermit || is_kazoos
    };
    let mut wants: Vec<&Place> = gate.places().filter(|place| is_of_gate(place.style)).collect();
    wants.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
    let front = wants.first().copied();
    let is_asked_for = |place: &Place| {
        let of_front =
            |front: &Place| front.is_of_session(place) && place.znode.czxid > front.znode.czxid;
        front.is_some_and(of_front)
    };
    let mut recipe = Recipe::Semaphore;
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut asked_for = Vec::new();
    for place in permits.places().filter(is_permit) {
        if place.style == Style::KazooPermit {
            recipe = Recipe::KazooSemaphore;
        }
        if place.style == Style::CuratorPermit && is_asked_for(place) {
            asked_for.push(place);
        } else {
            rows.push(Row { place, role: Role::HasPermit, behind: None });
        }
    }
    // It waits for a permit, whichever is returned first: the last one stands for all.
    let last_permit = rows.len().checked_sub(1);
    for place in asked_for {
        rows.push(Row { place, role: Role::WaitsForPermit, behind: last_permit });
    }
    for (index, place) in wants.into_iter().enumerate() {
        let row = match index {
            0 => Row { place, role: Role::WaitsForPermit, behind: last_permit },
            _ => Row { place, role: Role::Waits, behind: rows.len().checked_sub(1) },
        };
        rows.push(row);
    }
    Queue { recipe, rows }
}

/// Who stands in front of those that want permits: the only one that asks for some. Its cost does not grow with
/// those behind it.
///
/// ```
/// use zoolet_layouts::{Directory, Znode, front_of_gate};
///
/// let names = ["lock-0000000002", "lock-0000000001"];
/// let gate = Directory::of(names.map(|name| (name, Znode::default())));
/// assert_eq!(front_of_gate(&gate).unwrap().number, Some(1));
/// ```
#[must_use]
pub fn front_of_gate(gate: &Directory) -> Option<&Place> {
    gate.firsts().filter(|place| is_of_gate(place.style)).min_by(|a, b| a.order().cmp(&b.order()))
}

fn is_of_gate(style: Style) -> bool {
    matches!(style, Style::CuratorLock | Style::GoLock | Style::OtherLock | Style::KazooLock)
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::{SessionId, Zxid};

    use super::*;
    use crate::directory::Znode;

    fn znode(session: i64, czxid: i64) -> Znode {
        Znode { session: SessionId(session), czxid: Zxid(czxid), ctime: 0 }
    }

    #[test]
    fn paths_of_two_directories_have_one_root() {
        let cases = [
            ("/", "/", Part::Line),
            ("/locks", "/", Part::Gate),
            ("/a/leases", "/a", Part::Permits),
            ("/a/locks/b", "/a/locks/b", Part::Line),
            ("/a-__lock__", "/a", Part::Gate),
            ("/a/-__lock__", "/a/-__lock__", Part::Line),
        ];
        for (path, root, part) in cases {
            assert_eq!(Site::of(path), Site { root, part }, "{path}");
        }
    }

    #[test]
    fn a_permit_that_was_created_in_front_of_the_line_is_only_asked_for() {
        let names = [
            ("lease-0000000000", znode(1, 10)),
            ("lease-0000000001", znode(2, 11)),
            ("lease-0000000002", znode(1, 31)),
        ];
        let permits = Directory::of(names);
        let names = [("lock-0000000007", znode(1, 30)), ("lock-0000000008", znode(2, 32))];
        let gate = Directory::of(names);
        let queue = semaphore(&permits, &gate);
        let rows: Vec<_> =
            queue.rows.iter().map(|row| (&row.place.name[..], row.role, row.behind)).collect();
        let expected = [
            ("lease-0000000000", Role::HasPermit, None),
            ("lease-0000000001", Role::HasPermit, None),
            ("lease-0000000002", Role::WaitsForPermit, Some(1)),
            ("lock-0000000007", Role::WaitsForPermit, Some(1)),
            ("lock-0000000008", Role::Waits, Some(3)),
        ];
        assert_eq!(rows, expected);
    }
}
