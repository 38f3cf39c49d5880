//! What creates and deletes cost the state machine: the time of each, and the longest single one.
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
//!   in directories of a thousand, and the deletes of the created.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use zoolet_core::{ConnectionId, Core, Effects, Requester, Settings};
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, Expect, MultiOp, Response, SessionId, Write, Xid,
};

const SESSION: SessionId = SessionId(1);
const CHILDREN_PER_DIRECTORY: usize = 1_000;
const DATA: &[u8] = &[7; 100];

struct Tree {
    core: Core,
    requester: Requester,
}

/// Times of the same operation.
#[derive(Default)]
struct Times {
    total: Duration,
    longest: Duration,
    count: u32,
}

impl Times {
    fn add(&mut self, since: Instant) {
        let time = since.elapsed();
        self.total += time;
        self.longest = self.longest.max(time);
        self.count += 1;
    }

    fn print(&self, what: &str) {
        let (each, count) = (self.total.as_nanos() / u128::from(self.count.max(1)), self.count);
        let longest = self.longest.as_nanos() / 1_000;
        println!("{what}: {each} ns each, the longest {longest} us, of {count}");
    }
}

impl Tree {
    fn new() -> Self {
        let mut core = Core::new(Settings::default());
        core.apply(&core.prepare_create_session(SESSION, 30_000, 0));
        Self { core, requester: Requester::new(SESSION, ConnectionId(1), Xid(1)) }
    }

    fn write(&mut self, write: &Write) -> Effects {
        let txn = self.core.prepare(write, &self.requester, 0);
        self.core.apply(&txn)
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
fn pairs_measured(tree: &mut Tree, count: usize) -> Times {
    let create = create("/dir/lock-", CreateFlags::EPHEMERAL_SEQUENTIAL);
    let mut times = Times::default();
    for _ in 0..count {
        let since = Instant::now();
        let Ok(Response::Path(path)) = tree.write(&create).reply else { panic!("refused") };
        let deleted = Write::Op(MultiOp::Delete(Delete { path, version: Expect::Any }));
        assert!(tree.write(&deleted).reply.is_ok());
        times.add(since);
    }
    times
}

#[inline(never)]
fn writes_measured(tree: &mut Tree, writes: &[Write]) -> Times {
    let mut times = Times::default();
    for write in writes {
        let since = Instant::now();
        assert!(tree.write(write).reply.is_ok());
        times.add(since);
    }
    times
}

fn pairs(siblings: usize, count: usize) {
    let mut tree = Tree::new();
    tree.fill("/dir", siblings);
    pairs_measured(&mut tree, count).print(&format!("create and delete beside {siblings}"));
}

fn wide(children: usize) {
    let mut tree = Tree::new();
    tree.create("/dir", CreateFlags::PERSISTENT);
    let creates: Vec<_> = shuffled(children)
        .map(|number| create(&format!("/dir/{number:010}"), CreateFlags::PERSISTENT))
        .collect();
    let deletes: Vec<_> =
        shuffled(children).map(|number| delete(&format!("/dir/{number:010}"))).collect();
    writes_measured(&mut tree, &creates).print(&format!("create of one of {children}, any order"));
    writes_measured(&mut tree, &deletes).print(&format!("delete of one of {children}, any order"));
    let in_order = vec![create("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL); children];
    writes_measured(&mut tree, &in_order).print(&format!("create of one of {children}, in order"));
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
    for _ in 0..CHILDREN_PER_DIRECTORY {
        for directory in 0..directories {
            let write =
                create(&format!("/{directory:06}/lock-"), CreateFlags::PERSISTENT_SEQUENTIAL);
            let since = Instant::now();
            assert!(tree.write(&write).reply.is_ok());
            longest = longest.max(since.elapsed());
        }
    }
    println!("the longest create while the tree grew: {} us", longest.as_micros());
    let total = directories * CHILDREN_PER_DIRECTORY;
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
    writes_measured(&mut tree, &creates).print(&format!("create in a tree of {total}"));
    writes_measured(&mut tree, &deletes).print(&format!("delete of these in a tree of {total}"));
    writes_measured(&mut tree, &old).print(&format!("delete of old ones in a tree of {total}"));
}

/// The numbers below `count`, a power of ten or a multiple of one, in an order that looks random
/// and is always the same.
fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    const STEP: usize = 617_033_989;
    (0..count).map(move |index| index * STEP % count)
}

/// The bytes of this process that are in memory; 0 where the system does not tell.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<usize>().ok());
    pages.unwrap_or_default() * 4_096
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse::<usize>().ok());
    match (arguments.first().map(String::as_str), number(1)) {
        (Some("pairs"), Some(siblings)) => pairs(siblings, number(2).unwrap_or(1_000_000)),
        (Some("wide"), Some(children)) => wide(children),
        (Some("cold"), Some(znodes)) => cold(znodes, number(2).unwrap_or(100_000)),
        _ => eprintln!("create_delete pairs SIBLINGS | wide CHILDREN | cold ZNODES [COUNT]"),
    }
}
