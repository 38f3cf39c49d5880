//! What a simulation does with the programs of its machines: they crash, panic, hang and wait for each
//! other.

use std::future::pending;
use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::{Acl, CreateMode, ErrorCode, Id, Permissions};
use zoolet::recipes::InterProcessMutex;
use zoolet::sim::{FaultKind, MachineResult, Sim, ViolationKind, World};

/// Takes a lock that whoever is first gets: correct, and not fair.
async fn be_first(client: &Client) -> Result<(), Error> {
    loop {
        match client.create("/lock").mode(CreateMode::Ephemeral).await {
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
            created => return created.map(drop),
        }
        let watched = client.exists("/lock").and_watch().await?;
        if watched.found.is_some() {
            watched.watcher.await?;
        }
    }
}

async fn worker_that_is_first(world: World) -> MachineResult {
    let client = world.connect().await?;
    while world.goes_on() {
        be_first(&client).await?;
        let section = world.enter("stock", ());
        world.sleep(Duration::from_millis(20)).await;
        section.leave();
        client.delete("/lock").await?;
    }
    Ok(())
}

#[test]
fn a_lock_that_is_correct_and_not_fair_has_no_violation() {
    Sim::new().machine("worker", 3, worker_that_is_first).only(&[]).sweep(0..20);
}

#[test]
fn nothing_of_a_machine_that_has_crashed_runs() {
    // A program that went on with its clients closed would never await anything again.
    let sim = Sim::new().machine("worker", 3, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        while world.goes_on() {
            let Ok(guard) = mutex.acquire().await else { continue };
            let section = world.enter("stock", guard);
            world.sleep_up_to(Duration::from_millis(200)).await;
            let _ = section.leave().release().await;
        }
        Ok(())
    });
    sim.only(&[FaultKind::Crashes]).rate(FaultKind::Crashes, 10.0).sweep(0..20);
}

#[test]
fn a_loop_in_which_no_time_passes_is_named() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        let client = world.connect().await?;
        client.clone().close().await?;
        while world.goes_on() {
            let _ = client.get("/").await;
        }
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it never awaits");
    assert_eq!(failure.violation().kind, ViolationKind::Panic("worker".to_owned()));
    assert!(failure.violation().text.contains("awaits nothing that takes time"), "{failure}");
}

#[test]
fn a_panic_in_a_task_of_a_machine_is_its_violation() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let last = world.index() == 1;
        world.spawn(async move { assert!(!last, "the last one") });
        world.sleep(Duration::from_secs(3)).await;
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it panics");
    assert_eq!(failure.violation().kind, ViolationKind::Panic("worker".to_owned()));
    let text = &failure.violation().text;
    assert!(text.starts_with("a task of worker-1 panicked at tests/sim/machines.rs:"), "{text}");
    assert!(text.ends_with("the last one") && failure.violation().ms < 10, "{failure}");
    assert!(failure.story().iter().any(|line| line.contains("VIOLATION: ")), "{failure}");

    let sim = Sim::new().machine("worker", 1, |world| async move {
        let panics = world.index() == 0;
        drop(tokio::spawn(async move { assert!(!panics, "nobody waits for this") }));
        world.sleep(Duration::from_secs(3)).await;
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it panics");
    assert!(failure.violation().text.contains("nobody waits for this"), "{failure}");
    assert!(failure.story().iter().any(|line| line.contains("VIOLATION: ")), "{failure}");
}

async fn write_three_times(world: World) -> MachineResult {
    let client = world.connect().await?;
    // Nobody may read it.
    let acl = vec![Acl::new(Permissions::WRITE, Id::new("world", "anyone"))];
    client.create("/number").data("0").acl(acl).await?;
    for number in 1..3 {
        client.set("/number", number.to_string()).await?;
    }
    Ok(())
}

#[test]
fn an_invariant_sees_what_nobody_may_read_and_its_panic_is_named() {
    let sim = Sim::new().machine("writer", 1, write_three_times).only(&[]);
    let panics = sim.clone().invariant("/number", |znode| {
        let number = znode.map(|(data, _)| String::from_utf8_lossy(data).into_owned());
        assert_ne!(number.as_deref(), Some("2"), "no two");
        Ok(())
    });
    let failure = panics.search(0..1).expect_err("it panics");
    assert_eq!(failure.violation().kind, ViolationKind::Invariant("/number".to_owned()));
    let text = &failure.violation().text;
    assert!(text.starts_with("the invariant of /number panicked at tests/sim/"), "{text}");
    assert!(text.contains("no two"), "{text}");

    let counts = sim.invariant_with_state("/number", |seen: &mut Vec<i32>, znode| {
        let version = znode.map_or(-1, |(_, stat)| stat.version);
        if seen.last() != Some(&version) {
            seen.push(version);
        }
        if seen.ends_with(&[1, 2]) { Err(format!("saw {seen:?}")) } else { Ok(()) }
    });
    let failure = counts.search(0..1).expect_err("the version reaches 2");
    assert_eq!(failure.violation().text, "/number: saw [-1, 0, 1, 2]", "each run begins anew");
}

#[test]
fn a_setup_that_fails_or_hangs_is_named() {
    let sim = Sim::new().machine("worker", 1, |_world| async { Ok(()) });
    let fails = sim.clone().setup(|world| async move {
        world.connect().await?.create("/a/b").await?;
        Ok(())
    });
    let failure = fails.search(0..1).expect_err("there is no /a");
    assert_eq!(failure.violation().kind, ViolationKind::Setup);
    assert!(failure.violation().text.contains("NoNode"), "{failure}");

    let failure = sim.setup(|_world| pending()).search(0..1).expect_err("it hangs");
    assert_eq!(failure.violation().kind, ViolationKind::Setup);
    assert_eq!(failure.violation().text, "setup does not end within 60 s");
}

#[test]
fn a_machine_that_hangs_after_its_round_does_not_disturb_the_check_at_the_end() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        while world.goes_on() {
            mutex.acquire().await?.release().await?;
            world.sleep(Duration::from_millis(50)).await;
        }
        if world.index() == 1 {
            let _guard = mutex.acquire().await?;
            pending::<()>().await;
        }
        Ok(())
    });
    let sim = sim.at_end(|world| async move {
        let client = world.connect().await?;
        let guard = InterProcessMutex::new(&client, "/lock")?.acquire().await?;
        guard.release().await?;
        Ok(())
    });
    sim.only(&[]).sweep(0..3);
}

#[test]
fn a_round_without_a_section_is_no_whole_one_where_programs_wait_for_locks() {
    // A lock that dies with the last fault: later everybody tries in vain, and goes on to try.
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            client.create("/place-").mode(CreateMode::EphemeralSequential).await?;
            if world.has_faults() {
                drop(world.enter_shared("stock", ()));
            }
            world.sleep_up_to(Duration::from_millis(300)).await;
        }
        Ok(())
    });
    sim.clone().only(&[]).sweep(0..3);
    let sim = sim.only(&[]).nobody_waits_in_vain();
    let failure = sim.search(0..1).expect_err("nobody enters any more");
    assert_eq!(failure.violation().kind, ViolationKind::WaitsInVain("worker".to_owned()));
    assert!(failure.violation().text.contains("nobody was in a section"), "{failure}");
}

#[test]
fn a_machine_that_enters_twice_is_told_as_one() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        let _first = world.enter("stock", ());
        let _second = world.enter("stock", ());
        world.sleep(Duration::from_millis(100)).await;
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it is in it already");
    assert_eq!(failure.violation().text, "worker-0 enters \"stock\" before it has left it");
}

#[test]
fn a_kind_that_never_happens_by_default_happens_if_it_is_chosen() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        let client = world.connect().await?;
        let first = client.connected_session().await?.id();
        while world.goes_on() {
            if client.connected_session().await?.id() != first {
                world.fail("its session has expired");
            }
            world.sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    });
    let failure = sim.only(&[FaultKind::Expiries]).search(0..100).expect_err("sessions expire");
    assert!(failure.to_string().contains("FAULT: the server expires its session"), "{failure}");
}

#[test]
fn a_report_of_a_whole_seed_does_not_call_it_the_smallest_run() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        world.fail("at once");
        Ok(())
    });
    let failure = sim.try_replay(7).expect_err("it fails");
    let whole = failure.to_string();
    assert!(whole.contains("the whole run:") && !whole.contains("smallest"), "{whole}");
    let page = std::env::temp_dir().join(format!("zoolet-whole-{}.html", std::process::id()));
    failure.write_page(&page).expect("the page can be written");
    let text = std::fs::read_to_string(&page).expect("it can be read");
    std::fs::remove_file(&page).expect("it can be deleted");
    assert!(text.contains("This is the whole run.") && !text.contains("smallest"), "{text}");
    let smallest = sim.search(7..8).expect_err("it fails").to_string();
    assert!(smallest.contains("the smallest run that fails in the same way:"), "{smallest}");
}

/// A task that asks again and again does so for itself.
#[test]
fn the_rounds_of_a_task_do_not_hide_that_its_program_is_stuck() {
    let sim = |is_stuck: bool| {
        let sim = Sim::new().machine("worker", 2, move |world| async move {
            let client = world.connect().await?;
            let beating = world.clone();
            world.spawn(async move {
                while beating.goes_on() {
                    let path = format!("/beat-{}", beating.name());
                    drop(client.create(&path).or_set().await);
                    beating.sleep(Duration::from_millis(100)).await;
                }
            });
            while world.goes_on() {
                world.sleep(Duration::from_millis(300)).await;
                if is_stuck && !world.has_faults() {
                    pending::<()>().await;
                }
            }
            Ok(())
        });
        sim.faults_for(Duration::from_secs(2))
    };
    sim(false).sweep(0..10);
    let failure = sim(true).search(0..1).expect_err("it is stuck");
    assert_eq!(failure.violation().kind, ViolationKind::Unfinished("worker".to_owned()));
}

/// A program may do all of its rounds in tasks, and wait for these.
#[test]
fn a_program_whose_tasks_have_all_the_rounds_finishes() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        let tasks = ["a", "b"].map(|name| {
            let (world, client) = (world.clone(), client.clone());
            tokio::spawn(async move {
                while world.goes_on() {
                    let path = format!("/{name}-{}", world.name());
                    drop(client.create(&path).or_set().await);
                    world.sleep_up_to(Duration::from_millis(100)).await;
                }
            })
        });
        for task in tasks {
            task.await?;
        }
        Ok(())
    });
    sim.without(FaultKind::Crashes).faults_for(Duration::from_secs(2)).sweep(0..10);
}
