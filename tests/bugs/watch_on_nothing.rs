//! apache/helix#44 and python-zk/kazoo#490: a waiter watches a znode that is gone.

use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::CreateMode;
use zoolet::sim::{MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;
use crate::line;

mod wrong {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        while world.goes_on() {
            let session = client.session_id();
            let create = client.create("/line/place-").mode(CreateMode::EphemeralSequential);
            let place = create.protected().await?.path;
            wait(&client, place.trim_start_matches("/line/")).await?;
            line::take(&client, &place).await?;
            let section = world.enter("stock", line::held_in(session, &client));
            world.sleep_up_to(Duration::from_millis(300)).await;
            section.leave();
            line::leave(&client, &place).await?;
        }
        Ok(())
    }

    /// Waits until the znode is the first one in the line.
    async fn wait(client: &Client, mine: &str) -> Result<(), Error> {
        loop {
            let mut names = line::names(client, "/line").await?;
            names.sort_by(|one, other| line::number(one).cmp(line::number(other)));
            let place = names.iter().position(|name| name == mine);
            let Some(place) = place else { return Err(Error::SessionExpired) };
            let Some(ahead) = place.checked_sub(1) else { return Ok(()) };
            let ahead = format!("/line/{}", names[ahead]);
            let watched = client.exists(&ahead).and_watch().await?;
            watched.watcher.await?; // until it is deleted
        }
    }
}

mod cured {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        while world.goes_on() {
            let session = client.session_id();
            let create = client.create("/line/place-").mode(CreateMode::EphemeralSequential);
            let place = create.protected().await?.path;
            wait(&client, place.trim_start_matches("/line/")).await?;
            line::take(&client, &place).await?;
            let section = world.enter("stock", line::held_in(session, &client));
            world.sleep_up_to(Duration::from_millis(300)).await;
            section.leave();
            line::leave(&client, &place).await?;
        }
        Ok(())
    }

    /// Waits until the znode is the first one in the line.
    async fn wait(client: &Client, mine: &str) -> Result<(), Error> {
        loop {
            let mut names = line::names(client, "/line").await?;
            names.sort_by(|one, other| line::number(one).cmp(line::number(other)));
            let place = names.iter().position(|name| name == mine);
            let Some(place) = place else { return Err(Error::SessionExpired) };
            let Some(ahead) = place.checked_sub(1) else { return Ok(()) };
            let ahead = format!("/line/{}", names[ahead]);
            let watched = client.exists(&ahead).and_watch().await?;
            if watched.found.is_some() {
                watched.watcher.await?; // until it is deleted
            }
        }
    }
}

fn sim<F>(worker: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    let sim = Sim::new().machine("worker", 3, worker).setup(line::create);
    let sim = sim.faults_for(Duration::from_secs(5)).finish_within(Duration::from_secs(12));
    sim.nobody_waits_in_vain()
}

#[test]
fn a_watch_on_a_znode_that_is_gone() {
    let bug = Bug {
        name: "watch-on-nothing",
        source: include_str!("watch_on_nothing.rs"),
        wrong: sim(wrong::worker),
        cured: sim(cured::worker),
        violates: ViolationKind::Unfinished("worker".to_owned()),
    };
    bug.check();
}
