//! Discovery for threads. A provider and a cache are read without waiting, so that theirs are the
//! async types: [`Recipe::get`].

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Client, Recipe};
use crate::discovery::{
    self, DiscoveryError, DiscoveryPathConstructor, Instances, ServiceDiscoveryBuilder,
    ServiceInstance,
};

/// The async [`ServiceDiscovery`](discovery::ServiceDiscovery), for threads.
pub type ServiceDiscovery<T = ()> = Recipe<discovery::ServiceDiscovery<T>>;

/// The async [`Registration`](discovery::Registration), for threads.
pub type Registration<T = ()> = Recipe<discovery::Registration<T>>;

/// The async [`ServiceCache`](discovery::ServiceCache), for threads.
pub type ServiceCache<T = ()> = Recipe<discovery::ServiceCache<T>>;

/// The async [`ServiceProvider`](discovery::ServiceProvider), for threads.
pub type ServiceProvider<T = ()> = Recipe<discovery::ServiceProvider<T>>;

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> ServiceDiscovery<T> {
    /// Starts a discovery with Curator's defaults.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn start(
        client: &Client,
        paths: impl DiscoveryPathConstructor + 'static,
    ) -> Result<Self, DiscoveryError> {
        Self::start_with(client, discovery::ServiceDiscovery::builder(client.ask(), paths))
    }
}

impl<T: Send + Sync + 'static> ServiceDiscovery<T> {
    /// Starts a discovery with the options of a builder, which was made with [`Client::ask`].
    ///
    /// # Errors
    ///
    /// As [`ServiceDiscoveryBuilder::start`].
    pub fn start_with(
        client: &Client,
        builder: ServiceDiscoveryBuilder<T>,
    ) -> Result<Self, DiscoveryError> {
        Ok(Self::of(client, builder.start()?))
    }

    /// Registers an instance, and returns when others find it.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn register(
        &self,
        instance: ServiceInstance<T>,
    ) -> Result<Registration<T>, DiscoveryError> {
        let registration = self.client.wait(self.recipe.register(instance))?;
        Ok(Recipe::of(&self.client, registration))
    }

    /// The names of all services.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn query_for_names(&self) -> Result<Vec<String>, DiscoveryError> {
        self.client.wait(self.recipe.query_for_names())
    }

    /// All instances of a service.
    ///
    /// # Errors
    ///
    /// Those of a read.
    pub fn query_for_instances(&self, service: &str) -> Result<Instances<T>, DiscoveryError> {
        self.client.wait(self.recipe.query_for_instances(service))
    }

    /// An instance of a service.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn query_for_instance(
        &self,
        service: &str,
        id: &str,
    ) -> Result<Option<ServiceInstance<T>>, DiscoveryError> {
        self.client.wait(self.recipe.query_for_instance(service, id))
    }

    /// A cache of the instances of a service, when all of them are known.
    ///
    /// # Errors
    ///
    /// As the async recipe, and as [`ServiceCache::initialized`](discovery::ServiceCache::initialized).
    pub fn service_cache(&self, service: &str) -> Result<ServiceCache<T>, DiscoveryError> {
        let cache = self.recipe.service_cache(service)?;
        self.client.wait(cache.initialized())?;
        Ok(Recipe::of(&self.client, cache))
    }

    /// A provider of the instances of a service with Curator's defaults, when all of them are known.
    /// For one with options: `client.wait(discovery.get().service_provider(..).start()?.initialized())`.
    ///
    /// # Errors
    ///
    /// As [`ServiceDiscovery::service_cache`].
    pub fn service_provider(&self, service: &str) -> Result<ServiceProvider<T>, DiscoveryError> {
        let provider = self.recipe.service_provider(service).start()?;
        self.client.wait(provider.initialized())?;
        Ok(Recipe::of(&self.client, provider))
    }

    /// Unregisters all instances that are not permanent.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn close(&self) -> Result<(), DiscoveryError> {
        self.client.wait(self.recipe.close())
    }
}

impl<T: Send + Sync + 'static> Registration<T> {
    /// Replaces the instance.
    ///
    /// # Errors
    ///
    /// As the async recipe; so of all that follow.
    pub fn update(&self, instance: ServiceInstance<T>) -> Result<(), DiscoveryError> {
        self.client.wait(self.recipe.update(instance))
    }

    /// Unregisters the instance.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn unregister(&self) -> Result<(), DiscoveryError> {
        self.client.wait(self.recipe.unregister())
    }
}

impl<T: Clone + Send + Sync + 'static> Registration<T> {
    /// Lets providers choose the instance again.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn enable(&self) -> Result<(), DiscoveryError> {
        self.client.wait(self.recipe.enable())
    }

    /// Has no provider choose the instance.
    ///
    /// # Errors
    ///
    /// As the async recipe.
    pub fn disable(&self) -> Result<(), DiscoveryError> {
        self.client.wait(self.recipe.disable())
    }
}
