//! A lock that wakes all waiting clients: how not to write a lock, as an object of measurement.

use std::slice;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{Acl, CreateMode, ErrorCode};

use super::guard::Guard;
use super::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
use super::line_lock::LineLock;
use super::methods::lock_methods;
use super::mutex;
use super::owner::Owner;
use super::registry::Registered;
use crate::attempts::Attempts;
use crate::client::recipe::{SessionClient, ZnodeIdentity};
use crate::client::{self, Client, Created, Parents, Watched};
use crate::error::{LockError, within};
use crate::line::order::Position;
use crate::line::place::Place;
use crate::line::proof::until_proven;
use crate::line::{Line, PositionAt};

/// The name of the one znode that all clients watch.
const ONE_ZNODE: &str = "lock";

/// A mutex with the herd effect: each release wakes all waiting clients, one of them acquires the
/// lock, and all others send requests again. Until each of N waiting clients has held the lock,
/// that makes N²/2 events, and as many requests or twice as many.
///
/// **Do not use it to protect anything.** [`InterProcessMutex`](crate::InterProcessMutex) does the
/// same with a few requests, however many wait. This lock exists so that the difference can be
/// measured, on any server. It is correct: one client holds it at a time, and it is lost with its
/// session. Where an administrator deletes the one znode of a lock that is held, the holder does
/// not notice unless it waits for that ([`Guard::lost`]), and then deletes that of the next holder.
///
/// ```no_run
/// use zoolet_recipes::HerdLock;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let guard = HerdLock::watching_one_znode(&client, "/locks/stock")?.acquire().await?;
/// guard.release().await?; // wakes all waiting clients
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct HerdLock {
    lock: LineLock,
    herd: Herd,
}

/// What all clients that wait watch.
#[derive(Debug, Clone, Copy)]
enum Herd {
    OneZnode,
    AllChildren,
}

impl HerdLock {
    /// The lock of a path by one ephemeral znode below it. The client that creates it holds the
    /// lock; all others watch it by `exists` and try again when it is gone, in no order.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn watching_one_znode(client: &Client, path: &str) -> Result<Self, LockError> {
        Self::new(client, path, Herd::OneZnode)
    }

    /// The lock of a path by sequential znodes below it. The first holds the lock; all others watch
    /// the list of children, and receive an event whenever a client comes or goes.
    ///
    /// The znodes are those of [`InterProcessMutex`](crate::InterProcessMutex), and both may share
    /// a line.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn watching_all_children(client: &Client, path: &str) -> Result<Self, LockError> {
        Self::new(client, path, Herd::AllChildren)
    }

    fn new(client: &Client, path: &str, herd: Herd) -> Result<Self, LockError> {
        Ok(Self { lock: LineLock::new(Line::new(client, path, &mutex::KIND)?), herd })
    }

    /// The same lock with this access control list for its znodes and for the directories that are
    /// created for them. Without it each has the [default](zoolet_client::Client::default_acl) of
    /// its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.lock.line.set_acl(acl);
        self
    }

    async fn acquire_for(&self, owner: Owner) -> Result<Guard, LockError> {
        match self.herd {
            Herd::OneZnode => self.lock.acquire_by(owner, || self.create_when_it_is_gone()).await,
            Herd::AllChildren => self.lock.acquire_by(owner, || self.place_in_front()).await,
        }
    }

    async fn try_acquire_for(&self, owner: Owner) -> Result<Option<Guard>, LockError> {
        if matches!(self.herd, Herd::AllChildren) {
            return self.lock.try_acquire(owner).await;
        }
        let registration = match self.lock.register(owner)? {
            Registered::Held(handle) => return Ok(Some(Guard { handle })),
            Registered::New(registration) => registration,
        };
        let place = self.create().await?;
        Ok(place.map(|place| self.lock.guard(place, registration)))
    }

    /// Creates the one znode. While another client has it, this waits until it is gone.
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
            // In a new session the lock is tried again.
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
        let Line { client, directory_acl, .. } = &self.lock.line;
        let mut attempts = Attempts::new(client);
        loop {
            let session = client.connected_session().await?;
            let created = match PendingZnode::create(&self.lock.line, &session).created().await {
                Ok(Some(mut place)) => {
                    until_proven(slice::from_mut(&mut place)).await.map(|()| Some(place))
                }
                created => created,
            };
            match created {
                Ok(place) => return Ok(place),
                Err(LockError::Client(error)) if error.is(ErrorCode::NO_NODE) => {
                    let path = self.lock.line.child(ONE_ZNODE);
                    match directory_acl {
                        Some(acl) => client.create_ancestors(&path, Parents::Containers, acl).await,
                        None => {
                            client.create_ancestors_by_default(&path, Parents::Containers).await
                        }
                    }?;
                    attempts.wait_after(error.into()).await?;
                }
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    /// Enters the line, and waits until the place holds the lock.
    async fn place_in_front(&self) -> Result<Place, LockError> {
        let mut attempts = Attempts::new(&self.lock.line.client);
        loop {
            let (mut place, at) = self.lock.line.enter().await?;
            let waited = match self.wait(&place, at).await {
                Ok(()) => until_proven(slice::from_mut(&mut place)).await,
                waited => waited,
            };
            match waited {
                Ok(()) => return Ok(place),
                // The session has ended: the next one enters the line again.
                Err(LockError::PlaceLost(_)) => attempts.wait_after_lost_place().await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a place is in front, and lists the directory whenever a client comes or goes.
    async fn wait(&self, place: &Place, at: PositionAt) -> Result<(), LockError> {
        let directory = &self.lock.line.directory;
        if at.position == Position::Front {
            return Ok(());
        }
        loop {
            let list = place.session().children(directory);
            let Watched { found, watcher } = match list.and_watch().await {
                Ok(watched) => watched,
                Err(error) if error.is_retryable() => continue,
                Err(error) if error.is(ErrorCode::NO_NODE) => {
                    return Err(LockError::PlaceLost(place.path().to_owned()));
                }
                Err(error) => return Err(error.into()),
            };
            match self.lock.line.position_in(&found, place) {
                Position::Front => return Ok(()),
                Position::Missing => {
                    return Err(LockError::PlaceLost(place.path().to_owned()));
                }
                Position::Behind { .. } => watcher.await?,
            };
        }
    }
}

lock_methods! {
    impl HerdLock => Guard;
    /// Waits until the lock is held. Each call waits by itself, as with
    /// [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    acquire;
    /// Acquires the lock if it is free, without waiting for it. If it is held, this costs one
    /// request and creates nothing.
    try_acquire;
    /// As [`HerdLock::acquire`], for an owner: while it holds the lock by this object or a clone of
    /// it, it gets another guard of it, without a request.
    ///
    /// # Errors
    ///
    /// As [`InterProcessMutex::acquire_as`](crate::InterProcessMutex::acquire_as).
    acquire_as = |lock, owner| lock.acquire_for(owner);
    try_acquire_as = |lock, owner| lock.try_acquire_for(owner);
    is_held_by = |lock, owner| lock.lock.held_by(owner).is_some();
    is_acquired_in_this_process = |lock| lock.lock.is_acquired();
    path = |lock| lock.lock.line.directory;
}

/// The one znode, whose create was sent and not answered. Dropped, it is deleted in the background,
/// if it is this client's.
struct PendingZnode {
    session: SessionClient,
    path: String,
    /// Identifies the znode: the name is the same for all clients.
    data: Bytes,
    sent: Option<client::Sent<Created>>,
}

impl PendingZnode {
    fn create(line: &Line, session: &SessionClient) -> Self {
        let path = line.child(ONE_ZNODE);
        let data = Bytes::from(session.client().unique_name());
        let create = session
            .create(&path)
            .data(data.clone())
            .acl(line.acl.to_vec())
            .mode(CreateMode::Ephemeral);
        let sent = Some(create.send());
        Self { session: session.clone(), path, data, sent }
    }

    /// Waits for the reply, and returns the place of the znode; `None` if another client has
    /// created it. If the reply is lost, this looks for the znode.
    async fn created(mut self) -> Result<Option<Place>, LockError> {
        let Some(sent) = self.sent.as_mut() else { unreachable!("the create was sent") };
        let stat = match sent.await {
            Ok(created) => Ok(Some(created.stat)),
            Err(client::Error::ConnectionLoss { .. }) => {
                let own = ZnodeIdentity::Data(self.data.clone());
                match self.session.find_own(&self.path, &own).await {
                    // It was not created, as far as is known: the create is tried again.
                    Ok(None) => Err(LockError::PlaceLost(self.path.clone())),
                    result => result.map_err(LockError::from),
                }
            }
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => Ok(None),
            Err(error) => Err(error.into()),
        };
        self.sent = None;
        let path = self.path.clone();
        let place = |czxid| Place::of_common_name(&self.session, path, czxid);
        Ok(stat?.map(|stat| place(stat.czxid)))
    }
}

impl Drop for PendingZnode {
    fn drop(&mut self) {
        if self.sent.take().is_some() {
            let own = Some(ZnodeIdentity::Data(self.data.clone()));
            drop(self.session.delete_in_background(&self.path, own));
        }
    }
}
