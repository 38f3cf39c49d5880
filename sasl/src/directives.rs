//! The text of a token: directives `name=value` with commas between (RFC 2831, section 7.1).
//!
//! As in OpenJDK's `DigestMD5Base.parseDirectives`, white space may stand for a comma, and elements
//! may be empty.

use std::collections::BTreeMap;

use crate::limits::SHOWN_CHARS_MAX;

/// Why a token cannot be read.
///
/// ```
/// use zoolet_sasl::BadDirectives;
///
/// assert_eq!(BadDirectives::Unquoted.to_string(), "a quoted value has no end");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDirectives {
    /// A directive has no name.
    #[error("a directive has no name")]
    NoName,
    /// A comma or a space stands in the name of a directive.
    #[error("a directive has no \"=\"")]
    NoEquals,
    /// The token ends where a value is expected.
    #[error("the last directive has no value")]
    NoValue,
    /// A quoted value has no end.
    #[error("a quoted value has no end")]
    Unquoted,
    /// Something stands between a quoted value and the next comma.
    #[error("a quoted value is followed by something other than a comma")]
    NoComma,
    /// A directive is there twice.
    #[error("the directive {0:?} is there more than once")]
    Repeated(&'static str),
}

/// The directives of a token that the reader knows, by name.
pub(crate) struct Directives {
    values: BTreeMap<&'static str, Vec<u8>>,
}

impl Directives {
    /// Reads a token. Other directives than the `known` ones are ignored. Of those in
    /// `may_be_repeated` the first counts.
    pub(crate) fn parse(
        token: &[u8],
        known: &[&'static str],
        may_be_repeated: &[&str],
    ) -> Result<Self, BadDirectives> {
        let mut values = BTreeMap::new();
        let mut rest = token;
        while let Some((name, value)) = next(&mut rest)? {
            let name = String::from_utf8_lossy(&name);
            let Some(&name) = known.iter().find(|known| known.eq_ignore_ascii_case(&name)) else {
                continue;
            };
            if !values.contains_key(name) {
                values.insert(name, value);
            } else if !may_be_repeated.contains(&name) {
                return Err(BadDirectives::Repeated(name));
            }
        }
        Ok(Self { values })
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// The value as text. What is not UTF-8 is replaced, as in Java.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.bytes(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// A directive's name and value.
type Directive = (Vec<u8>, Vec<u8>);

/// The next directive; `None` at the end.
fn next(rest: &mut &[u8]) -> Result<Option<Directive>, BadDirectives> {
    while let [b',' | b'\r' | b'\n' | b' ' | b'\t', after @ ..] = rest {
        *rest = after;
    }
    if rest.is_empty() {
        return Ok(None);
    }
    let length = rest.iter().position(|&byte| is_end(byte) || byte == b'=').unwrap_or(rest.len());
    let (name, after) = rest.split_at(length);
    let after = skip_white_space(after);
    match after {
        // Java takes a last name alone for one with an empty value.
        [] if length == rest.len() => {
            *rest = after;
            return Ok(Some((name.to_vec(), Vec::new())));
        }
        [b'=', ..] if name.is_empty() => return Err(BadDirectives::NoName),
        [b'=', after @ ..] => *rest = skip_white_space(after),
        _ => return Err(BadDirectives::NoEquals),
    }
    let value = match rest {
        [] => return Err(BadDirectives::NoValue),
        [b'"', after @ ..] => {
            *rest = after;
            quoted(rest)?
        }
        _ => {
            let length = rest.iter().position(|&byte| is_end(byte)).unwrap_or(rest.len());
            let (value, after) = rest.split_at(length);
            *rest = after;
            value.to_vec()
        }
    };
    Ok(Some((name.to_vec(), value)))
}

/// A quoted value, up to behind its last quote.
fn quoted(rest: &mut &[u8]) -> Result<Vec<u8>, BadDirectives> {
    let mut value = Vec::new();
    loop {
        match rest {
            [b'\\', escaped, after @ ..] => {
                value.push(*escaped);
                *rest = after;
            }
            [b'\\'] | [] => return Err(BadDirectives::Unquoted),
            [b'"', after @ ..] => {
                *rest = after;
                let ends = after.first().is_none_or(|&byte| is_end(byte));
                return if ends { Ok(value) } else { Err(BadDirectives::NoComma) };
            }
            [byte, after @ ..] => {
                value.push(*byte);
                *rest = after;
            }
        }
    }
}

fn is_white_space(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | b' ' | b'\t')
}

/// Whether a name or a value ends here.
fn is_end(byte: u8) -> bool {
    byte == b',' || is_white_space(byte)
}

fn skip_white_space(mut text: &[u8]) -> &[u8] {
    while let [byte, after @ ..] = text
        && is_white_space(*byte)
    {
        text = after;
    }
    text
}

/// A text as a quoted value, with its quotes.
pub(crate) fn quote(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for &byte in text {
        let is_control = byte < b' ' && !matches!(byte, b'\r' | b'\t' | b'\n');
        if matches!(byte, b'"' | b'\\' | 127) || is_control {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    quoted.push(b'"');
    quoted
}

/// A peer's text as an error shows it.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(token: &str) -> Result<Vec<(&'static str, String)>, BadDirectives> {
        let known = ["a", "b", "realm"];
        let parsed = Directives::parse(token.as_bytes(), &known, &["realm"])?;
        Ok(known.iter().filter_map(|name| Some((*name, parsed.text(name)?))).collect())
    }

    #[test]
    fn directives_are_read_as_by_java() {
        let both = vec![("a", "1".to_owned()), ("b", "x,\"y\\".to_owned())];
        for token in [
            "a=1,b=\"x,\\\"y\\\\\"",
            "A=1 , b = \"x,\\\"y\\\\\" ,",
            ",,a=1\t\r\nb=\"x,\\\"y\\\\\",c=3,c=4",
        ] {
            assert_eq!(parse(token).as_ref(), Ok(&both), "{token}");
        }
        for (token, a) in [("a=", None), ("a=,", Some("")), ("a", Some("")), ("a=b=c", Some("b=c"))]
        {
            let value = parse(token).ok().map(|parsed| parsed[0].1.clone());
            assert_eq!(value.as_deref(), a, "{token}");
        }
        assert_eq!(parse("realm=x,realm=y"), Ok(vec![("realm", "x".to_owned())]));
        assert_eq!(parse(" \n,"), Ok(vec![]));
        for (token, error) in [
            ("a=1,a=1", BadDirectives::Repeated("a")),
            ("=1", BadDirectives::NoName),
            ("a,b=1", BadDirectives::NoEquals),
            ("a b=1", BadDirectives::NoEquals),
            ("a ", BadDirectives::NoEquals),
            ("a=\"1", BadDirectives::Unquoted),
            ("a=\"1\\", BadDirectives::Unquoted),
            ("a=\"1\"2", BadDirectives::NoComma),
            ("a= ", BadDirectives::NoValue),
        ] {
            assert_eq!(parse(token), Err(error), "{token}");
        }
    }

    #[test]
    fn what_is_quoted_is_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let token = [b"a=", &quote(&bytes)[..]].concat();
        let parsed = Directives::parse(&token, &["a"], &[]).expect("it is well-formed");
        assert_eq!(parsed.bytes("a"), Some(&bytes[..]));
    }
}
