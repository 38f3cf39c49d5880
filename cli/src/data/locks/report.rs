//! The report on locks, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use zoolet_server::storage::history::Moment;

use super::hold::{Aborted, Held, Hold, Left, Lock, Waiter, elapsed_ms};
use super::others::OthersCount;
use super::times::{Times, span};
use super::watch::Watch;
use crate::cli::output::visible;
use crate::counted::counted;
use crate::data::clients::Clients;
use crate::data::json;
use crate::data::replay::Span;

/// How many locks the text has. The JSON has all that are kept.
const LOCKS_SHOWN_MAX: usize = 100;

/// How many of those that wait at the end it has of each lock.
const WAITERS_SHOWN_MAX: usize = 5;

/// What happened at all locks.
pub(super) struct Report<'a> {
    pub(super) top: &'a str,
    pub(super) span: Span,
    /// Those with the longest waits together come first.
    pub(super) locks: Vec<Told>,
    others: Option<(OthersCount, Lock)>,
    pub(super) clients: &'a Clients,
}

/// One lock.
pub(super) struct Told {
    pub(super) path: String,
    pub(super) lock: Lock,
    /// How many wait at the end.
    pub(super) waiting: u64,
    /// Those of them that have waited longest.
    pub(super) waiters: Vec<Waiter>,
    /// Whether what happened at it before is told with others. `None` if that is not known.
    pub(super) has_more: Option<bool>,
}

impl Told {
    /// What is not told of it.
    pub(super) fn lack(&self) -> Option<&'static str> {
        match self.has_more {
            Some(false) => None,
            Some(true) => Some("Its earlier holds are told together with those of other locks."),
            None => Some("Earlier holds of it may be told together with those of other locks."),
        }
    }
}

impl OthersCount {
    fn text(self, beside: u64) -> String {
        let at_least = if self.is_at_least { "at least " } else { "" };
        format!("{at_least}{}", counted(self.locks + beside, "lock"))
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(top: &'a str, span: Span, watch: Watch<'_>, clients: &'a Clients) -> Self {
        let (mut locks, others) = watch.into_told();
        let end_ms = span.last.map_or(0, |last| last.time_ms);
        let weight = |Told { lock, waiters, .. }: &Told| {
            let still = waiters.iter().map(|it| elapsed_ms(it.asked_ms, end_ms).cast_unsigned());
            let over = lock.waits.sum_ms().saturating_add(lock.aborted.sum_ms());
            still.fold(over, |sum, ms| sum.saturating_add(ms))
        };
        locks.sort_by_key(|told| std::cmp::Reverse((weight(told), told.lock.holds)));
        Self { top, span, locks, others, clients }
    }

    /// Whether there was no lock.
    pub(super) fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.others.is_none()
    }

    /// The report in a sentence.
    pub(super) fn summary(&self) -> String {
        let apart = self.locks.len() as u64;
        let locks = match &self.others {
            Some((others, _)) => others.text(apart),
            None => counted(apart, "lock"),
        };
        let sum = |of: fn(&Lock) -> u64| {
            let others = self.others.iter().map(|(_, lock)| of(lock));
            self.locks.iter().map(|told| of(&told.lock)).chain(others).sum()
        };
        let (holds, aborted) = (sum(|lock| lock.holds), sum(|lock| lock.aborted.count));
        let expired = counted(sum(|lock| lock.expired), "lock");
        format!(
            "{locks}, {}, {} aborted; {expired} lost by a session that expired. {}.",
            counted(holds, "hold"),
            counted(aborted, "wait"),
            self.span
        )
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.summary());
        for told in self.locks.iter().take(LOCKS_SHOWN_MAX) {
            self.lock(told, &mut text);
        }
        if let Some(more) = self.locks.len().checked_sub(LOCKS_SHOWN_MAX).filter(|more| *more > 0) {
            let more = counted(more as u64, "more lock");
            let _ = writeln!(text, "\n{more} with shorter waits: name a PATH, or use --json");
        }
        if let Some((others, lock)) = &self.others {
            let (count, holds) = (others.text(0), counted(lock.holds, "hold"));
            let again = match others.again {
                0 => String::new(),
                again => format!(", and what {again} of the other locks had before"),
            };
            let _ = writeln!(text, "\n{count} with few holds each{again}, told together: {holds}");
        }
        text
    }

    fn lock(&self, told: &Told, text: &mut String) {
        let Told { path, lock, waiting, .. } = told;
        let mut line = |line: &str| {
            let _ = writeln!(text, "{line}");
        };
        line(&format!("\n{}  {}", visible(path), lock.recipe.text()));
        let now = self.at_end(lock);
        let holds = counted(lock.holds, "hold");
        line(&format!("  {holds}; {now}, {waiting} wait"));
        for waiter in self.waiting_at_end(told) {
            line(&format!("    {waiter}"));
        }
        if let Some(lack) = told.lack() {
            line(&format!("  {lack}"));
        }
        for (name, times) in rows(lock) {
            if let Some(times) = times.text() {
                line(&format!("  {name:<16}{times}"));
            }
        }
        let handed = counted(lock.handed_over, "hand-over");
        line(&format!(
            "  {handed} to one that waited; {} after a time without a holder",
            lock.free.count
        ));
        if lock.aborted.count > 0 {
            let (count, by_end) = (counted(lock.aborted.count, "wait"), lock.aborted_by_end);
            line(&format!("  {count} aborted, {by_end} of them by the end of a session"));
        }
        if lock.removed > 0 {
            line(&format!("  {} ended by another session", counted(lock.removed, "hold")));
        }
        for (what, holds) in [("held", &lock.longest_held), ("waited", &lock.longest_waited)] {
            if let Some(hold) = holds.first() {
                let ms = if what == "held" { hold.held_ms() } else { hold.waited_ms() };
                let longest = span(u64::try_from(ms.unwrap_or(0)).unwrap_or(0));
                let by = self.clients.text(hold.held.session);
                line(&format!("  longest {what}: {longest} by {by} until {}", at(hold.until)));
            }
        }
        if lock.expired > 0 {
            let count = counted(lock.expired, "hold");
            line(&format!("  {count} ended by an expiry:"));
        }
        for hold in &lock.expiries {
            line(&format!("    {}", self.expiry(hold)));
        }
    }

    /// Who holds a lock at the end.
    pub(super) fn at_end(&self, lock: &Lock) -> String {
        match &lock.holders()[..] {
            [] => "nobody holds it at the end".to_owned(),
            [(_, first)] => format!("{} holds it at the end", self.clients.text(first.session)),
            [(_, first), more @ ..] => {
                let (first, more) = (self.clients.text(first.session), more.len());
                format!("{first} and {more} more hold it at the end")
            }
        }
    }

    /// Who waits for a lock at the end, and since when.
    pub(super) fn waiting_at_end(&self, told: &Told) -> Vec<String> {
        let shown = told.waiters.iter().take(WAITERS_SHOWN_MAX);
        let mut lines: Vec<String> = shown.clone().map(|waiter| self.waiter(waiter)).collect();
        let more = told.waiting.saturating_sub(shown.len() as u64);
        if more > 0 && !lines.is_empty() {
            lines.push(format!("and {more} more"));
        }
        lines
    }

    fn waiter(&self, waiter: &Waiter) -> String {
        let (by, since) = (self.clients.text(waiter.session), json::time(waiter.asked_ms));
        format!("{by} has waited {}, since {since}", span(self.still_waited_ms(waiter)))
    }

    /// How long a place that waits at the end had waited then.
    pub(super) fn still_waited_ms(&self, waiter: &Waiter) -> u64 {
        let end_ms = self.span.last.map_or(waiter.asked_ms, |last| last.time_ms);
        elapsed_ms(waiter.asked_ms, end_ms).cast_unsigned()
    }

    /// At which expiry the lock changed hands.
    pub(super) fn expiry(&self, hold: &Hold) -> String {
        let from = self.clients.text(hold.held.session);
        let next = match (hold.next, hold.left) {
            (Some(next), _) => format!("{} had it next", self.clients.text(next)),
            (None, Left { holding: 0, waiting: 0 }) => "nobody waited".to_owned(),
            (None, Left { holding: 0, waiting }) => format!("{waiting} waited on"),
            (None, Left { holding, waiting }) => {
                format!("{} held on, {waiting} waited", counted(holding, "other"))
            }
        };
        let held = match hold.held_ms() {
            Some(ms) => format!(" after {}", span(u64::try_from(ms).unwrap_or(0))),
            None => String::new(),
        };
        format!("{}: {from} lost it{held}; {next}", at(hold.until))
    }

    pub(super) fn json(&self) -> Value {
        let moment = |moment: Option<Moment>| {
            moment.map(|it| json!({ "zxid": it.zxid.to_string(), "time": json::time(it.time_ms) }))
        };
        let locks = self.locks.iter().map(|told| self.lock_json(told));
        json!({
            "path": self.top,
            "from": moment(self.span.first),
            "to": moment(self.span.last),
            "locks": locks.collect::<Vec<_>>(),
            "others": self.others.as_ref().map(|(count, lock)| json!({
                "locks": count.locks,
                "locks_at_least": count.is_at_least,
                "told_again": count.again,
                "holds": lock.holds,
                "expired": lock.expired,
            })),
        })
    }

    fn lock_json(&self, told: &Told) -> Value {
        let Told { path, lock, waiting, waiters, has_more } = told;
        let value = |hold: &Hold| hold_json(path, hold, self.clients);
        let times: BTreeMap<_, _> = [
            ("waits", &lock.waits),
            ("held", &lock.held),
            ("free", &lock.free),
            ("aborted", &lock.aborted),
        ]
        .into_iter()
        .map(|(name, times)| (name, times.json()))
        .collect();
        let holding: Vec<Value> =
            lock.holders().into_iter().map(|(name, held)| self.held_json(name, held)).collect();
        json!({
            "path": path,
            "recipe": lock.recipe.text(),
            "holds": lock.holds,
            "holding": holding,
            "waiting": waiting,
            "waiters": waiters.iter().map(|it| self.waiter_json(it)).collect::<Vec<_>>(),
            "more_in_others": has_more,
            "times": times,
            "handed_over": lock.handed_over,
            "aborted_by_session_end": lock.aborted_by_end,
            "expired": lock.expired,
            "removed_by_another": lock.removed,
            "longest_held": lock.longest_held.iter().map(value).collect::<Vec<_>>(),
            "longest_waited": lock.longest_waited.iter().map(value).collect::<Vec<_>>(),
            "expiries": lock.expiries.iter().map(value).collect::<Vec<_>>(),
            "recent": lock.recent.iter().map(|it| value(&it)).collect::<Vec<_>>(),
            "recent_aborted": lock.recent_aborted.iter().map(|it| self.aborted_json(&it)).collect::<Vec<_>>(),
        })
    }

    fn held_json(&self, place: &str, held: &Held) -> Value {
        json!({
            "place": place,
            "session": held.session.to_string(),
            "client": self.clients.name(held.session),
            "role": held.role.text(),
            "asked": json::time(held.asked_ms),
            "since": held.since.map(|since| json::time(since.time_ms)),
        })
    }

    fn waiter_json(&self, waiter: &Waiter) -> Value {
        json!({
            "place": waiter.place,
            "session": waiter.session.to_string(),
            "client": self.clients.name(waiter.session),
            "asked": json::time(waiter.asked_ms),
            "waited_ms": self.still_waited_ms(waiter),
        })
    }

    fn aborted_json(&self, aborted: &Aborted) -> Value {
        json!({
            "place": aborted.place,
            "session": aborted.session.to_string(),
            "client": self.clients.name(aborted.session),
            "asked": json::time(aborted.asked_ms),
            "until": json::time(aborted.until.time_ms),
            "until_zxid": aborted.until.zxid.to_string(),
            "cause": aborted.cause.name(),
        })
    }
}

/// The distributions of a lock.
pub(super) fn rows(lock: &Lock) -> [(&'static str, &Times); 4] {
    [
        ("waited", &lock.waits),
        ("held", &lock.held),
        ("gave up after", &lock.aborted),
        ("held by nobody", &lock.free),
    ]
}

fn at(moment: Moment) -> String {
    format!("{} ({})", json::time(moment.time_ms), moment.zxid)
}

/// A hold as a line of text.
pub(super) fn hold_text(path: &str, hold: &Hold, clients: &Clients) -> String {
    let ms = |ms: i64| span(u64::try_from(ms).unwrap_or(0));
    let (path, by) = (visible(path), clients.text(hold.held.session));
    let since = match (hold.held.since, hold.held_ms(), hold.waited_ms()) {
        (Some(since), Some(held), Some(waited)) => {
            format!("{}  held {}, waited {}", at(since), ms(held), ms(waited))
        }
        _ => "before the logs".to_owned(),
    };
    let next = hold.next.map(|next| format!(", then {}", clients.text(next))).unwrap_or_default();
    let (until, cause, role) = (at(hold.until), hold.cause.text(), hold.held.role.text());
    format!("{path}  {by}  {role}  from {since}  until {until}: {cause}{next}")
}

/// A hold as JSON.
pub(super) fn hold_json(path: &str, hold: &Hold, clients: &Clients) -> Value {
    json!({
        "path": path,
        "place": hold.place,
        "session": hold.held.session.to_string(),
        "client": clients.name(hold.held.session),
        "role": hold.held.role.text(),
        "asked": json::time(hold.held.asked_ms),
        "since": hold.held.since.map(|since| json::time(since.time_ms)),
        "since_zxid": hold.held.since.map(|since| since.zxid.to_string()),
        "until": json::time(hold.until.time_ms),
        "until_zxid": hold.until.zxid.to_string(),
        "waited_ms": hold.waited_ms(),
        "held_ms": hold.held_ms(),
        "cause": hold.cause.name(),
        "next": hold.next.map(|next| next.to_string()),
        "still_holding": hold.left.holding,
        "still_waiting": hold.left.waiting,
    })
}
