//! The foreign servers and clients that tests need.
//!
//! `conformance/install-peers` installs them. A test asks [`Peer::find`]. If the peer is missing,
//! the test is reported as ignored, with the reason. With `ZOOLET_REQUIRE_PEERS=1` in the
//! environment the test fails instead.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A foreign program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Apache ZooKeeper 3.8 from Debian's jars, and a Java to run it.
    Apache,
    /// kazoo, the Python client, with its own tests.
    Kazoo,
    /// Curator's recipes from Debian's jars, and a Java compiler.
    Curator,
    /// JUnit from Debian's jars.
    JUnit,
    /// A headless browser.
    Chromium,
    /// `promtool` of Prometheus.
    Promtool,
    /// A Java development kit, with keytool.
    Java,
    /// OpenSSL's command.
    OpenSsl,
    /// Apache ZooKeeper 3.9.5, whose jars pyspark has.
    Apache39,
    /// Apache's C client with OpenSSL and Cyrus SASL.
    SecureC,
    /// The program curl.
    Curl,
}

/// The program of the browser.
pub const CHROMIUM: &str = "chromium-headless-shell";

/// A peer is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; install it with conformance/install-peers")]
pub struct Missing {
    what: String,
}

/// Whether a missing peer is a failure.
#[must_use]
pub fn are_required() -> bool {
    env::var("ZOOLET_REQUIRE_PEERS").is_ok_and(|value| !value.is_empty() && value != "0")
}

/// The folder of this crate.
#[must_use]
pub fn conformance_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Python of the virtual environment that has kazoo.
#[must_use]
pub fn kazoo_python() -> PathBuf {
    conformance_folder().join("../target/peers/kazoo/bin/python")
}

/// The folder with the jars of Apache ZooKeeper 3.9.5.
#[must_use]
pub fn apache39_jars() -> PathBuf {
    conformance_folder().join("../target/peers/zookeeper-3.9.5")
}

/// The program of `foreign/c`.
#[must_use]
pub fn secure_c() -> PathBuf {
    conformance_folder().join("../target/peers/c-client/secure-client")
}

impl Peer {
    /// Checks that the peer is installed.
    ///
    /// # Errors
    ///
    /// [`Missing`] names what is missing.
    pub fn find(self) -> Result<(), Missing> {
        // Running a program for its version takes some time, and many tests ask.
        static FOUND: [OnceLock<Result<(), Missing>>; 11] = [const { OnceLock::new() }; 11];
        FOUND[self as usize].get_or_init(|| self.look_for()).clone()
    }

    fn look_for(self) -> Result<(), Missing> {
        match self {
            Self::Apache => {
                needs_file(Path::new("/usr/share/java/zookeeper.jar"))?;
                needs_program("java", "-version")?;
                needs_program("python3", "--version")
            }
            Self::Kazoo => needs_file(&kazoo_python()),
            Self::Curator => {
                for jar in [
                    "curator-recipes",
                    "curator-framework",
                    "curator-client",
                    "curator-x-discovery",
                    "jackson-databind",
                    "zookeeper",
                ] {
                    needs_file(&Path::new("/usr/share/java").join(jar).with_extension("jar"))?;
                }
                needs_program("javac", "-version")
            }
            Self::Chromium => needs_program(CHROMIUM, "--version"),
            Self::Java => {
                needs_program("java", "-version")?;
                needs_program("keytool", "-help")
            }
            Self::Promtool => needs_program("promtool", "--version"),
            Self::OpenSsl => needs_program("openssl", "version"),
            Self::Apache39 => {
                needs_file(&apache39_jars().join("zookeeper-3.9.5.jar"))?;
                needs_program("java", "-version")?;
                needs_program("python3", "--version")
            }
            Self::SecureC => needs_file(&secure_c()),
            Self::Curl => needs_program("curl", "--version"),
            Self::JUnit => needs_file(Path::new("/usr/share/java/junit4.jar")),
        }
    }
}

fn needs_file(path: &Path) -> Result<(), Missing> {
    if path.exists() {
        Ok(())
    } else {
        Err(Missing { what: format!("{} is missing", path.display()) })
    }
}

fn needs_program(name: &str, argument: &str) -> Result<(), Missing> {
    let mut command = Command::new(name);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Missing { what: format!("the program {name} is missing") }),
    }
}
