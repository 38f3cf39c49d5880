//! A simulation as a user of `zoolet::sim` writes one: workers on an ensemble that hold a mutex, and
//! must see what the holders before have written.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use zoolet_planted_bugs::plant;
use zoolet_recipes::InterProcessMutex;
use zoolet_testkit::sim::{Held, MachineResult, Sim, World};

use super::options::Bug;

/// The znode that each holder writes.
const WRITTEN: &str = "/written";

/// The simulation, with a bug planted where the code is patched.
pub fn workers(bug: Option<Bug>) -> Sim {
    let sim = Sim::new().ensemble().setup(|world| async move {
        world.connect().await?.create(WRITTEN).await?;
        Ok(())
    });
    // They wait for the mutex only.
    sim.nobody_waits_in_vain().machine("worker", 3, move |world| {
        // A bug is planted for a thread, and a run is on one thread.
        plant(bug.map(|bug| bug.0));
        work(world)
    })
}

async fn work(world: World) -> MachineResult {
    let client = world.connect().await?;
    let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
    // The version after the last write of a holder that knows of it.
    let version = world.shared::<AtomicI32>();
    while world.goes_on() {
        let section = world.enter("stock", mutex.acquire().await?);
        let least = version.load(Ordering::Relaxed);
        world.sleep_up_to(Duration::from_millis(100)).await;
        let (_, stat) = client.get(WRITTEN).await?;
        if section.is_held() && stat.version < least {
            world.fail(format!("the holder reads version {}, not {least}", stat.version));
        }
        let written = client.set(WRITTEN, world.name().to_owned()).await?;
        // One that has lost the lock may write at any time, and the next holder need not see it.
        if section.is_held() {
            version.fetch_max(written.version, Ordering::Relaxed);
        }
        section.leave().release().await?;
        world.sleep_up_to(Duration::from_millis(300)).await;
    }
    Ok(())
}
