//! Registers and finds instances of services: Curator's `ServiceDiscovery`, with its znodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zoolet_protocol::{Acl, ErrorCode, ZPath};

use super::clock::wall_time_ms;
use super::context::Context;
use super::error::DiscoveryError;
use super::instance::ServiceInstance;
use super::json::{InstanceSerializer, JsonInstanceSerializer};
use super::limits::READS_IN_FLIGHT;
use super::paths::{DiscoveryPathConstructor, child, path_of, path_of_id};
use super::provider::ServiceProviderBuilder;
use super::registration::Registration;
use super::service_cache::ServiceCache;
use crate::client::{self, Client};
use crate::local_address::local_address;
use crate::node::TakeOver;

/// Registers instances of services, and finds those of others (`ServiceDiscovery` of Curator).
///
/// Its znodes and their data are Curator's: Java programs find what is registered here, and the
/// other way round. A registration goes on when the session expires, without a moment in which
/// others do not find it; see [`Registration`].
///
/// Clones are the same discovery. When the last of them and of its registrations is dropped, all
/// instances that are not [permanent](super::ServiceType::Permanent) are unregistered in the
/// background; [`ServiceDiscovery::close`] waits for that.
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::discovery::ServiceDiscovery;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let discovery = ServiceDiscovery::<()>::start(&client, "/services")?;
/// let registration = discovery.register(discovery.new_instance("orders").port(8080)).await?;
/// for instance in discovery.query_for_instances("orders").await?.found {
///     println!("{:?}:{:?}", instance.address, instance.port);
/// }
/// registration.unregister().await?;
/// # Ok(())
/// # }
/// ```
pub struct ServiceDiscovery<T = ()> {
    shared: Arc<Shared<T>>,
}

/// What the clones of a discovery share.
struct Shared<T> {
    context: Arc<Context<T>>,
    /// By their paths, without the numbers of sequential ones; `None` after the close.
    registered: Mutex<Option<BTreeMap<String, Registration<T>>>>,
}

/// The options of a [`ServiceDiscovery`]: [`ServiceDiscovery::builder`].
///
/// ```no_run
/// use zoolet_client::Client;
/// use zoolet_recipes::discovery::{JsonInstanceSerializer, ServiceDiscovery, ServiceInstance};
///
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let discovery = ServiceDiscovery::<String>::builder(&client, "/services")
///     .serializer(JsonInstanceSerializer::with_enabled())
///     .this_instance(ServiceInstance::new("orders", "host-1").payload("v2".to_owned()))
///     .watch_instances()
///     .start()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is registered before the start"]
pub struct ServiceDiscoveryBuilder<T> {
    context: Context<T>,
    this_instance: Option<ServiceInstance<T>>,
}

impl<T: Send + Sync + 'static> ServiceDiscoveryBuilder<T> {
    /// Sets how instances are written and read. The default is
    /// [`JsonInstanceSerializer::compatible`].
    pub fn serializer(mut self, serializer: impl InstanceSerializer<T> + 'static) -> Self {
        self.context.serializer = Arc::new(serializer);
        self
    }

    /// Registers this instance from the start on, also if there is no connection yet
    /// (`thisInstance` of Curator).
    pub fn this_instance(mut self, instance: ServiceInstance<T>) -> Self {
        self.this_instance = Some(instance);
        self
    }

    /// Follows what others write to the znodes of registered instances, as an administrator who
    /// disables one, and keeps it when the instance is registered again in a new session
    /// (`watchInstances` of Curator). Without it such a change is lost with the session.
    pub fn watch_instances(mut self) -> Self {
        self.context.watches_instances = true;
        self
    }

    /// Sets the access control list of the instances and of the directories that are created for
    /// them. The default is that of the client.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.context.acl = Some(acl);
        self
    }

    /// Sets what a dynamic instance does where an ephemeral of another session has its name. The
    /// default is [`TakeOver::AtOnce`], as in Curator: a program that was killed and started again
    /// with the same id is found at once. The program that was replaced waits until the other is gone.
    /// A [sequential](super::ServiceType::DynamicSequential)
    /// instance has [`TakeOver::OfOwnSessions`] in any case.
    pub fn take_over(mut self, take_over: TakeOver) -> Self {
        self.context.take_over = take_over;
        self
    }

    /// Starts the discovery. This sends no request that it waits for.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the base path is not valid; those of
    /// [`ServiceDiscovery::register`] that need no request.
    pub fn start(self) -> Result<ServiceDiscovery<T>, DiscoveryError> {
        ZPath::check(self.context.paths.base_path()).map_err(client::Error::from)?;
        let discovery = ServiceDiscovery {
            shared: Arc::new(Shared {
                context: Arc::new(self.context),
                registered: Mutex::new(Some(BTreeMap::new())),
            }),
        };
        if let Some(instance) = self.this_instance {
            discovery.start_registration(instance)?;
        }
        Ok(discovery)
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> ServiceDiscovery<T> {
    /// Starts a discovery with Curator's defaults. The services are the children of a base path.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the base path is not valid.
    pub fn start(
        client: &Client,
        paths: impl DiscoveryPathConstructor + 'static,
    ) -> Result<Self, DiscoveryError> {
        Self::builder(client, paths).start()
    }

    /// The options of a discovery with these znodes: a base path, or a
    /// [`DiscoveryPathConstructor`].
    pub fn builder(
        client: &Client,
        paths: impl DiscoveryPathConstructor + 'static,
    ) -> ServiceDiscoveryBuilder<T> {
        Self::builder_with(client, paths, JsonInstanceSerializer::compatible())
    }
}

impl<T: Send + Sync + 'static> ServiceDiscovery<T> {
    /// The options of a discovery with a serializer of its own, for payloads that are not of serde.
    pub fn builder_with(
        client: &Client,
        paths: impl DiscoveryPathConstructor + 'static,
        serializer: impl InstanceSerializer<T> + 'static,
    ) -> ServiceDiscoveryBuilder<T> {
        let context = Context {
            client: client.clone(),
            paths: Arc::new(paths),
            serializer: Arc::new(serializer),
            acl: None,
            take_over: TakeOver::AtOnce,
            watches_instances: false,
        };
        ServiceDiscoveryBuilder { context, this_instance: None }
    }

    /// A new instance of a service, with a unique id, the address of this machine and the present
    /// time (`ServiceInstance.builder()` of Curator). It is not registered yet.
    #[must_use]
    pub fn new_instance(&self, service: impl Into<String>) -> ServiceInstance<T> {
        ServiceInstance::new(service, self.shared.context.client.unique_name())
            .address(String::from_utf8_lossy(&local_address()))
            .registration_time_utc(wall_time_ms())
    }

    /// Registers an instance, and returns when others find it. Without a connection this waits for
    /// one. From now on the instance stays registered; see [`Registration`].
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::BadId`], [`DiscoveryError::AlreadyRegistered`],
    /// [`DiscoveryError::EnabledNotWritten`] if the instance is disabled, and
    /// [`DiscoveryError::Unwritable`]; the refusal of the server, as for want of a permission. The
    /// instance is not registered then.
    ///
    /// # Cancellation
    ///
    /// The instance is registered all the same, or will be when there is a connection:
    /// [`ServiceDiscovery::registration`] returns its registration.
    pub async fn register(
        &self,
        instance: ServiceInstance<T>,
    ) -> Result<Registration<T>, DiscoveryError> {
        let registration = self.start_registration(instance)?;
        if let Err(error) = registration.until_registered().await {
            self.forget(&registration);
            // There is no znode of it.
            drop(registration.close());
            return Err(error);
        }
        Ok(registration)
    }

    /// Registers an instance in the background.
    fn start_registration(
        &self,
        instance: ServiceInstance<T>,
    ) -> Result<Registration<T>, DiscoveryError> {
        let context = &self.shared.context;
        let path = path_of(&*context.paths, &instance)?;
        let data = context.write(&path, &instance)?;
        let mut registered = self.shared.registered.lock();
        let registered = registered.as_mut().ok_or(DiscoveryError::Closed)?;
        // One that was unregistered by its own handle is not here any more.
        registered.retain(|_, registration| !registration.is_over());
        if registered.contains_key(&path) {
            return Err(DiscoveryError::AlreadyRegistered(path));
        }
        let registration = Registration::start(context, path.clone(), instance, data)?;
        registered.insert(path, registration.clone());
        Ok(registration)
    }

    /// Forgets a registration, unless there is another one at its path.
    fn forget(&self, registration: &Registration<T>) {
        if let Some(registered) = self.shared.registered.lock().as_mut() {
            registered.retain(|_, other| !other.is_same(registration));
        }
    }

    /// All registrations of this discovery, in the order of their paths.
    #[must_use]
    pub fn registrations(&self) -> Vec<Registration<T>> {
        let registered = self.shared.registered.lock();
        let registrations = registered.iter().flat_map(BTreeMap::values);
        registrations.filter(|registration| !registration.is_over()).cloned().collect()
    }

    /// The registration of an instance of this discovery, if there is one.
    #[must_use]
    pub fn registration(&self, service: &str, id: &str) -> Option<Registration<T>> {
        let path = path_of_id(&*self.shared.context.paths, service, id).ok()?;
        let registered = self.shared.registered.lock();
        let registration = registered.as_ref()?.get(&path)?;
        (!registration.is_over()).then(|| registration.clone())
    }

    /// Unregisters all instances that are not [permanent](super::ServiceType::Permanent), and
    /// returns when their znodes are deleted. Nothing can be registered after that. Caches and
    /// providers go on.
    ///
    /// # Errors
    ///
    /// All errors of [`Registration::unregister`].
    ///
    /// # Cancellation
    ///
    /// The instances are unregistered in the background.
    pub async fn close(&self) -> Result<(), DiscoveryError> {
        let registered = self.shared.registered.lock().take().unwrap_or_default();
        // All deletes are sent before the first reply is waited for.
        let closing: Vec<_> = registered.into_values().map(Registration::close).collect();
        let mut errors = Vec::new();
        for closed in closing {
            errors.extend(closed.await.err());
        }
        DiscoveryError::all(errors)
    }
}

/// The instances of a service: [`ServiceDiscovery::query_for_instances`].
///
/// ```
/// use zoolet_recipes::discovery::Instances;
///
/// let none = Instances::<()>::default();
/// assert!(none.found.is_empty() && none.unreadable.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instances<T = ()> {
    /// Those that could be read, in the order of their znodes' names.
    pub found: Vec<ServiceInstance<T>>,
    /// The errors of the others: [`DiscoveryError::Unreadable`], or that the client may not read it.
    pub unreadable: Vec<DiscoveryError>,
}

impl<T> Default for Instances<T> {
    fn default() -> Self {
        Self { found: Vec::new(), unreadable: Vec::new() }
    }
}

/// What is registered by anybody, as the server knows it now. A server that is behind its ensemble
/// may not know the last changes. A [`ServiceProvider`](super::ServiceProvider) needs no requests.
impl<T: Send + Sync + 'static> ServiceDiscovery<T> {
    /// The names of all services, in their order. A service without instances is among them until
    /// the server deletes its container.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub async fn query_for_names(&self) -> Result<Vec<String>, DiscoveryError> {
        self.names(self.shared.context.paths.base_path()).await
    }

    /// All instances of a service, disabled ones too; none if there is no such service. One that
    /// cannot be read does not hide the others.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub async fn query_for_instances(&self, service: &str) -> Result<Instances<T>, DiscoveryError> {
        let directory = self.shared.context.paths.path_for_instances(service);
        let names = self.names(&directory).await?;
        let paths: Vec<_> = names.iter().map(|name| child(&directory, name)).collect();
        let mut instances = Instances::default();
        for batch in paths.chunks(READS_IN_FLIGHT) {
            let sent: Vec<_> =
                batch.iter().map(|path| self.shared.context.client.get(path).send()).collect();
            for (path, sent) in batch.iter().zip(sent) {
                let answer = match sent.await {
                    Err(error) if error.is_retryable() => {
                        self.shared.context.client.get(path).await
                    }
                    answer => answer,
                };
                match answer {
                    Ok((data, _)) => match self.shared.context.read(path, &data) {
                        Ok(instance) => instances.found.push(instance),
                        Err(error) => instances.unreadable.push(error),
                    },
                    // It was unregistered in between.
                    Err(error) if error.is(ErrorCode::NO_NODE) => {}
                    Err(error) if error.is(ErrorCode::NO_AUTH) => {
                        instances.unreadable.push(error.into());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(instances)
    }

    /// An instance of a service; `None` if there is none. The id of a sequential one is the name of
    /// its znode, with the number.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::Unreadable`], [`DiscoveryError::BadId`], and those of a read.
    pub async fn query_for_instance(
        &self,
        service: &str,
        id: &str,
    ) -> Result<Option<ServiceInstance<T>>, DiscoveryError> {
        let path = path_of_id(&*self.shared.context.paths, service, id)?;
        match self.shared.context.client.get(&path).await {
            Ok((data, _)) => self.shared.context.read(&path, &data).map(Some),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of a znode's children, in their order; none if it does not exist.
    async fn names(&self, path: &str) -> Result<Vec<String>, DiscoveryError> {
        let names = match self.shared.context.client.children(path).await {
            Ok(names) => names,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut names: Vec<_> = names.iter().map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// A cache of the instances of a service, which is filled in the background
    /// (`serviceCacheBuilder` of Curator).
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if the name is no part of a path.
    pub fn service_cache(&self, service: &str) -> Result<ServiceCache<T>, DiscoveryError> {
        ServiceCache::start(&self.shared.context, service)
    }

    /// The options of a provider of the instances of a service (`serviceProviderBuilder` of
    /// Curator).
    pub fn service_provider(&self, service: &str) -> ServiceProviderBuilder<T> {
        ServiceProviderBuilder::new(&self.shared.context, service)
    }
}

impl<T> Clone for ServiceDiscovery<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for ServiceDiscovery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceDiscovery")
            .field("base_path", &self.shared.context.paths.base_path())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ServiceDiscoveryBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceDiscoveryBuilder")
            .field("base_path", &self.context.paths.base_path())
            .finish_non_exhaustive()
    }
}
