//! How a client builds the URI of an instance: Curator's `UriSpec`.

use serde::{Deserialize, Serialize};

/// The fields that are known without an instance (`UriSpec.FIELD_*` of Curator).
const OPEN_BRACE: &str = "[";
const CLOSE_BRACE: &str = "]";
pub(super) const SCHEME: &str = "scheme";

/// A text with fields in braces, such as `{scheme}://{address}:{port}`, from which the URI of an
/// instance is built (`UriSpec` of Curator).
///
/// The fields that every instance has are `scheme` (`https` if the instance has an SSL port, else
/// `http`), `name`, `id`, `address`, `port`, `ssl-port`, `registration-time-utc` and `service-type`
/// (in lower case). `{[}` stands for an open brace, and `{]}` for a closing one. A field without a
/// value is left out of the URI.
///
/// ```
/// use zoolet_recipes::discovery::{ServiceInstance, UriSpec};
///
/// let spec = UriSpec::parse("{scheme}://{address}:{port}/{version}")?;
/// let instance = ServiceInstance::<()>::new("orders", "1").address("10.0.0.7").port(80).uri_spec(spec);
/// assert_eq!(instance.build_uri(&[("version", "v2")]), "http://10.0.0.7:80/v2");
/// # Ok::<(), zoolet_recipes::discovery::UriSpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct UriSpec {
    /// The texts and fields, in their order.
    #[serde(default)]
    pub parts: Vec<UriSpecPart>,
}

/// A text or a field of a [`UriSpec`].
///
/// ```
/// use zoolet_recipes::discovery::{UriSpec, UriSpecPart};
///
/// let spec = UriSpec::parse("{port}")?;
/// assert_eq!(spec.parts, [UriSpecPart { value: "port".to_owned(), variable: true }]);
/// # Ok::<(), zoolet_recipes::discovery::UriSpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UriSpecPart {
    /// The text, or the name of the field.
    pub value: String,
    /// Whether it is a field.
    pub variable: bool,
}

/// Why a text is no [`UriSpec`].
///
/// ```
/// use zoolet_recipes::discovery::{UriSpec, UriSpecError};
///
/// assert_eq!(UriSpec::parse("{port"), Err(UriSpecError::NotClosed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriSpecError {
    /// There is an open brace inside a field.
    #[error("an open brace inside a field; write {{[}} for a brace in the URI")]
    Nested,
    /// There is a closing brace outside of a field.
    #[error("a closing brace without an open one; write {{]}} for a brace in the URI")]
    NotOpened,
    /// The last field has no closing brace.
    #[error("the last field has no closing brace")]
    NotClosed,
}

impl UriSpec {
    /// Parses a text with fields in braces. Blanks around the name of a field do not count.
    ///
    /// # Errors
    ///
    /// [`UriSpecError`] if the braces do not match.
    pub fn parse(text: &str) -> Result<Self, UriSpecError> {
        let mut parts = Vec::new();
        let mut is_field = false;
        for token in text.split_inclusive(['{', '}']) {
            let (value, brace) = match token.strip_suffix(['{', '}']) {
                Some(value) => (value, token.chars().next_back()),
                None => (token, None),
            };
            let value = if is_field { value.trim() } else { value };
            // As Curator: `{}` is no part, `{ }` is a field without a name.
            if token.len() > usize::from(brace.is_some()) {
                parts.push(UriSpecPart { value: value.to_owned(), variable: is_field });
            }
            is_field = match (brace, is_field) {
                (Some('{'), true) => return Err(UriSpecError::Nested),
                (Some('}'), false) => return Err(UriSpecError::NotOpened),
                (Some(brace), _) => brace == '{',
                (None, is_field) => is_field,
            };
        }
        if is_field { Err(UriSpecError::NotClosed) } else { Ok(Self { parts }) }
    }

    /// Builds a URI without an instance: the values of all fields are those given, except for
    /// `scheme`, `[` and `]`, which have defaults.
    #[must_use]
    pub fn build(&self, variables: &[(&str, &str)]) -> String {
        self.build_with(variables, |_| None)
    }

    /// Builds a URI: the value of a field is the one given, else that of the instance, else the
    /// default.
    pub(super) fn build_with(
        &self,
        variables: &[(&str, &str)],
        of_instance: impl Fn(&str) -> Option<String>,
    ) -> String {
        let mut uri = String::new();
        for UriSpecPart { value, variable } in &self.parts {
            if !variable {
                uri.push_str(value);
            } else if let Some((_, given)) = variables.iter().rev().find(|(name, _)| name == value)
            {
                uri.push_str(given);
            } else if let Some(field) = of_instance(value) {
                uri.push_str(&field);
            } else {
                uri.push_str(default_of(value));
            }
        }
        uri
    }
}

/// The value of a field without an instance; empty if it has none.
fn default_of(field: &str) -> &'static str {
    match field {
        SCHEME => "http",
        OPEN_BRACE => "{",
        CLOSE_BRACE => "}",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(value: &str, variable: bool) -> UriSpecPart {
        UriSpecPart { value: value.to_owned(), variable }
    }

    /// `TestUriSpec.testBasic` of Curator.
    #[test]
    fn a_text_is_divided_into_texts_and_fields() {
        let spec = UriSpec::parse("{one}{two}three-four-five{six}seven{ eight }").unwrap();
        let parts = [
            part("one", true),
            part("two", true),
            part("three-four-five", false),
            part("six", true),
            part("seven", false),
            part("eight", true),
        ];
        assert_eq!(spec.parts, parts);
        assert_eq!(UriSpec::parse("").unwrap().parts, []);
        assert_eq!(UriSpec::parse("a{}b").unwrap().parts, [part("a", false), part("b", false)]);
        assert_eq!(UriSpec::parse("{ }").unwrap().parts, [part("", true)]);
    }

    /// `TestUriSpec.testEscapes` of Curator.
    #[test]
    fn braces_are_fields_too() {
        let spec = UriSpec::parse("{[}{a}{]}").unwrap();
        assert_eq!(spec.build(&[("a", "x")]), "{x}");
        assert_eq!(spec.build(&[("[", "<"), ("]", ">")]), "<>", "given values count first");
    }

    #[test]
    fn braces_that_do_not_match_are_errors() {
        assert_eq!(UriSpec::parse("{a{b}}"), Err(UriSpecError::Nested));
        assert_eq!(UriSpec::parse("a}"), Err(UriSpecError::NotOpened));
        assert_eq!(UriSpec::parse("{a}}"), Err(UriSpecError::NotOpened));
        assert_eq!(UriSpec::parse("a{b"), Err(UriSpecError::NotClosed));
        assert_eq!(UriSpec::parse("a{"), Err(UriSpecError::NotClosed));
    }
}
