//! KAFKA-6082: who was the leader writes after its successor.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use zoolet::protocol::{Expect, MultiOp, SetData};
use zoolet::recipes::InterProcessMutex;
use zoolet::sim::{FaultKind, MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;

mod wrong {
    use super::*;

    pub(super) async fn controller(world: World) -> MachineResult {
        let client = world.connect().await?;
        let election = InterProcessMutex::new(&client, "/controller")?;
        while world.goes_on() {
            let leading = world.enter("controller", election.acquire().await?);
            let term = leading.fencing_token().0;
            world.sleep_up_to(Duration::from_millis(300)).await; // it decides what to write
            client.set("/topics", format!("decided in term {term}")).await?;
            written(&world, term);
            leading.leave().release().await?;
        }
        Ok(())
    }
}

mod cured {
    use super::*;

    pub(super) async fn controller(world: World) -> MachineResult {
        let client = world.connect().await?;
        let election = InterProcessMutex::new(&client, "/controller")?;
        while world.goes_on() {
            let leading = world.enter("controller", election.acquire().await?);
            let term = leading.fencing_token().0;
            world.sleep_up_to(Duration::from_millis(300)).await; // it decides what to write
            // The server checks in the same multi that the znode of the lock is there.
            leading.transaction(vec![set(&format!("decided in term {term}"))]).await?;
            written(&world, term);
            leading.leave().release().await?;
        }
        Ok(())
    }

    fn set(data: &str) -> MultiOp {
        let data = Some(data.to_owned().into());
        SetData { path: "/topics".into(), data, version: Expect::Any }.into()
    }
}

/// Checks that nobody has written in a later term.
fn written(world: &World, term: i64) {
    let last = world.shared::<AtomicI64>().fetch_max(term, Ordering::Relaxed);
    if last > term {
        world.fail(format!("writes in term {term} over what was written in term {last}"));
    }
}

fn sim<F>(controller: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    let sim = Sim::new().machine("controller", 2, controller).setup(|world| async move {
        let client = world.connect().await?;
        client.create("/controller").await?;
        client.create("/topics").await?;
        Ok(())
    });
    sim.only(&[FaultKind::Pauses])
}

#[test]
fn a_controller_that_writes_after_its_successor() {
    let bug = Bug {
        name: "late-write",
        source: include_str!("late_write.rs"),
        wrong: sim(wrong::controller),
        cured: sim(cured::controller),
        violates: ViolationKind::Failed("controller".to_owned()),
    };
    bug.check();
}
