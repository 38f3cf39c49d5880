//! A session against a server whose frames come late: watchers come and go, znodes change and
//! connections are lost in random order, and in the end each watcher that is left hears of the next
//! change, and nothing is left on the server of those that are gone.

mod server;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use zoolet_protocol::{
    AddWatch, ErrorCode, EventType, Lookup, OpCode, Request, SessionId, Watch, WatchMode,
    WatcherType, decode_request,
};

use self::server::{FakeServer, Version};
use super::{Call, Cell, Instant, Kind, Options, Registration, Session, Submission};
use crate::call::{Answer, Outcome};
use crate::clock::{SuspensionClock, now};
use crate::proof::Servers;
use crate::rewatch;
use crate::watches::WaiterId;

const SEEDS: u64 = 1_500;
const STEPS: usize = 80;

/// The root for recursive watches, and below it what is watched in the other ways: before 3.9 a
/// server has no way to keep a recursive watch and others of one path.
const PATHS: [&str; 3] = ["/a", "/a/b", "/c"];

/// Someone who watches.
struct Watcher {
    path: &'static str,
    kind: Kind,
    cell: Arc<Cell>,
    call: Arc<Call>,
    /// It is there from the moment the request is sent.
    at_once: bool,
}

/// What is known of a watcher.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Asked,
    Watches(Kind),
    /// It has no watch: nothing was there, or the connection went.
    None,
}

impl Watcher {
    fn fate(&self) -> Fate {
        let answer = pin!(Answer(Arc::clone(&self.call)));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Fate::Asked,
            Poll::Ready(Outcome::Answered(header, _)) => match (header.err, self.call.op) {
                (ErrorCode::OK, _) => Fate::Watches(self.kind),
                (ErrorCode::NO_NODE, OpCode::EXISTS) => Fate::Watches(Kind::Exist),
                _ => Fate::None,
            },
            Poll::Ready(_) => Fate::None,
        }
    }

    fn has_heard(&self) -> bool {
        self.cell.poll_heard(WaiterId::ONLY, &Context::from_waker(Waker::noop())).is_ready()
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
        let options = Options {
            timeout: Duration::from_secs(30),
            read_only: false,
            connection_timeout: Duration::from_secs(15),
            attempt: Duration::from_secs(15),
            proven_ahead: Duration::ZERO,
            suspension: SuspensionClock::default(),
        };
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
        self.session.handle_frame(&answer, self.now).expect("it is an answer");
        self.transmit();
    }

    fn transmit(&mut self) {
        while let Some(frame) = self.session.poll_transmit() {
            self.server.requests.push_back(frame);
        }
    }

    fn receive(&mut self) {
        if let Some(frame) = self.server.answers.pop_front() {
            self.session.handle_frame(&frame, self.now).expect("the server keeps the order");
            self.transmit();
        }
    }

    fn settle(&mut self) {
        while !(self.server.requests.is_empty() && self.server.answers.is_empty()) {
            self.server.serve();
            self.receive();
        }
    }

    /// Makes a request that leaves a watch by its answer.
    fn ask(&mut self, path: &'static str, kind: Kind, request: Request) -> usize {
        let (cell, call) = (Arc::new(Cell::default()), Call::new(request.op_code()));
        let watch = Registration { path: path.to_owned(), kind, cell: Arc::clone(&cell) };
        let submission = Submission::new(request, Arc::clone(&call));
        self.session.submit(Submission { watch: Some(watch), ..submission }, self.now);
        self.transmit();
        self.watchers.push(Watcher { path, kind, cell, call, at_once: false });
        self.watchers.len() - 1
    }

    fn look(&mut self, path: &'static str, wrap: fn(zoolet_protocol::RawPath) -> Lookup) -> usize {
        let kind = match wrap(path.into()) {
            Lookup::Exists(_) | Lookup::GetData(_) => Kind::Data,
            Lookup::GetChildren(_) | Lookup::GetChildren2(_) => Kind::Child,
        };
        self.ask(path, kind, Request::Watch(Watch::Lookup(wrap(path.into()))))
    }

    fn add(&mut self, path: &'static str, mode: WatchMode) -> usize {
        let kind = if mode == WatchMode::PERSISTENT { Kind::Persistent } else { Kind::Recursive };
        self.ask(path, kind, Request::Watch(Watch::Add(AddWatch { path: path.into(), mode })))
    }

    /// Watches a znode that was just seen, as places in a line do.
    fn watch_znode(&mut self, path: &'static str, kinds: &[Kind]) {
        self.settle();
        if !self.server.has(path) {
            return;
        }
        let request = rewatch::registration(kinds.iter().map(|k| (*k, path)), self.server.zxid());
        let call = Call::new(request.op_code());
        let mut watches = Vec::new();
        for kind in kinds {
            let cell = Arc::new(Cell::default());
            watches.push(Registration { path: path.to_owned(), kind: *kind, cell: cell.clone() });
            let call = Arc::clone(&call);
            self.watchers.push(Watcher { path, kind: *kind, cell, call, at_once: true });
        }
        let submission = Submission::new(request, call);
        self.session.submit(Submission { watches, ..submission }, self.now);
        self.transmit();
    }

    fn drop_watcher(&mut self, index: usize) {
        let Watcher { path, kind, cell, .. } = self.watchers.swap_remove(index);
        self.session.unwatch(path, kind, &cell, self.now);
        self.transmit();
    }

    /// Some change of a znode.
    fn change(&mut self, path: &str, is_to_go: bool) {
        let event_type = match self.server.has(path) {
            false if !self.server.has(server::parent(path)) => return,
            false => EventType::NODE_CREATED,
            true if self.server.is_leaf(path) && is_to_go => EventType::NODE_DELETED,
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
            8 => self.watch_znode(path, &[Kind::Data, Kind::Child]),
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

    /// A change that a kind of watch hears of.
    fn change_for(&mut self, path: &str, kind: Kind) {
        let below = format!("{}/below", path.trim_end_matches('/'));
        let (path, event_type) = match kind {
            Kind::Child if self.server.has(&below) => (below.as_str(), EventType::NODE_DELETED),
            Kind::Child => (below.as_str(), EventType::NODE_CREATED),
            _ if self.server.has(path) => (path, EventType::NODE_DATA_CHANGED),
            _ => (path, EventType::NODE_CREATED),
        };
        if !self.server.has(server::parent(path)) {
            self.server.change(server::parent(path), EventType::NODE_CREATED);
        }
        self.server.change(path, event_type);
        self.settle();
    }

    /// Each who watches hears of a change, and of those who do not nothing is left.
    fn check(mut self, seed: u64) {
        self.settle();
        for watcher in std::mem::take(&mut self.watchers) {
            let fate = watcher.fate();
            assert_ne!(fate, Fate::Asked, "seed {seed}: not answered");
            let lasting = matches!(watcher.kind, Kind::Persistent | Kind::Recursive);
            let mut has_heard = false;
            while watcher.has_heard() {
                has_heard = true;
            }
            let watches = match fate {
                Fate::Watches(kind) if lasting || !has_heard => Some(kind),
                // Those that are there at once are registered again without an answer.
                Fate::None if watcher.at_once && !has_heard => Some(watcher.kind),
                _ => None,
            };
            if let Some(kind) = watches {
                self.change_for(watcher.path, kind);
                assert!(watcher.has_heard(), "seed {seed}: {kind:?} of {} is deaf", watcher.path);
            }
            self.watchers.push(watcher);
        }
        while !self.watchers.is_empty() {
            self.drop_watcher(0);
        }
        self.settle();
        assert_eq!(self.server.watches(), [], "seed {seed}: left on the server");
        assert!(self.session.stale.is_empty(), "seed {seed}: {:?}", self.session.stale);
        assert_eq!(self.session.lasting_under_way, 0, "seed {seed}");
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
fn each_watcher_hears_of_the_next_change_whatever_comes_between() {
    sweep(Version::Since39);
}

#[test]
fn each_watcher_hears_of_the_next_change_on_servers_that_keep_one_mode() {
    sweep(Version::Before39);
}

/// The types of removal that were sent and have not come yet.
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
fn a_one_shot_watch_is_not_taken_back_while_another_is_under_way() {
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
    assert!(world.watchers[0].has_heard());
    world.drop_watcher(0);
    assert_eq!(removals(&world), [], "it has fired");
    assert_eq!(world.server.watches(), []);
}

#[test]
fn a_one_shot_watch_whose_successor_finds_no_znode_is_taken_back_then() {
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
fn a_one_shot_watch_beside_a_lasting_one_is_left_to_it() {
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
        let (lasting, child) = (&world.watchers[0], &world.watchers[1]);
        assert!(child.has_heard() && lasting.has_heard() && lasting.has_heard(), "{version:?}");
        world.drop_watcher(0);
        assert_eq!(removals(&world), [WatcherType::ANY]);
    }
}

#[test]
fn a_one_shot_watch_beside_a_lasting_one_that_is_refused_is_asked_for_again() {
    let mut world = World::new(Version::Since39);
    world.server.refuses_to_add = true;
    world.add("/a", WatchMode::PERSISTENT);
    let exists = world.look("/a", Lookup::Exists);
    world.settle();
    assert_eq!(world.watchers[0].fate(), Fate::None);
    assert_eq!(world.watchers[exists].fate(), Fate::Watches(Kind::Exist));
    world.server.change("/a", EventType::NODE_CREATED);
    world.settle();
    assert!(world.watchers[exists].has_heard());
    assert_eq!(world.session.id(), SessionId(1));
}
