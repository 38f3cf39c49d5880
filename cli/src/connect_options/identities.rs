//! The option by which a command adds identities to its session.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use clap::Args;
use zoolet_client::Builder;

/// Credentials are read from a file. Everyone on the machine can see the arguments of a command.
#[derive(Debug, Args)]
pub(crate) struct IdentityOptions {
    /// A file with the identities of the session, each a line as `addauth` of `zoolet cli` takes it:
    /// digest USER:PASSWORD
    #[arg(long, value_name = "FILE", env = "ZOOLET_AUTH_FILE", value_parser = identities)]
    auth_file: Option<Identities>,
}

impl IdentityOptions {
    /// A builder whose sessions have these identities.
    pub(super) fn apply(&self, builder: Builder) -> Builder {
        self.auth_file.iter().fold(builder, |builder, identities| identities.apply(builder))
    }
}

/// Identities from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identities(Vec<Identity>);

impl Identities {
    /// A builder whose sessions have these identities.
    pub(crate) fn apply(&self, builder: Builder) -> Builder {
        self.0.iter().fold(builder, |builder, identity| {
            builder.auth(identity.scheme.clone(), identity.credentials.clone())
        })
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Identity {
    scheme: String,
    credentials: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// A longer file has something else in it.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Reads a file of identities.
///
/// # Errors
///
/// A text for a person if it cannot be read, or has something else in it.
pub(crate) fn identities(path: &str) -> Result<Identities, String> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error| error.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("the file has more than {FILE_BYTES_MAX} bytes"));
    }
    parse(&text)
}

/// One identity a line. Lines may be empty, or comments that begin with `#`.
fn parse(text: &str) -> Result<Identities, String> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let identities: Result<Vec<_>, _> =
        lines.map(|(number, line)| identity(number, line)).collect();
    let identities = identities?;
    if identities.is_empty() {
        return Err("the file has no identity; write a line like: digest USER:PASSWORD".to_owned());
    }
    Ok(Identities(identities))
}

fn identity(number: usize, line: &str) -> Result<Identity, String> {
    let (scheme, credentials) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let credentials = credentials.trim_start();
    // The server ends the session of who is not known, so that a typing error would look like a lost server.
    if scheme.contains(':') || (scheme == "digest" && !credentials.contains(':')) {
        return Err(format!("line {number} is no identity; write it like: digest USER:PASSWORD"));
    }
    Ok(Identity { scheme: scheme.to_owned(), credentials: credentials.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_scheme_and_credentials() {
        let parsed = parse("# who\n\ndigest ann:a word\r\n  auth\n").unwrap();
        let parts: Vec<_> = parsed.0.iter().map(|i| (&*i.scheme, &*i.credentials)).collect();
        assert_eq!(parts, [("digest", "ann:a word"), ("auth", "")]);
        assert!(!format!("{parsed:?}").contains("word"), "messages do not show credentials");
    }

    #[test]
    fn what_is_no_identity_is_refused_with_its_line_and_without_its_text() {
        for (text, told) in [
            ("", "no identity"),
            ("# digest a:b\n", "no identity"),
            ("\ndigest:ann:secret\n", "line 2 is"),
            ("digest secret\n", "line 1 is"),
            ("digest\n", "line 1 is"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(told) && !error.contains("secret"), "{text:?}: {error}");
        }
    }
}
