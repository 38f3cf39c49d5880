//! Leaving: the deletion of an ephemeral of one's own, which must come to pass.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use zoolet_protocol::{ErrorCode, SessionId};

use crate::client::recipe::{ZnodeIdentity, ZnodeWatch};
use crate::client::{self, Client};
use crate::error::LockError;

/// A znode that is being deleted. Dropped, it goes on in the background, until the znode is gone or
/// its session is over.
#[must_use]
pub(crate) struct Leave {
    client: Client,
    session: SessionId,
    path: String,
    sent: Option<client::Sent<()>>,
    /// What hears of its end. Kept until that has come, it needs not be taken back.
    watch: Option<ZnodeWatch>,
    /// By what it is known, where others have a znode of the same name at other times.
    own: Option<ZnodeIdentity>,
}

impl Leave {
    /// Deletes a znode of this session. The request has its place in line when this returns.
    pub(crate) fn begin(client: &Client, session: SessionId, path: &str) -> Self {
        Self::begin_with(client.delete(path).into_operation(), client, session, path)
    }

    /// As [`Leave::begin`], by an operation that deletes the znode.
    pub(crate) fn begin_with(
        operation: client::Operation<()>,
        client: &Client,
        session: SessionId,
        path: &str,
    ) -> Self {
        let sent = Some(operation.in_session(session).send());
        let mut leave = Self::too_late(client, session, path);
        leave.sent = sent;
        leave
    }

    /// A deletion that is not asked for, since the znode is gone.
    pub(crate) fn too_late(client: &Client, session: SessionId, path: &str) -> Self {
        let (client, path) = (client.clone(), path.to_owned());
        Self { client, session, path, sent: None, watch: None, own: None }
    }

    /// The same for a znode whose name others have at other times: what is asked for again deletes
    /// none of theirs.
    pub(crate) fn known_by(mut self, own: Option<ZnodeIdentity>) -> Self {
        self.own = own;
        self
    }

    /// The same with a watch of the znode, which lasts until the znode is gone.
    pub(crate) fn watched_by(mut self, watch: Option<ZnodeWatch>) -> Self {
        self.watch = watch;
        self
    }

    /// Waits until the znode is gone; [`LockError::Lost`] if it was before.
    pub(crate) async fn done(mut self) -> Result<(), LockError> {
        let Some(sent) = self.sent.as_mut() else { return Err(LockError::Lost) };
        let result = sent.await;
        self.sent = None;
        let result = match result {
            Err(error) if is_worth_another_try(&error) => {
                let own = self.own.take();
                self.client.in_session(self.session).delete_in_background(&self.path, own).await
            }
            result => result,
        };
        result.map_err(|error| match error {
            error if error.is(ErrorCode::NO_NODE) => LockError::Lost,
            error => LockError::from(error).of_held(),
        })
    }

    /// As [`Leave::done`], for a znode that is not held: it makes no difference whether somebody has
    /// deleted it before.
    pub(crate) async fn done_if_there(self) -> Result<(), LockError> {
        match self.done().await {
            Err(LockError::Lost | LockError::PlaceLost) => Ok(()),
            done => done,
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        // Over a local transport it is done by now.
        let Some(mut sent) = self.sent.take() else { return };
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut sent).poll(&mut context) {
            Poll::Ready(Err(error)) if is_worth_another_try(&error) => {
                let own = self.own.take();
                let session = self.client.in_session(self.session);
                drop(session.delete_in_background(&self.path, own));
            }
            Poll::Ready(_) => {}
            Poll::Pending => {
                let (own, watch) = (self.own.take(), self.watch.take());
                let session = self.client.in_session(self.session);
                session.finish_delete_in_background(sent, &self.path, own, watch);
            }
        }
    }
}

/// Whether a plain deletion may do what the first try did not: the answer was lost, or something
/// else than the deletion was refused.
fn is_worth_another_try(error: &client::Error) -> bool {
    let is_refused = error.code().is_some_and(|code| code != ErrorCode::NO_NODE);
    error.is_retryable() || is_refused
}
