//! Tests of `SetPartitioner` on a server of the test kit: each item has one member at a time, all items
//! have one after calm, and the set is shared out anew when members come, go or lose their sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet::client::Client;
use zoolet::protocol::{CreateMode, Zxid};
use zoolet::recipes::{LockState, NodeError, PartitionError, SetPartitioner, Share};
use zoolet::testing::TestServer;

const PATH: &str = "/work";
const ITEMS: [&str; 5] = ["e", "a", "b", "c", "d"];
const BOUNDARY: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);
/// Longer than the session timeout and the time boundary.
const LONG: Duration = Duration::from_secs(120);

async fn join(client: &Client, identifier: &str) -> SetPartitioner {
    let builder = SetPartitioner::builder(client, PATH, identifier, ITEMS);
    builder.time_boundary(BOUNDARY).start().await.expect("the server is there")
}

async fn acquire(partitioner: &SetPartitioner) -> Share {
    let share = tokio::time::timeout(LONG, partitioner.acquire()).await;
    share.expect("the party is quiet").expect("the share is acquired")
}

fn items(share: &Share) -> Vec<&str> {
    share.items().collect()
}

/// The tokens of all items of shares that are held at the same time, each of which has one member.
fn tokens(shares: &[&Share]) -> BTreeMap<String, Zxid> {
    let mut tokens = BTreeMap::new();
    for share in shares {
        assert_eq!(share.state(), LockState::Held);
        for item in share.items() {
            let token = share.fencing_token(item).expect("it is its own");
            assert_eq!(tokens.insert(item.to_owned(), token), None, "two members have {item}");
        }
    }
    tokens
}

#[tokio::test(start_paused = true)]
async fn the_set_is_shared_out_anew_when_a_member_joins_and_leaves() {
    let server = TestServer::start().await.unwrap();
    let (one, two) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let first = join(&one, "host-1").await;
    let share = acquire(&first).await;
    assert_eq!(items(&share), ["a", "b", "c", "d", "e"]);
    let before = tokens(&[&share]);
    assert!(!share.is_change_requested());
    let second = join(&two, "host-2").await;
    tokio::time::timeout(SECOND, share.change_requested()).await.expect("the change is told");
    assert_eq!(share.state(), LockState::Held, "the items stay until they are released");
    let release = async {
        tokio::time::sleep(2 * BOUNDARY).await;
        share.release().await.unwrap();
        acquire(&first).await
    };
    let (other, share) = tokio::join!(acquire(&second), release);
    assert_eq!((items(&share), items(&other)), (vec!["a", "c", "e"], vec!["b", "d"]));
    let after = tokens(&[&share, &other]);
    assert!(before.iter().all(|(item, token)| after[item] > *token), "tokens grow");
    other.release().await.unwrap();
    second.finish().await.unwrap();
    share.change_requested().await;
    share.release().await.unwrap();
    let share = acquire(&first).await;
    assert_eq!(items(&share).len(), ITEMS.len());
    drop((share, first));
    tokio::time::sleep(SECOND).await;
    assert_eq!(server.totals().watches, 0);
    assert!(one.children("/work/party").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_znodes_are_kazoos() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let partitioner = join(&client, "host-1").await;
    let share = acquire(&partitioner).await;
    let party = client.children("/work/party").await.unwrap().to_vec();
    assert!(party.len() == 1 && party[0].len() == 32 + "-host-1".len(), "{party:?}");
    for item in share.items() {
        let directory = format!("/work/locks/{item}");
        let line = client.children(&directory).await.unwrap().to_vec();
        assert!(line.len() == 1 && line[0].contains("__lock__"), "{line:?}");
        let (data, stat) = client.get(&format!("{directory}/{}", line[0])).await.unwrap();
        assert_eq!((&data[..], stat.czxid), (&b"host-1"[..], share.fencing_token(item).unwrap()));
    }
    assert_eq!(share.fencing_token("x"), None);
}

#[tokio::test(start_paused = true)]
async fn members_of_kazoo_take_part() {
    let server = TestServer::start().await.unwrap();
    let (client, kazoo) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let partitioner = join(&client, "host-2").await;
    // As kazoo's client does: it is the first of two, and holds the lock of its first item.
    let member = "/work/party/00000000000000000000000000000000-host-1";
    kazoo.create(member).mode(CreateMode::Ephemeral).await.unwrap();
    let mode = CreateMode::EphemeralSequential;
    let parents = zoolet::client::Parents::Persistent;
    let lock = "/work/locks/b/00000000000000000000000000000000__lock__";
    let lock = kazoo.create(lock).mode(mode).parents(parents).await.unwrap().path;
    let waiting = tokio::time::timeout(LONG, partitioner.acquire()).await;
    assert!(waiting.is_err(), "kazoo has an item of this member still");
    kazoo.delete(&lock).await.unwrap();
    assert_eq!(items(&acquire(&partitioner).await), ["b", "d"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_loses_the_share_and_the_member_joins_again() {
    let server = TestServer::start().await.unwrap();
    let (one, two) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let (first, second) = (join(&one, "host-1").await, join(&two, "host-2").await);
    let (share, other) = tokio::join!(acquire(&first), acquire(&second));
    let before = tokens(&[&share, &other]);
    server.session(one.session_id()).expire().unwrap();
    tokio::time::timeout(LONG, share.lost()).await.expect("the loss is told");
    tokio::time::timeout(LONG, other.change_requested()).await.expect("the change is told");
    assert!(matches!(share.release().await, Err(PartitionError::Lock(_))));
    other.release().await.unwrap();
    let (share, other) = tokio::join!(acquire(&first), acquire(&second));
    let after = tokens(&[&share, &other]);
    assert_eq!(after.len(), ITEMS.len());
    assert!(before.iter().all(|(item, token)| after[item] > *token), "tokens grow");
}

#[tokio::test(start_paused = true)]
async fn more_members_than_items_have_empty_shares_that_are_never_lost() {
    let server = TestServer::start().await.unwrap();
    let mut members = Vec::new();
    for number in 0..7 {
        members.push(join(&server.connect().await.unwrap(), &format!("host-{number}")).await);
    }
    let mut shares = Vec::new();
    for member in &members {
        shares.push(acquire(member).await);
    }
    assert_eq!(tokens(&shares.iter().collect::<Vec<_>>()).len(), ITEMS.len());
    assert_eq!(items(&shares[6]), Vec::<&str>::new());
    assert!(tokio::time::timeout(LONG, shares[6].lost()).await.is_err());
    members.pop().unwrap().finish().await.unwrap();
    shares[6].change_requested().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_leaves_no_lock() {
    let server = TestServer::start().await.unwrap();
    let (client, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let partitioner = join(&client, "host-1").await;
    let mode = CreateMode::EphemeralSequential;
    let parents = zoolet::client::Parents::Persistent;
    other.create("/work/locks/c/x__lock__").mode(mode).parents(parents).await.unwrap();
    assert!(tokio::time::timeout(LONG, partitioner.acquire()).await.is_err(), "an item is taken");
    tokio::time::sleep(SECOND).await;
    for item in ["a", "b", "d", "e"] {
        match client.children(&format!("/work/locks/{item}")).await {
            Ok(names) => assert!(names.is_empty(), "{item}: {names:?}"),
            Err(error) => assert!(error.is(zoolet::protocol::ErrorCode::NO_NODE), "{error}"),
        }
    }
    assert_eq!(client.children("/work/locks/c").await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_function_of_the_caller_shares_the_set_out() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let last_takes_all = |own: &str, members: &[String], items: &[String]| {
        if members.last().is_some_and(|last| last == own) { items.to_vec() } else { Vec::new() }
    };
    let mut members = Vec::new();
    for identifier in ["host-1", "host-2"] {
        let builder = SetPartitioner::builder(&client, PATH, identifier, ITEMS);
        let builder = builder.time_boundary(BOUNDARY).partition_by(last_takes_all);
        members.push(builder.start().await.unwrap());
    }
    let (first, second) = tokio::join!(acquire(&members[0]), acquire(&members[1]));
    assert_eq!((first.items().len(), second.items().len()), (0, 5));
}

#[tokio::test(start_paused = true)]
async fn names_that_cannot_be_znodes_are_errors_at_the_start() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    for (identifier, item) in [("a/b", "x"), ("a", "x/y"), ("a", "")] {
        let error = SetPartitioner::builder(&client, PATH, identifier, [item]).start().await;
        let error = error.expect_err("the name is not valid");
        assert!(matches!(error, PartitionError::Member(NodeError::Name { .. })), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_chosen_twice_counts_once() {
    let server = TestServer::start().await.unwrap();
    let client = server.connect().await.unwrap();
    let twice = |_: &str, _: &[String], items: &[String]| [items, items].concat();
    let builder = SetPartitioner::builder(&client, PATH, "host-1", ITEMS).partition_by(twice);
    let partitioner = builder.time_boundary(BOUNDARY).start().await.unwrap();
    let share = acquire(&partitioner).await;
    assert_eq!(items(&share), ["a", "b", "c", "d", "e"]);
    share.release().await.unwrap();
}
