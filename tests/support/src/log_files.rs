//! The files of a server, for tests that damage them.

use zoolet_server::storage::{LogReader, StorageError};
use zoolet_server::{Config, Server, StartError};

/// The offset at which each record of an intact log begins, and the one at which the last record ends.
pub fn record_offsets(log: &[u8]) -> Vec<usize> {
    let mut reader = LogReader::new(log).expect("the log has a header");
    let mut offsets = Vec::new();
    while let Some(record) = reader.next_record().expect("the log is intact") {
        offsets.push(usize::try_from(record.offset).expect("the log is in memory"));
    }
    let zeros = log.iter().rev().take_while(|&&byte| byte == 0).count();
    offsets.push(log.len() - zeros);
    offsets
}

/// The error of the storage with which a server with this configuration refuses to start.
pub async fn refusal(config: Config) -> StorageError {
    match Server::builder().config(config).start().await {
        Err(StartError::Storage(error)) => error,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("the server starts"),
    }
}
