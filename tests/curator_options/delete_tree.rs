//! Tests of the deletion of a znode with everything below it.

use std::sync::mpsc;

use zoolet::client::{Client, Parents};
use zoolet::protocol::{ErrorCode, OpCode};
use zoolet_test_support::stage::{connect, counted, server};

async fn create(client: &Client, path: &str) {
    client.create(path).parents(Parents::Persistent).await.expect("no such znode was there");
}

/// Creates `/a` with three branches of this many leaves each.
async fn plant(client: &Client, leaves: usize) {
    for branch in 0..3 {
        for leaf in 0..leaves {
            create(client, &format!("/a/{branch}/x/{leaf}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_descendants_are_deleted_and_nothing_else() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    plant(&client, 200).await;
    create(&client, "/ab").await;
    counting.take_requests();
    client.delete_with_descendants("/a").await.unwrap();
    let requests = counting.take_requests();
    let deletes = requests.iter().find(|(op, _)| *op == OpCode::DELETE).map(|(_, count)| *count);
    let deletes = deletes.unwrap();
    assert!(deletes <= 600 + 3 * 7, "a leaf costs one request: {deletes}");
    assert_eq!(client.exists("/a").await.unwrap(), None);
    assert!(client.exists("/ab").await.unwrap().is_some());
    let error = client.delete_with_descendants("/a").await.unwrap_err();
    assert!(error.is(ErrorCode::NO_NODE), "{error}");
    client.delete_with_descendants("/ab").await.unwrap();
    let error = client.delete_with_descendants("/").await.unwrap_err();
    assert!(error.is(ErrorCode::BAD_ARGUMENTS), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_others_create_meanwhile_is_deleted_too() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    let other = connect(&server).await;
    create(&client, "/a/b").await;
    let (created, creates) = mpsc::channel();
    // Once `/a` was listed, before its child is deleted.
    let inner = counting.clone();
    counting.before_next(OpCode::GET_CHILDREN, move || {
        inner.before_next(OpCode::DELETE, move || {
            created.send(other.create("/a/later").send()).unwrap();
        });
    });
    client.delete_with_descendants("/a").await.unwrap();
    creates.recv().unwrap().await.unwrap();
    assert_eq!(client.exists("/a").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn lost_replies_do_no_harm() {
    let server = server().await;
    let (client, counting) = counted(&server).await;
    for replies in [0, 1, 2, 40, 100] {
        plant(&client, 100).await;
        counting.cut_after(replies);
        client.delete_with_descendants("/a").await.unwrap();
        counting.cut_after(-1);
        assert_eq!(client.exists("/a").await.unwrap(), None, "cut after {replies} replies");
    }
    // The last delete was carried out, and its reply was lost.
    create(&client, "/leaf").await;
    counting.cut_after(0);
    client.delete_with_descendants("/leaf").await.unwrap();
    counting.cut_after(-1);
    assert_eq!(client.exists("/leaf").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn paths_are_those_of_the_namespace() {
    let server = server().await;
    let (client, _) = counted(&server).await;
    create(&client, "/app/a/b").await;
    create(&client, "/a/b").await;
    client.namespace("/app").unwrap().delete_with_descendants("/a").await.unwrap();
    assert!(client.exists("/a/b").await.unwrap().is_some());
    assert_eq!(client.exists("/app/a").await.unwrap(), None);
    // All of the namespace, with its root.
    create(&client, "/app/c/d").await;
    client.namespace("/app").unwrap().delete_with_descendants("/").await.unwrap();
    assert_eq!(client.exists("/app").await.unwrap(), None);
    assert!(client.exists("/a/b").await.unwrap().is_some());
}
