//! What a run tells: panics, permits, tokens and names.

use std::panic;
use std::time::Duration;

use zoolet::protocol::Zxid;
use zoolet::recipes::InterProcessMutex;
use zoolet::sim::{Held, Sim, ViolationKind};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn a_panic_that_the_program_catches_is_none_of_the_run() {
    let sim = Sim::new().machine("worker", 2, |world| async move {
        let caught = panic::catch_unwind(|| panic!("caught"));
        assert!(caught.is_err(), "it panics");
        let _client = world.connect().await?;
        Ok(())
    });
    let sim = sim.at_end(|_world| async {
        drop(panic::catch_unwind(|| panic!("caught at the end")));
        Ok(())
    });
    sim.only(&[]).sweep(0..3);
}

#[test]
fn a_panic_that_a_check_of_the_program_catches_is_none_of_the_run() {
    let fails = || panic::catch_unwind(|| panic!("caught")).is_err();
    let sim = Sim::new().machine("worker", 2, move |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        while world.goes_on() {
            let guard = mutex.acquire().await?;
            let section = world.enter("stock", move || fails() && guard.fencing_token().0 > 0);
            world.sleep(MS(200)).await;
            drop(section);
        }
        Ok(())
    });
    let sim = sim.invariant("/lock", move |_znode| match fails() {
        true => Ok(()),
        false => Err("it does not panic".to_owned()),
    });
    sim.only(&[]).faults_for(MS(2_000)).sweep(0..3);
}

#[test]
fn a_panic_in_a_task_of_tokio_is_told_with_its_time() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        world.sleep(MS(7)).await;
        let ended = tokio::spawn(async { panic!("handled") }).await;
        assert!(ended.is_err(), "it panics");
        world.sleep(MS(500)).await;
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("nobody can know that it is handled");
    let violation = failure.violation();
    assert_eq!((violation.ms, &violation.kind), (7, &ViolationKind::Panic("a task".to_owned())));
    let text = "a task that was not started by World::spawn panicked at ";
    assert!(violation.text.starts_with(text) && violation.text.ends_with("handled"), "{failure}");
    assert!(failure.story().last().is_some_and(|line| line.contains("VIOLATION")), "{failure}");
}

#[test]
fn more_permits_than_there_are_and_none_are_found_with_one_holder() {
    for (count, max) in [(5, 3), (0, 3), (0, 0)] {
        let sim = Sim::new().machine("worker", 1, move |world| async move {
            let _section = world.enter_with_permits("pool", (count, max), ());
            world.sleep(MS(10)).await;
            Ok(())
        });
        let failure = sim.only(&[]).search(0..1).expect_err("there are not so many");
        assert_eq!(failure.violation().kind, ViolationKind::Exclusion("pool".to_owned()));
        let text = format!("worker-0 enters \"pool\" with {count} permits of at most {max}");
        assert_eq!(failure.violation().text, text);
    }
}

/// What a holder has that was given this token.
struct Numbered(i64);

impl Held for Numbered {
    fn is_held(&self) -> bool {
        true
    }

    fn fencing_token(&self) -> Option<Zxid> {
        Some(Zxid(self.0))
    }
}

#[test]
fn a_token_that_does_not_increase_is_found() {
    let holding = |tokens: [i64; 2]| {
        let sim = Sim::new().machine("worker", 2, move |world| async move {
            world.sleep(MS(100 * world.index() as u64)).await;
            let section = world.enter("stock", Numbered(tokens[world.index()]));
            world.sleep(MS(10)).await;
            section.leave();
            Ok(())
        });
        sim.only(&[])
    };
    holding([7, 8]).sweep(0..3);
    for tokens in [[8, 8], [8, 7]] {
        let failure = holding(tokens).search(0..1).expect_err("a later holder has no later token");
        assert_eq!(failure.violation().kind, ViolationKind::Exclusion("stock".to_owned()));
        assert!(failure.violation().text.contains("tokens of a lock must increase"), "{failure}");
    }
}

#[test]
fn a_warning_of_a_recipe_is_a_part_of_the_story() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        let client = world.connect().await?;
        let mutex = InterProcessMutex::new(&client, "/lock")?;
        let _held = mutex.acquire().await?;
        drop(mutex.acquire().await?);
        Ok(())
    });
    let sim = sim.only(&[]).faults_for(MS(1_000)).finish_within(MS(5_000));
    let failure = sim.search(0..1).expect_err("it waits for itself");
    let warning = "warning: /lock: this task has waited";
    assert!(failure.story().iter().any(|line| line.contains(warning)), "{failure}");
}

#[test]
fn what_has_several_lines_is_told_in_one() {
    let sim = Sim::new().machine("worker", 1, |world| async move {
        world.note("one\ntwo");
        world.fail("three\n  four\n");
        Ok(())
    });
    let failure = sim.only(&[]).search(0..1).expect_err("it fails");
    assert_eq!(failure.violation().text, "worker-0: three; four");
    assert!(failure.story().iter().any(|line| line.ends_with("one; two")), "{failure}");
}

#[test]
fn every_setup_is_run_in_turn() {
    let sim = Sim::new()
        .setup(|world| async move {
            world.connect().await?.create("/one").await?;
            Ok(())
        })
        .setup(|world| async move {
            world.connect().await?.create("/one/two").await?;
            Ok(())
        });
    let sim = sim.machine("worker", 1, |world| async move {
        let found = world.connect().await?.exists("/one/two").await?;
        world.check(found.is_some(), || "the second setup was not run".to_owned());
        Ok(())
    });
    let sim = sim.at_end(|_world| async { Err("the first check".into()) });
    let failure = sim.at_end(|_world| async { Ok(()) }).only(&[]).search(0..1).unwrap_err();
    assert_eq!(failure.violation().text, "the check at the end: the first check");
}
