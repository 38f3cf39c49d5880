//! `PersistentNode` on a server of the test kit: the znode is there again after whatever
//! ended it, no reader finds it missing where that can be, nobody else's znode is touched, failures
//! are values, and a closed node leaves nothing.

use zoolet::client::{Client, Parents};
use zoolet::protocol::{
    Acl, CreateMode, ErrorCode, EventType, OpCode, Permissions, SessionId, Stat, WatchMode, Zxid,
};
use zoolet::recipes::{AtClose, NodeError, NodeEvent, NodeState, Origin, PersistentNode, TakeOver};
use zoolet::testing::{Fault, RequestFilter, TestServer};

use super::stage::{LONG, PATH, SECOND, SOON, next, stage};

async fn stat(client: &Client, path: &str) -> Option<Stat> {
    client.exists(path).await.expect("the server answers")
}

async fn owner(client: &Client, path: &str) -> Option<SessionId> {
    stat(client, path).await.map(|stat| stat.ephemeral_owner)
}

fn origin_of(event: NodeEvent) -> Origin {
    match event {
        NodeEvent::Registered(registered) => registered.origin,
        other => panic!("{other:?}"),
    }
}

/// Asserts that the directories of the tests have no child, and that no watch is left.
async fn assert_clean(server: &TestServer) {
    tokio::time::sleep(SECOND).await;
    let admin = server.connect().await.expect("the server is there");
    for directory in ["/services", "/line"] {
        match admin.children(directory).await {
            Ok(names) => assert_eq!(names.to_vec(), Vec::<String>::new(), "znodes are left"),
            // The server deletes a container some time after its last child.
            Err(error) => assert!(error.is(ErrorCode::NO_NODE), "{error}"),
        }
    }
    assert_eq!(server.totals().watches, 0, "watches are left");
}

/// How many requests the session of a client has sent.
fn requests(server: &TestServer, client: &Client) -> u64 {
    server.stats().session(client.session_id()).requests.total()
}

#[tokio::test(start_paused = true)]
async fn each_mode_gives_its_znode() {
    let (_server, client) = stage().await;
    let ttl = SECOND * 60;
    let modes = [
        (CreateMode::Persistent, PATH, false),
        (CreateMode::PersistentSequential, "/services/a0000000001", false),
        (CreateMode::Ephemeral, "/services/b", true),
        (CreateMode::EphemeralSequential, "/services/a0000000003", true),
        (CreateMode::Container, "/services/c", false),
        (CreateMode::PersistentWithTtl(ttl), "/services/d", false),
        (CreateMode::PersistentSequentialWithTtl(ttl), "/services/a0000000006", false),
    ];
    let mut nodes = Vec::new();
    for (mode, path, is_ephemeral) in modes {
        let base = if mode.flags().is_sequential() { PATH } else { path };
        let node = PersistentNode::builder(&client, base).mode(mode).data("x").start().unwrap();
        let registered = node.registered_within(SECOND).await.unwrap();
        assert_eq!((registered.path.as_str(), registered.origin), (path, Origin::Created));
        let (data, stat) = client.get(path).await.unwrap();
        assert_eq!((&data[..], stat.czxid), (&b"x"[..], registered.czxid));
        assert_eq!(stat.ephemeral_owner == client.session_id(), is_ephemeral, "{mode:?}");
        nodes.push((node, path));
    }
    for (node, path) in nodes {
        node.close().await.unwrap();
        assert_eq!(stat(&client, path).await, None, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sequential_znode_keeps_its_first_name() {
    let (server, client) = stage().await;
    let admin = server.connect().await.unwrap();
    for is_protected in [false, true] {
        let builder =
            PersistentNode::builder(&client, "/line/a-").mode(CreateMode::EphemeralSequential);
        let builder = if is_protected { builder.protected() } else { builder };
        let node = builder.start().unwrap();
        let first = node.registered_within(SECOND).await.unwrap();
        let name = first.path.strip_prefix("/line/").unwrap();
        if is_protected {
            assert!(name.starts_with("_c_") && name[39..].starts_with("-a-"), "{name}");
        } else {
            assert_eq!(name, "a-0000000000");
        }
        admin.delete(&first.path).await.unwrap();
        tokio::time::sleep(SOON).await;
        let second = node.registered_within(SECOND).await.unwrap();
        assert_eq!(second.path, first.path);
        assert!(second.czxid > first.czxid);
        server.session(client.session_id()).expire().unwrap();
        tokio::time::sleep(SECOND).await;
        let third = node.registered_within(LONG).await.unwrap();
        assert_eq!(third.path, first.path);
        assert_eq!(owner(&admin, &first.path).await, Some(client.session_id()));
        node.close().await.unwrap();
    }
    assert_clean(&server).await;
}

/// As after the server has deleted an empty container, so that it counts from 0 again, and nodes have
/// created their znodes in the new one under their first names.
#[tokio::test(start_paused = true)]
async fn numbers_that_are_in_use_are_skipped() {
    let (server, client) = stage().await;
    let others = server.connect().await.unwrap();
    for number in 5..10 {
        let create = others.create(&format!("/services/a000000000{number}"));
        create.mode(CreateMode::Ephemeral).parents(Parents::Containers).await.unwrap();
    }
    let builder = PersistentNode::builder(&client, PATH).mode(CreateMode::EphemeralSequential);
    let node = builder.start().unwrap();
    let registered = node.registered_within(SECOND).await.unwrap();
    assert_eq!(owner(&others, &registered.path).await, Some(client.session_id()));
    node.close().await.unwrap();
    let names = others.children("/services").await.unwrap().to_vec();
    assert_eq!(names.len(), 5, "nothing else is left: {names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_znode_that_was_deleted_is_created_again_at_once_and_then_with_pauses() {
    let (server, client) = stage().await;
    let admin = server.connect().await.unwrap();
    let node = PersistentNode::builder(&client, PATH).data("x").start().unwrap();
    let mut last = node.registered_within(SECOND).await.unwrap();
    let mut events = node.events();
    for _ in 0..8 {
        admin.delete(PATH).await.unwrap();
        assert_eq!(next(&mut events).await, NodeEvent::Lost { path: PATH.to_owned() });
        let NodeEvent::Registered(again) = next(&mut events).await else {
            panic!("not registered")
        };
        assert!(again.czxid > last.czxid);
        last = again;
    }
    // Eight deletions in a row: the ninth waits for seconds. After a calm minute it would not.
    tokio::time::sleep(LONG).await;
    admin.delete(PATH).await.unwrap();
    tokio::time::sleep(SOON).await;
    assert_eq!(node.state(), NodeState::Present);
}

#[tokio::test(start_paused = true)]
async fn a_short_disconnect_changes_nothing() {
    let (server, client) = stage().await;
    let node = PersistentNode::builder(&client, PATH).start().unwrap();
    let first = node.registered_within(SECOND).await.unwrap();
    let mut events = node.events();
    server.session(client.session_id()).cut().unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(node.state(), NodeState::Present);
    assert_eq!(node.registered().await.unwrap(), first);
    assert_eq!(stat(&client, PATH).await.unwrap().czxid, first.czxid);
    assert!(tokio::time::timeout(LONG, events.next()).await.is_err(), "nothing happened");
}

#[tokio::test(start_paused = true)]
async fn the_next_session_creates_the_znode_when_the_server_ended_the_last() {
    let (server, client) = stage().await;
    let node = PersistentNode::builder(&client, PATH).data("x").start().unwrap();
    let first = node.registered_within(SECOND).await.unwrap();
    let (mut events, session) = (node.events(), client.session_id());
    let expire = async { server.session(session).expire().unwrap() };
    let (lost, _) = tokio::join!(tokio::time::timeout(LONG, node.lost()), expire);
    lost.expect("the loss is told");
    assert_eq!(next(&mut events).await, NodeEvent::Lost { path: PATH.to_owned() });
    assert_eq!(origin_of(next(&mut events).await), Origin::Created);
    assert!(node.registered().await.unwrap().czxid > first.czxid);
    assert_ne!(client.session_id(), session);
    assert_eq!(owner(&client, PATH).await, Some(client.session_id()));
}

#[tokio::test(start_paused = true)]
async fn the_znode_of_a_session_that_the_client_gave_up_is_replaced_in_one_transaction() {
    let (server, client) = stage().await;
    let node = PersistentNode::builder(&client, PATH).data("x").start().unwrap();
    let first = node.registered_within(SECOND).await.unwrap();
    let (mut events, session) = (node.events(), client.session_id());
    // The server gives the session its whole timeout again; the client has given it up by then.
    server.stop().await;
    tokio::time::sleep(LONG).await;
    server.restart().await.unwrap();
    let reader = server.connect().await.unwrap();
    let mut changes = reader.watch(PATH, WatchMode::PERSISTENT).await.unwrap();
    assert_eq!(owner(&reader, PATH).await, Some(session), "the old znode is still there");
    let mut registered = next(&mut events).await;
    while !matches!(registered, NodeEvent::Registered(_)) {
        registered = next(&mut events).await;
    }
    assert_eq!(origin_of(registered), Origin::TakenOver(session));
    let second = node.registered().await.unwrap();
    assert!(second.czxid > first.czxid);
    assert_eq!(owner(&reader, PATH).await, Some(client.session_id()));
    let heard = [changes.next().await.unwrap(), changes.next().await.unwrap()];
    assert_eq!(
        heard.clone().map(|event| event.event_type),
        [EventType::NODE_DELETED, EventType::NODE_CREATED]
    );
    assert_eq!(heard.map(|event| event.zxid), [second.czxid; 2], "one transaction");
    // The end of the old session does not touch the new znode.
    tokio::time::sleep(LONG).await;
    assert_eq!(node.registered().await.unwrap(), second);
    assert_eq!(node.state(), NodeState::Present);
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_of_another_session_is_waited_for() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let create = other.create(PATH).data("theirs").mode(CreateMode::Ephemeral);
    create.parents(Parents::Containers).await.unwrap();
    let node = PersistentNode::builder(&client, PATH).data("ours").start().unwrap();
    let mut events = node.events();
    let occupied = NodeError::Occupied { path: PATH.to_owned(), owner: other.session_id() };
    let timed_out = node.registered_within(LONG).await.unwrap_err();
    let cause = Some(Box::new(occupied.clone()));
    assert_eq!(timed_out, NodeError::TimedOut { path: PATH.to_owned(), cause });
    assert_eq!(node.last_failure(), Some(occupied));
    let told = NodeEvent::Occupied { path: PATH.to_owned(), owner: other.session_id() };
    assert_eq!(next(&mut events).await, told);
    assert_eq!(client.get(PATH).await.unwrap().0, "theirs", "their data is not touched");
    server.session(other.session_id()).expire().unwrap();
    assert_eq!(node.registered_within(SECOND).await.unwrap().origin, Origin::Created);
    assert_eq!(client.get(PATH).await.unwrap().0, "ours");
    assert_eq!(node.last_failure(), None);
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_of_another_session_is_taken_over_if_that_is_wanted() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let create = other.create(PATH).mode(CreateMode::Ephemeral);
    create.parents(Parents::Containers).await.unwrap();
    other.set(PATH, "theirs").await.unwrap();
    let builder = PersistentNode::builder(&client, PATH).data("ours").take_over(TakeOver::AtOnce);
    let node = builder.start().unwrap();
    let registered = node.registered_within(SECOND).await.unwrap();
    assert_eq!(registered.origin, Origin::TakenOver(other.session_id()));
    let (data, stat) = client.get(PATH).await.unwrap();
    assert_eq!((&data[..], stat.ephemeral_owner), (&b"ours"[..], client.session_id()));
    other.close().await.unwrap();
    assert_eq!(owner(&client, PATH).await, Some(client.session_id()));
}

/// As when a program is started before the one that it replaces has ended.
#[tokio::test(start_paused = true)]
async fn of_two_nodes_that_take_over_the_later_one_has_the_name_without_a_gap() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let start = |client: &Client, data: &'static str| {
        let builder = PersistentNode::builder(client, PATH).take_over(TakeOver::AtOnce);
        builder.data(data).start().unwrap()
    };
    let old = start(&client, "old");
    old.registered_within(SECOND).await.unwrap();
    let new = start(&other, "new");
    let registered = new.registered_within(SECOND).await.unwrap();
    assert_eq!(registered.origin, Origin::TakenOver(client.session_id()));
    // In its next session the old one does not take the name back either.
    for expires in [false, true] {
        if expires {
            server.session(client.session_id()).expire().unwrap();
        }
        tokio::time::sleep(LONG).await;
        assert_eq!(new.registered().await.unwrap(), registered);
        assert_eq!((old.state(), new.state()), (NodeState::Missing, NodeState::Present));
    }
    old.close().await.unwrap();
    assert_eq!(stat(&client, PATH).await.unwrap().czxid, registered.czxid);
    // Whoever waits has the name when it is free.
    let old = start(&client, "old");
    old.registered_within(SECOND).await.unwrap();
    old.close().await.unwrap();
    assert!(new.registered_within(SECOND).await.unwrap().czxid > registered.czxid);
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_is_not_made_of_a_persistent_znode() {
    let (server, client) = stage().await;
    let admin = server.connect().await.unwrap();
    admin.create(PATH).data("theirs").parents(Parents::Persistent).await.unwrap();
    let node = PersistentNode::builder(&client, PATH).data("ours").start().unwrap();
    let mut events = node.events();
    let wrong = NodeError::WrongKind(PATH.to_owned());
    assert_eq!(next(&mut events).await, NodeEvent::Failed(wrong));
    assert_eq!(admin.get(PATH).await.unwrap().0, "theirs");
    admin.delete(PATH).await.unwrap();
    assert_eq!(node.registered_within(LONG).await.unwrap().origin, Origin::Created);
}

#[tokio::test(start_paused = true)]
async fn refusals_are_told_and_tried_again_with_growing_pauses() {
    let (server, client) = stage().await;
    let admin = server.connect().await.unwrap();
    let mut read_only = Acl::open();
    read_only.permissions = Permissions::READ | Permissions::ADMIN;
    admin.create("/services").acl(vec![read_only]).await.unwrap();
    let node = PersistentNode::builder(&client, PATH).start().unwrap();
    let mut events = node.events();
    for _ in 0..4 {
        let NodeEvent::Failed(NodeError::Client(error)) = next(&mut events).await else {
            panic!("not refused")
        };
        assert!(error.is(ErrorCode::NO_AUTH), "{error}");
    }
    tokio::time::sleep(LONG * 10).await;
    let before = requests(&server, &client);
    tokio::time::sleep(SECOND * 600).await;
    let tried = requests(&server, &client) - before;
    assert!((20..120).contains(&tried), "{tried} requests in ten minutes, pings included");
    admin.set_acl("/services", vec![Acl::open()]).await.unwrap();
    node.registered_within(SECOND * 31).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_parents_the_node_waits_for_them() {
    let (server, client) = stage().await;
    let node = PersistentNode::builder(&client, PATH).without_parents().start().unwrap();
    let error = node.registered_within(LONG).await.unwrap_err();
    let NodeError::TimedOut { cause: Some(cause), .. } = error else { panic!("{error}") };
    assert!(matches!(*cause, NodeError::Client(error) if error.is(ErrorCode::NO_NODE)));
    server.connect().await.unwrap().create("/services").await.unwrap();
    node.registered_within(SECOND * 31).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_last_data_is_written_over_disconnects_expiry_and_deletion() {
    let (server, client) = stage().await;
    let admin = server.connect().await.unwrap();
    let node = PersistentNode::builder(&client, PATH).data("0").start().unwrap();
    // Before the znode is there.
    node.set_data("1").await.unwrap();
    assert_eq!(admin.get(PATH).await.unwrap().0, "1");
    let first = node.registered().await.unwrap();
    node.set_data("2").await.unwrap();
    assert_eq!(node.registered().await.unwrap(), first, "the data is set in place");
    let refusing = server.session(client.session_id()).refuse().unwrap();
    server.session(client.session_id()).cut().unwrap();
    let dropped = tokio::time::timeout(SOON, node.set_data("3")).await;
    assert!(dropped.is_err(), "there is no connection");
    refusing.lift();
    tokio::time::timeout(LONG, node.set_data("4")).await.unwrap().unwrap();
    assert_eq!(admin.get(PATH).await.unwrap().0, "4");
    server.session(client.session_id()).expire().unwrap();
    tokio::time::timeout(LONG, node.set_data("5")).await.unwrap().unwrap();
    assert_eq!(admin.get(PATH).await.unwrap().0, "5");
    admin.delete(PATH).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(admin.get(PATH).await.unwrap().0, "5");
}

#[tokio::test(start_paused = true)]
async fn remembered_data_is_not_written_but_is_that_of_the_next_znode() {
    let (server, client) = stage().await;
    let admin = server.connect().await.unwrap();
    let node = PersistentNode::builder(&client, PATH).data("old").start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    admin.set(PATH, "theirs").await.unwrap();
    node.remember_data("theirs, seen");
    assert_eq!(node.data(), "theirs, seen");
    tokio::time::sleep(LONG).await;
    assert_eq!(admin.get(PATH).await.unwrap().0, "theirs", "nothing is written");
    admin.delete(PATH).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(admin.get(PATH).await.unwrap().0, "theirs, seen");
}

#[tokio::test(start_paused = true)]
async fn a_node_can_be_closed_while_others_wait_for_it() {
    let (_server, client) = stage().await;
    let node = PersistentNode::builder(&client, PATH).start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    let mut events = node.events();
    let (closed, (), also_closed) = tokio::join!(node.close(), node.lost(), node.close());
    assert_eq!((closed, also_closed), (Ok(()), Ok(())));
    assert_eq!(events.next().await, None);
    assert_eq!(node.events().next().await, None);
    assert_eq!((node.close().await, node.state()), (Ok(()), NodeState::Closed));
    let closed = NodeError::Closed(PATH.to_owned());
    assert_eq!(node.registered().await, Err(closed.clone()));
    assert_eq!(node.set_data("x").await, Err(closed));
    assert_eq!(stat(&client, PATH).await, None);
}

#[tokio::test(start_paused = true)]
async fn data_that_is_refused_is_an_error_and_is_written_later() {
    let (server, client) = stage().await;
    let node = PersistentNode::builder(&client, PATH).data("old").start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    let filter = RequestFilter::all().of(&[OpCode::SET_DATA]);
    let refusing = server.everyone().fail(filter, ErrorCode::NO_AUTH).unwrap();
    let NodeError::Client(error) = node.set_data("new").await.unwrap_err() else {
        panic!("not refused")
    };
    assert!(error.is(ErrorCode::NO_AUTH));
    assert_eq!(node.state(), NodeState::Present);
    refusing.lift();
    tokio::time::sleep(LONG).await;
    assert_eq!(client.get(PATH).await.unwrap().0, "new");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_leaves_one_znode_of_every_mode() {
    for mode in [
        CreateMode::Ephemeral,
        CreateMode::EphemeralSequential,
        CreateMode::Persistent,
        CreateMode::PersistentSequential,
        CreateMode::Container,
        CreateMode::PersistentWithTtl(LONG),
        CreateMode::PersistentSequentialWithTtl(LONG),
    ] {
        for is_protected in [false, true] {
            // Without an owner and an id nothing tells whose a numbered znode is.
            if mode.flags().is_sequential() && !mode.flags().is_ephemeral() && !is_protected {
                continue;
            }
            for lost in 0..4 {
                let (server, client) = stage().await;
                client.create("/services").await.unwrap();
                let filter = RequestFilter::next(1).after(lost).below("/services");
                let _fault = server.everyone().cut_before_reply(filter).unwrap();
                let builder = PersistentNode::builder(&client, PATH).mode(mode).data("mine");
                let builder = if is_protected { builder.protected() } else { builder };
                let node = builder.start().unwrap();
                let registered = node.registered_within(LONG).await.unwrap();
                tokio::time::sleep(SECOND).await;
                let names = client.children("/services").await.unwrap().to_vec();
                let what = format!("{mode:?} {is_protected} {lost}: {names:?}");
                assert_eq!(names.len(), 1, "{what}");
                assert_eq!(registered.path, format!("/services/{}", names[0]), "{what}");
                node.close().await.unwrap();
                assert!(client.children("/services").await.unwrap().is_empty(), "{what}");
                assert_clean(&server).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_found_out_where_the_program_may_not_write_its_znode() {
    for lost in 0..4 {
        let (server, client) = stage().await;
        client.create("/services").await.unwrap();
        let filter = RequestFilter::next(1).after(lost).below("/services");
        let _fault = server.everyone().cut_before_reply(filter).unwrap();
        let builder = PersistentNode::builder(&client, PATH).acl(vec![Acl::read_only()]);
        let node = builder.start().unwrap();
        node.registered_within(LONG).await.unwrap();
        node.close().await.unwrap();
        assert_clean(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lasting_znode_is_adopted_and_created_again_and_outlives_sessions() {
    let (server, client) = stage().await;
    let admin = server.connect().await.unwrap();
    admin.create(PATH).data("theirs").parents(Parents::Persistent).await.unwrap();
    let builder = PersistentNode::builder(&client, PATH).mode(CreateMode::Persistent);
    let node = builder.data("ours").at_close(AtClose::Keep).start().unwrap();
    assert_eq!(node.registered_within(SECOND).await.unwrap().origin, Origin::Adopted);
    assert_eq!(admin.get(PATH).await.unwrap().0, "ours");
    let mut events = node.events();
    server.session(client.session_id()).expire().unwrap();
    tokio::time::sleep(LONG).await;
    node.set_data("new").await.unwrap();
    admin.delete(PATH).await.unwrap();
    assert_eq!(next(&mut events).await, NodeEvent::Lost { path: PATH.to_owned() });
    assert_eq!(origin_of(next(&mut events).await), Origin::Created);
    assert_eq!(admin.get(PATH).await.unwrap().0, "new");
    node.close().await.unwrap();
    assert_eq!(admin.get(PATH).await.unwrap().0, "new", "it stays");
    admin.delete(PATH).await.unwrap();
    assert_clean(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_closed_or_dropped_at_any_moment_leaves_nothing() {
    for held_back in [true, false] {
        for steps in 0..12 {
            for is_dropped in [false, true] {
                let (server, client) = stage().await;
                let holding = held_back.then(|| server.everyone().hold().unwrap());
                let node = PersistentNode::builder(&client, PATH).start().unwrap();
                for _ in 0..steps {
                    tokio::task::yield_now().await;
                }
                if is_dropped {
                    drop(node);
                    holding.iter().for_each(Fault::lift);
                } else {
                    let closing = tokio::spawn(async move { node.close().await });
                    tokio::time::sleep(SOON).await;
                    holding.iter().for_each(Fault::lift);
                    closing.await.unwrap().unwrap();
                }
                assert_clean(&server).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_deletes_nothing_of_somebody_else() {
    let (server, client) = stage().await;
    let admin = server.connect().await.unwrap();
    let node = PersistentNode::builder(&client, PATH).start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    // The node cannot notice that its znode was replaced.
    let frozen = server.session(client.session_id()).freeze().unwrap();
    admin.delete(PATH).await.unwrap();
    let theirs = admin.create(PATH).data("theirs").await.unwrap();
    let closing = tokio::spawn(async move { node.close().await });
    tokio::time::sleep(SOON).await;
    frozen.lift();
    let closed = tokio::time::timeout(LONG, closing).await.unwrap().unwrap();
    closed.unwrap();
    assert_eq!(stat(&admin, PATH).await.unwrap().czxid, theirs.stat.czxid);
}

/// The server reports such a znode as one whose children have changed, and watches it no more.
#[tokio::test(start_paused = true)]
async fn a_znode_that_was_replaced_while_there_was_no_connection_is_lost() {
    for take_over in [TakeOver::OfOwnSessions, TakeOver::AtOnce] {
        let (server, client) = stage().await;
        let admin = server.connect().await.unwrap();
        let builder = PersistentNode::builder(&client, PATH).data("ours").take_over(take_over);
        let node = builder.start().unwrap();
        let first = node.registered_within(SECOND).await.unwrap();
        tokio::time::sleep(SOON).await;
        let mut events = node.events();
        let refusing = server.session(client.session_id()).refuse().unwrap();
        server.session(client.session_id()).cut().unwrap();
        tokio::time::sleep(SOON).await;
        admin.delete(PATH).await.unwrap();
        let theirs = admin.create(PATH).data("theirs").mode(CreateMode::Ephemeral).await.unwrap();
        refusing.lift();
        assert_eq!(next(&mut events).await, NodeEvent::Lost { path: PATH.to_owned() });
        let occupied = NodeEvent::Occupied { path: PATH.to_owned(), owner: admin.session_id() };
        assert_eq!(next(&mut events).await, occupied);
        assert_eq!(node.state(), NodeState::Missing);
        if take_over == TakeOver::AtOnce {
            node.close().await.unwrap();
            assert_eq!(stat(&admin, PATH).await.unwrap().czxid, theirs.stat.czxid);
        } else {
            admin.delete(PATH).await.unwrap();
            assert!(node.registered_within(SECOND).await.unwrap().czxid > first.czxid);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_znode_that_its_program_may_not_read_is_deleted_and_no_other_of_its_name() {
    let admin_only = Permissions::WRITE | Permissions::ADMIN;
    // Without either right, only an ephemeral is known by what the session has.
    for (mode, permissions) in [
        (CreateMode::Ephemeral, admin_only),
        (CreateMode::Ephemeral, Permissions::WRITE),
        (CreateMode::Persistent, admin_only),
    ] {
        for is_replaced in [false, true] {
            let (server, client) = stage().await;
            let admin = server.connect().await.unwrap();
            let mut unreadable = Acl::open();
            unreadable.permissions = permissions;
            admin.create("/services").await.unwrap();
            let builder = PersistentNode::builder(&client, PATH).mode(mode);
            let node = builder.acl(vec![unreadable.clone()]).start().unwrap();
            node.registered_within(SECOND).await.unwrap();
            let frozen = server.session(client.session_id()).freeze().unwrap();
            if is_replaced {
                admin.delete(PATH).await.unwrap();
                admin.create(PATH).acl(vec![unreadable]).await.unwrap();
            }
            let closing = tokio::spawn(async move { node.close().await });
            tokio::time::sleep(SOON).await;
            frozen.lift();
            closing.await.unwrap().unwrap();
            let left = admin.children("/services").await.unwrap().len();
            assert_eq!(left, usize::from(is_replaced), "{mode:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn registering_costs_a_create_and_a_watch_where_the_directory_exists() {
    let (server, client) = stage().await;
    client.create("/services").await.unwrap();
    let before = requests(&server, &client);
    let node = PersistentNode::builder(&client, PATH).start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    tokio::task::yield_now().await;
    // The create, and the watch on the znode.
    assert_eq!(requests(&server, &client) - before, 2);
    assert_eq!(node.registered().await.unwrap().czxid, stat(&client, PATH).await.unwrap().czxid);
    assert!(node.registered().await.unwrap().czxid > Zxid::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_not_valid_is_an_error_at_the_start() {
    let (_server, client) = stage().await;
    for path in ["", "a", "/a/", "/a//b", "/a/.."] {
        assert!(PersistentNode::builder(&client, path).start().is_err(), "{path}");
    }
    let sequential = PersistentNode::builder(&client, "/a/").mode(CreateMode::EphemeralSequential);
    assert!(sequential.start().is_ok(), "the number is the whole name");
}
