//! The errors of discovery.

use crate::cache::CacheError;
use crate::client;
use crate::node::NodeError;

/// Why a registration or a query failed.
///
/// ```
/// use zoolet_recipes::discovery::DiscoveryError;
///
/// let error = DiscoveryError::BadId { service: "orders".to_owned(), id: "a/b".to_owned() };
/// assert_eq!(
///     error.to_string(),
///     "orders: the id \"a/b\" is no name of a znode; it must not be empty or contain a slash",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The id of an instance is no name of a znode.
    #[error(
        "{service}: the id {id:?} is no name of a znode; it must not be empty or contain a slash"
    )]
    BadId {
        /// The service.
        service: String,
        /// The id.
        id: String,
    },
    /// An instance of this service with this id is registered already by this discovery. Update
    /// that registration, or unregister it first.
    #[error("{0}: registered already by this discovery; update that registration")]
    AlreadyRegistered(String),
    /// An update changes the service, the id or the type of an instance, which decide on its znode.
    /// Unregister the instance and register the other.
    #[error("{0}: an update cannot change the service, the id or the type; register it anew")]
    AnotherInstance(String),
    /// The serializer does not write whether an instance is enabled, so that nobody would see the
    /// change. Use [`JsonInstanceSerializer::with_enabled`](super::JsonInstanceSerializer::with_enabled).
    #[error(
        "{0}: the serializer does not write whether an instance is enabled; use with_enabled()"
    )]
    EnabledNotWritten(String),
    /// The data of an instance could not be written.
    #[error("{path}: the instance cannot be written: {reason}")]
    Unwritable {
        /// The znode.
        path: String,
        /// What the serializer said.
        reason: String,
    },
    /// The data of a znode is not that of an instance with such a payload.
    #[error("{path}: not the data of an instance: {reason}")]
    Unreadable {
        /// The znode.
        path: String,
        /// What the serializer said.
        reason: String,
    },
    /// The registration is over: it was unregistered, or the discovery was closed.
    #[error("{0}: not registered any more")]
    Unregistered(String),
    /// The discovery is closed.
    #[error("the discovery is closed")]
    Closed,
    /// Several errors, in their order.
    #[error("{}", joined(.0))]
    Several(Vec<Self>),
    /// The znode of an instance could not be created.
    #[error(transparent)]
    Node(NodeError),
    /// A cache of instances has ended.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A request failed.
    #[error(transparent)]
    Client(#[from] client::Error),
}

impl From<NodeError> for DiscoveryError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Client(error) => Self::Client(error),
            NodeError::Closed(path) => Self::Unregistered(path),
            error => Self::Node(error),
        }
    }
}

impl DiscoveryError {
    /// These errors as one result.
    pub(super) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// The messages of errors.
fn joined(errors: &[DiscoveryError]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
