//! A mutex between processes: Curator's `InterProcessMutex`, with its znodes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_protocol::{Acl, ErrorCode, ZPath};

use crate::client::{self, Client};
use crate::error::LockError;
use crate::guard::{Guard, Hold};
use crate::line::{self, Turn};
use crate::owner::{Owner, Stand};
use crate::place::Line;

/// What stands before the number in a name, as in Curator.
const MARKER: &str = "lock-";

/// A lock that one owner holds at a time, in the order in which they came, over all processes.
///
/// It is re-entrant: the owner that holds it, by default the present tokio task, or outside of a
/// task the present thread, acquires it again without a request. A second object for the same path
/// does not know of the first, and is told [`LockError::WouldDeadlock`].
///
/// Its znodes are those of Curator's `InterProcessMutex`, so that Java and Rust contend for one
/// path.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolet_recipes::InterProcessMutex;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
/// let guard = mutex.acquire_within(Duration::from_secs(1)).await?;
/// println!("held, with the fencing token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessMutex {
    line: Line,
    holds: Arc<Mutex<HashMap<Owner, Weak<Hold>>>>,
}

impl InterProcessMutex {
    /// The mutex of a path. Nothing is created before it is acquired.
    ///
    /// # Errors
    ///
    /// [`client::Error::Path`] if `path` names no znode.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let line = Line {
            client: client.clone(),
            directory: path.trim_end_matches('/').into(),
            marker: MARKER,
            data: Bytes::new(),
            acl: [Acl::open()].into(),
        };
        Ok(Self { line, holds: Arc::default() })
    }

    /// The same mutex with data for its znodes, by which others see who stands in line.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.line.data = data.into();
        self
    }

    /// The same mutex with an access control list for its znodes and for what is created above.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.line.acl = acl.into();
        self
    }

    /// Waits until the lock is held.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldDeadlock`] if the owner holds it by another object;
    /// [`LockError::NumbersExhausted`] when the order is not certain any more; what else may go
    /// wrong with requests. A lost session is no error: a new place is taken in the next.
    ///
    /// # Cancellation
    ///
    /// Safe: dropping the future leaves the line.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.acquire_as(Owner::current()).await
    }

    /// As [`InterProcessMutex::acquire`], for an owner of one's own.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`].
    pub async fn acquire_as(&self, owner: Owner) -> Result<Guard, LockError> {
        if let Some(guard) = self.held_by(owner) {
            return Ok(guard);
        }
        let stand = Stand::join(&self.line.client, &self.line.directory, owner)?;
        loop {
            let (mut place, standing) = self.line.enter().await?;
            match place.wait(&self.line, standing).await {
                Ok(()) => {
                    return Ok(self.held(owner, Hold::new(self.line.client.clone(), place, stand)));
                }
                // The session ended in line: the next session takes a place of its own.
                Err(LockError::Lost) => drop(place),
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`InterProcessMutex::acquire`], within a time that covers everything: connecting, waiting
    /// and trying again. The clean-up goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`InterProcessMutex::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, LockError> {
        tokio::time::timeout(time, self.acquire()).await.unwrap_or(Err(LockError::Over))
    }

    /// The lock if it is free, without waiting for it. A lock that is held costs one read, and
    /// nothing is created.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let owner = Owner::current();
        if let Some(guard) = self.held_by(owner) {
            return Ok(Some(guard));
        }
        let stand = Stand::join(&self.line.client, &self.line.directory, owner)?;
        match self.line.client.children(&self.line.directory).await {
            Ok(names) if !line::contenders(&names, MARKER).is_empty() => return Ok(None),
            Ok(_) => {}
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error.into()),
        }
        let (place, standing) = self.line.enter().await?;
        match standing.turn {
            Turn::Mine => {
                Ok(Some(self.held(owner, Hold::new(self.line.client.clone(), place, stand))))
            }
            // Somebody was quicker.
            Turn::Behind { .. } | Turn::Gone => {
                place.leave().await?;
                Ok(None)
            }
        }
    }

    /// Whether the present owner holds it by this object.
    #[must_use]
    pub fn is_held_by_current_owner(&self) -> bool {
        self.held_by(Owner::current()).is_some()
    }

    /// The znodes of all who stand in line, the holder first.
    ///
    /// # Errors
    ///
    /// What may go wrong with a read.
    pub async fn participants(&self) -> Result<Vec<String>, LockError> {
        let directory = &self.line.directory;
        match self.line.client.children(directory).await {
            Ok(names) => Ok(line::contenders(&names, MARKER)
                .iter()
                .map(|contender| format!("{directory}/{}", contender.name))
                .collect()),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn held(&self, owner: Owner, hold: Arc<Hold>) -> Guard {
        let mut holds = self.holds.lock();
        holds.retain(|_, hold| hold.strong_count() > 0);
        holds.insert(owner, Arc::downgrade(&hold));
        Guard::new(hold)
    }

    fn held_by(&self, owner: Owner) -> Option<Guard> {
        self.holds.lock().get(&owner)?.upgrade().map(Guard::new)
    }
}
