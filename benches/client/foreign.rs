//! The crate `zookeeper-client`.

use std::io;

use zookeeper_client::{Acls, Client, CreateMode, Error};
use zoolet_benches::requests::DATA;

use crate::Operation;
use crate::worker::Worker;

const PATH: &str = "/zookeeper-client";

pub(crate) struct ZookeeperClient {
    client: Client,
    /// A path for each request that creates.
    paths: Vec<String>,
}

impl Worker for ZookeeperClient {
    async fn connect(address: &str) -> io::Result<Self> {
        let client = Client::connect(address).await.map_err(io::Error::other)?;
        let path = format!("{PATH}-{}", client.session_id());
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        match client.create(PATH, DATA, &persistent).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        client.create(&path, DATA, &persistent).await.map_err(io::Error::other)?;
        let paths = (0..1_024).map(|lane| format!("{path}/{lane}")).collect();
        Ok(Self { client, paths })
    }

    async fn once(&self, operation: Operation, lane: usize) -> io::Result<u64> {
        let Self { client, paths } = self;
        match operation {
            Operation::Get => client.get_data(PATH).await.map(|_| 1),
            Operation::Set => client.set_data(PATH, DATA, None).await.map(|_| 1),
            Operation::Create => {
                let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
                let path = &paths[lane];
                client.create(path, DATA, &options).await.map_err(io::Error::other)?;
                client.delete(path, None).await.map(|()| 2)
            }
        }
        .map_err(io::Error::other)
    }

    async fn together(&self, operation: Operation, depth: usize) -> io::Result<u64> {
        let Self { client, paths } = self;
        let mut count = 0;
        match operation {
            Operation::Get => {
                let sent: Vec<_> = (0..depth).map(|_| client.get_data(PATH)).collect();
                for sent in sent {
                    sent.await.map_err(io::Error::other)?;
                    count += 1;
                }
            }
            Operation::Set => {
                let sent: Vec<_> = (0..depth).map(|_| client.set_data(PATH, DATA, None)).collect();
                for sent in sent {
                    sent.await.map_err(io::Error::other)?;
                    count += 1;
                }
            }
            Operation::Create => {
                let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
                let sent: Vec<_> = paths
                    .iter()
                    .take(depth.div_ceil(2))
                    .map(|path| (client.create(path, DATA, &options), client.delete(path, None)))
                    .collect();
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
