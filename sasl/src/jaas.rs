//! JAAS files: the login configuration of Java, in which ZooKeeper keeps its SASL users.
//!
//! The grammar is that of OpenJDK's `sun.security.provider.ConfigFile`:
//!
//! ```text
//! Server {
//!     org.apache.zookeeper.server.auth.DigestLoginModule required
//!         user_super="adminsecret"
//!         user_bob="bobsecret";
//! };
//! ```

mod tokens;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use self::tokens::{Token, Tokens};
use crate::limits::{JAAS_FILE_BYTES_MAX, USER_BYTES_MAX};
use crate::password::{Password, Users};

/// The contents of a JAAS file.
///
/// ```
/// use zoolet_sasl::JaasFile;
///
/// let text = r#"
///     Client {
///         org.apache.zookeeper.server.auth.DigestLoginModule required
///             username="bob" password="secret";
///     };"#;
/// let file = JaasFile::parse("jaas.conf", text)?;
/// assert_eq!(file.digest_client("Client")?.0, "bob");
/// # Ok::<(), zoolet_sasl::JaasError>(())
/// ```
#[derive(Debug, Clone)]
pub struct JaasFile {
    path: PathBuf,
    sections: BTreeMap<String, Section>,
}

#[derive(Debug, Clone)]
struct Section {
    line: usize,
    modules: Vec<LoginModule>,
}

/// A class that logs in, with its options, which may be passwords.
#[derive(Debug, Clone)]
struct LoginModule {
    line: usize,
    class: String,
    options: BTreeMap<String, Password>,
}

/// Why a JAAS file cannot be used. No message shows a value of the file.
///
/// ```
/// use zoolet_sasl::JaasFile;
///
/// let error = JaasFile::parse("jaas.conf", "Server {\n};\nServer {\n};").unwrap_err();
/// assert_eq!(error.to_string(), "jaas.conf:3: the section \"Server\" is there twice; remove one");
/// ```
#[derive(Debug)]
pub struct JaasError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1. `None` if the error is not about one.
    pub line: Option<usize>,
    /// What is wrong.
    pub kind: JaasErrorKind,
}

impl fmt::Display for JaasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, kind } = self;
        match line {
            Some(line) => write!(f, "{}:{line}: {kind}", path.display()),
            None => write!(f, "{}: {kind}", path.display()),
        }
    }
}

impl std::error::Error for JaasError {}

/// What is wrong with a JAAS file.
///
/// ```
/// use zoolet_sasl::JaasErrorKind;
///
/// let kind = JaasErrorKind::NoUsers("Server".to_owned());
/// assert!(kind.to_string().contains("user_NAME"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JaasErrorKind {
    /// The file cannot be read.
    #[error("cannot read the JAAS file: {0}")]
    Unreadable(io::Error),
    /// The file is longer than [`JAAS_FILE_BYTES_MAX`].
    #[error("the JAAS file has more than {JAAS_FILE_BYTES_MAX} bytes; is it the right file?")]
    TooLong,
    /// Something else stands where this is expected.
    #[error("expected {0}, found {1}")]
    Expected(&'static str, &'static str),
    /// A module has no flag, or an unknown one.
    #[error("the flag after the class must be required, requisite, sufficient or optional")]
    Flag,
    /// A value names a property of Java.
    #[error(
        "a value contains ${{..}}, a property of Java, which zoolet does not have; write the value itself"
    )]
    Property,
    /// Two sections have the same name.
    #[error("the section {0:?} is there twice; remove one")]
    Repeated(String),
    /// There is no section of this name.
    #[error("there is no section {name:?}; the file has {}", Names(.found))]
    NoSection {
        /// The section that was looked for.
        name: String,
        /// Those that are there.
        found: Vec<String>,
    },
    /// The section logs in by Kerberos.
    #[error(
        "{0} logs in by Kerberos, which zoolet does not have; use DIGEST-MD5, with {DIGEST_LOGIN_MODULE}, \
         or client certificates"
    )]
    Kerberos(String),
    /// The section logs in by another class.
    #[error("{0} is unknown to zoolet; it knows {DIGEST_LOGIN_MODULE}")]
    Class(String),
    /// The section has no users.
    #[error("the section {0:?} has no users; add options user_NAME=\"PASSWORD\" to its module")]
    NoUsers(String),
    /// The section of a client has no user or no password.
    #[error(
        "the section {0:?} has no username or no password; add username=\"NAME\" password=\"PASSWORD\""
    )]
    NoClient(String),
    /// A user's name cannot be used.
    #[error(
        "the user {0:?} cannot be used: a name must have up to {USER_BYTES_MAX} bytes, and with an @ \
         must be NAME@REALM or NAME/HOST@REALM"
    )]
    User(String),
    /// A password is empty.
    #[error("the user {0:?} has an empty password; set one")]
    EmptyPassword(String),
}

struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("none"),
            names => write!(f, "{}", names.join(", ")),
        }
    }
}

/// The class by which ZooKeeper reads users of DIGEST-MD5.
const DIGEST_LOGIN_MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";

impl JaasFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`JaasError`], if it cannot be read or is not as Java requires.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, JaasError> {
        let path = path.as_ref();
        let error = |kind| JaasError { path: path.to_owned(), line: None, kind };
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            std::fs::File::open(path)?.take(JAAS_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|source| error(JaasErrorKind::Unreadable(source)))?;
        if bytes.len() as u64 > JAAS_FILE_BYTES_MAX {
            return Err(error(JaasErrorKind::TooLong));
        }
        Self::parse(path, &String::from_utf8_lossy(&bytes))
    }

    /// Reads the text of a file. The path is for messages.
    ///
    /// # Errors
    ///
    /// [`JaasError`], if the text is not as Java requires.
    pub fn parse(path: impl AsRef<Path>, text: &str) -> Result<Self, JaasError> {
        let mut parser = Parser::new(path.as_ref(), text);
        let mut sections = BTreeMap::new();
        while parser.token.is_some() {
            let line = parser.line;
            let name = parser.text("the name of a section")?;
            let modules = parser.modules()?;
            if sections.insert(name.clone(), Section { line, modules }).is_some() {
                return Err(parser.error_at(line, JaasErrorKind::Repeated(name)));
            }
        }
        Ok(Self { path: path.as_ref().to_owned(), sections })
    }

    /// The users of a server: the options `user_NAME="PASSWORD"` of a section, which is `Server`
    /// unless the administrator says otherwise (`zookeeper.sasl.serverconfig`).
    ///
    /// # Errors
    ///
    /// [`JaasError`], if the section is not there, has no users, or logs in by other means than
    /// DIGEST-MD5.
    pub fn digest_users(&self, section: &str) -> Result<Users, JaasError> {
        let mut users = BTreeMap::new();
        let found = self.digest_section(section)?;
        for module in &found.modules {
            for (option, password) in &module.options {
                let Some(user) = option.strip_prefix("user_") else { continue };
                let error = |kind: fn(String) -> JaasErrorKind| {
                    self.error_at(module.line, kind(crate::directives::shown(user)))
                };
                if !is_user(user) {
                    return Err(error(JaasErrorKind::User));
                }
                if password.expose().is_empty() {
                    return Err(error(JaasErrorKind::EmptyPassword));
                }
                users.insert(user.to_owned(), password.clone());
            }
        }
        if users.is_empty() {
            return Err(self.error_at(found.line, JaasErrorKind::NoUsers(section.to_owned())));
        }
        Ok(users.into_iter().collect())
    }

    /// The user and password of a client: the options `username` and `password` of a section, which
    /// is `Client` unless the administrator says otherwise (`zookeeper.sasl.clientconfig`).
    ///
    /// # Errors
    ///
    /// As [`JaasFile::digest_users`].
    pub fn digest_client(&self, section: &str) -> Result<(String, Password), JaasError> {
        let found = self.digest_section(section)?;
        let option = |name| found.modules.iter().find_map(|module| module.options.get(name));
        match (option("username"), option("password")) {
            (Some(user), Some(password)) => Ok((user.expose().to_owned(), password.clone())),
            _ => Err(self.error_at(found.line, JaasErrorKind::NoClient(section.to_owned()))),
        }
    }

    fn digest_section(&self, name: &str) -> Result<&Section, JaasError> {
        let Some(section) = self.sections.get(name) else {
            let (name, found) = (name.to_owned(), self.sections.keys().cloned().collect());
            let kind = JaasErrorKind::NoSection { name, found };
            return Err(JaasError { path: self.path.clone(), line: None, kind });
        };
        for LoginModule { line, class, .. } in &section.modules {
            if class != DIGEST_LOGIN_MODULE {
                let is_kerberos = class.ends_with("Krb5LoginModule");
                let kind = if is_kerberos { JaasErrorKind::Kerberos } else { JaasErrorKind::Class };
                return Err(self.error_at(*line, kind(class.clone())));
            }
        }
        Ok(section)
    }

    fn error_at(&self, line: usize, kind: JaasErrorKind) -> JaasError {
        JaasError { path: self.path.clone(), line: Some(line), kind }
    }
}

/// Whether ZooKeeper's `KerberosName` takes a name, which it asks about all SASL users.
fn is_user(name: &str) -> bool {
    let is_principal = name
        .split_once('@')
        .is_none_or(|(name, realm)| !realm.contains(['/', '@']) && name.matches('/').count() <= 1);
    !name.is_empty() && name.len() <= USER_BYTES_MAX && is_principal
}

/// Reads a text token by token.
struct Parser<'a> {
    path: &'a Path,
    tokens: Tokens<'a>,
    /// The token that is read next, and its line.
    token: Option<Token>,
    line: usize,
}

impl<'a> Parser<'a> {
    fn new(path: &'a Path, text: &'a str) -> Self {
        let mut parser = Self { path, tokens: Tokens::new(text), token: None, line: 1 };
        parser.advance();
        parser
    }

    fn advance(&mut self) -> Option<Token> {
        let token = self.token.take();
        self.token = self.tokens.next();
        self.line = self.tokens.line();
        token
    }

    fn error_at(&self, line: usize, kind: JaasErrorKind) -> JaasError {
        JaasError { path: self.path.to_owned(), line: Some(line), kind }
    }

    fn expected(&self, expected: &'static str) -> JaasError {
        let found = match &self.token {
            None => "the end of the file",
            Some(Token::Text(_)) => "a word or a text in quotes",
            Some(Token::Number) => "a number; put it in quotes",
            Some(Token::Symbol('{')) => "\"{\"",
            Some(Token::Symbol('}')) => "\"}\"",
            Some(Token::Symbol(';')) => "\";\"",
            Some(Token::Symbol('=')) => "\"=\"",
            Some(Token::Symbol(_)) => "a character that must be in quotes",
        };
        self.error_at(self.line, JaasErrorKind::Expected(expected, found))
    }

    fn text(&mut self, what: &'static str) -> Result<String, JaasError> {
        match &mut self.token {
            Some(Token::Text(text)) => {
                let text = std::mem::take(text);
                self.advance();
                Ok(text)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn is_symbol(&self, symbol: char) -> bool {
        self.token == Some(Token::Symbol(symbol))
    }

    fn symbol(&mut self, symbol: char, what: &'static str) -> Result<(), JaasError> {
        if !self.is_symbol(symbol) {
            return Err(self.expected(what));
        }
        self.advance();
        Ok(())
    }

    /// The modules of a section, with its braces and the semicolon behind.
    fn modules(&mut self) -> Result<Vec<LoginModule>, JaasError> {
        let mut modules = Vec::new();
        self.symbol('{', "\"{\" after the name of a section")?;
        while !self.is_symbol('}') {
            modules.push(self.module()?);
        }
        self.advance();
        self.symbol(';', "\";\" after the \"}\" of a section")?;
        Ok(modules)
    }

    fn module(&mut self) -> Result<LoginModule, JaasError> {
        let line = self.line;
        let class = self.text("the class of a login module or \"}\"")?;
        let flag_line = self.line;
        let flag = self.text("required, requisite, sufficient or optional")?.to_ascii_lowercase();
        if !["required", "requisite", "sufficient", "optional"].contains(&flag.as_str()) {
            return Err(self.error_at(flag_line, JaasErrorKind::Flag));
        }
        let mut options = BTreeMap::new();
        while !self.is_symbol(';') {
            let option = self.text("an option NAME=\"VALUE\", or \";\" after the last one")?;
            self.symbol('=', "\"=\" after the name of an option")?;
            let value_line = self.line;
            let value = self.text("the value of an option")?;
            let value = expand(value).map_err(|kind| self.error_at(value_line, kind))?;
            options.insert(option, Password::from(value));
        }
        self.advance();
        Ok(LoginModule { line, class, options })
    }
}

/// The value with `${/}` replaced, as Java's `PropertyExpander` does. Another property would be one
/// of a Java process, which there is none.
fn expand(value: String) -> Result<String, JaasErrorKind> {
    let mut rest = value.as_str();
    let mut expanded = String::new();
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        if after.starts_with('{') {
            // Up to its end it is taken as it is.
            let end = after.find("}}").map_or(after.len(), |end| end + 1);
            expanded.push_str("${");
            expanded.push_str(&after[..end]);
            rest = &after[end..];
        } else if let Some((name, after)) = after.split_once('}') {
            if name != "/" {
                return Err(JaasErrorKind::Property);
            }
            expanded.push('/');
            rest = after;
        } else {
            expanded.push_str("${");
            expanded.push_str(after);
            rest = "";
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests;
