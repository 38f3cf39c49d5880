//! The servers, each in a process of its own.

use std::io;
use std::path::Path;

use zoolet_benches::process::{ServerProcess, until_stdin_ends};

use crate::{bare, messages};

/// The variable that makes this program a server.
const ROLE: &str = "ZOOLET_BENCH_SERVER";

/// The variable that names the binary to measure in place of this program, as for the conformance tests: a
/// relative path begins at the workspace.
const BINARY: &str = "ZOOLET_BIN";

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Passes the byte of a client on to the other one.
    Bare,
    /// The same, on the runtime of zoolet.
    BareOnTokio,
    /// Answers the messages of a hand-over.
    Messages,
    Zoolet,
    /// The same on one thread, which never sleeps: always of this program.
    ZooletAwake,
}

impl Role {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 5] =
        [Self::Bare, Self::BareOnTokio, Self::Messages, Self::Zoolet, Self::ZooletAwake];

    /// Whether it takes a processor from all others for as long as it is there.
    pub(crate) const fn is_awake(self) -> bool {
        matches!(self, Self::ZooletAwake)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::BareOnTokio => "bare on tokio",
            Self::Messages => "messages on tokio",
            Self::Zoolet => "zoolet",
            Self::ZooletAwake => "zoolet awake",
        }
    }

    /// Starts a server with this role in a process of its own.
    pub(crate) fn start(self) -> io::Result<ServerProcess> {
        match std::env::var_os(BINARY).filter(|name| !name.is_empty()) {
            Some(named) if self == Self::Zoolet => {
                // A suite runs in the folder of its package.
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&named);
                let told =
                    |error| io::Error::other(format!("{BINARY}={}: {error}", named.display()));
                ServerProcess::start_binary(&path.canonicalize().map_err(told)?)
            }
            _ => ServerProcess::start(ROLE, self.name()),
        }
    }

    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(ROLE).ok()?;
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// Serves until the process is killed, or stdin ends.
pub(crate) fn serve(role: Role) -> io::Result<()> {
    // As `zoolet serve` has it.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if role.is_awake() {
        // With another one the two would wake each other all the time, and take two processors.
        runtime.worker_threads(1);
    }
    let runtime = runtime.enable_all().build()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            served = serve_role(role) => served,
            ended = until_stdin_ends() => ended,
        }
    });
    // The threads that block are not waited for.
    runtime.shutdown_background();
    ended
}

async fn serve_role(role: Role) -> io::Result<()> {
    let tell = |address| println!("{address}");
    match role {
        Role::Bare => tokio::task::spawn_blocking(move || bare::serve(tell)).await?,
        Role::BareOnTokio => bare::serve_on_tokio(tell).await,
        Role::Messages => messages::serve(tell).await,
        Role::Zoolet | Role::ZooletAwake => {
            let server = zoolet_benches::server().await;
            tell(server.local_addr().unwrap_or_else(|| unreachable!("it listens")));
            if role.is_awake() {
                tokio::spawn(stay_awake()).await?;
            }
            std::future::pending().await
        }
    }
}

/// Polls the sockets of the runtime again and again.
async fn stay_awake() {
    loop {
        tokio::task::yield_now().await;
    }
}
