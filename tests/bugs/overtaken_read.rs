//! A read on a server that is behind: the message about a write arrives before the write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zoolet::sim::{FaultKind, MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;

/// The last change that the writer has told the readers of, by a message or a call of its own.
type Told = AtomicU64;

mod wrong {
    use super::*;

    pub(super) async fn reader(world: World) -> MachineResult {
        let client = world.connect().await?;
        while world.goes_on() {
            let told = world.shared::<Told>().load(Ordering::Relaxed);
            let (data, _) = client.get("/config").await?;
            let change: u64 = String::from_utf8_lossy(&data).parse()?;
            if change < told {
                world.fail(format!("was told of change {told}, and reads change {change}"));
            }
            world.sleep_up_to(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

mod cured {
    use super::*;

    pub(super) async fn reader(world: World) -> MachineResult {
        let client = world.connect().await?;
        while world.goes_on() {
            let told = world.shared::<Told>().load(Ordering::Relaxed);
            client.sync("/config").await?; // its server catches up with the leader
            let (data, _) = client.get("/config").await?;
            let change: u64 = String::from_utf8_lossy(&data).parse()?;
            if change < told {
                world.fail(format!("was told of change {told}, and reads change {change}"));
            }
            world.sleep_up_to(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// Changes the configuration, and then tells the readers.
async fn writer(world: World) -> MachineResult {
    let client = world.connect().await?;
    while world.goes_on() {
        let change = world.shared::<Told>().load(Ordering::Relaxed) + 1;
        client.set("/config", change.to_string()).await?;
        world.shared::<Told>().store(change, Ordering::Relaxed);
        world.sleep_up_to(Duration::from_millis(300)).await;
    }
    Ok(())
}

fn sim<F>(reader: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    let sim = Sim::new().ensemble().machine("reader", 2, reader).machine("writer", 1, writer);
    let sim = sim.setup(|world| async move {
        world.connect().await?.create("/config").data("0").await?;
        Ok(())
    });
    sim.only(&[FaultKind::Lags]).faults_for(Duration::from_secs(4))
}

#[test]
fn a_read_that_the_message_overtakes() {
    let bug = Bug {
        name: "overtaken-read",
        source: include_str!("overtaken_read.rs"),
        wrong: sim(wrong::reader),
        cured: sim(cured::reader),
        violates: ViolationKind::Failed("reader".to_owned()),
    };
    bug.check();
}
