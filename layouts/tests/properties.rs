//! Properties of directories, whatever their names.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use zoolet_layouts::{Directory, Name, Place, Role, Style, WaitGraph, Znode};
use zoolet_protocol::{SessionId, Zxid};

/// Names of all styles, names that look like them, and any others.
fn name() -> impl Strategy<Value = String> {
    let stems = [
        "_c_0b1fdc1c-9cf8-4f0c-8d3a-5c1f5c1f5c1f-lock-",
        "_c_00112233445566778899aabbccddeeff-lock-",
        "lock-",
        "__READ__",
        "__WRIT__",
        "lease-",
        "latch-",
        "__lock__",
        "__rlock__",
        "x-7-",
        "n_",
        "qn-",
        "queue-",
        "entry-100-",
    ];
    let numbered = (prop::sample::select(stems.to_vec()), prop_oneof![0..20_i32, any::<i32>()])
        .prop_map(|(stem, number)| format!("{stem}{number:010}"));
    let whole = ["ready", "lease_holder", "00112233445566778899aabbccddeeff", "locks", "0"];
    prop_oneof![
        8 => numbered,
        1 => prop::sample::select(whole.to_vec()).prop_map(str::to_owned),
        1 => "[ -~äé]{0,40}",
    ]
}

fn children() -> impl Strategy<Value = Vec<(String, Znode)>> {
    let znode = (0..6_i64, 1..1_000_i64).prop_map(|(session, czxid)| Znode {
        session: SessionId(session),
        czxid: Zxid(czxid),
        ctime: czxid,
    });
    // One name stands once in a directory.
    prop::collection::btree_map(name(), znode, 0..30).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn no_name_is_refused_with_a_panic(name in any::<String>()) {
        let _ = Name::read(&name);
    }

    #[test]
    fn the_holders_are_those_whom_the_queues_show(children in children()) {
        let directory = Directory::of(children);
        let holders: BTreeSet<_> =
            directory.holders().into_iter().map(|(place, role)| (place.name.clone(), role)).collect();
        let queues = directory.queues();
        let rows = queues.iter().flat_map(|queue| &queue.rows);
        let shown = rows.filter(|row| row.role.holds());
        let shown: BTreeSet<_> = shown.map(|row| (row.place.name.clone(), row.role)).collect();
        prop_assert_eq!(holders, shown);
    }

    /// One change tells who holds then, as a look at all does: the places come and go one by one.
    #[test]
    fn holders_follow_from_the_changes(changes in prop::collection::vec((any::<bool>(), children()), 1..6)) {
        let named = |place: &Place| place.name.clone();
        let mut directory = Directory::new();
        let mut holding: BTreeMap<String, Role> = BTreeMap::new();
        for (name, znode, comes) in changes.iter().flat_map(|(comes, children)| {
            children.iter().map(move |(name, znode)| (name, *znode, *comes))
        }) {
            let gone = directory.remove(name);
            holding.remove(name);
            let freed = gone.iter().flat_map(|gone| directory.freed_by(gone));
            holding.extend(freed.map(|(place, role)| (named(place), role)));
            if comes && directory.insert(name, znode).is_some() {
                let place = directory.place(name).expect("it was added");
                holding.extend(directory.holds(place).map(|role| (named(place), role)));
                if directory.is_waited_for(place) {
                    let holders = directory.holders().into_iter();
                    let holds: BTreeSet<_> = holders.map(|(place, _)| named(place)).collect();
                    holding.retain(|name, _| holds.contains(name));
                }
            }
            // A lease excludes nobody in its directory.
            let holders = directory.holders().into_iter();
            let expected: BTreeSet<_> = holders
                .filter(|(place, _)| place.style != Style::KazooLease)
                .map(|(place, _)| named(place))
                .collect();
            prop_assert_eq!(holding.keys().cloned().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn the_order_of_arrival_does_not_matter(children in children(), seed in any::<u64>()) {
        let straight = Directory::of(children.clone());
        let mut shuffled = children;
        let count = shuffled.len().max(1) as u64;
        shuffled.sort_by_key(|(name, _)| (name.len() as u64).wrapping_mul(seed) % count);
        let shuffled = Directory::of(shuffled);
        prop_assert_eq!(straight.queues(), shuffled.queues());
    }

    #[test]
    fn what_is_removed_was_never_there(children in children(), gone in children()) {
        let names: BTreeSet<_> = children.iter().map(|(name, _)| name.clone()).collect();
        let gone: Vec<_> = gone.into_iter().filter(|(name, _)| !names.contains(name)).collect();
        let expected = Directory::of(children.clone());
        let mut directory = Directory::of(children.into_iter().chain(gone.clone()));
        for (name, _) in &gone {
            directory.remove(name);
        }
        prop_assert_eq!(directory.queues(), expected.queues());
        prop_assert_eq!((directory.len(), directory.others()), (expected.len(), expected.others()));
    }

    #[test]
    fn one_at_a_time_holds_what_excludes_others(children in children()) {
        let directory = Directory::of(children);
        for style in Style::ALL {
            let holders: Vec<_> =
                directory.holders().into_iter().filter(|(place, _)| place.style == style).collect();
            let is_shared = holders.iter().any(|(_, role)| {
                matches!(role, Role::Reads | Role::HasPermit) || style == Style::KazooLease
            });
            prop_assert!(holders.len() <= 1 || is_shared, "{style:?}: {holders:?}");
        }
    }

    #[test]
    fn who_waits_stands_behind_an_earlier_row(children in children()) {
        let directory = Directory::of(children);
        for queue in directory.queues() {
            for (index, row) in queue.rows.iter().enumerate() {
                prop_assert!(row.behind.is_none_or(|behind| behind < index));
                prop_assert!(row.behind.is_none() || row.role.waits());
            }
        }
    }

    #[test]
    fn each_step_of_a_circle_leads_to_the_next(
        directories in prop::collection::vec(children(), 0..6),
    ) {
        let mut graph = WaitGraph::default();
        let directories: Vec<_> = directories.into_iter().map(Directory::of).collect();
        for (index, directory) in directories.iter().enumerate() {
            directory.queues().iter().for_each(|queue| graph.add(&format!("/{index}"), queue));
        }
        for cycle in graph.cycles() {
            prop_assert!(cycle.steps.len() > 1);
            let nexts = cycle.steps.iter().cycle().skip(1);
            for (step, next) in cycle.steps.iter().zip(nexts) {
                prop_assert_eq!(step.holder, next.waiter);
                prop_assert_ne!(step.holder, SessionId::default());
            }
        }
    }
}
