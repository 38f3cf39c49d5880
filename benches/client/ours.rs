//! Our client.

use std::io;

use zoolet::client::Client;
use zoolet::protocol::CreateMode;
use zoolet_benches::requests::DATA;

use crate::Operation;
use crate::worker::Worker;

pub(crate) const PATH: &str = "/zoolet-client";

pub(crate) struct Zoolet {
    client: Client,
    /// A path for each request that creates.
    paths: Vec<String>,
}

impl Worker for Zoolet {
    async fn connect(address: &str) -> io::Result<Self> {
        let client = Client::connect(address).await.map_err(io::Error::other)?;
        let path = format!("{PATH}-{:x}", client.session_id().0);
        client.create(PATH).data(DATA).or_set().await.map_err(io::Error::other)?;
        client.create(&path).await.map_err(io::Error::other)?;
        let paths = (0..1_024).map(|lane| format!("{path}/{lane}")).collect();
        Ok(Self { client, paths })
    }

    async fn once(&self, operation: Operation, lane: usize) -> io::Result<u64> {
        let Self { client, paths } = self;
        match operation {
            Operation::Get => client.get(PATH).await.map(|_| 1),
            Operation::Set => client.set(PATH, DATA).await.map(|_| 1),
            Operation::Create => {
                let path = &paths[lane];
                let create = client.create(path).data(DATA).mode(CreateMode::Ephemeral);
                create.await.map_err(io::Error::other)?;
                client.delete(path).await.map(|()| 2)
            }
        }
        .map_err(io::Error::other)
    }

    async fn together(&self, operation: Operation, depth: usize) -> io::Result<u64> {
        let Self { client, paths } = self;
        let mut count = 0;
        match operation {
            Operation::Get => {
                let sent: Vec<_> = (0..depth).map(|_| client.get(PATH).send()).collect();
                for sent in sent {
                    sent.await.map_err(io::Error::other)?;
                    count += 1;
                }
            }
            Operation::Set => {
                let sent: Vec<_> = (0..depth).map(|_| client.set(PATH, DATA).send()).collect();
                for sent in sent {
                    sent.await.map_err(io::Error::other)?;
                    count += 1;
                }
            }
            Operation::Create => {
                let cycle = |path: &String| {
                    let create = client.create(path).data(DATA).mode(CreateMode::Ephemeral);
                    (create.send(), client.delete(path).send())
                };
                let sent: Vec<_> = paths.iter().take(depth.div_ceil(2)).map(cycle).collect();
                for (created, deleted) in sent {
                    created.await.map_err(io::Error::other)?;
                    deleted.await.map_err(io::Error::other)?;
                    count += 2;
                }
            }
        }
        Ok(count)
    }
}
