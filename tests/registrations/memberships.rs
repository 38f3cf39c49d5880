//! Tests of `Party`, `ShallowParty`, `GroupMember` and `PersistentTtlNode` on a server of the test kit:
//! their znodes are kazoo's and Curator's, and members stay members over the end of their session.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use bytes::Bytes;
use zoolet::client::{Client, Parents};
use zoolet::protocol::{Acl, CreateMode, ErrorCode, Permissions};
use zoolet::recipes::{
    GroupMember, NodeError, NodeState, NonBlockingLease, Origin, Party, PersistentNode,
    PersistentTtlNode, SetPartitioner, ShallowParty, TakeOver,
};
use zoolet::testing::{RequestFilter, TestServer};

use super::stage::{LONG, SECOND, stage};

fn is_digits(text: &str) -> bool {
    text.len() == 32
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[tokio::test(start_paused = true)]
async fn the_znodes_of_parties_are_kazoos() {
    let (_server, client) = stage().await;
    let party = Party::new(&client, "/party").unwrap();
    let member = party.join("höst-1").await.unwrap();
    let name = member.path().strip_prefix("/party/").unwrap().to_owned();
    assert!(is_digits(name.strip_suffix("__party__").unwrap()), "{name}");
    let (data, stat) = client.get(&member.path()).await.unwrap();
    assert_eq!((&data[..], stat.ephemeral_owner), ("höst-1".as_bytes(), client.session_id()));
    let shallow = ShallowParty::new(&client, "/shallow").unwrap();
    let member = shallow.join("host-1").await.unwrap();
    let name = member.path().strip_prefix("/shallow/").unwrap().to_owned();
    let (digits, identifier) = name.split_once('-').unwrap();
    assert!(is_digits(digits) && identifier == "host-1", "{name}");
    assert_eq!(client.get(&member.path()).await.unwrap().0, "host-1");
    let bad = shallow.join("a/b").await.unwrap_err();
    assert!(matches!(bad, NodeError::Name { .. }), "{bad}");
    // The directories are persistent: they outlive the members.
    drop(member);
    tokio::time::sleep(LONG).await;
    assert!(client.exists("/shallow").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_may_not_be_read_does_not_hide_the_others() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let hidden = vec![Acl { permissions: Permissions::ADMIN, ..Acl::open() }];
    let party = Party::new(&client, "/party").unwrap();
    let _one = party.join("one").await.unwrap();
    let two = party.join("two").await.unwrap();
    other.set_acl(&two.path(), hidden.clone()).await.unwrap();
    assert_eq!(party.participants().await.unwrap(), ["one"]);
    let [one, two] = [("one", &client), ("two", &other)].map(|(id, client)| {
        GroupMember::builder(client, "/group", id).payload(id).start().unwrap()
    });
    for member in [&one, &two] {
        member.registered_within(SECOND).await.unwrap();
    }
    client.set_acl("/group/two", hidden).await.unwrap();
    assert_eq!(one.members().await.unwrap().into_keys().collect::<Vec<_>>(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn participants_are_those_who_joined_and_did_not_leave() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let party = Party::new(&client, "/party").unwrap();
    let shallow = ShallowParty::new(&other, "/shallow").unwrap();
    assert_eq!((party.count().await, shallow.count().await), (Ok(0), Ok(0)));
    let (one, two) = (party.join("one").await.unwrap(), party.join("two").await.unwrap());
    let three = shallow.join("three").await.unwrap();
    let mut participants = party.participants().await.unwrap();
    participants.sort_unstable();
    assert_eq!(participants, ["one", "two"]);
    assert_eq!(shallow.participants().await.unwrap(), ["three"]);
    // A child of another kind is no member of a party, as in kazoo.
    client.create("/party/note").await.unwrap();
    assert_eq!(party.count().await, Ok(2));
    one.leave().await.unwrap();
    assert_eq!(party.participants().await.unwrap(), ["two"]);
    drop(two);
    three.leave().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!((party.count().await, shallow.count().await), (Ok(0), Ok(0)));
    assert_eq!(server.totals().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn a_member_joins_again_in_the_next_session() {
    let (server, client) = stage().await;
    let party = Party::new(&client, "/party").unwrap();
    let member = party.join("one").await.unwrap();
    let (path, first) = (member.path(), member.registered().await.unwrap());
    server.session(client.session_id()).expire().unwrap();
    tokio::time::sleep(LONG).await;
    assert!(member.registered_within(LONG).await.unwrap() > first);
    assert_eq!((member.path(), member.state()), (path, NodeState::Present));
    assert_eq!(party.participants().await.unwrap(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_makes_no_second_member() {
    for lost in 0..4 {
        let (server, client) = stage().await;
        let party = ShallowParty::new(&client, "/party").unwrap();
        let filter = RequestFilter::next(1).after(lost).below("/party");
        server.everyone().cut_before_reply(filter).unwrap();
        let member = tokio::time::timeout(LONG, party.join("one")).await.unwrap().unwrap();
        assert_eq!(party.count().await, Ok(1), "{lost}");
        member.leave().await.unwrap();
        assert_eq!(party.count().await, Ok(0), "{lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_has_its_members_and_their_payloads() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let one = GroupMember::builder(&client, "/group", "one").payload("1").start().unwrap();
    let two = GroupMember::builder(&other, "/group", "two").payload("2").start().unwrap();
    one.registered_within(SECOND).await.unwrap();
    two.registered_within(SECOND).await.unwrap();
    assert_eq!(client.get("/group/one").await.unwrap().1.ephemeral_owner, client.session_id());
    let members: Vec<_> = one.members().await.unwrap().into_iter().collect();
    let expected = [("one", "1"), ("two", "2")];
    let expected = expected.map(|(id, payload)| (id.to_owned(), Bytes::from(payload)));
    assert_eq!(members, expected);
    two.set_payload("3").await.unwrap();
    assert_eq!(one.members().await.unwrap()["two"], "3");
    let (changed, left) = tokio::join!(one.changed(), async {
        tokio::time::sleep(SECOND).await;
        two.close().await
    });
    changed.unwrap();
    left.unwrap();
    assert_eq!(one.members().await.unwrap().into_keys().collect::<Vec<_>>(), ["one"]);
    // It is a member of its own view, also while its znode is missing.
    client.delete("/group/one").await.unwrap();
    assert_eq!(one.members().await.unwrap()["one"], "1");
}

#[tokio::test(start_paused = true)]
async fn the_copy_of_the_members_follows_them_without_requests() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let one = GroupMember::builder(&client, "/group", "one").payload("1").start().unwrap();
    let mut members = one.follow().unwrap();
    // It is a member of its own view, also before its znode is there.
    assert_eq!(members.current()["one"], "1");
    one.registered_within(SECOND).await.unwrap();
    let ids = |members: &BTreeMap<String, Bytes>| members.keys().cloned().collect::<Vec<_>>();
    assert_eq!(ids(&members.changed().await.unwrap()), ["one"]);
    let two = GroupMember::builder(&other, "/group", "two").payload("2").start().unwrap();
    while members.changed().await.unwrap().get("two") != Some(&"2".into()) {}
    two.set_payload("3").await.unwrap();
    assert_eq!(members.changed().await.unwrap()["two"], "3");
    // The end of the session of the one that follows changes nothing about the other.
    server.session(client.session_id()).expire().unwrap();
    two.close().await.unwrap();
    while members.changed().await.unwrap().contains_key("two") {}
    one.registered_within(LONG).await.unwrap();
    assert_eq!(members.current()["one"], "1");
    one.close().await.unwrap();
    while !members.changed().await.unwrap().is_empty() {}
}

#[tokio::test(start_paused = true)]
async fn two_members_with_one_id_do_not_disturb_each_other() {
    let (server, client) = stage().await;
    let other = server.connect().await.unwrap();
    let first = GroupMember::builder(&client, "/group", "same").payload("1").start().unwrap();
    first.registered_within(SECOND).await.unwrap();
    let second = GroupMember::builder(&other, "/group", "same").payload("2").start().unwrap();
    let error = second.registered_within(LONG).await.unwrap_err();
    let NodeError::TimedOut { cause: Some(cause), .. } = error else { panic!("{error}") };
    let owner = client.session_id();
    assert_eq!(*cause, NodeError::Occupied { path: "/group/same".to_owned(), owner });
    assert_eq!(client.get("/group/same").await.unwrap().0, "1");
    first.close().await.unwrap();
    second.registered_within(SECOND).await.unwrap();
    assert_eq!(client.get("/group/same").await.unwrap().0, "2");
}

#[tokio::test(start_paused = true)]
async fn a_ttl_node_is_a_container_whose_child_is_touched() {
    let (server, client) = stage().await;
    let ttl = 10 * SECOND;
    let node = PersistentTtlNode::builder(&client, "/uploads/7", ttl).data("1 %");
    let node = node.touch_factor(NonZeroU32::new(5).unwrap()).start().unwrap();
    let registered = node.registered_within(SECOND).await.unwrap();
    assert_eq!(registered.origin, Origin::Created);
    let child = client.exists("/uploads/7/touch").await.unwrap().expect("both are created at once");
    assert_eq!(child.czxid, registered.czxid, "by one transaction");
    for _ in 0..6 {
        tokio::time::sleep(ttl).await;
        server.sweep().unwrap();
        let child = client.exists("/uploads/7/touch").await.unwrap().expect("it is touched");
        assert!(child.version > 0);
    }
    assert_eq!(*node.touched().borrow(), Some(Ok(())));
    assert_eq!(client.get("/uploads/7").await.unwrap().1.mzxid, registered.czxid);
    // A child that someone deletes is created again, and so is the znode.
    client.delete("/uploads/7/touch").await.unwrap();
    tokio::time::sleep(ttl).await;
    assert!(client.exists("/uploads/7/touch").await.unwrap().is_some());
    node.close().await.unwrap();
    assert!(client.exists("/uploads/7").await.unwrap().is_some(), "nothing is deleted at once");
    tokio::time::sleep(2 * ttl).await;
    server.sweep().unwrap();
    server.sweep().unwrap();
    assert_eq!(client.exists("/uploads/7").await.unwrap(), None, "the server deletes both");
}

#[tokio::test(start_paused = true)]
async fn a_ttl_node_adopts_the_znode_of_another_program() {
    let (_server, client) = stage().await;
    let create = client.create("/uploads/7").data("theirs").mode(CreateMode::Container);
    create.parents(Parents::Containers).await.unwrap();
    let node = PersistentTtlNode::builder(&client, "/uploads/7", 10 * SECOND).data("ours");
    let node = node.start().unwrap();
    assert_eq!(node.registered_within(SECOND).await.unwrap().origin, Origin::Adopted);
    tokio::time::sleep(6 * SECOND).await;
    assert!(client.exists("/uploads/7/touch").await.unwrap().is_some());
    assert_eq!(client.get("/uploads/7").await.unwrap().0, "ours");
    let bad = PersistentTtlNode::builder(&client, "/a", SECOND).child_name("b/c").start();
    assert!(matches!(bad, Err(NodeError::Name { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_touch_that_a_lost_connection_prevents_comes_as_soon_as_there_is_one() {
    let (server, client) = stage().await;
    let ttl = 60 * SECOND;
    let node = PersistentTtlNode::builder(&client, "/uploads/7", ttl).start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    tokio::time::sleep(SECOND).await;
    let before = client.exists("/uploads/7/touch").await.unwrap().unwrap().version;
    let filter = RequestFilter::next(1).at("/uploads/7/touch");
    let cutting = server.everyone().cut_before_reply(filter).unwrap();
    cutting.has_hit(1).await;
    tokio::time::sleep(10 * SECOND).await;
    let after = client.exists("/uploads/7/touch").await.unwrap().unwrap().version;
    assert!(after >= before + 2, "it was touched again: {before} {after}");
}

#[tokio::test(start_paused = true)]
async fn a_touch_that_is_refused_is_told() {
    let (server, client) = stage().await;
    let node = PersistentTtlNode::builder(&client, "/uploads/7", 10 * SECOND).start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    let mut touched = node.touched();
    let filter = RequestFilter::all().at("/uploads/7/touch");
    let refusing = server.everyone().fail(filter, ErrorCode::NO_AUTH).unwrap();
    let told = touched.wait_for(|touched| matches!(touched, Some(Err(_)))).await.unwrap().clone();
    let Some(Err(NodeError::Client(error))) = told else { panic!("{told:?}") };
    assert!(error.is(ErrorCode::NO_AUTH));
    refusing.lift();
    touched.wait_for(|touched| *touched == Some(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn znodes_in_a_namespace_have_the_defaults_of_their_client() {
    let server = TestServer::start().await.unwrap();
    let client = Client::builder()
        .auth("digest", "user:password")
        .acl_provider(|path| match path.starts_with("/app/secret") {
            true => vec![Acl::creator_all()],
            false => vec![Acl::open()],
        })
        .default_data("host-1")
        .connect(server.dialer())
        .await
        .unwrap();
    let client = client.namespace("/app").unwrap();
    let node = PersistentNode::builder(&client, "/secret/node").start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    let group = GroupMember::builder(&client, "/secret/group", "one").start().unwrap();
    group.registered_within(SECOND).await.unwrap();
    let ttl = PersistentTtlNode::builder(&client, "/secret/ttl", LONG).start().unwrap();
    ttl.registered_within(SECOND).await.unwrap();
    let member = Party::new(&client, "/secret/party").unwrap().join("one").await.unwrap();
    let lease = NonBlockingLease::new(&client, "/secret/lease", "one").unwrap();
    lease.obtain(LONG).await.unwrap().unwrap();
    lease.obtain(LONG).await.unwrap().expect("it is renewed");
    let builder = SetPartitioner::builder(&client, "/secret/work", "one", ["a"]);
    let partitioner = builder.time_boundary(SECOND).start().await.unwrap();
    let share = partitioner.acquire().await.unwrap();
    let member_of_set = partitioner.member().path();
    let secret = [
        "/secret/node",
        "/secret/group/one",
        "/secret/ttl",
        "/secret/ttl/touch",
        &member.path(),
        "/secret/lease/lease_holder",
        "/secret/work/locks",
        &member_of_set,
    ];
    for path in secret {
        let (acl, _) = client.acl(path).await.unwrap();
        assert_eq!(acl[0].id.scheme.as_deref(), Some("digest"), "{path}");
    }
    let open = Party::new(&client, "/secret/open").unwrap().with_acl(vec![Acl::open()]);
    let open = open.join("one").await.unwrap();
    assert_eq!(client.acl(&open.path()).await.unwrap().0, [Acl::open()]);
    for path in ["/secret/group/one", "/secret/ttl/touch"] {
        assert_eq!(client.get(path).await.unwrap().0, "host-1");
    }
    // One session replaces the znode of another in the namespace.
    let other = server.connect().await.unwrap().namespace("/app").unwrap();
    let first = PersistentNode::builder(&other, "/node").start().unwrap();
    first.registered_within(SECOND).await.unwrap();
    let builder = PersistentNode::builder(&client, "/node").take_over(TakeOver::AtOnce);
    let second = builder.start().unwrap();
    let origin = second.registered_within(SECOND).await.unwrap().origin;
    assert_eq!(origin, Origin::TakenOver(other.session_id()));
    share.release().await.unwrap();
}
