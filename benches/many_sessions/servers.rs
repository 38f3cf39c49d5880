//! The servers, each in a process of its own: this program again, with a role.

use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::load::ANSWER_BYTES;

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

async fn until_stdin_ends() -> io::Result<()> {
    let read = || io::copy(&mut io::stdin().lock(), &mut io::sink()).map(|_| ());
    tokio::task::spawn_blocking(read).await?
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
    let length = u32::try_from(ANSWER_BYTES).unwrap_or(u32::MAX).to_be_bytes();
    let mut answer = vec![0; length.len() + ANSWER_BYTES];
    answer[..length.len()].copy_from_slice(&length);
    while let Ok(1..) = socket.read(&mut buffer).await {
        if socket.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A server in a process of its own, which ends when this is dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// How often a thread waited, so that another one ran.
    pub(crate) switches: u64,
}

impl Usage {
    pub(crate) fn since(self, before: Self) -> Self {
        let cpu = self.cpu.saturating_sub(before.cpu);
        Self { cpu, switches: self.switches.saturating_sub(before.switches) }
    }
}

impl ServerProcess {
    pub(crate) fn start(role: Role) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(ROLE, role.name()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has a pipe"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().map_err(io::Error::other)?;
        Ok(Self { child, address })
    }

    /// From `/proc`, over all threads.
    pub(crate) fn usage(&self) -> io::Result<Usage> {
        let mut usage = Usage { cpu: Duration::ZERO, switches: 0 };
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let thread = thread?.path();
            let scheduled = std::fs::read_to_string(thread.join("schedstat"))?;
            let ran = scheduled.split_whitespace().next().and_then(|text| text.parse().ok());
            usage.cpu += Duration::from_nanos(ran.unwrap_or_default());
            let status = std::fs::read_to_string(thread.join("status"))?;
            let switches = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
                .and_then(|text| text.trim().parse::<u64>().ok());
            usage.switches += switches.unwrap_or_default();
        }
        Ok(usage)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
