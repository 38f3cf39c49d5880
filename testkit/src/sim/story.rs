//! The story of a run: what matters of its events, one a line.

use std::collections::BTreeMap;

use zoolet_protocol::{ErrorCode, SessionId, Zxid};

use super::record::{Entry, Lane, What};

/// The most lines of a story.
const LINES_MAX: usize = 28;

/// The greatest rank.
const LAST_RANK: usize = 7;
/// Events up to this rank are told however often they are repeated.
const ALWAYS_TOLD: usize = 2;

/// How much an event matters; the least number matters most.
fn rank(what: &What) -> usize {
    match what {
        What::Violation(_) => 0,
        What::Fault { .. } | What::Entered { .. } | What::Left { .. } | What::Note(_) => 1,
        What::State(_) | What::SessionOver | What::Session { is_new: true, .. } => 2,
        What::Request { op, .. } if op.is_create() => 3,
        What::Reply { code, .. } if *code != ErrorCode::OK => 3,
        What::Request { text, .. } if is_write(text) => 3,
        What::Event { .. } => 4,
        What::Session { .. } | What::Disconnected => 5,
        What::Request { .. } => 6,
        What::Reply { .. } => 7,
    }
}

fn is_write(text: &str) -> bool {
    ["delete", "setData", "multi"].iter().any(|op| text.starts_with(op))
}

/// An event, and how often it was repeated before.
struct Told<'a> {
    entry: &'a Entry,
    times: usize,
}

/// The events of a rank, or that matter more. What a machine repeats until something happens to it is
/// told once, the last time.
fn at_least<'a>(entries: &'a [Entry], most: usize) -> Vec<Told<'a>> {
    let mut told: Vec<Option<Told<'a>>> = Vec::new();
    let mut repeated: BTreeMap<(Lane, String), usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| rank(&entry.what) <= most) {
        let mut times = 1;
        if rank(&entry.what) <= ALWAYS_TOLD {
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
    let mut chosen: Vec<Told<'_>> = Vec::new();
    for most in 0..=LAST_RANK {
        let next = at_least(entries, most);
        if next.len() > LINES_MAX {
            // Of the first rank that does not fit, those that are next to the violation.
            let mut room = LINES_MAX.saturating_sub(chosen.len());
            let mut kept = Vec::new();
            for entry in next.into_iter().rev() {
                if rank(&entry.entry.what) < most {
                    kept.push(entry);
                } else if room > 0 {
                    room -= 1;
                    kept.push(entry);
                }
            }
            kept.reverse();
            if kept.len() > LINES_MAX {
                kept.drain(..kept.len() - LINES_MAX);
            }
            chosen = kept;
            break;
        }
        chosen = next;
    }
    let line = |told: &Told<'_>| match told.times {
        1 => line(told.entry, names),
        times => format!("{} ({times} times)", line(told.entry, names)),
    };
    chosen.iter().map(line).collect()
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
        What::Session { session, is_new: true } => format!("session {} begins", session_id(*session)),
        What::Session { session, is_new: false } => {
            format!("connected again, session {} lives", session_id(*session))
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

fn session_id(session: SessionId) -> String {
    format!("{:#x}", session.0)
}
