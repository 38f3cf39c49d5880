//! Decodes every frame that was recorded between real clients and a real server, and encodes it to
//! the same bytes again. Also checks that the recordings contain every operation that they should
//! contain.
//!
//! `golden/README.md` tells how the recordings were made, and describes their format.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{Debug, Display};
use std::fs;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, Encode, ErrorCode, Incoming, MultiOp, MultiReadOp,
    MultiResult, OpCode, Password, Read, ReplyHeader, Request, RequestHeader, Response, Write, Xid,
    decode_all, decode_incoming, decode_request, encode_event, encode_reply, encode_request,
};

#[test]
fn recorded_frames_are_decoded_and_encode_to_the_same_bytes() {
    let seen = follow_all();
    assert!(seen.frames > 1_300, "only {} frames were followed", seen.frames);
}

#[test]
fn the_recordings_contain_everything_expected() {
    let seen = follow_all();
    for (kind, expected) in EXPECTED {
        let expected = expected.iter().map(ToString::to_string).collect();
        assert_eq!(seen.kinds.get(kind), Some(&expected), "{kind}");
    }
    assert_eq!(seen.kinds.len(), EXPECTED.len());
}

#[test]
fn only_the_listed_frames_encode_to_other_bytes() {
    let listed = ENCODED_OTHERWISE.iter().map(|(recording, note, _)| (*recording, *note));
    assert_eq!(follow_all().encoded_otherwise, listed.collect());
}

/// Steps with a frame that can be encoded in two ways, and why our bytes differ.
const ENCODED_OTHERWISE: &[(&str, &str, &str)] = &[
    ("raw-connect", "bytes after the last field", "they are ignored"),
    ("raw-tolerated", "a boolean of two", "true is written as one"),
    ("raw-tolerated", "bytes after the last field", "they are ignored"),
    ("raw-tolerated", "a vector of negative length", "an empty one is written with the length 0"),
    ("raw-tolerated", "a path which is not UTF-8", "what is not UTF-8 was replaced"),
    ("raw-tolerated", "a multi whose headers carry no error", "clients write -1, and so do we"),
    ("raw-tolerated", "bytes after the end of a multi", "they are ignored"),
    ("raw-tolerated", "a multi which reads, with a watch", "ZooKeeper ignores the flag there"),
    (
        "java-text",
        "an identity beyond the basic plane: the client sends two surrogates",
        "surrogates are not UTF-8 and were replaced, if by more characters than Java takes",
    ),
    ("raw-text", "the server answers with two surrogates", "they were replaced likewise"),
    ("raw-text", "sync hands any path back", "they were replaced likewise"),
];

/// The expected contents of the recordings, by kind.
const EXPECTED: &[(&str, &[&str])] = &[
    (
        "connect request",
        &[
            "for a new session",
            "for an old session",
            "null password",
            "read_only None",
            "read_only Some(false)",
            "read_only Some(true)",
        ],
    ),
    ("connect response", &["granted", "read_only None", "read_only Some(false)", "refused"]),
    (
        "request",
        &[
            "OpCode(10)",
            "OpCode(999)",
            "addWatch",
            "auth",
            "check",
            "checkWatches",
            "closeSession",
            "create",
            "create2",
            "createContainer",
            "createTTL",
            "delete",
            "deleteContainer",
            "error",
            "exists",
            "getACL",
            "getAllChildrenNumber",
            "getChildren",
            "getChildren2",
            "getData",
            "getEphemerals",
            "multi",
            "multiRead",
            "notification",
            "ping",
            "reconfig",
            "removeWatches",
            "sasl",
            "setACL",
            "setData",
            "setWatches",
            "setWatches2",
            "sync",
            "whoAmI",
        ],
    ),
    (
        "request which sets a watch",
        &[
            "addWatch",
            "exists",
            "getChildren",
            "getChildren2",
            "getData",
            "setWatches",
            "setWatches2",
        ],
    ),
    (
        "request which is not understood",
        &["getData", "multi", "multiRead", "setData", "setWatches"],
    ),
    (
        "answer",
        &[
            "addWatch: Number",
            "auth: Empty",
            "checkWatches: Empty",
            "closeSession: Empty",
            "create: Path",
            "create2: PathStat",
            "createContainer: PathStat",
            "createTTL: PathStat",
            "delete: Empty",
            "exists: Stat",
            "getACL: Acl",
            "getAllChildrenNumber: Number",
            "getChildren: Names",
            "getChildren2: NamesStat",
            "getData: Data",
            "getEphemerals: Names",
            "multi: Multi",
            "multiRead: Multi",
            "ping: Empty",
            "removeWatches: Empty",
            "sasl: Token",
            "setACL: Stat",
            "setData: Stat",
            "setWatches: Empty",
            "setWatches2: Empty",
            "sync: Path",
            "whoAmI: WhoAmI",
        ],
    ),
    (
        "error",
        &[
            "AuthFailed",
            "BadArguments",
            "BadVersion",
            "InvalidACL",
            "MarshallingError",
            "NoAuth",
            "NoChildrenForEphemerals",
            "NoNode",
            "NoWatcher",
            "NodeExists",
            "NotEmpty",
            "QuotaExceeded",
            "ReconfigDisabled",
            "SessionClosedRequireSaslAuth",
            "Unimplemented",
        ],
    ),
    ("event", &["NodeChildrenChanged", "NodeCreated", "NodeDataChanged", "NodeDeleted"]),
    (
        "operation in a multi",
        &[
            "check",
            "create",
            "create2",
            "createContainer",
            "createTTL",
            "delete",
            "getChildren",
            "getData",
            "setData",
        ],
    ),
    (
        "result in a multi",
        &["check", "create", "create2", "delete", "error", "getChildren", "getData", "setData"],
    ),
    ("data", &["empty", "null", "some"]),
];

/// What was found in the recordings.
#[derive(Default)]
struct Seen {
    frames: usize,
    kinds: BTreeMap<&'static str, BTreeSet<String>>,
    encoded_otherwise: BTreeSet<(&'static str, &'static str)>,
}

impl Seen {
    fn mark(&mut self, kind: &'static str, what: impl Display) {
        self.kinds.entry(kind).or_default().insert(what.to_string());
    }
}

fn follow_all() -> Seen {
    let mut seen = Seen::default();
    for (name, text) in recordings() {
        let mut follower =
            Follower { recording: &name, note: "", connections: BTreeMap::new(), seen: &mut seen };
        text.lines().for_each(|line| follower.line(line));
        follower.end();
    }
    seen
}

/// The recordings, by name.
fn recordings() -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = fs::read_dir(directory).expect("the recordings are there");
    let paths = files.map(|entry| entry.expect("a directory entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "frames"))
        .map(|path| {
            let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("a text"))
        })
        .collect()
}

/// Reads one recording from top to bottom.
struct Follower<'a> {
    recording: &'a str,
    /// The step that the frames belong to.
    note: &'a str,
    connections: BTreeMap<u32, Connection>,
    seen: &'a mut Seen,
}

/// The state of a connection.
#[derive(Default)]
struct Connection {
    is_greeted: bool,
    is_answered: bool,
    /// The requests that have no reply yet.
    pending: VecDeque<Pending>,
}

struct Pending {
    header: RequestHeader,
    /// Whether its body could be decoded.
    is_understood: bool,
}

impl<'a> Follower<'a> {
    fn line(&mut self, line: &'a str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", number, _, "by", "the", _] if number.starts_with('(') => {
                let number = number[1..].parse().expect("a number");
                self.disconnected(number, line.ends_with("cut by the proxy)"));
            }
            ["#", ..] => self.note = line[1..].trim(),
            [arrow @ (">" | "<"), number, hex] => {
                self.seen.frames += 1;
                self.frame(arrow == ">", number.parse().expect("a number"), &unhex(hex));
            }
            _ => panic!("{}: {line}", self.recording),
        }
    }

    fn frame(&mut self, is_from_client: bool, number: u32, frame: &Bytes) {
        let mut connection = self.connections.remove(&number).unwrap_or_default();
        if is_from_client && !connection.is_greeted {
            connection.is_greeted = true;
            self.connect_request(frame);
        } else if is_from_client {
            connection.pending.push_back(self.request(frame));
        } else if !connection.is_answered {
            connection.is_answered = true;
            self.connect_response(frame);
        } else {
            self.incoming(frame, &mut connection.pending);
        }
        self.connections.insert(number, connection);
    }

    fn connect_request(&mut self, frame: &Bytes) {
        let request: ConnectRequest =
            self.round_trip(frame, |frame| decode_all(frame).expect("a request"), encoded);
        let session = if request.session.is_none() { "a new" } else { "an old" };
        self.seen.mark("connect request", format_args!("for {session} session"));
        self.seen.mark("connect request", format_args!("read_only {:?}", request.read_only));
        if request.password == Password::NULL {
            self.seen.mark("connect request", "null password");
        }
    }

    fn connect_response(&mut self, frame: &Bytes) {
        let response: ConnectResponse =
            self.round_trip(frame, |frame| decode_all(frame).expect("a response"), encoded);
        self.seen.mark("connect response", format_args!("read_only {:?}", response.read_only));
        if response.is_refused() {
            assert_eq!(response, ConnectResponse::refused(response.read_only));
            self.seen.mark("connect response", "refused");
        } else {
            assert_eq!(response.password, Password::of(response.session));
            self.seen.mark("connect response", "granted");
        }
    }

    fn request(&mut self, frame: &Bytes) -> Pending {
        let (header, body) = decode_request(frame).expect("a header");
        if body.is_err() {
            self.seen.mark("request which is not understood", header.op);
            return Pending { header, is_understood: false };
        }
        let decode = |frame: &Bytes| {
            let (header, body) = decode_request(frame).expect("a header");
            (header.xid, body.expect("a body"))
        };
        let (_, request) =
            self.round_trip(frame, decode, |(xid, request)| encode_request(*xid, request));
        assert_eq!(header.op, request.op_code());
        self.mark_request(&request);
        Pending { header, is_understood: true }
    }

    fn mark_request(&mut self, request: &Request) {
        if let Request::Unknown { op, .. } = request {
            let is_no_request = matches!(*op, OpCode::NOTIFICATION | OpCode::ERROR);
            assert!(op.name().is_none() || is_no_request, "{}: {op} is unknown", self.at());
        }
        self.seen.mark("request", request.op_code());
        match request {
            Request::Watch(watch) if watch.op_code() != OpCode::REMOVE_WATCHES => {
                self.seen.mark("request which sets a watch", watch.op_code());
            }
            Request::Write(Write::Multi(ops)) => {
                let codes = ops.iter().map(MultiOp::op_code);
                codes.for_each(|op| self.seen.mark("operation in a multi", op));
            }
            Request::Read(Read::MultiRead(reads)) => {
                let codes = reads.iter().map(MultiReadOp::op_code);
                codes.for_each(|op| self.seen.mark("operation in a multi", op));
            }
            _ => {}
        }
    }

    fn incoming(&mut self, frame: &Bytes, pending: &mut VecDeque<Pending>) {
        match decode_incoming(frame).expect("a frame from a server") {
            Incoming::Event { event, .. } => {
                self.event(frame);
                self.seen.mark("event", event.event_type);
            }
            Incoming::Reply { header, .. } => {
                let request = self.answered_by(header, pending);
                let response = self.reply(frame, request.header.op);
                self.mark_reply(&request, header.err, &response);
            }
        }
    }

    fn event(&mut self, frame: &Bytes) {
        let decode = |frame: &Bytes| {
            let Ok(Incoming::Event { zxid, event }) = decode_incoming(frame) else {
                panic!("an event")
            };
            (zxid, event)
        };
        self.round_trip(frame, decode, |(zxid, event)| encode_event(*zxid, event));
    }

    /// Takes the request to which a reply belongs. Replies come in the order of the requests,
    /// except those to `auth` and `sasl`, which may overtake others.
    fn answered_by(&self, reply: ReplyHeader, pending: &mut VecDeque<Pending>) -> Pending {
        let is_meant = |request: &Pending| match request.header.op {
            OpCode::PING => reply.xid == Xid::PING,
            _ => request.header.xid == reply.xid,
        };
        let place = pending.iter().position(is_meant);
        let place =
            place.unwrap_or_else(|| panic!("{}: no request belongs to {reply:?}", self.at()));
        let request = pending.remove(place).expect("it was found there");
        let is_inline = |op| matches!(op, OpCode::AUTH | OpCode::SASL);
        assert!(
            is_inline(request.header.op)
                || pending.iter().take(place).all(|earlier| is_inline(earlier.header.op)),
            "{}: {reply:?} overtakes",
            self.at(),
        );
        request
    }

    fn reply(&mut self, frame: &Bytes, op: OpCode) -> Response {
        let decode = |frame: &Bytes| {
            let Ok(Incoming::Reply { header, body }) = decode_incoming(frame) else {
                panic!("a reply")
            };
            let response = if header.err.is_ok() {
                Response::decode(op, &body)
            } else {
                Response::decode_error(op, &body)
            };
            (header, response.expect("a body that answers the request"))
        };
        let encode = |(header, response): &(ReplyHeader, Response)| {
            let mut out = BytesMut::new();
            encode_reply(header, response, &mut out);
            out.freeze()
        };
        self.round_trip(frame, decode, encode).1
    }

    fn mark_reply(&mut self, request: &Pending, err: ErrorCode, response: &Response) {
        assert!(
            request.is_understood || err == ErrorCode::MARSHALLING_ERROR,
            "{}: the server understood the request",
            self.at(),
        );
        if err.is_ok() {
            let shape = shape(response);
            self.seen.mark("answer", format_args!("{}: {shape}", request.header.op));
        } else {
            self.seen.mark("error", err);
        }
        match response {
            Response::Multi(results) => {
                let codes = results.iter().map(MultiResult::op_code);
                codes.for_each(|op| self.seen.mark("result in a multi", op));
            }
            Response::Data(None, _) => self.seen.mark("data", "null"),
            Response::Data(Some(data), _) => {
                self.seen.mark("data", if data.is_empty() { "empty" } else { "some" });
            }
            _ => {}
        }
    }

    /// Decodes a frame and encodes it again. The bytes must be the same, unless the step is listed
    /// in [`ENCODED_OTHERWISE`]; then at least the value must be the same.
    fn round_trip<T: PartialEq + Debug>(
        &mut self,
        frame: &Bytes,
        decode: impl Fn(&Bytes) -> T,
        encode: impl Fn(&T) -> Bytes,
    ) -> T {
        let value = decode(frame);
        let encoded = encode(&value);
        if encoded != *frame {
            let mut listed =
                ENCODED_OTHERWISE.iter().map(|(recording, note, _)| (*recording, *note));
            let Some(step) = listed.find(|step| *step == (self.recording, self.note)) else {
                panic!("{}: {value:?}\n read {frame:x}\nwrote {encoded:x}", self.at());
            };
            self.seen.encoded_otherwise.insert(step);
            assert_eq!(decode(&encoded), value, "{}", self.at());
        }
        value
    }

    /// A connection was closed. It must have all its replies.
    fn disconnected(&mut self, number: u32, is_cut: bool) {
        let connection = self.connections.remove(&number).expect("a connection that was open");
        // The server closes the connection for a `check` outside of a multi.
        let unanswered = |request: &Pending| request.header.op != OpCode::CHECK;
        let is_done = is_cut || !connection.pending.iter().any(unanswered);
        assert!(is_done, "{}: connection {number} lacks replies", self.at());
    }

    /// A recording ends when its connections have ended.
    fn end(&self) {
        let pending = self.connections.values().map(|connection| connection.pending.len());
        assert_eq!(pending.sum::<usize>(), 0, "{}: replies are missing", self.recording);
    }

    fn at(&self) -> String {
        format!("{}, \"{}\"", self.recording, self.note)
    }
}

/// The name of a response's variant.
fn shape(response: &Response) -> String {
    let text = format!("{response:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn encoded<T: Encode>(value: &T) -> Bytes {
    let mut out = BytesMut::new();
    value.encode(&mut out);
    out.freeze()
}

fn unhex(text: &str) -> Bytes {
    let digits = if text == "-" { "" } else { text };
    assert!(digits.is_ascii() && digits.len() % 2 == 0, "{text}");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}
