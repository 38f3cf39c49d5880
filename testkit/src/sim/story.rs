//! The story of a run: what matters of its events, one a line.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_protocol::{ErrorCode, Zxid};

use super::record::{Entry, Lane, What};

/// The most lines of a story.
const LINES_MAX: usize = 28;

/// A story with no more lines than this has room for what matters least.
const FEW_LINES: usize = 14;
/// Events up to this rank are told where there is room.
const LAST_TELLING_RANK: usize = 5;
/// The greatest rank.
const LAST_RANK: usize = 8;
/// Events up to this rank are told however often they are repeated.
const ALWAYS_TOLD: usize = 2;
/// How many of the last events are told of whoever violates a check: what it saw.
const LAST_OF_VIOLATOR: usize = 4;

/// Which events matter, and how much.
struct Ranks<'a> {
    names: &'a [String],
    /// The sections that machines are in at the violation, by their numbers.
    open: BTreeSet<u64>,
    /// When the first of these was entered.
    since_ms: u64,
    violator: Option<Lane>,
    /// When the last events of the violator begin.
    last_ms: u64,
}

impl<'a> Ranks<'a> {
    fn new(entries: &[Entry], names: &'a [String]) -> Self {
        let mut open = BTreeMap::new();
        for entry in entries {
            match &entry.what {
                What::Entered { number, .. } => drop(open.insert(*number, entry.ms)),
                What::Left { number, .. } => drop(open.remove(number)),
                _ => {}
            }
        }
        let since_ms = open.values().copied().min().unwrap_or(u64::MAX);
        let violation = entries.iter().find(|entry| matches!(entry.what, What::Violation(_)));
        let violator = violation.map(|entry| entry.lane).filter(|lane| *lane != Lane::Server);
        let is_its = |entry: &&Entry| Some(entry.lane) == violator && !is_good_reply(&entry.what);
        let its = entries.iter().rev().filter(is_its);
        let last_ms = its.take(1 + LAST_OF_VIOLATOR).map(|entry| entry.ms).last();
        let last_ms = last_ms.unwrap_or(u64::MAX);
        Self { names, open: open.into_keys().collect(), since_ms, violator, last_ms }
    }

    /// The least number matters most.
    fn rank(&self, entry: &Entry) -> usize {
        let (rank, is_its) = (self.rank_of_kind(entry), Some(entry.lane) == self.violator);
        let is_last = is_its && entry.ms >= self.last_ms && rank < LAST_RANK;
        if is_last { rank.min(ALWAYS_TOLD) } else { rank }
    }

    /// What it matters by what it is.
    fn rank_of_kind(&self, entry: &Entry) -> usize {
        let rank = match &entry.what {
            What::Violation(_) => 0,
            What::Fault { .. } | What::Note(_) => 1,
            What::Entered { number, .. } if self.open.contains(number) => 1,
            What::Entered { .. } | What::Left { .. } if entry.ms >= self.since_ms => 2,
            What::State(_) | What::SessionOver | What::Session { is_new: true, .. } => 2,
            What::Entered { .. } | What::Left { .. } => 3,
            What::Request { op, .. } if op.is_create() => 4,
            What::Reply { code, .. } if *code != ErrorCode::OK => 4,
            What::Request { text, .. } if is_write(text) => 4,
            What::Event { .. } => 5,
            What::Session { .. } | What::Disconnected => 6,
            What::Request { .. } => 7,
            What::Reply { .. } => LAST_RANK,
        };
        match entry.lane {
            // What prepares and checks the run matters less.
            Lane::Machine(place) if place >= self.names.len() && rank > 0 => LAST_RANK,
            _ => rank,
        }
    }
}

fn is_good_reply(what: &What) -> bool {
    matches!(what, What::Reply { code: ErrorCode::OK, .. })
}

pub(super) fn is_write(text: &str) -> bool {
    ["delete", "setData", "multi"].iter().any(|op| text.starts_with(op))
}

/// An event, and how often it was repeated before.
struct Told<'a> {
    entry: &'a Entry,
    times: usize,
}

/// The events of a rank, or that matter more. What a machine repeats until something happens to it is
/// told once, the last time.
fn at_least<'a>(entries: &'a [Entry], ranks: &Ranks<'_>, most: usize) -> Vec<Told<'a>> {
    let mut told: Vec<Option<Told<'a>>> = Vec::new();
    let mut repeated: BTreeMap<(Lane, String), usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| ranks.rank(entry) <= most) {
        let mut times = 1;
        if ranks.rank_of_kind(entry) <= ALWAYS_TOLD {
            repeated.retain(|(lane, _), _| *lane != entry.lane);
        } else {
            let key = (entry.lane, text(&entry.what));
            if let Some(before) = repeated.insert(key, told.len())
                && let Some(before) = told[before].take()
            {
                times += before.times;
            }
        }
        told.push(Some(Told { entry, times }));
    }
    told.into_iter().flatten().collect()
}

/// The story, as much of it as fits.
pub(super) fn tell(entries: &[Entry], names: &[String]) -> Vec<String> {
    let ranks = Ranks::new(entries, names);
    let mut chosen: Vec<Told<'_>> = Vec::new();
    for most in 0..=LAST_RANK {
        let next = at_least(entries, &ranks, most);
        if next.len() <= LINES_MAX && (most <= LAST_TELLING_RANK || next.len() <= FEW_LINES) {
            chosen = next;
            continue;
        }
        if most <= LAST_TELLING_RANK {
            chosen = the_last(next, |told| ranks.rank(told.entry) < most);
        }
        break;
    }
    let line = |told: &Told<'_>| match told.times {
        1 => line(told.entry, names),
        times => format!("{} ({times} times)", line(told.entry, names)),
    };
    chosen.iter().map(line).collect()
}

/// As many events as fit: those that matter more, and of the others the last ones.
fn the_last<'a>(all: Vec<Told<'a>>, matters: impl Fn(&Told<'a>) -> bool) -> Vec<Told<'a>> {
    let count = all.iter().filter(|told| matters(told)).count();
    let mut room = LINES_MAX.saturating_sub(count);
    let mut kept = Vec::new();
    for told in all.into_iter().rev() {
        let is_kept = matters(&told) || room > 0;
        if !matters(&told) {
            room = room.saturating_sub(1);
        }
        if is_kept {
            kept.push(told);
        }
    }
    kept.truncate(LINES_MAX);
    kept.reverse();
    kept
}

/// One event.
pub(super) fn line(entry: &Entry, names: &[String]) -> String {
    let who = name(entry.lane, names);
    format!("{:>6} ms  {who:<10}  {}", entry.ms, text(&entry.what))
}

pub(super) fn name(lane: Lane, names: &[String]) -> &str {
    match lane {
        Lane::Machine(place) => names.get(place).map_or("check", String::as_str),
        Lane::Server => "server",
    }
}

/// What happened, as a clause about the one who did it.
pub(super) fn text(what: &What) -> String {
    match what {
        What::Request { text, .. } => text.clone(),
        What::Reply { text, code, .. } if *code == ErrorCode::OK => format!("reply to {text}"),
        What::Reply { text, code, .. } => format!("{text}: {code}"),
        What::Event { event, path } => format!("event {event} {path}"),
        What::Session { session, is_new: true, server } => {
            format!("session {session} begins{}", at(*server))
        }
        What::Session { session, is_new: false, server } => {
            format!("connected again{}, session {session} lives", at(*server))
        }
        What::SessionOver => "learns that its session has expired".to_owned(),
        What::Disconnected => "its connection is closed".to_owned(),
        What::Fault { text, .. } => format!("FAULT: {text}"),
        What::Entered { section, token: Some(token), .. } => {
            format!("ENTERS {section:?} with the token {}", Zxid(*token))
        }
        What::Entered { section, token: None, .. } => format!("ENTERS {section:?}"),
        What::Left { section, .. } => format!("leaves {section:?}"),
        What::Note(text) | What::State(text) => text.clone(),
        What::Violation(text) => format!("VIOLATION: {text}"),
    }
}

fn at(server: Option<usize>) -> String {
    server.map_or_else(String::new, |server| format!(" at server {server}"))
}
