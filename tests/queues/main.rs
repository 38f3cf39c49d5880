//! Tests of the queues on a server in process: layouts and orders, what is delivered how often, how
//! consumers wait, and what is left.

mod blocking;
mod bounded;
mod deleted_leases;
mod delivery;
mod ensemble;
mod kinds;
mod lost_replies;
mod model;
mod passed_over;
mod scenarios;
mod sharder;
mod waiting;

use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::ErrorCode;
use zoolet::recipes::queue::{Delivery, DistributedQueue};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than the session timeout of a client.
const EXPIRY: Duration = Duration::from_secs(120);

fn plain(client: &Client) -> DistributedQueue {
    DistributedQueue::new(client, "/jobs").expect("a path")
}

fn leased(client: &Client) -> DistributedQueue {
    plain(client).with_lock_path("/job-locks").expect("a path")
}

/// The only item of a delivery, as text.
fn text(delivery: &Delivery) -> String {
    let items = delivery.items().expect("they were put by such a queue");
    assert_eq!(items.len(), 1);
    String::from_utf8(items[0].to_vec()).expect("text")
}

/// The names of a znode's children in order; none if it does not exist.
async fn names(client: &Client, path: &str) -> Vec<String> {
    match client.children(path).await {
        Ok(names) => {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        }
        Err(error) => {
            assert!(error.is(ErrorCode::NO_NODE), "{error}");
            Vec::new()
        }
    }
}
