//! Clients of two processes whose random numbers agree: their generators were seeded at the same moment
//! of one clock. Each has ids of its own all the same, so that none takes the znodes of another for its own.

use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::{CreateMode, OpCode};
use zoolet::recipes::queue::DistributedQueue;
use zoolet::testing::{RequestFilter, TestServer};

const SECOND: Duration = Duration::from_secs(1);

/// The seed that the generators of both processes have.
const SEED: u64 = 17;

/// Connects a client. What it draws next is what any other client of this function drew first.
async fn connect(server: &TestServer) -> Client {
    let client = server.connect().await.expect("the server is there");
    fastrand::seed(SEED);
    client
}

/// Lets the reply to a client's next create of this kind be lost.
fn lose_reply(server: &TestServer, client: &Client, create: &[OpCode]) {
    let next = RequestFilter::next(1).of(create);
    server.session(client.session_id()).cut_before_reply(next).expect("a session");
}

#[tokio::test(start_paused = true)]
async fn no_two_clients_draw_the_same_unique_name() {
    let server = TestServer::start().await.unwrap();
    let first = connect(&server).await.unique_name();
    let second = connect(&server).await.unique_name();
    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_reply_was_lost_does_not_delete_the_znode_of_another_client() {
    let server = TestServer::start().await.unwrap();
    let create = async |client: &Client| {
        let create = client.create("/place-").mode(CreateMode::EphemeralSequential);
        create.protected().await.unwrap().path
    };
    let first = connect(&server).await;
    let place = create(&first).await;
    let second = connect(&server).await;
    lose_reply(&server, &second, &[OpCode::CREATE2]);
    create(&second).await;
    tokio::time::sleep(SECOND).await;
    assert!(first.exists(&place).await.unwrap().is_some(), "the first place is gone");
}

#[tokio::test(start_paused = true)]
async fn a_put_whose_reply_was_lost_is_carried_out_beside_the_put_of_another_client() {
    let server = TestServer::start().await.unwrap();
    let queue = |client: &Client| DistributedQueue::new(client, "/jobs").unwrap();
    let first = queue(&connect(&server).await);
    first.put("1").await.unwrap();
    let second = connect(&server).await;
    lose_reply(&server, &second, &[OpCode::MULTI]);
    queue(&second).put("2").await.unwrap();
    assert_eq!(first.count().await.unwrap(), 2);
}
