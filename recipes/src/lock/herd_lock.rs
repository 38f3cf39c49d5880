//! The lock that wakes everybody: how not to do it, so that it can be measured.

use std::slice;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, CreateMode, ErrorCode, SessionId};

use crate::client::recipe::{ZnodeIdentity, unique_name};
use crate::client::{self, Client, Created, Parents, Watched};
use crate::error::{LockError, within};
use crate::line::order::Turn;
use crate::line::place::{Line, Place, Standing};
use crate::lock::guard::Guard;
use crate::lock::held;
use crate::lock::line_lock::LineLock;
use crate::lock::mutex;
use crate::lock::owner::{Owner, acquire_behind};
use crate::tries::Tries;

/// The name of the one znode that everybody watches.
const ONE_ZNODE: &str = "lock";

/// A mutex with the herd effect: each release wakes all who wait, one of them has the lock, and all
/// others ask again. Until N who wait have all had it that is N²/2 events, and as many requests or
/// twice as many.
///
/// **Do not use it to lock something.** [`InterProcessMutex`](crate::InterProcessMutex) does the same
/// for a few requests, however many wait. This one is there so that the difference can be measured,
/// on any server. It is correct: one holds it at a time, over all processes, and it is lost with its
/// session. Where an administrator deletes the one znode of a lock that is
/// held, the holder does not notice unless it waits for that ([`Guard::lost`]), and deletes that of
/// the next.
///
/// ```no_run
/// use zoolet_recipes::HerdLock;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let guard = HerdLock::watching_one_znode(&client, "/locks/stock")?.acquire().await?;
/// guard.release().await?; // all who wait are woken
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HerdLock {
    lock: LineLock,
    herd: Herd,
}

/// What everybody who waits watches.
#[derive(Debug, Clone, Copy)]
enum Herd {
    OneZnode,
    AllChildren,
}

impl HerdLock {
    /// The lock of a path by one ephemeral znode below it: who creates it holds the lock, and all
    /// others watch it by `exists`, and try again when it is gone, in no order.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn watching_one_znode(client: &Client, path: &str) -> Result<Self, LockError> {
        Self::new(client, path, Herd::OneZnode)
    }

    /// The lock of a path by sequential znodes below it: the first holds the lock, and all others
    /// watch the list of children, of which they hear whenever somebody comes or goes.
    ///
    /// The znodes are those of [`InterProcessMutex`](crate::InterProcessMutex), and both may stand in
    /// one line.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn watching_all_children(client: &Client, path: &str) -> Result<Self, LockError> {
        Self::new(client, path, Herd::AllChildren)
    }

    fn new(client: &Client, path: &str, herd: Herd) -> Result<Self, LockError> {
        Ok(Self { lock: LineLock::new(Line::new(client, path, &mutex::KIND)?), herd })
    }

    /// The same lock with an access control list for its znodes and for what is created above.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.lock.line.acl = acl.into();
        self
    }

    /// Waits until the lock is held. Each call waits by itself, as with
    /// [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Cancellation
    ///
    /// Safe: neither a znode nor a watch is left.
    pub async fn acquire(&self) -> Result<Guard, LockError> {
        self.acquire_as(Owner::new()).await
    }

    /// As [`HerdLock::acquire`], within a time that covers everything. The clean-up goes on in the
    /// background.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`HerdLock::acquire`].
    pub async fn acquire_within(&self, time: Duration) -> Result<Guard, LockError> {
        within(time, self.acquire()).await
    }

    /// The lock if it is free, without waiting for it. A lock that is held costs one request, and
    /// nothing is created.
    ///
    /// # Errors
    ///
    /// As [`HerdLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.try_acquire_as(Owner::new()).await
    }

    /// As [`HerdLock::acquire`], for an owner: while it holds the lock by this object it gets another
    /// guard of it, without a request.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire_as`](crate::InterProcessMutex::acquire_as).
    pub async fn acquire_as(&self, owner: Owner) -> Result<Guard, LockError> {
        if let Some(guard) = self.lock.held_by(owner) {
            return Ok(guard);
        }
        let stand = self.lock.stand(owner)?;
        let place = match self.herd {
            Herd::OneZnode => acquire_behind(stand.behind(), self.create_when_it_is_gone()).await?,
            Herd::AllChildren => acquire_behind(stand.behind(), self.wait_in_line()).await?,
        };
        Ok(self.lock.hold(place, stand))
    }

    /// As [`HerdLock::acquire_as`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`HerdLock::acquire_as`].
    pub async fn acquire_within_as(
        &self,
        time: Duration,
        owner: Owner,
    ) -> Result<Guard, LockError> {
        within(time, self.acquire_as(owner)).await
    }

    /// As [`HerdLock::try_acquire`], for an owner.
    ///
    /// # Errors
    ///
    /// As [`HerdLock::acquire_as`].
    pub async fn try_acquire_as(&self, owner: Owner) -> Result<Option<Guard>, LockError> {
        match self.herd {
            Herd::AllChildren => self.lock.try_acquire(owner).await,
            Herd::OneZnode => {
                if let Some(guard) = self.lock.held_by(owner) {
                    return Ok(Some(guard));
                }
                let stand = self.lock.stand(owner)?;
                let place = self.create().await?;
                Ok(place.map(|place| self.lock.hold(place, stand)))
            }
        }
    }

    /// Whether an owner holds it by this object.
    #[must_use]
    pub fn is_held_by(&self, owner: Owner) -> bool {
        self.lock.held_by(owner).is_some()
    }

    /// Whether someone of this process holds it by this object.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.lock.is_acquired()
    }

    /// Creates the one znode, whenever it is gone, until that succeeds.
    async fn create_when_it_is_gone(&self) -> Result<Place, LockError> {
        let Line { client, .. } = &self.lock.line;
        let path = self.lock.line.child(ONE_ZNODE);
        loop {
            if let Some(place) = self.create().await? {
                return Ok(place);
            }
            let heard = match client.exists(&path).and_watch().await {
                Ok(Watched { found: Some(_), watcher }) => watcher.await.map(drop),
                Ok(Watched { found: None, .. }) => Ok(()),
                Err(error) => Err(error),
            };
            // The session may be another now: nothing of the last one matters.
            if let Err(error) = heard
                && error != client::Error::SessionExpired
                && !error.is_retryable()
            {
                return Err(error.into());
            }
        }
    }

    /// Creates the one znode, if there is none.
    async fn create(&self) -> Result<Option<Place>, LockError> {
        let Line { client, acl, .. } = &self.lock.line;
        let mut tries = Tries::new();
        loop {
            let session = client.connected_session().await?.id();
            let created = match Creating::begin(&self.lock.line, session).created().await {
                Ok(Some(mut place)) => proven(&mut place).await.map(|()| Some(place)),
                created => created,
            };
            match created {
                Ok(place) => return Ok(place),
                Err(LockError::Client(error)) if error.is(ErrorCode::NO_NODE) => {
                    let path = self.lock.line.child(ONE_ZNODE);
                    client.create_ancestors(&path, Parents::Containers, acl).await?;
                    tries.after(error.into()).await?;
                }
                Err(error) => tries.after(error).await?,
            }
        }
    }

    /// Takes places until one comes to the front.
    async fn wait_in_line(&self) -> Result<Place, LockError> {
        let mut tries = Tries::new();
        loop {
            let (mut place, standing) = self.lock.line.enter().await?;
            let waited = match self.wait(&place, standing).await {
                Ok(()) => proven(&mut place).await,
                waited => waited,
            };
            match waited {
                Ok(()) => return Ok(place),
                // The session ended in line: the next session takes a place of its own.
                Err(LockError::PlaceLost) => tries.after_lost_place().await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a place is in front, and looks again whenever somebody comes or goes.
    async fn wait(&self, place: &Place, at: Standing) -> Result<(), LockError> {
        let Line { client, directory, .. } = &self.lock.line;
        if at.turn == Turn::Mine {
            return Ok(());
        }
        loop {
            let list = client.children(directory).in_session(place.session());
            let Watched { found, watcher } = match list.and_watch().await {
                Ok(watched) => watched,
                Err(error) if error.is_retryable() => continue,
                Err(error) if error.is(ErrorCode::NO_NODE) => return Err(LockError::PlaceLost),
                Err(error) => return Err(error.into()),
            };
            match place.turn(&self.lock.line, &found) {
                Turn::Mine => return Ok(()),
                Turn::Gone => return Err(LockError::PlaceLost),
                Turn::Behind { .. } => watcher.await?,
            };
        }
    }
}

/// Waits until a place in front is proved to be there.
async fn proven(place: &mut Place) -> Result<(), LockError> {
    Ok(held::until_proven(slice::from_mut(place)).await?)
}

/// The one znode, asked for and not known to be there. Dropped, it sees to it that it is not, if it
/// is this one's.
struct Creating {
    client: Client,
    session: SessionId,
    path: String,
    /// By which it is found again: the name says nothing.
    data: Bytes,
    sent: Option<client::Sent<Created>>,
}

impl Creating {
    fn begin(line: &Line, session: SessionId) -> Self {
        let (client, path) = (line.client.clone(), line.child(ONE_ZNODE));
        let data = Bytes::from(unique_name());
        let create = client
            .create(&path)
            .data(data.clone())
            .acl(line.acl.to_vec())
            .mode(CreateMode::Ephemeral);
        let sent = Some(create.in_session(session).send());
        Self { client, session, path, data, sent }
    }

    /// The place of the znode, or `None` if there is one of somebody else. A lost answer is looked
    /// for.
    async fn created(mut self) -> Result<Option<Place>, LockError> {
        let Some(sent) = self.sent.as_mut() else { unreachable!("it was just sent") };
        let stat = match sent.await {
            Ok(created) => Ok(Some(created.stat)),
            Err(client::Error::ConnectionLoss { .. }) => {
                let own = ZnodeIdentity::Data(self.data.clone());
                match self.client.in_session(self.session).find_own(&self.path, &own).await {
                    // Not made, as far as can be told: again, then.
                    Ok(None) => Err(LockError::PlaceLost),
                    result => result.map_err(LockError::from),
                }
            }
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => Ok(None),
            Err(error) => Err(error.into()),
        };
        self.sent = None;
        let (client, path) = (&self.client, self.path.clone());
        let place = |czxid| Place::of_shared_name(client, self.session, path, czxid);
        Ok(stat?.map(|stat| place(stat.czxid)))
    }
}

impl Drop for Creating {
    fn drop(&mut self) {
        if self.sent.take().is_some() {
            let own = Some(ZnodeIdentity::Data(self.data.clone()));
            let session = self.client.in_session(self.session);
            drop(session.delete_in_background(&self.path, own));
        }
    }
}
