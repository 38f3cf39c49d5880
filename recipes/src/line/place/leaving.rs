//! How a place is left.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use zoolet_protocol::{Delete, Expect, MultiOp, SetData};

use super::{LEFT_IN_FRONT, Place};
use crate::client::recipe::ZnodeIdentity;
use crate::error::LockError;
use crate::line::leave::Leave;

impl Place {
    /// Sends the deletion of the znode, and repeats it until the znode is gone or the session is over.
    fn leave_in_background(&mut self) -> Leave {
        self.is_left = true;
        self.is_gone.fetch_or(self.is_known_to_be_gone(), Ordering::AcqRel);
        self.claim = None;
        let own = self.shares_its_name.then_some(ZnodeIdentity::Czxid(self.czxid));
        let leave = if own.is_some() && self.is_lost() {
            // A znode of this name is another's.
            Leave::too_late(&self.client, self.session, &self.path)
        } else if self.tells_its_end {
            let operation = self.client.multi_without_results(self.leaving_ops());
            Leave::begin_with(operation, &self.client, self.session, &self.path)
        } else {
            Leave::begin(&self.client, self.session, &self.path)
        };
        leave.known_by(own).watched_by(self.own.take())
    }

    /// The operations of a multi by which it is left.
    pub(crate) fn leaving_ops(&self) -> Vec<MultiOp> {
        let path = self.path.as_str();
        let delete = MultiOp::Delete(Delete { path: path.into(), version: Expect::Any });
        if !self.tells_its_end {
            return vec![delete];
        }
        let data = Some(Bytes::from_static(LEFT_IN_FRONT));
        let mark = SetData { path: path.into(), data, version: Expect::Any };
        vec![MultiOp::SetData(mark), delete]
    }

    /// Notes that it was left already, by [`Place::leaving_ops`].
    pub(crate) fn was_left(mut self) {
        self.is_left = true;
    }

    /// Begins to leave. The request has its place in line when this returns.
    pub(crate) fn start_leaving(mut self) -> Leave {
        self.leave_in_background()
    }

    /// Leaves a line without having held the lock, and waits until that is certain. If the future
    /// is dropped it goes on in the background.
    pub(crate) async fn leave(mut self) -> Result<(), LockError> {
        self.leave_in_background().done().await.map_err(LockError::of_place)
    }

    /// As [`Place::leave`], for a place that is not held: it makes no difference whether somebody
    /// has deleted its znode before.
    pub(crate) async fn leave_if_there(self) -> Result<(), LockError> {
        self.start_leaving().done_if_there().await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_left {
            drop(self.leave_in_background());
        }
    }
}
