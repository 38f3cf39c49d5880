//! What the members of a fleet write down of each attempt to take a lock, for a comparison with what the files of
//! the server tell of it.
//!
//! A member appends lines `WHO SESSION KIND EVENT TIME` to the file `entries`. The time is in microseconds since
//! 1970. `asks` is before the attempt, and `has` or `gives-up` behind it; `releases` is before the release, and
//! `released` behind it. So the transaction that begins a hold lies between `asks` and `has`, and the one that ends
//! it between `releases` and `released`.
//!
//! After the line `keep KIND` the member prints `keeps` when it has a lock of this kind, and keeps it until it is
//! killed. After `leave KIND` it closes its session with the lock held, between `closes` and `closed`, and prints
//! `leaves`.

use std::collections::BTreeMap;
use std::io;

use rustix::time::{ClockId, clock_gettime};

/// The time in microseconds since 1970, of the clock that the servers of this machine use too.
#[must_use]
pub fn now_us() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// One attempt of a member. Times are in microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The name of the member.
    pub who: String,
    /// Its session, as `0x` with hexadecimal digits.
    pub session: String,
    /// What it wants: `mutex`, `read`, `write` or `permit`.
    pub kind: String,
    /// Before it asked.
    pub asks: i64,
    /// When it learned of the outcome.
    pub answered: i64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not let in in time.
    GaveUp,
    /// It held the lock, and released it between these times.
    Released(i64, i64),
    /// It held the lock, and closed its session between these times.
    Closed(i64, i64),
    /// It held the lock when it was killed.
    Killed,
}

impl Attempt {
    /// Reads what the members of a fleet have written. An attempt whose outcome its member did not learn, since it
    /// was killed, is left out.
    ///
    /// # Errors
    ///
    /// If a line is none that a member writes there.
    pub fn read_all(written: &str) -> io::Result<Vec<Self>> {
        let mut of_members: BTreeMap<&str, Vec<Event<'_>>> = BTreeMap::new();
        for line in written.lines() {
            let event = Event::read(line);
            let event = event.ok_or_else(|| io::Error::other(format!("{line:?} is no event")))?;
            of_members.entry(event.who).or_default().push(event);
        }
        let mut attempts = Vec::new();
        for events in of_members.values() {
            for one in events.split_inclusive(Event::is_last) {
                let wrong = || io::Error::other(format!("{one:?} is no attempt"));
                attempts.extend(Self::read(one).map_err(|()| wrong())?);
            }
        }
        Ok(attempts)
    }

    fn read(events: &[Event<'_>]) -> Result<Option<Self>, ()> {
        let names: Vec<_> = events.iter().map(|event| event.name).collect();
        let at = |index: usize| events[index].at;
        let outcome = match names[..] {
            ["asks"] => return Ok(None),
            ["asks", "gives-up"] => Outcome::GaveUp,
            ["asks", "has"] => Outcome::Killed,
            ["asks", "has", "releases", "released"] => Outcome::Released(at(2), at(3)),
            ["asks", "has", "closes", "closed"] => Outcome::Closed(at(2), at(3)),
            _ => return Err(()),
        };
        let Event { who, session, kind, .. } = events[0];
        Ok(Some(Self {
            who: who.to_owned(),
            session: session.to_owned(),
            kind: kind.to_owned(),
            asks: at(0),
            answered: at(1),
            outcome,
        }))
    }
}

#[derive(Debug)]
struct Event<'a> {
    who: &'a str,
    session: &'a str,
    kind: &'a str,
    name: &'a str,
    at: i64,
}

impl<'a> Event<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let fields: Vec<_> = line.split(' ').collect();
        let [who, session, kind, name, at] = fields[..] else { return None };
        Some(Self { who, session, kind, name, at: at.parse().ok()? })
    }

    fn is_last(&self) -> bool {
        matches!(self.name, "gives-up" | "released" | "closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_read_with_what_became_of_them() {
        let written = "\
a 0x1 mutex asks 10
b 0x2 mutex asks 11
a 0x1 mutex has 12
b 0x2 mutex gives-up 13
a 0x1 mutex releases 14
a 0x1 mutex released 15
b 0x2 mutex asks 16
b 0x2 mutex has 17
a 0x1 mutex asks 18
";
        let attempts = Attempt::read_all(written).unwrap();
        let outcomes: Vec<_> = attempts.iter().map(|it| (it.asks, it.outcome)).collect();
        let expected =
            [(10, Outcome::Released(14, 15)), (11, Outcome::GaveUp), (16, Outcome::Killed)];
        assert_eq!(outcomes, expected);
    }

    #[test]
    fn what_no_member_writes_is_refused() {
        for written in ["a 0x1 mutex asks", "a 0x1 mutex released 5", "a 0x1 mutex asks now"] {
            assert!(Attempt::read_all(written).is_err(), "{written}");
        }
    }
}
