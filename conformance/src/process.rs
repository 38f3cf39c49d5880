//! A server as a separate process on a data directory that outlives it: Apache ZooKeeper or ours.
//! Dropping it kills the process.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::peers::conformance_folder;

/// The superuser of the servers here: `super` with the password `secret`.
pub const SUPER: (&str, &str) = ("digest", "super:secret");

/// The superuser's digest, for the configuration of the servers.
const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// The implementation of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implementation {
    /// Apache ZooKeeper.
    Apache,
    /// Ours.
    Zoolet,
}

impl Implementation {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Apache => Self::Zoolet,
            Self::Zoolet => Self::Apache,
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    /// Starts a server on a data directory and waits until it listens. Port 0 chooses a free port.
    ///
    /// # Errors
    ///
    /// If the server does not start.
    pub fn start(implementation: Implementation, directory: &Path, port: u16) -> io::Result<Self> {
        Self::start_with(implementation, directory, port, &[])
    }

    /// Starts a server with further arguments: options of ours, or of the script that starts Apache's.
    ///
    /// # Errors
    ///
    /// If the server does not start.
    pub fn start_with(
        implementation: Implementation,
        directory: &Path,
        port: u16,
        further: &[&str],
    ) -> io::Result<Self> {
        let mut command = match implementation {
            Implementation::Apache => apache(port),
            Implementation::Zoolet => zoolet(port)?,
        };
        let mut child = command
            .arg("--data-dir")
            .arg(directory)
            .args(["--tick-time", "1000"])
            .args(further)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        match line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok()) {
            Some(address) => Ok(Self { child, address }),
            None => {
                kill(&mut child);
                Err(io::Error::other(format!(
                    "{implementation:?} did not start: it printed {line:?}"
                )))
            }
        }
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Process {
    /// Sends SIGKILL, so that the server cannot write anything more.
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// Kills the process. A script takes its server with it.
fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn apache(port: u16) -> Command {
    let mut command = Command::new(conformance_folder().join("apache/start-apache"));
    let digest = "-Dzookeeper.DigestAuthenticationProvider.superDigest";
    command.args(["--port", &port.to_string(), &format!("{digest}={SUPER_DIGEST}")]);
    command
}

fn zoolet(port: u16) -> io::Result<Command> {
    let mut command = Command::new(zoolet_binary()?);
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--log-level", "error"]);
    command.args(["--super-digest", SUPER_DIGEST, "--snap-count", "300"]);
    Ok(command)
}

/// The `zoolet` command under test: the one that `ZOOLET_BIN` names, or else the one that the tests
/// of `zoolet-cli` run. Cargo brings that one up to date, once.
///
/// # Errors
///
/// If it does not compile, or the named one is not there.
pub fn zoolet_binary() -> io::Result<PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| find_zoolet().map_err(|error| error.to_string()));
    binary.clone().map_err(io::Error::other)
}

/// The variable that names the command under test.
const BINARY_VARIABLE: &str = "ZOOLET_BIN";

fn find_zoolet() -> io::Result<PathBuf> {
    match std::env::var_os(BINARY_VARIABLE).filter(|name| !name.is_empty()) {
        // Tests run in the folder of their package.
        Some(named) => {
            conformance_folder().join("..").join(&named).canonicalize().map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("{BINARY_VARIABLE}={}: {error}", named.display()),
                )
            })
        }
        None => build_zoolet(),
    }
}

/// Builds it as `cargo test --workspace` does, with the same features and profile: after that there
/// is nothing to do. `cargo build` would compile all packages again.
fn build_zoolet() -> io::Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let workspace = conformance_folder().join("..");
    let mut build = Command::new(cargo);
    // The tests of the command come with the command.
    build.args(["test", "--workspace", "--no-run", "--test", "command"]);
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        build.arg("--release");
        "release"
    };
    without_variables_of_tests(&mut build);
    let output = build.current_dir(&workspace).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    Ok(target.unwrap_or_else(|| workspace.join("target")).join(profile).join("zoolet"))
}

/// Removes the variables by which cargo tells a test about its package. Build scripts depend on
/// them: with those of another package cargo would build their crates again, and link everything
/// that uses them.
fn without_variables_of_tests(command: &mut Command) {
    let is_of_test =
        |name: &str| name == "OUT_DIR" || TEST_VARIABLES.iter().any(|its| name.starts_with(its));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_test) {
            command.env_remove(name);
        }
    }
}

/// How the names of these variables begin.
const TEST_VARIABLES: [&str; 5] =
    ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_CRATE_NAME", "CARGO_BIN_", "CARGO_PRIMARY_PACKAGE"];
