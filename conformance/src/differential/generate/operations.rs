//! Generates random requests for a few names.

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use zoolet_protocol::{
    Acl, AddWatch, Auth, Check, Create, CreateFlags, CreateKind, Delete, Encode, Expect, Id,
    Lookup, MultiOp, MultiReadOp, Names, Permissions, RawPath, Read, Reconfig, RemoveWatches,
    Request, SessionRequest, SetAcl, SetData, SetWatches, Watch, WatchMode, WatcherType, Write,
    Zxid,
};

use super::super::differences::{self, PathWatchMode};

/// The znode below which all requests work.
const TOP: &str = "/w";
/// The names of znodes. The last one is for znodes that not everyone may read.
const NAMES: [&str; 5] = ["a", "a", "b", "s-", differences::CLOSED_NAME];
/// The depths of paths below [`TOP`]. Likelier ones appear more often.
const DEPTHS: [usize; 10] = [0, 1, 1, 1, 1, 1, 1, 2, 2, 3];
/// Invalid and unusual paths.
const ODD_PATHS: [&str; 9] =
    ["", "w", "/w/", "/w//a", "/w/.", "/w/../w", "/w/a\u{1}", "/w/\u{1f600}", "/w/a\0"];
const QUOTA_TEXTS: [&str; 5] = [
    "count=5,bytes=100",
    "count=-1,bytes=-1",
    "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=4",
    "count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=-1",
    "count=2,bytes=5=;byteHardLimit=1000;countHardLimit=1000",
];
/// Longer than any run, so that the sweeper deletes nothing during a comparison.
const TTL_MS: i64 = 1_000_000_000;

/// Generates requests.
#[derive(Debug)]
pub(super) struct Operations {
    has_quotas: bool,
    /// The number of generated requests, from which zxids are estimated.
    drawn: i64,
}

impl Operations {
    pub(super) fn new(has_quotas: bool) -> Self {
        Self { has_quotas, drawn: 0 }
    }

    /// Generates a request.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Request {
        self.drawn += 1;
        match rng.u8(..100) {
            0..=28 => write(MultiOp::Create(create(rng, false))),
            29..=34 => write(MultiOp::Delete(delete(rng))),
            35..=42 => write(MultiOp::SetData(set_data(rng))),
            43..=46 => Request::Write(Write::SetAcl(set_acl(rng))),
            47..=58 => Request::Write(Write::Multi(multi(rng))),
            59..=76 => lookup(rng),
            77..=79 => Request::Read(Read::MultiRead(multi_read(rng))),
            80..=81 => Request::Read(Read::GetAcl(path(rng))),
            82..=86 => add_watch(rng),
            87..=88 => remove_watches(rng),
            89..=92 => self.set_watches(rng),
            93 => Request::Read(Read::Sync(znode_path(rng).into())),
            94 => Request::Read(Read::GetEphemerals(path(rng))),
            95 => Request::Read(Read::GetAllChildrenNumber(znode_path(rng).into())),
            96 => Request::Session(SessionRequest::WhoAmI),
            97 => Request::Session(SessionRequest::Ping),
            98 if self.has_quotas => quota(rng),
            98 => reconfig(),
            _ => cut_short(rng),
        }
    }

    /// Generates a short write, and now and then another request, but no `setACL`.
    pub(super) fn next_among_writes(&mut self, rng: &mut Rng) -> Request {
        self.drawn += 1;
        match rng.u8(..40) {
            0..=19 => write(MultiOp::Create(create(rng, false))),
            20..=28 => write(MultiOp::Delete(delete(rng))),
            29..=37 => write(MultiOp::SetData(set_data(rng))),
            38 => Request::Write(Write::Multi(multi(rng))),
            _ => lookup(rng),
        }
    }

    /// Generates credentials.
    pub(super) fn auth(&self, rng: &mut Rng) -> Auth {
        let (scheme, credentials) = match rng.u8(..20) {
            0 => ("kerberos", "ticket"),
            1 => ("world", "anyone"),
            2 => ("ip", "10.0.0.1"),
            3 => ("digest", "super:secret"),
            4 => ("digest", "nocolon"),
            5..=12 => ("digest", "ann:secret"),
            _ => ("digest", "bob:pw"),
        };
        Auth { auth_type: 0, scheme: Some(scheme.into()), auth: Some(credentials.into()) }
    }

    fn set_watches(&self, rng: &mut Rng) -> Request {
        let mut list = |mode: PathWatchMode| -> Names {
            let count = rng.usize(..3);
            let paths: Vec<_> = (0..count)
                .map(|_| znode_path(rng))
                .filter(|path| differences::watch_mode_of(path) == mode)
                .collect();
            paths.iter().map(String::as_str).collect()
        };
        let lists = SetWatches {
            relative_zxid: Zxid(0),
            data: list(PathWatchMode::Standard),
            exist: list(PathWatchMode::Standard),
            child: list(PathWatchMode::Standard),
            persistent: list(PathWatchMode::Persistent),
            persistent_recursive: list(PathWatchMode::Recursive),
        };
        let relative_zxid = Zxid(rng.i64(0..=self.drawn + 4));
        let lists = SetWatches { relative_zxid, ..lists };
        Request::Watch(if rng.bool() { Watch::Set2(lists) } else { Watch::Set(short(lists)) })
    }
}

/// The part of the lists that `setWatches` can carry.
fn short(lists: SetWatches) -> SetWatches {
    SetWatches { persistent: Names::EMPTY, persistent_recursive: Names::EMPTY, ..lists }
}

fn write(op: MultiOp) -> Request {
    Request::Write(Write::Op(op))
}

fn pick<'a, T>(rng: &mut Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.usize(..choices.len())]
}

/// A valid path.
fn znode_path(rng: &mut Rng) -> String {
    let mut path = TOP.to_owned();
    for _ in 0..*pick(rng, &DEPTHS) {
        path.push('/');
        let name = *pick(rng, &NAMES);
        path.push_str(name);
        if name.ends_with('-') && rng.bool() {
            path.push_str(&format!("{:010}", rng.u32(..6)));
        }
    }
    path
}

/// A valid path in most cases, and sometimes an invalid one.
fn path(rng: &mut Rng) -> RawPath {
    if rng.u8(..60) == 0 { (*pick(rng, &ODD_PATHS)).into() } else { znode_path(rng).into() }
}

fn data(rng: &mut Rng) -> Option<Bytes> {
    let text = *pick(rng, &["", "1", "22", "333", "a longer text than the others are"]);
    if rng.u8(..8) == 0 { None } else { Some(Bytes::from_static(text.as_bytes())) }
}

fn version(rng: &mut Rng) -> Expect {
    Expect::from(*pick(rng, &[-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 1, 2, 3, -2, i32::MAX]))
}

fn entry(permissions: i32, scheme: &'static str, id: &'static str) -> Acl {
    Acl { permissions: Permissions(permissions), id: Id::new(scheme, id) }
}

/// An access control list for `path`. Everyone may read, unless the name is
/// [`differences::CLOSED_NAME`].
fn acl(rng: &mut Rng, path: &RawPath) -> Vec<Acl> {
    const ANN: &str = "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=";
    let everyone_reads = entry(1, "world", "anyone");
    match rng.u8(..54) {
        0..=39 => return vec![Acl::open()],
        40 => return Vec::new(),
        41 => return vec![entry(31, "kerberos", "me")],
        42 => return vec![entry(31, "world", "someone")],
        43 => return vec![everyone_reads, entry(31, "digest", "one-part")],
        _ => {}
    }
    let mut list = match rng.u8(..6) {
        0 => vec![entry(rng.i32(0..32), "world", "anyone")],
        1 => vec![entry(31, "digest", ANN)],
        2 => vec![entry(31, "auth", "")],
        3 => vec![entry(30, "auth", "ignored"), entry(4, "world", "anyone")],
        4 => vec![entry(31, "ip", "127.0.0.1"), entry(2, "ip", "10.0.0.0/8")],
        _ => vec![entry(31, "digest", ANN), entry(31, "digest", ANN), entry(12, "auth", "")],
    };
    if !path.text().is_some_and(differences::is_closed) {
        list.push(everyone_reads);
    }
    list
}

fn create(rng: &mut Rng, is_in_multi: bool) -> Create {
    let mut path = path(rng);
    let acl = Some(acl(rng, &path)).filter(|_| is_in_multi || rng.u8(..50) != 0);
    let (kind, flags) = match rng.u8(..20) {
        0..=7 => (CreateKind::Create, CreateFlags::PERSISTENT),
        8..=10 => (CreateKind::Create, CreateFlags::EPHEMERAL),
        11..=12 => (CreateKind::Create, CreateFlags::PERSISTENT_SEQUENTIAL),
        13..=14 => (CreateKind::Create, CreateFlags::EPHEMERAL_SEQUENTIAL),
        15 => (CreateKind::Ttl { ttl_ms: TTL_MS }, CreateFlags::PERSISTENT_WITH_TTL),
        16 => (CreateKind::Ttl { ttl_ms: TTL_MS }, CreateFlags::PERSISTENT_SEQUENTIAL_WITH_TTL),
        17 if is_in_multi => (CreateKind::Create, CreateFlags::CONTAINER),
        17 => (CreateKind::Container, CreateFlags::CONTAINER),
        _ if is_in_multi => (CreateKind::Create, CreateFlags::PERSISTENT),
        18 => (CreateKind::Create, CreateFlags(rng.i32(-2..12))),
        _ => (CreateKind::Create2, CreateFlags(rng.i32(0..4))),
    };
    if flags.is_sequential() && path.text() == Some(TOP) {
        // The sequence numbers below the root depend on earlier seeds.
        path = format!("{TOP}/").into();
    }
    Create { kind, path, data: data(rng), acl, flags }
}

fn delete(rng: &mut Rng) -> Delete {
    Delete { path: path(rng), version: version(rng) }
}

fn set_data(rng: &mut Rng) -> SetData {
    SetData { path: path(rng), data: data(rng), version: version(rng) }
}

fn set_acl(rng: &mut Rng) -> SetAcl {
    let path = path(rng);
    let acl = Some(acl(rng, &path)).filter(|_| rng.u8(..20) != 0);
    SetAcl { path, acl, version: version(rng) }
}

fn multi(rng: &mut Rng) -> Vec<MultiOp> {
    // Short multis are likelier to succeed.
    let longest = rng.usize(2..6);
    let count = rng.usize(..longest);
    (0..count)
        .map(|_| match rng.u8(..10) {
            0..=3 => MultiOp::Create(create(rng, true)),
            4..=5 => MultiOp::Delete(delete(rng)),
            6..=7 => MultiOp::SetData(set_data(rng)),
            _ => MultiOp::Check(Check { path: path(rng), version: version(rng) }),
        })
        .collect()
}

fn multi_read(rng: &mut Rng) -> Vec<MultiReadOp> {
    let count = rng.usize(..5);
    (0..count)
        .map(|_| {
            let path = znode_path(rng).into();
            if rng.bool() { MultiReadOp::GetData(path) } else { MultiReadOp::GetChildren(path) }
        })
        .collect()
}

fn lookup(rng: &mut Rng) -> Request {
    // The empty path is left out: it names the root, whose Stat depends on earlier seeds.
    let path = if rng.u8(..30) == 0 { ODD_PATHS[2].to_owned() } else { znode_path(rng) };
    let is_watch = rng.u8(..4) != 0 && differences::watch_mode_of(&path) == PathWatchMode::Standard;
    let is_closed = differences::is_closed(&path);
    let path = RawPath::from(path);
    let lookup = match rng.u8(..8) {
        0..=1 if !is_closed => Lookup::Exists(path),
        2..=3 => Lookup::GetChildren(path),
        4..=5 => Lookup::GetChildren2(path),
        _ => Lookup::GetData(path),
    };
    if is_watch {
        Request::Watch(Watch::Lookup(lookup))
    } else {
        Request::Read(Read::Lookup(lookup))
    }
}

fn add_watch(rng: &mut Rng) -> Request {
    let path = if rng.u8(..6) == 0 { "/".to_owned() } else { znode_path(rng) };
    let mode = match differences::watch_mode_of(&path) {
        PathWatchMode::Persistent => WatchMode::PERSISTENT,
        PathWatchMode::Recursive => WatchMode::PERSISTENT_RECURSIVE,
        PathWatchMode::Standard => WatchMode(7),
    };
    Request::Watch(Watch::Add(AddWatch { path: path.into(), mode }))
}

fn remove_watches(rng: &mut Rng) -> Request {
    let path = znode_path(rng);
    let watcher_type = match differences::watch_mode_of(&path) {
        PathWatchMode::Standard => *pick(
            rng,
            &[WatcherType::ANY, WatcherType::DATA, WatcherType::CHILDREN, WatcherType(9)],
        ),
        _ => WatcherType::ANY,
    };
    Request::Watch(Watch::Remove(RemoveWatches { path: path.into(), watcher_type }))
}

/// A read whose body is cut short.
fn cut_short(rng: &mut Rng) -> Request {
    let whole = match rng.u8(..4) {
        0 => Request::Read(Read::MultiRead(multi_read(rng))),
        1 => Request::Read(Read::GetAcl(path(rng))),
        2 => add_watch(rng),
        _ => lookup(rng),
    };
    let mut body = BytesMut::new();
    whole.encode(&mut body);
    let kept = rng.usize(..body.len());
    Request::Unknown { op: whole.op_code(), body: body.freeze().slice(..kept) }
}

fn reconfig() -> Request {
    Request::Write(Write::Reconfig(Reconfig {
        joining: None,
        leaving: None,
        new_members: Some("server.1=host:1:2:3".into()),
        current_config: -1,
    }))
}

/// A request about a quota. It sets counters only to texts that can be parsed, because ZooKeeper
/// fails on others.
fn quota(rng: &mut Rng) -> Request {
    let of = *pick(rng, &["/w", "/w", "/w/a"]);
    let root = format!("/zookeeper/quota{of}");
    let limits = format!("{root}/zookeeper_limits");
    let stats = format!("{root}/zookeeper_stats");
    let text = Bytes::from_static(pick(rng, &QUOTA_TEXTS).as_bytes());
    let create = |path: &str, data: Bytes| {
        MultiOp::Create(Create {
            kind: CreateKind::Create,
            path: path.into(),
            data: Some(data),
            acl: Some(vec![Acl::open()]),
            flags: CreateFlags::PERSISTENT,
        })
    };
    let remove = |path: &str| MultiOp::Delete(Delete { path: path.into(), version: Expect::Any });
    match rng.u8(..8) {
        0..=3 => Request::Write(Write::Multi(vec![
            create(&root, Bytes::new()),
            create(&limits, text),
            create(&stats, Bytes::from_static(b"count=0,bytes=0")),
        ])),
        4 => Request::Write(Write::Multi(vec![remove(&limits), remove(&stats), remove(&root)])),
        5 => write(MultiOp::SetData(SetData {
            path: limits.into(),
            data: Some(text),
            version: Expect::Any,
        })),
        _ => Request::Read(Read::Lookup(Lookup::GetData(stats.into()))),
    }
}
