//! `zoolet data history`: who has created, changed and deleted a znode.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use zoolet_core::{Core, EphemeralType, Txn, TxnOp, Znode};
use zoolet_protocol::{CreateKind, SessionId, ZPath, Zxid};
use zoolet_server::storage::history::{Base, Damage, Gap, Gaps, History as Reader, Records};

use super::clients::{ClientOptions, Clients};
use super::dump::length;
use super::replay::{Span, pass_over, tell_end, tell_gap};
use super::transfer::{is_at_or_below, znode};
use super::{DataError, Directories, json, require_files};
use crate::cli::output::visible;

#[derive(Debug, Args)]
pub(super) struct History {
    #[command(flatten)]
    directories: Directories,

    /// The znode
    #[arg(value_name = "PATH", value_parser = znode)]
    path: ZPath,

    /// All its descendants too
    #[arg(short, long)]
    recursive: bool,

    /// Go on with what a server writes, until Ctrl-C
    #[arg(short, long)]
    follow: bool,

    /// Print JSON, a line for each change, with all there is
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    clients: ClientOptions,
}

/// The pause between two looks for what was written.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Waits until a server may have written more.
#[expect(clippy::disallowed_methods, reason = "the command has one thread, and waits for files")]
pub(super) fn wait_for_more() {
    std::thread::sleep(FOLLOW_EVERY);
}

/// One change of a znode.
struct Change<'a> {
    path: &'a ZPath,
    what: What<'a>,
}

enum What<'a> {
    Created { data: Option<&'a [u8]>, kind: Option<String> },
    Set { data: Option<&'a [u8]>, version: i32 },
    Acl { acl: Vec<String>, version: i32 },
    Deleted(Why),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Asked,
    SessionEnded,
    /// A container without children, or a TTL znode whose time is over.
    Swept,
}

impl History {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let config = self.directories.config();
        require_files(&config)?;
        let clients = self.clients.load()?;
        let reader = Reader::open(&config)?;
        let mut records = reader.records(Zxid::ZERO, Gaps::Tell);
        let mut tale = Tale::new(&self, &clients, BufWriter::new(io::stdout()));
        tale.read(&reader, &mut records)?;
        if self.follow {
            loop {
                wait_for_more();
                records.resume()?;
                tale.read(&reader, &mut records)?;
            }
        }
        if tale.told == 0 {
            let span = match tale.read {
                Some((first, last)) => format!("which have {first} to {last}"),
                None => "which are empty".to_owned(),
            };
            return Err(DataError::NoHistory(self.path.to_string(), span));
        }
        tell_end(&records);
        if !self.json {
            clients.tell_missing();
        }
        Ok(tale.span().exit_code())
    }

    fn is_wanted(&self, path: &str) -> bool {
        let top = self.path.as_str();
        if self.recursive { is_at_or_below(path, top) } else { path == top }
    }
}

/// What was told so far.
struct Tale<'a, W> {
    options: &'a History,
    clients: &'a Clients,
    out: W,
    /// The ephemerals that are there, with their sessions: older logs do not say what a session's end
    /// deletes.
    owners: HashMap<ZPath, SessionId>,
    of_sessions: HashMap<SessionId, BTreeSet<ZPath>>,
    told: u64,
    /// Whether the oldest snapshot was told.
    has_begun: bool,
    /// The first and the last transaction.
    read: Option<(Zxid, Zxid)>,
    gaps: usize,
    damages: BTreeSet<Damage>,
}

impl<'a, W: Write> Tale<'a, W> {
    fn new(options: &'a History, clients: &'a Clients, out: W) -> Self {
        Self {
            options,
            clients,
            out,
            owners: HashMap::new(),
            of_sessions: HashMap::new(),
            told: 0,
            has_begun: false,
            read: None,
            gaps: 0,
            damages: BTreeSet::new(),
        }
    }

    fn span(&self) -> Span {
        Span { has_holes: self.gaps > 0 || !self.damages.is_empty(), ..Span::default() }
    }

    /// Tells what the records have.
    fn read(&mut self, reader: &Reader, records: &mut Records) -> Result<(), DataError> {
        let end = self.read_on(reader, records);
        self.out.flush()?;
        end
    }

    fn read_on(&mut self, reader: &Reader, records: &mut Records) -> Result<(), DataError> {
        loop {
            let record = match records.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    // What stands before it is told first.
                    self.out.flush()?;
                    pass_over(records, error, &mut self.damages)?;
                    self.forget();
                    continue;
                }
            };
            let txn = &record.txn;
            let (first, _) = *self.read.get_or_insert((txn.zxid, txn.zxid));
            self.read = Some((first, txn.zxid));
            self.begin(reader, first)?;
            for Gap { after, found } in records.gaps().iter().skip(self.gaps) {
                tell_gap(*after, *found);
            }
            if records.gaps().len() > self.gaps {
                self.forget();
            }
            self.gaps = records.gaps().len();
            self.op(txn, &txn.op)?;
        }
        // There is no log yet.
        self.begin(reader, Zxid(i64::MAX))
    }

    /// Tells once what was so before the first record.
    fn begin(&mut self, reader: &Reader, first: Zxid) -> Result<(), DataError> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        self.before(reader, first)
    }

    fn own(&mut self, path: &ZPath, session: SessionId) {
        self.owners.insert(path.clone(), session);
        self.of_sessions.entry(session).or_default().insert(path.clone());
    }

    fn disown(&mut self, path: &ZPath) {
        if let Some(session) = self.owners.remove(path)
            && let Some(paths) = self.of_sessions.get_mut(&session)
        {
            paths.remove(path);
            if paths.is_empty() {
                self.of_sessions.remove(&session);
            }
        }
    }

    /// Transactions are missing, which may have deleted any ephemeral.
    fn forget(&mut self) {
        self.owners.clear();
        self.of_sessions.clear();
    }

    /// Tells what was so before the first record, as the oldest snapshot has it.
    fn before(&mut self, reader: &Reader, first: Zxid) -> Result<(), DataError> {
        if first == Zxid(1) {
            return Ok(());
        }
        // The logs tell much without one.
        let Ok(Base { core, after, snapshot: Some(path), .. }) = reader.oldest_base() else {
            return Ok(());
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for znode in older(&core, first) {
            if self.options.is_wanted(&znode.path) {
                self.znode(&znode, first, &name)?;
            }
        }
        // The first transaction of an epoch does not follow the last one before.
        let may_follow = self.damages.is_empty() && first.0 >> 32 != after.0 >> 32;
        if first > after.next() && !may_follow {
            self.forget();
        }
        Ok(())
    }

    fn znode(&mut self, znode: &Znode, first: Zxid, snapshot: &str) -> Result<(), DataError> {
        let stat = &znode.stat;
        let owner = stat.ephemeral_owner.ephemeral_type();
        let mut session = None;
        if let EphemeralType::Ephemeral(owner) = owner {
            self.own(&znode.path, owner);
            session = Some(owner);
        }
        self.told += 1;
        let mut rows = vec![("created", stat.czxid, stat.ctime, session)];
        if stat.mzxid != stat.czxid && stat.mzxid < first {
            rows.push(("set", stat.mzxid, stat.mtime, None));
        }
        for (action, zxid, time_ms, session) in rows {
            let time = json::time(time_ms);
            if self.options.json {
                let mut line = json!({
                    "time": time, "zxid": zxid.to_string(), "action": action,
                    "path": znode.path.to_string(), "from": snapshot,
                });
                if let Some(session) = session {
                    line["session"] = session.to_string().into();
                }
                writeln!(self.out, "{line}")?;
            } else {
                let path = visible(&znode.path);
                let by = session.map_or_else(|| "?".to_owned(), |it| self.clients.text(it));
                writeln!(self.out, "{time}  {zxid}  {by}  {action} {path} (as {snapshot} has it)")?;
            }
        }
        Ok(())
    }

    fn op(&mut self, txn: &Txn, op: &TxnOp) -> Result<(), DataError> {
        match op {
            TxnOp::Multi(_) => {
                for op in op.single_operations() {
                    self.op(txn, op)?;
                }
            }
            TxnOp::CloseSession { paths } => self.session_end(txn, paths)?,
            TxnOp::Create(create) if self.options.is_wanted(&create.path) => {
                let kind = match create.kind {
                    _ if create.ephemeral => Some("ephemeral".to_owned()),
                    CreateKind::Container => Some("container".to_owned()),
                    CreateKind::Ttl { ttl_ms } => Some(format!("ttl {ttl_ms} ms")),
                    _ => None,
                };
                if create.ephemeral {
                    self.own(&create.path, txn.session);
                }
                let what = What::Created { data: create.data.as_deref(), kind };
                self.tell(txn, &Change { path: &create.path, what })?;
            }
            TxnOp::Delete { path } if self.options.is_wanted(path) => {
                self.disown(path);
                self.tell(txn, &Change { path, what: What::Deleted(Why::Asked) })?;
            }
            TxnOp::DeleteContainer { path } if self.options.is_wanted(path) => {
                self.tell(txn, &Change { path, what: What::Deleted(Why::Swept) })?;
            }
            TxnOp::SetData { path, data, version } if self.options.is_wanted(path) => {
                let what = What::Set { data: data.as_deref(), version: *version };
                self.tell(txn, &Change { path, what })?;
            }
            TxnOp::SetAcl { path, acl, version } if self.options.is_wanted(path) => {
                let what = What::Acl { acl: json::acl(acl), version: *version };
                self.tell(txn, &Change { path, what })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The end of a session deletes its ephemerals, whether the record names them or not.
    fn session_end(&mut self, txn: &Txn, named: &[ZPath]) -> Result<(), DataError> {
        let mut gone = self.of_sessions.remove(&txn.session).unwrap_or_default();
        gone.extend(named.iter().filter(|path| self.options.is_wanted(path)).cloned());
        for path in &gone {
            self.disown(path);
            self.tell(txn, &Change { path, what: What::Deleted(Why::SessionEnded) })?;
        }
        Ok(())
    }

    fn tell(&mut self, txn: &Txn, change: &Change<'_>) -> Result<(), DataError> {
        self.told += 1;
        if self.options.json {
            writeln!(self.out, "{}", self.value(txn, change))?;
        } else {
            let (time, by) = (json::time(txn.time_ms), self.clients.text(txn.session));
            let what = text(change);
            writeln!(self.out, "{time}  {}  {by}  cxid {}  {what}", txn.zxid, txn.cxid.0)?;
        }
        Ok(())
    }

    fn value(&self, txn: &Txn, change: &Change<'_>) -> Value {
        let mut line = json!({
            "time": json::time(txn.time_ms),
            "zxid": txn.zxid.to_string(),
            "session": txn.session.to_string(),
            "cxid": txn.cxid.0,
            "path": change.path.to_string(),
        });
        if let Some(client) = self.clients.name(txn.session) {
            line["client"] = client.into();
        }
        let (action, data) = match &change.what {
            What::Created { data, kind } => {
                if let Some(kind) = kind {
                    line["kind"] = kind.clone().into();
                }
                ("created", Some(*data))
            }
            What::Set { data, version } => {
                line["version"] = (*version).into();
                ("set", Some(*data))
            }
            What::Acl { acl, version } => {
                line["acl"] = acl.clone().into();
                line["version"] = (*version).into();
                ("set-acl", None)
            }
            What::Deleted(why) => {
                line["by"] = why.name().into();
                ("deleted", None)
            }
        };
        line["action"] = action.into();
        match data {
            Some(data) => json::with_data(line, data),
            None => line,
        }
    }
}

impl Why {
    /// For programs.
    fn name(self) -> &'static str {
        match self {
            Self::Asked => "client",
            Self::SessionEnded => "session-end",
            Self::Swept => "server",
        }
    }
}

fn text(change: &Change<'_>) -> String {
    let path = visible(change.path);
    match &change.what {
        What::Created { data, kind: Some(kind) } => {
            format!("created {path} ({}, {kind})", length(*data))
        }
        What::Created { data, kind: None } => format!("created {path} ({})", length(*data)),
        What::Set { data, version } => {
            format!("set {path} ({}, version {version})", length(*data))
        }
        What::Acl { acl, version } => {
            let acl = visible(&acl.join(","));
            format!("set the access control list of {path} to {acl} (version {version})")
        }
        What::Deleted(Why::Asked) => format!("deleted {path}"),
        What::Deleted(Why::SessionEnded) => format!("deleted {path}, because its session ended"),
        What::Deleted(Why::Swept) => {
            format!("deleted {path}: the server, as it was empty or its time was over")
        }
    }
}

/// The znodes that were created before a transaction, in their order.
fn older(core: &Core, first: Zxid) -> Vec<Znode> {
    let frozen = core.freeze();
    let znodes = frozen.znodes().into_iter();
    znodes
        .filter(|znode| znode.stat.czxid < first && znode.stat.czxid > Zxid::ZERO)
        .cloned()
        .collect()
}
