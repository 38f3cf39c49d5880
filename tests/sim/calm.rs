//! What is checked when the faults are over: who waits for nothing, and who never acquires a lock.

use std::time::Duration;

use zoolet::client::Error;
use zoolet::protocol::{CreateMode, ErrorCode};
use zoolet::recipes::InterProcessMutex;
use zoolet::sim::{FaultKind, MachineResult, Sim, ViolationKind, World};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A lock that is an ephemeral znode. Who finds it taken watches it, in between another may delete it.
#[derive(Clone, Copy)]
enum Watch {
    /// Waits for an event of what may be gone.
    Blindly,
    /// Looks again if it is gone.
    WithALook,
}

async fn works(world: World, watch: Watch, work: Duration) -> MachineResult {
    let client = world.connect().await?;
    while world.goes_on() {
        let session = client.connected_session().await?;
        loop {
            match session.create("/lock").mode(CreateMode::Ephemeral).await {
                Ok(_) => break,
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
                Err(error) => return Err(error.into()),
            }
            let watched = session.exists("/lock").and_watch().await?;
            if matches!(watch, Watch::Blindly) || watched.found.is_some() {
                watched.watcher.await?;
            }
        }
        let (lock, own) = (session.claim("/lock"), session.clone());
        let section = world.enter("stock", move || own.is_proven() && !lock.is_gone());
        world.sleep_up_to(work).await;
        drop(section.leave());
        match session.delete("/lock").await {
            Err(error) if error.is(ErrorCode::NO_NODE) => {}
            deleted => deleted?,
        }
    }
    Ok(())
}

fn working(count: usize, watch: Watch, work: Duration) -> Sim {
    let sim = Sim::new().machine("worker", count, move |world| works(world, watch, work));
    sim.nobody_waits_in_vain()
}

#[test]
fn a_wakeup_that_is_lost_is_found() {
    for (count, work) in [(2, MS(10)), (3, MS(300))] {
        let failure = working(count, Watch::Blindly, work).search(0..300).expect_err("lost");
        println!("{failure}");
        assert_eq!(failure.violation().kind, ViolationKind::WaitsInVain("worker".to_owned()));
        assert!(failure.violation().text.contains("started again on a new session"), "{failure}");
        assert!(failure.story().len() < 30, "{failure}");
        let schedule = failure.schedule().to_string();
        let faults = schedule.split(':').find_map(|part| part.strip_prefix("faults="));
        assert!(!faults.expect("some are left out").contains(','), "one at most: {schedule}");
        working(count, Watch::WithALook, work).sweep(0..30);
    }
    let failure = working(3, Watch::Blindly, MS(300)).ensemble().search(0..300);
    let failure = failure.expect_err("also on an ensemble");
    assert_eq!(failure.violation().kind, ViolationKind::WaitsInVain("worker".to_owned()));
    working(3, Watch::WithALook, MS(300)).ensemble().sweep(0..20);
}

/// A consumer may wait for ever when nobody produces any more. It has its place in a line, and enters a
/// section for each item.
#[test]
fn who_waits_for_what_nobody_sends_any_more_is_right() {
    let setup = |world: World| async move {
        let client = world.connect().await?;
        client.create("/items").await?;
        client.create("/line").await?;
        Ok(())
    };
    let sim = Sim::new().setup(setup).machine("producer", 2, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/produces")?;
        while world.goes_on() {
            let section = world.enter("produces", mutex.acquire().await?);
            client.create("/items/item-").mode(CreateMode::PersistentSequential).await?;
            section.leave().release().await?;
            world.sleep_up_to(MS(100)).await;
        }
        Ok(())
    });
    let sim = sim.machine("consumer", 2, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/consumes")?;
        // Each life begins with one.
        world.enter("begins", mutex.acquire().await?).leave().release().await?;
        while world.goes_on() {
            let place = client.create("/line/place-").mode(CreateMode::EphemeralSequential);
            let place = place.protected().await?.path;
            loop {
                let items = client.children("/items").and_watch().await?;
                if items.found.iter().next().is_none() {
                    items.watcher.await?;
                    continue;
                }
                let section = world.enter("consumes", mutex.acquire().await?);
                let items: Vec<String> =
                    client.children("/items").await?.iter().map(ToString::to_string).collect();
                if let Some(item) = items.iter().min() {
                    delete(&client, &format!("/items/{item}")).await?;
                }
                section.leave().release().await?;
                break;
            }
            delete(&client, &place).await?;
        }
        Ok(())
    });
    sim.faults_for(Duration::from_secs(4)).sweep(0..30);
}

async fn delete(client: &zoolet::client::Client, path: &str) -> Result<(), Error> {
    match client.delete(path).await {
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(()),
        deleted => deleted,
    }
}

/// Each attempt gives up after a while, which a program may do; but nobody has ever entered.
#[test]
fn a_lock_that_nobody_ever_acquires_is_no_success_where_programs_wait_for_locks() {
    let sim = Sim::new().setup(|world| async move {
        world.connect().await?.create("/stock").await?;
        Ok(())
    });
    let sim = sim.machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            match client.create("/stock").mode(CreateMode::Ephemeral).await {
                Ok(_) => drop(world.enter("stock", ())),
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
                Err(error) => return Err(error.into()),
            }
            world.sleep_up_to(MS(200)).await;
        }
        Ok(())
    });
    let sim = sim.faults_for(Duration::from_secs(2));
    sim.sweep(0..10);
    let sim = sim.nobody_waits_in_vain();
    let failure = sim.search(0..10).expect_err("nobody enters");
    assert_eq!(failure.violation().kind, ViolationKind::Untested);
    assert!(failure.violation().text.starts_with("nobody has ever acquired a lock"), "{failure}");
    sim.sweep(0..3);
}

/// As a registration does, it has an ephemeral znode and no section, and checks by itself.
#[test]
fn programs_without_sections_pass_if_they_check_something() {
    let sim = Sim::new().machine("member", 2, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            let session = client.connected_session().await?;
            let created = session.create("/member-").mode(CreateMode::EphemeralSequential).await?;
            world.sleep_up_to(MS(100)).await;
            let found = session.exists(&created.path).await?;
            world.check(found.is_some(), || format!("{} is gone", created.path));
            session.delete(&created.path).await?;
        }
        Ok(())
    });
    sim.faults_for(Duration::from_secs(2)).sweep(0..20);

    let wrong = Sim::new().machine("reader", 1, |world| async move {
        let found = world.connect().await?.exists("/there").await?;
        world.check(found.is_some(), || "it is not there".to_owned());
        Ok(())
    });
    let failure = wrong.search(0..1).expect_err("it is not there");
    assert_eq!(failure.violation().text, "reader-0: it is not there");
}

#[test]
fn a_lost_connection_without_any_fault_is_told_as_it_is() {
    let sim = Sim::new().machine("writer", 1, |world| async move {
        let builder = world.client_builder().jute_max_buffer(usize::MAX);
        let client = builder.connect(world.dialer()).await?;
        // More than the server accepts: it closes the connection.
        client.create("/large").data(vec![7; 2_000_000]).or_set().await?;
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it is too large");
    assert_eq!(failure.violation().kind, ViolationKind::Error("writer".to_owned()));
    assert!(failure.violation().text.contains("the connection was lost"), "{failure}");
    assert!(failure.violation().ms < 1_000, "{failure}");
}

/// What a machine that hangs has left is gone when the end is checked.
#[test]
fn sessions_of_machines_that_hang_are_over_at_the_end() {
    for timeout_ms in [1_000, 10_000] {
        let sim = Sim::new().machine("worker", 2, move |world| async move {
            let builder = world.client_builder().session_timeout(MS(timeout_ms));
            let client = builder.connect(world.dialer()).await?;
            let path = format!("/{}", world.name());
            client.create(&path).mode(CreateMode::Ephemeral).await?;
            while world.goes_on() {
                world.sleep(MS(100)).await;
                if world.index() == 0 && !world.has_faults() {
                    // It has had its round.
                    let _rounds = [world.goes_on(), world.goes_on()];
                    std::future::pending::<()>().await;
                }
            }
            Ok(())
        });
        let sim = sim.at_end(|world| async move {
            let client = world.connect().await?;
            match client.exists("/worker-0").await? {
                Some(_) => Err("its session lives".into()),
                None => Ok(()),
            }
        });
        let sim = sim.only(&[FaultKind::Delays]).faults_for(Duration::from_secs(1));
        sim.clone().sweep(0..3);
        sim.ensemble().sweep(0..3);
    }
}

/// Without faults a new connection is never late, also that of a machine that gets slower messages.
#[test]
fn a_short_connection_timeout_is_enough_without_faults() {
    let sim = Sim::new().machine("worker", 3, |world| async move {
        while world.goes_on() {
            let builder = world.client_builder().session_timeout(MS(4_000));
            let client = builder.connection_timeout(MS(60)).connect(world.dialer()).await?;
            let mutex = InterProcessMutex::new(&client, "/lock")?;
            let section = world.enter("stock", mutex.acquire().await?);
            world.sleep_up_to(MS(100)).await;
            section.leave().release().await?;
            client.close().await?;
        }
        Ok(())
    });
    let sim = sim.only(&[]).faults_for(Duration::from_secs(2));
    for sim in [sim.clone(), sim.nobody_waits_in_vain()] {
        sim.clone().sweep(0..20);
        sim.ensemble().sweep(0..20);
    }
}
