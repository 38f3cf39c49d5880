//! Watchers of one znode, and what the events of a change cost the server.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use zoolet_benches::process::usage_of;
use zoolet_benches::sessions::{
    ANSWER_BYTES, Load, Operation, Protocol, Session, Work, change, watch,
};

use crate::fan_out_floor::EVENT_BYTES;

/// How long all rest before a change, so that the server has nothing else to do.
const REST: Duration = Duration::from_millis(20);

const ONE_AT_A_TIME: Work =
    Work { protocol: Protocol::ZooKeeper, operation: Operation::Get, depth: 1 };

/// A server that is watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched {
    pub(crate) protocol: Protocol,
    pub(crate) address: SocketAddr,
    pub(crate) process: u32,
}

impl Watched {
    /// The server's CPU time for each event: from the change until the last watcher has heard.
    pub(crate) fn measure(self, watchers: usize, changes: u32) -> io::Result<Duration> {
        if self.protocol == Protocol::ZooKeeper {
            // So that the znode is there.
            Load::open(self.address, ONE_AT_A_TIME, 1)?.close()?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let total = runtime.block_on(async {
            match self.protocol {
                Protocol::ZooKeeper => self.of_znode(watchers, changes).await,
                Protocol::Bare => self.of_floor(watchers, changes).await,
                Protocol::Redis => Err(io::Error::other("keys of Redis have no watches")),
            }
        })?;
        Ok(total / changes / u32::try_from(watchers.max(1)).map_err(io::Error::other)?)
    }

    async fn of_znode(self, watchers: usize, changes: u32) -> io::Result<Duration> {
        let mut setter = Session::open(self.address, ONE_AT_A_TIME, 0).await?;
        let mut sessions = Vec::with_capacity(watchers);
        for number in 0..watchers {
            sessions.push(Session::open(self.address, ONE_AT_A_TIME, number).await?);
        }
        let mut total = Duration::ZERO;
        // The first change is a warm-up.
        for counted in std::iter::once(0).chain(std::iter::repeat_n(1, changes as usize)) {
            for session in &mut sessions {
                session.ask_and_check(&watch()).await?;
            }
            let mut listening = JoinSet::new();
            for mut session in sessions.drain(..) {
                listening.spawn(async move { session.answer().await.map(|_| session) });
            }
            tokio::time::sleep(REST).await;
            let before = usage_of(self.process)?;
            setter.ask_and_check(&change()).await?;
            while let Some(heard) = listening.join_next().await {
                sessions.push(heard??);
            }
            total += counted * usage_of(self.process)?.since(before).cpu;
        }
        for session in sessions.into_iter().chain([setter]) {
            session.close().await?;
        }
        Ok(total)
    }

    async fn of_floor(self, watchers: usize, changes: u32) -> io::Result<Duration> {
        let mut setter = TcpStream::connect(self.address).await?;
        let count = u32::try_from(watchers).map_err(io::Error::other)?;
        setter.write_all(&count.to_be_bytes()).await?;
        let mut sockets = Vec::with_capacity(watchers);
        for _ in 0..watchers {
            sockets.push(TcpStream::connect(self.address).await?);
        }
        let mut total = Duration::ZERO;
        for counted in std::iter::once(0).chain(std::iter::repeat_n(1, changes as usize)) {
            let mut listening = JoinSet::new();
            for mut socket in sockets.drain(..) {
                listening.spawn(async move {
                    socket.read_exact(&mut [0; EVENT_BYTES]).await.map(|_| socket)
                });
            }
            tokio::time::sleep(REST).await;
            let before = usage_of(self.process)?;
            setter.write_all(&change()).await?;
            setter.read_exact(&mut [0; ANSWER_BYTES]).await?;
            while let Some(heard) = listening.join_next().await {
                sockets.push(heard??);
            }
            total += counted * usage_of(self.process)?.since(before).cpu;
        }
        Ok(total)
    }
}
