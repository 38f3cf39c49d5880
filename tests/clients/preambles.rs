//! Connections that are lost before the server has answered what they begin with: credentials and watches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet::client::{Client, ConnectionState};
use zoolet::protocol::OpCode;
use zoolet::recipes::{InterProcessMutex, LockState};
use zoolet::testing::{Fate, Fault, TestServer};

const SECOND: Duration = Duration::from_secs(1);
const WATCHES: OpCode = OpCode::SET_WATCHES;

async fn connect(server: &TestServer) -> Client {
    let builder = Client::builder().session_timeout(10 * SECOND);
    builder.connect(server.dialer()).await.expect("it listens")
}

/// Cuts the connection. The next requests of this operation have these fates. Also returns how many came.
fn cut(
    server: &TestServer,
    client: &Client,
    op: OpCode,
    fates: Vec<Fate>,
) -> (Fault, Arc<AtomicUsize>) {
    let came = Arc::new(AtomicUsize::new(0));
    let (count, mut fates) = (Arc::clone(&came), fates.into_iter());
    let fault = server.everyone().decide(move |request| {
        if request.op != op {
            return Fate::Pass;
        }
        count.fetch_add(1, Ordering::SeqCst);
        fates.next().unwrap_or(Fate::Pass)
    });
    server.session(client.session_id()).cut().expect("it is connected");
    (fault.expect("a server with clients"), came)
}

/// Connections of long ago are no reason to give a session up: neither those of another session, nor those
/// before one that began without watches.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_once_does_not_cost_the_session() {
    for is_expired in [false, true] {
        let server = TestServer::start().await.unwrap();
        let client = connect(&server).await;
        let watcher = client.exists("/a").and_watch().await.unwrap().watcher;
        let last = if is_expired { Fate::ExpireBefore } else { Fate::CutBefore };
        let (fault, came) = cut(&server, &client, WATCHES, vec![Fate::CutBefore, last]);
        while came.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop((watcher, fault));
        let guard = InterProcessMutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
        let session = client.session_id();
        tokio::time::sleep(3_600 * SECOND).await;
        let _watcher = client.exists("/b").and_watch().await.unwrap().watcher;
        let (_fault, came) = cut(&server, &client, WATCHES, vec![Fate::CutBefore]);
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(came.load(Ordering::SeqCst), 2);
        assert_eq!((client.session_id(), guard.state()), (session, LockState::Held));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_given_up_is_told_as_lost_and_short_credentials_stay() {
    let server = TestServer::start().await.unwrap();
    let client = connect(&server).await;
    let session = client.session_id();
    let (mut changes, states) = (client.state(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&states);
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            seen.lock().unwrap().push(*changes.borrow_and_update());
        }
    });
    let (_fault, _) = cut(&server, &client, OpCode::AUTH, vec![Fate::CutBefore; 20]);
    client.authenticate("digest", "me:secret").await.unwrap();
    tokio::time::sleep(60 * SECOND).await;
    assert_ne!(client.session_id(), session);
    assert!(states.lock().unwrap().contains(&Some(ConnectionState::Lost)), "{states:?}");
    let identities = client.who_am_i().await.unwrap();
    let is_digest = |scheme: Option<&str>| scheme == Some("digest");
    assert!(identities.iter().any(|it| is_digest(it.scheme.as_deref())), "{identities:?}");
}
