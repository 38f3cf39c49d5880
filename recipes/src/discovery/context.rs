//! What a discovery, its registrations and its caches have in common.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::Acl;

use super::error::DiscoveryError;
use super::instance::ServiceInstance;
use super::json::InstanceSerializer;
use super::paths::DiscoveryPathConstructor;
use crate::client::Client;
use crate::node::TakeOver;

/// What a discovery was made of. It does not refer to registrations: a cache does not keep them.
pub(super) struct Context<T> {
    pub(super) client: Client,
    pub(super) paths: Arc<dyn DiscoveryPathConstructor>,
    pub(super) serializer: Arc<dyn InstanceSerializer<T>>,
    /// That of each instance and of the directories that are created for it; `None` for the default
    /// of the client.
    pub(super) acl: Option<Vec<Acl>>,
    pub(super) take_over: TakeOver,
    pub(super) watches_instances: bool,
}

impl<T> Context<T> {
    /// The data of the znode of an instance.
    pub(super) fn write(
        &self,
        path: &str,
        instance: &ServiceInstance<T>,
    ) -> Result<Bytes, DiscoveryError> {
        if !instance.enabled && !self.serializer.writes_enabled() {
            return Err(DiscoveryError::EnabledNotWritten(path.to_owned()));
        }
        let written = self.serializer.serialize(instance).map(Bytes::from);
        written.map_err(|reason| DiscoveryError::Unwritable {
            path: path.to_owned(),
            reason: reason.to_string(),
        })
    }

    /// The instance of a znode.
    pub(super) fn read(
        &self,
        path: &str,
        data: &[u8],
    ) -> Result<ServiceInstance<T>, DiscoveryError> {
        self.serializer.deserialize(data).map_err(|reason| DiscoveryError::Unreadable {
            path: path.to_owned(),
            reason: reason.to_string(),
        })
    }
}
