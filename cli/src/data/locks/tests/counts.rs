//! What is counted is counted once.

use super::*;
use crate::data::clients::Clients;
use crate::data::locks::others::{Others, OthersCount};
use crate::data::locks::report::Report;
use crate::data::replay::Span;

/// Locks, each of which is used in its turn, and that several times.
fn used_in_turn(locks: usize, rounds: usize) -> Watch<'static> {
    let mut watch = Watch::new("/", None);
    watch.begin(&Core::new(Settings::default()), Zxid(0), &[]).expect("nothing is written");
    let mut zxid = 0;
    for round in 0..rounds {
        for lock in 0..locks {
            let at = format!("/l{lock}/lock-{round:010}");
            for op in [creation(&at, true, ""), TxnOp::Delete { path: path(&at) }] {
                zxid += 1;
                let (session, cxid, zxid) = (SessionId(1), Xid(1), Zxid(zxid));
                watch.txn(&Txn { session, cxid, zxid, time_ms: zxid.0, op }).expect("as before");
            }
        }
    }
    watch
}

#[test]
fn locks_that_come_back_after_they_were_told_together_are_counted_once() {
    let watch = used_in_turn(6_000, 5);
    let clients = Clients::default();
    let report = Report::new("/", Span::default(), watch, &clients);
    let summary = report.summary();
    assert!(summary.starts_with("6000 locks, 30000 holds, "), "{summary}");
    let json = report.json();
    let apart = report.locks.len() as u64;
    let again = report.locks.iter().filter(|told| told.has_more == Some(true)).count() as u64;
    assert!(again > 0);
    let others = &json["others"];
    let (locks, told_again) = (others["locks"].as_u64(), others["told_again"].as_u64());
    assert_eq!((locks, told_again), (Some(6_000 - apart), Some(again)));
    for told in &report.locks {
        // It was used five times, and is told apart with all of them or with the last ones.
        let is_whole = told.lack().is_none();
        assert!(told.lock.holds <= 5 && (told.lock.holds == 5) == is_whole, "{}", told.path);
    }
    let text = format!("and what {again} of the other locks had before, told together: ");
    assert!(report.text().contains(&text));
}

#[test]
fn more_locks_than_are_known_again_are_at_least_so_many() {
    let lock = Lock::new(Recipe::Mutex);
    let mut others = Others::with(lock.clone(), 2);
    for path in ["/a", "/b", "/a"] {
        others.add(path, &lock);
    }
    assert_eq!(["/a", "/c"].map(|path| others.has(path)), [Some(true), Some(false)]);
    let count = |locks, is_at_least, again| OthersCount { locks, is_at_least, again };
    assert_eq!(others.count(1), count(1, false, 1));
    others.add("/c", &lock);
    assert_eq!(["/a", "/c"].map(|path| others.has(path)), [Some(true), None]);
    assert_eq!(others.count(0), count(2, true, 0));
}

#[test]
fn a_transaction_that_ends_several_holds_hands_a_lock_over_once() {
    let mut log = Log::new().create(0, "/a");
    let id = |number| format!("_c_00000000-0000-0000-0000-00000000000{number}");
    for number in 0..3 {
        log = log.create(1, &format!("/a/{}-__READ__000000000{number}", id(number)));
    }
    let log = log.create(2, &format!("/a/{}-__WRIT__0000000003", id(9))).close(1, &[]);
    let (holds, locks) = log.told();
    assert!(holds.len() == 3 && holds.iter().all(|(_, hold)| hold.next == Some(SessionId(2))));
    assert_eq!((locks[0].1.holds, locks[0].1.handed_over), (4, 1));
}
