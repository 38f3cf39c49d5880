use super::*;
use crate::directory::{Directory, Znode};
use crate::semaphore::semaphore;

/// A directory from text: names with the numbers of their sessions, and perhaps of a transaction.
fn directory(children: &str) -> Directory {
    let child = |text: &str| {
        let mut parts = text.split(':');
        let name = parts.next().unwrap().to_owned();
        let mut number = || parts.next().map_or(0, |number| number.parse().unwrap());
        let (session, czxid) = (SessionId(number()), Zxid(number()));
        (name, Znode { session, czxid, ctime: 0 })
    };
    Directory::of(children.split_whitespace().map(child))
}

fn graph(paths: &[(&str, &str)]) -> WaitGraph {
    let mut graph = WaitGraph::default();
    for (path, children) in paths {
        directory(children).queues().iter().for_each(|queue| graph.add(path, queue));
    }
    graph
}

/// Each cycle as text: who waits where for whom.
fn told(graph: &WaitGraph) -> Vec<String> {
    let step = |step: &Step| format!("{}-{}->{}", step.waiter.0, step.path, step.holder.0);
    let cycle = |cycle: &Cycle| cycle.steps.iter().map(step).collect::<Vec<_>>().join(" ");
    graph.cycles().iter().map(cycle).collect()
}

#[test]
fn three_sessions_of_two_libraries_over_three_paths() {
    let graph = graph(&[
        ("/a", "lock-0000000000:1 lock-0000000001:3"),
        ("/b", "lock-0000000000:2 lock-0000000001:1"),
        ("/c", "__lock__0000000000:3 __lock__0000000001:2"),
    ]);
    assert_eq!(told(&graph), ["1-/b->2 2-/c->3 3-/a->1"]);
}

#[test]
fn who_waits_for_a_circle_is_not_in_it() {
    let graph = graph(&[
        ("/a", "lock-0000000000:1 lock-0000000001:2 lock-0000000002:3"),
        ("/b", "lock-0000000000:2 lock-0000000001:1"),
        ("/c", "lock-0000000000:3 lock-0000000001:4"),
    ]);
    assert_eq!(told(&graph), ["1-/b->2 2-/a->1"]);
}

#[test]
fn a_circle_is_told_without_those_between() {
    let graph = graph(&[
        ("/a", "lock-0000000000:1 lock-0000000001:7 lock-0000000002:2"),
        ("/b", "lock-0000000000:2 lock-0000000001:8 lock-0000000002:1"),
    ]);
    assert_eq!(told(&graph), ["1-/b->2 2-/a->1"]);
}

#[test]
fn a_chain_is_no_circle() {
    let graph = graph(&[
        ("/a", "lock-0000000000:1 lock-0000000001:2"),
        ("/b", "lock-0000000000:2 lock-0000000001:3"),
        ("/c", "lock-0000000000:3 lock-0000000001:4"),
    ]);
    assert!(told(&graph).is_empty());
    assert_eq!(graph.waits().count(), 3);
}

#[test]
fn threads_that_share_a_session_wait_for_each_other_at_one_path_without_a_circle() {
    let graph = graph(&[
        ("/a", "lock-0000000000:1 lock-0000000001:2 lock-0000000002:1 lock-0000000003:2"),
        ("/b", "lock-0000000000:3 lock-0000000001:1"),
    ]);
    assert!(told(&graph).is_empty());
}

#[test]
fn a_writer_waits_for_each_reader_before_it() {
    let graph = graph(&[
        (
            "/a",
            "__READ__0000000000:1 __READ__0000000001:2 __READ__0000000002:3 __WRIT__0000000003:4",
        ),
        ("/b", "lock-0000000000:4 lock-0000000001:1"),
    ]);
    assert_eq!(told(&graph), ["1-/b->4 4-/a->1"]);
}

#[test]
fn a_reader_waits_for_the_writer_that_waits_before_it() {
    let graph = graph(&[
        ("/a", "__READ__0000000000:1 __WRIT__0000000001:2 __READ__0000000002:3"),
        ("/b", "lock-0000000000:3 lock-0000000001:1"),
    ]);
    assert_eq!(told(&graph), ["1-/b->3 3-/a->1"]);
}

#[test]
fn a_semaphore_is_stuck_when_all_its_permits_are() {
    let waits_elsewhere = |second: &str| {
        let permits = directory("lease-0000000000:1 lease-0000000001:2");
        let gate = directory("lock-0000000000:3");
        let elsewhere = format!("lock-0000000000:{second} lock-0000000001:2");
        let mut graph =
            graph(&[("/b", "lock-0000000000:3 lock-0000000001:1"), ("/c", elsewhere.as_str())]);
        graph.add("/pool", &semaphore(&permits, &gate));
        told(&graph)
    };
    assert!(waits_elsewhere("9").is_empty());
    assert_eq!(waits_elsewhere("3").len(), 1);
}

#[test]
fn multi_locks_that_enter_all_lines_at_once_wait_for_each_other_without_a_circle() {
    let graph = graph(&[
        ("/a", "lock-0000000000:1:10 lock-0000000001:2:20"),
        ("/b", "lock-0000000000:1:10 lock-0000000001:2:20"),
    ]);
    assert!(told(&graph).is_empty());
}

#[test]
fn a_multi_lock_and_one_that_takes_its_locks_in_turn_can_wait_in_a_circle() {
    // 2 is first at /b once 9 goes, and still waits at /a for 1, which waits at /b behind it.
    let graph = graph(&[
        ("/a", "lock-0000000000:1:5 lock-0000000001:2:20"),
        ("/b", "lock-0000000000:9:6 lock-0000000001:2:20 lock-0000000002:1:30"),
    ]);
    assert_eq!(told(&graph), ["1-/b->2 2-/a->1"]);
}

#[test]
fn a_place_without_a_session_is_no_part_of_a_circle() {
    let graph = graph(&[
        ("/a", "lock-0000000000:0 lock-0000000001:2"),
        ("/b", "lock-0000000000:2 lock-0000000001:0"),
    ]);
    assert!(told(&graph).is_empty());
}

#[test]
fn a_multi_lock_behind_a_place_of_its_own_session_is_no_circle() {
    let graph = graph(&[
        ("/a", "lock-0000000000:5:1 lock-0000000001:5:20"),
        ("/b", "lock-0000000000:0:1 lock-0000000001:5:20"),
    ]);
    assert!(told(&graph).is_empty());
}

/// At each path one of its threads holds and another one waits.
#[test]
fn a_session_that_waits_for_itself_at_two_paths_is_no_circle() {
    let graph = graph(&[
        ("/a", "lock-0000000000:5:1 lock-0000000001:5:20"),
        ("/b", "lock-0000000000:5:2 lock-0000000001:5:21"),
    ]);
    assert!(told(&graph).is_empty());
}

#[test]
fn places_without_a_session_that_began_together_are_no_multi_lock() {
    let graph = graph(&[
        ("/a", "lock-0000000000:5:1 lock-0000000001:0:1 lock-0000000010:5:20"),
        ("/b", "lock-0000000000:5:1 lock-0000000001:0:1"),
        ("/c", "lock-0000000000:0:1 lock-0000000001:5:20"),
    ]);
    assert!(told(&graph).is_empty());
}

#[test]
fn a_thousand_sessions_in_one_circle() {
    let paths: Vec<(String, String)> = (0..1_000)
        .map(|number| {
            let children = format!(
                "lock-0000000000:{} lock-0000000001:{}",
                number + 1,
                (number + 1) % 1_000 + 1
            );
            (format!("/{number}"), children)
        })
        .collect();
    let paths: Vec<(&str, &str)> =
        paths.iter().map(|(path, children)| (&path[..], &children[..])).collect();
    let cycles = graph(&paths).cycles();
    assert_eq!((cycles.len(), cycles[0].steps.len()), (1, 1_000));
}

/// With all pairs the memory of a machine would not do: whoever may create znodes may create these.
#[test]
fn many_places_of_one_session_need_no_more_than_there_are() {
    const MANY: usize = 5_000;
    let permits = (0..2 * MANY).map(|number| {
        let session = if number < MANY { 1 } else { 2 };
        format!("lease-{number:010}:{session}:{}", number + 10)
    });
    let permits = directory(&permits.collect::<Vec<_>>().join(" "));
    let gate = directory(&format!("lock-0000000000:2:{}", MANY + 9));
    let mut graph = WaitGraph::default();
    graph.add("/pool", &semaphore(&permits, &gate));
    // A multi-lock of as many paths.
    for path in 0..MANY {
        let line = directory("lock-0000000000:3:5 lock-0000000001:4:6");
        line.queues().iter().for_each(|queue| graph.add(&format!("/multi/{path}"), queue));
    }
    let needs: usize = graph.needs_with_multi_locks().iter().map(Vec::len).sum();
    assert!(needs <= 6 * MANY, "{needs}");
    assert!(graph.cycles().is_empty());
}
