//! Nodes, members, shares and leases on an ensemble that loses its leader, and whose servers lag.

use std::time::Duration;

use zoolet::client::{Client, ConnectionState, RetryPolicy};
use zoolet::recipes::{
    GroupMember, LockState, NodeState, NonBlockingLease, Party, PersistentNode, SetPartitioner,
};
use zoolet::testing::TestEnsemble;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than an election and a session timeout.
const LONG: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A client of one server, which repeats what was lost with a connection.
async fn connect_to(ensemble: &TestEnsemble, server: usize) -> Client {
    let retry = RetryPolicy::n_times(1_000, SECOND / 10);
    let builder = Client::builder().retry_policy(retry).session_timeout(4 * SECOND);
    builder.connect(ensemble.server(server).dialer()).await.expect("the server is there")
}

#[tokio::test(start_paused = true)]
async fn what_is_registered_survives_the_loss_of_the_leader() {
    let ensemble = TestEnsemble::start().await.unwrap();
    let (one, two) = (connect_to(&ensemble, 1).await, connect_to(&ensemble, 2).await);
    let node = PersistentNode::builder(&one, "/services/a").data("1").start().unwrap();
    let registered = node.registered_within(LONG).await.unwrap();
    let member = GroupMember::builder(&one, "/group", "one").payload("1").start().unwrap();
    member.registered_within(LONG).await.unwrap();
    let party = Party::new(&two, "/party").unwrap();
    let guest = party.join("two").await.unwrap();
    let joined = guest.registered().await.unwrap();
    let builder = SetPartitioner::builder(&two, "/work", "two", ["a", "b"]);
    let partitioner = builder.time_boundary(SECOND).start().await.unwrap();
    let share = partitioner.acquire().await.unwrap();
    let lease = NonBlockingLease::new(&one, "/lease", "one").unwrap();
    let first = lease.obtain(HOUR).await.unwrap().expect("nobody has it");

    ensemble.lose_leader().unwrap();
    let setting = tokio::time::timeout(LONG, node.set_data("2")).await;
    setting.expect("another leader is elected").unwrap();
    ensemble.serving().await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(node.registered_within(LONG).await.unwrap(), registered, "its session lives on");
    assert_eq!(two.get("/services/a").await.unwrap().0, "2");
    assert_eq!((node.state(), member.state()), (NodeState::Present, NodeState::Present));
    assert_eq!(guest.registered_within(LONG).await.unwrap(), joined);
    assert_eq!((share.state(), share.is_change_requested()), (LockState::Held, false));
    let other = NonBlockingLease::new(&two, "/lease", "two").unwrap();
    assert_eq!(other.obtain(HOUR).await.unwrap(), None);
    let second = lease.obtain(HOUR).await.unwrap().expect("it is renewed");
    assert!(second.fencing_token() > first.fencing_token());
    share.release().await.unwrap();
    node.close().await.unwrap();
    ensemble.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_on_a_cut_off_server_is_suspect_before_its_items_go_to_another() {
    let ensemble = TestEnsemble::builder().sync_limit(100).start().await.unwrap();
    let (one, two) = (connect_to(&ensemble, 1).await, connect_to(&ensemble, 2).await);
    let start = async |client: &Client, identifier: &str| {
        let builder = SetPartitioner::builder(client, "/work", identifier, ["a", "b"]);
        builder.time_boundary(SECOND).start().await.unwrap()
    };
    let first = start(&one, "one").await;
    let share = first.acquire().await.unwrap();
    let token = share.fencing_token("a");
    ensemble.server(1).cut_off();
    let second = start(&two, "two").await;
    let taken = tokio::time::timeout(LONG, second.acquire()).await.unwrap().unwrap();
    assert_ne!(share.state(), LockState::Held, "two would have the items");
    assert!(taken.fencing_token("a") > token);
    assert_eq!(taken.items().len(), 2);
    ensemble.server(1).rejoin();
    share.lost().await;
    drop(share);
    taken.change_requested().await;
    taken.release().await.unwrap();
    let (share, other) = tokio::join!(first.acquire(), second.acquire());
    let (share, other) = (share.unwrap(), other.unwrap());
    assert_eq!((share.items().len(), other.items().len()), (1, 1));
    ensemble.check().unwrap();
}

/// A server that serves reads only refuses the create again and again, with growing pauses.
#[tokio::test(start_paused = true)]
async fn a_node_is_registered_as_soon_as_there_is_a_leader_again() {
    let builder = TestEnsemble::builder().read_only_mode().elect_by_hand();
    let ensemble = builder.start().await.unwrap();
    ensemble.lose_leader().unwrap();
    // The servers wait for a while before they serve reads.
    tokio::time::sleep(10 * SECOND).await;
    let client = Client::builder().allow_read_only().connect(ensemble.dialer()).await.unwrap();
    assert_eq!(*client.state().borrow(), Some(ConnectionState::ReadOnly));
    let node = PersistentNode::builder(&client, "/a").start().unwrap();
    node.registered_within(2 * LONG).await.unwrap_err();
    ensemble.elect(2).unwrap();
    let is_reconnected =
        |state: &Option<ConnectionState>| *state == Some(ConnectionState::Reconnected);
    client.state().wait_for(is_reconnected).await.unwrap();
    node.registered_within(SECOND).await.unwrap();
    ensemble.check().unwrap();
}
