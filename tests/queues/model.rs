//! Random steps of several clients, compared with a model: a list of items. Replies are lost and
//! sessions expire on the way.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use zoolet::client::Client;
use zoolet::recipes::queue::{Delivery, DistributedPriorityQueue, DistributedQueue};
use zoolet::testing::{RequestFilter, TestServer};

use crate::{SECOND, leased, plain, text};

const CLIENTS: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A client puts an item with a priority.
    Put(usize, i32),
    /// A client takes an item, if there is one.
    Take(usize),
    /// The consumer of one of the deliveries ends it.
    End(usize, End),
    /// The reply to one of the next requests of a client is lost.
    LoseReply(usize, u64),
    /// The session of a client expires.
    Expire(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Requeue,
    Release,
    Drop,
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 0..CLIENTS;
    let end = prop_oneof![Just(End::Done), Just(End::Requeue), Just(End::Release), Just(End::Drop)];
    prop_oneof![
        4 => (client(), -1..=1).prop_map(|(client, priority)| Step::Put(client, priority)),
        4 => client().prop_map(Step::Take),
        4 => (0_usize..8, end).prop_map(|(index, end)| Step::End(index, end)),
        2 => (client(), 0_u64..4).prop_map(|(client, after)| Step::LoseReply(client, after)),
        1 => client().prop_map(Step::Expire),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Priority,
}

enum Queue {
    Plain(DistributedQueue),
    Priority(DistributedPriorityQueue),
}

impl Queue {
    fn new(client: &Client, kind: Kind, is_leased: bool) -> Self {
        match (kind, is_leased) {
            (Kind::Plain, false) => Self::Plain(plain(client)),
            (Kind::Plain, true) => Self::Plain(leased(client)),
            (Kind::Priority, _) => {
                let queue = DistributedPriorityQueue::new(client, "/jobs").expect("a path");
                let queue = if is_leased {
                    queue.with_lock_path("/job-locks").expect("a path")
                } else {
                    queue
                };
                Self::Priority(queue)
            }
        }
    }

    async fn put(&self, item: String, priority: i32) {
        match self {
            Self::Plain(queue) => queue.put(item).await.expect("a put"),
            Self::Priority(queue) => queue.put(item, priority).await.expect("a put"),
        }
    }

    async fn try_take(&self) -> Option<Delivery> {
        match self {
            Self::Plain(queue) => queue.try_take().await.expect("a take"),
            Self::Priority(queue) => queue.try_take().await.expect("a take"),
        }
    }
}

/// An item of the model. Items are taken in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    priority: i32,
    /// The number of the put.
    number: usize,
    /// What identifies it for good.
    id: usize,
}

struct Delivered {
    client: usize,
    item: Item,
    delivery: Delivery,
}

/// What is in the queue, and what was delivered.
#[derive(Default)]
struct Model {
    waiting: BTreeSet<Item>,
    puts: usize,
}

impl Model {
    fn put(&mut self, priority: i32, id: Option<usize>) -> usize {
        let number = self.puts;
        let id = id.unwrap_or(number);
        self.puts += 1;
        self.waiting.insert(Item { priority, number, id });
        id
    }

    /// The waiting item with this id. If `is_first`, it must be the first of all.
    fn take(&mut self, id: usize, is_first: bool) -> Item {
        let item = self.waiting.iter().copied().find(|item| item.id == id);
        let item = item.expect("an item is delivered that does not wait");
        if is_first {
            assert_eq!(Some(&item), self.waiting.first(), "not the first of {:?}", self.waiting);
        }
        self.waiting.remove(&item);
        item
    }
}

struct Run {
    server: TestServer,
    kind: Kind,
    is_leased: bool,
    /// Whether each item must be the first of those that wait. A list is kept for several items of a
    /// plain queue, so that a consumer may have passed an item whose lease another one ends.
    is_ordered: bool,
    clients: Vec<Client>,
    queues: Vec<Queue>,
    model: Model,
    delivered: Vec<Delivered>,
}

impl Run {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Put(client, priority) => {
                let priority = if self.kind == Kind::Plain { 0 } else { priority };
                let id = self.model.put(priority, None);
                self.queues[client].put(id.to_string(), priority).await;
            }
            Step::Take(client) => self.take(client).await,
            Step::End(index, end) if index < self.delivered.len() => {
                let delivered = self.delivered.swap_remove(index);
                self.end(delivered, end).await;
            }
            Step::End(..) => {}
            Step::LoseReply(client, after) => {
                let session = self.clients[client].session_id();
                let reply = RequestFilter::next(1).after(after);
                self.server.session(session).cut_before_reply(reply).expect("a session");
            }
            Step::Expire(client) => {
                self.server.session(self.clients[client].session_id()).expire().expect("a session");
                let (lost, kept): (Vec<_>, Vec<_>) =
                    self.delivered.drain(..).partition(|it| it.client == client && self.is_leased);
                self.delivered = kept;
                self.model.waiting.extend(lost.into_iter().map(|it| it.item));
            }
        }
        // What goes on in the background comes to its end.
        tokio::time::sleep(SECOND).await;
    }

    async fn take(&mut self, client: usize) {
        let delivery = self.queues[client].try_take().await;
        let Some(delivery) = delivery else {
            assert!(self.model.waiting.is_empty(), "{:?} are not taken", self.model.waiting);
            return;
        };
        let item = self.model.take(text(&delivery).parse().expect("a number"), self.is_ordered);
        self.delivered.push(Delivered { client, item, delivery });
    }

    async fn end(&mut self, delivered: Delivered, end: End) {
        let Delivered { item, delivery, .. } = delivered;
        match end {
            End::Done => delivery.done().await.expect("it is leased"),
            End::Requeue => {
                self.model.put(item.priority, Some(item.id));
                delivery.requeue().await.expect("it is leased");
            }
            End::Release => delivery.release().await.expect("it is leased"),
            End::Drop => drop(delivery),
        }
        if self.is_leased && matches!(end, End::Release | End::Drop) {
            self.model.waiting.insert(item);
        }
    }

    /// Ends all deliveries and takes all items.
    async fn finish(mut self) {
        while let Some(delivered) = self.delivered.pop() {
            self.end(delivered, End::Done).await;
        }
        tokio::time::sleep(SECOND).await;
        while !self.model.waiting.is_empty() {
            self.take(0).await;
            while let Some(delivered) = self.delivered.pop() {
                self.end(delivered, End::Done).await;
            }
        }
        self.take(0).await;
        assert!(self.delivered.is_empty());
    }
}

async fn agrees(kind: Kind, is_leased: bool, one_consumes: bool, steps: Vec<Step>) {
    let server = TestServer::start().await.expect("a server in memory");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(server.connect().await.expect("the server is there"));
    }
    let queues = clients.iter().map(|client| Queue::new(client, kind, is_leased)).collect();
    let is_ordered = one_consumes || kind == Kind::Priority;
    let (model, delivered) = (Model::default(), Vec::new());
    let mut run = Run { server, kind, is_leased, is_ordered, clients, queues, model, delivered };
    for step in steps {
        match step {
            Step::Take(_) if one_consumes => run.step(Step::Take(0)).await,
            step => run.step(step).await,
        }
    }
    run.finish().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_queue_is_its_model(
        is_priority in any::<bool>(),
        is_leased in any::<bool>(),
        one_consumes in any::<bool>(),
        steps in vec(step(), 1..60),
    ) {
        let kind = if is_priority { Kind::Priority } else { Kind::Plain };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(agrees(kind, is_leased, one_consumes, steps));
    }
}
