//! CURATOR-391: a cache compares versions, and a znode that was created again begins with version 0.

use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::{CreateMode, Expect, Stat};
use zoolet::sim::{MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;

mod wrong {
    use super::*;

    pub(super) async fn reader(world: World) -> MachineResult {
        let client = world.connect().await?;
        let (mut data, mut stat) = client.get("/config").await?;
        while world.goes_on() {
            let watched = client.exists("/config").and_watch().await?;
            if watched.found.is_some_and(|now| now.version != stat.version) {
                (data, stat) = client.get("/config").await?;
            }
            check(&world, &client, &data, watched.found).await?;
            watched.watcher.await?; // the next change
        }
        Ok(())
    }
}

mod cured {
    use super::*;

    pub(super) async fn reader(world: World) -> MachineResult {
        let client = world.connect().await?;
        let (mut data, mut stat) = client.get("/config").await?;
        while world.goes_on() {
            let watched = client.exists("/config").and_watch().await?;
            if watched.found.is_some_and(|now| now.mzxid != stat.mzxid) {
                (data, stat) = client.get("/config").await?;
            }
            check(&world, &client, &data, watched.found).await?;
            watched.watcher.await?; // the next change
        }
        Ok(())
    }
}

/// Checks what the reader goes by, unless the znode has changed since.
async fn check(
    world: &World,
    client: &Client,
    used: &[u8],
    seen: Option<Stat>,
) -> Result<(), Error> {
    let (data, now) = client.get("/config").await?;
    if seen.is_some_and(|seen| seen.mzxid == now.mzxid) && data != used {
        let [used, data] = [used, &data].map(String::from_utf8_lossy);
        world.fail(format!("goes by {used:?}, and /config is {data:?}"));
    }
    Ok(())
}

/// Replaces the znode.
async fn writer(world: World) -> MachineResult {
    let client = world.connect().await?;
    while world.goes_on() {
        let data = format!("limit={}", world.random(0..1_000));
        let replace = client.transaction().delete("/config", Expect::Any);
        replace.create("/config", data, CreateMode::Persistent).commit().await?;
        world.sleep_up_to(Duration::from_millis(300)).await;
    }
    Ok(())
}

fn sim<F>(reader: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    Sim::new().machine("reader", 1, reader).machine("writer", 1, writer).setup(|world| async move {
        world.connect().await?.create("/config").data("limit=0").await?;
        Ok(())
    })
}

#[test]
fn a_znode_that_was_created_again() {
    let bug = Bug {
        name: "created-again",
        source: include_str!("created_again.rs"),
        wrong: sim(wrong::reader),
        cured: sim(cured::reader),
        violates: ViolationKind::Failed("reader".to_owned()),
    };
    bug.check();
}
