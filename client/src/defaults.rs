//! What the znodes of a client have unless the call says otherwise: Curator's `ACLProvider`,
//! `defaultData` and `dontUseContainerParents`.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Acl, CreateMode};

use crate::create::Parents;

/// The access control list for a path, as the server names it.
type AclProvider = dyn Fn(&str) -> Vec<Acl> + Send + Sync;

/// The defaults of a client.
#[derive(Clone, Default)]
pub(crate) struct Defaults {
    acl: Option<Arc<AclProvider>>,
    /// The data of the znodes of recipes.
    pub(crate) data: Option<Bytes>,
    /// Whether ancestors are never created as containers.
    pub(crate) has_no_containers: bool,
}

impl Defaults {
    pub(crate) fn provide_acl(
        &mut self,
        provider: impl Fn(&str) -> Vec<Acl> + Send + Sync + 'static,
    ) {
        self.acl = Some(Arc::new(provider));
    }

    /// The list of the provider, if there is one. Else nobody asks for the path.
    pub(crate) fn acl(&self, server_path: impl FnOnce() -> String) -> Vec<Acl> {
        self.acl.as_ref().map_or_else(|| vec![Acl::open()], |provider| provider(&server_path()))
    }

    /// The mode of ancestors.
    pub(crate) fn mode_of(&self, parents: Parents) -> CreateMode {
        match parents {
            Parents::Containers if !self.has_no_containers => CreateMode::Container,
            _ => CreateMode::Persistent,
        }
    }
}

/// Without the data, which may be secret.
impl fmt::Debug for Defaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Defaults")
            .field("has_acl", &self.acl.is_some())
            .field("has_no_containers", &self.has_no_containers)
            .finish_non_exhaustive()
    }
}
