//! Tests of all kinds of locks behind the trait `InterProcessLock`, and of `SequentialMultiLock`.

use std::sync::Arc;
use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::{ErrorCode, OpCode};
use zoolet::recipes::{
    BoxFuture, HerdLock, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreMutex, LockError, LockGuard, LockState,
    SequentialMultiLock,
};
use zoolet_test_support::stage::{assert_clean, counted, poll_times, server};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(100);

/// One lock of each kind.
fn one_of_each(client: &Client) -> Vec<Arc<dyn InterProcessLock>> {
    let sides = InterProcessReadWriteLock::new(client, "/read-write").expect("a path");
    let other_sides = InterProcessReadWriteLock::new(client, "/write-read").expect("a path");
    let mutex = || InterProcessMutex::new(client, "/in-a-sequence").expect("a path");
    vec![
        Arc::new(InterProcessMutex::new(client, "/mutex").expect("a path")),
        Arc::new(InterProcessSemaphoreMutex::new(client, "/semaphore").expect("a path")),
        Arc::new(sides.read_lock()),
        Arc::new(other_sides.write_lock()),
        Arc::new(InterProcessMultiLock::new(client, &["/multi/a", "/multi/b"]).expect("a path")),
        Arc::new(SequentialMultiLock::new(vec![Arc::new(mutex())])),
        Arc::new(HerdLock::watching_one_znode(client, "/herd/znode").expect("a path")),
        Arc::new(HerdLock::watching_all_children(client, "/herd/children").expect("a path")),
    ]
}

#[tokio::test(start_paused = true)]
async fn all_kinds_of_locks_are_acquired_tried_lost_and_released_alike() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let (admin, _) = counted(&server).await;
    let mut last = None;
    for (ours, theirs) in one_of_each(&client).into_iter().zip(one_of_each(&admin)) {
        assert!(!ours.is_acquired_in_this_process(), "{ours:?}");
        let guard = ours.acquire_within(SECOND).await.unwrap();
        assert!(ours.is_acquired_in_this_process(), "{ours:?}");
        assert_eq!(guard.state(), LockState::Held);
        assert!(Some(guard.fencing_token()) > last, "tokens grow");
        last = Some(guard.fencing_token());
        if !format!("{ours:?}").starts_with("InterProcessReadLock") {
            let refused = tokio::spawn(async move {
                let tried = theirs.try_acquire().await.unwrap().is_none();
                (tried, theirs.acquire_within(SECOND).await.map(drop))
            });
            assert!(
                matches!(refused.await.unwrap(), (true, Err(LockError::TimedOut(_)))),
                "{ours:?}"
            );
        }
        guard.release().await.unwrap();
        assert!(!ours.is_acquired_in_this_process(), "{ours:?}");

        let guard = ours.try_acquire().await.unwrap().expect("it is free");
        let path = guard.paths()[0].to_owned();
        let (heard, ()) = tokio::join!(tokio::time::timeout(SECOND, guard.lost()), async {
            tokio::time::sleep(SOON).await;
            admin.delete(&path).await.unwrap();
        });
        assert!(heard.is_ok(), "{ours:?}");
        assert_eq!(guard.state(), LockState::Lost);
        assert!(!ours.is_acquired_in_this_process(), "{ours:?}");
        assert!(matches!(guard.release().await, Err(LockError::Lost(_))), "{ours:?}");
        assert_clean(&server).await;
    }
}

#[tokio::test]
async fn try_acquire_of_a_held_semaphore_mutex_or_multi_lock_creates_no_znode() {
    let server = server().await;
    let (holder, _) = counted(&server).await;
    let (other, counting) = counted(&server).await;
    for kind in [1, 4] {
        let held = one_of_each(&holder)[kind].acquire().await.unwrap();
        counting.take_requests();
        let theirs = one_of_each(&other).swap_remove(kind);
        let tried = tokio::spawn(async move { theirs.try_acquire().await.unwrap().is_none() });
        assert!(tried.await.unwrap());
        assert_eq!(counting.take_requests(), [(OpCode::GET_CHILDREN, 1)]);
        held.release().await.unwrap();
    }
}

/// A lock and guard with prescribed results, for cases that no server produces.
#[derive(Debug, Clone)]
struct Scripted {
    acquired: Result<(), LockError>,
    released: Result<(), LockError>,
    log: Arc<std::sync::Mutex<Vec<&'static str>>>,
    name: &'static str,
}

impl InterProcessLock for Scripted {
    fn acquire(&self) -> BoxFuture<'_, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(async {
            self.acquired.clone()?;
            Ok(Box::new(self.clone()) as Box<dyn LockGuard>)
        })
    }

    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn LockGuard>>, LockError>> {
        Box::pin(async { InterProcessLock::acquire(self).await.map(Some) })
    }

    fn is_acquired_in_this_process(&self) -> bool {
        false
    }
}

impl LockGuard for Scripted {
    fn fencing_token(&self) -> zoolet::protocol::Zxid {
        zoolet::protocol::Zxid(1)
    }

    fn paths(&self) -> &[String] {
        &[]
    }

    fn state(&self) -> LockState {
        LockState::Held
    }

    fn lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn revocation_requested(&self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(std::future::pending())
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
        self.log.lock().expect("no holder of the mutex panics").push(self.name);
        Box::pin(std::future::ready(self.released.clone()))
    }
}

fn refused(code: ErrorCode) -> LockError {
    let (op, path) = (OpCode::DELETE, "/x".into());
    zoolet::client::Error::Refused { op, path, code, index: None }.into()
}

#[tokio::test]
async fn multi_lock_some_releases_fail() {
    let log = Arc::default();
    let lock = |name, released| -> Arc<dyn InterProcessLock> {
        Arc::new(Scripted { acquired: Ok(()), released, log: Arc::clone(&log), name })
    };
    let (no_auth, quota) = (refused(ErrorCode::NO_AUTH), refused(ErrorCode::QUOTA_EXCEEDED));
    let all = SequentialMultiLock::new(vec![
        lock("a", Err(quota.clone())),
        lock("b", Ok(())),
        lock("c", Err(no_auth.clone())),
    ]);
    let result = all.acquire().await.unwrap().release().await;
    assert_eq!(result, Err(LockError::Several(vec![no_auth, quota])), "all errors, in their order");
    assert_eq!(*log.lock().unwrap(), ["c", "b", "a"], "the last is released first");
}

#[tokio::test]
async fn multi_lock_some_locks_fail() {
    let log = Arc::default();
    let lock = |name, acquired, released| -> Arc<dyn InterProcessLock> {
        Arc::new(Scripted { acquired, released, log: Arc::clone(&log), name })
    };
    let (no_auth, quota) = (refused(ErrorCode::NO_AUTH), refused(ErrorCode::QUOTA_EXCEEDED));
    let all = SequentialMultiLock::new(vec![
        lock("a", Ok(()), Err(quota.clone())),
        lock("b", Ok(()), Ok(())),
        lock("c", Err(no_auth.clone()), Ok(())),
        lock("d", Err(LockError::Lost("/d".to_owned())), Ok(())),
    ]);
    let error = all.acquire().await.map(drop).unwrap_err();
    assert_eq!(error, LockError::Several(vec![no_auth, quota]), "the first, and of the roll-back");
    assert_eq!(error.to_string(), "delete /x: NoAuth; delete /x: QuotaExceeded");
    assert_eq!(*log.lock().unwrap(), ["b", "a"], "the fourth was not tried");
    assert!(all.try_acquire().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn acquire_within_has_one_deadline_for_all_locks_and_leaves_nothing() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    let (other, _) = counted(&server).await;
    let kinds = one_of_each(&client).len();
    for busy in 0..kinds {
        if busy == 2 {
            continue; // Readers share this lock.
        }
        let held = one_of_each(&other)[busy].acquire().await.unwrap();
        let all = SequentialMultiLock::new(one_of_each(&client));
        let waits = tokio::spawn(async move {
            let start = client_time();
            let result = all.acquire_within(2 * SECOND).await.map(drop);
            (result, start.elapsed())
        });
        let (result, time) = waits.await.unwrap();
        assert!(matches!(result, Err(LockError::TimedOut(_))));
        assert!((2 * SECOND..2 * SECOND + SOON).contains(&time), "{time:?}");
        held.release().await.unwrap();
        assert_clean(&server).await;
    }
    let all = SequentialMultiLock::new(one_of_each(&client));
    let guard = all.acquire().await.unwrap();
    assert_eq!((guard.guards().len(), guard.state()), (kinds, LockState::Held));
    assert!(all.is_acquired_in_this_process());
    guard.release().await.unwrap();
    assert_clean(&server).await;
}

#[expect(clippy::disallowed_methods, reason = "a test measures what it waited for")]
fn client_time() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[tokio::test]
async fn dropping_a_sequential_acquire_at_any_poll_leaves_nothing() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    for polls in 0..20 {
        let all = SequentialMultiLock::new(one_of_each(&client));
        let mut acquire = Box::pin(all.acquire());
        poll_times(acquire.as_mut(), polls).await;
        drop(acquire);
        client.sync("/").await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(server.totals().ephemerals, 0, "{polls}");
        assert_eq!(server.totals().watches, 0, "{polls}");
    }
}
