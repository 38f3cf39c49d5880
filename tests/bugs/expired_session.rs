//! CURATOR-206: the session of a holder expires, and the holder goes on.

use std::time::Duration;

use zoolet::recipes::InterProcessMutex;
use zoolet::sim::{MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;

mod wrong {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/stock")?;
        while world.goes_on() {
            let guard = mutex.acquire().await?;
            let section = world.enter("stock", ()); // it does not ask again
            world.sleep_up_to(Duration::from_millis(500)).await;
            section.leave();
            guard.release().await?;
        }
        Ok(())
    }
}

mod cured {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/stock")?;
        while world.goes_on() {
            let section = world.enter("stock", mutex.acquire().await?);
            let work = world.sleep_up_to(Duration::from_millis(500));
            section.run(work).await?; // it stops when the lock may be lost
            section.leave().release().await?;
        }
        Ok(())
    }
}

fn sim<F>(worker: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    Sim::new().machine("worker", 3, worker).setup(|world| async move {
        world.connect().await?.create("/stock").await?;
        Ok(())
    })
}

#[test]
fn a_holder_whose_session_has_expired() {
    let bug = Bug {
        name: "expired-session",
        source: include_str!("expired_session.rs"),
        wrong: sim(wrong::worker),
        cured: sim(cured::worker),
        violates: ViolationKind::Exclusion("stock".to_owned()),
    };
    bug.check();
}
