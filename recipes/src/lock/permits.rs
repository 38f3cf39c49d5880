//! Permits of a semaphore: while they are asked for, and while they are had.

use std::time::Duration;

use zoolet_protocol::{MultiOp, MultiResult, SessionId, Zxid};

use crate::client::{self, Client};
use crate::error::{LockError, within};
use crate::line::place::Place;
use crate::lock::guard::LockState;
use crate::lock::held::{self, Holder};
use crate::lock::owner::Holding;

/// Permits that are asked for and not known to be had. Dropped, it sees to it that they are not.
pub(crate) struct Taking {
    pub(crate) client: Client,
    pub(crate) session: SessionId,
    pub(crate) path: Option<String>,
    /// How many are asked for.
    pub(crate) count: usize,
}

impl Taking {
    /// The permits whose answer was lost. They were created all at once or not at all, but somebody
    /// may have deleted one since: what is left of the others is deleted then.
    pub(crate) async fn look_for(&mut self) -> Result<(Vec<String>, Zxid), client::Error> {
        let path = self.path.clone().unwrap_or_default();
        let found = self.client.in_session(self.session).find_all_protected(&path).await?;
        if let Some(first) = found.first().filter(|_| found.len() == self.count) {
            let exists = self.client.exists(first).in_session(self.session).until_answered();
            if let Some(stat) = exists.await? {
                return Ok((found, stat.czxid));
            }
        }
        self.path = None;
        let token = Zxid::ZERO;
        drop(Permits::new(&self.client, self.session, found, token));
        Err(client::Error::SessionExpired)
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            self.client.in_session(self.session).delete_all_protected_in_background(&path);
        }
    }
}

/// Permits that are had. Dropping them gives them back in the background; [`Permits::release`]
/// waits for that.
///
/// ```no_run
/// use zoolet_recipes::{InterProcessSemaphoreV2, LockState};
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let mut permits = InterProcessSemaphoreV2::new(&client, "/seats", 10)?.acquire(3).await?;
/// let one = permits.split_one();
/// assert_eq!((permits.len(), permits.state()), (2, LockState::Held));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the permits are given back when this is dropped"]
pub struct Permits {
    pub(crate) holder: Holder,
    /// That a task holds a lock of one permit by this.
    pub(crate) holding: Option<Holding>,
}

impl Permits {
    pub(crate) fn new(
        client: &Client,
        session: SessionId,
        paths: Vec<String>,
        token: Zxid,
    ) -> Self {
        Self::of(client, session, Self::places(client, session, paths, token), token)
    }

    fn places(client: &Client, session: SessionId, paths: Vec<String>, token: Zxid) -> Vec<Place> {
        let place = |path| Place::unordered(client, session, path, token);
        paths.into_iter().map(place).collect()
    }

    fn of(client: &Client, session: SessionId, places: Vec<Place>, token: Zxid) -> Self {
        Self { holder: Holder::new(client.clone(), session, token, places), holding: None }
    }

    /// As [`Permits::new`], once they are proved to be there.
    pub(crate) async fn proven(
        client: &Client,
        session: SessionId,
        paths: Vec<String>,
        token: Zxid,
    ) -> Result<Self, client::Error> {
        let mut places = Self::places(client, session, paths, token);
        held::until_proven(&mut places).await?;
        Ok(Self::of(client, session, places, token))
    }

    /// A number that is greater than that of whoever took permits before: the zxid by which these
    /// were created. Of a semaphore with one permit it is a fencing token.
    #[must_use]
    pub fn fencing_token(&self) -> Zxid {
        self.holder.token()
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.holder.paths().len()
    }

    /// Whether there are none, as when none were asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holder.paths().is_empty()
    }

    /// The znodes by which they are had.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        self.holder.paths()
    }

    /// Whether all are had, as far as is known without asking the server.
    #[must_use]
    pub fn state(&self) -> LockState {
        self.holder.state()
    }

    /// Waits until one of them is lost: their session over, or a znode deleted by someone else.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn lost(&self) {
        self.holder.lost().await;
    }

    /// Waits until whoever has them is asked to give one of them up ([`Revoker`](crate::Revoker)), also if that was
    /// before. What to do then is for the holder to say: nothing is taken from it.
    ///
    /// It costs a look and a watch, which is taken back when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one is lost meanwhile; what may go wrong with a read.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn revocation_requested(&self) -> Result<(), LockError> {
        self.holder.revocation_requested().await
    }

    /// Carries writes out only if all of them are had then: the server checks their znodes in the
    /// same multi.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one of the znodes is gone; the refusal of an operation else.
    pub async fn transaction(&self, ops: Vec<MultiOp>) -> Result<Vec<MultiResult>, LockError> {
        self.holder.transaction(self.holder.paths(), ops).await
    }

    /// One of them, apart from the others; `None` when none are left.
    pub fn split_one(&mut self) -> Option<Self> {
        self.holder.split_one().map(|holder| Self { holder, holding: None })
    }

    /// Gives them back, and returns when they are free. If the future is dropped it goes on in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if one was lost before, with its session or by someone else's doing.
    pub async fn release(self) -> Result<(), LockError> {
        self.holder.release().await
    }

    /// As [`Permits::release`], and waits no longer than this.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over: the release goes on in the background. Else as
    /// [`Permits::release`].
    pub async fn release_within(self, time: Duration) -> Result<(), LockError> {
        within(time, self.release()).await
    }
}
