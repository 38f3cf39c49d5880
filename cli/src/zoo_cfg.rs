//! Reads a `zoo.cfg`, ZooKeeper's configuration file.
//!
//! The keys are those of `QuorumPeerConfig` and, with or without the prefix `zookeeper.`, the Java
//! properties of the server, which ZooKeeper reads from the same file. A bad value of a key that has an
//! effect is an error. A key without effect, and a key that ZooKeeper does not have, is reported with the
//! reason. The last of several lines with one key counts, as in Java.

mod inert;
mod keys;
mod properties;
mod shown;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use self::inert::Reason;
pub(crate) use self::properties::written;
use self::properties::{BadEscape, Property};
use crate::server_options::ServerOptions;
use crate::server_options::storage::{Purge, StorageOptions};
use crate::server_options::values::{self, BadValue, HostPort};

/// The contents of a file.
#[derive(Debug, Default)]
pub(crate) struct ZooCfg {
    pub(crate) options: ServerOptions,
    /// Remarks for the user, a sentence each.
    pub(crate) remarks: Vec<String>,
}

impl ZooCfg {
    /// Reads a file. The options that are given override it.
    ///
    /// # Errors
    ///
    /// [`ZooCfgError`] tells of every line that cannot be used.
    pub(crate) fn read(path: &Path, given: &StorageOptions) -> Result<Self, ZooCfgError> {
        Ok(Self::default().parse(path, &read_text(path)?, given)?.complete(path, given))
    }

    /// Reads a file, whose keys override what is set already.
    ///
    /// # Errors
    ///
    /// As [`ZooCfg::read`].
    pub(crate) fn read_over(self, path: &Path) -> Result<Self, ZooCfgError> {
        let text = read_text(path)?;
        self.parse_over(path, &text)
    }

    /// As [`ZooCfg::read_over`], for the text of a file that may not exist. Messages name `path`.
    ///
    /// # Errors
    ///
    /// As [`ZooCfg::read`].
    pub(crate) fn parse_over(self, path: &Path, text: &str) -> Result<Self, ZooCfgError> {
        let given = StorageOptions::default();
        Ok(self.parse(path, text, &given)?.complete(path, &given))
    }

    /// Reads the keys of a text that is no whole file, as Java's properties. Messages name `path`.
    ///
    /// # Errors
    ///
    /// As [`ZooCfg::read`].
    pub(crate) fn properties(path: &Path, text: &str) -> Result<Self, ZooCfgError> {
        Self::default().parse(path, text, &StorageOptions::default())
    }

    /// What a file means by the keys that it does not have.
    fn complete(mut self, path: &Path, given: &StorageOptions) -> Self {
        let read = &mut self.options.storage;
        if read.data_dir.is_some() || given.data_dir.is_some() {
            // As in ZooKeeper, which deletes nothing unless it is told to.
            read.autopurge_purge_interval.get_or_insert(Purge::Never);
        } else if given.durability.is_none() {
            self.remarks.push(format!(
                "{}: without dataDir all data are in memory, and lost when the server stops; \
                 ZooKeeper does not start then",
                path.display()
            ));
        }
        self
    }

    fn parse(self, path: &Path, text: &str, given: &StorageOptions) -> Result<Self, ZooCfgError> {
        let mut reader = Reader::new(path, given);
        (reader.options, reader.remarks) = (self.options, self.remarks);
        reader.read(text);
        if let Some(dynamic) = reader.dynamic_config_file.take() {
            let text = read_text(&dynamic)?;
            reader.read_dynamic(&dynamic, &text);
        }
        let mut read = reader.finish()?;
        read.options.admin.initial_configuration = Some(shown::text(text));
        read.options.admin.properties = shown::java_properties(text);
        Ok(read)
    }
}

fn read_text(path: &Path) -> Result<String, ZooCfgError> {
    let error = |source| ZooCfgError::Unreadable { path: path.to_owned(), source };
    std::fs::read(path).map(properties::decode).map_err(error)
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ZooCfgError {
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the configuration file cannot be used:{}", Lines(.0))]
    Unusable(Vec<Problem>),
    #[error("{} names nothing that ZooKeeper can be told; is it a zoo.cfg?", .0.display())]
    NoZooCfg(PathBuf),
}

/// One line that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {kind}", path.display())]
pub(crate) struct Problem {
    path: PathBuf,
    line: usize,
    kind: ProblemKind,
}

#[derive(Debug, thiserror::Error)]
enum ProblemKind {
    #[error(transparent)]
    Syntax(#[from] BadEscape),
    #[error("{}", wrong(key, value, expected))]
    Value { key: String, value: String, expected: BadValue },
    /// Without the value, which may be a password, or does not matter.
    #[error("{key} {expected}")]
    Key { key: String, expected: BadValue },
    #[error("unknown key {key:?}; did you mean {similar}? Without it the data would be elsewhere")]
    Directory { key: String, similar: &'static str },
    #[error("the part after \";\" must be PORT or HOST:PORT, for clients to connect to")]
    ServerClientPort,
    #[error(
        "{0} servers make an ensemble, but zoolet is a single node; keep one server line at most, \
         or run Apache ZooKeeper"
    )]
    Ensemble(usize),
}

/// The message of a bad value. The value stands at its end where that is one sentence.
fn wrong(key: &str, value: &str, expected: &BadValue) -> String {
    let expected = expected.to_string();
    if expected.starts_with("must be ") && !expected.contains(';') {
        format!("{key} {expected}, not {value:?}")
    } else {
        format!("{key}={value:?} {expected}")
    }
}

struct Lines<'a>(&'a [Problem]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// The state of reading.
struct Reader<'a> {
    path: &'a Path,
    /// The options that override the file.
    given: &'a StorageOptions,
    options: ServerOptions,
    servers: BTreeMap<String, (PathBuf, Property)>,
    dynamic_config_file: Option<PathBuf>,
    /// The unknown keys that resemble a key of a directory, and which.
    like_directories: Vec<(Property, &'static str)>,
    /// How many keys there are, and how many of them resemble no key of ZooKeeper.
    keys: usize,
    strange_keys: usize,
    /// The keys without effect, as written, with their lines.
    inert: BTreeMap<Reason, Vec<(String, usize)>>,
    remarks: Vec<String>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn new(path: &'a Path, given: &'a StorageOptions) -> Self {
        Self {
            path,
            given,
            options: ServerOptions::default(),
            servers: BTreeMap::new(),
            dynamic_config_file: None,
            like_directories: Vec::new(),
            keys: 0,
            strange_keys: 0,
            inert: BTreeMap::new(),
            remarks: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn read(&mut self, text: &str) {
        for property in self.last_of_each(text) {
            self.property(property);
        }
    }

    /// The properties that count, in the order of their lines.
    fn last_of_each(&mut self, text: &str) -> Vec<Property> {
        let mut lines = BTreeMap::new();
        let mut counting = BTreeMap::new();
        for property in properties::parse(text) {
            match property {
                Ok(property) => {
                    let (key, line) = (bare(&property.key).to_owned(), property.line);
                    if let Some(earlier) = lines.insert(key, line) {
                        let Property { key, .. } = &property;
                        let path = self.path.display();
                        self.remarks.push(format!(
                            "{path}:{earlier}: {key} is set again in line {line}, which counts"
                        ));
                        counting.remove(&earlier);
                    }
                    counting.insert(line, property);
                }
                Err(error) => self.problem(error.line, error.into()),
            }
        }
        counting.into_values().collect()
    }

    fn property(&mut self, property: Property) {
        let key = bare(&property.key);
        self.keys += 1;
        if key == "dynamicConfigFile" {
            self.dynamic_config_file = Some(property.value.into());
        } else if let Some(set) = keys::setter(key) {
            self.set(set, &property);
        } else if is_server(key) {
            self.servers.insert(key.to_owned(), (self.path.to_owned(), property));
        } else if let Some(reason) = Reason::of(key)
            && !(inert::is_of_ssl_only(key) && similar(key).is_some())
        {
            self.inert.entry(reason).or_default().push((property.key, property.line));
        } else {
            self.unknown(property);
        }
    }

    fn set(&mut self, set: keys::Setter, property: &Property) {
        let Property { line, key, value } = property;
        if let Err(expected) = set(&mut self.options, value) {
            let (key, value) = (key.clone(), value.clone());
            let kind = match expected {
                BadValue::NotASuperDigest | BadValue::Kerberos => {
                    ProblemKind::Key { key, expected }
                }
                _ => ProblemKind::Value { key, value, expected },
            };
            self.problem(*line, kind);
        } else if bare(key) == keys::FOUR_LETTER_WORDS {
            for word in values::unknown_four_letter_words(value) {
                let path = self.path.display();
                self.remarks.push(format!("{path}:{line}: {word:?} is no four-letter word"));
            }
        }
    }

    fn unknown(&mut self, property: Property) {
        match similar(bare(&property.key)) {
            Some(similar @ ("dataDir" | "dataLogDir")) => {
                self.like_directories.push((property, similar));
            }
            Some(similar) => self.suggest(&property, similar),
            None => {
                let (path, Property { line, key, .. }) = (self.path.display(), &property);
                self.strange_keys += 1;
                self.remarks.push(format!("{path}:{line}: unknown key {key:?}"));
            }
        }
    }

    fn suggest(&mut self, Property { line, key, .. }: &Property, similar: &str) {
        let path = self.path.display();
        self.remarks.push(format!("{path}:{line}: unknown key {key:?}; did you mean {similar}?"));
    }

    /// Whether a misspelt directory stops the start: a server that went on would keep nothing, or not where
    /// it is looked for. An option decides alone. Where the file has the data directory too, or needs no
    /// directory of the logs, another key is another property of a user, which ZooKeeper accepts, unless the
    /// two are written almost the same.
    fn like_directories(&mut self) {
        for (property, similar) in std::mem::take(&mut self.like_directories) {
            let (given, is_needed) = match similar {
                "dataDir" => (&self.given.data_dir, self.options.storage.data_dir.is_none()),
                _ => (&self.given.data_log_dir, false),
            };
            let is_meant = is_needed || plain(bare(&property.key)) == plain(similar);
            if given.is_some() || !is_meant {
                self.suggest(&property, similar);
            } else {
                let Property { line, key, .. } = property;
                self.problem(line, ProblemKind::Directory { key, similar });
            }
        }
    }

    /// The file in which reconfigurable ensembles list their servers.
    fn read_dynamic(&mut self, path: &Path, text: &str) {
        for property in properties::parse(text) {
            match property {
                Ok(property) if is_server(&property.key) => {
                    self.servers.insert(property.key.clone(), (path.to_owned(), property));
                }
                Ok(_) => {}
                Err(error) => {
                    let (path, line) = (path.to_owned(), error.line);
                    self.problems.push(Problem { path, line, kind: error.into() });
                }
            }
        }
    }

    fn finish(mut self) -> Result<ZooCfg, ZooCfgError> {
        self.servers();
        self.like_directories();
        if !self.problems.is_empty() {
            self.problems.sort_by_key(|problem| problem.line);
            return Err(ZooCfgError::Unusable(self.problems));
        }
        if self.keys > 0 && self.keys == self.strange_keys {
            return Err(ZooCfgError::NoZooCfg(self.path.to_owned()));
        }
        let path = self.path.display();
        for (reason, keys) in self.inert {
            let keys: Vec<_> =
                keys.into_iter().map(|(key, line)| format!("{key} (line {line})")).collect();
            let have = if keys.len() == 1 { "has" } else { "have" };
            let keys = keys.join(", ");
            self.remarks.push(format!("{path}: {keys} {have} no effect: {reason}"));
        }
        Ok(ZooCfg { options: self.options, remarks: self.remarks })
    }

    /// One server line is accepted; it may tell where clients connect.
    fn servers(&mut self) {
        let count = self.servers.len();
        let Some((path, server)) = self.servers.values().max_by_key(|(_, server)| server.line)
        else {
            return;
        };
        let (path, line) = (path.clone(), server.line);
        if count > 1 {
            self.problems.push(Problem { path, line, kind: ProblemKind::Ensemble(count) });
            return;
        }
        let Some((_, client)) = server.value.split_once(';') else { return };
        match server_client_address(client) {
            Err(_) => {
                self.problems.push(Problem { path, line, kind: ProblemKind::ServerClientPort });
            }
            Ok(client) if self.options.client_port.is_none() => {
                self.options.client_port = Some(client.port);
                self.options.client_port_address.get_or_insert(client.host);
            }
            Ok(_) => {}
        }
    }

    fn problem(&mut self, line: usize, kind: ProblemKind) {
        self.problems.push(Problem { path: self.path.to_owned(), line, kind });
    }
}

/// ZooKeeper puts the prefix before every key that it does not know.
fn bare(key: &str) -> &str {
    key.strip_prefix("zookeeper.").unwrap_or(key)
}

/// `server.principal` is a Java property, and no server line.
fn is_server(key: &str) -> bool {
    key.strip_prefix("server.").is_some_and(|id| id.parse::<i64>().is_ok())
}

/// The `[HOST:]PORT` at the end of a server line.
fn server_client_address(text: &str) -> Result<HostPort, BadValue> {
    match values::port(text) {
        Ok(port) => Ok(HostPort { host: "0.0.0.0".to_owned(), port }),
        Err(_) => text.parse(),
    }
}

/// The known key that is most similar.
fn similar(key: &str) -> Option<&'static str> {
    let written = plain(key);
    let likeness = |known: &str| {
        // Java properties are often named by their last part alone.
        let last = known.rsplit('.').next().unwrap_or(known);
        if plain(last) == written {
            return 1.0;
        }
        strsim::jaro_winkler(&plain(known), &written)
    };
    let known = keys::names().chain(inert::names()).map(|known| (likeness(known), known));
    let (likeness, best) = known.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (likeness >= SIMILAR).then_some(best)
}

/// A key without what distinguishes ways to write it.
fn plain(key: &str) -> String {
    key.replace(['.', '-', '_'], "").to_lowercase()
}

/// The least Jaro-Winkler similarity, which favours a common beginning: `maxClientConnections` and
/// `maxClientCnxns` have 0.92, `heapSize` and `preAllocSize` 0.77.
const SIMILAR: f64 = 0.89;

#[cfg(test)]
mod documentation;
#[cfg(test)]
mod tests;
