//! Asking a holder to give its lock up: Curator's revocation, with its bytes.

use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use zoolet_protocol::{ErrorCode, SessionId};

use crate::client::{self, Client, Watched};
use crate::error::LockError;
use crate::tries::Tries;

/// What is written to the znode of a lock that is asked for.
const REVOKE: &[u8] = b"__REVOKE__";

/// Asks those who hold locks to give them up. Nobody is forced to: who does not wait for
/// [`Guard::revocation_requested`](crate::Guard::revocation_requested) does not hear of it.
///
/// ```no_run
/// use zoolet_recipes::client::Client;
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
    /// Asks the holder of the lock with this znode, which `participants` and `path` of the locks
    /// tell, and tells whether the znode was there. Holders that use Curator are asked in the same
    /// way; those of them hear it that were made revocable.
    ///
    /// # Errors
    ///
    /// What may go wrong with a write. After [`Error::ConnectionLoss`](client::Error::ConnectionLoss) it may be
    /// called again.
    pub async fn attempt_revoke(client: &Client, path: &str) -> Result<bool, client::Error> {
        match client.set(path, Bytes::from_static(REVOKE)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Waits until one of these znodes of a session is asked for.
pub(crate) async fn requested(
    client: &Client,
    session: SessionId,
    paths: &[String],
) -> Result<(), LockError> {
    let request = |path: &String| Box::pin(requested_of(client, session, path.clone()));
    first_of(paths.iter().map(request).collect()).await
}

/// What the first of several futures gives that is done; of none, nothing ever.
pub(crate) async fn first_of<F: Future + Unpin>(mut futures: Vec<F>) -> F::Output {
    std::future::poll_fn(|context| {
        let mut polls = futures.iter_mut().map(|future| Pin::new(future).poll(context));
        polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

async fn requested_of(client: &Client, session: SessionId, path: String) -> Result<(), LockError> {
    let mut tries = Tries::new();
    loop {
        let watched = client.get(&path).in_session(session).and_watch().await;
        let Watched { found: (data, _), watcher } = match watched {
            Ok(watched) => watched,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Err(LockError::Lost),
            Err(error) if error.is_retryable() => {
                tries.after(error.into()).await?;
                continue;
            }
            Err(error) => return Err(LockError::from(error).of_held()),
        };
        // Also what was written before somebody waited for it.
        if data == REVOKE {
            return Ok(());
        }
        watcher.await.map_err(|error| LockError::from(error).of_held())?;
    }
}
