//! An instance of a service: Curator's `ServiceInstance`.

use serde::{Deserialize, Serialize};

use super::uri_spec::{self, UriSpec};

/// How long an instance stays registered (`ServiceType` of Curator).
///
/// ```
/// use zoolet_recipes::discovery::ServiceType;
///
/// assert!(ServiceType::DynamicSequential.is_dynamic());
/// assert_eq!(ServiceType::default(), ServiceType::Dynamic);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ServiceType {
    /// Until it is unregistered, or its process has no session any more: an ephemeral znode.
    #[default]
    Dynamic,
    /// Until it is unregistered, or its process closes the discovery. It stays when its process
    /// crashes: a persistent znode.
    Static,
    /// Until it is unregistered: a persistent znode. Curator deletes it at the close of the
    /// discovery too.
    Permanent,
    /// As [`ServiceType::Dynamic`], and the server adds a number to the name of the znode, so that
    /// instances can have the same id: an ephemeral sequential znode.
    DynamicSequential,
}

impl ServiceType {
    /// Whether the registration ends with the session.
    #[must_use]
    pub fn is_dynamic(self) -> bool {
        matches!(self, Self::Dynamic | Self::DynamicSequential)
    }

    /// The name in Curator's JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Dynamic => "DYNAMIC",
            Self::Static => "STATIC",
            Self::Permanent => "PERMANENT",
            Self::DynamicSequential => "DYNAMIC_SEQUENTIAL",
        }
    }
}

/// An instance of a service, as others find it (`ServiceInstance` of Curator).
///
/// [`ServiceDiscovery::new_instance`](super::ServiceDiscovery::new_instance) makes one with a unique
/// id, the address of this machine and the present time.
///
/// The payload is any value that serde can write and read; `()` if there is none.
/// [`JsonInstanceSerializer`](super::JsonInstanceSerializer) explains how Java finds its class.
///
/// ```
/// use zoolet_recipes::discovery::ServiceInstance;
///
/// let instance = ServiceInstance::new("orders", "host-1").address("10.0.0.7").port(8080).payload(3);
/// assert_eq!((instance.port, instance.payload), (Some(8080), Some(3)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ServiceInstance<T = ()> {
    /// The name of the service.
    pub name: String,
    /// What tells this instance from the others of its service: the name of its znode.
    pub id: String,
    /// Where it can be reached: an IP address or a host name.
    pub address: Option<String>,
    /// The port. Curator accepts all numbers of 32 bits, and programs use 0 and -1 for none.
    pub port: Option<i32>,
    /// The port for TLS.
    pub ssl_port: Option<i32>,
    /// What else the users of the service must know.
    pub payload: Option<T>,
    /// When it was registered, in milliseconds since 1970 by the clock of its machine.
    pub registration_time_utc: i64,
    /// How long it stays registered.
    pub service_type: ServiceType,
    /// How its URI is built.
    pub uri_spec: Option<UriSpec>,
    /// Whether a [`ServiceProvider`](super::ServiceProvider) may choose it. It is written only by
    /// [`JsonInstanceSerializer::with_enabled`](super::JsonInstanceSerializer::with_enabled).
    pub enabled: bool,
}

impl<T> ServiceInstance<T> {
    /// An enabled instance of the type [`ServiceType::Dynamic`], without an address.
    pub fn new(name: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            id: id.into(),
            address: None,
            port: None,
            ssl_port: None,
            payload: None,
            registration_time_utc: 0,
            service_type: ServiceType::Dynamic,
            uri_spec: None,
            enabled: true,
        }
    }

    /// Sets the address.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets the port.
    #[must_use]
    pub fn port(mut self, port: i32) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the port for TLS.
    #[must_use]
    pub fn ssl_port(mut self, port: i32) -> Self {
        self.ssl_port = Some(port);
        self
    }

    /// Sets the payload.
    #[must_use]
    pub fn payload(mut self, payload: T) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Sets when it was registered, in milliseconds since 1970.
    #[must_use]
    pub fn registration_time_utc(mut self, ms: i64) -> Self {
        self.registration_time_utc = ms;
        self
    }

    /// Sets how long it stays registered.
    #[must_use]
    pub fn service_type(mut self, service_type: ServiceType) -> Self {
        self.service_type = service_type;
        self
    }

    /// Sets how its URI is built.
    #[must_use]
    pub fn uri_spec(mut self, spec: UriSpec) -> Self {
        self.uri_spec = Some(spec);
        self
    }

    /// Disables it: it stays registered, and no provider chooses it.
    #[must_use]
    pub fn disabled(mut self) -> Self {
        self.enabled = false;
        self
    }

    /// Builds the URI of this instance (`buildUriSpec` of Curator). These values of fields count
    /// before those of the instance. It is empty if the instance has no [`UriSpec`].
    #[must_use]
    pub fn build_uri(&self, variables: &[(&str, &str)]) -> String {
        let spec = self.uri_spec.as_ref();
        spec.map(|spec| spec.build_with(variables, |field| self.field(field))).unwrap_or_default()
    }

    /// The value of a field of a [`UriSpec`].
    fn field(&self, field: &str) -> Option<String> {
        let number = |number: Option<i32>| number.map(|it| it.to_string()).unwrap_or_default();
        Some(match field {
            uri_spec::SCHEME if self.ssl_port.is_some() => "https".to_owned(),
            "name" => self.name.clone(),
            "id" => self.id.clone(),
            "address" => self.address.clone().unwrap_or_default(),
            "port" => number(self.port),
            "ssl-port" => number(self.ssl_port),
            "registration-time-utc" => self.registration_time_utc.to_string(),
            "service-type" => self.service_type.name().to_lowercase(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TestUriSpec.testScheme` of Curator.
    #[test]
    fn the_scheme_is_https_with_an_ssl_port() {
        let spec = UriSpec::parse("{scheme}://foo.com").unwrap();
        assert_eq!(spec.build(&[]), "http://foo.com");
        let plain = ServiceInstance::<()>::new("x", "1").uri_spec(spec);
        assert_eq!(plain.build_uri(&[]), "http://foo.com");
        assert_eq!(plain.clone().ssl_port(5).build_uri(&[]), "https://foo.com");
        assert_eq!(plain.ssl_port(5).build_uri(&[("scheme", "ftp")]), "ftp://foo.com");
    }

    /// `TestUriSpec.testFromInstance` of Curator.
    #[test]
    fn fields_have_the_values_of_the_instance() {
        let spec = "{scheme}:{address}:{port}:{ssl-port}:{name}:{id}:{registration-time-utc}:\
                    {service-type}:{none}";
        let instance = ServiceInstance::<()>::new("foo", "bar")
            .address("1.2.3.4")
            .port(5)
            .ssl_port(6)
            .registration_time_utc(789)
            .service_type(ServiceType::DynamicSequential)
            .uri_spec(UriSpec::parse(spec).unwrap());
        assert_eq!(instance.build_uri(&[]), "https:1.2.3.4:5:6:foo:bar:789:dynamic_sequential:");
        let bare = ServiceInstance::<()>::new("foo", "bar");
        assert_eq!(bare.build_uri(&[]), "", "without a spec");
        let spec = UriSpec::parse("<{address}{port}{ssl-port}>").unwrap();
        assert_eq!(bare.uri_spec(spec).build_uri(&[]), "<>");
    }

    #[test]
    fn the_names_of_types_are_those_of_the_json() {
        use ServiceType::{Dynamic, DynamicSequential, Permanent, Static};
        for service_type in [Dynamic, Static, Permanent, DynamicSequential] {
            let json = serde_json::to_string(&service_type).unwrap();
            assert_eq!(json, format!("\"{}\"", service_type.name()));
        }
    }
}
