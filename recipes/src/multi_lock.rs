//! Several mutexes at once: Curator's `InterProcessMultiLock` over paths, without its deadlocks.

use std::sync::Arc;
use std::time::Duration;

use zoolet_protocol::{MultiOp, MultiResult, Zxid};

use crate::client::Client;
use crate::entering::EnteringAll;
use crate::error::LockError;
use crate::mutex::InterProcessMutex;
use crate::owner::{Owner, Stand};
use crate::place::{Line, Place};

/// The mutexes of several paths as one: all are held, or none.
///
/// It enters all lines at once, with one multi. So of any two of its users the one who came first
/// is ahead in every line that they share, and they cannot wait for each other, in whatever order
/// they name the paths. Beside users who take the same mutexes one after the other that does not
/// hold, and a deadline is in place ([`InterProcessMultiLock::acquire_within`]).
///
/// Its znodes are those of [`InterProcessMutex`], and so of Curator's.
///
/// ```no_run
/// use zoolet_recipes::InterProcessMultiLock;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let accounts = InterProcessMultiLock::new(&client, &["/accounts/ann", "/accounts/bob"])?;
/// let guard = accounts.acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessMultiLock {
    client: Client,
    lines: Arc<[Line]>,
}

impl InterProcessMultiLock {
    /// The mutexes of these paths; a path that is named twice counts once.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if one names no znode.
    pub fn new(client: &Client, paths: &[&str]) -> Result<Self, LockError> {
        let mut paths = paths.to_vec();
        paths.sort_unstable();
        paths.dedup();
        let line = |path: &&str| InterProcessMutex::new(client, path).map(|mutex| mutex.line());
        let lines = paths.iter().map(line).collect::<Result<_, _>>()?;
        Ok(Self { client: client.clone(), lines })
    }

    /// Waits until all are held.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if the owner holds one of them; else what may go wrong with
    /// requests.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves all lines.
    pub async fn acquire(&self) -> Result<MultiGuard, LockError> {
        self.acquire_as(Owner::current()).await
    }

    /// As [`InterProcessMultiLock::acquire`], for an owner of one's own.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMultiLock::acquire`].
    pub async fn acquire_as(&self, owner: Owner) -> Result<MultiGuard, LockError> {
        let stand = |line: &Line| Stand::join(&self.client, &line.directory, owner, true);
        let stands = self.lines.iter().map(stand).collect::<Result<Vec<_>, _>>()?;
        loop {
            match self.enter_and_wait().await {
                // The session ended in line: the next session takes places of its own.
                Err(LockError::Lost) => {}
                Err(error) => return Err(error),
                Ok(places) => {
                    return Ok(MultiGuard { client: self.client.clone(), places, _stands: stands });
                }
            }
        }
    }

    /// As [`InterProcessMultiLock::acquire`], within one time for all of them.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessMultiLock::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<MultiGuard, LockError> {
        tokio::time::timeout(time, self.acquire()).await.unwrap_or(Err(LockError::Over))
    }

    async fn enter_and_wait(&self) -> Result<Vec<Place>, LockError> {
        let mut places = EnteringAll::enter(&self.client, &self.lines).await?;
        for (place, line) in places.iter_mut().zip(self.lines.iter()) {
            let standing = place.look(line).await?;
            place.wait(line, standing).await?;
        }
        Ok(places)
    }
}

/// Several mutexes that are held. Dropping it releases all in the background;
/// [`MultiGuard::release`] waits for that.
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard {
    client: Client,
    places: Vec<Place>,
    _stands: Vec<Stand>,
}

impl MultiGuard {
    /// A number that is greater than that of everyone who held one of these locks before: the zxid
    /// by which all their znodes were created.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.places.first().map_or(Zxid::ZERO, Place::token)
    }

    /// The znodes by which the locks are held.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(Place::path)
    }

    /// Carries writes out only if all locks are held then: the server checks their znodes in the
    /// same multi.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one of the znodes is gone; the refusal of an operation else.
    pub async fn transaction(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, LockError> {
        Place::transaction(&self.client, self.paths(), ops).await
    }

    /// Releases all, and returns when they are free. If the future is dropped it goes on in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one was lost before; the others are released all the same.
    pub async fn release(mut self) -> Result<(), LockError> {
        // All are on their way before the first answer is waited for, the last first.
        let leaves: Vec<_> = self.places.drain(..).rev().map(Place::start_leaving).collect();
        let mut result = Ok(());
        for leave in leaves {
            result = result.and(leave.done().await);
        }
        result
    }
}
