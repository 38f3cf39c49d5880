//! What the trace of a golden script shows of a message: everything that is the same in every run.
//!
//! Zxids are relative to the begin of the script, sessions have the names of their clients, and a
//! time is shown only if it differs from the time of its zxid. Of a Stat only those fields are
//! shown that differ from a fresh znode's.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, ConnectResponse, ErrorCode, MultiResult, Names, Password, ReplyHeader, Response,
    SessionId, Stat, WatchedEvent, Zxid,
};

/// Writes messages as the trace of a golden script, independent of the run.
///
/// ```
/// use zoolet_protocol::{EventType, ErrorCode, ReplyHeader, Response, WatchedEvent, Xid, Zxid};
/// use zoolet_testkit::Trace;
///
/// let mut trace = Trace::new(false, Zxid(100));
/// let header = ReplyHeader { xid: Xid(1), zxid: Zxid(103), err: ErrorCode::OK };
/// assert_eq!(trace.reply(true, &header, &Response::Path("/p".into())), "z+3 /p");
/// let event = WatchedEvent::new(EventType::NODE_DELETED, "/p");
/// assert_eq!(trace.event(Zxid(104), &event), "event NodeDeleted /p");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The last zxid before the script.
    pub base: Zxid,
    /// Whether the server was new, so that nothing depends on earlier transactions.
    is_fresh: bool,
    /// Whether the zxids of events are shown.
    pub shows_event_zxids: bool,
    /// Whether the Stat of a built-in znode was shown, which depends on earlier transactions.
    pub(super) has_shown_built_in: bool,
    /// The epochs that have begun since: the upper halves of their zxids.
    epochs: Vec<i64>,
    sessions: BTreeMap<SessionId, String>,
    times: BTreeMap<Zxid, i64>,
}

/// The bits of a zxid that count within an epoch.
const EPOCH_BITS: u32 = 32;

/// The longest data that is shown in full.
const DATA_BYTES_SHOWN: usize = 64;

impl Trace {
    /// A trace that begins after the zxid `base`; `is_fresh` says whether the server was new then.
    #[must_use]
    pub fn new(is_fresh: bool, base: Zxid) -> Self {
        Self { is_fresh, base, ..Self::default() }
    }

    /// A leader of an ensemble begins an epoch with this zxid. The zxids of the second epoch since the
    /// beginning are shown as `z2+1`, those of the third as `z3+1`.
    pub fn begin_epoch(&mut self, zxid: Zxid) {
        let epoch = zxid.0 >> EPOCH_BITS;
        if epoch > self.base.0 >> EPOCH_BITS && !self.epochs.contains(&epoch) {
            self.epochs.push(epoch);
        }
    }

    /// The zxid that is shown as this text; a plain number is itself. `None` for any other text, and
    /// for an epoch that has not begun.
    #[must_use]
    pub fn parse_zxid(&self, text: &str) -> Option<Zxid> {
        match text.strip_prefix('z').and_then(|rest| rest.split_once('+')) {
            None | Some(("", _)) => super::words::parse_zxid(text, self.base).ok(),
            Some((epoch, count)) => {
                let index = epoch.parse::<usize>().ok()?.checked_sub(2)?;
                let epoch = self.epochs.get(index)?;
                Some(Zxid((epoch << EPOCH_BITS) + count.parse::<i64>().ok()?))
            }
        }
    }

    /// Names a session after the client that created it.
    pub fn name_session(&mut self, session: SessionId, client: &str) {
        if session.is_none() || self.sessions.contains_key(&session) {
            return;
        }
        let taken = |name: &String| self.sessions.values().any(|taken| taken == name);
        let names = (1..).map(|count| match count {
            1 => client.to_owned(),
            count => format!("{client}#{count}"),
        });
        let name = names.into_iter().find(|name| !taken(name)).expect("there is always another");
        self.sessions.insert(session, name);
    }

    /// The session with a name.
    #[must_use]
    pub fn session(&self, name: &str) -> Option<SessionId> {
        self.sessions.iter().find(|(_, n)| *n == name).map(|(session, _)| *session)
    }

    /// The sessions of the script.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionId> {
        self.sessions.keys().copied().collect()
    }

    /// A zxid, relative to the begin, or `old`.
    #[must_use]
    pub fn zxid(&self, zxid: Zxid) -> String {
        let epoch = zxid.0 >> EPOCH_BITS;
        if let Some(index) = self.epochs.iter().position(|known| *known == epoch) {
            return format!("z{}+{}", index + 2, zxid.0 - (epoch << EPOCH_BITS));
        }
        match zxid.0 {
            special @ (-1 | 0) => special.to_string(),
            _ if zxid > self.base => format!("z+{}", zxid.0 - self.base.0),
            _ => "old".into(),
        }
    }

    /// A zxid of a Stat, which for built-in znodes depends on earlier transactions.
    fn stat_zxid(&mut self, zxid: Zxid) -> String {
        self.has_shown_built_in |= zxid == Zxid::ZERO;
        if zxid == Zxid::ZERO && !self.is_fresh { "old".into() } else { self.zxid(zxid) }
    }

    fn session_name(&self, session: SessionId) -> String {
        match self.sessions.get(&session) {
            Some(name) => name.clone(),
            None if session.is_none() => "none".into(),
            None => "unknown".into(),
        }
    }

    /// Whether a time is the time of its zxid, as far as that is known.
    fn is_time_of(&mut self, zxid: Zxid, time: i64) -> bool {
        if zxid == Zxid::ZERO { time == 0 } else { *self.times.entry(zxid).or_insert(time) == time }
    }

    fn stat(&mut self, stat: &Stat) -> String {
        let mut parts = vec![format!("czxid={}", self.stat_zxid(stat.czxid))];
        let mut part = |is_shown: bool, text: String| {
            if is_shown {
                parts.push(text);
            }
        };
        let (mzxid, pzxid) = (self.stat_zxid(stat.mzxid), self.stat_zxid(stat.pzxid));
        part(stat.mzxid != stat.czxid, format!("mzxid={mzxid}"));
        part(stat.pzxid != stat.czxid, format!("pzxid={pzxid}"));
        part(!self.is_time_of(stat.czxid, stat.ctime), "ctime=WRONG".into());
        part(!self.is_time_of(stat.mzxid, stat.mtime), "mtime=WRONG".into());
        part(stat.version != 0, format!("version={}", stat.version));
        part(stat.cversion != 0, format!("cversion={}", stat.cversion));
        part(stat.aversion != 0, format!("aversion={}", stat.aversion));
        let owner = self.session_name(stat.ephemeral_owner);
        part(!stat.ephemeral_owner.is_none(), format!("owner={owner}"));
        part(true, format!("length={}", stat.data_length));
        part(stat.num_children != 0, format!("children={}", stat.num_children));
        format!("{{{}}}", parts.join(" "))
    }

    /// The response to a handshake.
    #[must_use]
    pub fn handshake(&self, response: &ConnectResponse) -> String {
        let password = if response.password == Password::zero() {
            "zero"
        } else if response.password == Password::of(response.session) {
            "of-session"
        } else {
            "WRONG"
        };
        let outcome = if response.is_refused() { "refused" } else { "connected" };
        let read_only = match response.read_only {
            None => "absent".into(),
            Some(flag) => flag.to_string(),
        };
        let version = match response.protocol_version {
            0 => String::new(),
            version => format!(" protocol={version}"),
        };
        format!(
            "{outcome} session={} timeout={} password={password} readOnly={read_only}{version}",
            self.session_name(response.session),
            response.timeout_ms,
        )
    }

    /// The reply to a request; `has_its_xid` says whether it has the request's xid.
    pub fn reply(&mut self, has_its_xid: bool, header: &ReplyHeader, body: &Response) -> String {
        let answer = self.answer(header.err, body);
        let zxid = self.zxid(header.zxid);
        if has_its_xid {
            format!("{zxid} {answer}")
        } else {
            format!("{zxid} xid={} {answer}", header.xid.0)
        }
    }

    /// A watch event.
    #[must_use]
    pub fn event(&self, zxid: Zxid, event: &WatchedEvent) -> String {
        let path = path(event.path.text());
        let state = match event.state {
            zoolet_protocol::KeeperState::SYNC_CONNECTED => String::new(),
            state => format!(" state={state}"),
        };
        let zxid = match self.shows_event_zxids {
            true => format!(" zxid={}", self.zxid(zxid)),
            false => String::new(),
        };
        format!("event {} {path}{state}{zxid}", event.event_type)
    }

    fn answer(&mut self, err: ErrorCode, body: &Response) -> String {
        match (err, body) {
            (ErrorCode::OK, body) => self.response(body),
            (err, Response::Empty) => format!("error {err}"),
            (err, body) => format!("error {err} {}", self.response(body)),
        }
    }

    fn response(&mut self, response: &Response) -> String {
        match response {
            Response::Empty => "ok".into(),
            Response::Path(raw) => path(raw.text()),
            Response::PathStat(created, stat) => {
                format!("{} {}", path(Some(created)), self.stat(stat))
            }
            Response::Stat(stat) => self.stat(stat),
            Response::Data(bytes, stat) => format!("{} {}", data(bytes.as_ref()), self.stat(stat)),
            Response::Acl(acl, stat) => format!("{} {}", list(acl.as_deref()), self.stat(stat)),
            Response::Names(list) => names(list),
            Response::NamesStat(list, stat) => format!("{} {}", names(list), self.stat(stat)),
            Response::Multi(results) => {
                let lines = results.iter().map(|result| format!("\n  {}", self.result(result)));
                format!("multi{}", lines.collect::<String>())
            }
            Response::Number(number) => number.to_string(),
            Response::WhoAmI(infos) => {
                let part = |part: &Option<bytestring::ByteString>| {
                    part.as_deref().map_or_else(|| "null".into(), str::to_owned)
                };
                let mut users: Vec<_> = infos
                    .iter()
                    .map(|info| format!("{}:{}", part(&info.scheme), part(&info.user)))
                    .collect();
                users.sort();
                format!("[{}]", users.join(" "))
            }
            Response::Token(token) => format!("token {}", data(token.as_ref())),
            Response::Raw(bytes) => format!("bytes {}", hex(bytes)),
        }
    }

    fn result(&mut self, result: &MultiResult) -> String {
        match result {
            MultiResult::Create(created) => format!("create {}", path(Some(created))),
            MultiResult::Create2(created, stat) => {
                format!("create2 {} {}", path(Some(created)), self.stat(stat))
            }
            MultiResult::Delete => "delete".into(),
            MultiResult::SetData(stat) => format!("setData {}", self.stat(stat)),
            MultiResult::Check => "check".into(),
            MultiResult::Children(list) => format!("getChildren {}", names(list)),
            MultiResult::Data(bytes, stat) => {
                format!("getData {} {}", data(bytes.as_ref()), self.stat(stat))
            }
            MultiResult::Error(code) => format!("error {code}"),
        }
    }
}

/// A path, in quotes if it has unusual characters.
fn path(text: Option<&str>) -> String {
    match text {
        None => "null".into(),
        Some(text) if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) => text.into(),
        Some(text) => format!("{text:?}"),
    }
}

fn data(bytes: Option<&Bytes>) -> String {
    match bytes {
        None => "null".into(),
        Some(bytes) if bytes.len() > DATA_BYTES_SHOWN => {
            format!("\"{}\"... {} bytes", bytes[..16].escape_ascii(), bytes.len())
        }
        Some(bytes) => format!("\"{}\"", bytes.escape_ascii()),
    }
}

/// Bytes as two hexadecimal digits each, as a trace shows frames that cannot be decoded.
///
/// ```
/// assert_eq!(zoolet_testkit::hex(&[0, 255]), "00ff");
/// ```
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names in order; servers list them in the order of their hash tables.
fn names(names: &Names) -> String {
    if names.is_null() {
        return "null".into();
    }
    let mut names: Vec<_> = names.iter().map(|name| path(Some(name))).collect();
    names.sort();
    format!("[{}]", names.join(" "))
}

/// Entries in order, because servers keep them as sets.
fn list(acl: Option<&[Acl]>) -> String {
    let Some(acl) = acl else { return "null".into() };
    let entry = |entry: &Acl| match entry.permissions.0 {
        0..=31 => entry.to_string(),
        odd => format!("{}:{odd}", entry.id),
    };
    let mut entries: Vec<_> = acl.iter().map(entry).collect();
    entries.sort();
    format!("[{}]", entries.join(" "))
}
