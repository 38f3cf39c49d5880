//! The plain client: watches on a setting and on a whole subtree.
//!
//! `cargo run --example client_watch`

use zoolet::client::{Client, Error, Parents, Watched};
use zoolet::protocol::WatchMode;
use zoolet::server::Server;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let server = Server::builder().start().await?;
    let reader = Client::connect(server.dialer()).await?;
    let writer = Client::connect(server.dialer()).await?;
    for value in follow_setting(&reader, &writer).await? {
        println!("the setting is {value}");
    }
    for event in watch_subtree(&reader, &writer).await? {
        println!("{event}");
    }
    Ok(())
}

/// Reads a setting, and then each value that another client sets.
///
/// A one-shot watch fires once, so each read sets a new one. No change is missed: a watch fires
/// with the next change after the state that its read returned. Fast changes may be seen as one.
async fn follow_setting(reader: &Client, writer: &Client) -> Result<Vec<String>> {
    writer.create("/app/timeout").data("10").parents(Parents::Persistent).await?;
    let mut values = Vec::new();
    for next in ["20", "30", "40"] {
        let Watched { found: (data, _stat), watcher } =
            reader.get("/app/timeout").and_watch().await?;
        values.push(String::from_utf8(data.to_vec())?);
        writer.set("/app/timeout", next).await?;
        watcher.await?;
    }
    let (data, _stat) = reader.get("/app/timeout").await?;
    values.push(String::from_utf8(data.to_vec())?);
    Ok(values)
}

/// Watches all changes below a znode until one of them is the deletion of `/app/stop`.
async fn watch_subtree(reader: &Client, writer: &Client) -> Result<Vec<String>> {
    let mut watcher = reader.watch("/app", WatchMode::PERSISTENT_RECURSIVE).await?;
    writer.create("/app/host").data("one").await?;
    writer.set("/app/host", "two").await?;
    writer.create("/app/stop").await?;
    writer.delete("/app/stop").await?;
    let mut events = Vec::new();
    loop {
        let event = match watcher.next().await {
            Ok(event) => event,
            // The watch ended with its session: read the znodes again, and set a new watch.
            Err(Error::SessionExpired) => return Err("the session has expired".into()),
            Err(error) => return Err(error.into()),
        };
        events.push(format!("{} {}", event.event_type, event.path));
        if events.last().is_some_and(|event| event == "NodeDeleted /app/stop") {
            return Ok(events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_change_is_seen() {
        let server = Server::builder().start().await.unwrap();
        let reader = Client::connect(server.dialer()).await.unwrap();
        let writer = Client::connect(server.dialer()).await.unwrap();
        let values = follow_setting(&reader, &writer).await.unwrap();
        assert_eq!(values, ["10", "20", "30", "40"]);
        let events = watch_subtree(&reader, &writer).await.unwrap();
        let expected = [
            "NodeCreated /app/host",
            "NodeDataChanged /app/host",
            "NodeCreated /app/stop",
            "NodeDeleted /app/stop",
        ];
        assert_eq!(events, expected);
    }
}
