//! A worker registers itself, and an observer sees its znode after an administrator deleted it: it is
//! there again, with the last data.

mod common;

use clap::Parser;
use common::{Arguments, Result, Stage};
use zoolet::client::Client;
use zoolet::recipes::{NodeEvent, Party, PersistentNode};

const WORKER: &str = "/registration-example/workers/host-1";

#[tokio::main]
async fn main() -> Result<()> {
    run(Arguments::parse()).await.map(drop)
}

/// The data that the observer read before and after the deletion.
async fn run(arguments: Arguments) -> Result<[String; 2]> {
    let stage = Stage::start(arguments).await?;
    let (client, observer) = (stage.connect().await?, stage.connect().await?);
    let worker = PersistentNode::builder(&client, WORKER).data("idle").start()?;
    println!("the worker is registered as {}", worker.registered().await?.path);
    let before = read(&observer).await?;
    worker.set_data("busy").await?;

    // What stands for any mishap: an administrator deletes the znode.
    let mut events = worker.events();
    observer.delete(WORKER).await?;
    while let Some(event) = events.next().await {
        println!("  the worker is told: {event:?}");
        if matches!(event, NodeEvent::Registered(_)) {
            break;
        }
    }
    let after = read(&observer).await?;

    let party = Party::new(&client, "/registration-example/party")?;
    let member = party.join("host-1").await?;
    println!("the party has {:?}", party.participants().await?);
    member.leave().await?;
    worker.close().await?;
    println!("the worker has left: {:?}", observer.exists(WORKER).await?.map(|stat| stat.czxid));
    Ok([before, after])
}

async fn read(observer: &Client) -> Result<String> {
    let (data, stat) = observer.get(WORKER).await?;
    let data = String::from_utf8_lossy(&data).into_owned();
    println!("  the observer reads {data:?} of the session {}", stat.ephemeral_owner);
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_registration_is_there_again_with_its_last_data() {
        assert_eq!(run(Arguments::default()).await.unwrap(), ["idle", "busy"]);
    }
}
