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
/// The rank of what follows from a fault.
const AFTER_FAULT: usize = 2;
/// How many of the last events are told of whoever violates a check: what it saw.
const LAST_OF_VIOLATOR: usize = 4;
/// The most lines that a machine repeats together.
const REPEATED_MAX: usize = 6;

/// The story of a run.
pub(super) struct Story {
    pub(super) lines: Vec<String>,
    /// How many events the lines tell, also those that were repeated.
    told: usize,
    /// How many there are, without replies that everything went well.
    events: usize,
}

impl Story {
    /// How much of the run the lines tell, to be added to a sentence.
    pub(super) fn share(&self) -> String {
        match self.told < self.events {
            true => format!(" ({} of {} events)", self.told, self.events),
            false => String::new(),
        }
    }
}

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

    /// All events with their ranks. After a fault the next lost connection of each machine that it
    /// concerns matters as much, and the next session or reconnect.
    fn of_all<'e>(&self, entries: &'e [Entry]) -> Vec<Ranked<'e>> {
        let (mut closes, mut connects) = (BTreeSet::new(), BTreeSet::new());
        let machines = || (0..self.names.len()).map(Lane::Machine);
        let ranked = entries.iter().map(|entry| {
            let follows = match &entry.what {
                What::Fault { .. } => {
                    let concerned: Vec<_> = match entry.lane {
                        Lane::Server => machines().collect(),
                        machine => vec![machine],
                    };
                    closes.extend(concerned.iter().copied());
                    connects.extend(concerned);
                    false
                }
                What::Disconnected => closes.remove(&entry.lane),
                What::Session { .. } | What::SessionOver => connects.remove(&entry.lane),
                _ => false,
            };
            let rank = self.rank(entry);
            let rank = if follows { rank.min(AFTER_FAULT) } else { rank };
            Ranked { entry, rank }
        });
        ranked.collect()
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
            Lane::Machine(index) if index >= self.names.len() && rank > 0 => LAST_RANK,
            _ => rank,
        }
    }
}

fn is_good_reply(what: &What) -> bool {
    matches!(what, What::Reply { code: ErrorCode::OK, .. })
}

pub(super) fn is_write(text: &str) -> bool {
    // With what follows: a `multiRead` is none.
    ["delete ", "setData ", "setACL ", "multi: "].iter().any(|op| text.starts_with(op))
}

/// An event, and how much it matters: the least number matters most.
#[derive(Clone, Copy)]
struct Ranked<'a> {
    entry: &'a Entry,
    rank: usize,
}

/// An event, and how often it was repeated before.
struct Told<'a> {
    event: Ranked<'a>,
    times: usize,
}

/// The events of a rank, or that matter more. What a machine repeats, one line or some in their order,
/// while nothing else happens to it, is told once: the last time, with their number.
fn at_least<'a>(events: &[Ranked<'a>], most: usize) -> Vec<Told<'a>> {
    let mut told: Vec<Option<Told<'a>>> = Vec::new();
    let mut recent: BTreeMap<Lane, Recent> = BTreeMap::new();
    for event in events {
        let lane = event.entry.lane;
        // Also by what is not told: what was before is not the same as what is after.
        if interrupts(&event.entry.what) {
            recent.retain(|other, _| lane != Lane::Server && *other != lane);
        }
        if event.rank > most {
            continue;
        }
        told.push(Some(Told { event: *event, times: 1 }));
        if event.rank <= ALWAYS_TOLD {
            recent.remove(&lane);
            continue;
        }
        let recent = recent.entry(lane).or_default();
        recent.push(told.len() - 1, text(&event.entry.what));
        for (before, after) in recent.fold_repeated() {
            let before = told[before].take().map_or(0, |told| told.times);
            if let Some(after) = &mut told[after] {
                after.times += before;
            }
        }
    }
    told.into_iter().flatten().collect()
}

/// The last lines about a machine since something else happened to it: where they are, and their texts.
#[derive(Default)]
struct Recent(Vec<(usize, String)>);

impl Recent {
    fn push(&mut self, index: usize, text: String) {
        self.0.push((index, text));
    }

    /// Leaves out the lines that were repeated by the last ones, and returns where these lines are, each
    /// with the one that repeats it.
    fn fold_repeated(&mut self) -> Vec<(usize, usize)> {
        let is_repeated = |count: &usize| {
            let Some(start) = self.0.len().checked_sub(2 * count) else { return false };
            let (before, after) = self.0[start..].split_at(*count);
            before.iter().map(|(_, text)| text).eq(after.iter().map(|(_, text)| text))
        };
        let Some(count) = (1..=REPEATED_MAX).find(is_repeated) else { return Vec::new() };
        let after = self.0.split_off(self.0.len() - count);
        let before = self.0.split_off(self.0.len() - count);
        let pairs = before.iter().zip(&after).map(|((before, _), (after, _))| (*before, *after));
        let pairs = pairs.collect();
        self.0.extend(after);
        pairs
    }
}

/// Whether an event interrupts what a machine repeats: that of its own lane, or of all by the server.
fn interrupts(what: &What) -> bool {
    !matches!(what, What::Request { .. } | What::Reply { .. } | What::Event { .. })
}

/// The story, as much of it as fits.
pub(super) fn tell(entries: &[Entry], names: &[String]) -> Story {
    let events = Ranks::new(entries, names).of_all(entries);
    let mut chosen: Vec<Told<'_>> = Vec::new();
    for most in 0..=LAST_RANK {
        let next = at_least(&events, most);
        if next.len() <= LINES_MAX && (most <= LAST_TELLING_RANK || next.len() <= FEW_LINES) {
            chosen = next;
            continue;
        }
        if most <= LAST_TELLING_RANK {
            chosen = the_last(next, |told| told.event.rank < most);
        }
        break;
    }
    let line = |told: &Told<'_>| match told.times {
        1 => line(told.event.entry, names),
        times => format!("{} ({times} times)", line(told.event.entry, names)),
    };
    Story {
        lines: chosen.iter().map(line).collect(),
        told: chosen.iter().filter(|it| is_event(it.event.entry)).map(|it| it.times).sum(),
        events: entries.iter().filter(|entry| is_event(entry)).count(),
    }
}

/// Whether an entry tells more than that a request was carried out.
fn is_event(entry: &Entry) -> bool {
    !is_good_reply(&entry.what)
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
    // A panic may have several lines.
    let text = text(&entry.what);
    let text: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    format!("{:>6} ms  {who:<10}  {}", entry.ms, text.join(" "))
}

pub(super) fn name(lane: Lane, names: &[String]) -> &str {
    match lane {
        Lane::Machine(index) => names.get(index).map_or("check", String::as_str),
        Lane::Server => "server",
    }
}

/// What happened, as a clause about the one who did it.
pub(super) fn text(what: &What) -> String {
    match what {
        What::Request { text, .. } => text.clone(),
        What::Reply { text, code } if *code == ErrorCode::OK => format!("reply to {text}"),
        What::Reply { text, code } => format!("reply to {text}: {code}"),
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

#[cfg(test)]
mod tests {
    use zoolet_protocol::{OpCode, SessionId};

    use super::*;

    fn entry(ms: u64, lane: Lane, what: What) -> Entry {
        Entry { ms, lane, what }
    }

    fn polls(ms: u64) -> Entry {
        let what = What::Request { op: OpCode::SET_DATA, text: "setData /a".to_owned() };
        entry(ms, Lane::Machine(0), what)
    }

    fn told(events: Vec<Entry>) -> Vec<String> {
        tell(&events, &["worker-0".to_owned(), "worker-1".to_owned()]).lines
    }

    #[test]
    fn what_a_machine_repeats_is_told_once_but_not_across_what_happens_to_it() {
        let session = SessionId(7);
        let fault = What::Fault { text: "it stands still".to_owned(), for_ms: Some(5) };
        let again = What::Session { session, is_new: false, server: None };
        let entered = What::Entered { section: "stock".to_owned(), number: 1, token: None };
        let left = What::Left { section: "stock".to_owned(), number: 1 };
        let state = What::State("is killed".to_owned());
        for (lane, between) in [
            (Lane::Machine(0), fault.clone()),
            (Lane::Machine(0), again),
            (Lane::Machine(0), What::Disconnected),
            (Lane::Machine(0), What::SessionOver),
            (Lane::Machine(0), entered),
            (Lane::Machine(0), left),
            (Lane::Server, fault),
            (Lane::Server, state),
        ] {
            let text = text(&between);
            let story = told(vec![polls(1), polls(2), entry(3, lane, between), polls(4)]);
            let polls: Vec<_> = story.iter().filter(|line| line.contains("setData")).collect();
            assert_eq!(polls.len(), 2, "{text}: {story:?}");
            assert!(polls[0].ends_with("setData /a (2 times)"), "{story:?}");
        }
        let other = entry(3, Lane::Machine(1), What::Note("a note of another".to_owned()));
        let story = told(vec![polls(1), other, polls(4)]);
        assert_eq!(story.iter().filter(|line| line.contains("setData")).count(), 1, "{story:?}");
    }

    #[test]
    fn lines_are_repeated_together_and_only_in_their_order() {
        let of = |text: &str| {
            let what = What::Request { op: OpCode::SET_DATA, text: format!("setData /{text}") };
            entry(1, Lane::Machine(0), what)
        };
        let folded = |text: &str| -> String {
            let story = told(text.chars().map(|c| of(&c.to_string())).collect());
            let lines = story.iter().filter_map(|line| line.split_once('/'));
            lines.map(|(_, rest)| rest.replace(" times", "")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(folded("abcdea"), "a b c d e a");
        assert_eq!(folded("abababa"), "a (3) b (3) a");
        assert_eq!(folded("xaaab"), "x a (3) b");
        assert_eq!(folded("abcabcx"), "a (2) b (2) c (2) x");
    }

    #[test]
    fn how_much_is_left_out_is_told() {
        let all = |count: u64| {
            let create = |ms| {
                let what = What::Request { op: OpCode::CREATE, text: format!("create /{ms}") };
                entry(ms, Lane::Machine(0), what)
            };
            tell(&(0..count).map(create).collect::<Vec<_>>(), &["worker-0".to_owned()])
        };
        assert_eq!(all(20).share(), "");
        let long = all(1_000);
        assert_eq!(long.share(), format!(" ({} of 1000 events)", long.lines.len()));
    }

    #[test]
    fn what_follows_from_a_fault_is_told_however_long_the_run_is() {
        let lane = Lane::Machine(1);
        let fault = What::Fault { text: "its connection is cut".to_owned(), for_ms: None };
        let again = What::Session { session: SessionId(7), is_new: false, server: None };
        let mut events = vec![
            entry(1, lane, What::Disconnected),
            entry(2, lane, fault),
            entry(3, lane, What::Disconnected),
            entry(4, lane, again.clone()),
            entry(5, lane, again),
        ];
        for ms in 10..100 {
            let what = What::Request { op: OpCode::CREATE, text: format!("create /{ms}") };
            events.push(entry(ms, Lane::Machine(0), what));
        }
        let story = told(events);
        assert_eq!(story.iter().filter(|line| line.contains("is closed")).count(), 1, "{story:?}");
        assert!(
            story[1].contains("is closed") && story[2].contains("connected again"),
            "{story:?}"
        );
        assert!(story.len() <= LINES_MAX, "{story:?}");
    }

    #[test]
    fn an_event_is_one_line() {
        let text = "worker-0 panicked: assertion failed\n  left: 1\n right: 2".to_owned();
        let story = told(vec![entry(1, Lane::Machine(0), What::Violation(text))]);
        assert!(story[0].ends_with("assertion failed left: 1 right: 2"), "{story:?}");
    }
}
