//! What creates and deletes cost the state machine: the CPU time of each, in the general way (`Core::decide` and
//! `Core::apply_decided`), as of a multi. Short writes of clients take less (`Core::decide_plain`).
//! Each workload is one function whose name ends in `_measured`, so that callgrind can count its
//! instructions and cache misses and nothing else.
//!
//! ```text
//! cargo build --release -p zoolet-core --example create_delete
//! target/release/examples/create_delete pairs 1000
//! valgrind --tool=callgrind --cache-sim=yes --collect-atstart=no \
//!     --toggle-collect='*_measured*' target/release/examples/create_delete pairs 1000 10000
//! ```
//!
//! The workloads, each with its size and how many times it is done:
//!
//! - `pairs SIBLINGS [COUNT]`: an ephemeral sequential create and its delete, as a lock makes them,
//!   in a directory with this many siblings.
//! - `wide CHILDREN`: creates of all children of one directory, and the deletes of all.
//! - `cold ZNODES [COUNT]`: creates below directories in turn, in a tree that has this many znodes
//!   in directories of a thousand, and deletes of these and of others. It also shows how long the
//!   longest create took while the tree grew, which other programs that run meanwhile make longer.
//! - `walks WORKERS [COUNT]`: short creates and deletes (`Core::decide_plain`) in one directory, as `zoolet bench
//!   load` makes them: each of the workers in turn creates its next znode or deletes its last one.
//! - `frozen ZNODES`: what a snapshot costs the writes: the median and the ninth decile of the times of
//!   the freeze and of the first change after it.
//! - `watches COUNT`: watches of this many paths, and creates that fire them.
//! - `plain SIBLINGS [COUNT]`: the same as `pairs`, with the reply encoded, in turn with a plain tree that
//!   checks and knows nothing (`measure/plain.rs`).
//! - `grown ZNODES`: creates while one directory grows, in the order of their names and in any, in turn
//!   with the same plain tree.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod measure;
#[path = "measure/plain.rs"]
mod plain;

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zoolet_core::{ConnectionId, Core, Effects, Requester, Settings};
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, ErrorCode, Expect, Lookup, MultiOp, PlainWrite,
    ReplyHeader, Request, Response, SessionId, SetData, Watch, Write, Xid, Zxid, encode_reply,
    encode_request,
};

use self::measure::{cpu_ns, print_since, resident_bytes};
use self::plain::Plain;

const SESSION: SessionId = SessionId(1);
const CHILDREN_PER_DIRECTORY: usize = 1_000;
const DATA: &[u8] = &[7; 100];
const CONNECTIONS: u64 = 1_000;

struct Tree {
    core: Core,
    requester: Requester,
}

impl Tree {
    fn new() -> Self {
        let mut core = Core::new(Settings::default());
        core.apply(&core.prepare_create_session(SESSION, 30_000, 0));
        Self { core, requester: Requester::new(SESSION, ConnectionId(1), Xid(1)) }
    }

    fn write(&mut self, write: &Write) -> Effects {
        let decided = self.core.decide(write, &self.requester, 0);
        self.core.apply_decided(&decided)
    }

    /// Carries out a write, encodes the reply and returns it.
    fn answer(&mut self, write: &Write, out: &mut BytesMut) -> Result<Response, ErrorCode> {
        let Effects { zxid, reply, .. } = self.write(write);
        let header = ReplyHeader { xid: self.requester.xid, zxid, err: ErrorCode::OK };
        out.clear();
        encode_reply(&header, reply.as_ref().unwrap_or(&Response::Empty), out);
        reply
    }

    /// Creates a znode and returns its path.
    fn create(&mut self, path: &str, flags: CreateFlags) -> String {
        let effects = self.write(&create(path, flags));
        match effects.reply {
            Ok(Response::Path(path)) => path.text().expect("it is not null").to_owned(),
            other => panic!("{path}: {other:?}"),
        }
    }

    fn fill(&mut self, directory: &str, children: usize) {
        self.create(directory, CreateFlags::PERSISTENT);
        for _ in 0..children {
            self.create(&format!("{directory}/lock-"), CreateFlags::PERSISTENT_SEQUENTIAL);
        }
    }
}

fn create(path: &str, flags: CreateFlags) -> Write {
    Write::Op(MultiOp::Create(Create {
        kind: CreateKind::Create,
        path: path.into(),
        data: Some(Bytes::from_static(DATA)),
        acl: Some(vec![Acl::open()]),
        flags,
    }))
}

fn delete(path: &str) -> Write {
    Write::Op(MultiOp::Delete(Delete { path: path.into(), version: Expect::Any }))
}

#[inline(never)]
fn pairs_measured(tree: &mut Tree, count: usize) {
    let create = create("/dir/lock-", CreateFlags::EPHEMERAL_SEQUENTIAL);
    for _ in 0..count {
        let Ok(Response::Path(path)) = tree.write(&create).reply else { panic!("refused") };
        let deleted = Write::Op(MultiOp::Delete(Delete { path, version: Expect::Any }));
        assert!(tree.write(&deleted).reply.is_ok());
    }
}

#[inline(never)]
fn writes_measured(tree: &mut Tree, writes: &[Write]) {
    for write in writes {
        assert!(tree.write(write).reply.is_ok());
    }
}

fn write_all(tree: &mut Tree, what: &str, writes: &[Write]) {
    let begin_ns = cpu_ns();
    writes_measured(tree, writes);
    print_since(begin_ns, what, writes.len());
}

fn pairs(siblings: usize, count: usize) {
    let mut tree = Tree::new();
    tree.fill("/dir", siblings);
    let begin_ns = cpu_ns();
    pairs_measured(&mut tree, count);
    print_since(begin_ns, &format!("create and delete beside {siblings}"), count);
}

/// How often what is compared takes turns.
const TURNS: usize = 3;

/// What [`pairs_measured`] does, with the replies encoded.
#[inline(never)]
fn answered_pairs_measured(tree: &mut Tree, count: usize) {
    let create = create("/dir/lock-", CreateFlags::EPHEMERAL_SEQUENTIAL);
    let mut reply = BytesMut::with_capacity(256);
    for _ in 0..count {
        let Ok(Response::Path(path)) = tree.answer(&create, &mut reply) else { panic!("refused") };
        let deleted = Write::Op(MultiOp::Delete(Delete { path, version: Expect::Any }));
        assert!(tree.answer(&deleted, &mut reply).is_ok());
    }
}

#[inline(never)]
fn plain_pairs_measured(plain: &mut Plain, count: usize) {
    for _ in 0..count {
        let path = plain.create_sequential("/dir/lock-", DATA);
        plain.delete(&path);
    }
}

fn beside_plain(siblings: usize, count: usize) {
    let mut tree = Tree::new();
    tree.fill("/dir", siblings);
    let mut plain = Plain::new("/dir");
    for _ in 0..siblings {
        plain.create_sequential("/dir/lock-", DATA);
    }
    for _ in 0..TURNS {
        let begin_ns = cpu_ns();
        plain_pairs_measured(&mut plain, count);
        print_since(begin_ns, &format!("plain: create and delete beside {siblings}"), count);
        let begin_ns = cpu_ns();
        answered_pairs_measured(&mut tree, count);
        print_since(begin_ns, &format!("this tree: create and delete beside {siblings}"), count);
    }
}

#[inline(never)]
fn plain_creates_measured(plain: &mut Plain, paths: &[String]) {
    paths.iter().for_each(|path| plain.create(path, DATA));
}

#[inline(never)]
fn answered_creates_measured(tree: &mut Tree, writes: &[Write]) {
    let mut reply = BytesMut::with_capacity(256);
    for write in writes {
        assert!(tree.answer(write, &mut reply).is_ok());
    }
}

fn grown(znodes: usize) {
    let path = |number: usize| format!("/dir/{number:010}");
    for (order, paths) in [
        ("in order", (0..znodes).map(path).collect::<Vec<_>>()),
        ("any order", shuffled(znodes).map(path).collect()),
    ] {
        let creates: Vec<_> =
            paths.iter().map(|path| create(path, CreateFlags::PERSISTENT)).collect();
        for _ in 0..TURNS {
            let mut plain = Plain::new("/dir");
            let begin_ns = cpu_ns();
            plain_creates_measured(&mut plain, &paths);
            print_since(begin_ns, &format!("plain: create, {order}"), znodes);
            drop(plain);
            let mut tree = Tree::new();
            tree.create("/dir", CreateFlags::PERSISTENT);
            let begin_ns = cpu_ns();
            answered_creates_measured(&mut tree, &creates);
            print_since(begin_ns, &format!("this tree: create, {order}"), znodes);
        }
    }
}

fn wide(children: usize) {
    let mut tree = Tree::new();
    tree.create("/dir", CreateFlags::PERSISTENT);
    let creates: Vec<_> = shuffled(children)
        .map(|number| create(&format!("/dir/{number:010}"), CreateFlags::PERSISTENT))
        .collect();
    let deletes: Vec<_> =
        shuffled(children).map(|number| delete(&format!("/dir/{number:010}"))).collect();
    write_all(&mut tree, &format!("create of one of {children}, any order"), &creates);
    write_all(&mut tree, &format!("delete of one of {children}, any order"), &deletes);
    let in_order = vec![create("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL); children];
    write_all(&mut tree, &format!("create of one of {children}, in order"), &in_order);
}

fn cold(znodes: usize, count: usize) {
    let mut tree = Tree::new();
    let before = resident_bytes();
    let mut longest = Duration::ZERO;
    let directories = (znodes / CHILDREN_PER_DIRECTORY).max(1);
    for directory in 0..directories {
        tree.create(&format!("/{directory:06}"), CreateFlags::PERSISTENT);
    }
    // The children of a directory are created at different times, so that they are not beside each
    // other in memory.
    let begin_ns = cpu_ns();
    for _ in 0..CHILDREN_PER_DIRECTORY {
        for directory in 0..directories {
            let write =
                create(&format!("/{directory:06}/lock-"), CreateFlags::PERSISTENT_SEQUENTIAL);
            let since = Instant::now();
            assert!(tree.write(&write).reply.is_ok());
            longest = longest.max(since.elapsed());
        }
    }
    let total = directories * CHILDREN_PER_DIRECTORY;
    print_since(begin_ns, "create while the tree grew", total);
    println!("the longest of these: {} us", longest.as_micros());
    println!("{} bytes resident for each of {total}", (resident_bytes() - before) / total);
    let directory = |number: usize| number * 7_919 % directories;
    let creates: Vec<_> = (0..count)
        .map(|number| {
            let path = format!("/{:06}/{number:010}", directory(number));
            create(&path, CreateFlags::EPHEMERAL)
        })
        .collect();
    let deletes: Vec<_> = shuffled(count)
        .map(|number| delete(&format!("/{:06}/{number:010}", directory(number))))
        .collect();
    let old: Vec<_> = shuffled(total)
        .take(count)
        .map(|number| {
            let (directory, child) = (number % directories, number / directories);
            delete(&format!("/{directory:06}/lock-{child:010}"))
        })
        .collect();
    write_all(&mut tree, &format!("create in a tree of {total}"), &creates);
    write_all(&mut tree, &format!("delete of these in a tree of {total}"), &deletes);
    write_all(&mut tree, &format!("delete of old ones in a tree of {total}"), &old);
}

/// The frames of the requests: each worker in turn, at random, creates its next znode or deletes its last one.
fn walks_of(workers: usize, count: usize) -> Vec<Bytes> {
    let mut created: Vec<Vec<String>> = vec![Vec::new(); workers];
    let mut next = vec![0; workers];
    let mut random = 1_u64;
    let step = |number: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let worker = number % workers;
        let write = match created[worker].pop() {
            Some(last) if random >> 63 == 0 => delete(&last),
            last => {
                created[worker].extend(last);
                let path =
                    format!("/bench/1/created/{}-{}-{}", worker / 16, worker % 16, next[worker]);
                next[worker] += 1;
                let write = create(&path, CreateFlags::PERSISTENT);
                created[worker].push(path);
                write
            }
        };
        encode_request(Xid(1), &Request::Write(write))
    };
    (0..count).map(step).collect()
}

#[inline(never)]
fn plain_writes_measured(tree: &mut Tree, frames: &[Bytes]) {
    let header = ReplyHeader { xid: Xid(1), zxid: Zxid::ZERO, err: ErrorCode::OK };
    let mut reply = BytesMut::with_capacity(256);
    for frame in frames {
        let write = PlainWrite::decode(frame).expect("it is short");
        let mut decided = tree.core.decide_plain(&write, &tree.requester, 0);
        let effects = tree.core.apply_plain(&mut decided);
        reply.clear();
        effects.reply.expect("it is carried out").put(&header, &mut reply);
    }
}

fn walks(workers: usize, count: usize) {
    let mut tree = Tree::new();
    for path in ["/bench", "/bench/1", "/bench/1/created"] {
        tree.create(path, CreateFlags::PERSISTENT);
    }
    let frames = walks_of(workers, count);
    let begin_ns = cpu_ns();
    plain_writes_measured(&mut tree, &frames);
    print_since(begin_ns, &format!("create or delete by each of {workers} in turn"), count);
}

fn frozen(znodes: usize) {
    const ROUNDS: usize = 101;
    let mut tree = Tree::new();
    for directory in 0..(znodes / CHILDREN_PER_DIRECTORY).max(1) {
        tree.fill(&format!("/{directory:06}"), CHILDREN_PER_DIRECTORY);
    }
    let data = Some(Bytes::from_static(DATA));
    let (mut freezes, mut changes) = (Vec::new(), Vec::new());
    for number in shuffled(znodes / CHILDREN_PER_DIRECTORY).cycle().take(ROUNDS) {
        let path = format!("/{number:06}/lock-0000000{:03}", number % CHILDREN_PER_DIRECTORY);
        let version = Expect::Any;
        let set = SetData { path: path.as_str().into(), data: data.clone(), version };
        let begin = Instant::now();
        let frozen = tree.core.freeze();
        freezes.push(begin.elapsed());
        let begin = Instant::now();
        assert!(tree.write(&Write::Op(MultiOp::SetData(set))).reply.is_ok());
        changes.push(begin.elapsed());
        drop(frozen);
    }
    for (what, mut times) in [("freeze", freezes), ("first change after it", changes)] {
        times.sort_unstable();
        println!(
            "{what} of {znodes}: half {:?}, 9 of 10 {:?}",
            times[ROUNDS / 2],
            times[ROUNDS * 9 / 10]
        );
    }
}

fn watches(count: usize) {
    let mut tree = Tree::new();
    let begin_ns = cpu_ns();
    let mut longest = Duration::ZERO;
    for number in 0..count {
        let watch = Watch::Lookup(Lookup::Exists(format!("/watched-{number:010}").into()));
        let asker = Requester::new(SESSION, ConnectionId(number as u64 % CONNECTIONS), Xid(1));
        let since = Instant::now();
        tree.core.watch(&watch, &asker);
        longest = longest.max(since.elapsed());
    }
    print_since(begin_ns, "watch of a path of its own", count);
    println!("the longest of these: {} us", longest.as_micros());
    let fire: Vec<_> = shuffled(count)
        .take(100_000)
        .map(|number| create(&format!("/watched-{number:010}"), CreateFlags::PERSISTENT))
        .collect();
    write_all(&mut tree, &format!("create that fires one of {count} watches"), &fire);
}

/// The numbers below `count`, a power of ten or a multiple of one, in an order that looks random
/// and is always the same.
fn shuffled(count: usize) -> impl Iterator<Item = usize> + Clone {
    const STEP: usize = 617_033_989;
    (0..count).map(move |index| index * STEP % count)
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse::<usize>().ok());
    match (arguments.first().map(String::as_str), number(1)) {
        (Some("pairs"), Some(siblings)) => pairs(siblings, number(2).unwrap_or(1_000_000)),
        (Some("wide"), Some(children)) => wide(children),
        (Some("walks"), Some(workers)) => walks(workers, number(2).unwrap_or(1_000_000)),
        (Some("frozen"), Some(znodes)) => frozen(znodes),
        (Some("watches"), Some(count)) => watches(count),
        (Some("plain"), Some(siblings)) => beside_plain(siblings, number(2).unwrap_or(1_000_000)),
        (Some("grown"), Some(znodes)) => grown(znodes),
        (Some("cold"), Some(znodes)) => cold(znodes, number(2).unwrap_or(100_000)),
        _ => eprintln!(
            "create_delete pairs SIBLINGS [COUNT] | wide CHILDREN | cold ZNODES [COUNT] | frozen ZNODES | \
             watches COUNT | plain SIBLINGS [COUNT] | grown ZNODES"
        ),
    }
}
