//! The data of an instance's znode: Curator's `JsonInstanceSerializer`, to the byte.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::ser::{CharEscape, Formatter, Serializer};

use super::instance::{ServiceInstance, ServiceType};
use super::uri_spec::UriSpec;

/// Why data could not be written or read.
pub type SerializeError = Box<dyn std::error::Error + Send + Sync>;

/// Writes and reads the data of an instance's znode (`InstanceSerializer` of Curator).
///
/// ```
/// use zoolet_recipes::discovery::{InstanceSerializer, JsonInstanceSerializer, ServiceInstance};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let instance = ServiceInstance::<()>::new("orders", "host-1");
/// let data = JsonInstanceSerializer::compatible().serialize(&instance)?;
/// let read: ServiceInstance = JsonInstanceSerializer::compatible().deserialize(&data)?;
/// assert_eq!(read, instance);
/// # Ok(())
/// # }
/// ```
pub trait InstanceSerializer<T>: Send + Sync {
    /// The data of an instance.
    ///
    /// # Errors
    ///
    /// Those of the payload.
    fn serialize(&self, instance: &ServiceInstance<T>) -> Result<Vec<u8>, SerializeError>;

    /// The instance of some data.
    ///
    /// # Errors
    ///
    /// If the data is not that of an instance with such a payload.
    fn deserialize(&self, data: &[u8]) -> Result<ServiceInstance<T>, SerializeError>;

    /// Whether the data tells if the instance is enabled.
    fn writes_enabled(&self) -> bool {
        true
    }
}

/// The JSON that Curator's serializer of the same name writes, to the byte for all but the floating
/// point numbers of a payload.
///
/// # The payload
///
/// Jackson writes the class of a payload into it, and reads no object without it. A struct has it by
/// serde's attribute `tag`, and an enum may stand for several classes:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use zoolet_recipes::discovery::{InstanceSerializer, JsonInstanceSerializer, ServiceInstance};
///
/// #[derive(Serialize, Deserialize)]
/// #[serde(tag = "@class", rename = "com.example.Shard")]
/// struct Shard {
///     first: u32,
/// }
///
/// let instance = ServiceInstance::new("store", "1").payload(Shard { first: 7 });
/// let data = JsonInstanceSerializer::compatible().serialize(&instance).unwrap();
/// let text = String::from_utf8(data).unwrap();
/// assert!(text.contains(r#""payload":{"@class":"com.example.Shard","first":7}"#), "{text}");
/// ```
///
/// Strings, booleans, `i32` and `f64` need no class: they are `String`, `Boolean`, `Integer` and
/// `Double`. Other values of Java are arrays of the class and the value: a list is
/// `("java.util.ArrayList", vec)`. `serde_json::Value` reads every payload.
///
/// # Disabled instances
///
/// Curator writes whether an instance is enabled only on demand, since versions before 2.9 cannot
/// read it (CURATOR-275). Both forms read both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonInstanceSerializer {
    writes_enabled: bool,
}

impl JsonInstanceSerializer {
    /// What Curator does by default: it does not write whether an instance is enabled
    /// (`compatibleSerializationMode`).
    #[must_use]
    pub fn compatible() -> Self {
        Self { writes_enabled: false }
    }

    /// It writes whether an instance is enabled: Curator's
    /// `new JsonInstanceSerializer<>(payloadClass, false)`.
    #[must_use]
    pub fn with_enabled() -> Self {
        Self { writes_enabled: true }
    }
}

impl Default for JsonInstanceSerializer {
    fn default() -> Self {
        Self::compatible()
    }
}

impl<T: Serialize + DeserializeOwned> InstanceSerializer<T> for JsonInstanceSerializer {
    fn serialize(&self, instance: &ServiceInstance<T>) -> Result<Vec<u8>, SerializeError> {
        let written = Written {
            name: &instance.name,
            id: &instance.id,
            address: instance.address.as_deref(),
            port: instance.port,
            ssl_port: instance.ssl_port,
            payload: instance.payload.as_ref(),
            registration_time_utc: instance.registration_time_utc,
            service_type: instance.service_type,
            uri_spec: instance.uri_spec.as_ref(),
            enabled: self.writes_enabled.then_some(instance.enabled),
        };
        let mut data = Vec::new();
        written.serialize(&mut Serializer::with_formatter(&mut data, LikeJackson))?;
        Ok(data)
    }

    fn deserialize(&self, data: &[u8]) -> Result<ServiceInstance<T>, SerializeError> {
        let read: Read<T> = serde_json::from_slice(data)?;
        // What is missing or null has the value of Curator's constructor without arguments.
        Ok(ServiceInstance {
            name: read.name.unwrap_or_default(),
            id: read.id.unwrap_or_default(),
            address: read.address,
            port: read.port,
            ssl_port: read.ssl_port,
            payload: read.payload,
            registration_time_utc: read.registration_time_utc.unwrap_or_default(),
            service_type: read.service_type.unwrap_or_default(),
            uri_spec: read.uri_spec,
            enabled: read.enabled.unwrap_or(true),
        })
    }

    fn writes_enabled(&self) -> bool {
        self.writes_enabled
    }
}

/// The fields in Curator's order: that of the fields of its class.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a, T> {
    name: &'a str,
    id: &'a str,
    address: Option<&'a str>,
    port: Option<i32>,
    ssl_port: Option<i32>,
    payload: Option<&'a T>,
    #[serde(rename = "registrationTimeUTC")]
    registration_time_utc: i64,
    service_type: ServiceType,
    uri_spec: Option<&'a UriSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

/// Unknown fields are ignored, as Curator does.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read<T> {
    name: Option<String>,
    id: Option<String>,
    address: Option<String>,
    port: Option<i32>,
    ssl_port: Option<i32>,
    payload: Option<T>,
    #[serde(rename = "registrationTimeUTC")]
    registration_time_utc: Option<i64>,
    service_type: Option<ServiceType>,
    uri_spec: Option<UriSpec>,
    enabled: Option<bool>,
}

/// Jackson writes control characters with upper-case digits, and characters beyond the Basic
/// Multilingual Plane as two escapes (`UTF8JsonGenerator`).
struct LikeJackson;

impl Formatter for LikeJackson {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some((at, beyond)) = rest.char_indices().find(|(_, char)| char.len_utf16() == 2) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in beyond.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04X}")?;
            }
            rest = &rest[at + beyond.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let short: &[u8] = match escape {
            CharEscape::AsciiControl(byte) => return write!(writer, "\\u{byte:04X}"),
            CharEscape::Quote => b"\\\"",
            CharEscape::ReverseSolidus => b"\\\\",
            CharEscape::Solidus => b"\\/",
            CharEscape::Backspace => b"\\b",
            CharEscape::FormFeed => b"\\f",
            CharEscape::LineFeed => b"\\n",
            CharEscape::CarriageReturn => b"\\r",
            CharEscape::Tab => b"\\t",
        };
        writer.write_all(short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPATIBLE: JsonInstanceSerializer = JsonInstanceSerializer { writes_enabled: false };
    const WITH_ENABLED: JsonInstanceSerializer = JsonInstanceSerializer { writes_enabled: true };

    fn instance<T>() -> ServiceInstance<T> {
        ServiceInstance::new("name", "id")
            .address("address")
            .port(10)
            .ssl_port(20)
            .uri_spec(UriSpec::parse("{a}/b/{c}").unwrap())
    }

    fn text<T: Serialize + DeserializeOwned>(
        serializer: JsonInstanceSerializer,
        instance: &ServiceInstance<T>,
    ) -> String {
        String::from_utf8(serializer.serialize(instance).unwrap()).unwrap()
    }

    fn read<T: Serialize + DeserializeOwned>(
        json: &str,
    ) -> Result<ServiceInstance<T>, SerializeError> {
        COMPATIBLE.deserialize(json.as_bytes())
    }

    #[test]
    fn the_json_is_that_of_curator() {
        let instance = instance().payload("payload".to_owned());
        let json = concat!(
            r#"{"name":"name","id":"id","address":"address","port":10,"sslPort":20,"#,
            r#""payload":"payload","registrationTimeUTC":0,"serviceType":"DYNAMIC","#,
            r#""uriSpec":{"parts":[{"value":"a","variable":true},"#,
            r#"{"value":"/b/","variable":false},{"value":"c","variable":true}]}"#,
        );
        assert_eq!(text(COMPATIBLE, &instance), format!("{json}}}"));
        assert_eq!(text(WITH_ENABLED, &instance), format!("{json},\"enabled\":true}}"));
        assert_eq!(read::<String>(&format!("{json}}}")).unwrap(), instance);
    }

    #[test]
    fn nulls_are_written() {
        let json = concat!(
            r#"{"name":"n","id":"i","address":null,"port":null,"sslPort":null,"payload":null,"#,
            r#""registrationTimeUTC":0,"serviceType":"DYNAMIC","uriSpec":null}"#,
        );
        let instance = ServiceInstance::<()>::new("n", "i");
        assert_eq!(text(COMPATIBLE, &instance), json);
        assert_eq!(read::<()>(json).unwrap(), instance);
    }

    /// `TestJsonInstanceSerializer.testNoEnabledState` of Curator, and `null` in each field.
    #[test]
    fn missing_fields_have_the_values_of_curators_constructor() {
        let empty = ServiceInstance::<()>::new("", "");
        assert_eq!(read::<()>("{}").unwrap(), empty);
        let nulls = concat!(
            r#"{"name":null,"id":null,"address":null,"port":null,"sslPort":null,"payload":null,"#,
            r#""registrationTimeUTC":null,"serviceType":null,"uriSpec":null,"enabled":null}"#,
        );
        assert_eq!(read::<()>(nulls).unwrap(), empty);
    }

    /// `TestJsonInstanceSerializerCompatibility.testFutureChanges` of Curator.
    #[test]
    fn unknown_fields_are_ignored() {
        let json = r#"{"name":"n","id":"i","later":{"a":[1]},"uriSpec":{"parts":[],"more":1}}"#;
        let read = read::<()>(json).unwrap();
        assert_eq!(read.uri_spec, Some(UriSpec::default()));
    }

    /// `TestJsonInstanceSerializer.testWrongPayloadType` of Curator.
    #[test]
    fn a_payload_of_another_type_is_an_error() {
        let json = text(COMPATIBLE, &instance().payload("payload".to_owned()));
        assert!(read::<f64>(&json).is_err());
        assert!(read::<()>(&json).is_err());
        assert!(read::<String>("[").is_err());
    }

    /// `testPayloadAsList`, `testPayloadAsMap` and `testPayloadClass` of Curator.
    #[test]
    fn payloads_carry_their_java_class() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "@class", rename = "com.example.Payload")]
        struct Payload {
            val: String,
        }
        let payload = Payload { val: "Test value".to_owned() };
        let json = text(COMPATIBLE, &instance().payload(payload));
        assert!(json.contains(r#""payload":{"@class":"com.example.Payload","val":"Test value"}"#));
        assert_eq!(read::<Payload>(&json).unwrap().payload.unwrap().val, "Test value");

        let list = ("java.util.ArrayList".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        let json = text(WITH_ENABLED, &instance().payload(list.clone()).disabled());
        assert!(json.contains(r#""payload":["java.util.ArrayList",["a","b"]]"#), "{json}");
        let again = read::<(String, Vec<String>)>(&json).unwrap();
        assert_eq!((again.payload, again.enabled), (Some(list), false));
    }

    #[test]
    fn characters_are_escaped_as_jackson_escapes_them() {
        let instance =
            ServiceInstance::<()>::new("\u{1f}\u{7f}\"\\/\u{8}\t\n\u{c}\r", "ü😀€\u{10ffff}");
        let json = text(COMPATIBLE, &instance);
        let start = concat!(
            r#"{"name":"\u001F"#,
            "\u{7f}",
            r#"\"\\/\b\t\n\f\r","id":"ü\uD83D\uDE00€\uDBFF\uDFFF","#,
        );
        assert!(json.starts_with(start), "{json}");
        assert_eq!(read::<()>(&json).unwrap(), instance);
    }
}
