//! The scenarios of Curator's own tests of its queues, by their names there, and an ensemble that loses
//! its leader. `tests/queues/scenarios.rs` plays them on a server in process, in virtual time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::Failed;
use tokio::task::JoinHandle;
use zoolet_client::Client;
use zoolet_recipes::queue::{
    Delivery, DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue,
    DistributedQueue, ErrorMode, QueueError, QueueSharder, QueueSharderPolicies,
    SimpleDistributedQueue,
};

use super::scene::{Scene, soon, waits};
use super::{Outcome, Server};

/// A step of a scenario that is about time.
const STEP: Duration = Duration::from_millis(300);

/// What consumers have received.
type Seen = Arc<Mutex<Vec<String>>>;

fn plain(scene: &Scene, client: &Client) -> Result<DistributedQueue, QueueError> {
    DistributedQueue::new(client, &scene.path("queue"))
}

fn leased(scene: &Scene, client: &Client) -> Result<DistributedQueue, QueueError> {
    plain(scene, client)?.with_lock_path(&scene.path("locks"))
}

/// The only item of a delivery, as text.
fn text(delivery: &Delivery) -> String {
    let items = delivery.items().expect("it was put by such a queue");
    assert_eq!(items.len(), 1);
    String::from_utf8_lossy(&items[0]).into_owned()
}

/// A consumer that is a function, until it is aborted.
fn consumer(queue: &DistributedQueue, seen: &Seen) -> JoinHandle<Result<Infallible, QueueError>> {
    let (queue, seen) = (queue.clone(), Arc::clone(seen));
    tokio::spawn(async move {
        let handle = |item: Bytes| {
            let item = String::from_utf8_lossy(&item).into_owned();
            seen.lock().expect("nobody panics").push(item);
            std::future::ready(Ok::<_, String>(()))
        };
        queue.consume(ErrorMode::Requeue, handle).await
    })
}

async fn until_seen(scene: &Scene, seen: &Seen, count: usize) -> Outcome {
    let is_so = async || Ok(seen.lock().expect("nobody panics").len() >= count);
    scene.until("the items are seen", is_so).await
}

/// Waits until the queue is empty, as a server sees it that may be behind.
async fn until_empty(scene: &Scene, queue: &DistributedQueue) -> Outcome {
    scene.until("the queue is empty", async || Ok(queue.count().await? == 0)).await
}

/// `TestDistributedQueue`: `testSafetyBasic`, `testSimple`.
pub(crate) async fn safety_basic(scene: Arc<Scene>) -> Outcome {
    let queue = leased(&scene, &scene.client().await?)?;
    let seen = Seen::default();
    let consumer = consumer(&queue, &seen);
    for item in 0..10 {
        queue.put(item.to_string()).await?;
    }
    until_seen(&scene, &seen, 10).await?;
    let expected: Vec<_> = (0..10).map(|item| item.to_string()).collect();
    assert_eq!(*seen.lock().expect("nobody panics"), expected);
    until_empty(&scene, &queue).await?;
    consumer.abort();
    Ok(())
}

/// `TestDistributedQueue.testSafetyWithCrash`: the session of a consumer ends while it has an item.
pub(crate) async fn safety_with_crash(scene: Arc<Scene>) -> Outcome {
    const ITEMS: usize = 20;
    let (crashes, lives) = (scene.client().await?, scene.client().await?);
    for item in 0..ITEMS {
        leased(&scene, &crashes)?.put(item.to_string()).await?;
    }
    let delivery = soon(leased(&scene, &crashes)?.take()).await??;
    scene.expire(&crashes).await?;
    let mut items = BTreeSet::new();
    let queue = leased(&scene, &lives)?;
    while items.len() < ITEMS {
        let delivery = soon(queue.take()).await??;
        assert!(items.insert(text(&delivery)), "it is done once");
        delivery.done().await?;
    }
    assert!(matches!(soon(delivery.done()).await?, Err(QueueError::Lost(_))));
    until_empty(&scene, &queue).await
}

/// `TestDistributedQueue`: `testErrorMode`, `testRetryAfterFailure_Curator56`.
pub(crate) async fn error_mode(scene: Arc<Scene>) -> Outcome {
    let queue = leased(&scene, &scene.client().await?)?;
    for (mode, expected) in [(ErrorMode::Requeue, 3), (ErrorMode::Delete, 1)] {
        queue.put("x").await?;
        let tries = Arc::new(AtomicUsize::new(0));
        let consumer = tokio::spawn({
            let (queue, tries) = (queue.clone(), Arc::clone(&tries));
            async move {
                let handle = |_item| {
                    let is_third = tries.fetch_add(1, Ordering::SeqCst) == 2;
                    std::future::ready(if is_third { Ok(()) } else { Err("not yet") })
                };
                queue.consume(mode, handle).await
            }
        });
        let is_so = async || Ok(tries.load(Ordering::SeqCst) >= expected);
        scene.until("the consumer has tried", is_so).await?;
        until_empty(&scene, &queue).await?;
        waits(&consumer).await;
        assert_eq!(tries.load(Ordering::SeqCst), expected, "{mode:?}");
        consumer.abort();
    }
    Ok(())
}

/// `TestDistributedQueue.testPutMulti`.
pub(crate) async fn put_multi(scene: Arc<Scene>) -> Outcome {
    let queue = plain(&scene, &scene.client().await?)?;
    queue.put_multi(["0", "1", "2"]).await?;
    queue.put_multi(["3", "4"]).await?;
    assert_eq!(soon(queue.take()).await??.items()?, ["0", "1", "2"]);
    assert_eq!(soon(queue.take()).await??.items()?, ["3", "4"]);
    Ok(())
}

/// `TestDistributedQueue.testMultiPutterSingleGetter`: of each putter, the items come in their order.
pub(crate) async fn multi_putter_single_getter(scene: Arc<Scene>) -> Outcome {
    const ITEMS: usize = 50;
    let mut putters = Vec::new();
    for putter in 0..2 {
        let queue = plain(&scene, &scene.client().await?)?;
        putters.push(tokio::spawn(async move {
            for item in 0..ITEMS {
                queue.put(format!("{putter} {item}")).await?;
            }
            Ok::<_, QueueError>(())
        }));
    }
    let getter = plain(&scene, &scene.client().await?)?;
    let mut next = [0, 0];
    for _ in 0..2 * ITEMS {
        let item = text(&soon(getter.take()).await??);
        let (putter, number) = item.split_once(' ').ok_or("both were put")?;
        let next = &mut next[putter.parse::<usize>()?];
        assert_eq!(number.parse(), Ok(*next));
        *next += 1;
    }
    for putter in putters {
        soon(putter).await???;
    }
    until_empty(&scene, &getter).await
}

/// `TestDistributedQueue.testNoDuplicateProcessing`: consumers that share a queue with leases.
pub(crate) async fn no_duplicate_processing(scene: Arc<Scene>) -> Outcome {
    const ITEMS: usize = 60;
    let producer = leased(&scene, &scene.client().await?)?;
    for item in 0..ITEMS {
        producer.put(item.to_string()).await?;
    }
    let (seen, mut consumers) = (Seen::default(), Vec::new());
    for _ in 0..2 {
        consumers.push(consumer(&leased(&scene, &scene.client().await?)?, &seen));
    }
    until_seen(&scene, &seen, ITEMS).await?;
    until_empty(&scene, &producer).await?;
    consumers.iter().for_each(JoinHandle::abort);
    let seen = seen.lock().expect("nobody panics");
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (ITEMS, ITEMS));
    Ok(())
}

/// `TestBoundedDistributedQueue`: `testSimple`, `testMulti`.
pub(crate) async fn bounded(scene: Arc<Scene>) -> Outcome {
    const ITEMS: usize = 20;
    let max = NonZeroUsize::new(5).expect("more than none");
    let mut putters = Vec::new();
    for _ in 0..2 {
        let queue = plain(&scene, &scene.client().await?)?.with_max_items(max);
        putters.push(tokio::spawn(async move {
            for _ in 0..ITEMS {
                queue.put("x").await?;
            }
            Ok::<_, QueueError>(())
        }));
    }
    let consumer = plain(&scene, &scene.client().await?)?;
    for _ in 0..2 * ITEMS {
        // As in Curator, two that put at the same time may exceed it by one.
        let count = consumer.count().await?;
        assert!(count <= max.get() + 1, "{count}");
        soon(consumer.take()).await??.done().await?;
    }
    for putter in putters {
        soon(putter).await???;
    }
    Ok(())
}

/// `TestDistributedIdQueue`: `testDeletingWithLock`, `testOrdering`.
pub(crate) async fn ids_with_locks(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let queue = DistributedIdQueue::new(&client, &scene.path("queue"))?;
    let queue = queue.with_lock_path(&scene.path("locks"))?;
    for item in 0..10 {
        queue.put(item.to_string(), &format!("id-{}", 9 - item)).await?;
    }
    client.sync(&scene.path("queue")).await?;
    let delivery = soon(queue.take()).await??;
    assert_eq!(queue.remove("id-9").await?, 0, "it is leased");
    assert_eq!(queue.remove("id-0").await?, 1, "of the last item");
    assert_eq!(text(&delivery), "0", "the id does not order");
    delivery.done().await?;
    for item in 1..9 {
        let delivery = soon(queue.take()).await??;
        assert_eq!(text(&delivery), item.to_string());
        delivery.done().await?;
    }
    scene.until("the queue is empty", async || Ok(queue.count().await? == 0)).await
}

/// `TestDistributedIdQueue.testRequeueWithLock`: an item that its consumer puts back keeps its id.
pub(crate) async fn requeue_with_lock(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let queue = DistributedIdQueue::new(&client, &scene.path("queue"))?;
    let queue = queue.with_lock_path(&scene.path("locks"))?;
    queue.put("x", "id").await?;
    soon(queue.take()).await??.requeue().await?;
    let again = soon(queue.take()).await??;
    assert_eq!(text(&again), "x");
    again.release().await?;
    client.sync(&scene.path("queue")).await?;
    assert_eq!(queue.remove("id").await?, 1);
    Ok(())
}

/// `TestDistributedPriorityQueue.testSortingWithNegativePriorities`.
pub(crate) async fn sorting_with_negative_priorities(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let queue = DistributedPriorityQueue::new(&client, &scene.path("queue"))?;
    for priority in [-1, 0, -400, 1, i32::MIN, i32::MAX] {
        queue.put(priority.to_string(), priority).await?;
    }
    client.sync(&scene.path("queue")).await?;
    for expected in [i32::MIN, -400, -1, 0, 1, i32::MAX] {
        assert_eq!(text(&soon(queue.take()).await??), expected.to_string());
    }
    Ok(())
}

/// `TestDistributedPriorityQueue.testMinItemsBeforeRefresh`.
pub(crate) async fn min_items_before_refresh(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let queue = DistributedPriorityQueue::new(&client, &scene.path("queue"))?;
    let queue = queue.with_refresh_after(NonZeroUsize::new(3).expect("more than none"));
    for priority in 10..15 {
        queue.put(priority.to_string(), priority).await?;
    }
    client.sync(&scene.path("queue")).await?;
    assert_eq!(text(&soon(queue.take()).await??), "10");
    queue.put("1", 1).await?;
    client.sync(&scene.path("queue")).await?;
    for item in ["11", "12", "1", "13", "14"] {
        assert_eq!(text(&soon(queue.take()).await??), item, "the list serves three items");
    }
    Ok(())
}

/// `TestDistributedDelayQueue`: `testLateAddition`, `testBasic`, `testSorting`.
pub(crate) async fn late_addition(scene: Arc<Scene>) -> Outcome {
    let queue = DistributedDelayQueue::new(&scene.client().await?, &scene.path("queue"))?;
    for step in [4, 3, 5] {
        queue.put_after(step.to_string(), STEP * step).await?;
    }
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut seen = Vec::new();
            for _ in 0..4 {
                seen.push(text(&queue.take().await?));
            }
            Ok::<_, QueueError>(seen)
        }
    });
    waits(&consumer).await;
    queue.put_after("1", STEP).await?;
    let seen = soon(consumer).await???;
    assert_eq!(seen, ["1", "3", "4", "5"]);
    Ok(())
}

/// `TestQueueSharder`: `testDistribution`, `testSharderWithDistributedQueue`.
pub(crate) async fn sharder_distribution(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let (queues, leader) = (scene.path("queues"), scene.path("leader"));
    let policies =
        QueueSharderPolicies { new_queue_threshold: 10, threshold_check: STEP / 3, max_queues: 3 };
    let make = DistributedQueue::new;
    let sharder = QueueSharder::start(&client, &queues, &leader, policies, make).await?;
    assert_eq!(sharder.shard_paths().len(), 1);
    let mut put = 0;
    // A queue with more items than the threshold is followed by another.
    let shards = async || Ok::<_, Failed>(sharder.shard_paths().len());
    while shards().await? < policies.max_queues {
        for _ in 0..20 {
            sharder.queue().put(put.to_string()).await?;
            put += 1;
        }
        tokio::time::sleep(STEP / 3).await;
        assert!(put < 10_000, "there are only {} queues", shards().await?);
    }
    for _ in 0..60 {
        sharder.queue().put(put.to_string()).await?;
        put += 1;
    }
    let mut taken = BTreeSet::new();
    for queue in sharder.queues() {
        let before = taken.len();
        client.sync(queue.path()).await?;
        while let Some(delivery) = queue.try_take().await? {
            assert!(taken.insert(text(&delivery)), "it is in one queue");
        }
        assert!(taken.len() > before, "{} has items", queue.path());
    }
    assert_eq!(taken.len(), put);
    sharder.close().await?;
    Ok(())
}

/// `TestSimpleDistributedQueue`: `testPollWithTimeout`, `testRemove1`, `testOffer`, `testNonEmptyPeek`.
pub(crate) async fn simple_queue(scene: Arc<Scene>) -> Outcome {
    let client = scene.client().await?;
    let queue = SimpleDistributedQueue::new(&client, &scene.path("queue"))?;
    assert_eq!(queue.peek().await?, None);
    assert_eq!(queue.poll().await?, None);
    assert_eq!(queue.poll_within(STEP).await?, None);
    for item in 0..5 {
        queue.offer(item.to_string()).await?;
    }
    client.sync(&scene.path("queue")).await?;
    assert_eq!(queue.peek().await?.ok_or("there are items")?, "0");
    for item in 0..5 {
        assert_eq!(soon(queue.take()).await??, item.to_string());
    }
    assert_eq!(queue.peek().await?, None);
    Ok(())
}

/// `TestSimpleDistributedQueue.testHangFromContainerLoss`: the container of the queue is deleted while a
/// consumer waits. The server does that once in a while; here a client does.
pub(crate) async fn hang_from_container_loss(scene: Arc<Scene>) -> Outcome {
    let (client, other) = (scene.client().await?, scene.client().await?);
    let queue = SimpleDistributedQueue::new(&client, &scene.path("queue"))?;
    queue.offer("1").await?;
    assert_eq!(soon(queue.take()).await??, "1");
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    waits(&waiting).await;
    other.delete(&scene.path("queue")).await?;
    waits(&waiting).await;
    SimpleDistributedQueue::new(&other, &scene.path("queue"))?.offer("2").await?;
    assert_eq!(soon(waiting).await???, "2");
    Ok(())
}

const KILLS: usize = 2;
const PROGRAMS: usize = 3;

/// A server that loses its leader may leave a request without an answer and the connection open: the
/// client gives the connection up after two thirds of this.
const SESSION_TIMEOUT: Duration = Duration::from_secs(12);

/// Producers and consumers go on when an ensemble loses its leader. At most once nothing is lost, since
/// nobody crashes, and at least once each item is done once.
pub(crate) fn queues_over_a_lost_leader(server: &mut Server) -> Outcome {
    let scene = Arc::new(server.scene("queues-leader"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let traffic = [
            Traffic::start(&scene, plain).await?,
            Traffic::start(&scene, |scene, client| {
                let queue = DistributedQueue::new(client, &scene.path("leased"))?;
                queue.with_lock_path(&scene.path("locks"))
            })
            .await?,
        ];
        for _ in 0..KILLS {
            goes_on(&scene, &traffic).await?;
            let leader = server.kill_leader()?;
            goes_on(&scene, &traffic).await?;
            server.restart(leader)?;
            goes_on(&scene, &traffic).await?;
        }
        for traffic in traffic {
            traffic.end(&scene).await?;
        }
        scene.assert_clean().await
    })
}

/// An ensemble on a busy machine may need this many times the patience of other scenarios to elect a leader
/// and to expire sessions.
const PATIENCES: usize = 3;

async fn goes_on(scene: &Scene, traffic: &[Traffic]) -> Outcome {
    for traffic in traffic {
        let wanted = traffic.seen.lock().expect("nobody panics").len() + 5 * PROGRAMS;
        for waited in 1.. {
            let Err(error) = until_seen(scene, &traffic.seen, wanted).await else { break };
            let report = format!("{error:?}: {}", traffic.report(scene).await);
            if waited == PATIENCES {
                return Err(report.into());
            }
            eprintln!("still waiting: {report}");
        }
    }
    Ok(())
}

/// Programs that put and take until they are told to end.
struct Traffic {
    is_over: Arc<AtomicBool>,
    seen: Seen,
    tasks: Vec<JoinHandle<Result<usize, QueueError>>>,
    queue: DistributedQueue,
}

impl Traffic {
    async fn start(
        scene: &Scene,
        make: impl Fn(&Scene, &Client) -> Result<DistributedQueue, QueueError>,
    ) -> Result<Self, Failed> {
        let (is_over, seen, mut tasks) = (Arc::default(), Seen::default(), Vec::new());
        for program in 0..PROGRAMS {
            let queue = make(scene, &scene.client_with_timeout(SESSION_TIMEOUT).await?)?;
            let (is_over, seen) = (Arc::clone(&is_over), Arc::clone(&seen));
            tasks.push(tokio::spawn(put_and_take(program, queue, is_over, seen)));
        }
        Ok(Self { is_over, seen, tasks, queue: make(scene, &scene.client().await?)? })
    }

    /// What is known of traffic that does not go on.
    async fn report(&self, scene: &Scene) -> String {
        let ended = self.tasks.iter().filter(|task| task.is_finished()).count();
        let seen = self.seen.lock().expect("nobody panics").len();
        let mut report = format!("{ended} of {PROGRAMS} tasks have ended, {seen} items were taken");
        let side = format!("{}-side/consumers", self.queue.path());
        for directory in [self.queue.path(), side.as_str(), &scene.path("locks")] {
            match scene.owners(directory).await {
                Ok(owners) => report += &format!("\n{owners}"),
                Err(error) => report += &format!("\n{directory}: {error:?}"),
            }
        }
        report
    }

    async fn end(self, scene: &Scene) -> Outcome {
        self.is_over.store(true, Ordering::SeqCst);
        let mut put = 0;
        for task in self.tasks {
            put += soon(task).await???;
        }
        until_empty(scene, &self.queue).await?;
        let seen = self.seen.lock().expect("nobody panics");
        println!("{put} items");
        assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (put, put));
        Ok(())
    }
}

/// Puts an item and takes one, again and again. Returns how many items it has put.
async fn put_and_take(
    program: usize,
    queue: DistributedQueue,
    is_over: Arc<AtomicBool>,
    seen: Seen,
) -> Result<usize, QueueError> {
    let mut put = 0;
    while !is_over.load(Ordering::SeqCst) {
        queue.put(format!("{program} {put}")).await?;
        put += 1;
        let delivery = queue.take().await?;
        let item = text(&delivery);
        match delivery.done().await {
            Ok(()) => seen.lock().expect("nobody panics").push(item),
            // The session ended before: it is delivered again.
            Err(QueueError::Lost(_)) => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(put)
}
