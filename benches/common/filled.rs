//! Servers with data directories, and many znodes in them.

use std::path::Path;

use tempfile::TempDir;
use zoolet::client::Client;
use zoolet::server::storage::{Disk, FsDisk, StorageConfig};
use zoolet::server::{Config, Server};

use crate::requests::DATA;

/// Creates a directory below `parent`, which a suite has from Cargo: it is on the disk of `target`.
///
/// # Panics
///
/// When it cannot be created.
#[must_use]
pub fn directory(parent: &str) -> TempDir {
    TempDir::new_in(parent).expect("a directory below target")
}

/// Starts a server on a data directory.
///
/// # Panics
///
/// When it does not start.
pub async fn start(storage: StorageConfig) -> Server {
    let config = Config { storage: Some(storage), ..Config::default() };
    Server::builder().config(config).start().await.expect("the server starts")
}

/// Creates so many znodes with [`DATA`], a thousand below each parent.
///
/// # Panics
///
/// When the server refuses one.
pub async fn fill(client: &Client, znodes: usize) {
    for parent in 0..znodes.div_ceil(1_000) {
        client.create(&format!("/{parent}")).await.expect("it is new");
        let children = (parent * 1_000..znodes.min((parent + 1) * 1_000)).skip(1);
        let path = |number: usize| format!("/{parent}/{number:07}");
        let sent: Vec<_> =
            children.map(|number| client.create(&path(number)).data(DATA).send()).collect();
        for sent in sent {
            sent.await.expect("it is new");
        }
    }
}

/// Counts the complete snapshots of a data directory.
///
/// # Panics
///
/// When the directory is not there.
#[must_use]
pub fn count_snapshots(directory: &Path) -> usize {
    let names = FsDisk.list(&directory.join("version-2")).expect("it is there");
    names.iter().filter(|name| name.starts_with("snapshot.")).count()
}

/// The resident memory of this process, or 0 where the system does not tell.
#[must_use]
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kb.unwrap_or(0) * 1024
}
