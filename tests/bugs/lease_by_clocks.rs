//! A lease that ends by the clocks of the clients.

use std::time::{Duration, SystemTime};

use zoolet::protocol::ErrorCode;
use zoolet::recipes::InterProcessMutex;
use zoolet::sim::{MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;

/// How long a lease is valid.
const LEASE: Duration = Duration::from_secs(2);

mod wrong {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        while world.goes_on() {
            let (data, stat) = client.get("/lease").await?;
            let until_ms = String::from_utf8_lossy(&data).parse()?;
            if ms(world.wall_clock()) < until_ms {
                world.sleep_up_to(Duration::from_millis(200)).await;
                continue;
            }
            let mine = world.wall_clock() + LEASE;
            match client.set("/lease", ms(mine).to_string()).version(stat.version).await {
                Err(error) if error.is(ErrorCode::BAD_VERSION) => continue, // another was quicker
                set => drop(set?),
            }
            let clock = world.clone();
            let section = world.enter("stock", move || clock.wall_clock() < mine);
            world.sleep_up_to(LEASE).await;
            drop(section.leave());
        }
        Ok(())
    }

    fn ms(time: SystemTime) -> u128 {
        time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_millis())
    }
}

mod cured {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
        while world.goes_on() {
            let section = world.enter("stock", mutex.acquire().await?);
            section.run(world.sleep_up_to(LEASE)).await?;
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
        world.connect().await?.create("/lease").data("0").await?;
        Ok(())
    })
}

#[test]
fn a_lease_by_the_clocks_of_clients() {
    let bug = Bug {
        name: "lease-by-clocks",
        source: include_str!("lease_by_clocks.rs"),
        wrong: sim(wrong::worker),
        cured: sim(cured::worker),
        violates: ViolationKind::Exclusion("stock".to_owned()),
    };
    bug.check();
}
