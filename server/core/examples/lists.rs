//! What lists of children cost the state machine, and what its tables cost while they grow: the CPU
//! time of each operation, and the longest one. Each workload is one function whose name ends in
//! `_measured`, so that callgrind can count its instructions and nothing else.
//!
//! ```text
//! cargo build --release -p zoolet-core --example lists
//! target/release/examples/lists children 1000
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*changed_measured*' \
//!     target/release/examples/lists children 1000 1000
//! ```
//!
//! The workloads:
//!
//! - `children CHILDREN [COUNT]`: the list of a directory that does not change (`same_measured`),
//!   and of one to whose end a child is added before each list, or from whose middle one is taken
//!   (`changed_measured`).
//! - `sessions COUNT`: sessions begin.
//! - `connections COUNT`: as many connections watch one path of their own each.
//! - `acls COUNT`: znodes get an access control list of their own each.
//!
//! The last three print the longest single operation, which other programs that run meanwhile make
//! longer, and the memory for each.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod measure;

use std::hint::black_box;
use std::time::{Duration, Instant};

use zoolet_core::{ConnectionId, Core, Requester, Settings};
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, Expect, Id, Lookup, MultiOp, Permissions, Read,
    SessionId, Watch, Write, Xid,
};

use self::measure::{cpu_ns, print_since, resident_bytes};

const SESSION: SessionId = SessionId(1);

fn requester(connection: u64) -> Requester {
    Requester::new(SESSION, ConnectionId(connection), Xid(1))
}

fn apply(core: &mut Core, write: &Write) {
    let txn = core.prepare(write, &requester(1), 0);
    assert!(core.apply(&txn).reply.is_ok());
}

fn create(path: &str, flags: CreateFlags, acl: Acl) -> Write {
    Write::Op(MultiOp::Create(Create {
        kind: CreateKind::Create,
        path: path.into(),
        data: None,
        acl: Some(vec![acl]),
        flags,
    }))
}

/// A state machine with the znode `/dir`, which has this many children.
fn core_with(children: usize) -> Core {
    let mut core = Core::new(Settings::default());
    core.apply(&core.prepare_create_session(SESSION, 30_000, 0));
    apply(&mut core, &create("/dir", CreateFlags::PERSISTENT, Acl::open()));
    let child = create("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL, Acl::open());
    (0..children).for_each(|_| apply(&mut core, &child));
    core
}

#[inline(never)]
fn same_measured(core: &Core, list: &Read, asker: &Requester, count: usize) {
    for _ in 0..count {
        black_box(core.read(list, asker)).expect("it is there");
    }
}

/// The list after each write. What the write alone costs is measured without `list`.
#[inline(never)]
fn changed_measured(core: &mut Core, writes: &[Write], list: Option<(&Read, &Requester)>) {
    for write in writes {
        apply(core, write);
        if let Some((list, asker)) = list {
            black_box(core.read(list, asker)).expect("it is there");
        }
    }
}

fn children(children: usize, count: usize) {
    let asker = requester(1);
    let list = Read::Lookup(Lookup::GetChildren("/dir".into()));
    let mut core = core_with(children);
    same_measured(&core, &list, &asker, 2);
    let begin_ns = cpu_ns();
    same_measured(&core, &list, &asker, count);
    print_since(begin_ns, &format!("list of {children}, unchanged"), count);
    let added = vec![create("/dir/lock-", CreateFlags::PERSISTENT_SEQUENTIAL, Acl::open()); count];
    let taken: Vec<_> = (0..count.min(children / 2))
        .map(|number| format!("/dir/lock-{:010}", children / 4 + number))
        .map(|path| {
            Write::Op(MultiOp::Delete(Delete { path: path.as_str().into(), version: Expect::Any }))
        })
        .collect();
    for (what, writes) in [("added at the end", &added), ("taken from the middle", &taken)] {
        let half = writes.len() / 2;
        let begin_ns = cpu_ns();
        changed_measured(&mut core, &writes[..half], None);
        print_since(begin_ns, &format!("one of {children} {what}"), half);
        let begin_ns = cpu_ns();
        changed_measured(&mut core, &writes[half..], Some((&list, &asker)));
        print_since(
            begin_ns,
            &format!("one of {children} {what}, and a list"),
            writes.len() - half,
        );
    }
}

/// Runs `operation` this many times, and prints the longest time of one and the memory for each.
fn grow(what: &str, count: usize, mut operation: impl FnMut(usize)) {
    let before = resident_bytes();
    let begin_ns = cpu_ns();
    let mut longest = Duration::ZERO;
    for number in 0..count {
        let since = Instant::now();
        operation(number);
        longest = longest.max(since.elapsed());
    }
    print_since(begin_ns, what, count);
    println!("the longest of these: {} us", longest.as_micros());
    let bytes = resident_bytes().saturating_sub(before);
    println!("{} bytes resident for each of {count}", bytes / count.max(1));
}

fn sessions(count: usize) {
    let mut core = Core::new(Settings::default());
    grow("begin of a session", count, |number| {
        let session = SessionId(1 << 56 | number as i64);
        core.apply(&core.prepare_create_session(session, 30_000, 0));
    });
    let since = Instant::now();
    let frozen = black_box(core.freeze());
    println!("state of {count} sessions frozen: {} us", since.elapsed().as_micros());
    drop(frozen);
}

fn connections(count: usize) {
    let mut core = core_with(0);
    grow("watch of a connection of its own", count, |number| {
        let watch = Watch::Lookup(Lookup::Exists(format!("/watched-{number:010}").into()));
        core.watch(&watch, &requester(number as u64));
    });
}

fn acls(count: usize) {
    let mut core = core_with(0);
    grow("create with a list of its own", count, |number| {
        let id = Id::new("digest", format!("user-{number}:hash"));
        let acl = Acl { permissions: Permissions::ALL, id };
        let path = format!("/dir/{:04}-{number:010}", number % 1_000);
        apply(&mut core, &create(&path, CreateFlags::PERSISTENT, acl));
    });
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse::<usize>().ok());
    match (arguments.first().map(String::as_str), number(1)) {
        (Some("children"), Some(many)) => children(many, number(2).unwrap_or(1_000)),
        (Some("sessions"), Some(count)) => sessions(count),
        (Some("connections"), Some(count)) => connections(count),
        (Some("acls"), Some(count)) => acls(count),
        _ => eprintln!("lists children CHILDREN [COUNT] | sessions|connections|acls COUNT"),
    }
}
