//! A plain write is decided, and a plain read is answered, as any other request: with every path, mode, version
//! and list, and after 2^31 - 1 children.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use zoolet_core::{ConnectionId, Core, CreateTxn, Data, Effects, Requester, Settings, Txn, TxnOp};
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, Id, Lookup, MultiOp, Permissions, PlainWrite,
    Read, Request, Response, SessionId, SetData, Watch, Write, Xid, ZPath, decode_request,
    encode_request,
};

/// Paths of znodes that are there from the beginning, paths that none may have, and the server's own.
const PATHS: [&str; 40] = [
    "/",
    "",
    "a",
    "/a",
    "/a/",
    "//a",
    "/a//b",
    "/a/b",
    "/a/b/c",
    "/a/.",
    "/a/..",
    "/./a",
    "/a/b.",
    "/a\0",
    "/\0/a",
    "/a/\0",
    "\0",
    "/a/\u{1}",
    "/\u{7f}",
    "/\u{ffff}",
    "/\u{e000}",
    "/\u{fffd}",
    "/\u{1f600}",
    "/ä",
    "/a/ä-",
    "/full/n-",
    "/full",
    "/none/a",
    "/eph",
    "/eph/a",
    "/eph/",
    "/closed/a",
    "/closed",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/quota",
    "/zookeeper/quota/a",
    "/zookeeper/quota/zookeeper_stats",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
];

/// The bytes of a frame before the path of a write: its header, and the length of the path.
const BEFORE_PATH: usize = 12;

/// Where the path of a request is not in UTF-8, if it is not.
fn malformed_byte() -> impl Strategy<Value = Option<usize>> {
    prop::option::weighted(0.2, 0_usize..8)
}

fn requester() -> Requester {
    Requester::new(SessionId(1), ConnectionId(1), Xid(1))
}

fn txn(core: &Core, op: TxnOp) -> Txn {
    Txn { session: SessionId(1), cxid: Xid(1), zxid: core.last_zxid().next(), time_ms: 1, op }
}

fn create_at(core: &mut Core, path: &str, flags: CreateFlags, parent_cversion: i32) {
    let create = CreateTxn {
        kind: CreateKind::Create,
        path: ZPath::parse(path).expect("it is valid"),
        data: Some(Data::copied(b"x")),
        acl: vec![Acl::open()].into(),
        ephemeral: flags.is_ephemeral(),
        parent_cversion,
    };
    let txn = txn(core, TxnOp::Create(create));
    core.apply(&txn);
}

/// A state with an ephemeral, a closed znode, and a parent that has had almost as many children as can be.
fn filled(settings: Settings) -> Core {
    let mut core = Core::new(settings);
    core.apply(&core.prepare_create_session(SessionId(1), 30_000, 0));
    create_at(&mut core, "/full", CreateFlags::PERSISTENT, 1);
    create_at(&mut core, "/closed", CreateFlags::PERSISTENT, 2);
    create_at(&mut core, "/eph", CreateFlags::EPHEMERAL, 3);
    create_at(&mut core, "/full/first", CreateFlags::PERSISTENT, i32::MAX - 2);
    let acl = vec![Acl { permissions: Permissions::ALL, id: Id::new("digest", "ann:x") }].into();
    let path = ZPath::parse("/closed").expect("it is valid");
    let txn = txn(&core, TxnOp::SetAcl { path, acl, version: 1 });
    core.apply(&txn);
    core
}

fn operation() -> impl Strategy<Value = MultiOp> {
    let data = || {
        select(vec![
            None,
            Some(Bytes::new()),
            Some("count=1,bytes=1".into()),
            Some(vec![7; 700].into()),
        ])
    };
    let version = || select(vec![-1, -1, -1, 0, 1, -2, i32::MIN, i32::MAX]);
    let kind = select(vec![CreateKind::Create, CreateKind::Create2]);
    let everyone = select(vec![31, 31, 31, 1, 0, 32, 16, -1, i32::MIN]);
    prop_oneof![
        6 => (kind, select(&PATHS[..]), data(), everyone, prop_oneof![8 => 0..4_i32, 1 => -2..9_i32]).prop_map(
            |(kind, path, data, everyone, flags)| {
                let acl = Some(vec![Acl::open().with_permissions(Permissions(everyone))]);
                MultiOp::Create(Create { kind, path: path.into(), data, acl, flags: CreateFlags(flags) })
            }
        ),
        2 => (select(&PATHS[..]), version())
            .prop_map(|(path, version)| MultiOp::Delete(Delete { path: path.into(), version: version.into() })),
        2 => (select(&PATHS[..]), data(), version()).prop_map(|(path, data, version)| {
            MultiOp::SetData(SetData { path: path.into(), data, version: version.into() })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_plain_write_is_decided_and_carried_out_as_any_other(
        enforce_quota: bool,
        skip_acl: bool,
        ops in vec((operation(), malformed_byte()), 1..60),
    ) {
        let settings = Settings { enforce_quota, skip_acl, ..Settings::default() };
        let (mut core, mut other) = (filled(settings.clone()), filled(settings));
        for (time_ms, (op, malformed)) in (0..).zip(ops) {
            let is_create = matches!(op, MultiOp::Create(_));
            let path_bytes = op.path().text().map_or(0, str::len);
            let mut frame = encode_request(Xid(1), &Request::Write(Write::Op(op))).to_vec();
            let malformed = malformed.filter(|at| *at < path_bytes);
            if let Some(at) = malformed {
                // No text in UTF-8 has this byte.
                frame[BEFORE_PATH + at] = 0xff;
            }
            let frame = Bytes::from(frame);
            let Ok((_, Ok(Request::Write(write)))) = decode_request(&frame) else {
                panic!("it was encoded");
            };
            let Some(plain) = PlainWrite::decode(&frame) else {
                prop_assert!(is_create && malformed.is_some(), "any other is plain");
                continue;
            };
            for core in [&mut core, &mut other] {
                for path in PATHS {
                    // Some paths are invalid.
                    let _ = core.watch(&Watch::Lookup(Lookup::Exists(path.into())), &requester());
                }
            }
            let mut plain = core.decide_plain(&plain, &requester(), time_ms);
            let decided = core.decide(&write, &requester(), time_ms);
            prop_assert_eq!(&plain, &decided);
            let Effects { zxid, reply, events, ended } = core.apply_plain(&mut plain);
            let reply = reply.map(Response::from);
            prop_assert_eq!(Effects { zxid, reply, events, ended }, other.apply_decided(&decided));
            core.check().map_err(|all| TestCaseError::fail(all.to_string()))?;
            for path in PATHS {
                let lookup = Lookup::GetData(path.into());
                let general = core.read(&Read::Lookup(lookup), &requester());
                if let Some((_, data, stat)) = core.plain_reader(&requester()).data(path.as_bytes()) {
                    let data = data.map(|data| Bytes::copy_from_slice(data));
                    prop_assert_eq!(general, Ok(Response::Data(data, stat)));
                } else {
                    prop_assert!(general.is_err(), "{}", path);
                }
            }
        }
    }
}
