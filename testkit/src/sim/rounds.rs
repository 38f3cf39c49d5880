//! The rounds of one machine: which of them were whole, and whether it had its round without faults.

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::record::Requests;

/// After so many rounds with a section, a machine is expected to enter one in each round in which it
/// tries to acquire something: a single one may be how it begins.
const ROUNDS_INSIDE_IF_USUAL: u32 = 2;

/// How much has happened up to a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Activity {
    /// How often machines have entered sections without faults.
    pub(super) entries: u32,
    /// Whether any machine is in a section.
    pub(super) is_any_inside: bool,
    pub(super) requests: Requests,
}

impl Activity {
    /// Whether nobody was in a section from this moment to a later one.
    fn is_nobody_inside_until(&self, later: &Self) -> bool {
        self.entries == later.entries && !self.is_any_inside && !later.is_any_inside
    }
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundEnd {
    /// The machine has been in a section.
    WithSection,
    WithoutSection,
    /// It is usually in a section, and has tried to create an ephemeral znode, as for a lock; and neither
    /// it nor another has been in one.
    InVain,
    /// The program has ended with an error that faults explain.
    WithError,
}

/// What a program is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was started, and has not begun a round yet.
    #[default]
    Starting,
    InRound,
    /// It was told to begin no other round.
    Ending,
}

/// Whether a machine is tried: it was started again, to see whether it has a whole round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Trial {
    #[default]
    No,
    /// It must not start yet: sessions of its life before are not over.
    Down,
    /// What it does before its first round may be done by each program that starts.
    BeforeRound,
    InRound,
}

/// The rounds of one machine.
#[derive(Default)]
pub(super) struct Rounds {
    inner: Mutex<Inner>,
    /// Notified when it may start for its trial.
    may_start: Notify,
    /// Notified when it had a whole round with a section in its trial.
    passed_trial: Notify,
}

#[derive(Default)]
struct Inner {
    begun: u32,
    stage: Stage,
    /// Whether the program has begun a round itself, and not only by its tasks.
    is_program_heard: bool,
    /// Whether it has been in a section since it began its present round.
    has_been_inside: bool,
    /// Its program has ended with an error since it began its present round.
    has_failed: bool,
    /// In how many rounds it has been in a section.
    with_section: u32,
    /// What had happened when it began its present round.
    seen: Activity,
    calm: Calm,
    /// How many rounds it is still to begin after all machines have had theirs.
    last: u32,
    trial: Trial,
}

/// The rounds that were begun without faults.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Calm {
    /// How many were begun.
    pub(super) begun: u32,
    /// How many were whole from beginning to end.
    pub(super) whole: u32,
    /// In how many the machine has tried in vain to acquire something.
    pub(super) in_vain: u32,
    /// How often the machine has entered sections.
    pub(super) entries: u32,
}

impl Rounds {
    /// Its program begins, for the first time or again.
    pub(super) fn start(&self) {
        self.inner.lock().stage = Stage::Starting;
    }

    pub(super) fn stage(&self) -> Stage {
        self.inner.lock().stage
    }

    /// The program itself asks whether it is to begin a round, and not one of its tasks.
    pub(super) fn hear_program(&self) {
        self.inner.lock().is_program_heard = true;
    }

    pub(super) fn is_program_heard(&self) -> bool {
        self.inner.lock().is_program_heard
    }

    /// Counts a round. Returns how many there were, and how the last one ended.
    pub(super) fn begin(&self, is_inside: bool, seen: Activity) -> (u32, RoundEnd) {
        let mut inner = self.inner.lock();
        let was_inside = std::mem::replace(&mut inner.has_been_inside, is_inside) || is_inside;
        inner.with_section += u32::from(was_inside);
        inner.begun += 1;
        let before = std::mem::replace(&mut inner.seen, seen);
        let has_tried = before.requests.ephemerals != seen.requests.ephemerals;
        let end = if std::mem::take(&mut inner.has_failed) {
            RoundEnd::WithError
        } else if was_inside {
            RoundEnd::WithSection
        } else if inner.enters_usually() && has_tried && before.is_nobody_inside_until(&seen) {
            RoundEnd::InVain
        } else {
            RoundEnd::WithoutSection
        };
        (inner.begun, end)
    }

    /// It begins a round without faults, after one that was whole or not. That one began with faults if
    /// this is the first.
    pub(super) fn begin_calm(&self, end: RoundEnd, was_whole: bool) {
        let calm = &mut self.inner.lock().calm;
        if calm.begun > 0 {
            calm.whole += u32::from(was_whole);
            calm.in_vain += u32::from(end == RoundEnd::InVain);
        }
        calm.begun += 1;
    }

    pub(super) fn calm(&self) -> Calm {
        self.inner.lock().calm
    }

    /// The program is told whether to begin the round that it asks for.
    pub(super) fn tell(&self, goes_on: bool) {
        self.inner.lock().stage = if goes_on { Stage::InRound } else { Stage::Ending };
    }

    /// Whether it has been in a section in several rounds.
    pub(super) fn enters_usually(&self) -> bool {
        self.inner.lock().enters_usually()
    }

    pub(super) fn begun(&self) -> u32 {
        self.inner.lock().begun
    }

    /// Its program has ended with an error that faults explain.
    pub(super) fn fail(&self) {
        self.inner.lock().has_failed = true;
    }

    pub(super) fn enter(&self, is_calm: bool) {
        let mut inner = self.inner.lock();
        inner.has_been_inside = true;
        inner.calm.entries += u32::from(is_calm);
    }

    /// It is to begin so many more rounds, though all machines have had theirs.
    pub(super) fn add_last(&self, rounds: u32) {
        self.inner.lock().last = rounds;
    }

    /// Whether it is to begin one more round after all machines have had theirs.
    pub(super) fn takes_last(&self) -> bool {
        let last = &mut self.inner.lock().last;
        let left = last.checked_sub(1);
        *last = left.unwrap_or(0);
        left.is_some()
    }

    /// Its program is about to be ended for its trial, and must not start before it is let.
    pub(super) fn hold_for_trial(&self) {
        self.inner.lock().trial = Trial::Down;
    }

    /// Waits until its program may start.
    pub(super) async fn until_let(&self) {
        while self.inner.lock().trial == Trial::Down {
            self.may_start.notified().await;
        }
    }

    /// Lets its program start, and returns when it had a whole round with a section.
    pub(super) async fn pass_trial(&self) {
        self.inner.lock().trial = Trial::BeforeRound;
        self.may_start.notify_one();
        self.passed_trial.notified().await;
    }

    /// Whether it begins a round of its trial, after one that ended in this way.
    pub(super) fn begins_round_of_trial(&self, end: RoundEnd) -> bool {
        let mut inner = self.inner.lock();
        match inner.trial {
            Trial::No | Trial::Down => return false,
            Trial::BeforeRound => inner.trial = Trial::InRound,
            Trial::InRound if end == RoundEnd::WithSection => self.passed_trial.notify_one(),
            Trial::InRound => {}
        }
        true
    }
}

impl Inner {
    fn enters_usually(&self) -> bool {
        self.with_section >= ROUNDS_INSIDE_IF_USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(entries: u32, is_any_inside: bool, ephemerals: u32) -> Activity {
        let requests = Requests { writes: ephemerals, ephemerals, ephemerals_created: 0 };
        Activity { entries, is_any_inside, requests }
    }

    /// A machine that has been in sections before.
    fn entering() -> Rounds {
        let rounds = Rounds::default();
        for _ in 0..ROUNDS_INSIDE_IF_USUAL {
            rounds.enter(true);
            assert_eq!(rounds.begin(false, seen(2, false, 1)).1, RoundEnd::WithSection);
        }
        rounds
    }

    #[test]
    fn a_round_is_in_vain_only_if_nobody_was_in_a_section_all_the_time() {
        for (later, end) in [
            (seen(2, false, 2), RoundEnd::InVain),
            (seen(2, false, 1), RoundEnd::WithoutSection),
            (seen(3, false, 2), RoundEnd::WithoutSection),
            (seen(2, true, 2), RoundEnd::WithoutSection),
        ] {
            assert_eq!(entering().begin(false, later).1, end, "{later:?}");
        }
        let rounds = entering();
        rounds.begin(false, seen(2, true, 2));
        let end = rounds.begin(false, seen(2, false, 3)).1;
        assert_eq!(end, RoundEnd::WithoutSection, "another was inside when it began");
        let new = Rounds::default();
        assert_eq!(new.begin(false, seen(0, false, 9)).1, RoundEnd::WithoutSection);
    }

    #[test]
    fn a_round_with_an_error_is_never_whole_also_with_a_section() {
        let rounds = entering();
        rounds.enter(true);
        rounds.fail();
        assert_eq!(rounds.begin(false, seen(3, false, 2)).1, RoundEnd::WithError);
        rounds.enter(true);
        assert_eq!(rounds.begin(false, seen(4, false, 3)).1, RoundEnd::WithSection);
    }

    #[test]
    fn a_round_that_began_with_faults_is_not_counted_as_one_without() {
        let rounds = Rounds::default();
        rounds.begin_calm(RoundEnd::WithSection, true);
        assert_eq!((rounds.calm().begun, rounds.calm().whole), (1, 0));
        rounds.begin_calm(RoundEnd::WithSection, true);
        rounds.begin_calm(RoundEnd::InVain, false);
        let calm = rounds.calm();
        assert_eq!((calm.begun, calm.whole, calm.in_vain), (3, 1, 1));
    }
}
