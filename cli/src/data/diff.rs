//! `zoolet data diff`: what differs between two states.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use zoolet_core::{EphemeralType, Znode};
use zoolet_protocol::{ZPath, Zxid};
use zoolet_server::storage::history::{History, Until};

use super::dump::length;
use super::transfer::{is_at_or_below, znode};
use super::{DataError, Directories, json, moment, require_files};
use crate::cli::output::visible;

#[derive(Debug, Args)]
pub(super) struct Diff {
    #[command(flatten)]
    directories: Directories,

    /// The state from which to go: that after this transaction
    #[arg(value_name = "ZXID", value_parser = moment::zxid)]
    from: Zxid,

    /// The state to compare with it; it may be an older one
    #[arg(value_name = "ZXID", value_parser = moment::zxid)]
    to: Zxid,

    /// Only this znode and its descendants
    #[arg(value_name = "PATH", default_value = "/", value_parser = znode)]
    path: ZPath,

    /// Print JSON, a line for each difference, with all there is
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(super) fn run(self) -> Result<ExitCode, DataError> {
        let config = self.directories.config();
        require_files(&config)?;
        let history = History::open(&config)?;
        let [from, to] = [self.from, self.to].map(|zxid| history.past(Until::Zxid(zxid)));
        let (from, to) = (from?.state(), to?.state());
        let mut out = BufWriter::new(io::stdout());
        let wanted = |znodes: Vec<_>| -> Vec<&Znode> {
            let is_wanted = |znode: &&Znode| is_at_or_below(&znode.path, self.path.as_str());
            znodes.into_iter().filter(is_wanted).collect()
        };
        let (before, after) = (wanted(from.znodes()), wanted(to.znodes()));
        if before.is_empty() && after.is_empty() && !self.path.is_root() {
            let path = self.path.as_str().to_owned();
            return Err(DataError::NoZnodeAtEither(path, self.from, self.to));
        }
        for (before, after) in pairs(&before, &after) {
            let line = match (before, after) {
                (Some(before), Some(after)) if is_same(before, after) => continue,
                _ if self.json => value(before, after).to_string(),
                _ => text(before, after),
            };
            writeln!(out, "{line}")?;
        }
        if self.path.is_root() {
            self.sessions(&from.sessions(), &to.sessions(), &mut out)?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    fn sessions<T: Ord + Copy + std::fmt::Display>(
        &self,
        from: &[(T, i32)],
        to: &[(T, i32)],
        out: &mut impl Write,
    ) -> Result<(), DataError> {
        let known = |list: &[(T, i32)]| list.iter().map(|(session, _)| *session).collect();
        let (before, after): (BTreeSet<T>, BTreeSet<T>) = (known(from), known(to));
        let gone = from.iter().filter(|(session, _)| !after.contains(session)).map(|it| ("-", it));
        let new = to.iter().filter(|(session, _)| !before.contains(session)).map(|it| ("+", it));
        for (sign, (session, timeout_ms)) in gone.chain(new) {
            if self.json {
                let change = if sign == "+" { "created" } else { "deleted" };
                let session = session.to_string();
                let line =
                    json!({ "change": change, "session": session, "timeout_ms": timeout_ms });
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "{sign} session {session} for {timeout_ms} ms")?;
            }
        }
        Ok(())
    }
}

/// The znodes of both states by their paths, in whose order they are.
fn pairs<'a>(from: &[&'a Znode], to: &[&'a Znode]) -> Vec<(Option<&'a Znode>, Option<&'a Znode>)> {
    let (mut from, mut to) = (from.iter().copied().peekable(), to.iter().copied().peekable());
    let mut pairs = Vec::new();
    loop {
        let order = match (from.peek(), to.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => before.path.cmp(&after.path),
        };
        let before = if order.is_le() { from.next() } else { None };
        let after = if order.is_ge() { to.next() } else { None };
        pairs.push((before, after));
    }
}

/// Whether a znode is the same. What its children have changed of it does not count: they are told.
fn is_same(before: &Znode, after: &Znode) -> bool {
    let of = |znode: &Znode| (znode.stat.czxid, znode.stat.mzxid, znode.stat.aversion);
    of(before) == of(after) && before.data == after.data && before.acl == after.acl
}

/// What is different of a znode that both states have.
fn differences(before: &Znode, after: &Znode) -> Vec<&'static str> {
    let (old, new) = (&before.stat, &after.stat);
    [
        (old.czxid != new.czxid, "created again"),
        (before.data != after.data, "data"),
        (before.data == after.data && old.mzxid != new.mzxid, "set to the same data"),
        (before.acl != after.acl || old.aversion != new.aversion, "access control list"),
        (old.ephemeral_owner != new.ephemeral_owner, "owner"),
    ]
    .into_iter()
    .filter_map(|(is_different, what)| is_different.then_some(what))
    .collect()
}

fn text(before: Option<&Znode>, after: Option<&Znode>) -> String {
    let told = |sign: &str, znode: &Znode| {
        let kind = match znode.stat.ephemeral_owner.ephemeral_type() {
            EphemeralType::Ephemeral(session) => format!(", ephemeral of {session}"),
            _ => String::new(),
        };
        let (path, bytes) = (visible(&znode.path), length(znode.data.as_deref()));
        format!("{sign} {path} ({bytes}, version {}{kind})", znode.stat.version)
    };
    match (before, after) {
        (Some(before), Some(after)) => {
            let what = differences(before, after).join(", ");
            let old = (length(before.data.as_deref()), before.stat.version);
            format!("{}: {what}; it was {}, version {}", told("~", after), old.0, old.1)
        }
        (Some(before), None) => told("-", before),
        (None, Some(after)) => told("+", after),
        (None, None) => String::new(),
    }
}

fn value(before: Option<&Znode>, after: Option<&Znode>) -> Value {
    let line = |znode: &Znode| {
        let path = znode.path.to_string();
        json::ZnodeLine::new(path, znode.data.as_deref(), znode.acl.entries(), &znode.stat)
    };
    let change = match (before, after) {
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "deleted",
        _ => "created",
    };
    let what = before.zip(after).map(|(before, after)| differences(before, after));
    json!({
        "change": change,
        "path": before.or(after).map(|znode| znode.path.to_string()),
        "what": what,
        "before": before.map(line),
        "after": after.map(line),
    })
}
