//! Each check of a simulation finds what it is for, and names it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::{CreateMode, ErrorCode};
use zoolet::recipes::{InterProcessMutex, InterProcessSemaphoreV2, LeaderLatch};
use zoolet::sim::{FaultKind, MachineResult, Sim, ViolationKind, World};

/// Publishes numbers, tells the others the last one outside ZooKeeper, and compares theirs with what
/// ZooKeeper says.
async fn compare(world: World, syncs: bool) -> MachineResult {
    let client = world.connect().await?;
    let told = world.shared::<AtomicU64>();
    while world.goes_on() {
        if world.index() == 0 {
            let next = told.load(Ordering::Relaxed) + 1;
            client.set("/number", next.to_string()).await?;
            told.store(next, Ordering::Relaxed);
        } else {
            let least = told.load(Ordering::Relaxed);
            if syncs {
                client.sync("/number").await?;
            }
            let (data, _) = client.get("/number").await?;
            let read: u64 = String::from_utf8_lossy(&data).parse()?;
            if read < least {
                world.fail(format!("reads {read} after {least}"));
            }
        }
        world.sleep_up_to(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn comparing(syncs: bool) -> Sim {
    let sim = Sim::new().setup(|world| async move {
        world.connect().await?.create("/number").data("0").await?;
        Ok(())
    });
    sim.machine("reader", 2, move |world| compare(world, syncs))
        .only(&[FaultKind::Lags, FaultKind::Delays, FaultKind::Cuts])
        .faults_for(Duration::from_secs(4))
}

#[test]
fn a_read_without_sync_is_stale_on_an_ensemble_only() {
    comparing(false).sweep(0..20);
    comparing(true).ensemble().sweep(0..20);
    let failure = comparing(false).ensemble().search(0..200).expect_err("a follower is behind");
    assert_eq!(failure.violation().kind, ViolationKind::Failed("reader".to_owned()));
    assert!(failure.to_string().contains("FAULT: server"), "{failure}");
}

/// Waits in a line. If the reply to its create is lost, it enters the line again, and leaves a place
/// behind that nobody frees while its session is alive.
async fn stand_in_line_twice(world: World) -> MachineResult {
    let client = world.connect().await?;
    while world.goes_on() {
        let place = loop {
            let create = client.create("/line/place-").mode(CreateMode::EphemeralSequential);
            match create.await {
                Ok(created) => break created.path,
                Err(Error::ConnectionLoss { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        };
        loop {
            let names = client.children("/line").await?;
            let mut names: Vec<_> = names.iter().map(|name| format!("/line/{name}")).collect();
            names.sort();
            let ahead = names.iter().take_while(|name| **name < place).last();
            let Some(ahead) = ahead else { break };
            let watched = client.exists(ahead).and_watch().await?;
            if watched.found.is_some() {
                watched.watcher.await?;
            }
        }
        world.sleep_up_to(Duration::from_millis(50)).await;
        client.delete(&place).await?;
    }
    Ok(())
}

#[test]
fn a_line_in_which_nobody_gets_ahead_any_more_is_found() {
    let sim = Sim::new().machine("worker", 3, stand_in_line_twice).setup(|world| async move {
        world.connect().await?.create("/line").await?;
        Ok(())
    });
    let sim = sim.only(&[FaultKind::LostReplies]).finish_within(Duration::from_secs(20));
    let failure = sim.search(0..100).expect_err("a place is left behind");
    assert_eq!(failure.violation().kind, ViolationKind::Unfinished("worker".to_owned()));
    assert!(failure.violation().text.contains("does not finish within 20 s"), "{failure}");
    assert!(failure.story().len() < 30, "{failure}");
    sim.without(FaultKind::LostReplies).sweep(0..10);
}

/// As [`stand_in_line_twice`], by a program that gives up after a while and is started again.
#[test]
fn a_line_that_is_dead_for_those_who_give_up_is_found() {
    let sim = Sim::new().machine("worker", 3, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            let time_limit = Duration::from_secs(3);
            tokio::time::timeout(time_limit, pass_through_line(&world, &client)).await??;
        }
        Ok(())
    });
    let sim = sim.setup(|world| async move {
        world.connect().await?.create("/line").await?;
        Ok(())
    });
    let sim = sim.only(&[FaultKind::LostReplies]).finish_within(Duration::from_secs(20));
    let failure = sim.search(0..200).expect_err("nobody gets ahead");
    assert_eq!(failure.violation().kind, ViolationKind::Unfinished("worker".to_owned()));
    sim.without(FaultKind::LostReplies).sweep(0..10);
}

/// Takes a place that outlives its session, so that one whose number is not known stays for ever.
async fn pass_through_line(world: &World, client: &Client) -> MachineResult {
    let create = client.create("/line/place-").mode(CreateMode::PersistentSequential);
    let place = create.await?.path;
    loop {
        let names = client.children("/line").await?;
        if names.iter().all(|name| *format!("/line/{name}") >= *place) {
            break;
        }
        world.sleep(Duration::from_millis(20)).await;
    }
    client.delete(&place).await?;
    Ok(())
}

#[test]
fn who_keeps_a_lock_may_enter_a_section_with_it_again() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        while world.goes_on() {
            let mut guard = mutex.acquire().await?;
            for _ in 0..2 {
                let section = world.enter("stock", guard);
                world.sleep_up_to(Duration::from_millis(20)).await;
                guard = section.leave();
            }
            guard.release().await?;
        }
        Ok(())
    });
    sim.sweep(0..30);
}

#[tokio::test]
async fn a_simulation_within_a_runtime_is_refused() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        let _client = world.connect().await?;
        Ok(())
    });
    let failure = sim.search(0..3).expect_err("the thread has a runtime");
    assert_eq!(failure.violation().kind, ViolationKind::Refused);
    assert!(failure.violation().text.contains("spawn_blocking"), "{failure}");
}

#[test]
fn a_failure_that_does_not_come_again_is_told_as_one() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let sim = Sim::new().jobs(1).machine("worker", 1, |world| async move {
        // The two runs that compare the first seed, and three more.
        if RUNS.fetch_add(1, Ordering::Relaxed) == 5 {
            world.fail("once");
        }
        Ok(())
    });
    let failure = sim.only(&[]).search(0..10).unwrap_err().to_string();
    assert!(failure.contains("two runs of seed 3 differ"), "{failure}");
    assert!(failure.contains("once") && failure.contains("no violation"), "{failure}");
}

#[test]
fn a_panic_an_error_and_an_invariant_are_named() {
    let panics = Sim::new().machine("worker", 2, |world| async move {
        let _client = world.connect().await?;
        assert!(world.index() == 0, "the second worker panics");
        Ok(())
    });
    let failure = panics.search(0..3).expect_err("it panics");
    assert_eq!(failure.violation().kind, ViolationKind::Panic("worker".to_owned()));
    assert!(failure.violation().text.contains("the second worker panics"), "{failure}");

    let fails = Sim::new().machine("worker", 1, |_world| async { Err("no such thing".into()) });
    let failure = fails.search(0..3).expect_err("it fails");
    assert_eq!(failure.violation().kind, ViolationKind::Error("worker".to_owned()));
    assert_eq!(failure.violation().text, "worker-0 returned: no such thing");

    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        client.create(&format!("/seats/{}", world.name())).mode(CreateMode::Ephemeral).await?;
        world.sleep(Duration::from_millis(100)).await;
        Ok(())
    });
    let setup = |world: World| async move {
        world.connect().await?.create("/seats").await?;
        Ok(())
    };
    let one_seat = sim.setup(setup).invariant("/seats", |seats| match seats {
        Some((_, stat)) if stat.num_children > 1 => Err(format!("{} sit", stat.num_children)),
        _ => Ok(()),
    });
    let failure = one_seat.only(&[]).search(0..3).expect_err("both sit down");
    assert_eq!(failure.violation().kind, ViolationKind::Invariant("/seats".to_owned()));
    assert_eq!(failure.violation().text, "/seats: 2 sit");
}

#[test]
fn a_panic_is_one_line_of_the_story_wherever_it_is() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        world.sleep(Duration::from_millis(20)).await;
        let (one, other) = (1, 2);
        assert_eq!(one, other, "the sums differ");
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it panics");
    let text = &failure.violation().text;
    assert!(text.contains("assertion `left == right` failed: the sums differ"), "{text}");
    assert!(text.starts_with("worker-0 panicked"), "{text}");
    assert_eq!(text.matches("panicked").count(), 1, "{text}");
    assert!(text.contains("checks.rs:"), "{text}");
    let story = failure.story();
    assert!(story.iter().all(|line| !line.contains('\n')), "{story:?}");

    // A task that a program starts past its world.
    let sim = Sim::new().machine("worker", 1, |world| async move {
        world.sleep(Duration::from_millis(20)).await;
        let _nobody_waits = tokio::spawn(async { panic!("nobody sees it") });
        world.sleep(Duration::from_millis(20)).await;
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it panics");
    let violation = failure.violation();
    assert!(violation.text.contains("nobody sees it") && violation.ms > 0, "{failure}");
    assert!(failure.story().iter().any(|line| line.contains("VIOLATION")), "{failure}");
}

#[test]
fn a_multi_that_is_refused_is_told_as_refused() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        let client = world.connect().await?;
        client.create("/epoch").await?;
        let transaction = client.transaction().check("/epoch", 7);
        let transaction = transaction.create("/held", "", CreateMode::Ephemeral);
        assert!(transaction.commit().await.is_err(), "the version is another");
        world.fail("so it is");
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it fails");
    let refused = "(ephemeral): operation 1: BadVersion";
    assert!(failure.story().iter().any(|line| line.ends_with(refused)), "{failure}");
    let page = std::env::temp_dir().join(format!("zoolet-refused-{}.html", std::process::id()));
    failure.write_page(&page).expect("the page can be written");
    let text = std::fs::read_to_string(&page).expect("it can be read");
    std::fs::remove_file(&page).expect("it can be deleted");
    assert!(text.contains("operation 1: BadVersion</title><path class=\"refused\""), "{text}");
}

#[test]
fn a_machine_that_never_asks_when_to_end_is_told_of_goes_on() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        loop {
            world.sleep(Duration::from_secs(1)).await;
        }
    });
    let sim = sim.only(&[]).faults_for(Duration::from_secs(1));
    let failure = sim.finish_within(Duration::from_secs(2)).search(0..1).expect_err("no end");
    assert!(failure.violation().text.contains("never called `goes_on`"), "{failure}");
}

#[test]
fn what_is_left_at_the_end_is_checked() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        world.sleep_up_to(Duration::from_secs(8)).await;
        client.create("/jobs-").mode(CreateMode::PersistentSequential).await?;
        Ok(())
    });
    let sim = sim.at_end(|world| async move {
        let jobs = world.connect().await?.children("/").await?;
        let jobs = jobs.iter().filter(|name| name.starts_with("jobs-")).count();
        if jobs == 2 { Ok(()) } else { Err(format!("{jobs} jobs for 2 workers").into()) }
    });
    sim.clone().only(&[]).sweep(0..5);
    // A worker that was started again, or lost the reply, creates a second job.
    let failure = sim.search(0..500).expect_err("creates are repeated");
    assert_eq!(failure.violation().kind, ViolationKind::End);
}

#[test]
fn permits_shared_locks_and_leaders_are_counted() {
    let sim = Sim::new().machine("worker", 3, |world| async move {
        let client = world.connect().await?;
        let pool = InterProcessSemaphoreV2::new(&client, "/pool", 2)?;
        while world.goes_on() {
            let permit = pool.acquire(1).await?;
            let section = world.enter_with_permits("pool", (1, 2), permit);
            world.sleep_up_to(Duration::from_millis(300)).await;
            section.leave().release().await?;
        }
        Ok(())
    });
    sim.sweep(0..20);

    let too_many = Sim::new().machine("worker", 3, |world| async move {
        let _section = world.enter_with_permits("pool", (1, 2), ());
        world.sleep(Duration::from_millis(10)).await;
        Ok(())
    });
    let failure = too_many.search(0..3).expect_err("three of two");
    assert!(failure.violation().text.contains("hold \"pool\" at the same time"), "{failure}");

    let readers = Sim::new().machine("reader", 3, |world| async move {
        let _section = world.enter_shared("book", ());
        world.sleep(Duration::from_millis(10)).await;
        Ok(())
    });
    readers.clone().sweep(0..3);
    let writer = readers.machine("writer", 1, |world| async move {
        let _section = world.enter("book", ());
        world.sleep(Duration::from_millis(10)).await;
        Ok(())
    });
    assert!(writer.search(0..3).is_err(), "a writer among readers");

    let leaders = Sim::new().machine("candidate", 3, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            let latch = LeaderLatch::start(&client, "/leader", world.name())?;
            let section = world.enter("leader", latch);
            section.await_leadership().await?;
            world.sleep_up_to(Duration::from_millis(300)).await;
            section.leave().close().await?;
        }
        Ok(())
    });
    leaders.sweep(0..20);
}

/// With a client that is not [`World::client_builder`]'s.
async fn hold_with_a_client_of_its_own(world: World) -> MachineResult {
    let builder = Client::builder().suspended_time(|| Duration::ZERO);
    let client = builder.connect(world.dialer()).await?;
    while world.goes_on() {
        let held = InterProcessMutex::new(&client, "/stock")?.acquire().await?;
        world.sleep_up_to(Duration::from_millis(50)).await;
        held.release().await?;
    }
    Ok(())
}

#[test]
fn a_client_of_ones_own_builder_repeats_too() {
    let sim = Sim::new().machine("worker", 2, hold_with_a_client_of_its_own);
    sim.search(0..3).expect("two runs of a seed are the same");
}

#[test]
fn a_program_that_does_not_repeat_is_refused() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        // Its order differs from run to run.
        let names: HashMap<u64, ()> = (0..100).map(|number| (number, ())).collect();
        for number in names.into_keys() {
            client.create(&format!("/{number}")).or_set().await?;
        }
        Ok(())
    });
    let failure = sim.search(0..10).expect_err("two runs differ");
    let text = failure.to_string();
    assert!(text.contains("two runs of seed 0 differ") && text.contains("HashMap"), "{text}");
}

#[test]
fn a_correct_mutex_on_machines_that_crash_and_stand_still_never_hands_out_less() {
    // Each holder adds one to a number that only holders write.
    let sim = Sim::new().machine("worker", 3, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        while world.goes_on() {
            let guard = mutex.acquire().await?;
            let (data, stat) = client.get("/sum").await?;
            let sum: u64 = String::from_utf8_lossy(&data).parse()?;
            world.sleep_up_to(Duration::from_millis(100)).await;
            let set = client.set("/sum", (sum + 1).to_string()).version(stat.version);
            match set.await {
                Ok(_) => drop(world.shared::<AtomicU64>().fetch_add(1, Ordering::Relaxed)),
                // Another has held the lock since.
                Err(Error::Refused { code: ErrorCode::BAD_VERSION, .. }) => {}
                Err(error) => return Err(error.into()),
            }
            guard.release().await?;
        }
        Ok(())
    });
    let sim = sim
        .setup(|world| async move {
            world.connect().await?.create("/sum").data("0").await?;
            Ok(())
        })
        .at_end(|world| async move {
            let (data, _) = world.connect().await?.get("/sum").await?;
            let sum: u64 = String::from_utf8_lossy(&data).parse()?;
            let told = world.shared::<AtomicU64>().load(Ordering::Relaxed);
            if sum < told { Err(format!("{sum} after {told} additions").into()) } else { Ok(()) }
        });
    sim.only(&[FaultKind::Crashes, FaultKind::Pauses, FaultKind::PowerLosses]).sweep(0..10);
}
