//! One of the instances of a service for each request: Curator's `ServiceProvider`.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::context::Context;
use super::down::{DownInstancePolicy, DownInstances};
use super::error::DiscoveryError;
use super::instance::ServiceInstance;
use super::service_cache::{InstanceList, ServiceCache};
use super::strategy::{ProviderStrategy, RoundRobinStrategy};
use crate::client::recipe::now;

/// Chooses an instance of a service for each request (`ServiceProvider` of Curator).
///
/// An instance is chosen from those in memory that all filters let pass, that are not down, and that
/// are enabled. This sends no request and never waits. Do not keep the instance: ask for one for each
/// request.
///
/// ```no_run
/// use zoolet_recipes::discovery::{DownInstancePolicy, RandomStrategy, ServiceDiscovery};
///
/// # async fn call(address: &str) -> std::io::Result<()> { Ok(()) }
/// # async fn example(discovery: ServiceDiscovery) -> Result<(), Box<dyn std::error::Error>> {
/// let provider = discovery
///     .service_provider("orders")
///     .strategy(RandomStrategy::default())
///     .filter(|instance| instance.port.is_some())
///     .start()?;
/// provider.initialized().await?;
/// if let Some(instance) = provider.instance() {
///     if call(instance.address.as_deref().unwrap_or_default()).await.is_err() {
///         provider.note_error(&instance); // another one is chosen for a while, after two errors
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct ServiceProvider<T = ()> {
    cache: ServiceCache<T>,
    strategy: Box<dyn ProviderStrategy<T>>,
    filters: Vec<Filter<T>>,
    down: DownInstances,
    /// The enabled instances of the list that the cache had last.
    enabled: Mutex<Option<Enabled<T>>>,
}

type Filter<T> = Box<dyn Fn(&ServiceInstance<T>) -> bool + Send + Sync>;

struct Enabled<T> {
    of: InstanceList<T>,
    instances: InstanceList<T>,
}

/// The options of a [`ServiceProvider`]:
/// [`ServiceDiscovery::service_provider`](super::ServiceDiscovery::service_provider).
///
/// ```no_run
/// use zoolet_recipes::discovery::{ServiceDiscovery, StickyStrategy, RandomStrategy};
///
/// # fn example(discovery: ServiceDiscovery) -> Result<(), Box<dyn std::error::Error>> {
/// let strategy = StickyStrategy::new(RandomStrategy::default());
/// let provider = discovery.service_provider("orders").strategy(strategy).start()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is followed before the start"]
pub struct ServiceProviderBuilder<T> {
    context: Arc<Context<T>>,
    service: String,
    strategy: Box<dyn ProviderStrategy<T>>,
    filters: Vec<Filter<T>>,
    policy: DownInstancePolicy,
}

impl<T: Send + Sync + 'static> ServiceProviderBuilder<T> {
    pub(super) fn new(context: &Arc<Context<T>>, service: &str) -> Self {
        Self {
            context: Arc::clone(context),
            service: service.to_owned(),
            strategy: Box::new(RoundRobinStrategy::default()),
            filters: Vec::new(),
            policy: DownInstancePolicy::default(),
        }
    }

    /// Sets how an instance is chosen. The default is [`RoundRobinStrategy`].
    pub fn strategy(mut self, strategy: impl ProviderStrategy<T> + 'static) -> Self {
        self.strategy = Box::new(strategy);
        self
    }

    /// Adds a filter: an instance for which it returns `false` is not chosen (`additionalFilter` of
    /// Curator). Filters are asked in the order in which they were added, for each choice. They must
    /// not block.
    pub fn filter(
        mut self,
        filter: impl Fn(&ServiceInstance<T>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filters.push(Box::new(filter));
        self
    }

    /// Sets when an instance counts as down. The default is two errors within thirty seconds.
    pub fn down_instance_policy(mut self, policy: DownInstancePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Starts to follow the instances.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](crate::client::Error::Path) if the name of the service is no part of a path.
    pub fn start(self) -> Result<ServiceProvider<T>, DiscoveryError> {
        Ok(ServiceProvider {
            cache: ServiceCache::start(&self.context, &self.service)?,
            strategy: self.strategy,
            filters: self.filters,
            down: DownInstances::new(self.policy),
            enabled: Mutex::new(None),
        })
    }
}

impl<T: Send + Sync + 'static> ServiceProvider<T> {
    /// Waits until all instances are known for the first time. Until then there may be none to
    /// choose from.
    ///
    /// # Errors
    ///
    /// As [`ServiceCache::initialized`].
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub async fn initialized(&self) -> Result<(), DiscoveryError> {
        self.cache.initialized().await
    }

    /// An instance for one request; `None` if there is none (`getInstance` of Curator).
    #[must_use]
    pub fn instance(&self) -> Option<Arc<ServiceInstance<T>>> {
        self.strategy.choose(&self.instances())
    }

    /// All instances that may be chosen now (`getAllInstances` of Curator).
    #[must_use]
    pub fn instances(&self) -> InstanceList<T> {
        let enabled = self.enabled();
        let now = now();
        let are_down = self.down.are_any(now);
        if self.filters.is_empty() && !are_down {
            return enabled;
        }
        let may_be_chosen = |instance: &&Arc<ServiceInstance<T>>| {
            self.filters.iter().all(|filter| filter(instance))
                && !(are_down && self.down.is_down(instance, now))
        };
        enabled.iter().filter(may_be_chosen).cloned().collect()
    }

    /// Notes that a request to this instance failed. See [`DownInstancePolicy`].
    pub fn note_error(&self, instance: &ServiceInstance<T>) {
        self.down.note_error(instance, now());
    }

    /// The cache from which the instances are chosen.
    #[must_use]
    pub fn cache(&self) -> &ServiceCache<T> {
        &self.cache
    }

    /// The enabled instances. As a rule the list is the one of the last call.
    fn enabled(&self) -> InstanceList<T> {
        let all = self.cache.instances();
        let mut enabled = self.enabled.lock();
        if let Some(known) = &*enabled
            && Arc::ptr_eq(&known.of, &all)
        {
            return Arc::clone(&known.instances);
        }
        let instances: InstanceList<T> =
            all.iter().filter(|instance| instance.enabled).cloned().collect();
        *enabled = Some(Enabled { of: all, instances: Arc::clone(&instances) });
        instances
    }
}

impl<T> fmt::Debug for ServiceProvider<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProvider").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ServiceProviderBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProviderBuilder")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
