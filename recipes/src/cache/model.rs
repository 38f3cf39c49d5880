//! The machines of a cache against a model of a server, over a connection that delivers when a test
//! says so and is cut at any moment: when all is quiet the cache is the tree, and its events are a
//! history that the tree could have had, in the order of zxids.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use zoolet_protocol::{EventType, Names, Stat, Zxid};

use super::event::CacheEvent;
use super::pending::{Mark, Pending, Seen};
use super::requests::Asked;
use super::resync::{KeepsData, Read, ReadResult, Request, Resync};
use super::selection::Selection;
use super::store::{Store, parent_path};
use super::znode::CachedZnode;

const ROOT: &str = "/r";
const PATHS: [&str; 9] =
    ["/r", "/r/a", "/r/b", "/r/a/a", "/r/a/b", "/r/b/a", "/r/a-", "/r/a/a/a", "/r/a/a/b"];

#[derive(Debug, Clone)]
enum Write {
    Create(usize),
    Set(usize),
    Delete(usize),
}

#[derive(Debug, Clone)]
enum Step {
    /// Writes with one zxid, of which those that are refused are left out.
    Write(Vec<Write>),
    /// The server answers the oldest request.
    Answer,
    /// The client receives the oldest message.
    Receive,
    /// The connection is lost with all messages.
    Cut,
    /// The connection is lost; the events that had come are still taken.
    CutAfterEvents,
    /// The cache begins again ([`World::begin_again`]).
    Restart,
    Connect,
}

/// Whether events have zxids, as of servers from 3.9 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventZxids {
    Sent,
    NotSent,
}

enum Message {
    Event(EventType, &'static str, Zxid),
    Reply(Asked, Zxid, Vec<ReadResult>),
}

#[derive(Default)]
struct Server {
    tree: BTreeMap<&'static str, (Stat, Vec<u8>)>,
    zxid: Zxid,
}

impl Server {
    fn write(&mut self, writes: &[Write]) -> Vec<Message> {
        self.zxid = self.zxid.next();
        let zxid = self.zxid;
        let mut events = Vec::new();
        for write in writes {
            let (path, event_type) = match *write {
                Write::Create(at) => (PATHS[at], EventType::NODE_CREATED),
                Write::Set(at) => (PATHS[at], EventType::NODE_DATA_CHANGED),
                Write::Delete(at) => (PATHS[at], EventType::NODE_DELETED),
            };
            if self.carry_out(path, event_type) {
                events.push(Message::Event(event_type, path, zxid));
            }
        }
        events
    }

    /// Carries out a write, if it is not refused.
    fn carry_out(&mut self, path: &'static str, event_type: EventType) -> bool {
        let zxid = self.zxid;
        let data = zxid.0.to_string().into_bytes();
        let is_there = self.tree.contains_key(path);
        let has_parent = path == ROOT || self.tree.contains_key(parent_path(path).unwrap());
        let has_children = self.tree.keys().any(|other| parent_path(other) == Some(path));
        match event_type {
            EventType::NODE_CREATED if !is_there && has_parent => {
                let stat = Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, ..Stat::default() };
                self.tree.insert(path, (stat, data));
                self.change_parent(path, 1);
            }
            EventType::NODE_DATA_CHANGED if is_there => {
                let (stat, known) = self.tree.get_mut(path).unwrap();
                (stat.mzxid, *known) = (zxid, data);
                stat.version += 1;
            }
            EventType::NODE_DELETED if is_there && !has_children => {
                self.tree.remove(path);
                self.change_parent(path, -1);
            }
            _ => return false,
        }
        true
    }

    fn change_parent(&mut self, path: &str, children: i32) {
        let zxid = self.zxid;
        if let Some((stat, _)) = parent_path(path).and_then(|parent| self.tree.get_mut(parent)) {
            stat.pzxid = zxid;
            stat.cversion += 1;
            stat.num_children += children;
        }
    }

    fn data(&self, path: &str) -> ReadResult {
        match self.tree.get(path) {
            Some((stat, data)) => ReadResult::Data(data.clone().into(), *stat),
            None => ReadResult::Missing,
        }
    }

    fn children(&self, path: &str) -> ReadResult {
        if !self.tree.contains_key(path) {
            return ReadResult::Missing;
        }
        let children = self.tree.keys().filter(|other| parent_path(other) == Some(path));
        let names: Names = children.filter_map(|path| path.rsplit('/').next()).collect();
        ReadResult::Children(names)
    }

    fn answer(&self, asked: Asked) -> Message {
        let results = match &asked {
            Asked::Changed(paths) => paths.iter().map(|path| self.data(path)).collect(),
            Asked::Resync(reads) => {
                let result = |read: &Read| match read {
                    Read::Data(path) => self.data(path),
                    Read::Children(path) => self.children(path),
                };
                reads.iter().map(result).collect()
            }
            Asked::ResyncExists(path) => vec![self.data(path)],
            Asked::Probe | Asked::Children(_) | Asked::Root => Vec::new(),
        };
        Message::Reply(asked, self.zxid, results)
    }
}

/// What the task of a cache does, step by step.
struct Client {
    store: Store,
    events: Vec<CacheEvent>,
    pending: Pending,
    resync: Option<Resync>,
    in_flight: usize,
    read_at: Zxid,
    event_zxids: EventZxids,
    marks: Vec<(Zxid, Mark)>,
    /// How many times the cache has begun.
    begun: usize,
}

impl Client {
    fn new(event_zxids: EventZxids) -> Self {
        Self {
            store: Store::default(),
            events: Vec::new(),
            pending: Pending::new(ROOT.into()),
            resync: None,
            in_flight: 0,
            read_at: Zxid::ZERO,
            event_zxids,
            marks: Vec::new(),
            begun: 0,
        }
    }

    fn connected(&mut self) {
        self.begun += 1;
        let selection = Selection { root: ROOT.into(), depth_max: u32::MAX, selector: None };
        self.pending = Pending::new(ROOT.into());
        // Between requests of few reads more can happen.
        self.resync = Some(Resync::new(selection, KeepsData::Yes, &self.store, 2));
        self.in_flight = 0;
        self.read_at = Zxid::ZERO;
    }

    fn next_request(&mut self) -> Option<Asked> {
        if self.in_flight == 3 {
            return None;
        }
        let asked = match self.pending.next_read() {
            Some(path) => Asked::Changed(vec![path]),
            None => match self.resync.as_mut()?.next_request(&self.store)? {
                Request::Reads(reads) => Asked::Resync(reads),
                Request::Exists(path) => Asked::ResyncExists(path),
            },
        };
        self.in_flight += 1;
        Some(asked)
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Event(event_type, path, zxid) => {
                let zxid = if self.event_zxids == EventZxids::Sent { zxid } else { Zxid::NONE };
                self.pending.event(event_type, path, zxid);
            }
            Message::Reply(asked, zxid, results) => {
                self.in_flight -= 1;
                self.reply(asked, zxid, results);
            }
        }
        if let Some(resync) = self.resync.take_if(|resync| resync.is_done()) {
            let found = resync.finish(&self.store, self.pending.deleted_paths());
            self.pending.merge(found);
            self.pending.mark(self.read_at, Mark::Resynced);
        }
        while self.resync.is_none() {
            let (mark, has_more) = self.pending.apply(&mut self.store, &mut self.events, 1);
            self.marks.extend(mark);
            if !has_more {
                break;
            }
        }
    }

    fn reply(&mut self, asked: Asked, zxid: Zxid, results: Vec<ReadResult>) {
        match asked {
            Asked::Changed(paths) => {
                for (path, result) in paths.iter().zip(results) {
                    let seen = match result {
                        ReadResult::Data(data, stat) => {
                            Seen::Znode(KeepsData::Yes.record(&stat, &data))
                        }
                        _ => Seen::Nothing,
                    };
                    self.pending.answered(path, zxid, seen);
                }
            }
            Asked::Resync(reads) => {
                self.read_at = zxid;
                let resync = self.resync.as_mut().unwrap();
                resync.read(&self.store, zxid, reads.into_iter().zip(results));
            }
            Asked::ResyncExists(_) | Asked::Probe => unreachable!("all data is short"),
            Asked::Children(_) | Asked::Root => unreachable!("the watch is persistent"),
        }
    }
}

/// A server, a client, and what is between them.
struct World {
    server: Server,
    client: Client,
    is_connected: bool,
    to_server: VecDeque<Asked>,
    to_client: VecDeque<Message>,
}

impl World {
    fn new(event_zxids: EventZxids) -> Self {
        Self {
            server: Server::default(),
            client: Client::new(event_zxids),
            is_connected: false,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(writes) => {
                let events = self.server.write(writes);
                if self.is_connected {
                    self.to_client.extend(events);
                }
            }
            Step::Answer => {
                let reply = self.to_server.pop_front().map(|asked| self.server.answer(asked));
                self.to_client.extend(reply);
            }
            Step::Receive => {
                if let Some(message) = self.to_client.pop_front() {
                    self.client.receive(message);
                }
                if self.client.pending.must_resync() {
                    self.begin_again();
                }
            }
            Step::Cut => {
                self.is_connected = false;
                self.to_server.clear();
                self.to_client.clear();
            }
            Step::CutAfterEvents => {
                self.is_connected = false;
                self.to_server.clear();
                self.to_client.retain(|message| matches!(message, Message::Event(..)));
            }
            Step::Restart if self.is_connected => self.begin_again(),
            Step::Restart => {}
            Step::Connect if !self.is_connected => {
                self.is_connected = true;
                self.client.connected();
            }
            Step::Connect => {}
        }
        while self.is_connected
            && let Some(asked) = self.client.next_request()
        {
            self.to_server.push_back(asked);
        }
    }

    /// The cache begins again over the same connection: the events come, and the answers are for nobody.
    fn begin_again(&mut self) {
        self.to_server.clear();
        self.to_client.retain(|message| matches!(message, Message::Event(..)));
        self.client.connected();
    }

    /// Has requests answered, and the answers received.
    fn answer_and_receive(&mut self, count: usize) {
        for _ in 0..count {
            self.step(&Step::Answer);
            self.step(&Step::Receive);
        }
    }

    /// Delivers everything.
    fn calm_down(&mut self) {
        self.step(&Step::Connect);
        while !self.to_server.is_empty() || !self.to_client.is_empty() {
            self.step(&Step::Receive);
            self.step(&Step::Answer);
        }
    }

    fn check(&self) {
        let client = &self.client;
        assert!(client.resync.is_none() && client.pending.len() == 0, "{:?}", client.pending);
        let cached: Vec<_> = client.store.iter().map(|(path, record)| record.znode(path)).collect();
        let cached =
            cached.iter().map(|it| (&*it.path, it.stat.czxid, it.stat.mzxid, &it.data[..]));
        let tree = self.server.tree.iter();
        let tree = tree.map(|(path, (stat, data))| (*path, stat.czxid, stat.mzxid, &data[..]));
        assert_eq!(cached.collect::<Vec<_>>(), tree.collect::<Vec<_>>());
        check_history(&client.events, client.event_zxids);
    }
}

/// Whether an event shows no change that came after it. Data that was set after a creation is the
/// exception.
fn shows_nothing_later(event: &CacheEvent, zxid: Zxid) -> bool {
    match event {
        CacheEvent::Created { znode, .. } => znode.stat.czxid <= zxid,
        CacheEvent::Changed { znode, .. } => znode.stat.mzxid <= zxid,
        CacheEvent::Deleted { znode, .. } => znode.stat.czxid < zxid,
        _ => true,
    }
}

/// Checks that the events are a history that a tree can have.
fn check_history(events: &[CacheEvent], event_zxids: EventZxids) {
    let mut tree: BTreeMap<&str, &CachedZnode> = BTreeMap::new();
    let mut last = Zxid::ZERO;
    for event in events {
        let (path, zxid) = (event.path().unwrap(), event.zxid().unwrap());
        if event_zxids == EventZxids::Sent {
            assert!(zxid >= last, "{event:?} after {last}, in {events:#?}");
            assert!(shows_nothing_later(event, zxid), "{event:?} in {events:#?}");
        }
        last = zxid;
        match event {
            CacheEvent::Created { znode, .. } => {
                let has_parent = path == ROOT || tree.contains_key(parent_path(path).unwrap());
                assert!(has_parent, "{event:?} in {events:#?}");
                assert!(tree.insert(path, znode).is_none(), "{event:?} in {events:#?}");
            }
            CacheEvent::Changed { before, znode, .. } => {
                let known = tree.insert(path, znode).expect("a znode that changes is there");
                assert_eq!(known.data, before.data);
                assert!(known.stat.mzxid < znode.stat.mzxid);
                assert_eq!(known.stat.czxid, znode.stat.czxid);
            }
            CacheEvent::Deleted { znode, .. } => {
                let known = tree.remove(path).expect("a znode that is deleted was there");
                assert_eq!(known.data, znode.data, "the last data");
                let below = format!("{path}/");
                assert!(!tree.keys().any(|other| other.starts_with(&below)), "{event:?}");
            }
            event => panic!("{event:?} is not about a znode"),
        }
    }
}

fn write() -> impl Strategy<Value = Write> {
    let path = 0..PATHS.len();
    prop_oneof![
        4 => path.clone().prop_map(Write::Create),
        2 => path.clone().prop_map(Write::Set),
        3 => path.prop_map(Write::Delete),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => write().prop_map(|write| Step::Write(vec![write])),
        2 => prop::collection::vec(write(), 2..5).prop_map(Step::Write),
        5 => Just(Step::Answer),
        6 => Just(Step::Receive),
        1 => Just(Step::Cut),
        1 => Just(Step::CutAfterEvents),
        1 => Just(Step::Restart),
        2 => Just(Step::Connect),
    ]
}

fn run(steps: &[Step], event_zxids: EventZxids) {
    let mut world = World::new(event_zxids);
    for step in steps {
        world.step(step);
    }
    world.calm_down();
    world.check();
    // Nothing is read twice when nothing has changed.
    let before = world.client.events.len();
    world.step(&Step::Cut);
    world.calm_down();
    world.check();
    assert_eq!(world.client.events.len(), before, "an event of a resync after no change");
}

proptest! {
    // PROPTEST_CASES sets how many.
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn after_calm_the_cache_is_the_tree_and_its_events_are_a_history(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        run(&steps, EventZxids::Sent);
    }

    #[test]
    fn without_zxids_in_events_the_cache_is_the_tree_after_calm(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        run(&steps, EventZxids::NotSent);
    }
}

#[test]
fn a_znode_that_is_recreated_during_a_cut_loses_its_old_children_and_gets_its_new_ones() {
    let mut world = World::new(EventZxids::Sent);
    for write in [Write::Create(0), Write::Create(1), Write::Create(3)] {
        world.step(&Step::Write(vec![write]));
    }
    world.calm_down();
    world.step(&Step::Cut);
    // Its cversion is the same as before.
    for write in [Write::Delete(3), Write::Delete(1), Write::Create(1), Write::Create(4)] {
        world.step(&Step::Write(vec![write]));
    }
    world.calm_down();
    world.check();
    let last: Vec<_> = world.client.events[3..].iter().map(|event| event.path().unwrap()).collect();
    assert_eq!(last, ["/r/a/a", "/r/a", "/r/a", "/r/a/b"]);
}

#[test]
fn a_cut_between_two_creations_of_one_multi_hides_neither() {
    let mut world = World::new(EventZxids::Sent);
    world.step(&Step::Write(vec![Write::Create(0)]));
    world.calm_down();
    world.step(&Step::Write(vec![Write::Create(1), Write::Create(2)]));
    // Both events, and the answer to the read of the first.
    for step in [Step::Receive, Step::Receive, Step::Answer, Step::Receive] {
        world.step(&step);
    }
    assert_eq!(world.client.store.len(), 2);
    world.step(&Step::Cut);
    world.calm_down();
    world.check();
}

/// The events of the creations came before the cache began again, and the znodes are gone when the resync
/// reads them. So only the answer about a change shows one of them, and nothing tells of its children.
#[test]
fn a_cache_begins_again_when_a_change_brings_a_znode_with_children_to_light() {
    let (znode, child) = (2, 5);
    let mut world = World::new(EventZxids::Sent);
    world.step(&Step::Write(vec![Write::Create(0)]));
    world.step(&Step::Connect);
    world.step(&Step::Write(vec![Write::Create(znode)]));
    world.step(&Step::Write(vec![Write::Create(child)]));
    world.step(&Step::Write(vec![Write::Set(znode)]));
    for step in [Step::Receive, Step::Receive, Step::Restart] {
        world.step(&step);
    }
    // The root, the change, and the list of the root's children.
    world.answer_and_receive(3);
    for path in [child, znode] {
        world.step(&Step::Write(vec![Write::Delete(path)]));
    }
    world.calm_down();
    world.check();
    assert_eq!(world.client.begun, 3);
}

/// Another part of the program has a one-shot watch, and a server that sends zxids says without one
/// what that watch has missed.
#[test]
fn an_event_without_a_zxid_among_others_does_not_change_their_order() {
    let mut world = World::new(EventZxids::Sent);
    for path in 0..3 {
        world.step(&Step::Write(vec![Write::Create(path)]));
    }
    world.calm_down();
    world.client.pending.event(EventType::NODE_DATA_CHANGED, PATHS[1], Zxid::NONE);
    // The read of this event is sent, and answered after two changes.
    world.step(&Step::Connect);
    for path in [2, 1] {
        world.step(&Step::Write(vec![Write::Set(path)]));
    }
    world.step(&Step::Answer);
    world.calm_down();
    world.check();
    let last: Vec<_> = world.client.events[3..].iter().map(|event| event.path().unwrap()).collect();
    assert_eq!(last, [PATHS[2], PATHS[1]]);
}

/// The answer about a parent is replaced by a later one while a resync holds all back, and that
/// about its child, which was deleted with it, is not.
#[test]
fn a_child_is_not_cached_without_its_parent() {
    let (parent, child, elsewhere) = (1, 3, 2);
    let mut world = World::new(EventZxids::Sent);
    for path in [0, elsewhere, 5] {
        world.step(&Step::Write(vec![Write::Create(path)]));
    }
    world.step(&Step::Connect);
    world.answer_and_receive(1);
    for write in [Write::Create(parent), Write::Create(child)] {
        world.step(&Step::Write(vec![write]));
        world.step(&Step::Receive);
    }
    // The list of the root's children, and the reads of both znodes.
    world.answer_and_receive(3);
    for write in [Write::Delete(child), Write::Delete(parent), Write::Create(parent)] {
        world.step(&Step::Write(vec![write]));
        world.step(&Step::Receive);
    }
    // The reads of the listed children, and that of the new parent.
    world.answer_and_receive(2);
    assert!(world.client.resync.is_some() && world.client.store.len() == 0);
    world.calm_down();
    world.check();
}
