//! [`Core::check`] holds after each step of random runs: of requests, of restarts from a snapshot,
//! and of transactions that no server has decided.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use zoolet_core::{ConnectionId, Core, CreateTxn, Data, Requester, Restore, Settings, Txn, TxnOp};
use zoolet_protocol::{
    Acl, AddWatch, Create, CreateFlags, CreateKind, Delete, Expect, Id, Lookup, MultiOp,
    MultiResult, Names, Permissions, RemoveWatches, Response, SessionId, SetAcl, SetData,
    SetWatches, Watch, WatchMode, WatcherType, Write, Xid, ZPath, Zxid,
};

const CASES: u32 = 128;
const STEPS_MAX: usize = 60;

/// Few paths, so that the steps collide. There is a quota on `/a`, and sometimes one on `/a/b`
/// below it; `/many` has so many children that their list is cached.
const PATHS: [&str; 7] = ["/a", "/a/b", "/a/b/c", "/a/c", "/d", "/many/x", "/many/y"];

/// Paths with a meaning for the server.
const SPECIAL_PATHS: [&str; 9] = [
    "/",
    "/many",
    "/zookeeper/config",
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
    "/zookeeper/quota/a/b",
    "/zookeeper/quota/a/b/zookeeper_limits",
    "/zookeeper/quota/a/b/zookeeper_stats",
];

/// How the server deletes a created znode by itself: [`CreateKind`] and [`CreateFlags`].
const MODES: [(CreateKind, CreateFlags); 6] = [
    (CreateKind::Create, CreateFlags::PERSISTENT),
    (CreateKind::Create2, CreateFlags::PERSISTENT_SEQUENTIAL),
    (CreateKind::Create, CreateFlags::EPHEMERAL),
    (CreateKind::Create2, CreateFlags::EPHEMERAL_SEQUENTIAL),
    (CreateKind::Container, CreateFlags::CONTAINER),
    (CreateKind::Ttl { ttl_ms: 3 }, CreateFlags::PERSISTENT_WITH_TTL),
];

/// One step of a run. Sessions and connections are numbered from 1 to 3.
#[derive(Debug, Clone)]
enum Step {
    CreateSession(i64),
    /// Creates a quota as `setquota` does: the limits, then the counters.
    SetQuota(&'static str),
    Write(i64, Write),
    Watch(u64, Watch),
    /// Lists children, which caches a long list.
    List(&'static str),
    Expire(i64),
    CloseConnection(u64, usize),
    Sweep,
    Restart,
}

fn path() -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => select(&PATHS[..]), 1 => select(&SPECIAL_PATHS[..])]
}

fn acl() -> impl Strategy<Value = Vec<Acl>> {
    let readable = Acl { permissions: Permissions::ALL, id: Id::new("ip", "0.0.0.0/0") };
    select(vec![vec![Acl::open()], vec![Acl::open(), readable]])
}

fn operation() -> impl Strategy<Value = MultiOp> {
    let create = (select(&MODES[..]), path(), 0..3_usize, acl()).prop_map(
        |((kind, flags), path, length, acl)| {
            let data = Some(vec![b'x'; length].into());
            MultiOp::Create(Create { kind, path: path.into(), data, acl: Some(acl), flags })
        },
    );
    let delete =
        path().prop_map(|path| MultiOp::Delete(Delete { path: path.into(), version: Expect::Any }));
    let set_data = (path(), 0..9_usize).prop_map(|(path, length)| {
        let data = Some(vec![b','; length].into());
        MultiOp::SetData(SetData { path: path.into(), data, version: Expect::Any })
    });
    prop_oneof![6 => create, 2 => delete, 1 => set_data]
}

fn write() -> impl Strategy<Value = Write> {
    let set_acl = (path(), acl()).prop_map(|(path, acl)| {
        Write::SetAcl(SetAcl { path: path.into(), acl: Some(acl), version: Expect::Any })
    });
    prop_oneof![
        8 => operation().prop_map(Write::Op),
        2 => vec(operation(), 0..4).prop_map(Write::Multi),
        1 => set_acl,
        1 => Just(Write::CloseSession),
    ]
}

fn watch() -> impl Strategy<Value = Watch> {
    let lookup = select(vec![Lookup::Exists, Lookup::GetData, Lookup::GetChildren]);
    let modes = vec![WatchMode::PERSISTENT, WatchMode::PERSISTENT_RECURSIVE];
    let types = vec![WatcherType::DATA, WatcherType::CHILDREN, WatcherType::ANY];
    let set = |path: &'static str| {
        let names = || [path].into_iter().collect::<Names>();
        Watch::Set(SetWatches {
            relative_zxid: Zxid::ZERO,
            data: names(),
            exist: names(),
            child: names(),
            persistent: names(),
            persistent_recursive: names(),
        })
    };
    prop_oneof![
        4 => (lookup, path()).prop_map(|(lookup, path)| Watch::Lookup(lookup(path.into()))),
        2 => (select(modes), path())
            .prop_map(|(mode, path)| Watch::Add(AddWatch { path: path.into(), mode })),
        1 => (select(types), path()).prop_map(|(watcher_type, path)| {
            Watch::Remove(RemoveWatches { path: path.into(), watcher_type })
        }),
        1 => path().prop_map(set),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..4_i64).prop_map(Step::CreateSession),
        1 => select(vec!["/a", "/a/b"]).prop_map(Step::SetQuota),
        20 => (1..4_i64, write()).prop_map(|(session, write)| Step::Write(session, write)),
        8 => (1..4_u64, watch()).prop_map(|(connection, watch)| Step::Watch(connection, watch)),
        2 => Just(Step::List("/many")),
        1 => (1..4_i64).prop_map(Step::Expire),
        1 => (1..4_u64, 0..4_usize).prop_map(|(id, most)| Step::CloseConnection(id, most)),
        1 => Just(Step::Sweep),
        1 => Just(Step::Restart),
    ]
}

fn requester(session: i64, connection: u64) -> Requester {
    Requester::new(SessionId(session), ConnectionId(connection), Xid(1))
}

fn take(core: &mut Core, step: Step, now_ms: i64) {
    match step {
        Step::CreateSession(id) if !core.has_session(SessionId(id)) => {
            core.apply(&core.prepare_create_session(SessionId(id), 30_000, now_ms));
        }
        Step::CreateSession(_) => {}
        Step::SetQuota(path) => set_quota(core, path, now_ms),
        Step::Write(session, write) => {
            core.apply_decided(&core.decide(&write, &requester(session, 1), now_ms));
        }
        Step::Watch(connection, watch) => drop(core.watch(&watch, &requester(1, connection))),
        Step::List(path) => {
            let list = zoolet_protocol::Read::Lookup(Lookup::GetChildren(path.into()));
            drop(core.read(&list, &requester(1, 1)));
        }
        Step::Expire(session) => {
            core.apply(&core.prepare_expiry(SessionId(session), now_ms));
        }
        Step::CloseConnection(id, most) => {
            core.remove_watches_of(ConnectionId(id), most);
        }
        Step::Sweep => {
            for path in core.sweepable(now_ms, 0) {
                core.apply(&core.prepare_sweep(&path, now_ms));
            }
        }
        Step::Restart => *core = restarted(core),
    }
}

/// More children than a list encodes as one part.
const LONG_LIST: usize = 300;

/// A state with a session, a quota and a long list of children.
fn filled() -> Core {
    let mut core = Core::new(Settings::default());
    core.apply(&core.prepare_create_session(SessionId(1), 30_000, 0));
    set_quota(&mut core, "/a", 0);
    let children = (0..LONG_LIST).map(|number| format!("/many/{number}"));
    for path in ["/a".to_owned(), "/many".to_owned()].into_iter().chain(children) {
        create(&mut core, &path, 0);
    }
    core
}

fn create(core: &mut Core, path: &str, now_ms: i64) {
    let (kind, flags) = (CreateKind::Create, CreateFlags::PERSISTENT);
    let (data, acl) = (Some("count=9,bytes=9".into()), Some(vec![Acl::open()]));
    let create = MultiOp::Create(Create { kind, path: path.into(), data, acl, flags });
    core.apply(&core.prepare(&Write::Op(create), &requester(1, 1), now_ms));
}

fn set_quota(core: &mut Core, path: &str, now_ms: i64) {
    // The quota of a path below another needs the directory of that one.
    let directory = format!("/zookeeper/quota{path}");
    let limits = format!("{directory}/zookeeper_limits");
    let stats = format!("{directory}/zookeeper_stats");
    for path in ["/zookeeper/quota/a", &directory, &limits, &stats] {
        create(core, path, now_ms);
    }
}

/// The state that a restart makes of a snapshot.
fn restarted(core: &Core) -> Core {
    let frozen = core.freeze();
    let mut restore = Restore::new(core.settings().clone());
    for (session, timeout_ms) in &frozen.sessions() {
        restore.session(*session, *timeout_ms);
    }
    for znode in frozen.znodes() {
        let (path, data) = (znode.path.clone(), znode.data_bytes());
        let acl = znode.acl.entries().map(Into::into);
        restore.znode(path, data, acl, znode.stat).expect("a frozen tree is whole");
    }
    let restored = restore.finish(frozen.zxid).expect("there is a root");
    assert_eq!(restored.core.freeze().len(), frozen.len() + restored.built_ins_added);
    assert_eq!(restored.core.totals().ephemerals, core.totals().ephemerals);
    restored.core
}

fn check(core: &Core) -> Result<(), TestCaseError> {
    core.check().map_err(|disagreements| TestCaseError::fail(disagreements.to_string()))
}

/// A transaction whatever the state is: of sessions that do not exist, below ephemerals, with any
/// counters.
fn any_txn() -> impl Strategy<Value = Txn> {
    // The counters of quotas are certain only in a log that a server has written.
    let path = || select(vec!["/", "/a", "/a/b", "/a/b/c", "/d", "/zookeeper", "/zookeeper/quota"]);
    let path = move || path().prop_map(|path| ZPath::parse(path).expect("the paths are valid"));
    let create = (select(&MODES[..]), path(), acl(), -2..4_i32).prop_map(
        |((kind, flags), path, acl, parent_cversion)| {
            let (data, ephemeral) = (Some(Data::copied(b"x")), flags.is_ephemeral());
            let acl = acl.into();
            TxnOp::Create(CreateTxn { kind, path, data, acl, ephemeral, parent_cversion })
        },
    );
    let set_data = (path(), 0..9_usize).prop_map(|(path, length)| {
        let data = Some(vec![b'y'; length].into());
        TxnOp::SetData { path, data, version: 1 }
    });
    let change = prop_oneof![
        6 => create,
        2 => path().prop_map(|path| TxnOp::Delete { path }),
        1 => set_data,
    ]
    .boxed();
    let op = prop_oneof![
        8 => change.clone(),
        1 => vec(change, 0..4).prop_map(TxnOp::Multi),
        1 => (path(), acl()).prop_map(|(path, acl)| {
            TxnOp::SetAcl { path, acl: acl.into(), version: 1 }
        }),
        1 => vec(path(), 0..3).prop_map(|paths| TxnOp::CloseSession { paths }),
        1 => Just(TxnOp::CreateSession { timeout_ms: 30_000 }),
    ];
    (op, 1..4_i64, 1..99_i64).prop_map(|(op, session, zxid)| Txn {
        session: SessionId(session),
        cxid: Xid(1),
        zxid: Zxid(zxid),
        time_ms: 0,
        op,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn nothing_disagrees_after_any_request_or_restart(steps in vec(step(), 1..STEPS_MAX)) {
        let mut core = filled();
        for (now_ms, step) in (0..).zip(steps) {
            take(&mut core, step, now_ms);
            check(&core)?;
        }
    }

    #[test]
    fn a_late_decision_has_the_effects_of_its_transaction(
        batches in vec(vec((1..3_i64, write()), 1..6), 1..12)
    ) {
        let (mut core, mut other) = (Core::new(Settings::default()), Core::new(Settings::default()));
        for (now_ms, batch) in (0..).zip(batches) {
            for session in [SessionId(1), SessionId(2)] {
                if !core.has_session(session) {
                    let txn = core.prepare_create_session(session, 30_000, now_ms);
                    prop_assert_eq!(core.apply(&txn), other.apply(&txn));
                }
            }
            // All of a batch are decided before the first of them is applied.
            let decide = |(session, write): &(i64, Write)| {
                core.decide(write, &requester(*session, 1), now_ms)
            };
            let batch: Vec<_> = batch.iter().map(decide).collect();
            for decided in batch {
                prop_assert_eq!(core.apply_decided(&decided), other.apply(decided.txn()));
            }
            let (znodes, others) = (core.freeze(), other.freeze());
            prop_assert_eq!(znodes.znodes(), others.znodes());
        }
    }

    #[test]
    fn nothing_disagrees_after_any_transaction(txns in vec(any_txn(), 1..STEPS_MAX)) {
        let mut core = Core::new(Settings::default());
        for txn in txns {
            core.apply(&txn);
            check(&core)?;
        }
        for txn in core.prepare_orphan_removal() {
            core.apply(&txn);
        }
        check(&core)?;
        check(&restarted(&core))?;
    }
}

#[test]
fn the_operations_of_a_multi_see_the_earlier_ones_however_many_they_are() {
    let open = || Some(vec![Acl::open()]);
    let create = |path: &str| {
        let (kind, flags) = (CreateKind::Create, CreateFlags::EPHEMERAL);
        MultiOp::Create(Create { kind, path: path.into(), data: None, acl: open(), flags })
    };
    let set = |path: &str, version: i32| {
        let (data, version) = (Some("x".into()), Expect::from(version));
        MultiOp::SetData(SetData { path: path.into(), data, version })
    };
    let delete =
        |path: &str| MultiOp::Delete(Delete { path: path.into(), version: Expect::from(1) });
    for count in [1, 3, 4, 8, 9, 40] {
        let (mut core, mut other) = (filled(), filled());
        let paths: Vec<_> = (0..count).map(|number| format!("/many/{number}/x")).collect();
        let each = |op: &dyn Fn(&str) -> MultiOp| -> Vec<_> {
            paths.iter().map(|path| op(path)).collect()
        };
        let steps: [Vec<MultiOp>; 4] = [
            // They come, are changed and go, and come again.
            [each(&create), each(&|path| set(path, 0)), each(&delete), each(&create)].concat(),
            // What was looked up is right for the first that goes.
            [each(&|path| set(path, 0)), each(&delete)].concat(),
            paths.iter().flat_map(|path| [create(path), set(path, 0), delete(path)]).collect(),
            vec![create(&paths[0]), set(&paths[0], 0), set(&paths[0], 1)],
        ];
        for ops in steps {
            let write = Write::Multi(ops);
            core.watch(&Watch::Lookup(Lookup::Exists((&*paths[0]).into())), &requester(1, 2));
            other.watch(&Watch::Lookup(Lookup::Exists((&*paths[0]).into())), &requester(1, 2));
            let effects = core.apply_decided(&core.decide(&write, &requester(1, 1), 7));
            assert_eq!(effects, other.apply(&other.prepare(&write, &requester(1, 1), 7)));
            let Ok(Response::Multi(results)) = effects.reply else { panic!("a multi has results") };
            assert!(!results.iter().any(|result| matches!(result, MultiResult::Error(_))));
            assert_eq!(core.freeze().znodes(), other.freeze().znodes());
            assert!(core.check().is_ok());
        }
        let refused = Write::Multi([each(&create), each(&|path| set(path, 1))].concat());
        let effects = core.apply_decided(&core.decide(&refused, &requester(1, 1), 7));
        assert_eq!(effects, other.apply(&other.prepare(&refused, &requester(1, 1), 7)));
        assert_eq!(core.freeze().znodes(), other.freeze().znodes());
    }
}
