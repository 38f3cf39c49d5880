//! Correct programs have no violation, whatever goes wrong.

use std::time::Duration;

use zoolet::recipes::{InterProcessMutex, LeaderLatch};
use zoolet::sim::Sim;

use super::repeats;

fn mutex() -> Sim {
    Sim::new().machine("worker", 3, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/locks/stock")?;
        while world.goes_on() {
            let section = world.enter("stock", mutex.acquire().await?);
            world.sleep_up_to(Duration::from_millis(500)).await;
            section.leave().release().await?;
            world.sleep_up_to(Duration::from_millis(100)).await;
        }
        Ok(())
    })
}

#[test]
fn a_mutex_excludes() {
    mutex().sweep(0..60);
    mutex().nobody_waits_in_vain().sweep(0..30);
}

#[test]
fn a_mutex_excludes_on_an_ensemble() {
    mutex().ensemble().sweep(0..40);
    mutex().ensemble().nobody_waits_in_vain().sweep(0..30);
}

/// A leader that stands still in its section, while its session expires and another one leads and ends, may
/// lead again before it leaves: in another term. Seed 46 does so.
#[test]
fn a_leader_may_lead_again_in_one_section() {
    let leaders = Sim::new().machine("candidate", 3, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            let latch = LeaderLatch::start(&client, "/leader", world.name())?;
            let _term = latch.await_leadership().await?;
            let section = world.enter("leader", latch);
            world.sleep_up_to(Duration::from_millis(200)).await;
            section.leave().close().await?;
        }
        Ok(())
    });
    leaders.sweep(30..60);
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for sim in [mutex(), mutex().ensemble()] {
        let first = sim.run(11);
        assert!(first.messages > 100);
        for _ in 0..repeats() {
            assert_eq!(sim.run(11), first);
        }
        assert_ne!(sim.run(12).hash, first.hash);
    }
}

/// The sections of a program may be over before its rounds are: it enters four, and only reads then.
#[test]
fn sections_may_come_to_an_end() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        for _ in 0..4 {
            let section = world.enter("start", mutex.acquire().await?);
            world.sleep_up_to(Duration::from_millis(20)).await;
            section.leave().release().await?;
            let _more = world.goes_on();
        }
        while world.goes_on() {
            client.exists("/lock").await?;
            world.sleep_up_to(Duration::from_millis(100)).await;
        }
        Ok(())
    });
    sim.clone().sweep(0..20);
    sim.ensemble().sweep(0..20);
}
