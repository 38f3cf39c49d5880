//! Where the znodes of services are: Curator's `DiscoveryPathConstructor`.

use zoolet_protocol::ZPath;

use super::error::DiscoveryError;
use super::instance::ServiceInstance;
use crate::client;

/// Where the znodes of services are (`DiscoveryPathConstructor` of Curator). A text is the base path
/// of Curator's default: the znodes of a service's instances are the children of
/// `<base path>/<service>`.
///
/// ```
/// use zoolet_recipes::discovery::DiscoveryPathConstructor;
///
/// /// The services of a tenant.
/// struct OfTenant(&'static str);
///
/// impl DiscoveryPathConstructor for OfTenant {
///     fn base_path(&self) -> &str {
///         "/services"
///     }
///
///     fn path_for_instances(&self, service: &str) -> String {
///         format!("/services/{service}/{}", self.0)
///     }
/// }
///
/// assert_eq!(OfTenant("x").path_for_instances("orders"), "/services/orders/x");
/// assert_eq!("/services".path_for_instances("orders"), "/services/orders");
/// ```
pub trait DiscoveryPathConstructor: Send + Sync {
    /// The znode whose children are named as the services.
    fn base_path(&self) -> &str;

    /// The znode whose children are the instances of a service.
    fn path_for_instances(&self, service: &str) -> String;
}

impl<P: AsRef<str> + Send + Sync> DiscoveryPathConstructor for P {
    fn base_path(&self) -> &str {
        self.as_ref()
    }

    fn path_for_instances(&self, service: &str) -> String {
        child(self.as_ref(), service)
    }
}

/// The path of a child.
pub(super) fn child(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.trim_end_matches('/'))
}

/// The path of an instance, without the number of a sequential one.
pub(super) fn path_of<T>(
    paths: &dyn DiscoveryPathConstructor,
    instance: &ServiceInstance<T>,
) -> Result<String, DiscoveryError> {
    path_of_id(paths, &instance.name, &instance.id)
}

/// The path of the instance with this id.
pub(super) fn path_of_id(
    paths: &dyn DiscoveryPathConstructor,
    service: &str,
    id: &str,
) -> Result<String, DiscoveryError> {
    // Deeper znodes are no instances, and an empty name is none.
    if id.is_empty() || id.contains('/') {
        return Err(DiscoveryError::BadId { service: service.to_owned(), id: id.to_owned() });
    }
    let path = child(&paths.path_for_instances(service), id);
    ZPath::check(&path).map_err(client::Error::from)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `DiscoveryPathConstructorImplTest` of Curator.
    #[test]
    fn instances_are_below_the_name_of_their_service() {
        assert_eq!("/foo/bar".base_path(), "/foo/bar");
        assert_eq!("/foo/bar".path_for_instances("baz"), "/foo/bar/baz");
        assert_eq!("/".path_for_instances("baz"), "/baz");
        assert_eq!(path_of_id(&"/foo", "a/b", "1"), Ok("/foo/a/b/1".to_owned()));
    }

    #[test]
    fn ids_that_are_no_names_of_znodes_are_errors() {
        for id in ["", "a/b", "/"] {
            let error = path_of_id(&"/foo", "bar", id).unwrap_err();
            assert!(matches!(error, DiscoveryError::BadId { .. }), "{error}");
        }
        for id in [".", "..", "a\0"] {
            let error = path_of_id(&"/foo", "bar", id).unwrap_err();
            assert!(matches!(error, DiscoveryError::Client(client::Error::Path(_))), "{error}");
        }
        assert!(path_of_id(&"relative", "bar", "1").is_err());
    }
}
