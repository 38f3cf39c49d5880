//! What one operation has done, and the reply about it.

use zoolet_protocol::{ErrorCode, MultiResult, Response, Stat, ZPath};

/// What one operation has done.
pub(super) enum Done<'a> {
    /// Created a znode, by a `create`.
    Created(&'a ZPath),
    /// Created a znode, by an operation whose reply has the Stat.
    CreatedWithStat(&'a ZPath, Stat),
    /// Deleted a znode.
    Deleted,
    /// Set the data of a znode.
    Set(Stat),
    /// Compared a version.
    Checked,
}

impl Done<'_> {
    /// The reply, if the operation stands alone.
    pub(super) fn response(self) -> Response {
        match self {
            Self::Created(path) => Response::Path(path.into()),
            Self::CreatedWithStat(path, stat) => Response::PathStat(path.as_str().into(), stat),
            Self::Set(stat) => Response::Stat(stat),
            Self::Deleted | Self::Checked => Response::Empty,
        }
    }

    /// The part of the reply to a multi.
    pub(super) fn result(done: Result<Self, ErrorCode>) -> MultiResult {
        match done {
            Ok(Self::Created(path)) => MultiResult::Create(path.as_str().into()),
            Ok(Self::CreatedWithStat(path, stat)) => {
                MultiResult::Create2(path.as_str().into(), stat)
            }
            Ok(Self::Deleted) => MultiResult::Delete,
            Ok(Self::Set(stat)) => MultiResult::SetData(stat),
            Ok(Self::Checked) => MultiResult::Check,
            Err(code) => MultiResult::Error(code),
        }
    }
}
