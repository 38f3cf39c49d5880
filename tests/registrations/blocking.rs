//! Tests of the blocking nodes, parties, leases and partitions, one for each kind, on a server in process.

use std::time::Duration;

use zoolet::client::blocking::Client;
use zoolet::protocol::CreateMode;
use zoolet::recipes;
use zoolet::recipes::blocking::{
    GroupMember, MultiNonBlockingLease, NonBlockingLease, Party, PersistentNode, PersistentTtlNode,
    SetPartitioner, ShallowParty,
};
use zoolet::recipes::{LockState, NodeState};
use zoolet::server::blocking::Server;

/// Long enough for everything that does not wait.
const LONG: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

fn stage() -> (Server, Client) {
    let server = Server::start(zoolet::server::Server::builder()).expect("it starts");
    let client = Client::connect(server.dialer()).expect("the server is there");
    (server, client)
}

#[test]
fn nodes_and_group_members_are_there_until_they_are_closed() {
    let (server, client) = stage();
    let options = recipes::PersistentNode::builder(client.ask(), "/nodes/a-");
    let options = options.mode(CreateMode::EphemeralSequential).data("x");
    let node = PersistentNode::start(&client, options).unwrap();
    let path = node.registered_within(LONG).unwrap().path;
    node.set_data("y").unwrap();
    assert_eq!(client.get(&path).unwrap().0, "y");
    assert_eq!(node.state(), NodeState::Present);
    node.close().unwrap();
    let options = recipes::PersistentTtlNode::builder(client.ask(), "/ttl", HOUR);
    let node = PersistentTtlNode::start(&client, options).unwrap();
    node.registered().unwrap();
    node.set_data("z").unwrap();
    node.close().unwrap();
    assert_eq!(client.get("/ttl").unwrap().0, "z");
    let options = recipes::GroupMember::builder(client.ask(), "/group", "one").payload("1");
    let member = GroupMember::start(&client, options).unwrap();
    member.registered_within(LONG).unwrap();
    member.set_payload("2").unwrap();
    assert_eq!(member.members().unwrap()["one"], "2");
    let mut members = member.follow().unwrap();
    assert_eq!(members.changed_within(LONG).unwrap().unwrap()["one"], "2");
    member.set_payload("3").unwrap();
    assert_eq!(members.changed().unwrap()["one"], "3");
    assert_eq!(members.current().len(), 1);
    member.close().unwrap();
    assert_eq!(server.totals().ephemerals, 0);
}

/// The client has a thread of its own, which may have read the group before `follow` returns.
#[test]
fn who_follows_a_group_from_another_thread_is_told_its_first_members() {
    let (_server, client) = stage();
    let options = recipes::GroupMember::builder(client.ask(), "/group", "one");
    let member = GroupMember::start(&client, options).unwrap();
    member.registered_within(LONG).unwrap();
    for attempt in 0..1_000 {
        let mut members = member.follow().unwrap();
        assert!(members.changed_within(LONG).unwrap().is_some(), "{attempt}");
    }
}

#[test]
fn members_of_parties_join_and_leave() {
    let (server, client) = stage();
    let party = Party::new(&client, "/party").unwrap();
    let shallow = ShallowParty::new(&client, "/shallow").unwrap();
    let (one, two) = (party.join("one").unwrap(), shallow.join("two").unwrap());
    assert_eq!((party.participants().unwrap(), party.count().unwrap()), (vec!["one".into()], 1));
    assert_eq!(shallow.participants().unwrap(), ["two"]);
    one.leave().unwrap();
    two.leave().unwrap();
    assert_eq!((party.count(), shallow.count()), (Ok(0), Ok(0)));
    assert_eq!(server.totals().ephemerals, 0);
}

#[test]
fn leases_have_one_holder_and_shares_their_items() {
    let (_server, client) = stage();
    let one = NonBlockingLease::new(&client, "/lease", "one").unwrap();
    let two = NonBlockingLease::new(&client, "/lease", "two").unwrap();
    let lease = one.obtain(HOUR).unwrap().expect("it is free");
    assert_eq!(two.obtain(HOUR).unwrap(), None);
    assert_eq!(two.holder().unwrap().map(|holder| holder.token), Some(lease.fencing_token()));
    assert!(one.give_up(&lease).unwrap());
    let leases = MultiNonBlockingLease::new(&client, "/leases", 2, "one").unwrap();
    assert_eq!(leases.obtain(HOUR).unwrap().map(|(number, _)| number), Some(0));
    let options = recipes::SetPartitioner::builder(client.ask(), "/work", "one", ["b", "a"]);
    let options = options.time_boundary(Duration::from_millis(10));
    let partitioner = SetPartitioner::start(&client, options).unwrap();
    let share = partitioner.acquire().unwrap();
    assert_eq!(share.items().collect::<Vec<_>>(), ["a", "b"]);
    assert!(share.fencing_token("a").is_some() && !share.is_change_requested());
    assert_eq!(share.state(), LockState::Held);
    share.release().unwrap();
    partitioner.finish().unwrap();
}
