//! What one operation has done, and the reply about it.

use zoolet_protocol::{ErrorCode, MultiResult, Stat, ZPath};

use crate::tree::{Place, Tree};

/// What one operation has done.
pub(super) enum Done<'a> {
    /// Created a znode, by a `create`.
    Created(&'a ZPath),
    /// Created a znode, by an operation whose reply has the Stat.
    CreatedWithStat(&'a ZPath, Stat),
    /// Deleted a znode.
    Deleted,
    /// Set the data of the znode at this place to so many bytes. Its Stat is read where the reply is made:
    /// to move it from one function to the next would take longer.
    Set(Place, usize),
    /// Compared a version.
    Checked,
}

impl Done<'_> {
    /// The part of the reply to a multi. The tree has not changed since.
    pub(super) fn result(done: &Result<Self, ErrorCode>, tree: &Tree) -> MultiResult {
        match done {
            Ok(Self::Created(path)) => MultiResult::Create(path.as_str().into()),
            Ok(Self::CreatedWithStat(path, stat)) => {
                MultiResult::Create2(path.as_str().into(), *stat)
            }
            Ok(Self::Deleted) => MultiResult::Delete,
            Ok(Self::Set(place, length)) => MultiResult::SetData(stat_of(*place, *length, tree)),
            Ok(Self::Checked) => MultiResult::Check,
            Err(code) => MultiResult::Error(*code),
        }
    }
}

/// The Stat of the znode at a place, as it was when its data were set. If it has the counters of a quota that
/// counts itself, its data have changed again since.
#[inline]
pub(super) fn stat_of(place: Place, length: usize, tree: &Tree) -> Stat {
    let stat = tree.at(place).expect("its data was set").stat();
    Stat { data_length: i32::try_from(length).expect("data fits a frame"), ..stat }
}
