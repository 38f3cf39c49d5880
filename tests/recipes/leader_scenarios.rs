//! Curator's test scenarios of leaders, under Curator's names, and those of locks in which the
//! server stops and restarts with its data.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zoolet::client::{Client, ConnectionState};
use zoolet::protocol::{Acl, Id, Permissions};
use zoolet::recipes::{InterProcessMutex, LeaderLatch, LeaderSelector, LockError, Requeue, Term};
use zoolet::server::storage::{MemDisk, StorageConfig};
use zoolet::server::{Config, Server};

const PATH: &str = "/jobs/leader";
/// Far longer than any step here takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// A server that a test can kill and restart at the same port with its data.
struct Restartable {
    disk: Arc<MemDisk>,
    address: SocketAddr,
    server: Option<Server>,
}

impl Restartable {
    async fn start() -> Self {
        let disk = Arc::default();
        let server = Self::begin(&disk, ([127, 0, 0, 1], 0).into()).await;
        let address = server.local_addr().expect("it listens");
        Self { disk, address, server: Some(server) }
    }

    async fn begin(disk: &Arc<MemDisk>, address: SocketAddr) -> Server {
        let disk = Arc::clone(disk);
        let storage = StorageConfig { disk, ..StorageConfig::at("/data") };
        let config = Config { storage: Some(storage), listen: Some(address), ..Config::default() };
        Server::builder().config(config).start().await.expect("the port is free again")
    }

    fn kill(&mut self) {
        self.server = None;
    }

    async fn restart(&mut self) {
        self.kill();
        // Its connections may take a moment to end, and its port with them.
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.server = Some(Self::begin(&self.disk, self.address).await);
    }

    async fn connect(&self) -> Client {
        Client::connect(self.address.to_string().as_str()).await.expect("the server is there")
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("it does not take this long")
}

#[tokio::test]
async fn latch_cluster_lost_restart() {
    let mut server = Restartable::start().await;
    let (one, other) = (server.connect().await, server.connect().await);
    let first = LeaderLatch::start(&one, PATH, "first").unwrap();
    let term = within(first.await_leadership()).await.unwrap();
    let second = LeaderLatch::start(&other, PATH, "second").unwrap();
    server.kill();
    let mut states = one.state();
    within(states.wait_for(|state| *state == Some(ConnectionState::Suspended))).await.unwrap();
    // Curator's latch gives up leadership here. No other latch can lead yet.
    assert!(first.is_leader() && !second.is_leader());
    server.restart().await;
    within(states.wait_for(|state| *state == Some(ConnectionState::Reconnected))).await.unwrap();
    let again = within(first.await_leadership()).await.unwrap();
    assert_eq!(again.fencing_token(), term.fencing_token(), "the session has survived");
    assert!(!second.is_leader());
    first.close().await.unwrap();
    assert!(
        within(second.await_leadership()).await.unwrap().fencing_token() > term.fencing_token()
    );
    second.close().await.unwrap();
}

#[tokio::test]
async fn latch_participants() {
    let server = Restartable::start().await;
    let client = server.connect().await;
    let first = LeaderLatch::start(&client, PATH, "first").unwrap();
    within(first.await_leadership()).await.unwrap();
    let other = server.connect().await;
    let second = LeaderLatch::start(&other, PATH, "second").unwrap();
    let both = async {
        loop {
            let participants = first.participants().await.unwrap();
            if participants.len() == 2 {
                return participants;
            }
            tokio::task::yield_now().await;
        }
    };
    let participants = within(both).await;
    let ids: Vec<_> = participants.iter().map(|one| (one.id.as_str(), one.leads)).collect();
    assert_eq!(ids, [("first", true), ("second", false)]);
    first.close().await.unwrap();
    within(second.await_leadership()).await.unwrap();
    assert_eq!(second.leader().await.unwrap().expect("it leads").id, "second");
}

#[tokio::test]
async fn latch_acls() {
    let server = Restartable::start().await;
    let client = server.connect().await;
    client.authenticate("digest", "leader:secret").await.unwrap();
    let own = vec![Acl { permissions: Permissions::ALL, id: Id::new("auth", "") }];
    let latch = LeaderLatch::start_with_acl(&client, PATH, "own", own).unwrap();
    let term = within(latch.await_leadership()).await.unwrap();
    let (acl, _) = client.acl(term.path()).await.unwrap();
    assert_eq!(acl[0].id.scheme.as_deref(), Some("digest"));

    // A latch that may not enter the line does not lead, and closes without an error.
    let other = server.connect().await;
    let refused = LeaderLatch::start(&other, PATH, "other").unwrap();
    latch.close().await.unwrap();
    let short = Duration::from_millis(200);
    assert!(matches!(
        refused.await_leadership_within(short).await.unwrap_err(),
        LockError::TimedOut(_)
    ));
    within(refused.close()).await.unwrap();
    assert!(client.children(PATH).await.unwrap().is_empty());
}

/// The participant ahead disappears at each point of the next one's look at the line. One of them
/// leads in the end.
#[tokio::test]
async fn latch_edges() {
    let server = Restartable::start().await;
    let clients = [server.connect().await, server.connect().await, server.connect().await];
    let admin = server.connect().await;
    for moment in 0..30 {
        let start = |number: usize| {
            LeaderLatch::start(&clients[number], PATH, &number.to_string()).unwrap()
        };
        let first = start(0);
        within(first.await_leadership()).await.unwrap();
        let second = start(1);
        let ahead = async {
            loop {
                if let [_, second] = &first.participants().await.unwrap()[..] {
                    return second.path.clone();
                }
            }
        };
        let ahead = within(ahead).await;
        let third = start(2);
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        admin.delete(&ahead).await.unwrap();
        first.close().await.unwrap();
        let leads = async {
            tokio::select! {
                term = second.await_leadership() => term,
                term = third.await_leadership() => term,
            }
        };
        within(leads).await.unwrap();
        second.close().await.unwrap();
        third.close().await.unwrap();
    }
}

/// Curator's close modes `SILENT` and `NOTIFY_LEADER`: here a task that waits on `term` is
/// notified, and no other.
#[tokio::test]
async fn latch_close_modes() {
    let server = Restartable::start().await;
    let client = server.connect().await;
    for closes in [true, false] {
        let latch = LeaderLatch::start(&client, PATH, "one").unwrap();
        within(latch.await_leadership()).await.unwrap();
        let mut told = latch.term();
        if closes {
            latch.close().await.unwrap();
        } else {
            drop(latch);
        }
        // Its watch of `term` reports that there is no leader, or that the latch is closed.
        let over = told.wait_for(Option::is_none).await.map(drop);
        assert!(over.is_ok() || !closes, "the close ends the wait");
    }
}

/// Counts a running function until it returns or is stopped.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn enter(running: Arc<AtomicUsize>) -> Self {
        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "one leads at a time");
        Self(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn selector_cluster_lost_restart() {
    let mut server = Restartable::start().await;
    let running = Arc::new(AtomicUsize::new(0));
    let mut selectors = Vec::new();
    for id in ["first", "second"] {
        let running = Arc::clone(&running);
        let lead = move |_: Term| {
            let running = Arc::clone(&running);
            async move {
                let _running = Running::enter(running);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let client = server.connect().await;
        selectors.push(LeaderSelector::start(&client, PATH, id, Requeue::Always, lead).unwrap());
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.restart().await;
        let leads = async {
            while running.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        within(leads).await;
    }
    for selector in selectors {
        within(selector.close()).await.unwrap();
    }
}

#[tokio::test]
async fn mutex_waiting_process_while_server_is_restarted() {
    let mut server = Restartable::start().await;
    let (holder, waiter) = (server.connect().await, server.connect().await);
    let held = InterProcessMutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    let token = held.fencing_token();
    let waiting = tokio::spawn(async move {
        let mutex = InterProcessMutex::new(&waiter, "/lock").unwrap();
        let guard = mutex.acquire().await.unwrap();
        (guard.fencing_token(), guard.release().await)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.restart().await;
    assert!(!waiting.is_finished(), "the holder's session has survived");
    within(held.release()).await.unwrap();
    let (next, released) = within(waiting).await.unwrap();
    assert!(next > token);
    released.unwrap();
}
