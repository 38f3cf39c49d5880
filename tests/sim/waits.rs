//! Programs that wait for others, or for what nobody sends any more: they are right, and pass.

use std::time::Duration;

use zoolet::client::recipe::SessionClient;
use zoolet::client::{Client, Error};
use zoolet::protocol::{CreateMode, ErrorCode};
use zoolet::recipes::{
    DistributedDoubleBarrier, InterProcessMutex, InterProcessReadWriteLock, LeaderLatch,
};
use zoolet::sim::{MachineResult, Sim, ViolationKind, World};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Runs a right program on a server and on an ensemble.
fn passes(sim: Sim) {
    let sim = sim.faults_for(Duration::from_secs(4));
    sim.clone().sweep(0..40);
    sim.ensemble().sweep(0..40);
}

/// Creates persistent znodes before the machines start.
fn with(sim: Sim, paths: &'static [&'static str]) -> Sim {
    sim.setup(move |world| async move {
        let client = world.connect().await?;
        for path in paths {
            client.create(path).await?;
        }
        Ok(())
    })
}

/// Each round needs the other machine, which may have finished.
#[test]
fn a_double_barrier_in_each_round_passes() {
    passes(Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        let barrier = DistributedDoubleBarrier::new(&client, "/barrier", 2)?;
        while world.goes_on() {
            let inside = barrier.enter().await?;
            let section = world.enter("stock", mutex.acquire().await?);
            world.sleep_up_to(MS(50)).await;
            section.leave().release().await?;
            inside.leave().await?;
        }
        Ok(())
    }));
}

/// A worker has a place in a line, and waits for a job that another machine brings. When it starts, it
/// looks under the lock what it has left.
#[test]
fn a_job_that_another_machine_brings_is_waited_for() {
    let sim = Sim::new().machine("boss", 1, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            client.create("/jobs/job-").mode(CreateMode::PersistentSequential).await?;
            world.sleep_up_to(MS(200)).await;
        }
        Ok(())
    });
    let sim = sim.machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        let mut has_looked = false;
        while world.goes_on() {
            let place = client.create("/places/place-").mode(CreateMode::EphemeralSequential);
            let place = place.protected().await?.path;
            if has_looked {
                next_job(&client).await?;
            }
            has_looked = true;
            let section = world.enter("jobs", mutex.acquire().await?);
            if let Some(job) = first_of(&client, "/jobs").await? {
                delete(&client, &format!("/jobs/{job}")).await?;
            }
            section.leave().release().await?;
            delete(&client, &place).await?;
        }
        Ok(())
    });
    passes(with(sim, &["/jobs", "/places"]));
}

async fn first_of(client: &Client, path: &str) -> Result<Option<String>, Error> {
    let names = client.children(path).await?;
    Ok(names.iter().min().map(ToString::to_string))
}

async fn next_job(client: &Client) -> Result<(), Error> {
    loop {
        let jobs = client.children("/jobs").and_watch().await?;
        if jobs.found.iter().next().is_some() {
            return Ok(());
        }
        jobs.watcher.await?;
    }
}

async fn delete(client: &Client, path: &str) -> Result<(), Error> {
    match client.delete(path).await {
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(()),
        deleted => deleted,
    }
}

/// A reader keeps the znode as it is, and waits for others to tell that there is news beside it.
#[test]
fn a_reader_may_wait_for_news_under_a_read_lock() {
    let sim = Sim::new().machine("reader", 2, |world| async move {
        let client = world.connect().await?;
        let lock = InterProcessReadWriteLock::new(&client, "/lock")?;
        let mut seen = -1;
        while world.goes_on() {
            let guard = lock.read_lock().acquire().await?;
            loop {
                let found = client.get("/news").and_watch().await?;
                let version = found.found.1.version;
                if version != seen {
                    seen = version;
                    break;
                }
                found.watcher.await?;
            }
            let section = world.enter_shared("book", guard);
            world.sleep_up_to(MS(50)).await;
            section.leave().release().await?;
        }
        Ok(())
    });
    let sim = sim.machine("publisher", 1, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            client.set("/news", "").await?;
            world.sleep_up_to(MS(200)).await;
        }
        Ok(())
    });
    passes(with(sim, &["/news"]));
}

/// It writes in each round, and enters a section while there is work.
async fn beats(world: World) -> MachineResult {
    let client = world.connect().await?;
    let mutex = InterProcessMutex::new(&client, "/lock")?;
    while world.goes_on() {
        client.create(&format!("/beat-{}", world.name())).or_set().await?;
        if first_of(&client, "/jobs").await?.is_some() {
            let section = world.enter("jobs", mutex.acquire().await?);
            if let Some(job) = first_of(&client, "/jobs").await? {
                delete(&client, &format!("/jobs/{job}")).await?;
            }
            section.leave().release().await?;
        }
        world.sleep_up_to(MS(100)).await;
    }
    Ok(())
}

fn beating() -> Sim {
    let sim = with(Sim::new().machine("worker", 2, beats), &["/jobs"]);
    sim.setup(|world| async move {
        let client = world.connect().await?;
        for _ in 0..10 {
            client.create("/jobs/job-").mode(CreateMode::PersistentSequential).await?;
        }
        Ok(())
    })
}

#[test]
fn heartbeats_go_on_when_there_is_no_work_any_more() {
    passes(beating());
    passes(beating().nobody_waits_in_vain());
}

/// It writes in each round how it is. Whoever leads stays in a section.
async fn stands(world: World) -> MachineResult {
    let client = world.connect().await?;
    let latch = std::sync::Arc::new(LeaderLatch::start(&client, "/leader", world.name())?);
    let mut section = None;
    while world.goes_on() {
        client.create(&format!("/state-{}", world.name())).or_set().await?;
        if !latch.is_leader() {
            section = None;
        } else if section.is_none() {
            let latch = std::sync::Arc::clone(&latch);
            section = Some(world.enter("leader", move || latch.is_leader()));
        }
        world.sleep_up_to(MS(100)).await;
    }
    Ok(())
}

#[test]
fn candidates_may_write_while_a_leader_stays() {
    let standing = Sim::new().machine("candidate", 3, stands);
    passes(standing.clone());
    passes(standing.nobody_waits_in_vain());
}

/// What it finds wrong it reports by `fail`, so that nothing else is to be seen of its checks.
#[test]
fn a_program_that_reports_only_what_is_wrong_passes() {
    let sim = Sim::new().machine("watcher", 2, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            match client.create("/taken").mode(CreateMode::Ephemeral).await {
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
                Ok(_) => world.fail("it was free"),
                Err(error) => return Err(error.into()),
            }
            world.sleep_up_to(MS(100)).await;
        }
        Ok(())
    });
    passes(with(sim, &["/taken"]));
}

/// A lock that is an ephemeral znode. Who finds it taken watches what may be gone by then.
async fn take_blindly(session: &SessionClient, path: &str) -> Result<(), Error> {
    loop {
        match session.create(path).mode(CreateMode::Ephemeral).await {
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => {}
            created => return created.map(drop),
        }
        session.exists(path).and_watch().await?.watcher.await?;
    }
}

/// Each round has two locks, and only at the second one a wakeup gets lost.
#[test]
fn a_wakeup_that_is_lost_at_the_second_lock_of_a_round_is_found() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/first")?;
        while world.goes_on() {
            let section = world.enter("first", mutex.acquire().await?);
            section.leave().release().await?;
            let session = client.connected_session().await?;
            take_blindly(&session, "/second").await?;
            let own = session.clone();
            let section = world.enter("second", move || own.is_proven());
            world.sleep_up_to(MS(10)).await;
            drop(section);
            session.delete("/second").await?;
        }
        Ok(())
    });
    let sim = sim.nobody_waits_in_vain().only(&[]).faults_for(Duration::from_secs(2));
    let failure = sim.search(0..300).expect_err("a wakeup is lost");
    assert_eq!(failure.violation().kind, ViolationKind::WaitsInVain("worker".to_owned()));
    assert!(failure.violation().text.contains("a new session"), "{failure}");
}

/// The leader steps down in each round. A candidate looks once who leads, and waits for its end.
#[test]
fn a_wakeup_that_is_lost_at_an_election_is_found() {
    let sim = Sim::new().machine("candidate", 3, |world| async move {
        let client = world.connect().await?;
        while world.goes_on() {
            let session = client.connected_session().await?;
            take_blindly(&session, "/leader").await?;
            let own = session.clone();
            let section = world.enter("leader", move || own.is_proven());
            world.sleep_up_to(MS(30)).await;
            drop(section);
            session.delete("/leader").await?;
            client.create("/term").or_set().await?;
        }
        Ok(())
    });
    let sim = sim.nobody_waits_in_vain().only(&[]).faults_for(Duration::from_secs(2));
    let failure = sim.search(0..300).expect_err("a wakeup is lost");
    assert_eq!(failure.violation().kind, ViolationKind::WaitsInVain("candidate".to_owned()));
}
