//! CURATOR-276 and CURATOR-621: a writer that becomes a reader lets the next writer in.

use std::time::Duration;

use zoolet::protocol::CreateMode;
use zoolet::recipes::InterProcessReadWriteLock;
use zoolet::sim::{MachineResult, Sim, ViolationKind, World};

use crate::book::Bug;
use crate::line;

mod wrong {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        while world.goes_on() {
            let session = client.session_id();
            let create = client.create("/line/write-").mode(CreateMode::EphemeralSequential);
            let write = create.await?.path;
            line::wait(&client, &write).await?;
            let writing = world.enter("book", line::held_in(session, &client));
            world.sleep_up_to(Duration::from_millis(100)).await;
            // The write lock is held, so the read lock need not wait.
            let create = client.create("/line/read-").mode(CreateMode::EphemeralSequential);
            let read = create.await?.path;
            writing.leave();
            let reading = world.enter_shared("book", line::held_in(session, &client));
            line::leave(&client, &write).await?;
            world.sleep_up_to(Duration::from_millis(300)).await;
            reading.leave();
            line::leave(&client, &read).await?;
        }
        Ok(())
    }
}

mod cured {
    use super::*;

    pub(super) async fn worker(world: World) -> MachineResult {
        let client = world.connect().await?;
        let book = InterProcessReadWriteLock::new(&client, "/book")?;
        while world.goes_on() {
            let writing = world.enter("book", book.write_lock().acquire().await?);
            writing.run(world.sleep_up_to(Duration::from_millis(100))).await?;
            let guard = book.downgrade(writing.leave()).await?; // the same place in the line
            let reading = world.enter_shared("book", guard);
            reading.run(world.sleep_up_to(Duration::from_millis(300))).await?;
            reading.leave().release().await?;
        }
        Ok(())
    }
}

fn sim<F>(worker: fn(World) -> F) -> Sim
where
    F: Future<Output = MachineResult> + Send + 'static,
{
    Sim::new().machine("worker", 2, worker).setup(line::create)
}

#[test]
fn a_writer_that_becomes_a_reader() {
    let bug = Bug {
        name: "downgrade",
        source: include_str!("downgrade.rs"),
        wrong: sim(wrong::worker),
        cured: sim(cured::worker),
        violates: ViolationKind::Exclusion("book".to_owned()),
    };
    bug.check();
}
