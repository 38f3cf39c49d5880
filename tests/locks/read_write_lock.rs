//! Tests of the read-write lock on a server in process: the seventeen cases of which acquire
//! follows which, and what readers cost behind writers.

use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::{OpCode, WatchMode};
use zoolet::recipes::{
    Guard, InterProcessMutex, InterProcessReadWriteLock, LockError, LockState, Owner,
};
use zoolet::server::Server;
use zoolet_test_support::counting::Counting;
use zoolet_test_support::stage::{counted, server};

/// Enough for everything that does not wait: the paused clock advances when no task can run.
const SOON: Duration = Duration::from_millis(100);

async fn lock(server: &Server) -> (InterProcessReadWriteLock, Counting) {
    let (client, counting) = counted(server).await;
    (InterProcessReadWriteLock::new(&client, "/a").expect("a path"), counting)
}

/// The guard, if the lock is acquired without waiting for another client.
async fn at_once(acquire: impl Future<Output = Result<Guard, LockError>>) -> Option<Guard> {
    let result = tokio::time::timeout(SOON, acquire).await.ok()?;
    Some(result.expect("nothing goes wrong"))
}

async fn names(lock: &InterProcessReadWriteLock) -> Vec<String> {
    let mut paths = lock.read_lock().participants().await.expect("a list");
    paths.extend(lock.write_lock().participants().await.expect("a list"));
    let mut names: Vec<_> = paths.iter().map(|path| path[path.len() - 18..].to_owned()).collect();
    names.sort_by_key(|name| name[8..].to_owned());
    names
}

#[tokio::test(start_paused = true)]
async fn an_owner_acquires_again_and_reads_beside_writing_but_cannot_upgrade() {
    let server = server().await;
    let (lock, counting) = lock(&server).await;
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let owner = Owner::new();

    // 1: read after read costs nothing.
    let reading = read.acquire_as(owner).await.unwrap();
    counting.take_requests();
    let again = read.acquire_as(owner).await.unwrap();
    let tried = read.try_acquire_as(owner).await.unwrap().expect("it reads");
    assert_eq!(counting.take_requests(), []);
    // 2, 16: write after read would wait for itself, and fails at once.
    assert!(matches!(write.acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    let within = write.acquire_within_as(SOON, owner).await;
    assert!(matches!(within, Err(LockError::WouldDeadlock(_))));
    assert!(matches!(write.try_acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    assert_eq!(names(&lock).await, ["__READ__0000000000"]);
    drop((reading, again, tried));

    // 4: write after write costs nothing.
    let writing = write.acquire_as(owner).await.unwrap();
    counting.take_requests();
    let again = write.acquire_within_as(SOON, owner).await.unwrap();
    assert_eq!(counting.take_requests(), []);
    drop(again);
    // 3, 11: read after write takes the writer's number, with one multi, which also checks that the
    // writer's znode exists.
    let reading = read
        .try_acquire_as(owner)
        .await
        .unwrap()
        .expect("the owner may read beside its write lock");
    assert_eq!(counting.take_requests(), [(OpCode::MULTI, 1)]);
    assert_eq!(names(&lock).await, ["__READ__0000000001", "__WRIT__0000000001"]);
    assert_eq!(reading.fencing_token(), writing.fencing_token());
    assert!(read.is_held_by(owner) && write.is_held_by(owner));
    writing.release().await.unwrap();
    assert_eq!(names(&lock).await, ["__READ__0000000001"]);
    assert!(read.is_held_by(owner) && !write.is_held_by(owner));
    // An upgrade is still refused.
    assert!(matches!(write.acquire_as(owner).await, Err(LockError::WouldDeadlock(_))));
    reading.release().await.unwrap();
    assert!(at_once(write.acquire_as(owner)).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_guard_admits_reads_beside_it_and_a_read_guard_no_upgrade() {
    let server = server().await;
    let (lock, counting) = lock(&server).await;
    let (read, write) = (lock.read_lock(), lock.write_lock());

    // 1: read after read, by the guard; 2, 16: no upgrade from there.
    let reading = read.acquire().await.unwrap();
    counting.take_requests();
    let again = reading.reenter();
    assert_eq!(counting.take_requests(), []);
    assert!(at_once(write.acquire()).await.is_none());
    let own = write.acquire_as(again.owner()).await;
    assert!(matches!(own, Err(LockError::WouldDeadlock(_))));
    // 10: also with a writer in line.
    let writer = tokio::spawn(async move { write.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    assert!(at_once(read.acquire()).await.is_none());
    let third = again.reenter();
    drop((reading, again));
    tokio::time::sleep(SOON).await;
    assert!(!writer.is_finished(), "the last guard still reads");
    drop(third);

    // 3, 4, 11: read after write and write after write.
    let writing = writer.await.unwrap();
    counting.take_requests();
    let again = writing.reenter();
    assert_eq!(counting.take_requests(), []);
    assert!(at_once(read.acquire()).await.is_none(), "each acquire enters the line by itself");
    counting.take_requests();
    let beside = read.acquire_beside(&writing).await.unwrap();
    assert_eq!(counting.take_requests(), [(OpCode::MULTI, 1)]);
    let also = read.acquire_beside(&again).await.unwrap();
    assert_eq!(counting.take_requests(), []);
    assert_eq!(beside.fencing_token(), writing.fencing_token());
    drop((writing, again));
    assert!(at_once(lock.write_lock().acquire()).await.is_none());
    drop((beside, also));

    // A guard of the other side, or of another lock, does not admit a read.
    let reading = read.acquire().await.unwrap();
    assert!(matches!(read.acquire_beside(&reading).await, Err(LockError::Foreign(_))));
    drop(reading);
    assert!(at_once(lock.write_lock().acquire()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_read_beside_a_write_lock_is_resolved() {
    let server = server().await;
    let (lock, counting) = lock(&server).await;
    let writing = lock.write_lock().acquire().await.unwrap();
    for is_owner_named in [true, false] {
        for (requests_lost, answers) in [(0, 0), (1, -1), (3, -1)] {
            counting.lose_multis(requests_lost);
            counting.cut_after(answers);
            let reading = match is_owner_named {
                true => lock.read_lock().acquire_as(writing.owner()).await,
                false => lock.read_lock().acquire_beside(&writing).await,
            };
            let reading = reading.expect("the write lock is held");
            assert_eq!(names(&lock).await, ["__READ__0000000000", "__WRIT__0000000000"]);
            counting.cut_after(-1);
            reading.release().await.unwrap();
        }
    }
    // No connection for longer than a request waits for one.
    let (client, counting) = counted(&server).await;
    let lock = InterProcessReadWriteLock::new(&client, "/b").unwrap();
    let writing = lock.write_lock().acquire().await.unwrap();
    counting.refuse(true);
    counting.cut();
    let later = async {
        tokio::time::sleep(client.session_timeout() / 2).await;
        counting.refuse(false);
    };
    let read = lock.read_lock();
    let (reading, ()) = tokio::join!(read.acquire_beside(&writing), later);
    reading.expect("the write lock is held").release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_client_may_read_beside_a_reader_and_nothing_beside_a_writer() {
    let server = server().await;
    let (one, _) = lock(&server).await;
    let (two, _) = lock(&server).await;

    // 5: write after read waits; 8: read after read does not.
    let reading = one.read_lock().acquire().await.unwrap();
    assert!(at_once(two.write_lock().acquire()).await.is_none());
    let also = at_once(two.read_lock().acquire()).await.expect("readers share");
    drop((reading, also));
    // 6, 7: read and write after write wait.
    let writing = one.write_lock().acquire().await.unwrap();
    assert!(at_once(two.read_lock().acquire()).await.is_none());
    assert!(at_once(two.write_lock().acquire()).await.is_none());
    // 15: another owner of the same object waits, too.
    assert!(at_once(one.read_lock().acquire()).await.is_none());
    drop(writing);
    // 14: a second object of the same owner gets `WouldDeadlock`.
    let client = Client::connect(server.dialer()).await.unwrap();
    let objects = [(), ()].map(|()| InterProcessReadWriteLock::new(&client, "/a").unwrap());
    let writing = objects[0].write_lock().acquire().await.unwrap();
    let second = objects[1].read_lock().acquire_as(writing.owner()).await;
    assert!(matches!(second, Err(LockError::WouldDeadlock(_))));
    drop(writing);
    assert!(at_once(two.read_lock().acquire()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_writer_precedes_later_readers() {
    let server = server().await;
    let (one, _) = lock(&server).await;
    let (two, _) = lock(&server).await;
    let reading = one.read_lock().acquire().await.unwrap();
    let write = two.write_lock();
    let waiting = tokio::spawn(async move { write.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    // 9: a new reader waits; 10: a reader that already holds the lock does not.
    assert!(at_once(two.read_lock().acquire()).await.is_none());
    let owner = reading.owner();
    let again = at_once(one.read_lock().acquire_as(owner)).await.expect("the owner reads already");
    drop((reading, again));
    let writing = waiting.await.unwrap();
    assert!(at_once(one.read_lock().acquire()).await.is_none());
    drop(writing);
    assert!(at_once(one.read_lock().acquire()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_downgraded_writer_admits_readers_and_no_writer() {
    let server = server().await;
    let (one, _) = lock(&server).await;
    let (two, _) = lock(&server).await;
    let writing = one.write_lock().acquire().await.unwrap();
    // 12, 13: a writer and a reader wait.
    let (write, read) = (two.write_lock(), two.read_lock());
    let writer = tokio::spawn(async move { write.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    let reading = one.read_lock().acquire_beside(&writing).await.unwrap();
    writing.release().await.unwrap();
    tokio::time::sleep(SOON).await;
    assert!(!writer.is_finished(), "a writer came in between");
    let reader = tokio::spawn(async move { read.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    assert!(!reader.is_finished(), "a reader overtook the writer");
    reading.release().await.unwrap();
    drop(writer.await.unwrap());
    drop(reader.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_behind_many_writers_are_woken_once() {
    let server = server().await;
    let (first, _) = lock(&server).await;
    let writing = first.write_lock().acquire().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let (lock, counting) = lock(&server).await;
        let task = tokio::spawn(async move { drop(lock.write_lock().acquire().await.unwrap()) });
        tokio::time::sleep(SOON).await;
        tasks.push((task, counting));
    }
    for _ in 0..20 {
        let (lock, counting) = lock(&server).await;
        let task = tokio::spawn(async move { drop(lock.read_lock().acquire().await.unwrap()) });
        tokio::time::sleep(SOON).await;
        tasks.push((task, counting));
    }
    writing.release().await.unwrap();
    let mut requests = 0;
    for (task, counting) in tasks {
        task.await.unwrap();
        let counts = counting.take_requests();
        let counts = counts.iter().filter(|(op, _)| *op != OpCode::CLOSE_SESSION);
        requests += counts.map(|(_, count)| count).sum::<usize>();
    }
    // Each client enters with two requests, waits with one and releases with one. Curator needs 429
    // packets for the same line, because each end of a writer wakes all readers.
    assert_eq!(requests, 30 * 4);
}

#[tokio::test(start_paused = true)]
async fn alternating_readers_and_writers_hand_over_without_a_request() {
    let server = server().await;
    let (first, _) = lock(&server).await;
    let mut held = first.write_lock().acquire().await.unwrap();
    let mut waiting = Vec::new();
    for number in 1..=9 {
        let (lock, counting) = lock(&server).await;
        let task = tokio::spawn(async move {
            if number % 2 == 1 {
                lock.read_lock().acquire().await.unwrap()
            } else {
                lock.write_lock().acquire().await.unwrap()
            }
        });
        tokio::time::sleep(SOON).await;
        waiting.push((task, counting));
    }
    for (task, counting) in waiting {
        let lists = counting.take_requests();
        assert!(lists.contains(&(OpCode::GET_CHILDREN, 1)), "one to enter: {lists:?}");
        held.release().await.unwrap();
        held = task.await.unwrap();
        assert_eq!(counting.take_requests(), [], "the hand-over costs no request");
    }
}

/// Asserts that a waiting writer acquires the lock after the last of these readers has released it,
/// and not before.
async fn writes_after_all(server: &Server, readers: impl IntoIterator<Item = Guard>) {
    let (last, _) = lock(server).await;
    let mut writing =
        tokio::spawn(async move { last.write_lock().acquire().await.expect("its turn comes") });
    tokio::time::sleep(SOON).await;
    for reader in readers {
        assert!(
            tokio::time::timeout(SOON, &mut writing).await.is_err(),
            "a reader still holds the lock"
        );
        reader.release().await.expect("it is held");
    }
    drop(writing.await.expect("it does not panic"));
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_all_readers_after_the_front_reader_left() {
    let server = server().await;
    for is_first_the_first_to_leave in [true, false] {
        let (first, _) = lock(&server).await;
        let writing = first.write_lock().acquire().await.unwrap();
        let mut readers = Vec::new();
        for _ in 0..3 {
            let (lock, _) = lock(&server).await;
            readers.push(tokio::spawn(async move { lock.read_lock().acquire().await.unwrap() }));
            tokio::time::sleep(SOON).await;
        }
        writing.release().await.unwrap();
        let mut reading = Vec::new();
        for reader in readers {
            reading.push(reader.await.unwrap());
        }
        if !is_first_the_first_to_leave {
            reading.reverse();
        }
        writes_after_all(&server, reading).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_all_readers_behind_a_downgraded_writer() {
    let server = server().await;
    let (first, _) = lock(&server).await;
    let writing = first.write_lock().acquire().await.unwrap();
    let reading_on = first.read_lock().acquire_beside(&writing).await.unwrap();
    let (second, _) = lock(&server).await;
    let reader = tokio::spawn(async move { second.read_lock().acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    writing.release().await.unwrap();
    let reading = reader.await.unwrap();
    writes_after_all(&server, [reading, reading_on]).await;
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_costs_one_request_and_admits_no_writer() {
    let server = server().await;
    let (one, counting) = lock(&server).await;
    let (two, _) = lock(&server).await;
    let writing = one.write_lock().acquire().await.unwrap();
    let token = writing.fencing_token();
    let (read, write) = (two.read_lock(), two.write_lock());
    let reader = tokio::spawn(async move { read.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    let writer = tokio::spawn(async move { write.acquire().await.unwrap() });
    tokio::time::sleep(SOON).await;
    counting.take_requests();
    let reading = one.downgrade(writing).await.unwrap();
    assert_eq!(counting.take_requests(), [(OpCode::MULTI, 1)]);
    assert_eq!(reading.fencing_token(), token, "queued writers have greater ones");
    drop(reader.await.unwrap());
    tokio::time::sleep(SOON).await;
    assert!(!writer.is_finished(), "a writer is beside a reader");
    let owner = reading.owner();
    let also = at_once(one.read_lock().acquire_as(owner)).await.expect("the owner reads already");
    drop(reading);
    tokio::time::sleep(SOON).await;
    assert!(!writer.is_finished(), "a writer is beside a reader");
    drop(also);
    drop(writer.await.unwrap());
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn downgrading_one_of_two_write_guards_keeps_the_write_lock() {
    let server = server().await;
    let (one, _) = lock(&server).await;
    let (two, _) = lock(&server).await;
    let writing = one.write_lock().acquire().await.unwrap();
    let again = writing.reenter();
    let reading = one.downgrade(again).await.unwrap();
    assert!(at_once(two.read_lock().acquire()).await.is_none());
    let also = one.downgrade(writing).await.unwrap();
    assert!(at_once(two.read_lock().acquire()).await.is_some());
    assert!(at_once(two.write_lock().acquire()).await.is_none());
    drop((reading, also));
    let foreign = two.write_lock().acquire().await.unwrap();
    assert!(matches!(one.downgrade(foreign).await, Err(LockError::Foreign(_))));
    assert!(at_once(one.write_lock().acquire()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_survives_a_lost_reply_and_dropping_it_releases_both_locks() {
    let server = server().await;
    let (one, counting) = lock(&server).await;
    for answers in 0..2 {
        let writing = one.write_lock().acquire().await.unwrap();
        counting.cut_after(answers);
        let reading = one.downgrade(writing).await.unwrap();
        counting.cut_after(-1);
        assert_eq!(names(&one).await.len(), 1);
        assert!(one.read_lock().is_acquired_in_this_process());
        assert!(!one.write_lock().is_acquired_in_this_process());
        reading.release().await.unwrap();
    }
    for polls in 0..4 {
        let writing = one.write_lock().acquire().await.unwrap();
        let mut downgrade = Box::pin(one.downgrade(writing));
        for _ in 0..polls {
            let poll = std::future::poll_fn(|context| {
                std::task::Poll::Ready(downgrade.as_mut().poll(context).is_ready())
            });
            if poll.await {
                break;
            }
        }
        drop(downgrade);
        tokio::time::sleep(SOON).await;
        assert_eq!(server.totals().ephemerals, 0, "{polls}");
    }
    let writing = one.write_lock().acquire().await.unwrap();
    let (other, _) = lock(&server).await;
    let client = Client::connect(server.dialer()).await.unwrap();
    client.delete(writing.path()).await.unwrap();
    assert!(matches!(one.downgrade(writing).await, Err(LockError::Lost(_))));
    assert!(at_once(other.write_lock().acquire()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn read_write_node_data() {
    let server = server().await;
    let client = Client::connect(server.dialer()).await.unwrap();
    let plain = InterProcessReadWriteLock::new(&client, "/plain").unwrap();
    let named = InterProcessReadWriteLock::new(&client, "/named").unwrap().with_data("who");
    for (lock, expected) in [(plain, None), (named, Some("who"))] {
        let writing = lock.write_lock().acquire().await.unwrap();
        let reading = lock.read_lock().acquire_beside(&writing).await.unwrap();
        for guard in [&writing, &reading] {
            let (data, _) = client.get(guard.path()).await.unwrap();
            let text = std::str::from_utf8(&data).unwrap();
            match expected {
                Some(expected) => assert_eq!(text, expected),
                // Curator's default: the address of the machine, as text.
                None => assert!(text.parse::<std::net::IpAddr>().is_ok(), "{text}"),
            }
        }
    }
}

#[tokio::test]
async fn trying_a_held_lock_costs_one_read() {
    let server = server().await;
    let (one, _) = lock(&server).await;
    let (two, counting) = lock(&server).await;
    for is_writing in [true, false] {
        let held = match is_writing {
            true => one.write_lock().acquire().await.unwrap(),
            false => one.read_lock().acquire().await.unwrap(),
        };
        counting.take_requests();
        assert!(two.write_lock().try_acquire().await.unwrap().is_none());
        assert_eq!(counting.take_requests(), [(OpCode::GET_CHILDREN, 1)], "write, {is_writing}");
        let read = two.read_lock().try_acquire().await.unwrap();
        assert_eq!(read.is_none(), is_writing);
        held.release().await.unwrap();
    }
    counting.take_requests();
    assert!(two.write_lock().try_acquire().await.unwrap().is_some());
    let requests = counting.take_requests();
    assert!(requests.contains(&(OpCode::GET_CHILDREN, 2)), "before and behind it: {requests:?}");
}

/// A client, and the path of a znode that has room in one of its requests and not twice.
async fn client_and_long_path(server: &Server) -> (Client, String) {
    let builder = Client::builder().jute_max_buffer(1);
    let client = builder.connect(server.dialer()).await.expect("it listens");
    let path = format!("/{}", "a".repeat(270_000));
    client.create(&path).await.expect("it is new");
    (client, path)
}

/// The request that releases it names the znode twice, and is too long. A delete is not.
#[tokio::test(start_paused = true)]
async fn a_write_lock_with_a_very_long_path_is_released() {
    let server = server().await;
    let (client, path) = client_and_long_path(&server).await;
    let lock = InterProcessReadWriteLock::new(&client, &path).expect("a path");
    drop(lock.write_lock().acquire().await.unwrap());
    tokio::time::sleep(SOON).await;
    assert_eq!(lock.write_lock().participants().await.unwrap(), Vec::<String>::new());
    lock.write_lock().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_lock_with_a_very_long_path_is_released_before_its_session_is_handed_over() {
    let server = server().await;
    let (client, path) = client_and_long_path(&server).await;
    let lock = InterProcessReadWriteLock::new(&client, &path).expect("a path");
    drop(lock.write_lock().acquire().await.unwrap());
    let session = client.hand_over().expect("there is one");
    let next = Client::builder().session(session).connect(server.dialer()).await.unwrap();
    tokio::time::sleep(SOON).await;
    assert_eq!(next.children(&path).await.unwrap().iter().count(), 0);
}

/// The watch on the znode is too long where a persistent one is set again with it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_watched_is_not_told_as_lost() {
    let server = server().await;
    let (client, path) = client_and_long_path(&server).await;
    let guard = InterProcessMutex::new(&client, &path).unwrap().acquire().await.unwrap();
    let _watcher = client.watch(guard.path(), WatchMode::PERSISTENT).await.unwrap();
    let told = tokio::time::timeout(3 * client.session_timeout(), guard.lost()).await;
    assert!(told.is_err() && guard.state() == LockState::Held);
    let deletes = async {
        tokio::time::sleep(SOON).await;
        client.delete(guard.path()).await.unwrap();
        tokio::time::sleep(client.session_timeout()).await;
    };
    let ran = guard.run(deletes).await;
    assert!(matches!(ran, Err(LockError::Lost(_))), "the checks tell it");
}
