//! The plain client: a transaction changes several znodes or none of them.
//!
//! `cargo run --example client_transaction`

use zoolet::client::{Client, Error, Parents};
use zoolet::protocol::{CreateMode, ErrorCode, Expect};
use zoolet::server::Server;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let server = Server::builder().start().await?;
    let client = Client::connect(server.dialer()).await?;
    client.create("/jobs/todo/7").data("build").parents(Parents::Persistent).await?;
    client.create("/jobs/running").await?;
    for host in ["host-1", "host-2"] {
        match take(&client, "7", host).await? {
            true => println!("{host} has taken the job"),
            false => println!("{host} comes too late: nothing was changed"),
        }
    }
    Ok(())
}

/// Takes a job: deletes it from the list of open jobs and adds it to the running ones. Returns
/// whether this host was the first. No other client sees the job in both lists, or in neither.
async fn take(client: &Client, job: &str, host: &str) -> Result<bool> {
    let taken = client
        .transaction()
        .delete(&format!("/jobs/todo/{job}"), Expect::Any)
        .create(&format!("/jobs/running/{job}"), host.to_owned(), CreateMode::Ephemeral)
        .commit()
        .await;
    match taken {
        Ok(_results) => Ok(true),
        // The server refused the operation at index 0: another client has deleted the job.
        Err(error) if error.operation_index() == Some(0) && error.is(ErrorCode::NO_NODE) => {
            Ok(false)
        }
        // The reply was lost. The server has carried out both operations or neither, and the second
        // znode shows which.
        Err(Error::ConnectionLoss { .. }) => {
            Ok(match client.exists(&format!("/jobs/running/{job}")).await? {
                Some(stat) => stat.ephemeral_owner == client.session_id(),
                None => false,
            })
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_host_takes_the_job() {
        let server = Server::builder().start().await.unwrap();
        let client = Client::connect(server.dialer()).await.unwrap();
        client.create("/jobs/todo/7").parents(Parents::Persistent).await.unwrap();
        client.create("/jobs/running").await.unwrap();
        assert!(take(&client, "7", "host-1").await.unwrap());
        assert!(!take(&client, "7", "host-2").await.unwrap());
        let (host, _stat) = client.get("/jobs/running/7").await.unwrap();
        assert_eq!(&host[..], b"host-1");
        assert_eq!(client.exists("/jobs/todo/7").await.unwrap(), None);
    }
}
