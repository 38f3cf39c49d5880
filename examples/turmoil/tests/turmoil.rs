//! The workers on four simulated hosts, one of which is cut off while it holds the lock.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use turmoil::net::{TcpListener, TcpStream};
use zoolet::client::{Client, StreamDialer};
use zoolet::server::Server;
use zoolet_example_turmoil::{Result, Store, Worker, serve};

const COORDINATOR: &str = "coordinator:2181";
const STORE: &str = "store:9000";

/// What has happened on all hosts, and when.
#[derive(Debug, Clone, Default)]
struct Story(Arc<Mutex<Vec<String>>>);

impl Story {
    fn tell(&self, what: &str) {
        let now = turmoil::sim_elapsed().unwrap_or_default();
        self.0.lock().expect("no host panicked").push(format!("{now:?}: {what}"));
    }
}

/// A worker on the host that calls this.
async fn worker(seed: u64) -> Result<Worker<TcpStream>> {
    let dialer = StreamDialer::new(COORDINATOR, TcpStream::connect::<String>)?;
    let builder = Client::builder().seed(seed).session_timeout(Duration::from_secs(10));
    Ok(Worker::new(builder.connect(dialer).await?, TcpStream::connect(STORE).await?))
}

/// Runs the hosts from a seed, and returns their story and the value that is left in the store.
fn run(seed: u64) -> turmoil::Result<(Vec<String>, String)> {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(120))
        .tick_duration(Duration::from_millis(10))
        .max_message_latency(Duration::from_millis(100))
        .build();
    let (story, store) = (Story::default(), Store::default());
    let (cut, written) = (Arc::new(Notify::new()), Arc::new(Notify::new()));

    sim.host("coordinator", move || async move {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 2181)).await?;
        let server = Server::builder().seed(seed).start().await?;
        Ok(serve(&server, async || listener.accept().await).await?)
    });
    let stored = store.clone();
    sim.host("store", move || {
        let store = stored.clone();
        async move {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 9000)).await?;
            Ok(store.serve(async || listener.accept().await).await?)
        }
    });

    let (told, is_cut, is_written) = (story.clone(), Arc::clone(&cut), Arc::clone(&written));
    sim.client("owner", async move {
        let mut worker = worker(seed + 1).await?;
        let guard = worker.acquire().await?;
        assert!(worker.write(guard.fencing_token(), "of the owner").await?);
        turmoil::partition("owner", "coordinator");
        told.tell("the owner is cut off from the coordinator");
        is_cut.notify_one();
        guard.lost().await;
        told.tell("the owner knows that it lost the lock");
        is_written.notified().await;
        // A process that was stopped before it looked at the lock would write now.
        assert!(
            !worker.write(guard.fencing_token(), "late").await?,
            "the store checks fencing tokens"
        );
        told.tell("the store has refused the late write");
        turmoil::repair("owner", "coordinator");
        let again = worker.acquire().await?;
        assert!(again.fencing_token() > guard.fencing_token());
        assert!(worker.write(again.fencing_token(), "of the owner, again").await?);
        told.tell("the owner has written again");
        Ok(())
    });

    let told = story.clone();
    sim.client("heir", async move {
        let mut worker = worker(seed + 2).await?;
        cut.notified().await;
        let guard = worker.acquire().await?;
        told.tell("the heir holds the lock");
        assert!(worker.write(guard.fencing_token(), "of the heir").await?);
        written.notify_one();
        guard.release().await?;
        Ok(())
    });

    sim.run()?;
    let story = story.0.lock().expect("no host panicked").clone();
    Ok((story, store.value()))
}

#[test]
fn an_owner_that_is_cut_off_writes_nothing_after_its_heir() {
    for seed in 0..10 {
        let (story, value) = run(seed).expect("all hosts reach their ends");
        assert_eq!(value, "of the owner, again", "seed {seed}: {story:#?}");
        let position = |what| story.iter().position(|line: &String| line.ends_with(what));
        let (lost, next) = (position("lost the lock"), position("holds the lock"));
        assert!(lost < next, "seed {seed}: the owner knows before there is an heir: {story:#?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_story() {
    let stories: Vec<_> =
        (0..3).map(|seed| run(seed).expect("all hosts reach their ends")).collect();
    for (seed, story) in (0..).zip(&stories) {
        assert_eq!(&run(seed).expect("all hosts reach their ends"), story, "seed {seed}");
    }
    assert!(stories[0] != stories[1] && stories[1] != stories[2], "seeds decide: {stories:#?}");
}
