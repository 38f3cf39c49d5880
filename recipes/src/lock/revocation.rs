//! Asking the holder of a lock to release it: Curator's revocation, with its data.

use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use zoolet_protocol::ErrorCode;

use crate::attempts::Attempts;
use crate::client::recipe::SessionClient;
use crate::client::{self, Client, Watched};
use crate::error::LockError;

/// The data that asks the holder of a lock to release it.
const REVOKE: &[u8] = b"__REVOKE__";

/// Asks the holders of locks to release them. The request takes no lock away: a holder that does
/// not wait for [`Guard::revocation_requested`](crate::Guard::revocation_requested) does not notice
/// it.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::{InterProcessMutex, Revoker};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let line = InterProcessMutex::new(&client, "/locks/stock")?.participants().await?;
/// if let Some(holder) = line.first() {
///     Revoker::attempt_revoke(&client, holder).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Revoker {}

impl Revoker {
    /// Asks the holder of the lock with this znode, which the locks' `participants` and the guards'
    /// `paths` return. Returns whether the znode was there. Holders that use Curator are asked in
    /// the same way; they notice it if they have made the lock revocable.
    ///
    /// # Errors
    ///
    /// The errors of a write. After [`Error::ConnectionLoss`](client::Error::ConnectionLoss) it may be called
    /// again.
    pub async fn attempt_revoke(client: &Client, path: &str) -> Result<bool, client::Error> {
        match client.set(path, Bytes::from_static(REVOKE)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Waits until another client requests one of these znodes of a session.
pub(crate) async fn requested(session: &SessionClient, paths: &[String]) -> Result<(), LockError> {
    first_of(paths.iter().map(|path| Box::pin(requested_of(session, path))).collect()).await
}

/// Waits for the first of several futures that is ready; of none, for ever.
pub(crate) async fn first_of<F: Future + Unpin>(mut futures: Vec<F>) -> F::Output {
    std::future::poll_fn(|context| {
        let mut polls = futures.iter_mut().map(|future| Pin::new(future).poll(context));
        polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

async fn requested_of(session: &SessionClient, path: &str) -> Result<(), LockError> {
    let mut attempts = Attempts::new(session.client());
    loop {
        let watched = session.get(path).and_watch().await;
        let Watched { found: (data, _), watcher } = match watched {
            Ok(watched) => watched,
            Err(error) if error.is(ErrorCode::NO_NODE) => {
                return Err(LockError::Lost(path.to_owned()));
            }
            Err(error) if error.is_retryable() => {
                attempts.wait_after(error.into()).await?;
                continue;
            }
            Err(error) => return Err(LockError::from(error).of_held().at(path)),
        };
        // It may have been written before this call.
        if data == REVOKE {
            return Ok(());
        }
        watcher.await.map_err(|error| LockError::from(error).of_held().at(path))?;
    }
}
