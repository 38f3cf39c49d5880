//! Tests of what all locks and guards have in common: data and access control lists of their
//! znodes, `paths`, `run`, a `Debug` of one line, and what release returns after the client was
//! closed.

use std::time::Duration;

use zoolet::client::{Client, Error};
use zoolet::protocol::{Acl, Permissions};
use zoolet::recipes::{
    Guard, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockError, LockGuard, LockState,
    MultiGuard, Owner, Permits, SequentialMultiLock,
};
use zoolet_test_support::stage::{connect, counted, server};

const SECOND: Duration = Duration::from_secs(1);

fn mutex(client: &Client) -> InterProcessMutex {
    InterProcessMutex::new(client, "/mutex").expect("a path")
}

fn multi(client: &Client) -> InterProcessMultiLock {
    InterProcessMultiLock::new(client, &["/multi/a", "/multi/b"]).expect("paths")
}

fn semaphore(client: &Client) -> InterProcessSemaphoreV2 {
    InterProcessSemaphoreV2::new(client, "/semaphore", 3).expect("a path")
}

/// An access control list that allows everyone to read, and the creator to do everything else.
fn acl() -> Vec<Acl> {
    let mut read = Acl::open();
    read.permissions = Permissions::READ | Permissions::CREATE | Permissions::DELETE;
    vec![read]
}

#[tokio::test(start_paused = true)]
async fn run_of_every_guard_stops_when_its_lock_is_lost() {
    let server = server().await;
    let (client, admin) = (connect(&server).await, connect(&server).await);
    let guard: Guard = mutex(&client).acquire().await.unwrap();
    let multi: MultiGuard = multi(&client).acquire().await.unwrap();
    let permits: Permits = semaphore(&client).acquire(2).await.unwrap();
    let in_turn = InterProcessMutex::new(&client, "/in-turn").unwrap();
    let all = SequentialMultiLock::new(vec![std::sync::Arc::new(in_turn)]);
    let sequential = all.acquire().await.unwrap();
    assert_eq!(guard.run(async { 1 }).await, Ok(1));
    assert_eq!(multi.run(async { 2 }).await, Ok(2));
    assert_eq!(permits.run(async { 3 }).await, Ok(3));
    assert_eq!(sequential.run(async { 4 }).await, Ok(4));
    let last = |paths: &[String]| paths.last().expect("a guard has a path").clone();
    let paths =
        [last(guard.paths()), last(multi.paths()), last(permits.paths()), last(sequential.paths())];
    assert_eq!(guard.path(), paths[0]);
    let lose = async {
        tokio::time::sleep(SECOND).await;
        for path in &paths {
            admin.delete(path).await.unwrap();
        }
    };
    let stopped = async {
        tokio::join!(
            guard.run(std::future::pending::<()>()),
            multi.run(std::future::pending::<()>()),
            permits.run(std::future::pending::<()>()),
            sequential.run(std::future::pending::<()>()),
        )
    };
    let lost = |path: &String| Err(LockError::Lost(path.clone()));
    let (stopped, ()) = tokio::join!(stopped, lose);
    let [of_guard, _, _, of_sequential] = &paths;
    let first = |paths: &[String]| lost(&paths[0]);
    let expected =
        (lost(of_guard), first(multi.paths()), first(permits.paths()), lost(of_sequential));
    assert_eq!(stopped, expected);
    assert_eq!(multi.release().await, lost(&paths[1]));
}

#[tokio::test(start_paused = true)]
async fn every_lock_sets_data_and_the_access_control_list() {
    let server = server().await;
    let client = connect(&server).await;
    let sides = InterProcessReadWriteLock::new(&client, "/sides").unwrap();
    let sides = sides.with_data("who").with_acl(acl());
    let printer = InterProcessSemaphoreMutex::new(&client, "/printer").unwrap();
    let guards: Vec<Box<dyn LockGuard>> = vec![
        Box::new(mutex(&client).with_data("who").with_acl(acl()).acquire().await.unwrap()),
        Box::new(sides.write_lock().acquire().await.unwrap()),
        Box::new(multi(&client).with_data("who").with_acl(acl()).acquire().await.unwrap()),
        Box::new(semaphore(&client).with_data("who").with_acl(acl()).acquire(2).await.unwrap()),
        Box::new(printer.with_data("who").with_acl(acl()).acquire().await.unwrap()),
    ];
    for guard in guards {
        assert!(!guard.paths().is_empty(), "{guard:?}");
        for path in guard.paths() {
            assert_eq!(client.get(path).await.unwrap().0, "who", "{guard:?}");
            assert_eq!(client.acl(path).await.unwrap().0, acl(), "{guard:?}");
            let directory = path.rsplit_once('/').expect("a path").0;
            assert_eq!(client.acl(directory).await.unwrap().0, acl(), "{guard:?}");
        }
        guard.release().await.unwrap();
    }
    assert_eq!(server.totals().ephemerals, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_acquired_in_turn_is_held_by_its_owner() {
    let server = server().await;
    let client = connect(&server).await;
    let all = SequentialMultiLock::new(vec![
        std::sync::Arc::new(mutex(&client)),
        std::sync::Arc::new(multi(&client)),
    ]);
    let owner = Owner::new();
    assert!(!all.is_held_by(owner));
    let guard = all.acquire_as(owner).await.unwrap();
    assert!(all.is_held_by(owner) && !all.is_held_by(Owner::new()));
    assert_eq!(guard.paths().len(), 3);
    guard.release().await.unwrap();
    assert!(!all.is_held_by(owner));
}

#[tokio::test(start_paused = true)]
async fn debug_of_guards_and_locks_is_one_line() {
    let server = server().await;
    let client = connect(&server).await;
    let mutex = mutex(&client);
    let guard = mutex.acquire().await.unwrap();
    let multi_guard = multi(&client).acquire().await.unwrap();
    let permits = semaphore(&client).acquire(2).await.unwrap();
    let state = format!("({:?}, fencing token {:#x})", LockState::Held, guard.fencing_token().0);
    assert_eq!(format!("{guard:?}"), format!("Guard({} {state})", guard.path()));
    for text in [
        format!("{guard:#?}"),
        format!("{multi_guard:?}"),
        format!("{permits:?}"),
        format!("{mutex:?}"),
        format!("{:?}", multi(&client)),
        format!("{:?}", semaphore(&client)),
    ] {
        assert!(!text.contains('\n') && text.len() < 400, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn release_after_the_client_was_closed_returns_closed() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    let guard = mutex(&client).acquire().await.unwrap();
    client.close().await.unwrap();
    assert_eq!(guard.state(), LockState::Lost);
    let next = mutex(&other).acquire_within(SECOND).await.expect("the session released it");
    assert_eq!(guard.release().await, Err(LockError::Client(Error::Closed)));
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_error_names_the_path_of_the_lock() {
    let server = server().await;
    let ((client, counting), other) = (counted(&server).await, connect(&server).await);
    let timed_out = |path: &str| Err(LockError::TimedOut(path.to_owned()));
    let (guard, multi_guard) =
        (mutex(&client).acquire().await.unwrap(), multi(&client).acquire().await.unwrap());
    let permits = semaphore(&client).acquire(3).await.unwrap();
    assert_eq!(mutex(&other).acquire_within(SECOND).await.map(drop), timed_out("/mutex"));
    let waited = multi(&other).acquire_within(SECOND).await.map(drop);
    assert_eq!(waited, timed_out("/multi/a, /multi/b"));
    let waited = semaphore(&other).acquire_within(1, SECOND).await.map(drop);
    assert_eq!(waited, timed_out("/semaphore"));
    let too_many = semaphore(&other).try_acquire(4).await.unwrap_err();
    assert_eq!(
        too_many.to_string(),
        "/semaphore: 4 permits were requested, and the semaphore has 3"
    );
    // The error of an expired session names no znode, so the lock adds its path.
    counting.refuse(true);
    counting.cut();
    tokio::time::sleep(120 * SECOND).await;
    counting.refuse(false);
    assert_eq!((guard.state(), permits.state()), (LockState::Lost, LockState::Lost));
    let lost = |path: &str| Err(LockError::Lost(path.to_owned()));
    let path = guard.path().to_owned();
    let first = permits.paths()[0].clone();
    assert_eq!(guard.transaction(Vec::new()).await.map(drop), lost(&path));
    assert_eq!(guard.release().await, lost(&path));
    let paths: Vec<_> = multi_guard.paths().iter().rev().cloned().collect();
    assert_eq!(multi_guard.release().await, lost(&paths.join(", ")));
    assert_eq!(permits.transaction(Vec::new()).await.map(drop), lost(&first));
}

#[tokio::test(start_paused = true)]
async fn guards_that_are_released_at_the_same_time_release_the_lock() {
    let server = server().await;
    let (client, other) = (connect(&server).await, connect(&server).await);
    for _ in 0..20 {
        let guard = mutex(&client).acquire().await.unwrap();
        let (second, third) = (guard.reenter(), guard.reenter());
        let (one, two) = tokio::join!(guard.release(), second.release());
        assert_eq!((one, two), (Ok(()), Ok(())));
        assert!(mutex(&other).try_acquire().await.unwrap().is_none(), "the third holds it");
        third.release().await.unwrap();
        let next =
            mutex(&other).try_acquire().await.unwrap().expect("the last guard has released it");
        next.release().await.unwrap();
    }
    assert_eq!(server.totals().ephemerals, 0);
}
