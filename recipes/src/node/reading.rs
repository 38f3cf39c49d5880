//! Reads the data of many children.

use bytes::Bytes;
use zoolet_protocol::ErrorCode;

use super::error::NodeError;
use super::limits::READS_AT_ONCE;
use crate::client::Client;

/// The data of these children, each with its name. Children that are gone, or that the client may not
/// read, are left out: one of somebody else must not hide all others. The requests are sent in batches,
/// each of which takes one round trip.
pub(super) async fn read_children(
    client: &Client,
    directory: &str,
    names: &[String],
) -> Result<Vec<(String, Bytes)>, NodeError> {
    let directory = directory.trim_end_matches('/');
    let read = |name: &str| client.get(&format!("{directory}/{name}"));
    let mut children = Vec::with_capacity(names.len());
    for names in names.chunks(READS_AT_ONCE) {
        let sent: Vec<_> = names.iter().map(|name| (name, read(name).send())).collect();
        for (name, sent) in sent {
            let result = match sent.await {
                // The connection was lost: the client's policy says how often it is read again.
                Err(error) if error.is_retryable() => read(name).await,
                result => result,
            };
            match result {
                Ok((data, _)) => children.push((name.clone(), data)),
                Err(error) if error.is(ErrorCode::NO_NODE) => {}
                Err(error) if error.is(ErrorCode::NO_AUTH) => {
                    tracing::warn!("{directory}/{name} is left out: {error}");
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(children)
}
