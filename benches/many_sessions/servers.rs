//! The servers, each in a process of its own: this program again, with a role.

use std::io;

use zoolet_benches::bare;
use zoolet_benches::process::{ServerProcess, until_stdin_ends};

/// The variable that makes this program a server.
const ROLE: &str = "ZOOLET_BENCH_SERVER";

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Answers each request with as many bytes as a `getData` is answered with.
    Bare,
    Zoolet,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Zoolet => "zoolet",
        }
    }

    /// Starts a server with this role in a process of its own.
    pub(crate) fn start(self) -> io::Result<ServerProcess> {
        ServerProcess::start(ROLE, self.name())
    }

    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(ROLE).ok()?;
        [Self::Bare, Self::Zoolet].into_iter().find(|role| role.name() == name)
    }
}

/// Serves until the process is killed, or stdin ends.
pub(crate) fn serve(role: Role) -> io::Result<()> {
    match role {
        Role::Bare => bare::serve(|address| println!("{address}")),
        Role::Zoolet => {
            // As `zoolet serve` has it.
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(async {
                let server = zoolet_benches::server().await;
                println!("{}", server.local_addr().unwrap_or_else(|| unreachable!("it listens")));
                until_stdin_ends().await
            })
        }
    }
}
