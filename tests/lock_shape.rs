//! All locks and guards have the same methods: data and access control lists of their znodes, the
//! paths, `run`, a `Debug` of one line, and what a release returns after the client was closed.

mod wire;

use std::time::Duration;

use wire::stage::{connect, server};
use zoolet::client::{Client, Error};
use zoolet::protocol::{Acl, Permissions};
use zoolet::{
    Guard, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockError, LockGuard, LockState,
    MultiGuard, Owner, Permits, SequentialMultiLock,
};

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

/// The access control list that lets everyone read and the creator do everything else.
fn acl() -> Vec<Acl> {
    let mut read = Acl::open();
    read.permissions = Permissions::READ | Permissions::CREATE | Permissions::DELETE;
    vec![read]
}

#[tokio::test(start_paused = true)]
async fn every_guard_stops_what_it_runs_when_its_lock_is_lost() {
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
    let last = |paths: &[String]| paths.last().expect("it is held by a znode").clone();
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
    let lost = || Err(LockError::Lost);
    let (stopped, ()) = tokio::join!(stopped, lose);
    assert_eq!(stopped, (lost(), lost(), lost(), lost()));
    assert_eq!(multi.release().await, lost());
}

#[tokio::test(start_paused = true)]
async fn every_lock_has_data_and_an_access_control_list() {
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
async fn guards_and_locks_are_printed_in_one_line() {
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
async fn a_release_after_the_client_was_closed_says_so() {
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
        let next = mutex(&other).try_acquire().await.unwrap().expect("the last has released it");
        next.release().await.unwrap();
    }
    assert_eq!(server.totals().ephemerals, 0);
}
