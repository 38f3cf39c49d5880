//! A counter that all clients increment: no increment may be lost or made twice.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use zoolet_client::Error;
use zoolet_recipes::{DistributedAtomicLong, ValueError};

use super::worker::Worker;

/// The znode of the counter.
pub(crate) const PATH: &str = "/data/counter";

/// The increments so far.
#[derive(Debug, Default)]
pub(crate) struct Counter(Mutex<Additions>);

#[derive(Debug, Default)]
struct Additions {
    /// The sums that clients received.
    sums: BTreeSet<i64>,
    /// The number of increments that may or may not have been made.
    unknown: usize,
}

impl Counter {
    fn add(&self, sum: i64) -> Result<(), String> {
        let mut additions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if additions.sums.insert(sum) { Ok(()) } else { Err(format!("{PATH}: {sum} twice")) }
    }

    fn may_have_added(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unknown += 1;
    }

    /// Checks the number at the end.
    pub(crate) fn check(&self, data: Option<Bytes>) -> Result<(), String> {
        let additions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = data.and_then(|data| <[u8; 8]>::try_from(&data[..]).ok());
        let sum = number.map_or(0, i64::from_be_bytes);
        let told = additions.sums.len();
        let most = told + additions.unknown;
        match usize::try_from(sum) {
            Ok(sum) if (told..=most).contains(&sum) => Ok(()),
            _ => Err(format!("{PATH} is {sum} after {told} to {most} additions")),
        }
    }
}

impl Worker {
    /// Increments the counter a few times.
    pub(crate) async fn count(&mut self) {
        self.common.note(self.name, "count");
        let number = match DistributedAtomicLong::new(&self.client, PATH) {
            Ok(number) => number,
            Err(error) => return self.common.oracle.violation(error.to_string()),
        };
        for _ in 0..self.rng.u32(1..4) {
            match number.increment().await {
                Ok(change) => {
                    self.common.oracle.count("counters incremented");
                    self.common.check(self.common.counter.add(change.after));
                }
                Err(ValueError::Client(Error::ConnectionLoss { .. } | Error::SessionExpired)) => {
                    self.common.counter.may_have_added();
                }
                Err(ValueError::Client(Error::NotSent { .. } | Error::Refused { .. })) => {}
                Err(error) => self.common.oracle.violation(error.to_string()),
            }
        }
    }
}
