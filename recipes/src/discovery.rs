//! Finds the instances of services: Curator's `curator-x-discovery`, with its znodes and its JSON, so
//! that Rust and Java programs find each other.
//!
//! - [`ServiceDiscovery`] registers instances, and asks the server for those of others. A
//!   [`Registration`] survives disconnects and the end of the session.
//! - [`ServiceCache`] has the instances of a service in memory, and follows their changes.
//! - [`ServiceProvider`] chooses one of them for each request, without a request of its own, by a
//!   [`ProviderStrategy`]: [`RoundRobinStrategy`], [`RandomStrategy`] or [`StickyStrategy`]. It leaves
//!   out disabled instances and, by a [`DownInstancePolicy`], those that failed.
//!
//! An instance is the znode `<base path>/<service>/<id>`, and its data is the JSON of a
//! [`ServiceInstance`]. [`JsonInstanceSerializer`] explains payloads, and
//! [`DiscoveryPathConstructor`] other paths.
//!
//! This module is there with the feature `discovery`, which brings serde and `serde_json`.

mod clock;
mod context;
mod down;
mod error;
mod instance;
mod json;
mod limits;
mod paths;
mod provider;
mod registration;
mod service_cache;
mod service_discovery;
mod strategy;
mod uri_spec;

pub use self::down::DownInstancePolicy;
pub use self::error::DiscoveryError;
pub use self::instance::{ServiceInstance, ServiceType};
pub use self::json::{InstanceSerializer, JsonInstanceSerializer, SerializeError};
pub use self::paths::DiscoveryPathConstructor;
pub use self::provider::{ServiceProvider, ServiceProviderBuilder};
pub use self::registration::Registration;
pub use self::service_cache::{InstanceList, ServiceCache};
pub use self::service_discovery::{Instances, ServiceDiscovery, ServiceDiscoveryBuilder};
pub use self::strategy::{ProviderStrategy, RandomStrategy, RoundRobinStrategy, StickyStrategy};
pub use self::uri_spec::{UriSpec, UriSpecError, UriSpecPart};
