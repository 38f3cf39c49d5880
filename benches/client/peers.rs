//! The clients that are measured, and how each is started.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::worker::{ADDRESS, ROLE, Role, Threads};

/// A client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Zoolet(Threads),
    /// The crate `zookeeper-client`.
    ZookeeperClient(Threads),
    Kazoo,
    Java,
}

/// What Java's client needs.
const JARS: [&str; 10] = [
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-nop",
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-transport",
    "audience-annotations",
];

/// Why a client is not measured.
pub(crate) type Missing = String;

impl Peer {
    pub(crate) const ALL: [Self; 6] = [
        Self::Zoolet(Threads::One),
        Self::Zoolet(Threads::Cores),
        Self::ZookeeperClient(Threads::One),
        Self::ZookeeperClient(Threads::Cores),
        Self::Kazoo,
        Self::Java,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Zoolet(Threads::One) => "zoolet on one thread",
            Self::Zoolet(Threads::Cores) => "zoolet on all cores",
            Self::ZookeeperClient(Threads::One) => "zookeeper-client on one thread",
            Self::ZookeeperClient(Threads::Cores) => "zookeeper-client on all cores",
            Self::Kazoo => "kazoo",
            Self::Java => "Java's client",
        }
    }

    /// Whether another language runs it.
    pub(crate) const fn is_foreign_program(self) -> bool {
        matches!(self, Self::Kazoo | Self::Java)
    }

    /// The command that starts it, or what is missing.
    pub(crate) fn command(self, address: &str) -> io::Result<Result<Command, Missing>> {
        let this = |role: Role| {
            let mut command = Command::new(std::env::current_exe()?);
            command.env(ROLE, role.name()).env(ADDRESS, address);
            io::Result::Ok(Ok(command))
        };
        match self {
            Self::Zoolet(threads) => this(Role::Zoolet(threads)),
            Self::ZookeeperClient(threads) => this(Role::ZookeeperClient(threads)),
            Self::Kazoo => Ok(kazoo(address)),
            Self::Java => java(address),
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("client")
}

fn needs(file: &Path) -> Result<(), Missing> {
    match file.exists() {
        true => Ok(()),
        false => {
            Err(format!("{} is missing; install it with conformance/install-peers", file.display()))
        }
    }
}

fn kazoo(address: &str) -> Result<Command, Missing> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers/kazoo/bin/python");
    needs(&python)?;
    let mut command = Command::new(python);
    command.arg(folder().join("kazoo_client.py")).arg(address);
    Ok(command)
}

/// Compiles the program of Java's client, into `target`.
fn java(address: &str) -> io::Result<Result<Command, Missing>> {
    let jars = Path::new("/usr/share/java");
    if let Err(missing) = needs(&jars.join("zookeeper.jar")) {
        return Ok(Err(missing));
    }
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-classes");
    std::fs::create_dir_all(&classes)?;
    let path = JARS.map(|jar| format!("{}/{jar}.jar", jars.display())).join(":");
    let mut compiler = Command::new("javac");
    compiler.args(["-nowarn", "-cp", &path, "-d"]).arg(&classes);
    compiler.arg(folder().join("JavaClient.java")).stdout(Stdio::null());
    match compiler.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(io::Error::other(format!("javac: {status}"))),
        Err(_) => return Ok(Err("there is no javac".to_owned())),
    }
    let mut command = Command::new("java");
    // Threads that end would take their CPU time with them.
    command.args(["-XX:+UseSerialGC", "-XX:-UseDynamicNumberOfCompilerThreads", "-Xmx512m"]);
    command.args(["-cp", &format!("{}:{path}", classes.display()), "JavaClient", address]);
    Ok(Ok(command))
}
