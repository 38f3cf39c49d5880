//! Netflix/curator#3 and samuel/go-zookeeper#237: the reply to a create is lost, and its znode stays.

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
            let place = place(&client).await?;
            line::wait(&client, &place).await?;
            let section = world.enter("stock", line::held_in(session, &client));
            world.sleep_up_to(Duration::from_millis(300)).await;
            section.leave();
            line::leave(&client, &place).await?;
        }
        Ok(())
    }

    async fn place(client: &Client) -> Result<String, Error> {
        loop {
            let create = client.create("/line/place-").mode(CreateMode::EphemeralSequential);
            match create.await {
                Err(Error::ConnectionLoss { .. }) => {} // it tries again
                created => return Ok(created?.path),
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
            let place = place(&client).await?;
            line::wait(&client, &place).await?;
            let section = world.enter("stock", line::held_in(session, &client));
            world.sleep_up_to(Duration::from_millis(300)).await;
            section.leave();
            line::leave(&client, &place).await?;
        }
        Ok(())
    }

    async fn place(client: &Client) -> Result<String, Error> {
        let create = client.create("/line/place-").mode(CreateMode::EphemeralSequential);
        Ok(create.protected().await?.path) // it looks for its znode before it creates another one
    }
}

fn sim<F>(worker: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    let sim = Sim::new().machine("worker", 3, worker).setup(line::create);
    sim.faults_for(Duration::from_secs(5)).finish_within(Duration::from_secs(12))
}

#[test]
fn a_place_that_nobody_knows_of() {
    let bug = Bug {
        name: "lost-reply",
        source: include_str!("lost_reply.rs"),
        wrong: sim(wrong::worker),
        cured: sim(cured::worker),
        violates: ViolationKind::Unfinished("worker".to_owned()),
    };
    bug.check();
}
