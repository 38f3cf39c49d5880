//! The scenarios of Curator's own tests of its nodes, by their names there: `TestPersistentNode`,
//! `TestPersistentEphemeralNode`, `TestPersistentTtlNode` and `TestGroupMember`. Where our nodes do
//! something else, the scenario says so.

use std::sync::Arc;

use libtest_mimic::Failed;
use zoolet_client::{Client, CreateMode, Parents};
use zoolet_protocol::{Acl, ErrorCode, EventType, Expect, MultiOp, Permissions, WatchMode};
use zoolet_recipes::{
    GroupMember, NodeError, NodeState, Origin, PersistentNode, PersistentTtlNode,
};

use super::scene::{A_WHILE, Scene, soon};
use super::{Outcome, Server};

/// How often a scenario does what may go well by chance.
const TIMES: usize = 5;
const KILLS: usize = 2;

/// A node of a mode, when it is registered.
async fn node(
    client: &Client,
    path: &str,
    mode: CreateMode,
    data: &'static str,
) -> Result<PersistentNode, Failed> {
    let node = PersistentNode::builder(client, path).mode(mode).data(data).start()?;
    soon(node.registered()).await??;
    Ok(node)
}

/// The data as another client reads it, which may be connected to a server that is behind.
async fn data(observer: &Client, path: &str) -> Result<String, Failed> {
    observer.sync(path).await?;
    Ok(String::from_utf8(observer.get(path).await?.0.to_vec())?)
}

async fn exists(observer: &Client, path: &str) -> Result<bool, Failed> {
    observer.sync(path).await?;
    Ok(observer.exists(path).await?.is_some())
}

/// `testListenersReconnectedIsFast`: the session lives on in another connection.
pub(crate) async fn listeners_reconnected_is_fast(scene: Arc<Scene>) -> Outcome {
    let ((client, way), observer) = (scene.client_behind_proxy().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let node = node(&client, &path, CreateMode::Ephemeral, "hello").await?;
    let registered = soon(node.registered()).await??;
    way.cut();
    soon(node.set_data("again")).await??;
    assert_eq!(soon(node.registered()).await??, registered);
    assert_eq!(data(&observer, &path).await?, "again");
    Ok(())
}

/// `testNoServerAtStart`.
pub(crate) async fn no_server_at_start(scene: Arc<Scene>) -> Outcome {
    let ((client, way), observer) = (scene.client_behind_proxy().await?, scene.client().await?);
    way.refuse(true);
    way.cut();
    let path = scene.path("abc/node");
    let node = PersistentNode::builder(&client, &path).data("hello").start()?;
    assert!(node.registered_within(A_WHILE).await.is_err());
    assert_eq!(node.state(), NodeState::Missing);
    way.refuse(false);
    soon(node.registered()).await??;
    assert_eq!(data(&observer, &path).await?, "hello");
    Ok(())
}

/// `testSettingData` and `testSettingDataSequential`.
pub(crate) async fn setting_data(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    for mode in [CreateMode::Ephemeral, CreateMode::EphemeralSequential] {
        let node = node(&client, &scene.path("test/foo"), mode, "a").await?;
        let path = node.path().ok_or("it is registered")?;
        assert_eq!(data(&observer, &path).await?, "a");
        for next in ["b", "c"] {
            let looked = observer.exists(&path).and_watch().await?;
            soon(node.set_data(next)).await??;
            soon(looked.watcher).await??;
            assert_eq!(node.path().as_ref(), Some(&path));
            assert_eq!(data(&observer, &path).await?, next);
        }
        let looked = observer.exists(&path).and_watch().await?;
        soon(node.close()).await??;
        soon(looked.watcher).await??;
    }
    Ok(())
}

/// `testDeletesNodeWhenClosed` and `testClosingMultipleTimes`.
pub(crate) async fn deletes_node_when_closed(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let node = node(&client, &path, CreateMode::Ephemeral, "").await?;
    assert!(exists(&observer, &path).await?);
    for _ in 0..2 {
        soon(node.close()).await??;
        assert!(!exists(&observer, &path).await?);
    }
    Ok(())
}

/// `testDeletesAndRecreatesNodeWhenSessionReconnects` and `testRecreatesNodeWhenSessionReconnects`, with
/// `MultipleTimes`.
pub(crate) async fn recreates_node_when_session_reconnects(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let node = node(&client, &path, CreateMode::Ephemeral, "hello").await?;
    for _ in 0..TIMES {
        let before = soon(node.registered()).await??;
        observer.sync(&path).await?;
        let looked = observer.exists(&path).and_watch().await?;
        scene.expire(&client).await?;
        soon(looked.watcher).await??;
        let is_new = async || Ok(soon(node.registered()).await??.czxid > before.czxid);
        scene.until("the next session has created it", is_new).await?;
        assert_eq!(data(&observer, &path).await?, "hello");
    }
    Ok(())
}

/// `testRecreatesNodeWhenEphemeralOwnerSessionExpires`. Curator's node sets the data of the other
/// session's znode at once. Ours waits.
pub(crate) async fn recreates_node_when_ephemeral_owner_session_expires(
    scene: Arc<Scene>,
) -> Outcome {
    let (creator, client) = (scene.client().await?, scene.client().await?);
    let observer = scene.client().await?;
    let path = scene.path("test/foo");
    let create = creator.create(&path).data("theirs").mode(CreateMode::Ephemeral);
    create.parents(Parents::Persistent).await?;
    let node = PersistentNode::builder(&client, &path).data("ours").start()?;
    assert!(node.registered_within(A_WHILE).await.is_err());
    assert_eq!(data(&observer, &path).await?, "theirs");
    scene.expire(&creator).await?;
    soon(node.registered()).await??;
    assert_eq!(data(&observer, &path).await?, "ours");
    Ok(())
}

/// `testRecreatesNodeWhenItGetsDeleted` and `testRecreatesNodeWhenItGetsDeletedAfterSetData`.
pub(crate) async fn recreates_node_when_it_gets_deleted(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let node = node(&client, &path, CreateMode::Ephemeral, "").await?;
    for next in ["", "new"] {
        soon(node.set_data(next)).await??;
        let before = soon(node.registered()).await??;
        observer.delete(&path).await?;
        let is_new = async || Ok(soon(node.registered()).await??.czxid > before.czxid);
        scene.until("it is created again", is_new).await?;
        assert_eq!(data(&observer, &path).await?, next);
    }
    Ok(())
}

/// `testNodesCreateUniquePaths`.
pub(crate) async fn nodes_create_unique_paths(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let mode = CreateMode::EphemeralSequential;
    let first = node(&client, &scene.path("test/foo"), mode, "").await?;
    let second = node(&client, &scene.path("test/foo"), mode, "").await?;
    assert_ne!(first.path(), second.path());
    Ok(())
}

/// `testSetDataWhenNodeExists`.
pub(crate) async fn set_data_when_node_exists(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let create = client.create(&path).data("initial").mode(CreateMode::Ephemeral);
    create.parents(Parents::Persistent).await?;
    let node = node(&client, &path, CreateMode::Ephemeral, "data").await?;
    assert_eq!(soon(node.registered()).await??.origin, Origin::Adopted, "of one session");
    assert_eq!(data(&observer, &path).await?, "data");
    Ok(())
}

/// `testSetDataWhenDisconnected` and `testSetUpdatedDataWhenReconnected`.
pub(crate) async fn set_data_when_disconnected(scene: Arc<Scene>) -> Outcome {
    let ((client, way), observer) = (scene.client_behind_proxy().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let node = node(&client, &path, CreateMode::Ephemeral, "initial").await?;
    way.refuse(true);
    way.cut();
    let early = tokio::time::timeout(A_WHILE, node.set_data("updated")).await;
    assert!(early.is_err(), "there is no server");
    way.refuse(false);
    let is_updated = async || Ok(data(&observer, &path).await? == "updated");
    scene.until("the data is written", is_updated).await?;
    way.cut();
    soon(client.sync(&path).until_answered()).await??;
    assert_eq!(data(&observer, &path).await?, "updated");
    assert_eq!(node.state(), NodeState::Present);
    Ok(())
}

/// `testProtected`, `testEphemeralSequentialWithProtectionReconnection` and
/// `testEphemeralWithProtectionReconnection`.
pub(crate) async fn protected_reconnection(scene: Arc<Scene>) -> Outcome {
    let ((client, way), observer) = (scene.client_behind_proxy().await?, scene.client().await?);
    for mode in [CreateMode::Ephemeral, CreateMode::EphemeralSequential] {
        let builder = PersistentNode::builder(&client, &scene.path("test/foo")).mode(mode);
        let node = builder.protected().start()?;
        let path = soon(node.registered()).await??.path;
        let before = scene.line(&scene.path("test")).await?;
        assert!(before.len() == 1 && before[0].starts_with("_c_"), "{before:?}");
        way.cut();
        soon(node.set_data("again")).await??;
        assert_eq!(data(&observer, &path).await?, "again");
        assert_eq!(scene.line(&scene.path("test")).await?, before);
        soon(node.close()).await??;
    }
    Ok(())
}

/// `testNoWritePermission`.
pub(crate) async fn no_write_permission(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let mut acl = Acl::open();
    acl.permissions = Permissions::READ;
    let directory = scene.path("test");
    observer.create(&directory).parents(Parents::Persistent).await?;
    observer.set_acl(&directory, vec![acl]).await?;
    let path = format!("{directory}/foo");
    let node = PersistentNode::builder(&client, &path).start()?;
    let is_refused = async || {
        let failure = node.last_failure();
        Ok(matches!(failure, Some(NodeError::Client(error)) if error.is(ErrorCode::NO_AUTH)))
    };
    scene.until("the server refuses it", is_refused).await?;
    assert!(!exists(&observer, &path).await?);
    Ok(())
}

/// `testQuickSetData`. Curator's node refuses data before its znode is there. Ours takes it.
pub(crate) async fn quick_set_data(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let builder = PersistentNode::builder(&client, &path).mode(CreateMode::Persistent);
    let node = builder.data("hey").start()?;
    soon(node.set_data("there")).await??;
    assert_eq!(data(&observer, &path).await?, "there");
    Ok(())
}

/// `testBasic` of a persistent znode, which outlives its session.
pub(crate) async fn basic(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.unlisted_client().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let node = node(&client, &path, CreateMode::Persistent, "hey").await?;
    client.close().await?;
    soon(node.lost()).await?;
    assert_eq!(data(&observer, &path).await?, "hey");
    Ok(())
}

/// `testCreationWithParentCreationOff` and `testRecreationWithParentCreationOff`.
pub(crate) async fn creation_with_parent_creation_off(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let (directory, path) = (scene.path("test/one"), scene.path("test/one/two"));
    let node = PersistentNode::builder(&client, &path).without_parents().data("hey").start()?;
    let is_refused = async || {
        let failure = node.last_failure();
        Ok(matches!(failure, Some(NodeError::Client(error)) if error.is(ErrorCode::NO_NODE)))
    };
    scene.until("the server refuses it", is_refused).await?;
    observer.create(&directory).parents(Parents::Persistent).await?;
    soon(node.registered()).await??;
    assert_eq!(node.last_failure(), None);
    // Both at once: the node could be quicker than a second request.
    let deletes = [&path, &directory].map(|path| MultiOp::delete(path.as_str(), Expect::Any));
    observer.multi(deletes.into()).await?;
    scene.until("the server refuses it again", is_refused).await?;
    assert!(!exists(&observer, &directory).await?);
    observer.create(&directory).await?;
    soon(node.registered()).await??;
    assert_eq!(data(&observer, &path).await?, "hey");
    Ok(())
}

/// `testQuickClose` and `testQuickCloseNodeExists`. Curator's node deletes the znode that was there
/// before. Ours does so only if it had it.
pub(crate) async fn quick_close(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let path = scene.path("test/foo");
    let start = || PersistentNode::builder(&client, &path).mode(CreateMode::Persistent).start();
    for _ in 0..TIMES {
        soon(start()?.close()).await??;
        assert!(!exists(&observer, &path).await?);
    }
    observer.create(&path).parents(Parents::Persistent).await?;
    let node = start()?;
    soon(node.registered()).await??;
    soon(node.close()).await??;
    assert!(!exists(&observer, &path).await?);
    Ok(())
}

/// `TestPersistentTtlNode`: `testEventsOnParent` and `testForcedDeleteOfTouchNode`.
pub(crate) async fn ttl_node(scene: Arc<Scene>) -> Outcome {
    let (client, observer) = (scene.client().await?, scene.client().await?);
    let (path, touch) = (scene.path("test/foo"), scene.path("test/foo/touch"));
    let mut changes = observer.watch(&path, WatchMode::PERSISTENT).await?;
    let node = PersistentTtlNode::builder(&client, &path, A_WHILE).start()?;
    soon(node.registered()).await??;
    let version = async || {
        observer.sync(&touch).await?;
        Ok::<_, Failed>(observer.exists(&touch).await?.map(|stat| stat.version))
    };
    let is_touched = async || Ok(version().await? >= Some(TIMES.try_into()?));
    scene.until("it is touched", is_touched).await?;
    observer.set(&path, "changed").await?;
    // The touches are no events of the znode itself.
    for expected in
        [EventType::NODE_CREATED, EventType::NODE_CHILDREN_CHANGED, EventType::NODE_DATA_CHANGED]
    {
        assert_eq!(soon(changes.next()).await??.event_type, expected);
    }
    drop(changes);
    for _ in 0..2 {
        match observer.delete(&touch).await {
            Err(error) if !error.is(ErrorCode::NO_NODE) => return Err(error.into()),
            _ => {}
        }
        let is_touched = async || Ok(version().await?.is_some());
        scene.until("it is touched again", is_touched).await?;
    }
    assert_eq!(data(&observer, &path).await?, "changed");
    soon(node.close()).await??;
    Ok(())
}

/// `TestGroupMember.testBasic`.
pub(crate) async fn group_member_basic(scene: Arc<Scene>) -> Outcome {
    let (client, other) = (scene.client().await?, scene.client().await?);
    let group = scene.path("member");
    let one = GroupMember::builder(&client, &group, "1").payload("one").start()?;
    assert!(soon(one.members()).await??.contains_key("1"));
    let two = GroupMember::builder(&other, &group, "2").payload("two").start()?;
    soon(one.registered()).await??;
    soon(two.registered()).await??;
    // A sync is not enough: a leader answers one of its own clients before it has applied what other
    // members have applied already.
    let sees = async |member: &GroupMember, ids: &[&str]| {
        Ok::<_, Failed>(soon(member.members()).await??.into_keys().eq(ids.iter().copied()))
    };
    scene.until("one sees both", async || sees(&one, &["1", "2"]).await).await?;
    scene.until("two sees both", async || sees(&two, &["1", "2"]).await).await?;
    assert_eq!(soon(one.members()).await??, soon(two.members()).await??);
    soon(two.close()).await??;
    scene.until("two has left", async || sees(&one, &["1"]).await).await?;
    soon(one.set_payload("something")).await??;
    assert_eq!(soon(one.members()).await??["1"], "something");
    soon(one.close()).await??;
    Ok(())
}

/// `testListenersReconnectedIsOK` and `TestGroupMember`, with the leader of an ensemble in place of a
/// server that starts again: the sessions survive it, and so do the znodes. What is set meanwhile is
/// written.
pub(crate) fn crashed_leader(server: &mut Server) -> Outcome {
    let scene = Arc::new(server.scene("nodes-crashed-leader"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (client, observer) = (scene.client().await?, scene.client().await?);
        let path = scene.path("test/foo");
        let plain = node(&client, &path, CreateMode::Ephemeral, "0").await?;
        let mode = CreateMode::EphemeralSequential;
        let numbered = node(&client, &scene.path("test/foo"), mode, "0").await?;
        let group = scene.path("group");
        let one = GroupMember::builder(&client, &group, "one").payload("0").start()?;
        let two = GroupMember::builder(&observer, &group, "two").payload("0").start()?;
        let before = (soon(plain.registered()).await??, soon(numbered.registered()).await??);
        let joined = (soon(one.registered()).await??, soon(two.registered()).await??);
        let numbered_path = numbered.path().ok_or("it is registered")?;
        for kill in 1..=KILLS {
            let leader = server.kill_leader()?;
            let payload = kill.to_string();
            soon(plain.set_data(payload.clone())).await??;
            soon(numbered.set_data(payload.clone())).await??;
            soon(one.set_payload(payload.clone())).await??;
            soon(two.set_payload(payload.clone())).await??;
            let is_read = async || {
                for path in [&path, &numbered_path] {
                    if data(&observer, path).await.ok().as_ref() != Some(&payload) {
                        return Ok(false);
                    }
                }
                Ok(one.members().await.is_ok_and(|members| {
                    members.len() == 2 && members.values().all(|it| *it == payload)
                }))
            };
            scene.until("all see what was set", is_read).await?;
            assert_eq!(
                (soon(plain.registered()).await??, soon(numbered.registered()).await??),
                before
            );
            assert_eq!((soon(one.registered()).await??, soon(two.registered()).await??), joined);
            server.restart(leader)?;
        }
        for node in [plain, numbered] {
            soon(node.close()).await??;
        }
        soon(one.close()).await??;
        soon(two.close()).await??;
        scene.assert_clean().await
    })
}
