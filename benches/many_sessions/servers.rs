//! The servers, each in a process of its own: this program again, with a role.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use zoolet_benches::process::{ServerProcess, until_stdin_ends};
use zoolet_benches::sessions::ANSWER_BYTES;

/// The variable that makes this program a server.
const ROLE: &str = "ZOOLET_BENCH_SERVER";

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Answers each frame with as many bytes as a `getData` is answered with.
    Echo,
    Zoolet,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Zoolet => "zoolet",
        }
    }

    /// Starts a server with this role in a process of its own.
    pub(crate) fn start(self) -> io::Result<ServerProcess> {
        ServerProcess::start(ROLE, self.name())
    }

    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(ROLE).ok()?;
        [Self::Echo, Self::Zoolet].into_iter().find(|role| role.name() == name)
    }
}

/// Serves until the process is killed, or stdin ends.
pub(crate) fn serve(role: Role) -> io::Result<()> {
    // As `zoolet serve` has it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match role {
            Role::Echo => {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                println!("{}", listener.local_addr()?);
                let end = tokio::spawn(until_stdin_ends());
                tokio::select! {
                    ended = end => ended?,
                    accepted = accept(listener) => accepted,
                }
            }
            Role::Zoolet => {
                let server = zoolet_benches::server().await;
                println!("{}", server.local_addr().unwrap_or_else(|| unreachable!("it listens")));
                until_stdin_ends().await
            }
        }
    })
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(answer(socket));
    }
}

/// Answers each request, which comes in one piece since no other is under way.
async fn answer(mut socket: TcpStream) {
    let mut buffer = [0; 4_096];
    while let Ok(1..) = socket.read(&mut buffer).await {
        if socket.write_all(&[0; ANSWER_BYTES]).await.is_err() {
            return;
        }
    }
}
