//! What is told of semaphores, also where nobody has a permit.

use super::*;

#[test]
fn a_semaphore_of_curator_is_one_lock_with_several_holders() {
    let log = Log::new()
        .create(0, "/pool")
        .create(0, "/pool/locks")
        .create(0, "/pool/leases")
        .create(1, "/pool/locks/lock-0000000000")
        .create(1, "/pool/leases/lease-0000000000")
        .delete(1, "/pool/locks/lock-0000000000")
        .create(2, "/pool/locks/lock-0000000001")
        .create(2, "/pool/leases/lease-0000000001")
        .create(3, "/pool/locks/lock-0000000002")
        // The second one has to wait until the first has given its permit back.
        .delete(1, "/pool/leases/lease-0000000000")
        .delete(2, "/pool/locks/lock-0000000001")
        .delete(3, "/pool/locks/lock-0000000002")
        .delete(2, "/pool/leases/lease-0000000001");
    let (holds, locks) = log.told();
    assert_eq!(short(&holds), [(1, 500, 900, 0), (2, 1_000, 1_200, 0)]);
    let waited: Vec<_> = holds.iter().map(|(_, hold)| hold.waited_ms()).collect();
    assert_eq!(waited, [Some(200), Some(400)]);
    let [(at, lock)] = &locks[..] else { panic!("one lock: {locks:?}") };
    assert_eq!((at.as_str(), lock.recipe), ("/pool", Recipe::Semaphore));
    assert_eq!((lock.aborted.count, lock.aborted.max_ms()), (1, 300), "the third gave up");
}

#[test]
fn a_semaphore_of_kazoo_is_one_lock() {
    const ONE: &str = "/pool/00112233445566778899aabbccddeeff";
    const GATE: &str = "/pool-__lock__/00112233445566778899aabbccddee00__lock__0000000000";
    let log = Log::new().create(0, "/pool");
    let log = log.then(
        1,
        3,
        TxnOp::SetData { path: path("/pool"), data: Some(Bytes::from_static(b"2")), version: 1 },
    );
    let log = log
        .create(0, "/pool-__lock__")
        .create(1, GATE)
        .create(1, ONE)
        .delete(1, GATE)
        .delete(1, ONE);
    let (holds, locks) = log.told();
    let of_root: Vec<_> = holds.iter().filter(|(at, _)| at == "/pool").cloned().collect();
    assert_eq!(short(&of_root), [(1, 400, 600, 0)], "{holds:?}");
    assert_eq!(of_root[0].1.waited_ms(), Some(100));
    let [(at, lock)] = &locks[..] else { panic!("one lock: {locks:?}") };
    assert_eq!(
        (at.as_str(), lock.recipe, lock.aborted.count),
        ("/pool", Recipe::KazooSemaphore, 0)
    );
}

/// Whatever data its znode is given.
#[test]
fn a_semaphore_of_curator_stays_one_when_its_znode_is_given_a_number() {
    let number = |version| {
        let data = Some(Bytes::from_static(b"5"));
        TxnOp::SetData { path: path("/pool"), data, version }
    };
    let log = Log::new()
        .create(0, "/pool")
        .create(0, "/pool/leases")
        .create(1, "/pool/leases/lease-0000000000")
        .then(9, 3, number(1))
        .create(2, "/pool/leases/lease-0000000001")
        .delete(1, "/pool/leases/lease-0000000000");
    let (holds, locks) = log.told();
    assert_eq!(short(&holds), [(1, 200, 500, 0)]);
    assert_eq!((holds[0].1.cause, holds[0].1.left.holding), (Cause::Released, 1));
    assert_eq!((locks[0].1.recipe, locks[0].1.holding.len()), (Recipe::Semaphore, 1));
}

/// Those that want a permit of kazoo stand beside the path.
#[test]
fn a_semaphore_of_kazoo_that_is_named_has_its_waits() {
    let pool = creation("/pool", false, "2");
    let log = Log::new()
        .then(0, 1, pool)
        .create(0, "/pool-__lock__")
        .create(1, "/pool-__lock__/00112233445566778899aabbccddee00__lock__0000000000")
        .create(1, "/pool/00112233445566778899aabbccddeeff");
    let mut watch = Watch::new("/pool", None);
    for txn in &log.txns {
        watch.txn(txn).expect("nothing is written");
    }
    let (locks, _) = watch.into_told();
    assert_eq!((locks.len(), locks[0].waiting, locks[0].lock.waits.max_ms()), (1, 1, 100));
}

/// A semaphore of Curator of which nobody has a permit, and those who use it later.
fn curators() -> Log {
    Log::new()
        .create(0, "/pool")
        .create(0, "/pool/leases")
        .create(0, "/pool/locks")
        .create(1, "/pool/locks/lock-0000000000")
        .create(2, "/pool/locks/lock-0000000001")
        .delete(2, "/pool/locks/lock-0000000001")
        .create(1, "/pool/leases/lease-0000000000")
        .delete(1, "/pool/locks/lock-0000000000")
        .delete(1, "/pool/leases/lease-0000000000")
}

#[test]
fn a_semaphore_of_which_no_permit_was_seen_is_told_as_one() {
    let log = curators();
    for first in 0..=5 {
        let (holds, locks) = log.told_after(first);
        let [(at, lock)] = &locks[..] else { panic!("after {first}: {locks:?}") };
        assert_eq!((at.as_str(), lock.recipe), ("/pool", Recipe::Semaphore), "after {first}");
        assert_eq!(short(&holds), [(1, 700, 800, 0)], "after {first}");
        assert_eq!(holds[0].1.waited_ms(), Some(400), "after {first}");
        assert_eq!(lock.aborted.count, 1, "the second one gave up, after {first}");
    }
}

#[test]
fn a_semaphore_of_kazoo_of_which_no_permit_was_seen_is_told_as_one() {
    const LINE: &str = "/pool-__lock__/00112233445566778899aabbccddee00__lock__0000000000";
    let named = |data| {
        let log = Log::new().then(0, 1, creation("/pool", false, data));
        log.create(0, "/pool-__lock__").create(1, LINE).expire(1, &[LINE])
    };
    for first in 0..4 {
        let (holds, locks) = named("2").told_after(first);
        let [(at, lock)] = &locks[..] else { panic!("after {first}: {locks:?}") };
        assert_eq!((at.as_str(), lock.recipe), ("/pool", Recipe::KazooSemaphore));
        assert_eq!((holds.len(), lock.aborted.count, lock.aborted_by_end), (0, 1, 1));
    }
    let (holds, locks) = named("text").told();
    assert_eq!((holds.len(), locks[0].0.as_str()), (1, "/pool-__lock__"), "a lock of that path");
}

#[test]
fn a_lock_stays_one_when_a_directory_of_permits_comes_beside_it() {
    let uses = |log: Log| {
        log.create(1, "/app/locks/lock-0000000000").delete(1, "/app/locks/lock-0000000000")
    };
    let log = uses(Log::new().create(0, "/app").create(0, "/app/locks"));
    let log = uses(log.create(0, "/app/leases"));
    let (holds, locks) = log.told();
    assert_eq!((holds.len(), locks.len(), locks[0].0.as_str()), (2, 1, "/app/locks"));
    // Without the directory it is one from the beginning.
    let log = uses(log.delete(0, "/app/leases"));
    let (holds, locks) = log.told_after(8);
    assert_eq!((holds.len(), locks.len(), locks[0].0.as_str()), (1, 1, "/app/locks"));
}
