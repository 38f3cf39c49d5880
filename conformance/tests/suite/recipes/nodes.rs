//! Persistent nodes, memberships, shares and leases.

use std::sync::Arc;
use std::time::Duration;

use zoolet_client::{Client, CreateMode, Parents};
use zoolet_protocol::ErrorCode;
use zoolet_recipes::{
    GroupMember, LockState, NodeError, NonBlockingLease, Origin, Party, PersistentNode,
    SetPartitioner, ShallowParty, TakeOver,
};

use super::Outcome;
use super::scene::{A_WHILE, Scene, soon};

pub(crate) async fn a_node_survives_a_cut_an_expiry_and_a_deletion(scene: Arc<Scene>) -> Outcome {
    let path = scene.path("node");
    let other = scene.client().await?;
    let (client, way) = scene.client_behind_proxy().await?;
    let node = PersistentNode::builder(&client, &path).data("one").start()?;
    let first = soon(node.registered()).await??;
    way.cut();
    soon(node.set_data("two")).await??;
    assert_eq!(soon(node.registered()).await??, first, "a cut connection changes nothing");
    scene.expire(&client).await?;
    soon(node.lost()).await?;
    let second = soon(node.registered()).await??;
    assert!(second.czxid > first.czxid);
    other.sync(&path).await?;
    let (data, stat) = other.get(&path).await?;
    assert_eq!((&data[..], stat.ephemeral_owner), (&b"two"[..], client.session_id()));
    other.delete(&path).await?;
    let is_new = async || Ok(soon(node.registered()).await??.czxid > second.czxid);
    scene.until("the znode is there again", is_new).await?;
    soon(node.close()).await??;
    scene.assert_clean().await
}

pub(crate) async fn a_sequential_node_keeps_its_name(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    for is_protected in [false, true] {
        let builder = PersistentNode::builder(&client, &scene.path("node-"));
        let builder = builder.mode(CreateMode::EphemeralSequential);
        let node = if is_protected { builder.protected() } else { builder }.start()?;
        let first = soon(node.registered()).await??;
        scene.expire(&client).await?;
        soon(node.lost()).await?;
        let second = soon(node.registered()).await??;
        assert_eq!(second.path, first.path);
        assert!(second.czxid > first.czxid);
        soon(node.close()).await??;
    }
    scene.assert_clean().await
}

pub(crate) async fn a_node_waits_for_the_ephemeral_of_another_session(
    scene: Arc<Scene>,
) -> Outcome {
    let path = scene.path("node");
    let (one, two) = (scene.client().await?, scene.client().await?);
    let first = PersistentNode::builder(&one, &path).data("one").start()?;
    soon(first.registered()).await??;
    let second = PersistentNode::builder(&two, &path).data("two").start()?;
    let error = second.registered_within(A_WHILE).await.expect_err("the name is taken");
    let NodeError::TimedOut { cause: Some(cause), .. } = error else {
        return Err(format!("{error}").into());
    };
    assert_eq!(*cause, NodeError::Occupied { path: path.clone(), owner: one.session_id() });
    soon(first.close()).await??;
    soon(second.registered()).await??;
    let builder = PersistentNode::builder(&one, &path).data("three").take_over(TakeOver::AtOnce);
    let third = builder.start()?;
    let taken = soon(third.registered()).await??;
    assert_eq!(taken.origin, Origin::TakenOver(two.session_id()));
    soon(second.lost()).await?;
    soon(third.close()).await??;
    soon(second.close()).await??;
    scene.assert_clean().await
}

pub(crate) async fn a_lost_reply_leaves_one_znode(scene: Arc<Scene>) -> Outcome {
    let directory = scene.path("nodes");
    for round in 0..20 {
        let (client, way) = scene.client_behind_proxy().await?;
        let builder = PersistentNode::builder(&client, &format!("{directory}/node-"));
        let node = builder.mode(CreateMode::EphemeralSequential).protected().start()?;
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        way.cut();
        let registered = soon(node.registered()).await??;
        scene.until_in_line(&directory, 1).await?;
        assert!(client.exists(&registered.path).await?.is_some());
        soon(node.close()).await??;
        scene.until_in_line(&directory, 0).await?;
    }
    scene.assert_clean().await
}

pub(crate) async fn members_join_again_in_their_next_session(scene: Arc<Scene>) -> Outcome {
    let (one, two) = (scene.client().await?, scene.client().await?);
    let party = Party::new(&one, &scene.path("party"))?;
    let shallow = ShallowParty::new(&two, &scene.path("shallow"))?;
    let (member, other) = (party.join("one").await?, shallow.join("two").await?);
    let group = scene.path("group");
    let in_group = GroupMember::builder(&one, &group, "one").payload("1").start()?;
    soon(in_group.registered()).await??;
    scene.expire(&one).await?;
    scene.expire(&two).await?;
    soon(member.lost()).await?;
    soon(other.lost()).await?;
    soon(member.registered()).await??;
    soon(other.registered()).await??;
    soon(in_group.registered()).await??;
    assert_eq!(party.participants().await?, ["one"]);
    assert_eq!(shallow.participants().await?, ["two"]);
    assert_eq!(in_group.members().await?["one"], "1");
    soon(member.leave()).await??;
    soon(other.leave()).await??;
    soon(in_group.close()).await??;
    scene.assert_clean().await
}

pub(crate) async fn a_set_is_shared_out_anew_when_a_session_ends(scene: Arc<Scene>) -> Outcome {
    let path = scene.path("work");
    let (one, two) = (scene.client().await?, scene.client().await?);
    let start = async |client: &Client, identifier: &str| {
        let builder = SetPartitioner::builder(client, &path, identifier, ["a", "b", "c"]);
        builder.time_boundary(A_WHILE).start().await
    };
    let (first, second) = (start(&one, "one").await?, start(&two, "two").await?);
    let (share, other) = tokio::join!(soon(first.acquire()), soon(second.acquire()));
    let (share, other) = (share??, other??);
    assert_eq!((share.items().len(), other.items().len()), (2, 1));
    let token = share.fencing_token("a");
    scene.expire(&one).await?;
    soon(share.lost()).await?;
    assert_ne!(share.state(), LockState::Held);
    soon(other.change_requested()).await?;
    drop(share);
    soon(other.release()).await??;
    let (share, other) = tokio::join!(soon(first.acquire()), soon(second.acquire()));
    let (share, other) = (share??, other??);
    assert!(share.fencing_token("a") > token);
    soon(share.release()).await??;
    soon(other.release()).await??;
    soon(first.finish()).await??;
    soon(second.finish()).await??;
    scene.assert_clean().await
}

pub(crate) async fn a_lease_has_one_holder_and_outlives_the_session(scene: Arc<Scene>) -> Outcome {
    let path = scene.path("lease");
    let (one, two) = (scene.client().await?, scene.client().await?);
    let first = NonBlockingLease::new(&one, &path, "one")?;
    let second = NonBlockingLease::new(&two, &path, "two")?;
    let hour = Duration::from_secs(3600);
    let lease = soon(first.obtain(hour)).await??.ok_or("nobody has it")?;
    assert!(soon(second.obtain(hour)).await??.is_none());
    scene.expire(&one).await?;
    assert!(soon(second.obtain(hour)).await??.is_none());
    let give_up = async || match first.give_up(&lease).await {
        Ok(is_given_up) => Ok(is_given_up),
        Err(error) => Err(error.into()),
    };
    scene.until("it is given up", give_up).await?;
    let next = soon(second.obtain(hour)).await??.ok_or("nobody has it")?;
    assert!(next.fencing_token() > lease.fencing_token());
    scene.assert_clean().await
}

pub(crate) async fn a_refusal_is_told_and_tried_again(scene: Arc<Scene>) -> Outcome {
    let directory = scene.path("missing");
    let client = scene.client().await?;
    let builder = PersistentNode::builder(&client, &format!("{directory}/node"));
    let node = builder.without_parents().start()?;
    let is_refused = async || {
        let failure = node.last_failure();
        Ok(matches!(failure, Some(NodeError::Client(error)) if error.is(ErrorCode::NO_NODE)))
    };
    scene.until("the server refuses it", is_refused).await?;
    client.create(&directory).parents(Parents::Persistent).await?;
    soon(node.registered()).await??;
    soon(node.close()).await??;
    scene.assert_clean().await
}
