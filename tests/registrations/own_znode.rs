//! A node knows its own znode: it writes nothing to one that replaced it without its knowledge, and
//! takes none of another node of the same client.

use std::time::Duration;

use zoolet::client::{Client, Parents};
use zoolet::protocol::{Acl, CreateMode, OpCode, Permissions};
use zoolet::recipes::{GroupMember, NodeEvent, NodeState, Origin, PersistentNode};
use zoolet::testing::RequestFilter;

use super::stage::{LONG, PATH, SECOND, SOON, next, stage};

/// Replaces the znode by an ephemeral of this client whose data is set so many times.
async fn replace(other: &Client, acl: Vec<Acl>, sets: usize) {
    other.delete(PATH).await.expect("it is there");
    other.create(PATH).mode(CreateMode::Ephemeral).acl(acl).await.expect("it is gone");
    for set in 0..sets {
        other.set(PATH, format!("theirs {set}")).await.expect("it is their own");
    }
}

/// How a program is kept from learning that its znode was replaced.
#[derive(Debug, Clone, Copy)]
enum Unaware {
    /// It is connected, and the messages to it are late, as after a stop of the program.
    Frozen,
    /// It has no connection.
    CutOff,
}

/// Also if the other has set its data as often, so that the version is the same.
#[tokio::test(start_paused = true)]
async fn what_is_set_is_not_written_to_the_znode_that_replaced_the_own_one() {
    for unaware in [Unaware::Frozen, Unaware::CutOff] {
        for (own_sets, their_sets) in [(0, 0), (0, 1), (1, 0), (3, 3)] {
            let what = format!("{unaware:?} {own_sets} {their_sets}");
            let (server, client) = stage().await;
            let other = server.connect().await.unwrap();
            let node = PersistentNode::builder(&client, PATH).data("ours").start().unwrap();
            let first = node.registered_within(SECOND).await.unwrap();
            for set in 0..own_sets {
                node.set_data(format!("ours {set}")).await.unwrap();
            }
            let mut events = node.events();
            let session = server.session(client.session_id());
            let fault = match unaware {
                Unaware::Frozen => session.freeze().unwrap(),
                Unaware::CutOff => {
                    let refusing = session.refuse().unwrap();
                    session.cut().unwrap();
                    refusing
                }
            };
            replace(&other, vec![Acl::open()], their_sets).await;
            let theirs = other.get(PATH).await.unwrap();
            let setting = node.set_data("ours, too late");
            assert!(tokio::time::timeout(SOON, setting).await.is_err(), "{what}");
            fault.lift();
            assert_eq!(next(&mut events).await, NodeEvent::Lost { path: PATH.into() }, "{what}");
            let occupied = NodeEvent::Occupied { path: PATH.into(), owner: other.session_id() };
            assert_eq!(next(&mut events).await, occupied, "{what}");
            tokio::time::sleep(LONG).await;
            assert_eq!(other.get(PATH).await.unwrap(), theirs, "{what}");
            // The data waits for the name.
            other.delete(PATH).await.unwrap();
            let again = node.registered_within(SECOND).await.unwrap();
            assert!(again.czxid > first.czxid && again.origin == Origin::Created, "{what}");
            assert_eq!(other.get(PATH).await.unwrap().0, "ours, too late", "{what}");
        }
    }
}

/// The znode is replaced behind the look, so that only the version tells.
#[tokio::test(start_paused = true)]
async fn what_is_set_is_not_written_to_a_znode_that_replaced_the_own_one_after_the_look() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let member = GroupMember::builder(&client, "/services", "a").payload("ours").start().unwrap();
    member.registered_within(SECOND).await.unwrap();
    // The server has answered the look, and the client does not know.
    let held = server.session(client.session_id()).hold().unwrap();
    let setting = member.set_payload("ours, too late");
    assert!(tokio::time::timeout(SOON, setting).await.is_err());
    replace(&other, vec![Acl::open()], 1).await;
    let theirs = other.get(PATH).await.unwrap();
    // The event that tells of it is lost, so that the member goes on with the answer to its look.
    server.session(client.session_id()).cut().unwrap();
    held.lift();
    tokio::time::sleep(LONG).await;
    assert_eq!(other.get(PATH).await.unwrap(), theirs);
    assert_eq!(member.state(), NodeState::Missing);
    let members = member.members().await.unwrap();
    assert_eq!(members["a"], "theirs 0");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_written_to_the_own_znode_and_to_no_other() {
    for permissions in [Permissions::WRITE, Permissions::WRITE | Permissions::ADMIN] {
        for is_replaced in [false, true] {
            let (server, client) = stage().await;
            let admin = server.connect().await.unwrap();
            let mut unreadable = Acl::open();
            unreadable.permissions = permissions;
            admin.create("/services").await.unwrap();
            let builder = PersistentNode::builder(&client, PATH).acl(vec![unreadable.clone()]);
            let node = builder.start().unwrap();
            node.registered_within(SECOND).await.unwrap();
            node.set_data("ours").await.unwrap();
            let session = client.session_id();
            let frozen = server.session(session).freeze().unwrap();
            if is_replaced {
                replace(&admin, vec![unreadable], 1).await;
            }
            let sets = || server.stats().session(session).requests.of(OpCode::SET_DATA);
            let before = sets();
            let setting = node.set_data("ours, later");
            assert!(tokio::time::timeout(SOON, setting).await.is_err());
            frozen.lift();
            tokio::time::sleep(LONG).await;
            assert_eq!(sets() - before, u64::from(!is_replaced), "{permissions:?}");
            assert_eq!(node.state() == NodeState::Present, !is_replaced);
        }
    }
}

/// Others may set the data, and the reply to a write may be lost: the node writes all the same.
#[tokio::test(start_paused = true)]
async fn the_own_znode_is_written_whoever_has_set_it_meanwhile() {
    for mode in [CreateMode::Ephemeral, CreateMode::Persistent] {
        for lost in 0..3 {
            let (server, client) = stage().await;
            let other = server.connect().await.unwrap();
            let node = PersistentNode::builder(&client, PATH).mode(mode).start().unwrap();
            let first = node.registered_within(SECOND).await.unwrap();
            tokio::time::sleep(SOON).await;
            other.set(PATH, "theirs").await.unwrap();
            let filter = RequestFilter::next(1).after(lost).below("/services");
            let session = server.session(client.session_id());
            let _fault = session.cut_before_reply(filter).unwrap();
            node.set_data("ours").await.unwrap();
            assert_eq!(other.get(PATH).await.unwrap().0, "ours", "{mode:?} {lost}");
            assert_eq!(node.registered().await.unwrap(), first, "{mode:?} {lost}");
        }
    }
}

/// The names of all nodes, and those in the directory.
async fn names(nodes: &[PersistentNode], client: &Client) -> (Vec<String>, Vec<String>) {
    let mut own = Vec::new();
    for node in nodes {
        own.push(node.registered_within(LONG).await.expect("it is registered").path);
    }
    own.sort_unstable();
    let mut there = client.children("/line").await.expect("it is there").to_vec();
    there.sort_unstable();
    (own, there.into_iter().map(|name| format!("/line/{name}")).collect())
}

#[tokio::test(start_paused = true)]
async fn a_node_does_not_take_the_numbered_znode_of_another_for_its_own() {
    // The create is lost on its way, or its reply is.
    for arrives in [false, true] {
        for lost in 0..4 {
            let (server, client) = stage().await;
            client.create("/line").await.unwrap();
            let start = || {
                let builder = PersistentNode::builder(&client, "/line/a-").data("same");
                builder.mode(CreateMode::EphemeralSequential).start().unwrap()
            };
            let mut nodes = vec![start()];
            nodes[0].registered_within(SECOND).await.unwrap();
            tokio::time::sleep(SOON).await;
            let filter = RequestFilter::next(1).after(lost).below("/line");
            let session = server.session(client.session_id());
            let fault = match arrives {
                false => session.drop_requests(filter).unwrap(),
                true => session.cut_before_reply(filter).unwrap(),
            };
            nodes.extend([start(), start()]);
            tokio::time::sleep(SOON).await;
            fault.lift();
            server.session(client.session_id()).cut().unwrap();
            let (own, there) = names(&nodes, &client).await;
            assert_eq!((own.len(), &own), (3, &there), "{arrives} {lost}");
            for node in nodes {
                node.close().await.unwrap();
            }
            let left = client.children("/line").await.unwrap().to_vec();
            assert!(left.is_empty(), "{arrives} {lost}: {left:?}");
        }
    }
}

/// A namespace of the client names the same znodes by other paths.
#[tokio::test(start_paused = true)]
async fn nodes_of_a_namespace_are_told_from_those_of_its_client() {
    let (server, client) = stage().await;
    client.create("/app/line").parents(Parents::Persistent).await.unwrap();
    let start = |client: &Client, path: &str| {
        let builder = PersistentNode::builder(client, path).data("same");
        builder.mode(CreateMode::EphemeralSequential).start().unwrap()
    };
    let first = start(&client, "/app/line/a-");
    first.registered_within(SECOND).await.unwrap();
    tokio::time::sleep(SOON).await;
    let filter = RequestFilter::next(1).below("/app/line");
    let fault = server.session(client.session_id()).drop_requests(filter).unwrap();
    let second = start(&client.namespace("/app").unwrap(), "/line/a-");
    tokio::time::sleep(SOON).await;
    fault.lift();
    server.session(client.session_id()).cut().unwrap();
    let second = second.registered_within(LONG).await.unwrap();
    assert_eq!(second.path, "/line/a-0000000001");
    assert_eq!(first.registered_within(SECOND).await.unwrap().path, "/app/line/a-0000000000");
}

/// When the parent was created again, its numbers begin anew: a node may get the number that an older one
/// had and creates again later. The older one gets another.
#[tokio::test(start_paused = true)]
async fn a_node_does_not_take_its_former_number_from_a_node_that_has_it_now() {
    // How long the older one pauses is random: it may be the first, and has its number again then.
    for _ in 0..100 {
        if a_former_number_goes_to_another_node().await {
            return;
        }
    }
    panic!("the pauses were too short a hundred times");
}

/// Returns whether the node that was started last got the number of the older one.
async fn a_former_number_goes_to_another_node() -> bool {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    client.create("/line").await.unwrap();
    let start = |data: &'static str| {
        let builder = PersistentNode::builder(&client, "/line/a-").data(data);
        builder.mode(CreateMode::EphemeralSequential).start().unwrap()
    };
    let first = start("first");
    let first_path = first.registered_within(LONG).await.unwrap().path;
    let former = start("former");
    let number = former.registered_within(LONG).await.unwrap().path;
    // Whose znode is deleted again and again pauses before it creates it.
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let _ = other.delete(&number).await;
    }
    other.delete(&first_path).await.unwrap();
    other.delete("/line").await.unwrap();
    tokio::time::sleep(SOON).await;
    let present = start("present");
    let is_later = present.registered_within(LONG).await.unwrap().path == number;
    present.set_data("news").await.unwrap();
    tokio::time::sleep(LONG).await;
    let nodes = [first, former, present];
    let (own, there) = names(&nodes, &other).await;
    assert_eq!((own.len(), &own), (3, &there));
    if is_later {
        assert_eq!(&*other.get(&number).await.unwrap().0, b"news");
    }
    is_later
}
