//! An instance that stays registered: a znode that is kept, with data that can be changed.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use zoolet_protocol::{CreateMode, ErrorCode};

use super::context::Context;
use super::error::DiscoveryError;
use super::instance::{ServiceInstance, ServiceType};
use super::limits::LOOK_AGAIN_AFTER;
use crate::client::{self, Client, Watched, Watcher};
use crate::node::{AtClose, NodeError, NodeEvent, NodeEvents, NodeState, PersistentNode, TakeOver};

/// An instance that a [`ServiceDiscovery`](super::ServiceDiscovery) keeps registered.
///
/// A reconnect changes nothing. When the session has expired, the instance is registered in the next
/// one. If the znode of the old session is still there then, one transaction replaces it, so that
/// nobody finds the instance missing. A znode that somebody else deletes is created again. A
/// [sequential](ServiceType::DynamicSequential) instance keeps the number that it got first.
///
/// Curator deletes every instance at every reconnect and creates it again, and loses the numbers.
///
/// Clones are the same registration. The discovery keeps it too: dropping a clone changes nothing as
/// long as the discovery is there.
///
/// ```no_run
/// # async fn example(
/// #     discovery: zoolet_recipes::discovery::ServiceDiscovery,
/// # ) -> Result<(), zoolet_recipes::discovery::DiscoveryError> {
/// let registration = discovery.register(discovery.new_instance("orders").port(80)).await?;
/// registration.disable().await?; // no provider chooses it any more
/// registration.unregister().await?; // when its last requests are answered
/// # Ok(())
/// # }
/// ```
pub struct Registration<T = ()> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    context: Arc<Context<T>>,
    /// Without the number of a sequential one.
    path: String,
    instance: Mutex<Arc<ServiceInstance<T>>>,
    node: PersistentNode,
    /// Whoever changes the instance and the data of the node has this.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How many changes were made by this registration.
    changes: AtomicU64,
    is_over: AtomicBool,
    /// Follows what others write to the znode.
    follower: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl<T: Send + Sync + 'static> Registration<T> {
    /// Begins to register an instance, and keeps it registered.
    pub(super) fn start(
        context: &Arc<Context<T>>,
        path: String,
        instance: ServiceInstance<T>,
        data: Bytes,
    ) -> Result<Self, DiscoveryError> {
        let (mode, at_close) = match instance.service_type {
            ServiceType::Dynamic => (CreateMode::Ephemeral, AtClose::Delete),
            ServiceType::DynamicSequential => (CreateMode::EphemeralSequential, AtClose::Delete),
            ServiceType::Static => (CreateMode::Persistent, AtClose::Delete),
            ServiceType::Permanent => (CreateMode::Persistent, AtClose::Keep),
        };
        let take_over = match instance.service_type {
            // Another instance with this id may have the number by now, after the server has deleted
            // the container and counts from 0 again: the two would replace each other for ever.
            ServiceType::DynamicSequential => TakeOver::OfOwnSessions,
            _ => context.take_over,
        };
        let node = PersistentNode::builder(&context.client, &path)
            .mode(mode)
            .data(data)
            .acl_or_default(context.acl.clone())
            .take_over(take_over)
            .at_close(at_close)
            .start()?;
        let inner = Arc::new(Inner {
            context: Arc::clone(context),
            path,
            instance: Mutex::new(Arc::new(instance)),
            node,
            turn: Arc::default(),
            changes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            follower: Mutex::new(None),
        });
        if context.watches_instances {
            // Weak, so that the registration ends when nobody else refers to it.
            let events = inner.node.events();
            let following = follow(Arc::downgrade(&inner), events, context.client.clone());
            let follower = AbortOnDropHandle::new(context.client.spawn(following));
            *inner.follower.lock() = Some(follower);
        }
        Ok(Self { inner })
    }

    /// Waits until others find the instance, or the server refuses it.
    pub(super) async fn until_registered(&self) -> Result<(), DiscoveryError> {
        let node = &self.inner.node;
        let mut events = node.events();
        // What came before the events were subscribed to.
        if let Some(error) = node.last_failure().filter(is_final) {
            return Err(error.into());
        }
        tokio::select! {
            biased;
            registered = node.registered() => registered.map(drop).map_err(DiscoveryError::from),
            error = refusal(&mut events) => Err(error.into()),
        }
    }

    /// The instance as it is registered, or will be when there is a connection.
    #[must_use]
    pub fn instance(&self) -> Arc<ServiceInstance<T>> {
        Arc::clone(&self.inner.instance.lock())
    }

    /// The znode; `None` before it was created for the first time. Of a sequential instance it has
    /// the number.
    #[must_use]
    pub fn path(&self) -> Option<String> {
        self.inner.node.path()
    }

    /// Whether others find the instance, as far as is known without a request.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.inner.node.state()
    }

    /// What happens to the znode from now on: that it was lost, created again, or refused.
    #[must_use]
    pub fn events(&self) -> NodeEvents {
        self.inner.node.events()
    }

    /// Replaces the instance, in its znode and for all later sessions. Returns when others find the
    /// new one. What others have written to the znode is overwritten.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::AnotherInstance`], [`DiscoveryError::EnabledNotWritten`] and
    /// [`DiscoveryError::Unwritable`]: nothing is changed. [`DiscoveryError::Unregistered`]; the
    /// refusal of the server, after which the instance is replaced in the next session.
    ///
    /// # Cancellation
    ///
    /// The instance is replaced all the same, unless an earlier change is still under way.
    pub async fn update(&self, instance: ServiceInstance<T>) -> Result<(), DiscoveryError> {
        self.change(|_| instance).await
    }

    /// Makes a change after all changes before it.
    async fn change(
        &self,
        change: impl FnOnce(&ServiceInstance<T>) -> ServiceInstance<T> + Send,
    ) -> Result<(), DiscoveryError> {
        let turn = Arc::clone(&self.inner.turn).lock_owned().await;
        if self.is_over() {
            return Err(DiscoveryError::Unregistered(self.inner.path.clone()));
        }
        let before = self.instance();
        let instance = change(&before);
        if identity(&instance) != identity(&before) {
            return Err(DiscoveryError::AnotherInstance(self.inner.path.clone()));
        }
        let data = self.inner.context.write(&self.inner.path, &instance)?;
        let inner = Arc::clone(&self.inner);
        // It goes on when the caller no longer waits, so that the instance is what is written.
        let changing = self.inner.context.client.spawn(async move {
            inner.changes.fetch_add(1, Ordering::AcqRel);
            *inner.instance.lock() = Arc::new(instance);
            let set = inner.node.set_data(data).await;
            drop(turn);
            set
        });
        Ok(changing.await.unwrap_or(Err(NodeError::Client(client::Error::Closed)))?)
    }

    /// Unregisters the instance, a [permanent](ServiceType::Permanent) one too, and returns when its
    /// znode is deleted. Nothing happens if it was unregistered or closed before. Without a connection this
    /// waits for one, or until the session of a dynamic instance must have ended.
    ///
    /// # Errors
    ///
    /// The refusal of the server; [`Error::Closed`](client::Error::Closed) if the client is closed.
    ///
    /// # Cancellation
    ///
    /// The instance is unregistered in the background.
    pub async fn unregister(&self) -> Result<(), DiscoveryError> {
        // A permanent znode of this path may be somebody else's by the next call.
        if self.inner.is_over.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let is_permanent = self.instance().service_type == ServiceType::Permanent;
        let inner = Arc::clone(&self.inner);
        let closed = self.clone().close();
        let deleting = self.inner.context.client.spawn(async move {
            closed.await?;
            if !is_permanent {
                return Ok(());
            }
            match inner.context.client.delete(&inner.path).into_operation().until_answered().await {
                Err(error) if !error.is(ErrorCode::NO_NODE) => Err(error.into()),
                _ => Ok(()),
            }
        });
        deleting.await.unwrap_or_else(|_| Err(client::Error::Closed.into()))
    }

    /// Ends the registration in the background: a permanent instance stays. What is returned waits
    /// for that.
    pub(super) fn close(self) -> impl Future<Output = Result<(), DiscoveryError>> + Send + use<T> {
        self.inner.is_over.store(true, Ordering::Release);
        self.inner.follower.lock().take();
        let inner = Arc::clone(&self.inner);
        let closing = self.inner.context.client.spawn(async move { inner.node.close().await });
        async move {
            match closing.await {
                Ok(closed) => Ok(closed?),
                // The runtime has ended, and the client with it.
                Err(_) => Err(client::Error::Closed.into()),
            }
        }
    }

    /// Whether it was unregistered or closed.
    pub(super) fn is_over(&self) -> bool {
        self.inner.is_over.load(Ordering::Acquire)
    }

    /// Whether both are the same registration.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<T: Clone + Send + Sync + 'static> Registration<T> {
    /// Lets providers choose the instance again.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::EnabledNotWritten`] if the serializer does not write it; else as
    /// [`Registration::update`].
    ///
    /// # Cancellation
    ///
    /// As [`Registration::update`].
    pub async fn enable(&self) -> Result<(), DiscoveryError> {
        self.switch(true).await
    }

    /// Has no provider choose the instance, which stays registered.
    ///
    /// # Errors
    ///
    /// As [`Registration::enable`].
    ///
    /// # Cancellation
    ///
    /// As [`Registration::update`].
    pub async fn disable(&self) -> Result<(), DiscoveryError> {
        self.switch(false).await
    }

    async fn switch(&self, enabled: bool) -> Result<(), DiscoveryError> {
        if !self.inner.context.serializer.writes_enabled() {
            return Err(DiscoveryError::EnabledNotWritten(self.inner.path.clone()));
        }
        self.change(|instance| ServiceInstance { enabled, ..instance.clone() }).await
    }
}

/// What decides on the znode of an instance.
fn identity<T>(instance: &ServiceInstance<T>) -> (&str, &str, ServiceType) {
    (&instance.name, &instance.id, instance.service_type)
}

/// Whether no later attempt can be expected to succeed unless somebody does something about it.
fn is_final(error: &NodeError) -> bool {
    match error {
        NodeError::WrongKind(_) => true,
        // The server is too busy, or serves reads only.
        NodeError::Client(error)
            if error.is(ErrorCode::THROTTLED_OP) || error.is(ErrorCode::NOT_READ_ONLY) =>
        {
            false
        }
        NodeError::Client(error) => error.code().is_some() || *error == client::Error::Closed,
        _ => false,
    }
}

/// Waits for an event that tells a final error.
async fn refusal(events: &mut NodeEvents) -> NodeError {
    while let Some(event) = events.next().await {
        if let NodeEvent::Failed(error) = event
            && is_final(&error)
        {
            return error;
        }
    }
    NodeError::Client(client::Error::Closed)
}

/// Follows what others write to the znode of a registration.
async fn follow<T: Send + Sync + 'static>(
    inner: Weak<Inner<T>>,
    mut events: NodeEvents,
    client: Client,
) {
    loop {
        let goes_on = match look(&inner, &client).await {
            Ok(Some(watcher)) => tokio::select! {
                biased;
                event = events.next() => event.is_some(),
                event = watcher => event != Err(client::Error::Closed),
            },
            // The node tells when the znode is there.
            Ok(None) => events.next().await.is_some(),
            Err(client::Error::Closed) => false,
            Err(error) => {
                tracing::debug!("cannot follow what others write to an own instance: {error}");
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                true
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Reads the znode of a registration and adopts what it finds. Returns the watch on it, if there is
/// a znode.
async fn look<T: Send + Sync + 'static>(
    inner: &Weak<Inner<T>>,
    client: &Client,
) -> Result<Option<Watcher>, client::Error> {
    // Nothing keeps the registration while its znode does not change.
    let (path, changes) = match inner.upgrade() {
        Some(inner) => (inner.node.path(), inner.changes.load(Ordering::Acquire)),
        None => return Err(client::Error::Closed),
    };
    let Some(path) = path else { return Ok(None) };
    match client.get(&path).and_watch().await {
        Ok(Watched { found: (data, stat), watcher }) => {
            // Another instance may have the name: what is written there concerns its program.
            let own = inner.upgrade().filter(|inner| inner.node.has(stat.czxid));
            if let Some(inner) = own {
                adopt(&inner, changes, &path, data).await;
            }
            Ok(Some(watcher))
        }
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes what somebody else wrote the instance of a registration, unless the registration itself
/// has changed since before it was read.
async fn adopt<T: Send + Sync + 'static>(inner: &Inner<T>, changes: u64, path: &str, data: Bytes) {
    let _turn = inner.turn.lock().await;
    if inner.changes.load(Ordering::Acquire) != changes || data == inner.node.data() {
        return;
    }
    let before = Arc::clone(&inner.instance.lock());
    match inner.context.read(path, &data) {
        Ok(instance) if identity(&instance) == identity(&before) => {
            *inner.instance.lock() = Arc::new(instance);
            inner.node.remember_data(data);
        }
        // By it this registration could not be updated any more, and a permanent instance would not
        // be unregistered.
        Ok(_) => tracing::warn!(
            "{path}: somebody wrote another instance to it; the instance stays what it was"
        ),
        // The next change of this registration overwrites it, as the next session does.
        Err(error) => tracing::warn!("{error}; the instance stays what it was"),
    }
}

impl<T> Clone for Registration<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

/// Without the payload, which may be secret.
impl<T> fmt::Debug for Registration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
