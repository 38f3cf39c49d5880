//! Wrong locks are found, and what went wrong is told in less than 30 lines.

use std::path::Path;
use std::time::{Duration, SystemTime};

use zoolet::client::{Client, ConnectionState, Error};
use zoolet::protocol::{CreateMode, ErrorCode};
use zoolet::sim::{Failure, FaultKind, Sim, ViolationKind, World};

use super::repeats;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs a simulation whose lock is wrong, and checks what is reported.
fn found(name: &str, sim: &Sim) -> Failure {
    let failure = sim.search(0..2_000).expect_err("the lock is wrong");
    println!("{failure}");
    assert_eq!(failure.violation().kind, ViolationKind::Exclusion("stock".to_owned()));
    assert!((2..30).contains(&failure.story().len()), "{failure}");
    let page = page(name, &failure);
    assert!(page.contains("<svg") && page.contains("violation at"));
    for _ in 0..repeats() {
        let again = sim.try_replay(failure.schedule().clone()).expect_err("it fails again");
        assert_eq!(again.to_string(), failure.to_string());
        assert!(self::page(name, &again) == page, "the pages of {name} differ");
    }
    let read = failure.schedule().to_string().parse().expect("a schedule can be read");
    assert_eq!(failure.schedule(), &read);
    failure
}

fn page(name: &str, failure: &Failure) -> String {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    failure.write_page(&page).expect("the target directory can be written to");
    std::fs::read_to_string(page).expect("it was written")
}

/// Looks whether the lock is free, and then takes it: another client may do the same in between.
async fn check_then_create(world: World) -> Result<()> {
    let client = world.connect().await?;
    while world.goes_on() {
        if client.exists("/lock").await?.is_some() {
            world.sleep_up_to(Duration::from_millis(100)).await;
            continue;
        }
        client.create("/lock").mode(CreateMode::Ephemeral).or_set().await?;
        let section = world.enter("stock", ());
        world.sleep_up_to(Duration::from_millis(50)).await;
        section.leave();
        delete(&client).await?;
    }
    Ok(())
}

/// Deletes the lock; a session that has expired has done so already.
async fn delete(client: &Client) -> Result<()> {
    match client.delete("/lock").await {
        Err(Error::Refused { code: ErrorCode::NO_NODE, .. }) => Ok(()),
        deleted => Ok(deleted?),
    }
}

#[test]
fn a_lock_that_looks_and_then_creates_is_found() {
    let failure = found("looks-and-creates", &Sim::new().machine("worker", 3, check_then_create));
    assert!(failure.schedule().to_string().contains(":faults=:"), "it fails without faults");
}

/// Takes the lock as an ephemeral znode, and never asks again whether its session is alive.
async fn holds_on(world: World) -> Result<()> {
    let client = world.connect().await?;
    while world.goes_on() {
        match client.create("/lock").mode(CreateMode::Ephemeral).await {
            Ok(_) => {}
            Err(Error::Refused { code: ErrorCode::NODE_EXISTS, .. }) => {
                world.sleep_up_to(Duration::from_millis(100)).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let section = world.enter("stock", ());
        world.sleep_up_to(Duration::from_millis(500)).await;
        section.leave();
        delete(&client).await?;
    }
    Ok(())
}

#[test]
fn a_lock_that_is_held_on_after_the_session_is_lost_is_found() {
    found("holds-on", &Sim::new().machine("worker", 3, holds_on));
}

/// Takes the lock as an ephemeral znode of a session of its own, and believes to hold it while its
/// client is connected in that session.
async fn while_connected(world: World) -> Result<()> {
    while world.goes_on() {
        let client = world.connect().await?;
        let session = client.session_id();
        match client.create("/lock").mode(CreateMode::Ephemeral).in_session(session).await {
            Ok(_) => {
                let (own, state) = (client.clone(), client.state());
                let _section = world.enter("stock", move || {
                    let is_connected = state.borrow().is_some_and(ConnectionState::is_connected);
                    is_connected && own.session_id() == session
                });
                world.sleep_up_to(Duration::from_millis(500)).await;
            }
            Err(Error::Refused { code: ErrorCode::NODE_EXISTS, .. }) => {
                world.sleep_up_to(Duration::from_millis(1_000)).await;
            }
            Err(error) => return Err(error.into()),
        }
        client.close().await?;
    }
    Ok(())
}

#[test]
fn a_lock_that_is_held_while_its_client_is_connected_is_found_on_an_ensemble() {
    let sim = Sim::new().machine("worker", 3, while_connected);
    sim.sweep(0..20);
    // A server that is cut off from the others answers pings for a while. Other faults make two
    // holders less likely, which takes time.
    let sim = sim.ensemble().only(&[FaultKind::FollowersCutOff, FaultKind::SlowWork]);
    let failure = found("while-connected", &sim);
    let text = failure.to_string();
    assert!(text.contains("cut off from") && text.contains("expires its session"), "{text}");
}

/// How long a lease is valid.
const LEASE: Duration = Duration::from_secs(2);

/// Takes the lock by writing until when it is held, by its own clock.
async fn lease(world: World) -> Result<()> {
    let client = world.connect().await?;
    while world.goes_on() {
        let (data, stat) = client.get("/lease").await?;
        let until = String::from_utf8_lossy(&data).parse().unwrap_or(0);
        let until = SystemTime::UNIX_EPOCH + Duration::from_millis(until);
        if world.wall_clock() < until {
            world.sleep_up_to(Duration::from_millis(200)).await;
            continue;
        }
        let mine = world.wall_clock() + LEASE;
        let ms = mine.duration_since(SystemTime::UNIX_EPOCH)?.as_millis().to_string();
        match client.set("/lease", ms).version(stat.version).await {
            Ok(_) => {}
            Err(Error::Refused { code: ErrorCode::BAD_VERSION, .. }) => continue,
            Err(error) => return Err(error.into()),
        }
        let clock = world.clone();
        let section = world.enter("stock", move || clock.wall_clock() < mine);
        world.sleep_up_to(LEASE).await;
        drop(section);
    }
    Ok(())
}

#[test]
fn a_lease_by_the_clocks_of_clients_is_found() {
    let sim = Sim::new().machine("worker", 3, lease).setup(|world| async move {
        world.connect().await?.create("/lease").data("0").await?;
        Ok(())
    });
    let failure = found("lease", &sim);
    assert!(failure.to_string().contains("its wall clock jumps"), "{failure}");
}
