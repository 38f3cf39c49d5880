//! Curator's `InterProcessSemaphoreV2.acquire(2)`: permits that are acquired one after the other.

use std::time::Duration;

use zoolet::client::Parents;
use zoolet::recipes::InterProcessSemaphoreV2;
use zoolet::sim::{MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;

mod wrong {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        let pool = InterProcessSemaphoreV2::new(&client, "/pool", 2)?;
        while world.goes_on() {
            let one = pool.acquire(1).await?;
            let other = pool.acquire(1).await?;
            world.sleep_up_to(Duration::from_millis(50)).await;
            one.release().await?;
            other.release().await?;
        }
        Ok(())
    }
}

mod cured {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        let pool = InterProcessSemaphoreV2::new(&client, "/pool", 2)?;
        while world.goes_on() {
            let both = pool.acquire(2).await?; // both or none
            world.sleep_up_to(Duration::from_millis(50)).await;
            both.release().await?;
        }
        Ok(())
    }
}

fn sim<F>(worker: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    let sim = Sim::new().machine("worker", 2, worker).setup(|world| async move {
        let client = world.connect().await?;
        client.create("/pool/locks").parents(Parents::Persistent).await?;
        client.create("/pool/leases").await?;
        Ok(())
    });
    sim.faults_for(Duration::from_secs(5)).finish_within(Duration::from_secs(12))
}

#[test]
fn permits_that_are_acquired_one_by_one() {
    let bug = Bug {
        name: "permits-one-by-one",
        source: include_str!("permits_one_by_one.rs"),
        wrong: sim(wrong::worker),
        cured: sim(cured::worker),
        violates: ViolationKind::Unfinished("worker".to_owned()),
    };
    bug.check();
}
