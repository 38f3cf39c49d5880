//! Clients of zoolet that contend for a mutex.

use std::io;
use std::net::SocketAddr;

use zoolet::client::Client;
use zoolet::recipes::{Guard, InterProcessMutex};
use zoolet_benches::contest::PATH;

use crate::rhythm::Contender;

pub(crate) struct MutexContender {
    client: Client,
    mutex: InterProcessMutex,
    guard: Option<Guard>,
}

impl Contender for MutexContender {
    async fn connect(address: SocketAddr) -> io::Result<Self> {
        let client =
            Client::connect(address.to_string().as_str()).await.map_err(io::Error::other)?;
        let mutex = InterProcessMutex::new(&client, PATH).map_err(io::Error::other)?;
        Ok(Self { client, mutex, guard: None })
    }

    async fn acquire(&mut self) -> io::Result<()> {
        self.guard = Some(self.mutex.acquire().await.map_err(io::Error::other)?);
        Ok(())
    }

    async fn release(&mut self) -> io::Result<()> {
        match self.guard.take() {
            Some(guard) => guard.release().await.map_err(io::Error::other),
            None => Ok(()),
        }
    }

    async fn request(&mut self) -> io::Result<()> {
        self.client.exists("/").await.map(drop).map_err(io::Error::other)
    }

    async fn close(self) -> io::Result<()> {
        self.client.close().await.map_err(io::Error::other)
    }
}
