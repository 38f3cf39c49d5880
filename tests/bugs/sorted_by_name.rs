//! ZOOKEEPER-2931: the znodes of a line are sorted by their names, which do not begin with the number.

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
            let place = create.protected().await?.path; // _c_GUID-place-NUMBER
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
            names.sort();
            let place = names.iter().position(|name| name == mine);
            let Some(place) = place else { return Err(Error::SessionExpired) };
            let Some(ahead) = place.checked_sub(1) else { return Ok(()) };
            let ahead = format!("/line/{}", names[ahead]);
            let watched = client.exists(&ahead).and_watch().await?;
            if watched.found.is_some() {
                watched.watcher.await?;
            }
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
            let place = create.protected().await?.path; // _c_GUID-place-NUMBER
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
            names.sort_by_key(|name| name[name.len() - 10..].to_owned()); // by the number
            let place = names.iter().position(|name| name == mine);
            let Some(place) = place else { return Err(Error::SessionExpired) };
            let Some(ahead) = place.checked_sub(1) else { return Ok(()) };
            let ahead = format!("/line/{}", names[ahead]);
            let watched = client.exists(&ahead).and_watch().await?;
            if watched.found.is_some() {
                watched.watcher.await?;
            }
        }
    }
}

fn sim<F>(worker: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    Sim::new().machine("worker", 3, worker).setup(line::create)
}

#[test]
fn a_line_that_is_sorted_by_name() {
    let bug = Bug {
        name: "sorted-by-name",
        source: include_str!("sorted_by_name.rs"),
        wrong: sim(wrong::worker),
        cured: sim(cured::worker),
        violates: ViolationKind::Exclusion("stock".to_owned()),
    };
    bug.check();
}
