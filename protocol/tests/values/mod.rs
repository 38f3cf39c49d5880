//! Strategies for values of every type that can be encoded.

use bytes::Bytes;
use bytestring::ByteString;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zoolet_protocol::{
    Acl, AddWatch, Auth, Check, CheckWatches, ClientInfo, ConnectRequest, ConnectResponse, Create,
    CreateFlags, CreateKind, Delete, ErrorCode, EventType, Expect, Id, KeeperState, Lookup,
    MultiOp, MultiReadOp, MultiResult, Names, OpCode, Password, Permissions, RawPath, Read,
    Reconfig, RemoveWatches, ReplyHeader, Request, RequestHeader, Response, SessionId,
    SessionRequest, SetAcl, SetData, SetWatches, Stat, Watch, WatchMode, WatchedEvent, WatcherType,
    Write, Xid, Zxid,
};

/// The operations that a client may send: all that have a name, except the codes that have another
/// meaning in logs and multis.
pub(crate) fn operations() -> Vec<OpCode> {
    let others = [OpCode::NOTIFICATION, OpCode::ERROR, OpCode::CREATE_SESSION];
    let named = (-1_000..1_000).map(OpCode).filter(|op| op.name().is_some());
    named.filter(|op| !others.contains(op)).collect()
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    proptest::sample::select(operations()).prop_flat_map(request_of)
}

/// Requests for one of the [`operations`].
pub(crate) fn request_of(op: OpCode) -> BoxedStrategy<Request> {
    match op {
        OpCode::EXISTS => lookup(Lookup::Exists),
        OpCode::GET_DATA => lookup(Lookup::GetData),
        OpCode::GET_CHILDREN => lookup(Lookup::GetChildren),
        OpCode::GET_CHILDREN2 => lookup(Lookup::GetChildren2),
        OpCode::GET_ACL => read(path(), Read::GetAcl),
        OpCode::SYNC => read(path(), Read::Sync),
        OpCode::GET_EPHEMERALS => read(path(), Read::GetEphemerals),
        OpCode::GET_ALL_CHILDREN_NUMBER => read(path(), Read::GetAllChildrenNumber),
        OpCode::CHECK_WATCHES => read(check_watches(), Read::CheckWatches),
        OpCode::MULTI_READ => read(vec(multi_read_op(), 0..5), Read::MultiRead),
        OpCode::ADD_WATCH => watch(add_watch(), Watch::Add),
        OpCode::REMOVE_WATCHES => watch(remove_watches(), Watch::Remove),
        OpCode::SET_WATCHES => watch(set_watches_short(), Watch::Set),
        OpCode::SET_WATCHES2 => watch(set_watches(), Watch::Set2),
        OpCode::SET_ACL => write(set_acl(), Write::SetAcl),
        OpCode::DELETE_CONTAINER => write(path(), Write::DeleteContainer),
        OpCode::MULTI => write(vec(multi_op(), 0..5), Write::Multi),
        OpCode::RECONFIG => write(reconfig(), Write::Reconfig),
        OpCode::CLOSE_SESSION => Just(Request::Write(Write::CloseSession)).boxed(),
        OpCode::PING => Just(Request::Session(SessionRequest::Ping)).boxed(),
        OpCode::WHO_AM_I => Just(Request::Session(SessionRequest::WhoAmI)).boxed(),
        OpCode::AUTH => {
            auth().prop_map(|auth| Request::Session(SessionRequest::Auth(auth))).boxed()
        }
        OpCode::SASL => {
            data().prop_map(|token| Request::Session(SessionRequest::Sasl(token))).boxed()
        }
        _ => write(multi_op_of(op), Write::Op),
    }
}

/// Requests for operations that have no name.
pub(crate) fn unknown_request() -> impl Strategy<Value = Request> {
    let op = any::<i32>()
        .prop_map(OpCode)
        .prop_filter("a code without a name", |op| op.name().is_none());
    (op, bytes()).prop_map(|(op, body)| Request::Unknown { op, body })
}

fn lookup(wrap: fn(RawPath) -> Lookup) -> BoxedStrategy<Request> {
    let request = move |(path, watches)| match watches {
        true => Request::Watch(Watch::Lookup(wrap(path))),
        false => Request::Read(Read::Lookup(wrap(path))),
    };
    (path(), any::<bool>()).prop_map(request).boxed()
}

fn read<T: 'static>(body: impl Strategy<Value = T> + 'static, wrap: fn(T) -> Read) -> Requests {
    body.prop_map(move |body| Request::Read(wrap(body))).boxed()
}

fn watch<T: 'static>(body: impl Strategy<Value = T> + 'static, wrap: fn(T) -> Watch) -> Requests {
    body.prop_map(move |body| Request::Watch(wrap(body))).boxed()
}

fn write<T: 'static>(body: impl Strategy<Value = T> + 'static, wrap: fn(T) -> Write) -> Requests {
    body.prop_map(move |body| Request::Write(wrap(body))).boxed()
}

type Requests = BoxedStrategy<Request>;

/// Replies without an error to one of the [`operations`].
pub(crate) fn response_of(op: OpCode) -> BoxedStrategy<Response> {
    match op {
        OpCode::CREATE | OpCode::SYNC => path().prop_map(Response::Path).boxed(),
        OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
            (text(), stat()).prop_map(|(path, stat)| Response::PathStat(path, stat)).boxed()
        }
        OpCode::EXISTS | OpCode::SET_DATA | OpCode::SET_ACL => {
            stat().prop_map(Response::Stat).boxed()
        }
        OpCode::GET_DATA | OpCode::RECONFIG => {
            (data(), stat()).prop_map(|(data, stat)| Response::Data(data, stat)).boxed()
        }
        OpCode::GET_ACL => (acls(), stat()).prop_map(|(a, stat)| Response::Acl(a, stat)).boxed(),
        OpCode::GET_CHILDREN | OpCode::GET_EPHEMERALS => names().prop_map(Response::Names).boxed(),
        OpCode::GET_CHILDREN2 => {
            (names(), stat()).prop_map(|(names, stat)| Response::NamesStat(names, stat)).boxed()
        }
        OpCode::MULTI | OpCode::MULTI_READ => {
            vec(multi_result(), 0..5).prop_map(Response::Multi).boxed()
        }
        OpCode::ADD_WATCH | OpCode::GET_ALL_CHILDREN_NUMBER => {
            any::<i32>().prop_map(Response::Number).boxed()
        }
        OpCode::WHO_AM_I => vec(client_info(), 0..4).prop_map(Response::WhoAmI).boxed(),
        OpCode::SASL => data().prop_map(Response::Token).boxed(),
        _ => Just(Response::Empty).boxed(),
    }
}

// The handshake.

prop_compose! {
    pub(crate) fn connect_request()(
        protocol_version in any::<i32>(),
        last_zxid_seen in zxid(),
        timeout_ms in any::<i32>(),
        session in session(),
        password in password(),
        read_only in option::of(any::<bool>()),
    ) -> ConnectRequest {
        ConnectRequest {
            protocol_version, last_zxid_seen, timeout_ms, session, password, read_only,
        }
    }
}

prop_compose! {
    pub(crate) fn connect_response()(
        protocol_version in any::<i32>(),
        timeout_ms in any::<i32>(),
        session in session(),
        password in password(),
        read_only in option::of(any::<bool>()),
    ) -> ConnectResponse {
        ConnectResponse { protocol_version, timeout_ms, session, password, read_only }
    }
}

pub(crate) fn password() -> impl Strategy<Value = Password> {
    option::weighted(0.9, bytes())
        .prop_map(|bytes| bytes.map_or(Password::NULL, Password::from_bytes))
}

// Headers and events.

pub(crate) fn request_header() -> impl Strategy<Value = RequestHeader> {
    (xid(), any::<i32>()).prop_map(|(xid, op)| RequestHeader { xid, op: OpCode(op) })
}

pub(crate) fn reply_header() -> impl Strategy<Value = ReplyHeader> {
    (xid(), zxid(), any::<i32>()).prop_map(|(xid, zxid, err)| ReplyHeader {
        xid,
        zxid,
        err: ErrorCode(err),
    })
}

pub(crate) fn event() -> impl Strategy<Value = WatchedEvent> {
    (any::<i32>(), any::<i32>(), path()).prop_map(|(event_type, state, path)| WatchedEvent {
        event_type: EventType(event_type),
        state: KeeperState(state),
        path,
    })
}

// The bodies of the single operations.

prop_compose! {
    fn create_as(kind: CreateKind)(
        path in path(),
        data in data(),
        acl in acls(),
        flags in prop_oneof![0..=6i32, any::<i32>()],
    ) -> Create {
        Create { kind, path, data, acl, flags: CreateFlags(flags) }
    }
}

pub(crate) fn delete() -> impl Strategy<Value = Delete> {
    (path(), expect()).prop_map(|(path, version)| Delete { path, version })
}

pub(crate) fn set_data() -> impl Strategy<Value = SetData> {
    (path(), data(), expect()).prop_map(|(path, data, version)| SetData { path, data, version })
}

pub(crate) fn check() -> impl Strategy<Value = Check> {
    (path(), expect()).prop_map(|(path, version)| Check { path, version })
}

pub(crate) fn set_acl() -> impl Strategy<Value = SetAcl> {
    (path(), acls(), expect()).prop_map(|(path, acl, version)| SetAcl { path, acl, version })
}

prop_compose! {
    pub(crate) fn reconfig()(
        joining in option::of(text()),
        leaving in option::of(text()),
        new_members in option::of(text()),
        current_config in any::<i64>(),
    ) -> Reconfig {
        Reconfig { joining, leaving, new_members, current_config }
    }
}

pub(crate) fn add_watch() -> impl Strategy<Value = AddWatch> {
    (path(), any::<i32>()).prop_map(|(path, mode)| AddWatch { path, mode: WatchMode(mode) })
}

pub(crate) fn remove_watches() -> impl Strategy<Value = RemoveWatches> {
    (path(), any::<i32>())
        .prop_map(|(path, kind)| RemoveWatches { path, watcher_type: WatcherType(kind) })
}

pub(crate) fn check_watches() -> impl Strategy<Value = CheckWatches> {
    (path(), any::<i32>())
        .prop_map(|(path, kind)| CheckWatches { path, watcher_type: WatcherType(kind) })
}

prop_compose! {
    pub(crate) fn set_watches()(
        relative_zxid in zxid(),
        data in names(),
        exist in names(),
        child in names(),
        persistent in names(),
        persistent_recursive in names(),
    ) -> SetWatches {
        SetWatches { relative_zxid, data, exist, child, persistent, persistent_recursive }
    }
}

/// A `setWatches`, which has no lists of persistent watches.
fn set_watches_short() -> impl Strategy<Value = SetWatches> {
    set_watches().prop_map(|lists| SetWatches {
        persistent: Names::EMPTY,
        persistent_recursive: Names::EMPTY,
        ..lists
    })
}

pub(crate) fn auth() -> impl Strategy<Value = Auth> {
    (any::<i32>(), option::of(text()), data()).prop_map(|(auth_type, scheme, auth)| Auth {
        auth_type,
        scheme,
        auth,
    })
}

// Multis.

fn multi_op() -> impl Strategy<Value = MultiOp> {
    const OPS: &[OpCode] = &[
        OpCode::CREATE,
        OpCode::CREATE2,
        OpCode::CREATE_CONTAINER,
        OpCode::CREATE_TTL,
        OpCode::DELETE,
        OpCode::SET_DATA,
        OpCode::CHECK,
    ];
    proptest::sample::select(OPS).prop_flat_map(multi_op_of)
}

fn multi_op_of(op: OpCode) -> BoxedStrategy<MultiOp> {
    let kind = match op {
        OpCode::CREATE => Just(CreateKind::Create).boxed(),
        OpCode::CREATE2 => Just(CreateKind::Create2).boxed(),
        OpCode::CREATE_CONTAINER => Just(CreateKind::Container).boxed(),
        OpCode::CREATE_TTL => any::<i64>().prop_map(|ttl_ms| CreateKind::Ttl { ttl_ms }).boxed(),
        OpCode::DELETE => return delete().prop_map(MultiOp::Delete).boxed(),
        OpCode::SET_DATA => return set_data().prop_map(MultiOp::SetData).boxed(),
        OpCode::CHECK => return check().prop_map(MultiOp::Check).boxed(),
        _ => panic!("there are no strategies for {op}"),
    };
    kind.prop_flat_map(create_as).prop_map(MultiOp::Create).boxed()
}

fn multi_read_op() -> impl Strategy<Value = MultiReadOp> {
    prop_oneof![path().prop_map(MultiReadOp::GetData), path().prop_map(MultiReadOp::GetChildren),]
}

fn multi_result() -> impl Strategy<Value = MultiResult> {
    prop_oneof![
        text().prop_map(MultiResult::Create),
        (text(), stat()).prop_map(|(path, stat)| MultiResult::Create2(path, stat)),
        Just(MultiResult::Delete),
        stat().prop_map(MultiResult::SetData),
        Just(MultiResult::Check),
        names().prop_map(MultiResult::Children),
        (data(), stat()).prop_map(|(data, stat)| MultiResult::Data(data, stat)),
        any::<i32>().prop_map(|code| MultiResult::Error(ErrorCode(code))),
    ]
}

// Parts.

prop_compose! {
    pub(crate) fn stat()(
        (czxid, mzxid, pzxid) in (zxid(), zxid(), zxid()),
        (ctime, mtime) in any::<(i64, i64)>(),
        (version, cversion, aversion) in any::<(i32, i32, i32)>(),
        ephemeral_owner in session(),
        (data_length, num_children) in any::<(i32, i32)>(),
    ) -> Stat {
        Stat {
            czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, data_length,
            num_children, pzxid,
        }
    }
}

pub(crate) fn client_info() -> impl Strategy<Value = ClientInfo> {
    (option::of(text()), option::of(text())).prop_map(|(scheme, user)| ClientInfo { scheme, user })
}

pub(crate) fn id() -> impl Strategy<Value = Id> {
    (option::of(text()), option::of(text())).prop_map(|(scheme, id)| Id { scheme, id })
}

pub(crate) fn acl() -> impl Strategy<Value = Acl> {
    let permissions = any::<i32>().prop_map(Permissions);
    (permissions, id()).prop_map(|(permissions, id)| Acl { permissions, id })
}

pub(crate) fn acls() -> impl Strategy<Value = Option<Vec<Acl>>> {
    option::weighted(0.9, vec(acl(), 0..4))
}

pub(crate) fn names() -> impl Strategy<Value = Names> {
    let some = vec(text(), 0..4).prop_map(|names| names.iter().map(|name| &**name).collect());
    option::weighted(0.9, some).prop_map(|names| names.unwrap_or(Names::NULL))
}

pub(crate) fn path() -> impl Strategy<Value = RawPath> {
    option::weighted(0.9, text()).prop_map(RawPath::from)
}

/// Any version except `Exactly(-1)`, which cannot be encoded: -1 means any version.
pub(crate) fn expect() -> impl Strategy<Value = Expect> {
    let exactly = any::<i32>().prop_filter("not -1", |version| *version != -1);
    prop_oneof![Just(Expect::Any), exactly.prop_map(Expect::Exactly)]
}

pub(crate) fn xid() -> impl Strategy<Value = Xid> {
    prop_oneof![-8..8, any::<i32>()].prop_map(Xid)
}

pub(crate) fn zxid() -> impl Strategy<Value = Zxid> {
    any::<i64>().prop_map(Zxid)
}

pub(crate) fn session() -> impl Strategy<Value = SessionId> {
    prop_oneof![Just(0), any::<i64>()].prop_map(SessionId)
}

pub(crate) fn text() -> impl Strategy<Value = ByteString> {
    prop_oneof!["[/a-c]{0,6}", "\\PC{0,4}", any::<char>().prop_map(String::from)]
        .prop_map(ByteString::from)
}

/// A buffer, or null.
pub(crate) fn data() -> impl Strategy<Value = Option<Bytes>> {
    option::weighted(0.8, bytes())
}

pub(crate) fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}
