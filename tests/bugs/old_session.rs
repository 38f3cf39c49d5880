//! CURATOR-604 and CURATOR-498: a client finds its znode again, and it belongs to a session that ends.

use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::{CreateMode, SessionId};
use zoolet::sim::{FaultKind, MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;
use crate::line;

mod wrong {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        while world.goes_on() {
            let session = client.session_id();
            let place = place(&client, world.name()).await?;
            line::wait(&client, &place).await?;
            let section = world.enter("stock", line::held_in(session, &client));
            world.sleep_up_to(Duration::from_millis(900)).await;
            section.leave();
            line::leave(&client, &place).await?;
        }
        Ok(())
    }

    /// Its place in the line: the one of an attempt that failed, or a new one.
    async fn place(client: &Client, name: &str) -> Result<String, Error> {
        for other in line::names(client, "/line").await? {
            if other.starts_with(name) {
                return Ok(format!("/line/{other}"));
            }
        }
        let create = client.create(&format!("/line/{name}-")).mode(CreateMode::EphemeralSequential);
        Ok(create.await?.path)
    }
}

mod cured {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        while world.goes_on() {
            let session = client.session_id();
            let place = place(&client, session, world.name()).await?;
            line::wait(&client, &place).await?;
            let section = world.enter("stock", line::held_in(session, &client));
            world.sleep_up_to(Duration::from_millis(900)).await;
            section.leave();
            line::leave(&client, &place).await?;
        }
        Ok(())
    }

    /// Its place in the line: the one of an attempt that failed in this session, or a new one.
    async fn place(client: &Client, session: SessionId, name: &str) -> Result<String, Error> {
        for other in line::names(client, "/line").await? {
            let path = format!("/line/{other}");
            if other.starts_with(name)
                && let Some(stat) = client.exists(&path).await?
                && stat.ephemeral_owner == session
            {
                return Ok(path);
            }
        }
        let create = client.create(&format!("/line/{name}-")).mode(CreateMode::EphemeralSequential);
        Ok(create.in_session(session).await?.path)
    }
}

fn sim<F>(worker: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    let sim = Sim::new().machine("worker", 2, worker).setup(line::create);
    sim.only(&[FaultKind::Crashes])
}

#[test]
fn a_znode_of_a_session_that_ends() {
    let bug = Bug {
        name: "old-session",
        source: include_str!("old_session.rs"),
        wrong: sim(wrong::worker),
        cured: sim(cured::worker),
        violates: ViolationKind::Exclusion("stock".to_owned()),
    };
    bug.check();
}
