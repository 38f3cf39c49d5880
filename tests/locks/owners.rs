//! Tests of lock owners: each acquire enters the line by itself in any task, a guard or an owner
//! can acquire again, and a task that waits for itself is warned.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use zoolet::client::Client;
use zoolet::recipes::{
    Guard, HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreMutex, LockError, LockState, Owner,
    SequentialMultiLock,
};
use zoolet_test_support::stage::{assert_clean, connect, counted, server};

const SECOND: Duration = Duration::from_secs(1);
/// Enough for everything that does not wait: the paused clock advances when no task can run.
const SOON: Duration = Duration::from_millis(100);

/// One lock of each exclusive kind.
fn exclusive(client: &Client) -> Vec<Arc<dyn InterProcessLock>> {
    let mut locks = with_owners(client);
    let semaphore = InterProcessSemaphoreMutex::new(client, "/semaphore").expect("a path");
    locks.push(Arc::new(semaphore));
    locks
}

/// One lock of each exclusive kind that has owners.
fn with_owners(client: &Client) -> Vec<Arc<dyn InterProcessLock>> {
    let sides = InterProcessReadWriteLock::new(client, "/read-write").expect("a path");
    let mutex = |path| InterProcessMutex::new(client, path).expect("a path");
    vec![
        Arc::new(mutex("/mutex")),
        Arc::new(sides.write_lock()),
        Arc::new(InterProcessMultiLock::new(client, &["/multi/a", "/multi/b"]).expect("a path")),
        Arc::new(SequentialMultiLock::new(vec![Arc::new(mutex("/in-a-sequence"))])),
        Arc::new(HerdLock::watching_one_znode(client, "/herd/znode").expect("a path")),
        Arc::new(HerdLock::watching_all_children(client, "/herd/children").expect("a path")),
    ]
}

/// Holds the lock for a while, and checks that nobody else does.
async fn hold(lock: &dyn InterProcessLock, inside: &AtomicUsize) {
    let guard = lock.acquire().await.expect("its turn comes");
    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{lock:?}: two hold it");
    tokio::time::sleep(SOON).await;
    assert_eq!(guard.state(), LockState::Held);
    inside.fetch_sub(1, Ordering::SeqCst);
    guard.release().await.expect("it is held");
}

#[tokio::test(start_paused = true)]
async fn two_joined_acquires_of_one_task_exclude_each_other() {
    let server = server().await;
    let client = connect(&server).await;
    for lock in exclusive(&client) {
        let inside = AtomicUsize::new(0);
        tokio::join!(hold(&*lock, &inside), hold(&*lock, &inside));
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn futures_of_one_task_hold_a_lock_one_at_a_time() {
    let server = server().await;
    let client = connect(&server).await;
    for lock in exclusive(&client) {
        let inside = AtomicUsize::new(0);
        let mut holders: FuturesUnordered<_> = (0..10).map(|_| hold(&*lock, &inside)).collect();
        let mut done = 0;
        while let Some(()) = holders.next().await {
            done += 1;
        }
        assert_eq!(done, 10);
        drop(holders);
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_selected_acquires_of_one_task_leave_one_holder_and_one_znode() {
    let server = server().await;
    let client = connect(&server).await;
    for lock in exclusive(&client) {
        let held = {
            let (mut one, mut other) = (lock.acquire(), lock.acquire());
            let first = tokio::select! {
                biased;
                guard = &mut one => guard.expect("it is free"),
                _ = &mut other => panic!("{lock:?}: the second was first"),
            };
            let also = tokio::time::timeout(SECOND, &mut other).await;
            assert!(also.is_err(), "{lock:?}: two hold it");
            first
        };
        assert!(lock.try_acquire().await.unwrap().is_none(), "{lock:?}");
        held.release().await.unwrap();
        lock.acquire_within(SECOND).await.unwrap().release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_acquires_a_lock_twice_waits_for_itself() {
    let server = server().await;
    let client = connect(&server).await;
    for (lock, same) in exclusive(&client).into_iter().zip(exclusive(&client)) {
        let held = lock.acquire().await.unwrap();
        for lock in [&lock, &same] {
            assert!(lock.try_acquire().await.unwrap().is_none(), "{lock:?}");
            let again = lock.acquire_within(SECOND).await.map(drop);
            assert!(matches!(again, Err(LockError::TimedOut(_))), "{lock:?}");
        }
        held.release().await.unwrap();
        let next = lock.acquire_within(SECOND).await.unwrap();
        next.release().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_reenters_a_lock_of_any_kind_without_a_request() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    for lock in with_owners(&client) {
        let (owner, other) = (Owner::new(), Owner::new());
        let guard = lock.acquire_as(owner).await.unwrap();
        counting.take_requests();
        let again = lock.acquire_as(owner).await.unwrap();
        let within = lock.acquire_within_as(SECOND, owner).await.unwrap();
        let tried = lock.try_acquire_as(owner).await.unwrap().expect("it holds it");
        assert_eq!(counting.take_requests(), [], "{lock:?}");
        assert_eq!(guard.paths(), again.paths());
        for guard in [guard, within, tried] {
            guard.release().await.unwrap();
        }
        assert!(lock.try_acquire_as(other).await.unwrap().is_none(), "{lock:?}");
        let waits = lock.acquire_within_as(SECOND, other).await.map(drop);
        assert!(matches!(waits, Err(LockError::TimedOut(_))), "{lock:?}");
        again.release().await.unwrap();
        assert_clean(&server).await;
        lock.acquire_as(other).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_reentered_lock_is_released_with_its_last_guard() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let mutex = InterProcessMutex::new(&client, "/mutex").unwrap();
    let multi = InterProcessMultiLock::new(&client, &["/multi/a", "/multi/b"]).unwrap();
    let all = SequentialMultiLock::new(vec![Arc::new(mutex.clone()), Arc::new(multi.clone())]);

    let guard = mutex.acquire().await.unwrap();
    counting.take_requests();
    let again = guard.reenter();
    guard.release().await.unwrap();
    assert_eq!(counting.take_requests(), []);
    assert_eq!(again.state(), LockState::Held);
    assert!(mutex.is_held_by(again.owner()));
    assert!(mutex.try_acquire().await.unwrap().is_none());
    drop(again);
    assert_clean(&server).await;

    let guard = multi.acquire().await.unwrap();
    let again = guard.reenter();
    drop(guard);
    assert!(multi.try_acquire().await.unwrap().is_none());
    again.release().await.unwrap();
    assert_clean(&server).await;

    let guard = all.acquire().await.unwrap();
    let again = guard.reenter();
    guard.release().await.unwrap();
    assert_eq!((again.guards().len(), again.state()), (2, LockState::Held));
    assert!(mutex.try_acquire().await.unwrap().is_none());
    drop(again);
    assert_clean(&server).await;
    assert!(all.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_sequential_multi_lock_that_names_a_lock_twice_acquires_it_for_one_owner() {
    let server = server().await;
    let client = connect(&server).await;
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let sides = InterProcessReadWriteLock::new(&client, "/b").unwrap();
    let all = SequentialMultiLock::new(vec![
        Arc::new(mutex.clone()),
        Arc::new(mutex.clone()),
        Arc::new(sides.write_lock()),
        Arc::new(sides.read_lock()),
    ]);
    all.acquire_within(SECOND).await.unwrap().release().await.unwrap();
    let other = InterProcessMutex::new(&client, "/a").unwrap();
    let all = SequentialMultiLock::new(vec![Arc::new(mutex), Arc::new(other)]);
    assert!(matches!(all.acquire().await, Err(LockError::WouldDeadlock(_))));
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_waits_in_a_line_cannot_enter_it_again() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let held = InterProcessMutex::new(&other, "/a").unwrap().acquire().await.unwrap();
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let owner = Owner::new();
    let mut waits = Box::pin(mutex.acquire_as(owner));
    assert!(tokio::time::timeout(SOON, &mut waits).await.is_err());
    assert!(matches!(mutex.acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    held.release().await.unwrap();
    let guard = waits.await.unwrap();
    drop(mutex.acquire_as(owner).await.unwrap());
    guard.release().await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_whose_guard_is_alive_can_be_acquired_anew_by_its_owner() {
    let server = server().await;
    let (client, admin) = (connect(&server).await, connect(&server).await);
    // Through the same object, another one, and one of another kind in the same lines.
    for others in [with_owners(&client), with_owners(&client)] {
        for (lock, other) in with_owners(&client).into_iter().zip(others) {
            let owner = Owner::new();
            let lost = lock.acquire_as(owner).await.unwrap();
            let path = lost.paths()[0].to_owned();
            let (heard, ()) = tokio::join!(tokio::time::timeout(SECOND, lost.lost()), async {
                tokio::time::sleep(SOON).await;
                admin.delete(&path).await.unwrap();
            });
            heard.unwrap();
            for path in &lost.paths()[1..] {
                admin.delete(path).await.unwrap();
            }
            let again = other.acquire_within_as(SECOND, owner).await;
            let again = again.unwrap_or_else(|error| panic!("{lock:?}: {error}"));
            assert_eq!(again.state(), LockState::Held);
            drop(lost);
            // The lost lock does not admit its owner beside the present holder.
            let beside = lock.try_acquire_as(owner).await;
            assert!(matches!(beside, Err(LockError::WouldDeadlock(_))), "{lock:?}: {beside:?}");
            again.release().await.unwrap();
            assert_clean(&server).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_mutex_does_not_keep_its_owner_from_acquiring_a_multi_lock() {
    let server = server().await;
    let (client, admin) = (connect(&server).await, connect(&server).await);
    let owner = Owner::new();
    let mutex = InterProcessMutex::new(&client, "/a").unwrap();
    let multi = InterProcessMultiLock::new(&client, &["/a", "/b"]).unwrap();
    let lost = lose(mutex.acquire_as(owner).await.unwrap(), &admin).await;
    let both = multi.acquire_within_as(SECOND, owner).await.unwrap();
    assert!(matches!(mutex.acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    drop((lost, both));
    let sides = InterProcessReadWriteLock::new(&client, "/c").unwrap();
    let lost = lose(sides.read_lock().acquire_as(owner).await.unwrap(), &admin).await;
    let writing = sides.write_lock().acquire_within_as(SECOND, owner).await.unwrap();
    let again = InterProcessReadWriteLock::new(&client, "/c").unwrap();
    let told = again.read_lock().acquire_as(owner).await;
    assert!(matches!(told, Err(LockError::WouldDeadlock(_))));
    drop((lost, writing));
    assert_clean(&server).await;
}

/// Deletes the znode of a guard, as an administrator does, while the guard is looked at.
async fn lose(guard: Guard, admin: &Client) -> Guard {
    let (heard, ()) = tokio::join!(tokio::time::timeout(SECOND, guard.lost()), async {
        tokio::time::sleep(SOON).await;
        admin.delete(guard.path()).await.expect("it is there");
    });
    heard.expect("the guard reports the loss");
    guard
}

#[tokio::test(start_paused = true)]
async fn a_release_that_times_out_goes_on_in_the_background() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let watching = connect(&server).await;
    for (lock, theirs) in exclusive(&client).into_iter().zip(exclusive(&watching)) {
        let guard = lock.acquire().await.unwrap();
        counting.refuse(true);
        counting.cut();
        #[expect(clippy::disallowed_methods, reason = "a test measures what it waited for")]
        let now = tokio::time::Instant::now;
        let start = now();
        assert!(
            matches!(guard.release_within(SECOND).await, Err(LockError::TimedOut(_))),
            "{lock:?}"
        );
        assert_eq!(start.elapsed(), SECOND);
        counting.refuse(false);
        // Before the session could expire.
        let next = theirs.acquire_within(client.session_timeout() / 4).await.unwrap();
        next.release_within(SECOND).await.unwrap();
        assert_clean(&server).await;
    }
}

/// Collects the log lines of this thread while the subscriber's guard lives.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no holder of the mutex panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn begin(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .without_time()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Takes the lines since the last call.
    fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().expect("no holder of the mutex panics"));
        String::from_utf8(bytes).expect("text")
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_itself_is_warned_after_a_second_and_goes_on_waiting() {
    let log = Log::default();
    let _logging = log.begin();
    let server = server().await;
    let client = connect(&server).await;
    for (lock, same) in exclusive(&client).into_iter().zip(exclusive(&client)) {
        for lock_again in [&lock, &same] {
            let held = lock.acquire().await.unwrap();
            let path = held.paths()[0].rsplit_once('/').unwrap().0.to_owned();
            let mut waits = lock_again.acquire();
            assert!(tokio::time::timeout(SECOND - SOON, &mut waits).await.is_err());
            assert_eq!(log.take(), "", "{lock:?}");
            assert!(tokio::time::timeout(2 * SOON, &mut waits).await.is_err());
            let told = log.take();
            let path = path.trim_end_matches("/leases");
            assert!(told.contains(path) && told.contains("WARN"), "{lock:?}: {told}");
            assert!(told.contains("waited 1 s") && told.contains("acquired itself"), "{told}");
            assert!(tokio::time::timeout(10 * SECOND, &mut waits).await.is_err());
            assert_eq!(log.take(), "", "{lock:?}: it is said once");
            held.release().await.unwrap();
            waits.await.unwrap().release().await.unwrap();
        }
    }
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_another_is_not_warned() {
    let log = Log::default();
    let _logging = log.begin();
    let server = server().await;
    let client = connect(&server).await;
    for lock in exclusive(&client) {
        let held = lock.acquire().await.unwrap();
        let other = Arc::clone(&lock);
        let waits = tokio::spawn(async move { other.acquire_within(5 * SECOND).await.map(drop) });
        assert!(matches!(waits.await.unwrap(), Err(LockError::TimedOut(_))));
        // The holder releases in time: the task waits only for the next one in line.
        let other = Arc::clone(&lock);
        let next = tokio::spawn(async move {
            let guard = other.acquire().await.unwrap();
            tokio::time::sleep(5 * SECOND).await;
            guard.release().await.unwrap();
        });
        tokio::time::sleep(SOON).await;
        let first = async {
            tokio::time::sleep(SOON).await;
            held.release().await.unwrap();
        };
        let last = async { lock.acquire().await.unwrap().release().await.unwrap() };
        let ((), (), next) = tokio::join!(first, last, next);
        next.unwrap();
    }
    assert_eq!(log.take(), "");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_for_itself_behind_a_writer_is_warned() {
    let log = Log::default();
    let _logging = log.begin();
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let sides = InterProcessReadWriteLock::new(&client, "/a").unwrap();
    let theirs = InterProcessReadWriteLock::new(&other, "/a").unwrap();
    let reading = sides.read_lock().acquire().await.unwrap();
    let writer = tokio::spawn(async move { theirs.write_lock().acquire().await.map(drop) });
    tokio::time::sleep(SOON).await;
    assert!(tokio::time::timeout(2 * SECOND, sides.read_lock().acquire()).await.is_err());
    assert!(log.take().contains("/a: this task has waited 1 s"));
    assert!(tokio::time::timeout(2 * SECOND, sides.write_lock().acquire()).await.is_err());
    assert!(log.take().contains("reenter()"));
    drop(reading);
    writer.await.unwrap().unwrap();
}
