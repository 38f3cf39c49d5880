//! The holders of each lock, as the clients believe.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use zoolet_protocol::{MultiOp, Zxid};
use zoolet_recipes::{Guard, LeaderLatch, LockError, LockState, MultiGuard, Permits, Term};

/// A held lock.
#[derive(Debug)]
pub(crate) enum Held {
    Guard(Guard),
    Permits(Permits),
    Multi(MultiGuard),
}

impl Held {
    pub(crate) fn state(&self) -> LockState {
        match self {
            Self::Guard(guard) => guard.state(),
            Self::Permits(permits) => permits.state(),
            Self::Multi(guard) => guard.state(),
        }
    }

    pub(crate) fn token(&self) -> Zxid {
        match self {
            Self::Guard(guard) => guard.fencing_token(),
            Self::Permits(permits) => permits.fencing_token(),
            Self::Multi(guard) => guard.fencing_token(),
        }
    }

    pub(crate) async fn transaction(&self, ops: Vec<MultiOp>) -> Result<(), LockError> {
        match self {
            Self::Guard(guard) => guard.transaction(ops).await,
            Self::Permits(permits) => permits.transaction(ops).await,
            Self::Multi(guard) => guard.transaction(ops).await,
        }
        .map(drop)
    }

    pub(crate) async fn lost(&self) {
        match self {
            Self::Guard(guard) => guard.lost().await,
            Self::Permits(permits) => permits.lost().await,
            Self::Multi(guard) => guard.lost().await,
        }
    }

    pub(crate) async fn release(self) -> Result<(), LockError> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Permits(permits) => permits.release().await,
            Self::Multi(guard) => guard.release().await,
        }
    }
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Alone,
    Shared,
    /// This many permits of this many.
    Permits {
        count: usize,
        max: usize,
    },
}

#[derive(Debug, Default)]
struct Lock {
    holders: Vec<(Mode, Weak<Held>)>,
    /// The greatest tokens of the holders that were certain to hold the lock: of exclusive ones and
    /// of all.
    token_alone: Zxid,
    token: Zxid,
}

/// All locks.
#[derive(Debug, Default)]
pub(crate) struct Exclusion {
    locks: Mutex<BTreeMap<String, Lock>>,
    terms: Mutex<Zxid>,
    /// The participants of the election.
    latches: Mutex<Vec<Weak<LeaderLatch>>>,
}

impl Exclusion {
    /// Records that a lock was acquired.
    pub(crate) fn enter(&self, path: &str, mode: Mode, held: &Arc<Held>) -> Result<(), String> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = locks.entry(path.to_owned()).or_default();
        let token = held.token();
        // The session of a holder that is not certain may have expired.
        if held.state() == LockState::Held {
            let before = match mode {
                Mode::Alone => lock.token,
                Mode::Shared => lock.token_alone,
                Mode::Permits { .. } => Zxid::ZERO,
            };
            if token <= before {
                return Err(format!("{path}: the token {token} after the greater {before}"));
            }
            lock.token = lock.token.max(token);
            if mode == Mode::Alone {
                lock.token_alone = lock.token_alone.max(token);
            }
        }
        lock.holders.retain(|(_, held)| held.strong_count() > 0);
        lock.holders.push((mode, Arc::downgrade(held)));
        lock.check(path)
    }

    /// Records that a participant waits for leadership.
    pub(crate) fn stand(&self, latch: &Arc<LeaderLatch>) {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        latches.retain(|latch| latch.strong_count() > 0);
        latches.push(Arc::downgrade(latch));
    }

    /// Checks that no lock has more holders than it admits, and that at most one participant leads.
    pub(crate) fn check(&self) -> Result<(), String> {
        let locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.iter().try_for_each(|(path, lock)| lock.check(path))?;
        drop(locks);
        let latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        let leaders = latches.iter().filter_map(Weak::upgrade).filter(|latch| latch.is_leader());
        match leaders.count() {
            0 | 1 => Ok(()),
            count => Err(format!("{count} participants lead at once")),
        }
    }

    /// Records that a participant leads.
    pub(crate) fn lead(&self, term: &Term) -> Result<(), String> {
        let mut last = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        let token = term.fencing_token();
        if token < *last {
            return Err(format!("a leader of the term {token} after one of {last}"));
        }
        *last = token;
        Ok(())
    }
}

impl Lock {
    fn check(&self, path: &str) -> Result<(), String> {
        let held = self.holders.iter().filter_map(|(mode, held)| Some((*mode, held.upgrade()?)));
        let sure: Vec<_> = held.filter(|(_, held)| held.state() == LockState::Held).collect();
        let is_alone = sure.iter().any(|(mode, _)| *mode == Mode::Alone);
        let permits: usize = sure.iter().map(|(mode, _)| mode.permits().0).sum();
        let max = sure.iter().map(|(mode, _)| mode.permits().1).max().unwrap_or(0);
        if (is_alone && sure.len() > 1) || permits > max {
            let tokens: Vec<_> = sure.iter().map(|(mode, held)| (mode, held.token())).collect();
            return Err(format!("{path} has too many holders: {tokens:?}"));
        }
        Ok(())
    }
}

impl Mode {
    fn permits(self) -> (usize, usize) {
        match self {
            Self::Permits { count, max } => (count, max),
            Self::Alone | Self::Shared => (0, 0),
        }
    }
}
