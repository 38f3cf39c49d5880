//! The deletion of an ephemeral znode of this client. The request is repeated until the znode is
//! gone or its session has ended, even when no task waits for that any more.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytestring::ByteString;
use zoolet_protocol::ErrorCode;

use crate::client;
use crate::client::recipe::{SessionClient, ZnodeIdentity, ZnodeWatch};
use crate::error::LockError;

/// A znode that is being deleted. When this is dropped, the deletion goes on in the background.
#[must_use]
pub(crate) struct Deletion {
    session: SessionClient,
    path: ByteString,
    /// The first request; `None` once it is answered, and where there is nothing to delete.
    sent: Option<client::Sent<()>>,
    /// The watch on the znode. It is kept until the znode is gone: then the server has removed it,
    /// and no request is needed for that.
    watch: Option<ZnodeWatch>,
    /// What identifies the znode, where other clients create znodes of the same name.
    own: Option<ZnodeIdentity>,
}

impl Deletion {
    /// Deletes a znode of this session. The request is sent when this returns.
    pub(crate) fn send(session: &SessionClient, path: &str) -> Self {
        Self::of(session, path.into(), Some(session.delete(path).send()), None, None)
    }

    /// The deletion of a znode by a request that was `sent`, if the znode is not gone already. The watch on
    /// the znode is kept until the znode is gone. `own` identifies the znode by more than its name: a
    /// repeated request deletes no znode of another client.
    pub(crate) fn of(
        session: &SessionClient,
        path: ByteString,
        sent: Option<client::Sent<()>>,
        watch: Option<ZnodeWatch>,
        own: Option<ZnodeIdentity>,
    ) -> Self {
        Self { session: session.clone(), path, sent, watch, own }
    }

    /// Waits until the znode is gone. Returns [`LockError::Lost`] if it was gone before the
    /// deletion.
    pub(crate) async fn finish(mut self) -> Result<(), LockError> {
        let Some(sent) = self.sent.as_mut() else {
            return Err(LockError::Lost(self.path.to_string()));
        };
        let result = sent.await;
        self.sent = None;
        let result = match result {
            Err(error) if should_repeat(&error) => {
                let own = self.own.take();
                self.session.delete_in_background(&self.path, own).await
            }
            result => result,
        };
        result.map_err(|error| match error {
            error if error.is(ErrorCode::NO_NODE) => LockError::Lost(self.path.to_string()),
            error => LockError::from(error).of_held().at(&self.path),
        })
    }

    /// As [`Deletion::finish`]; it is no error if the znode was gone before.
    pub(crate) async fn finish_if_present(self) -> Result<(), LockError> {
        match self.finish().await {
            Err(LockError::Lost(_) | LockError::PlaceLost(_)) => Ok(()),
            finished => finished,
        }
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        // In process the reply is there by now.
        let Some(mut sent) = self.sent.take() else { return };
        let mut context = Context::from_waker(Waker::noop());
        let mut answer = Pin::new(&mut sent).poll(&mut context);
        if matches!(answer, Poll::Ready(Err(client::Error::TooLong { .. }))) && self.own.is_none() {
            // Sent at once, and not by a task: the session may be handed over next.
            sent = self.session.delete(&self.path).send();
            answer = Pin::new(&mut sent).poll(&mut context);
        }
        match answer {
            Poll::Ready(Err(error)) if should_repeat(&error) => {
                let own = self.own.take();
                drop(self.session.delete_in_background(&self.path, own));
            }
            Poll::Ready(_) => {}
            Poll::Pending => {
                let (own, watch) = (self.own.take(), self.watch.take());
                self.session.finish_delete_in_background(sent, &self.path, own, watch);
            }
        }
    }
}

/// Whether to send a plain delete next, after the first request failed: the reply was lost, the server
/// refused another part of the request, or the request was too long, which a delete is not.
fn should_repeat(error: &client::Error) -> bool {
    let is_refused = error.code().is_some_and(|code| code != ErrorCode::NO_NODE);
    error.is_retryable() || is_refused || matches!(error, client::Error::TooLong { .. })
}
