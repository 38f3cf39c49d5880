//! Workers that write to a store while they hold a lock, and the store, which checks fencing tokens.
//! Nothing here names a network: whoever runs it passes streams.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufStream};
use zoolet::client::Client;
use zoolet::protocol::Zxid;
use zoolet::recipes::{Guard, InterProcessMutex};
use zoolet::server::Server;

/// What the workers do fails with any error.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The lock of all workers.
const LOCK: &str = "/locks/stock";

/// Serves the clients that `accept` returns, until it fails.
///
/// # Errors
///
/// That of `accept`.
pub async fn serve<S>(
    server: &Server,
    accept: impl AsyncFn() -> io::Result<(S, SocketAddr)>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    loop {
        let (stream, address) = accept().await?;
        tokio::spawn(server.serve_stream(stream, address));
    }
}

/// A value, and the fencing token with which it was written.
#[derive(Debug, Clone, Default)]
pub struct Store(Arc<Mutex<(Zxid, String)>>);

impl Store {
    /// Serves the workers that `accept` returns, until it fails.
    ///
    /// # Errors
    ///
    /// That of `accept`.
    pub async fn serve<S>(
        &self,
        accept: impl AsyncFn() -> io::Result<(S, SocketAddr)>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        loop {
            let (stream, _) = accept().await?;
            tokio::spawn(self.clone().answer(stream));
        }
    }

    /// Answers one worker, whose lines are a token and a value each.
    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin) -> io::Result<()> {
        let mut stream = BufStream::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).await? > 0 {
            let (token, value) = line.trim_end().split_once(' ').unwrap_or_default();
            let answer = match token.parse() {
                Ok(token) if self.write(Zxid(token), value) => "taken\n",
                _ => "refused\n",
            };
            stream.write_all(answer.as_bytes()).await?;
            stream.flush().await?;
            line.clear();
        }
        Ok(())
    }

    /// Writes a value, unless one was written with a later token.
    fn write(&self, token: Zxid, value: &str) -> bool {
        let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = token >= stored.0;
        if is_taken {
            *stored = (token, value.to_owned());
        }
        is_taken
    }

    /// The last value.
    #[must_use]
    pub fn value(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

/// A worker, which is connected to the coordinator and to the store.
#[derive(Debug)]
pub struct Worker<S> {
    client: Client,
    store: BufReader<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Worker<S> {
    /// A worker with these connections.
    pub fn new(client: Client, store: S) -> Self {
        Self { client, store: BufReader::new(store) }
    }

    /// Waits for the lock.
    ///
    /// # Errors
    ///
    /// If it cannot be acquired.
    pub async fn acquire(&self) -> Result<Guard> {
        Ok(InterProcessMutex::new(&self.client, LOCK)?.acquire().await?)
    }

    /// Writes to the store with the fencing token of a lock, and returns whether the store took the
    /// value. It does not look whether the lock is still held: a process that is stopped after that
    /// look would not know either.
    ///
    /// # Errors
    ///
    /// If the store does not answer.
    pub async fn write(&mut self, token: Zxid, value: &str) -> io::Result<bool> {
        let line = format!("{} {value}\n", token.0);
        self.store.get_mut().write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        self.store.read_line(&mut answer).await?;
        Ok(answer == "taken\n")
    }
}
