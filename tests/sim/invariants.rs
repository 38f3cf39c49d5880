//! An invariant is checked in each state that clients can be shown, in their order, and in no other: a
//! write whose sync fails was never in one.

use std::time::Duration;

use zoolet::protocol::{CreateMode, ErrorCode, Stat};
use zoolet::sim::{FaultKind, MachineResult, Sim, ViolationKind, World};

/// Creates a number, which is its own version.
async fn create_number(world: World) -> MachineResult {
    world.connect().await?.create("/number").data("0").await?;
    Ok(())
}

/// Counts a number up, with some writes under way at a time.
async fn count(world: World) -> MachineResult {
    let client = world.connect().await?;
    while world.goes_on() {
        let (_, stat) = client.get("/number").await?;
        let writes = (stat.version..stat.version + 3).map(|version| {
            client.set("/number", (version + 1).to_string()).version(version).send()
        });
        for written in Vec::from_iter(writes) {
            match written.await {
                Ok(_) => {}
                // What was under way when the connection was lost may be carried out later.
                Err(error) if error.is(ErrorCode::BAD_VERSION) => {}
                Err(error) => return Err(error.into()),
            }
        }
        world.sleep_up_to(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Each version comes after the one before it.
fn one_by_one(last: &mut i32, znode: Option<(&[u8], &Stat)>) -> Result<(), String> {
    let (data, stat) = znode.ok_or("it is gone")?;
    if data != stat.version.to_string().as_bytes() {
        return Err(format!("version {} has other data", stat.version));
    }
    let before = std::mem::replace(last, stat.version);
    match stat.version - before {
        0 | 1 => Ok(()),
        _ => Err(format!("{} after {before}", stat.version)),
    }
}

fn counting() -> Sim {
    let sim = Sim::new().setup(create_number).machine("writer", 1, count);
    sim.invariant_with_state("/number", one_by_one).faults_for(Duration::from_secs(5))
}

#[test]
fn what_a_crash_undoes_was_never_seen_and_all_else_was() {
    counting().sweep(0..30);
    counting().ensemble().sweep(0..20);
    // Both undo writes, and both leave some that were not answered.
    let undoing = [FaultKind::FailedSyncs, FaultKind::PowerLosses];
    let sim = undoing.iter().fold(counting().only(&undoing), |sim, kind| sim.rate(*kind, 20.0));
    sim.sweep(0..60);
}

/// The number of a holder's last write to a store below a lock never decreases.
#[test]
fn a_token_in_a_store_does_not_go_back_when_a_sync_fails() {
    let sim = Sim::new().setup(create_number).machine("worker", 3, |world| async move {
        let (locks, data) = (world.connect().await?, world.connect().await?);
        let mutex = zoolet::recipes::InterProcessMutex::new(&locks, "/locks/stock")?;
        while world.goes_on() {
            let guard = mutex.acquire().await?;
            let token = guard.fencing_token().0;
            let section = world.enter("stock", guard);
            world.sleep_up_to(Duration::from_millis(300)).await;
            let (last, stat) = data.get("/number").await?;
            if String::from_utf8_lossy(&last).parse::<i64>()? < token {
                match data.set("/number", token.to_string()).version(stat.version).await {
                    Ok(_) => {}
                    Err(error) if error.is(ErrorCode::BAD_VERSION) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            section.leave().release().await?;
        }
        Ok(())
    });
    let sim = sim.invariant_with_state("/number", |last: &mut i64, znode| {
        let text = znode.map(|(data, _)| String::from_utf8_lossy(data).into_owned());
        let token = text.and_then(|text| text.parse().ok()).unwrap_or(0);
        let before = std::mem::replace(last, token);
        if token < before { Err(format!("{token} after {before}")) } else { Ok(()) }
    });
    // Seed 30 had a failed sync between the write and the next holder.
    sim.sweep(20..40);
}

#[test]
fn a_state_between_two_writes_that_are_under_way_together_is_seen() {
    let sim = Sim::new().setup(create_number).machine("writer", 1, |world| async move {
        let client = world.connect().await?;
        let wrong = client.set("/number", "13").send();
        let right = client.set("/number", "14").send();
        wrong.await?;
        right.await?;
        Ok(())
    });
    let sim = sim.only(&[]).invariant("/number", |znode| match znode {
        Some((b"13", _)) => Err("it is 13".to_owned()),
        _ => Ok(()),
    });
    for sim in [sim.clone(), sim.ensemble()] {
        let failure = sim.search(0..1).expect_err("it was 13 for a moment");
        assert_eq!(failure.violation().kind, ViolationKind::Invariant("/number".to_owned()));
        assert_eq!(failure.violation().text, "/number: it is 13");
    }
}

#[test]
fn the_state_between_two_sessions_that_expire_together_is_seen() {
    let setup = |world: World| async move {
        world.connect().await?.create("/seats").await?;
        Ok(())
    };
    let sim = Sim::new().setup(setup).machine("guest", 1, |world| async move {
        for seat in ["/seats/1", "/seats/2"] {
            let builder = world.client_builder().session_timeout(Duration::from_secs(2));
            let client = builder.connect(world.dialer()).await?;
            client.create(seat).mode(CreateMode::Ephemeral).await?;
            // The session ends by its timeout.
            drop(client.hand_over());
        }
        world.sleep(Duration::from_secs(10)).await;
        Ok(())
    });
    let sim = sim.only(&[]).invariant_with_state("/seats", |seen: &mut Vec<i32>, znode| {
        let taken = znode.map_or(0, |(_, stat)| stat.num_children);
        if seen.last() != Some(&taken) {
            seen.push(taken);
        }
        if seen.len() > 1 && taken == 0 { Err(format!("saw {seen:?}")) } else { Ok(()) }
    });
    for sim in [sim.clone(), sim.ensemble()] {
        let failure = sim.search(0..1).expect_err("both sessions expire");
        assert_eq!(failure.violation().text, "/seats: saw [0, 1, 2, 1, 0]");
    }
}
