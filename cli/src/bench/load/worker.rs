//! A worker, which has one request under way at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::Client;

use super::mix::{Mix, Op};
use super::{CREATED, KEPT, MEASURED, OVER, Plan};
use crate::bench::clock::now;
use crate::bench::failure::Failure;
use crate::bench::latency::Latencies;

/// The times of the operations.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) latencies: BTreeMap<Op, Latencies>,
}

impl Tally {
    fn record(&mut self, op: Op, time: Duration) {
        self.latencies.entry(op).or_insert_with(Latencies::new).record(time);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (op, latencies) in &other.latencies {
            self.latencies.entry(*op).or_insert_with(Latencies::new).add(latencies);
        }
    }
}

/// A worker. Several share a client, so that the client has several requests under way.
pub(super) struct Worker {
    client: Client,
    path: String,
    name: String,
    mix: Mix,
    data: Bytes,
    znodes: usize,
    /// The znodes that this worker created and did not delete, and the number of the next.
    created: Vec<String>,
    next: usize,
}

impl Worker {
    pub(super) fn new(client: Client, path: &str, name: String, plan: &Plan) -> Self {
        let data = Bytes::from(vec![b'z'; plan.data_size]);
        let (path, mix, znodes) = (path.to_owned(), plan.mix.clone(), plan.znodes);
        Self { client, path, name, mix, data, znodes, created: Vec::new(), next: 0 }
    }

    /// Sends requests until the run ends.
    pub(super) async fn run(mut self, phase: Arc<AtomicU8>) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        loop {
            let begin = now();
            let op = self.work().await?;
            match phase.load(Ordering::Relaxed) {
                MEASURED => tally.record(op, begin.elapsed()),
                OVER => return Ok(tally),
                _ => {}
            }
        }
    }

    /// Runs one operation, and returns which.
    async fn work(&mut self) -> Result<Op, Failure> {
        let kept = format!("{}/{KEPT}/{}", self.path, fastrand::usize(..self.znodes));
        let op = match self.mix.draw() {
            // Without a znode to delete it creates one.
            Op::Delete if self.created.is_empty() => Op::Create,
            op => op,
        };
        match op {
            Op::Get => drop(self.client.get(&kept).await?),
            Op::Exists => drop(self.client.exists(&kept).await?),
            Op::Children => drop(self.client.children(&kept).await?),
            Op::Set => drop(self.client.set(&kept, self.data.clone()).await?),
            Op::Create => self.create().await?,
            Op::Delete => {
                let path = self.created.pop().expect("there is something to delete");
                self.client.delete(&path).await?;
            }
        }
        Ok(op)
    }

    async fn create(&mut self) -> Result<(), Failure> {
        let path = format!("{}/{CREATED}/{}-{}", self.path, self.name, self.next);
        self.next += 1;
        self.client.create(&path).data(self.data.clone()).await?;
        self.created.push(path);
        Ok(())
    }
}
