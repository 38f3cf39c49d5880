//! The scenarios of Curator's `TestPersistentEphemeralNode`, `TestPersistentNode`, `TestPersistentTtlNode`
//! and `TestGroupMember`, by name. Where our nodes do something else, the test says so.

use std::time::Duration;

use zoolet::client::{Client, Parents};
use zoolet::protocol::{Acl, CreateMode, ErrorCode, Expect, MultiOp, Permissions, WatchMode};
use zoolet::recipes::{
    GroupMember, NodeError, NodeState, Origin, PersistentNode, PersistentTtlNode,
};
use zoolet::testing::TestServer;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than the session timeout.
const LONG: Duration = Duration::from_secs(120);
const PATH: &str = "/test/foo";

struct Stage {
    server: TestServer,
    client: Client,
    observer: Client,
}

impl Stage {
    async fn new() -> Self {
        let server = TestServer::start().await.expect("a server in memory starts");
        let client = server.connect().await.expect("the server is there");
        let observer = server.connect().await.expect("the server is there");
        Self { server, client, observer }
    }

    /// The node of a mode at the path of most tests, when it is registered.
    async fn node(&self, mode: CreateMode, data: &'static str) -> PersistentNode {
        let builder = PersistentNode::builder(&self.client, PATH).mode(mode).data(data);
        let node = builder.start().expect("a path");
        node.registered_within(SECOND).await.expect("the server is there");
        node
    }

    fn kill_session(&self, client: &Client) {
        self.server.session(client.session_id()).expire().expect("it has a session");
    }

    async fn exists(&self, path: &str) -> bool {
        self.observer.exists(path).await.expect("the server answers").is_some()
    }

    async fn data(&self, path: &str) -> String {
        let (data, _) = self.observer.get(path).await.expect("the znode is there");
        String::from_utf8(data.to_vec()).expect("the tests write text")
    }

    async fn restart(&self) {
        self.server.stop().await;
        tokio::time::sleep(SECOND).await;
        self.server.restart().await.expect("it starts again");
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_reconnected_is_fast() {
    let stage = Stage::new().await;
    let node = stage.node(CreateMode::Ephemeral, "hello").await;
    stage.restart().await;
    stage.client.connected_session().await.unwrap();
    assert_eq!(node.state(), NodeState::Present);
    tokio::time::timeout(SECOND, node.set_data("again")).await.unwrap().unwrap();
    assert_eq!(stage.data(PATH).await, "again");
}

#[tokio::test(start_paused = true)]
async fn no_server_at_start() {
    let stage = Stage::new().await;
    stage.server.stop().await;
    let node = PersistentNode::builder(&stage.client, "/abc/node").data("hello").start().unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(node.state(), NodeState::Missing);
    stage.server.restart().await.unwrap();
    node.registered_within(LONG).await.unwrap();
    assert_eq!(stage.data("/abc/node").await, "hello");
}

async fn set_data_test(mode: CreateMode) {
    let stage = Stage::new().await;
    let node = stage.node(mode, "a").await;
    let path = node.path().unwrap();
    assert_eq!(stage.data(&path).await, "a");
    for data in ["b", "c"] {
        let looked = stage.observer.exists(&path).and_watch().await.unwrap();
        node.set_data(data).await.unwrap();
        looked.watcher.await.unwrap();
        assert_eq!(node.path().as_ref(), Some(&path));
        assert_eq!(stage.data(&path).await, data);
    }
    let looked = stage.observer.exists(&path).and_watch().await.unwrap();
    node.close().await.unwrap();
    looked.watcher.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn setting_data() {
    set_data_test(CreateMode::Ephemeral).await;
}

#[tokio::test(start_paused = true)]
async fn setting_data_sequential() {
    set_data_test(CreateMode::EphemeralSequential).await;
}

#[tokio::test(start_paused = true)]
async fn deletes_node_when_closed_and_closing_multiple_times() {
    let stage = Stage::new().await;
    let node = stage.node(CreateMode::Ephemeral, "").await;
    assert!(stage.exists(PATH).await);
    for _ in 0..2 {
        node.close().await.unwrap();
        assert!(!stage.exists(PATH).await);
    }
}

#[tokio::test(start_paused = true)]
async fn deletes_and_recreates_node_when_session_reconnects_multiple_times() {
    let stage = Stage::new().await;
    let node = stage.node(CreateMode::Ephemeral, "").await;
    for _ in 0..5 {
        let before = node.registered().await.unwrap();
        let looked = stage.observer.exists(PATH).and_watch().await.unwrap();
        stage.kill_session(&stage.client);
        looked.watcher.await.unwrap();
        tokio::time::sleep(SECOND).await;
        assert!(node.registered_within(LONG).await.unwrap().czxid > before.czxid);
        assert!(stage.exists(PATH).await);
    }
}

/// Curator's node sets the data of the other session's znode at once. Ours waits.
#[tokio::test(start_paused = true)]
async fn recreates_node_when_ephemeral_owner_session_expires() {
    let stage = Stage::new().await;
    let creator = stage.server.connect().await.unwrap();
    let create = creator.create(PATH).data("theirs").mode(CreateMode::Ephemeral);
    create.parents(Parents::Persistent).await.unwrap();
    let node = PersistentNode::builder(&stage.client, PATH).data("ours").start().unwrap();
    assert!(node.registered_within(SECOND).await.is_err());
    assert_eq!(stage.data(PATH).await, "theirs");
    stage.kill_session(&creator);
    node.registered_within(LONG).await.unwrap();
    assert_eq!(stage.data(PATH).await, "ours");
}

#[tokio::test(start_paused = true)]
async fn recreates_node_when_it_gets_deleted_and_after_set_data() {
    let stage = Stage::new().await;
    let node = stage.node(CreateMode::Ephemeral, "").await;
    let mut before = node.registered().await.unwrap();
    for data in ["", "new"] {
        node.set_data(data).await.unwrap();
        stage.observer.delete(PATH).await.unwrap();
        tokio::time::sleep(SECOND).await;
        let after = node.registered_within(SECOND).await.unwrap();
        assert_eq!((&after.path, after.czxid > before.czxid), (&before.path, true));
        assert_eq!(stage.data(PATH).await, data);
        before = after;
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_create_unique_paths() {
    let stage = Stage::new().await;
    let first = stage.node(CreateMode::EphemeralSequential, "").await;
    let second = stage.node(CreateMode::EphemeralSequential, "").await;
    assert_ne!(first.path(), second.path());
}

#[tokio::test(start_paused = true)]
async fn set_data_when_node_exists() {
    let stage = Stage::new().await;
    let create = stage.client.create(PATH).data("initial").mode(CreateMode::Ephemeral);
    create.parents(Parents::Persistent).await.unwrap();
    let node = stage.node(CreateMode::Ephemeral, "data").await;
    assert_eq!(node.registered().await.unwrap().origin, Origin::Adopted, "of one session");
    assert_eq!(stage.data(PATH).await, "data");
}

#[tokio::test(start_paused = true)]
async fn set_data_when_disconnected() {
    let stage = Stage::new().await;
    let node = stage.node(CreateMode::Ephemeral, "initial").await;
    stage.server.stop().await;
    let early = tokio::time::timeout(SECOND, node.set_data("updated")).await;
    assert!(early.is_err(), "there is no server");
    stage.server.restart().await.unwrap();
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(stage.data(PATH).await, "updated");
}

#[tokio::test(start_paused = true)]
async fn set_updated_data_when_reconnected() {
    let stage = Stage::new().await;
    let node = stage.node(CreateMode::Ephemeral, "initial").await;
    node.set_data("updated").await.unwrap();
    stage.restart().await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(stage.data(PATH).await, "updated");
    assert_eq!(node.state(), NodeState::Present);
}

#[tokio::test(start_paused = true)]
async fn protected_and_ephemeral_sequential_with_protection_reconnection() {
    let stage = Stage::new().await;
    for mode in [CreateMode::Ephemeral, CreateMode::EphemeralSequential] {
        let builder = PersistentNode::builder(&stage.client, PATH).mode(mode).protected();
        let node = builder.start().unwrap();
        node.registered_within(SECOND).await.unwrap();
        let before = stage.observer.children("/test").await.unwrap().to_vec();
        stage.restart().await;
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(stage.observer.children("/test").await.unwrap().to_vec(), before);
        assert_eq!(before.len(), 1);
        node.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn no_write_permission() {
    let stage = Stage::new().await;
    let mut acl = Acl::open();
    acl.permissions = Permissions::READ;
    stage.observer.create("/test").acl(vec![acl]).await.unwrap();
    let node = PersistentNode::builder(&stage.client, PATH).start().unwrap();
    assert!(node.registered_within(LONG).await.is_err());
    let Some(NodeError::Client(error)) = node.last_failure() else { panic!("no failure") };
    assert!(error.is(ErrorCode::NO_AUTH), "{error}");
    assert!(!stage.exists(PATH).await);
}

/// Curator's node refuses data before its znode is there. Ours takes it.
#[tokio::test(start_paused = true)]
async fn quick_set_data() {
    let stage = Stage::new().await;
    let builder = PersistentNode::builder(&stage.client, PATH).mode(CreateMode::Persistent);
    let node = builder.data("hey").start().unwrap();
    node.set_data("there").await.unwrap();
    assert_eq!(stage.data(PATH).await, "there");
}

#[tokio::test(start_paused = true)]
async fn basic() {
    let stage = Stage::new().await;
    let node = stage.node(CreateMode::Persistent, "hey").await;
    stage.client.clone().close().await.unwrap();
    tokio::time::timeout(LONG, node.lost()).await.unwrap();
    assert_eq!(stage.data(PATH).await, "hey", "it outlives the session");
}

#[tokio::test(start_paused = true)]
async fn creation_and_recreation_with_parent_creation_off() {
    let stage = Stage::new().await;
    let builder = PersistentNode::builder(&stage.client, "/test/one/two").without_parents();
    let node = builder.data("hey").start().unwrap();
    let is_refused = |error: Option<NodeError>| matches!(error, Some(NodeError::Client(error)) if error.is(ErrorCode::NO_NODE));
    assert!(node.registered_within(SECOND).await.is_err());
    assert!(is_refused(node.last_failure()));
    stage.observer.create("/test/one").parents(Parents::Persistent).await.unwrap();
    node.registered_within(LONG).await.unwrap();
    assert_eq!(node.last_failure(), None);
    // Both at once: the node could be quicker than a second request.
    let deletes = ["/test/one/two", "/test/one"].map(|path| MultiOp::delete(path, Expect::Any));
    stage.observer.multi(deletes.into()).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert!(is_refused(node.last_failure()));
    assert!(!stage.exists("/test/one").await);
    stage.observer.create("/test/one").await.unwrap();
    node.registered_within(LONG).await.unwrap();
    assert_eq!(stage.data("/test/one/two").await, "hey");
}

#[tokio::test(start_paused = true)]
async fn quick_close() {
    let stage = Stage::new().await;
    let builder = PersistentNode::builder(&stage.client, PATH).mode(CreateMode::Persistent);
    builder.start().unwrap().close().await.unwrap();
    tokio::time::sleep(LONG).await;
    assert!(!stage.exists(PATH).await);
}

/// Curator's node deletes the znode that was there before. Ours does so only if it had it.
#[tokio::test(start_paused = true)]
async fn quick_close_node_exists() {
    let stage = Stage::new().await;
    stage.observer.create(PATH).parents(Parents::Persistent).await.unwrap();
    let builder = PersistentNode::builder(&stage.client, PATH).mode(CreateMode::Persistent);
    builder.start().unwrap().close().await.unwrap();
    assert!(stage.exists(PATH).await, "it was closed before it looked");
    stage.node(CreateMode::Persistent, "").await.close().await.unwrap();
    assert!(!stage.exists(PATH).await);
}

#[tokio::test(start_paused = true)]
async fn ttl_forced_delete_of_touch_node() {
    let stage = Stage::new().await;
    let ttl = 10 * SECOND;
    let node = PersistentTtlNode::builder(&stage.client, PATH, ttl).start().unwrap();
    node.registered_within(SECOND).await.unwrap();
    for _ in 0..5 {
        tokio::time::sleep(ttl).await;
        stage.observer.delete("/test/foo/touch").await.unwrap();
    }
    tokio::time::sleep(ttl).await;
    stage.server.sweep().unwrap();
    assert!(stage.exists(PATH).await);
    node.close().await.unwrap();
    tokio::time::sleep(2 * ttl).await;
    stage.server.sweep().unwrap();
    stage.server.sweep().unwrap();
    assert!(!stage.exists(PATH).await);
}

#[tokio::test(start_paused = true)]
async fn ttl_events_on_parent() {
    let stage = Stage::new().await;
    let mut changes = stage.observer.watch(PATH, WatchMode::PERSISTENT).await.unwrap();
    let node = PersistentTtlNode::builder(&stage.client, PATH, SECOND).start().unwrap();
    let created = node.registered_within(SECOND).await.unwrap().czxid;
    tokio::time::sleep(10 * SECOND).await;
    stage.observer.set(PATH, "changed").await.unwrap();
    tokio::time::sleep(10 * SECOND).await;
    let mut zxids = Vec::new();
    while let Ok(event) = tokio::time::timeout(SECOND, changes.next()).await {
        zxids.push(event.unwrap().zxid);
    }
    let changed = stage.observer.exists(PATH).await.unwrap().unwrap().mzxid;
    assert_eq!(zxids.iter().filter(|zxid| **zxid > created).collect::<Vec<_>>(), [&changed]);
}

#[tokio::test(start_paused = true)]
async fn group_member_basic() {
    let stage = Stage::new().await;
    let one = GroupMember::builder(&stage.client, "/member", "1").start().unwrap();
    assert!(one.members().await.unwrap().contains_key("1"));
    let two = GroupMember::builder(&stage.observer, "/member", "2").start().unwrap();
    one.registered_within(SECOND).await.unwrap();
    two.registered_within(SECOND).await.unwrap();
    let members = one.members().await.unwrap();
    assert_eq!(members.keys().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(members, two.members().await.unwrap());
    two.close().await.unwrap();
    assert_eq!(one.members().await.unwrap().into_keys().collect::<Vec<_>>(), ["1"]);
    one.set_payload("something").await.unwrap();
    assert_eq!(one.members().await.unwrap()["1"], "something");
}
