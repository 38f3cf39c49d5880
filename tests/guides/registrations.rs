//! The code of `docs/registrations.md`.

use zoolet::client::Client;
use zoolet::protocol::{EventType, WatchMode};
use zoolet::recipes::PersistentNode;

use crate::{Outcome, check, stage};

const PATH: &str = "/services/mail/host-1";

#[tokio::test(start_paused = true)]
async fn a_program_registers_itself_and_leaves() -> Outcome {
    let (server, client) = stage().await;
    let reader = Client::connect(server.dialer()).await?;
    let mut watcher = reader.watch(PATH, WatchMode::PERSISTENT).await?;
    // On the page:
    let node =
        PersistentNode::builder(&client, "/services/mail/host-1").data("10.0.0.7:25").start()?;
    println!("registered as {}", node.registered().await?.path);
    node.set_data("10.0.0.8:25").await?; // in place: no reader finds it missing
    let mut events = node.events(); // Registered, Occupied, Lost, Failed
    node.close().await?;
    // Until here.
    while events.next().await.is_some() {}
    for expected in [EventType::NODE_CREATED, EventType::NODE_DATA_CHANGED, EventType::NODE_DELETED]
    {
        assert_eq!(watcher.next().await?.event_type, expected);
    }
    Ok(())
}

#[test]
fn the_page_shows_what_runs() {
    check("registrations.md", include_str!("registrations.rs"));
}
