//! Tests of the blocking recipes, one for each kind, on a server in process, with threads as
//! owners.

#![allow(clippy::disallowed_methods, reason = "a test measures what it waited for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use zoolet::client::ConnectionState;
use zoolet::client::blocking::Client;
use zoolet::protocol::{CreateMode, EventType, WatchMode};
use zoolet::recipes::blocking::{
    DistributedAtomicLong, DistributedBarrier, DistributedDoubleBarrier, InterProcessMultiLock,
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LeaderLatch, LeaderSelector, Leadership, SequentialMultiLock,
    SharedCount, SharedValue,
};
use zoolet::recipes::{LockError, LockState, Requeue, Revoker};
use zoolet::server::StartError;
use zoolet::server::blocking::Server;

/// Long enough for everything that does not wait.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

fn stage() -> (Server, Client) {
    let server = Server::start(zoolet::server::Server::builder()).expect("it starts");
    let client = Client::connect(server.dialer()).expect("the server is there");
    (server, client)
}

fn assert_clean(server: &Server) {
    let start = Instant::now();
    while server.totals().watches + server.totals().ephemerals > 0 {
        assert!(start.elapsed() < LONG, "a znode or a watch is left");
        std::thread::yield_now();
    }
}

/// Calls a function on another thread and returns its result.
fn elsewhere<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(act).join().expect("it does not panic"))
}

#[test]
fn readers_share_the_lock_and_a_downgraded_writer_joins_them() {
    let (server, client) = stage();
    let lock = InterProcessReadWriteLock::new(&client, "/a").unwrap();
    let reading = lock.read_lock().acquire().unwrap();
    elsewhere(|| lock.read_lock().acquire_within(LONG).unwrap().release().unwrap());
    assert!(elsewhere(|| lock.write_lock().try_acquire().unwrap().is_none()));
    assert!(matches!(lock.write_lock().acquire(), Err(LockError::WouldDeadlock(_))));
    reading.release().unwrap();
    let writing = lock.write_lock().acquire().unwrap();
    let over = elsewhere(|| lock.read_lock().acquire_within(SHORT).map(drop));
    assert!(matches!(over, Err(LockError::TimedOut(_))));
    let reading = lock.downgrade(writing).unwrap();
    assert!(elsewhere(|| lock.read_lock().try_acquire().unwrap().is_some()));
    reading.release().unwrap();
    assert_clean(&server);
}

#[test]
fn a_writing_thread_may_read_and_a_reading_one_gets_would_deadlock() {
    let (server, client) = stage();
    let lock = InterProcessReadWriteLock::new(&client, "/a").unwrap();
    let other = InterProcessReadWriteLock::new(&client, "/a").unwrap();
    let writing = lock.write_lock().acquire().unwrap();
    let again = lock.write_lock().acquire().unwrap();
    let reading = lock.read_lock().acquire().unwrap();
    let tried =
        lock.read_lock().try_acquire().unwrap().expect("the owner may read beside its write lock");
    assert_eq!(reading.fencing_token(), writing.fencing_token());
    assert!(lock.write_lock().is_owned_by_current_thread());
    assert!(elsewhere(|| !lock.write_lock().is_owned_by_current_thread()));
    assert!(matches!(other.read_lock().acquire(), Err(LockError::WouldDeadlock(_))));
    assert!(matches!(other.write_lock().try_acquire(), Err(LockError::WouldDeadlock(_))));
    drop((writing, again, tried));
    // The lock is now downgraded, and cannot be upgraded again.
    assert!(elsewhere(|| other.read_lock().try_acquire().unwrap().is_some()));
    assert!(elsewhere(|| other.write_lock().try_acquire().unwrap().is_none()));
    assert!(matches!(lock.write_lock().acquire(), Err(LockError::WouldDeadlock(_))));
    let also = reading.reenter();
    elsewhere(|| reading.release().unwrap());
    assert!(elsewhere(|| other.write_lock().try_acquire().unwrap().is_none()));
    also.release().unwrap();
    assert_clean(&server);
}

#[test]
fn a_thread_reenters_a_multi_lock() {
    let (server, client) = stage();
    let paths = InterProcessMultiLock::new(&client, &["/a", "/b"]).unwrap();
    let one = InterProcessMutex::new(&client, "/b").unwrap();
    let all = SequentialMultiLock::new(&client, vec![Arc::new(paths.get().clone())]);
    let guard = paths.acquire().unwrap();
    let (again, through) = (paths.acquire().unwrap(), all.acquire().unwrap());
    assert!(matches!(one.acquire(), Err(LockError::WouldDeadlock(_))));
    assert!(paths.is_owned_by_current_thread());
    drop((guard, again));
    assert!(elsewhere(|| one.try_acquire().unwrap().is_none()));
    through.release().unwrap();
    assert!(!paths.is_owned_by_current_thread());
    one.acquire().unwrap().release().unwrap();
    assert_clean(&server);
}

#[test]
fn permits_are_shared_and_split() {
    let (server, client) = stage();
    let semaphore = InterProcessSemaphoreV2::new(&client, "/s", 3).unwrap();
    let mut permits = semaphore.acquire(3).unwrap();
    assert!(matches!(semaphore.acquire_within(1, SHORT).map(drop), Err(LockError::TimedOut(_))));
    assert!(semaphore.try_acquire(1).unwrap().is_none());
    drop(permits.get_mut().split_one());
    semaphore.acquire_within(1, LONG).unwrap().release().unwrap();
    assert_eq!(semaphore.permits_left().unwrap(), 1);
    permits.release().unwrap();
    assert_clean(&server);
}

#[test]
fn a_sequential_multi_lock_is_released_by_another_thread() {
    let (server, client) = stage();
    let paths = InterProcessMultiLock::new(&client, &["/a", "/b"]).unwrap();
    let printer = InterProcessSemaphoreMutex::new(&client, "/printer").unwrap();
    let all = SequentialMultiLock::new(
        &client,
        vec![Arc::new(paths.get().clone()), Arc::new(printer.get().clone())],
    );
    let guard = all.acquire_within(LONG).unwrap();
    assert!(printer.is_acquired_in_this_process() && paths.is_acquired_in_this_process());
    assert!(elsewhere(|| paths.try_acquire().unwrap().is_none()));
    assert!(printer.try_acquire().unwrap().is_none());
    elsewhere(|| guard.release()).unwrap();
    paths.acquire().unwrap().release().unwrap();
    assert_clean(&server);
}

#[test]
fn a_guard_reports_a_revocation_and_its_loss() {
    let (server, client) = stage();
    let guard = InterProcessMutex::new(&client, "/a").unwrap().acquire().unwrap();
    assert!(!guard.is_revocation_requested_within(SHORT).unwrap());
    assert!(!guard.is_lost_within(SHORT));
    client.wait(Revoker::attempt_revoke(client.ask(), guard.get().path())).unwrap();
    assert!(guard.is_revocation_requested_within(LONG).unwrap());
    client.delete(guard.get().path()).unwrap();
    assert!(guard.is_lost_within(LONG));
    assert!(matches!((guard.state(), guard.release()), (LockState::Lost, Err(LockError::Lost(_)))));
    assert_clean(&server);
}

#[test]
fn counters_and_shared_values_report_their_changes() {
    let (server, client) = stage();
    let orders = DistributedAtomicLong::new(&client, "/orders").unwrap();
    assert!(orders.initialize(40).unwrap());
    assert_eq!(orders.add(3).unwrap().after, 43);
    assert_eq!(orders.subtract(1).unwrap().before, 43);
    assert!(orders.compare_and_set(42, 7).unwrap() && !orders.compare_and_set(42, 8).unwrap());
    orders.force_set(9).unwrap();
    assert_eq!(orders.read().unwrap(), 9);

    let other = Client::connect(server.dialer()).unwrap();
    let count = SharedCount::start(&client, "/count", 4).unwrap();
    let same = SharedCount::start(&other, "/count", 5).unwrap();
    assert!(count.try_set(4, 6).unwrap());
    assert_eq!(same.changed(4).unwrap(), 6);
    same.set(7).unwrap();
    assert_eq!((count.changed(6).unwrap(), same.count().unwrap()), (7, 7));

    let value = SharedValue::start(&client, "/value", "one").unwrap();
    let same = SharedValue::start(&other, "/value", "two").unwrap();
    let seen = value.value();
    assert!(value.changed_within(&seen, SHORT).is_none());
    same.set("three").unwrap();
    assert_eq!(value.changed_within(&seen, LONG).unwrap().data, "three");
    assert!(!value.try_set(&seen, "late").unwrap());
    drop((count, same, value));
}

#[test]
fn a_barrier_blocks_until_it_is_removed() {
    let (server, client) = stage();
    let barrier = DistributedBarrier::new(&client, "/barrier").unwrap();
    barrier.set().unwrap();
    assert!(matches!(barrier.wait_within(SHORT), Err(LockError::TimedOut(_))));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| barrier.wait());
        assert!(barrier.is_set().unwrap());
        barrier.remove().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert_clean(&server);
}

#[test]
fn members_of_a_double_barrier_enter_and_leave_together() {
    let (server, client) = stage();
    let barrier = DistributedDoubleBarrier::new(&client, "/round", 2).unwrap();
    assert!(matches!(barrier.enter_within(SHORT), Err(LockError::TimedOut(_))));
    let member = || client.wait(barrier.enter_within(LONG).unwrap().leave()).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(member);
        member();
        other.join().unwrap();
    });
    assert_clean(&server);
}

#[test]
fn a_latch_leads_until_it_is_closed() {
    let (server, client) = stage();
    let other = Client::connect(server.dialer()).unwrap();
    let one = LeaderLatch::start(&client, "/leader", "one").unwrap();
    one.await_leadership_within(LONG).unwrap();
    let two = LeaderLatch::start(&other, "/leader", "two").unwrap();
    assert!(matches!(two.await_leadership_within(SHORT), Err(LockError::TimedOut(_))));
    assert!(one.is_leader() && !two.is_leader());
    assert_eq!(two.leader().unwrap().map(|leader| leader.id), Some("one".into()));
    one.close().unwrap();
    two.await_leadership_within(LONG).unwrap();
    assert_eq!(two.participants().unwrap().len(), 1);
    two.close().unwrap();
    assert_clean(&server);
}

#[test]
fn a_selector_calls_its_function_on_a_thread_once_for_each_term() {
    let (server, client) = stage();
    let (begun, terms) = mpsc::channel();
    let lead = move |leadership: Leadership| {
        begun.send((std::thread::current().id(), leadership.term().fencing_token())).unwrap();
        while !leadership.is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let selector = LeaderSelector::start(&client, "/leader", "one", Requeue::Always, lead).unwrap();
    let (thread, first) = terms.recv_timeout(LONG).unwrap();
    assert_ne!(thread, std::thread::current().id());
    assert!(selector.has_leadership());
    assert_eq!(selector.participants().unwrap()[0].id, "one");
    selector.interrupt_leadership();
    let (_, second) = terms.recv_timeout(LONG).unwrap();
    assert!(second > first, "it is in line again");
    assert!(!selector.requeue(), "it is in line");
    selector.close().unwrap();
    assert!(terms.recv_timeout(LONG).is_err(), "the function has returned and is gone");
    assert_clean(&server);
}

#[test]
fn watchers_receive_events_and_dropping_them_removes_their_watches() {
    let (server, client) = stage();
    client.create("/a", "one").unwrap();
    let watched = client.get_and_watch("/a").unwrap();
    let children = client.children_and_watch("/a").unwrap();
    let missing = client.exists_and_watch("/b").unwrap();
    assert!(missing.found.is_none());
    let mut changes = client.watch("/a", WatchMode::PERSISTENT_RECURSIVE).unwrap();
    assert_eq!(changes.next_within(SHORT), Ok(None));
    client.set("/a", "two").unwrap();
    let changed = client.wait_within(LONG, watched.watcher).unwrap().unwrap();
    assert_eq!(changed.event_type, EventType::NODE_DATA_CHANGED);
    assert!(client.wait_within(SHORT, children.watcher).is_none());
    assert_eq!(changes.next().unwrap().unwrap().event_type, EventType::NODE_DATA_CHANGED);
    drop((missing.watcher, changes));
    client.sync("/").unwrap();
    assert_clean(&server);

    let (acl, _) = client.acl("/a").unwrap();
    client.set_acl("/a", acl).unwrap();
    let child = client.ask().create("/a/b-").mode(CreateMode::EphemeralSequential);
    assert_eq!(client.wait(child).unwrap().path, "/a/b-0000000000");

    let mut changes = client.watch("/a", WatchMode::PERSISTENT).unwrap();
    client.wait(client.ask().clone().close()).unwrap();
    assert!(changes.by_ref().last().unwrap().is_err(), "the last item is the error");
    assert!(changes.next().is_none());
}

#[test]
fn a_blocking_server_listens_and_stops() {
    let listening = zoolet::server::Server::builder().listen(([127, 0, 0, 1], 0).into());
    let server = Server::start(listening).unwrap();
    let address = server.local_addr().unwrap();
    let client = Client::connect(address.to_string().as_str()).unwrap();
    client.create("/a", "one").unwrap();
    assert_eq!(client.get("/a").unwrap().0, "one");
    let taken = Server::start(zoolet::server::Server::builder().listen(address));
    assert!(matches!(taken, Err(StartError::Listen { .. })), "{taken:?}");
    server.shutdown();
    let mut state = client.ask().state();
    let disconnected = state.wait_for(|state| !state.is_some_and(ConnectionState::is_connected));
    assert!(client.wait_within(LONG, disconnected).is_some_and(|state| state.is_ok()));
}

#[test]
fn a_leadership_is_over_when_its_proof_ends() {
    let server = Server::start(zoolet::server::Server::builder()).expect("it starts");
    let suspended = Arc::new(AtomicU64::new(0));
    let source = Arc::clone(&suspended);
    let builder = zoolet::client::Client::builder()
        .suspended_time(move || Duration::from_secs(source.load(Ordering::SeqCst)));
    let client = Client::connect_with(builder, server.dialer()).expect("the server is there");
    let (told, tells) = mpsc::channel();
    let lead = move |leadership: Leadership| {
        let was_over = leadership.is_over();
        // Simulates an hour of suspension that no request has noticed yet.
        suspended.fetch_add(3_600, Ordering::SeqCst);
        told.send((was_over, leadership.is_over())).expect("the test waits");
    };
    let selector =
        LeaderSelector::start(&client, "/a", "one", Requeue::OnRequest, lead).expect("a path");
    assert_eq!(tells.recv_timeout(LONG), Ok((false, true)));
    // The client may notice the loss before the close, so either result is correct.
    let _ = selector.close();
}
