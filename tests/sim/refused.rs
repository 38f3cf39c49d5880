//! What would check nothing, or something else than it says, is refused with the reason.

use zoolet::sim::{FaultKind, Schedule, Sim, ViolationKind};

fn idle() -> Sim {
    Sim::new().machine("worker", 2, |world| async move {
        let _client = world.connect().await?;
        Ok(())
    })
}

fn refusal(sim: &Sim) -> String {
    let failure = sim.search(0..3).expect_err("it is refused");
    assert_eq!(failure.violation().kind, ViolationKind::Refused, "{failure}");
    assert!(failure.to_string().starts_with("nothing was run: "), "{failure}");
    failure.violation().text.clone()
}

#[test]
fn a_simulation_that_would_check_nothing_is_refused() {
    let none = |name: &str| Sim::new().machine(name, 0, |_world| async { Ok(()) });
    let twice = idle().machine("worker", 1, |_world| async { Ok(()) });
    let of = |path: &str| idle().invariant(path, |_znode| Ok(()));
    let refused = [
        (Sim::new(), "there are no machines"),
        (none("worker"), "there are 0 machines \"worker\""),
        (none(""), "\"\" is no name of machines"),
        (none("two\nlines"), "is no name of machines"),
        (twice, "two kinds of machines have the name \"worker\""),
        (of("limit"), "the invariant of \"limit\" is of no znode"),
        (of("/limit/"), "the invariant of \"/limit/\" is of no znode"),
        (idle().ensemble().configure(|config| config.tick_time_ms = 100), "Sim::configure"),
        (idle().ensemble().only(&[FaultKind::Expiries]), "none of the chosen faults can happen"),
        (idle().rate(FaultKind::Cuts, f64::NAN), "cuts cannot happen NaN times"),
    ];
    for (sim, reason) in &refused {
        let text = refusal(sim);
        assert!(text.contains(reason), "{text}");
    }
    idle().only(&[]).sweep(0..3);
}

#[test]
fn an_invariant_of_a_znode_that_no_run_has_is_refused() {
    let sim = idle().only(&[]).setup(|world| async move {
        world.connect().await?.create("/limit").await?;
        Ok(())
    });
    sim.clone().invariant("/limit", |_znode| Ok(())).sweep(0..3);
    let failure = sim.invariant("/limt", |_znode| Ok(())).search(0..10).expect_err("a wrong path");
    assert_eq!(failure.violation().kind, ViolationKind::Untested);
    let text = failure.to_string();
    assert!(text.starts_with("nothing was tested: the invariant of \"/limt\" "), "{text}");
    assert!(text.contains("in any of 10 runs"), "{text}");
}

#[test]
fn seeds_and_schedules_that_would_run_nothing_are_refused() {
    for seeds in [5..5, std::ops::Range { start: 100, end: 0 }] {
        let failure = idle().search(seeds).expect_err("there is no seed");
        assert!(failure.violation().text.contains("has no seed"), "{failure}");
    }
    for text in ["3:machines=7", "3:machines=", "3:faults=999"] {
        let schedule: Schedule = text.parse().expect("it is a schedule");
        let failure = idle().try_replay(schedule).expect_err("it is of another simulation");
        assert_eq!(failure.violation().kind, ViolationKind::Refused, "{text}: {failure}");
    }
    let one: Schedule = "3:faults=:machines=1".parse().expect("it is a schedule");
    idle().replay(one);
}
