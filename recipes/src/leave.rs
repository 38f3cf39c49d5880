//! Leaving: the deletion of an ephemeral of one's own, which must come to pass.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use zoolet_protocol::{ErrorCode, SessionId};

use crate::client::{self, Client, ZnodeWatch};
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
}

impl Leave {
    /// Deletes a znode of this session. The request has its place in line when this returns.
    pub(crate) fn begin(client: &Client, session: SessionId, path: &str) -> Self {
        Self::begin_with(client.delete(path).operation(), client, session, path)
    }

    /// As [`Leave::begin`], by an operation that deletes the znode.
    pub(crate) fn begin_with(
        operation: client::Operation<()>,
        client: &Client,
        session: SessionId,
        path: &str,
    ) -> Self {
        let sent = Some(operation.bound_to(session).send());
        Self { client: client.clone(), session, path: path.to_owned(), sent, watch: None }
    }

    /// The same with a watch of the znode, which lasts until the znode is gone.
    pub(crate) fn watched_by(mut self, watch: Option<ZnodeWatch>) -> Self {
        self.watch = watch;
        self
    }

    /// Waits until the znode is gone; [`LockError::Lost`] if it was before.
    pub(crate) async fn done(mut self) -> Result<(), LockError> {
        let Some(sent) = self.sent.as_mut() else { unreachable!("it was just sent") };
        let result = sent.await;
        self.sent = None;
        let result = match result {
            Err(error) if is_worth_another_try(&error) => {
                self.client.remove_in_background(self.path.clone(), self.session).await
            }
            result => result,
        };
        result.map_err(|error| match error {
            error if error.is(ErrorCode::NO_NODE) => LockError::Lost,
            error => error.into(),
        })
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        // Over a local transport it is done by now.
        let Some(mut sent) = self.sent.take() else { return };
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut sent).poll(&mut context) {
            Poll::Ready(Err(error)) if is_worth_another_try(&error) => {
                drop(self.client.remove_in_background(self.path.clone(), self.session));
            }
            Poll::Ready(_) => {}
            Poll::Pending => {
                let (path, watch) = (self.path.clone(), self.watch.take());
                self.client.remove_after(sent, path, self.session, watch);
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
