//! `zoolet data sessions`: when sessions began and ended, and what they owned.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use zoolet_core::{Core, Txn, TxnOp};
use zoolet_protocol::{SessionId, Xid, ZPath, Zxid};
use zoolet_server::storage::history::{DeletedZnode, History, Moment};

use super::clients::{ClientOptions, Clients};
use super::replay::{Until, Witness, replay_until};
use super::{DataError, Directories, json, require_files};
use crate::cli::output::visible;
use crate::counted::counted;
use crate::notice;

#[derive(Debug, Args)]
pub(super) struct Sessions {
    #[command(flatten)]
    directories: Directories,

    /// Go on with what a server writes, until Ctrl-C: each session is told when it ends
    #[arg(short, long)]
    follow: bool,

    /// Print JSON, a line for each session, with all that it owned at its end
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    clients: ClientOptions,
}

/// How many paths a line has. JSON has all.
const PATHS_SHOWN_MAX: usize = 3;

/// Who has ended a session, as far as a log tells. A client's request has a number, and what a server
/// decides by itself has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closer {
    Client,
    Server,
}

impl Closer {
    pub(super) fn of(txn: &Txn) -> Self {
        if txn.cxid == Xid(0) { Self::Server } else { Self::Client }
    }
}

/// A session that has not ended.
#[derive(Debug, Default)]
struct Live {
    /// `None` if it began before the logs.
    begin: Option<Moment>,
    timeout_ms: Option<i32>,
    created: u64,
    owns: BTreeSet<ZPath>,
    /// What it owned before missing transactions, while the state behind them is read: those were counted.
    owned_before: BTreeSet<ZPath>,
}

#[derive(Clone, Copy)]
enum End {
    At(Moment, Closer),
    Open,
    /// The transactions are missing that would tell.
    Unknown,
}

impl Sessions {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let config = self.directories.config();
        require_files(&config)?;
        let clients = self.clients.load()?;
        let history = History::open(&config)?;
        let out = BufWriter::new(io::stdout());
        let mut tale = Tale {
            is_json: self.json,
            clients: &clients,
            out,
            live: BTreeMap::new(),
            lost: BTreeMap::new(),
            owners: HashMap::new(),
        };
        let until = if self.follow { Until::Stopped } else { Until::Now };
        let replayed = replay_until(&history, until, &mut tale);
        let ended = match replayed {
            Ok(_) => tale.tell_lost().and_then(|()| tale.rest()),
            Err(_) => Ok(()),
        };
        tale.out.flush()?;
        let span = replayed?;
        ended?;
        if !self.json {
            notice(&format!("sessions {span}"));
            clients.tell_missing();
        }
        Ok(span.exit_code())
    }
}

/// Each session is told when it ends, so that only those that live take memory.
struct Tale<'a, W> {
    is_json: bool,
    clients: &'a Clients,
    out: W,
    live: BTreeMap<SessionId, Live>,
    /// Those that lived where transactions are missing, until a state behind them tells who lives on.
    lost: BTreeMap<SessionId, Live>,
    owners: HashMap<ZPath, SessionId>,
}

impl<W: Write> Witness for Tale<'_, W> {
    fn begin(
        &mut self,
        core: &Core,
        after: Zxid,
        deleted: &[DeletedZnode],
    ) -> Result<(), DataError> {
        for (session, timeout_ms) in core.sessions() {
            self.live_on(session).timeout_ms = Some(timeout_ms);
        }
        let state = core.freeze();
        for znode in state.znodes() {
            let owner = znode.stat.ephemeral_owner.visible();
            // A later one is created by the records.
            if !owner.is_none() && znode.stat.czxid <= after {
                self.own(owner, &znode.path);
            }
        }
        for znode in deleted.iter().filter(|znode| znode.is_by_end_of_session) {
            self.own(znode.session, &znode.path);
        }
        for live in self.live.values_mut() {
            live.owned_before = BTreeSet::new();
        }
        self.tell_lost()
    }

    fn txn(&mut self, txn: &Txn) -> Result<(), DataError> {
        match &txn.op {
            TxnOp::CreateSession { timeout_ms } => {
                let live = self.live.entry(txn.session).or_default();
                live.begin = Some(Moment::of(txn));
                live.timeout_ms = Some(*timeout_ms);
            }
            TxnOp::CloseSession { paths } => {
                let mut live = self.live.remove(&txn.session).unwrap_or_default();
                for path in &live.owns {
                    self.owners.remove(path);
                }
                // Older logs do not name them.
                live.owns.extend(paths.iter().cloned());
                self.tell(txn.session, &live, End::At(Moment::of(txn), Closer::of(txn)))?;
            }
            op => {
                for op in op.single_operations() {
                    match op {
                        TxnOp::Create(create) if create.ephemeral => {
                            self.own(txn.session, &create.path);
                        }
                        TxnOp::Delete { path } => self.disown(path),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn lost(&mut self) -> Result<(), DataError> {
        self.owners.clear();
        self.lost.append(&mut self.live);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), DataError> {
        Ok(self.out.flush()?)
    }
}

impl<W: Write> Tale<'_, W> {
    /// A session that lives, perhaps since before missing transactions.
    fn live_on(&mut self, session: SessionId) -> &mut Live {
        self.live.entry(session).or_insert_with(|| match self.lost.remove(&session) {
            Some(before) => Live { owned_before: before.owns, owns: BTreeSet::new(), ..before },
            None => Live::default(),
        })
    }

    fn own(&mut self, session: SessionId, path: &ZPath) {
        self.owners.insert(path.clone(), session);
        let live = self.live_on(session);
        live.created += u64::from(!live.owned_before.remove(path));
        live.owns.insert(path.clone());
    }

    fn disown(&mut self, path: &ZPath) {
        if let Some(owner) = self.owners.remove(path)
            && let Some(live) = self.live.get_mut(&owner)
        {
            live.owns.remove(path);
        }
    }

    /// Tells the sessions that did not end.
    fn rest(&mut self) -> Result<(), DataError> {
        for (session, live) in std::mem::take(&mut self.live) {
            self.tell(session, &live, End::Open)?;
        }
        Ok(())
    }

    /// Tells those of which nothing is known behind missing transactions.
    fn tell_lost(&mut self) -> Result<(), DataError> {
        for (session, live) in std::mem::take(&mut self.lost) {
            self.tell(session, &live, End::Unknown)?;
        }
        Ok(())
    }

    fn tell(&mut self, session: SessionId, live: &Live, end: End) -> Result<(), DataError> {
        if self.is_json {
            let line = self.value(session, live, end);
            return Ok(writeln!(self.out, "{line}")?);
        }
        let begin = match live.begin {
            Some(Moment { zxid, time_ms }) => format!("{} ({zxid})", json::time(time_ms)),
            None => "before the logs".to_owned(),
        };
        let (end, owned) = match end {
            End::At(Moment { zxid, time_ms }, closer) => {
                let how = match closer {
                    Closer::Client => "closed by its client",
                    Closer::Server => "ended by the server, as when it expires",
                };
                (format!("to {} ({zxid}), {how}", json::time(time_ms)), "deleted with it")
            }
            End::Open => ("it is open at the end of the logs".to_owned(), "has"),
            End::Unknown => ("its end is not known: logs are missing".to_owned(), "had"),
        };
        let timeout = live.timeout_ms.map(|ms| format!("  timeout {ms} ms")).unwrap_or_default();
        let by = self.clients.text(session);
        let created = counted(live.created, "ephemeral");
        let paths = paths(&live.owns);
        writeln!(
            self.out,
            "{by}{timeout}  from {begin} {end}  {created} created, {owned}: {paths}"
        )?;
        Ok(())
    }

    fn value(&self, session: SessionId, live: &Live, end: End) -> serde_json::Value {
        let moment = |moment: Moment| json!({ "zxid": moment.zxid.to_string(), "time": json::time(moment.time_ms) });
        let (how, ended) = match end {
            End::At(at, Closer::Client) => ("closed", Some(moment(at))),
            End::At(at, Closer::Server) => ("ended-by-server", Some(moment(at))),
            End::Open => ("open", None),
            End::Unknown => ("unknown", None),
        };
        json!({
            "session": session.to_string(),
            "client": self.clients.name(session),
            "timeout_ms": live.timeout_ms,
            "begin": live.begin.map(moment),
            "end": ended,
            "how": how,
            "created": live.created,
            "owned": live.owns.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }
}

fn paths(owned: &BTreeSet<ZPath>) -> String {
    if owned.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<_> = owned.iter().take(PATHS_SHOWN_MAX).map(|path| visible(path)).collect();
    match owned.len() - shown.len() {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}
