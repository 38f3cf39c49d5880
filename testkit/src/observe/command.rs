//! Writes requests as the commands of a golden script.

use bytes::Bytes;
use zoolet_protocol::{
    Acl, AddWatch, ConnectRequest, Create, CreateFlags, CreateKind, Expect, Lookup, MultiOp,
    MultiReadOp, Names, Password, RawPath, Read, Request, RequestHeader, SessionRequest,
    SetWatches, Watch, Write, Zxid, encode_request,
};

use super::trace::hex;
use super::words::{self, DEFAULT_TIMEOUT_MS, NULL, watcher_type, zxid};

/// The longest data of one repeated letter that is written out.
const DATA_BYTES_SHOWN: usize = 64;

/// The command that sends the same bytes as a request: a named one if possible, else `raw`.
pub(super) fn of_request(
    header: RequestHeader,
    request: Option<&Request>,
    body: &Bytes,
    base: Zxid,
) -> String {
    let named = request.filter(|request| is_exactly(header, request, body));
    let named = named.and_then(|request| of_known(request, base));
    named.unwrap_or_else(|| match body.is_empty() {
        true => format!("raw {}", header.op.0),
        false => format!("raw {} hex:{}", header.op.0, hex(body)),
    })
}

/// Whether encoding the decoded request gives the same bytes: extra bytes behind it would be lost.
fn is_exactly(header: RequestHeader, request: &Request, body: &Bytes) -> bool {
    encode_request(header.xid, request)[zoolet_protocol::limits::REQUEST_HEADER_BYTES..] == **body
}

/// A handshake with this timeout. The requested session has a name unless the script does not know
/// it.
pub(super) fn of_handshake(
    request: &ConnectRequest,
    timeout_ms: i32,
    session: Option<&str>,
    base: Zxid,
) -> String {
    let mut command = "connect".to_owned();
    let mut option = |is_needed: bool, text: String| {
        if is_needed {
            command.push_str(" --");
            command.push_str(&text);
        }
    };
    option(timeout_ms != DEFAULT_TIMEOUT_MS, format!("timeout {timeout_ms}"));
    let number = request.session.0.to_string();
    let session = session.unwrap_or(&number);
    option(!request.session.is_none(), format!("session {session}"));
    let own =
        if request.session.is_none() { Password::zero() } else { Password::of(request.session) };
    let password = if request.password == Password::NULL {
        "null"
    } else if request.password.as_bytes().len() < zoolet_protocol::PASSWORD_BYTES {
        "short"
    } else {
        "wrong"
    };
    option(request.password != own, format!("password {password}"));
    let seen = request.last_zxid_seen;
    option(seen != Zxid::ZERO, format!("seen {}", zxid(seen, base)));
    let read_only = match request.read_only {
        Some(true) => "yes",
        Some(false) => "no",
        None => "absent",
    };
    option(request.read_only != Some(false), format!("read-only {read_only}"));
    let version = request.protocol_version;
    option(version != 0, format!("protocol {version}"));
    command
}

/// The named command of a request; `None` if a part of it cannot be written.
fn of_known(request: &Request, base: Zxid) -> Option<String> {
    Some(match request {
        Request::Read(read) => of_read(read),
        Request::Watch(watch) => of_watch(watch, base)?,
        Request::Write(write) => of_write(write)?,
        Request::Session(session) => match session {
            SessionRequest::Ping => "ping".to_owned(),
            SessionRequest::WhoAmI => "whoAmI".to_owned(),
            SessionRequest::Sasl(token) => format!("sasl {}", data(token.as_ref())),
            SessionRequest::Auth(auth) if auth.auth_type == 0 => {
                let credentials = data(auth.auth.as_ref());
                format!("auth {} {credentials}", text(auth.scheme.as_deref()))
            }
            SessionRequest::Auth(_) => return None,
        },
        Request::Unknown { .. } => return None,
    })
}

fn of_read(read: &Read) -> String {
    let op = read.op_code();
    match read {
        Read::Lookup(lookup) => of_lookup(lookup, ""),
        Read::GetAcl(raw)
        | Read::Sync(raw)
        | Read::GetEphemerals(raw)
        | Read::GetAllChildrenNumber(raw) => format!("{op} {}", path(raw)),
        Read::CheckWatches(check) => {
            format!("{op} {} {}", path(&check.path), watcher_type(check.watcher_type))
        }
        Read::MultiRead(reads) => {
            let one = |read: &MultiReadOp| format!("{} {}", read.op_code(), path(read.path()));
            in_one(&op.to_string(), reads.iter().map(one))
        }
    }
}

fn of_lookup(lookup: &Lookup, option: &str) -> String {
    format!("{}{option} {}", lookup.op_code(), path(lookup.path()))
}

fn of_watch(watch: &Watch, base: Zxid) -> Option<String> {
    let op = watch.op_code();
    Some(match watch {
        Watch::Lookup(lookup) => of_lookup(lookup, " -w"),
        Watch::Add(AddWatch { path: raw, mode }) => {
            format!("{op} {} {}", path(raw), words::watch_mode(*mode))
        }
        Watch::Remove(remove) => {
            format!("{op} {} {}", path(&remove.path), watcher_type(remove.watcher_type))
        }
        Watch::Set(lists) | Watch::Set2(lists) => {
            format!("{op} {}{}", zxid(lists.relative_zxid, base), of_lists(lists))
        }
    })
}

fn of_lists(lists: &SetWatches) -> String {
    let lists = [
        ("data", &lists.data),
        ("exist", &lists.exist),
        ("child", &lists.child),
        ("persistent", &lists.persistent),
        ("recursive", &lists.persistent_recursive),
    ];
    let option = |(option, names): (&str, &Names)| {
        let words: Vec<_> = names.iter().map(|name| word(name.as_bytes())).collect();
        match names.is_null() {
            true => format!(" --{option} null"),
            false if words.is_empty() => String::new(),
            false => format!(" --{option} {}", words.join(" ")),
        }
    };
    lists.into_iter().map(option).collect()
}

fn of_write(write: &Write) -> Option<String> {
    let op = write.op_code();
    Some(match write {
        Write::Op(write) => of_op(write)?,
        Write::SetAcl(set) => {
            let version = version(set.version);
            format!("{op} {} {}{version}", path(&set.path), acl(set.acl.as_deref())?)
        }
        Write::DeleteContainer(raw) => format!("{op} {}", path(raw)),
        Write::Multi(ops) => {
            let ops = ops.iter().map(of_op).collect::<Option<Vec<_>>>()?;
            in_one(&op.to_string(), ops.into_iter())
        }
        Write::Reconfig(reconfig) => {
            let members = [&reconfig.joining, &reconfig.leaving, &reconfig.new_members];
            let [joining, leaving, members] = members.map(|list| text(list.as_deref()));
            format!("{op} {joining} {leaving} {members} {}", reconfig.current_config)
        }
        Write::CloseSession => op.to_string(),
    })
}

fn of_op(write: &MultiOp) -> Option<String> {
    let op = write.op_code();
    Some(match write {
        MultiOp::Create(create) => of_create(create)?,
        MultiOp::Delete(delete) => {
            format!("{op} {}{}", path(&delete.path), version(delete.version))
        }
        MultiOp::SetData(set) => {
            let data = data(set.data.as_ref());
            format!("{op} {} {data}{}", path(&set.path), version(set.version))
        }
        MultiOp::Check(check) => format!("{op} {}{}", path(&check.path), version(check.version)),
    })
}

fn of_create(create: &Create) -> Option<String> {
    let mut command = create.kind.op_code().to_string();
    let ordinary = match (create.kind, create.flags) {
        (CreateKind::Container, CreateFlags::CONTAINER)
        | (CreateKind::Ttl { .. }, CreateFlags::PERSISTENT_WITH_TTL)
        | (CreateKind::Create | CreateKind::Create2, CreateFlags::PERSISTENT) => "",
        (CreateKind::Create | CreateKind::Create2, CreateFlags::EPHEMERAL) => " -e",
        (CreateKind::Ttl { .. }, CreateFlags::PERSISTENT_SEQUENTIAL_WITH_TTL)
        | (CreateKind::Create | CreateKind::Create2, CreateFlags::PERSISTENT_SEQUENTIAL) => " -s",
        (CreateKind::Create | CreateKind::Create2, CreateFlags::EPHEMERAL_SEQUENTIAL) => " -es",
        (_, flags) => &format!(" --flags {}", flags.0),
    };
    command.push_str(ordinary);
    if let CreateKind::Ttl { ttl_ms } = create.kind {
        command.push_str(&format!(" --ttl {ttl_ms}"));
    }
    let list = acl(create.acl.as_deref())?;
    if list != words::OPEN_ACL {
        command.push_str(&format!(" --acl {list}"));
    }
    command.push_str(&format!(" {}", path(&create.path)));
    if create.data.as_ref().is_none_or(|data| !data.is_empty()) {
        command.push_str(&format!(" {}", data(create.data.as_ref())));
    }
    Some(command)
}

/// A command that contains operations, separated by commas.
fn in_one(command: &str, operations: impl Iterator<Item = String>) -> String {
    let operations: Vec<_> = operations.collect();
    match operations.is_empty() {
        true => command.to_owned(),
        false => format!("{command} {}", operations.join(&format!(" {} ", words::MULTI_SEPARATOR))),
    }
}

/// An expected version after a space; nothing for any version.
fn version(expect: Expect) -> String {
    match expect {
        Expect::Any => String::new(),
        Expect::Exactly(version) => format!(" {version}"),
    }
}

fn path(raw: &RawPath) -> String {
    text(raw.text())
}

fn text(text: Option<&str>) -> String {
    text.map_or_else(|| NULL.to_owned(), |text| word(text.as_bytes()))
}

fn data(bytes: Option<&Bytes>) -> String {
    match bytes {
        None => NULL.to_owned(),
        Some(bytes) if bytes.len() > DATA_BYTES_SHOWN && bytes.iter().all(|byte| *byte == b'x') => {
            format!("{}{}", words::DATA_LENGTH, bytes.len())
        }
        Some(bytes) => word(bytes),
    }
}

/// An ACL; `None` if an identity contains the separator of two entries.
fn acl(list: Option<&[Acl]>) -> Option<String> {
    let Some(list) = list else { return Some(NULL.to_owned()) };
    if list.is_empty() {
        return Some(words::EMPTY_ACL.to_owned());
    }
    if *list == [Acl::open()] {
        return Some(words::OPEN_ACL.to_owned());
    }
    let part = |part: Option<&str>, odd: &[char]| match part {
        None => Some(NULL.to_owned()),
        Some(part) if part == NULL || part.contains(odd) => None,
        Some(part) => Some(escaped(part.as_bytes())),
    };
    let entry = |entry: &Acl| {
        let scheme = part(entry.id.scheme.as_deref(), &[':', ','])?;
        let id = part(entry.id.id.as_deref(), &[','])?;
        Some(match entry.permissions.0 {
            0..=31 => format!("{scheme}:{id}:{}", entry.permissions),
            odd => format!("{scheme}:{id}:{odd}"),
        })
    };
    let entries: Vec<_> = list.iter().map(entry).collect::<Option<_>>()?;
    Some(quoted(entries.join(",")))
}

/// Bytes as one word of a line.
fn word(bytes: &[u8]) -> String {
    // Words that have another meaning in a script.
    let is_taken = bytes.starts_with(b"-")
        || bytes.starts_with(words::DATA_LENGTH.as_bytes())
        || [NULL, words::MULTI_SEPARATOR, words::PIPELINE_SEPARATOR]
            .iter()
            .any(|word| word.as_bytes() == bytes);
    match bytes.split_first() {
        Some((first, rest)) if is_taken => quoted(format!("\\x{first:02x}{}", escaped(rest))),
        _ => quoted(escaped(bytes)),
    }
}

/// Bytes with escapes for all but printable characters.
fn escaped(bytes: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'\\' => "\\\\".to_owned(),
        b' '..=b'~' if *byte != b'\'' => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(one).collect()
}

/// A word, in quotes if a shell would split it otherwise.
fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_mean_something_else_are_escaped() {
        assert_eq!(word(b"/locks/lock-0000000001"), "/locks/lock-0000000001");
        assert_eq!(word(b""), "''");
        assert_eq!(word(b"null"), r"'\x6eull'");
        assert_eq!(word(b","), r"'\x2c'");
        assert_eq!(word(b"-e"), r"'\x2de'");
        assert_eq!(word(b"it's \\ \xff"), r"'it\x27s \\ \xff'");
    }

    #[test]
    fn what_a_name_cannot_say_is_sent_raw() {
        let header =
            RequestHeader { xid: zoolet_protocol::Xid(1), op: zoolet_protocol::OpCode::SYNC };
        let sync = Request::Read(Read::Sync("/a".into()));
        let body = Bytes::from_static(b"\0\0\0\x02/a");
        assert_eq!(of_request(header, Some(&sync), &body, Zxid::ZERO), "sync /a");
        let longer = Bytes::from_static(b"\0\0\0\x02/a!");
        let raw = of_request(header, Some(&sync), &longer, Zxid::ZERO);
        assert_eq!(raw, "raw 9 hex:000000022f6121");
        assert_eq!(of_request(header, None, &Bytes::new(), Zxid::ZERO), "raw 9");
    }
}
