//! The state of a machine: it stands still, crashes, and is started again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::fault::MachineFault;
use super::gate::Gate;
use super::network::Link;
use super::record::Record;
use super::rounds::Rounds;
use crate::clock::now;

/// By how many milliseconds the messages of a machine are late that waits for the others to finish.
const STEP_BACK_MS: u64 = 20;
/// How long a fault waits for a machine to enter a section.
const ENTRY_WITHIN: Duration = Duration::from_secs(5);

/// The state of one machine.
pub(super) struct Machine {
    pub(super) kind_name: String,
    pub(super) kind: usize,
    pub(super) index: usize,
    is_there: bool,
    link: Mutex<Link>,
    rng: Mutex<Rng>,
    /// Another one each time that it is started.
    gate: Mutex<Arc<Gate>>,
    /// Since when it runs after it stood still, in milliseconds of the run.
    runs_since_ms: AtomicU64,
    /// By how much its wall clock has jumped, in milliseconds.
    skew_ms: AtomicI64,
    /// Until when its work is slow.
    slow_until: Mutex<Option<Instant>>,
    /// Notified when its work is no longer slow.
    fast_again: Notify,
    /// Notified when it enters a section.
    entered: Notify,
    /// Notified when it crashes.
    crashed: Notify,
    down_ms: AtomicU64,
    pub(super) rounds: Rounds,
    is_done: AtomicBool,
    /// Its last note or error.
    last_words: Mutex<Option<String>>,
}

impl Machine {
    pub(super) fn new(
        kind_name: &str,
        kind: usize,
        index: usize,
        is_there: bool,
        link: Link,
        rng: Rng,
    ) -> Self {
        Self {
            kind_name: kind_name.to_owned(),
            kind,
            index,
            is_there,
            link: Mutex::new(link),
            rng: Mutex::new(rng),
            gate: Mutex::default(),
            runs_since_ms: AtomicU64::new(0),
            skew_ms: AtomicI64::new(0),
            slow_until: Mutex::default(),
            fast_again: Notify::new(),
            entered: Notify::new(),
            crashed: Notify::new(),
            down_ms: AtomicU64::new(0),
            rounds: Rounds::default(),
            is_done: AtomicBool::new(!is_there),
            last_words: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.kind_name, self.index)
    }

    pub(super) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate.lock())
    }

    /// Whether it takes part in this run.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether its program has finished.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    /// Whether it runs, and has done so for this long.
    pub(super) fn has_run_for(&self, now_ms: u64, ms: u64) -> bool {
        let since = self.runs_since_ms.load(Ordering::Relaxed);
        !self.gate().is_closed() && (since == 0 || now_ms.saturating_sub(since) >= ms)
    }

    pub(super) fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
    }

    /// Whether it has had a whole round without faults.
    pub(super) fn has_had_its_round(&self) -> bool {
        self.is_done() || self.rounds.calm().whole > 0
    }

    /// Its messages are late from now on, so that others get ahead.
    pub(super) fn step_back(&self) {
        self.be_late(STEP_BACK_MS);
    }

    /// Its messages are late by up to so many milliseconds from now on. New connections are not.
    pub(super) fn be_late(&self, ms_max: u64) {
        self.link.lock().be_late(ms_max);
    }

    /// Ends its program, which starts again when it passes its trial.
    pub(super) fn end_for_trial(&self) {
        self.rounds.hold_for_trial();
        self.down_ms.store(0, Ordering::Relaxed);
        self.crash(Some(Duration::ZERO));
    }

    pub(super) fn has_entered(&self, is_calm: bool) {
        self.rounds.enter(is_calm);
        self.entered.notify_waiters();
    }

    /// Waits until it enters a section, but only for a while: it may be in one for ever, or never.
    pub(super) async fn until_entered(&self) {
        let _ = tokio::time::timeout(ENTRY_WITHIN, self.entered.notified()).await;
    }

    /// Works for this long, and for longer while its work is slow.
    pub(super) async fn work(&self, time: Duration) {
        tokio::time::sleep(time).await;
        loop {
            let until = *self.slow_until.lock();
            let Some(until) = until.filter(|until| *until > now()) else { return };
            tokio::select! {
                biased;
                () = self.fast_again.notified() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    fn end_slow_work(&self) {
        *self.slow_until.lock() = None;
        self.fast_again.notify_waiters();
    }

    pub(super) fn say(&self, words: String) {
        *self.last_words.lock() = Some(words);
    }

    /// What it said last, to be added to a sentence.
    pub(super) fn last_words(&self) -> String {
        let words = self.last_words.lock().clone();
        words.map_or_else(String::new, |words| format!("; its last words: {words}"))
    }

    /// Whether a fault would change nothing: it stands still already, or is down.
    pub(super) fn is_spared(&self, fault: MachineFault) -> bool {
        match fault {
            MachineFault::Pause { .. } => self.gate().is_closed(),
            MachineFault::Crash { .. } => self.gate().is_shut(),
            _ => false,
        }
    }

    /// Carries out a fault, and returns when it is over.
    pub(super) async fn inject(&self, fault: MachineFault, record: &Record) {
        let link = self.link.lock().clone();
        let ms = Duration::from_millis;
        match fault {
            MachineFault::Cut { noticed_after_ms } => link.cut(ms(noticed_after_ms)),
            MachineFault::LoseReply { requests } => link.cut_after(requests),
            MachineFault::Delay { ms_max, for_ms } => link.delay_for(ms_max, ms(for_ms)),
            MachineFault::Silence { for_ms } => link.hold(ms(for_ms)),
            MachineFault::LateReplies { for_ms } => link.hold_replies(ms(for_ms)),
            MachineFault::Refuse { for_ms } => link.refuse(ms(for_ms)),
            // Its server does that.
            MachineFault::Expire | MachineFault::ServerCutOff { .. } => {}
            MachineFault::Pause { for_ms } => {
                let gate = self.gate();
                gate.close();
                link.pause();
                tokio::time::sleep(ms(for_ms)).await;
                // It may have crashed, been started again and paused again meanwhile.
                if Arc::ptr_eq(&gate, &self.gate()) {
                    self.resume(record.now_ms());
                }
            }
            MachineFault::Crash { down_ms, noticed_after_ms } => {
                self.down_ms.store(down_ms, Ordering::Relaxed);
                self.crash(noticed_after_ms.map(ms));
            }
            MachineFault::SlowWork { for_ms } => {
                let mut until = self.slow_until.lock();
                *until = (*until).max(Some(now() + ms(for_ms)));
            }
            MachineFault::ClockJump { ms } => {
                self.skew_ms.fetch_add(ms, Ordering::Relaxed);
            }
        }
    }

    /// Ends its program and its clients, of which nothing runs any more. The server notices after a
    /// while, if at all.
    pub(super) fn crash(&self, noticed_after: Option<Duration>) {
        // First: the end of the connections would wake the program.
        self.gate().shut();
        let link = self.link.lock().clone();
        link.end(noticed_after);
        self.crashed.notify_one();
    }

    fn resume(&self, now_ms: u64) {
        let gate = self.gate();
        if !gate.is_closed() || gate.is_shut() {
            return;
        }
        self.runs_since_ms.store(now_ms, Ordering::Relaxed);
        let mut rng = self.rng.lock().fork();
        let link = self.link.lock().clone();
        // Its own tasks, and what has arrived meanwhile, in any order.
        if rng.bool() {
            gate.open(&mut rng);
            link.resume();
        } else {
            link.resume();
            gate.open(&mut rng);
        }
    }

    pub(super) fn end_faults(&self, now_ms: u64) {
        self.resume(now_ms);
        self.end_slow_work();
        self.link.lock().clear();
    }

    /// Waits until it crashes.
    pub(super) async fn until_crashed(&self) {
        self.crashed.notified().await;
    }

    /// The link of its present life.
    pub(super) fn link(&self) -> Link {
        self.link.lock().clone()
    }

    /// Draws from its own numbers.
    pub(super) fn drawn(&self, range: Range<u64>) -> u64 {
        self.rng.lock().u64(range)
    }

    /// The seed of its next life.
    pub(super) fn next_seed(&self) -> u64 {
        self.rng.lock().u64(..)
    }

    pub(super) fn finish(&self) {
        self.is_done.store(true, Ordering::Relaxed);
    }

    /// It has crashed: it waits until it is started again.
    pub(super) async fn be_down(&self) {
        self.end_slow_work();
        let down = Duration::from_millis(self.down_ms.load(Ordering::Relaxed));
        tokio::time::sleep(down).await;
        self.rounds.until_let().await;
        let link = self.link.lock().successor();
        // It may have stood still when it crashed.
        link.resume();
        *self.link.lock() = link;
        *self.gate.lock() = Arc::default();
        self.runs_since_ms.store(0, Ordering::Relaxed);
    }
}
