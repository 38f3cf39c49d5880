//! A session against a fake server whose frames come late. Watchers come and go, znodes change and
//! connections are lost in random order. In the end each watcher that is left gets the next event, and
//! the server has no watch of those that are gone.

mod server;

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use fastrand::Rng;
use zoolet_protocol::{
    AddWatch, ErrorCode, EventType, Lookup, OpCode, Request, SessionId, Watch, WatchMode,
    WatcherType, decode_request,
};

use self::server::{FakeServer, Version};
use super::opened::options;
use super::{Call, EventQueue, Instant, Session, Submission, WatchKind, WatchRegistration};
use crate::call::Outcome;
use crate::clock::{SuspensionClock, now};
use crate::proof::Servers;
use crate::rewatch;
use crate::watches::WaiterId;

const SEEDS: u64 = 1_500;
const STEPS: usize = 80;

/// The paths of all watches but the recursive ones, which are on the root: before 3.9 a server cannot
/// keep a recursive watch and another of the same path.
const PATHS: [&str; 3] = ["/a", "/a/b", "/c"];

/// A watcher, and the request that registers its watch.
struct Watcher {
    path: &'static str,
    kind: WatchKind,
    queue: Arc<EventQueue>,
    call: Arc<Call>,
    /// The watch exists from the moment the request is sent.
    at_once: bool,
}

/// Whether a watcher has a watch on the server.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Unanswered,
    Watches(WatchKind),
    /// It has none: the znode did not exist, or the connection was lost.
    None,
}

impl Watcher {
    fn fate(&self) -> Fate {
        match self.call.outcome() {
            None => Fate::Unanswered,
            Some(Outcome::Answered(header, _)) => match (header.err, self.call.op) {
                (ErrorCode::OK, _) => Fate::Watches(self.kind),
                (ErrorCode::NO_NODE, OpCode::EXISTS) => Fate::Watches(WatchKind::Exist),
                _ => Fate::None,
            },
            Some(_) => Fate::None,
        }
    }

    fn has_event(&self) -> bool {
        self.queue.poll_next(WaiterId::ONLY, &Context::from_waker(Waker::noop())).is_ready()
    }
}

struct World {
    session: Session,
    server: FakeServer,
    watchers: Vec<Watcher>,
    now: Instant,
}

impl World {
    fn new(version: Version) -> Self {
        let options = options(Duration::from_secs(30), SuspensionClock::default());
        let now = now();
        let session = Session::new(options, now);
        let server = FakeServer::new(version);
        let mut world = Self { session, server, watchers: Vec::new(), now };
        world.reconnect();
        world
    }

    fn reconnect(&mut self) {
        self.session.handle_disconnected();
        self.session.handle_connected(Servers::PerhapsEnsemble, self.now);
        let _handshake = self.session.poll_transmit();
        let answer = self.server.reconnect();
        self.session.handle_frame(answer, self.now).expect("it is an answer");
        self.transmit();
    }

    fn transmit(&mut self) {
        while let Some(frame) = self.session.poll_transmit() {
            self.server.requests.push_back(frame);
        }
    }

    fn receive(&mut self) {
        if let Some(frame) = self.server.answers.pop_front() {
            self.session.handle_frame(frame, self.now).expect("the server keeps the order");
            self.transmit();
        }
    }

    fn settle(&mut self) {
        while !(self.server.requests.is_empty() && self.server.answers.is_empty()) {
            self.server.serve();
            self.receive();
        }
    }

    /// Sends a request that adds a watch with its reply.
    fn ask(&mut self, path: &'static str, kind: WatchKind, request: Request) -> usize {
        let (queue, call) = (Arc::new(EventQueue::default()), Call::new(request.op_code()));
        let watch = WatchRegistration { path: path.into(), kind, queue: Arc::clone(&queue) };
        let submission = Submission::new(request, Arc::clone(&call));
        self.session.submit(Submission { watch: Some(watch), ..submission }, self.now);
        self.transmit();
        self.watchers.push(Watcher { path, kind, queue, call, at_once: false });
        self.watchers.len() - 1
    }

    fn look(&mut self, path: &'static str, wrap: fn(zoolet_protocol::RawPath) -> Lookup) -> usize {
        let kind = match wrap(path.into()) {
            Lookup::Exists(_) | Lookup::GetData(_) => WatchKind::Data,
            Lookup::GetChildren(_) | Lookup::GetChildren2(_) => WatchKind::Child,
        };
        self.ask(path, kind, Request::Watch(Watch::Lookup(wrap(path.into()))))
    }

    fn add(&mut self, path: &'static str, mode: WatchMode) -> usize {
        let kind = if mode == WatchMode::PERSISTENT {
            WatchKind::Persistent
        } else {
            WatchKind::Recursive
        };
        self.ask(path, kind, Request::Watch(Watch::Add(AddWatch { path: path.into(), mode })))
    }

    /// Watches a znode that was just listed, as the locks do.
    fn watch_znode(&mut self, path: &'static str, kinds: &[WatchKind]) {
        self.settle();
        if !self.server.has(path) {
            return;
        }
        let request = rewatch::registration(kinds.iter().map(|k| (*k, path)), self.server.zxid());
        let call = Call::new(request.op_code());
        let mut watches = Vec::new();
        for kind in kinds {
            let queue = Arc::new(EventQueue::default());
            watches.push(WatchRegistration {
                path: path.into(),
                kind: *kind,
                queue: queue.clone(),
            });
            let call = Arc::clone(&call);
            self.watchers.push(Watcher { path, kind: *kind, queue, call, at_once: true });
        }
        let submission = Submission::new(request, call);
        self.session.submit(Submission { watches, ..submission }, self.now);
        self.transmit();
    }

    fn drop_watcher(&mut self, index: usize) {
        let Watcher { path, kind, queue, .. } = self.watchers.swap_remove(index);
        self.session.unwatch(path, kind, &queue, self.now);
        self.transmit();
    }

    /// Changes a znode in some way.
    fn change(&mut self, path: &str, may_delete: bool) {
        let event_type = match self.server.has(path) {
            false if !self.server.has(server::parent(path)) => return,
            false => EventType::NODE_CREATED,
            true if self.server.is_leaf(path) && may_delete => EventType::NODE_DELETED,
            true => EventType::NODE_DATA_CHANGED,
        };
        self.server.change(path, event_type);
    }

    fn step(&mut self, rng: &mut Rng) {
        let path = PATHS[rng.usize(..PATHS.len())];
        match rng.u32(..32) {
            0 | 1 => drop(self.look(path, Lookup::Exists)),
            2 | 3 => drop(self.look(path, Lookup::GetData)),
            4 | 5 => drop(self.look(path, Lookup::GetChildren)),
            6 => drop(self.add(path, WatchMode::PERSISTENT)),
            7 => drop(self.add("/", WatchMode::PERSISTENT_RECURSIVE)),
            8 => self.watch_znode(path, &[WatchKind::Data, WatchKind::Child]),
            9..=14 if !self.watchers.is_empty() => {
                self.drop_watcher(rng.usize(..self.watchers.len()));
            }
            15..=17 => self.change(path, rng.bool()),
            18 if rng.u32(..4) == 0 => self.reconnect(),
            19 => self.server.refuses_to_add = rng.u32(..8) == 0,
            20..=25 => self.server.serve(),
            _ => self.receive(),
        }
    }

    /// Makes a change that fires a kind of watch.
    fn change_for(&mut self, path: &str, kind: WatchKind) {
        let below = format!("{}/below", path.trim_end_matches('/'));
        let (path, event_type) = match kind {
            WatchKind::Child if self.server.has(&below) => {
                (below.as_str(), EventType::NODE_DELETED)
            }
            WatchKind::Child => (below.as_str(), EventType::NODE_CREATED),
            _ if self.server.has(path) => (path, EventType::NODE_DATA_CHANGED),
            _ => (path, EventType::NODE_CREATED),
        };
        if !self.server.has(server::parent(path)) {
            self.server.change(server::parent(path), EventType::NODE_CREATED);
        }
        self.server.change(path, event_type);
        self.settle();
    }

    /// Each watcher with a watch gets the event of a change, and no other watch is left.
    fn check(mut self, seed: u64) {
        self.settle();
        for watcher in std::mem::take(&mut self.watchers) {
            let fate = watcher.fate();
            assert_ne!(fate, Fate::Unanswered, "seed {seed}: not answered");
            let is_persistent =
                matches!(watcher.kind, WatchKind::Persistent | WatchKind::Recursive);
            let mut has_event = false;
            while watcher.has_event() {
                has_event = true;
            }
            let watches = match fate {
                Fate::Watches(kind) if is_persistent || !has_event => Some(kind),
                // A watch that exists at once is registered again also without a reply.
                Fate::None if watcher.at_once && !has_event => Some(watcher.kind),
                _ => None,
            };
            if let Some(kind) = watches {
                self.change_for(watcher.path, kind);
                assert!(
                    watcher.has_event(),
                    "seed {seed}: {kind:?} of {} gets no event",
                    watcher.path
                );
            }
            self.watchers.push(watcher);
        }
        while !self.watchers.is_empty() {
            self.drop_watcher(0);
        }
        self.settle();
        assert_eq!(self.server.watches(), [], "seed {seed}: left on the server");
        assert!(self.session.stale.is_empty(), "seed {seed}: {:?}", self.session.stale);
        assert_eq!(self.session.persistent_in_flight, 0, "seed {seed}");
    }
}

fn sweep(version: Version) {
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new(version);
        for _ in 0..STEPS {
            world.step(&mut rng);
        }
        world.check(seed);
    }
}

#[test]
fn each_watcher_gets_the_next_event_whatever_comes_between() {
    sweep(Version::Since39);
}

#[test]
fn each_watcher_gets_the_next_event_from_servers_that_keep_one_mode() {
    sweep(Version::Before39);
}

/// The types of the `removeWatches` that were sent and have not arrived.
fn removals(world: &World) -> Vec<WatcherType> {
    let requests = world.server.requests.iter().map(decode_request);
    requests
        .filter_map(|request| match request.expect("a header").1 {
            Ok(Request::Watch(Watch::Remove(removal))) => Some(removal.watcher_type),
            _ => None,
        })
        .collect()
}

#[test]
fn a_one_shot_watch_is_not_removed_while_the_request_for_another_is_in_flight() {
    let mut world = World::new(Version::Since39);
    world.server.change("/a", EventType::NODE_CREATED);
    let first = world.look("/a", Lookup::GetData);
    world.settle();
    world.look("/a", Lookup::GetData);
    world.drop_watcher(first);
    assert_eq!(removals(&world), []);
    world.settle();
    world.server.change("/a", EventType::NODE_DATA_CHANGED);
    world.settle();
    assert!(world.watchers[0].has_event());
    world.drop_watcher(0);
    assert_eq!(removals(&world), [], "the watch has fired");
    assert_eq!(world.server.watches(), []);
}

#[test]
fn a_one_shot_watch_is_removed_when_the_next_read_finds_no_znode() {
    let mut world = World::new(Version::Since39);
    let first = world.look("/a", Lookup::Exists);
    world.settle();
    world.look("/a", Lookup::GetData); // leaves no watch, since there is no znode
    world.drop_watcher(first);
    assert_eq!(removals(&world), []);
    world.server.serve();
    world.receive();
    assert_eq!(removals(&world), [WatcherType::DATA]);
    world.settle();
    assert_eq!(world.server.watches(), []);
}

#[test]
fn a_persistent_watch_serves_a_one_shot_watcher_of_its_path() {
    for version in [Version::Before39, Version::Since39] {
        let mut world = World::new(version);
        world.server.change("/a", EventType::NODE_CREATED);
        world.add("/a", WatchMode::PERSISTENT);
        let data = world.look("/a", Lookup::GetData);
        world.look("/a", Lookup::GetChildren);
        world.settle();
        world.drop_watcher(data);
        assert_eq!(removals(&world), []);
        world.server.change("/a/b", EventType::NODE_CREATED);
        world.server.change("/a", EventType::NODE_DATA_CHANGED);
        world.settle();
        let (persistent, child) = (&world.watchers[0], &world.watchers[1]);
        assert!(
            child.has_event() && persistent.has_event() && persistent.has_event(),
            "{version:?}"
        );
        world.drop_watcher(0);
        assert_eq!(removals(&world), [WatcherType::ANY]);
    }
}

#[test]
fn a_one_shot_watch_is_requested_again_when_the_persistent_one_is_refused() {
    let mut world = World::new(Version::Since39);
    world.server.refuses_to_add = true;
    world.add("/a", WatchMode::PERSISTENT);
    let exists = world.look("/a", Lookup::Exists);
    world.settle();
    assert_eq!(world.watchers[0].fate(), Fate::None);
    assert_eq!(world.watchers[exists].fate(), Fate::Watches(WatchKind::Exist));
    world.server.change("/a", EventType::NODE_CREATED);
    world.settle();
    assert!(world.watchers[exists].has_event());
    assert_eq!(world.session.id(), SessionId(1));
}
