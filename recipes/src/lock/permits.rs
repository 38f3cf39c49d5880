//! Permits of a semaphore: while they are being created, and while they are held.

use std::fmt;
use std::time::Duration;

use zoolet_protocol::{MultiOp, MultiResult, Zxid};

use super::guard::guard_methods;
use super::held_lock::{HeldLock, LockHandle};
use super::inter_process_lock::{BoxFuture, LockGuard};
use super::registry::Registration;
use super::state::LockState;
use crate::client;
use crate::client::recipe::SessionClient;
use crate::error::{LockError, within};
use crate::line::place::Place;
use crate::line::proof::until_proven;

/// Permits whose creates were sent with one multi and not answered. Dropped, they are deleted in
/// the background.
pub(super) struct PendingPermits {
    session: SessionClient,
    /// The path without the numbers, which contains an id that no other znode has. `None` once
    /// nothing has to be deleted.
    path: Option<String>,
    count: usize,
}

impl PendingPermits {
    /// `count` permits whose paths begin with `path`.
    pub(super) fn new(session: &SessionClient, path: String, count: usize) -> Self {
        Self { session: session.clone(), path: Some(path), count }
    }

    /// Sends the multi that creates the permits, and waits until their session is proved to be
    /// alive. `paths_of` returns their paths from the results.
    pub(super) async fn create(
        mut self,
        ops: Vec<MultiOp>,
        paths_of: impl FnOnce(&[MultiResult]) -> Vec<String>,
    ) -> Result<Permits, LockError> {
        let result = self.session.multi_with_zxid(ops).send().await;
        let (paths, token) = match result {
            Ok((results, zxid)) => (paths_of(&results), zxid),
            Err(lost @ client::Error::ConnectionLoss { .. }) => self.find(lost).await?,
            Err(error) => {
                self.path = None;
                return Err(error.into());
            }
        };
        self.path = None;
        let mut places = self.places(paths, token);
        until_proven(&mut places).await?;
        let handle = LockHandle::new(self.session.clone(), token, places, Vec::new());
        Ok(Permits { handle })
    }

    /// Looks for the permits after a `lost` answer, which is the error if there are none. The multi created
    /// all of them or none, but another client may have deleted one since: then the others are deleted.
    async fn find(&mut self, lost: client::Error) -> Result<(Vec<String>, Zxid), LockError> {
        let path = self.path.clone().unwrap_or_default();
        let found = self.session.find_all_protected(&path).await?;
        if let Some(first) = found.first().filter(|_| found.len() == self.count)
            && let Some(stat) = self.session.exists(first).until_answered().await?
        {
            return Ok((found, stat.czxid));
        }
        self.path = None;
        if found.is_empty() {
            return Err(lost.into());
        }
        drop(self.places(found, Zxid::ZERO));
        Err(LockError::PlaceLost(path))
    }

    fn places(&self, paths: Vec<String>, token: Zxid) -> Vec<Place> {
        let place = |path| Place::unordered(&self.session, path, token);
        paths.into_iter().map(place).collect()
    }
}

impl Drop for PendingPermits {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            self.session.delete_all_protected_in_background(&path);
        }
    }
}

/// Permits of a semaphore that are held. Dropping them releases them in the background;
/// [`Permits::release`] waits until they are released.
///
/// ```no_run
/// use zoolet_recipes::{InterProcessSemaphoreV2, LockState};
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let mut permits = InterProcessSemaphoreV2::new(&client, "/seats", 10)?.acquire(3).await?;
/// let one = permits.split_one();
/// assert_eq!((permits.len(), permits.state()), (2, LockState::Held));
/// # Ok(())
/// # }
/// ```
#[must_use = "the permits are released when this is dropped"]
pub struct Permits {
    // One handle has all permits, so that they can be split.
    handle: LockHandle,
}

impl Permits {
    /// The number of permits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().paths().len()
    }

    /// Whether there are no permits, as when none were requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().paths().is_empty()
    }

    /// Separates one permit from the others; `None` when none are left. Each is released by itself.
    pub fn split_one(&mut self) -> Option<Self> {
        self.handle.split_one().map(|handle| Self { handle })
    }

    /// The same permits, by which a lock is held that is registered for its owner.
    pub(super) fn registered(self, registration: Registration) -> Self {
        self.handle.register(registration);
        self
    }
}

guard_methods!(Permits);
