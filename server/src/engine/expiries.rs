//! The live sessions in the order of their expiry.
//!
//! A request that extends a session does not change its place here. When the tick of the place has
//! come, the session gets the place that it has by then. So a request costs nothing, and each session is
//! looked at about once in a timeout, whether it was heard of or not. (ZooKeeper's `ExpiryQueue` moves a
//! session with each request.)

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use zoolet_protocol::SessionId;

use super::registry::Liveness;
use crate::limits::{EXAMINED_PER_TURN, EXPIRIES_PER_TURN};

/// The ticks at which sessions may expire.
#[derive(Debug)]
pub(super) struct Expiries {
    tick_ms: u64,
    /// Each live session with a tick that is not later than that of its expiry. A tree, since no
    /// insertion moves many entries of it.
    listed: Mutex<BTreeSet<(u64, SessionId)>>,
}

/// What a turn has found.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Sessions whose tick has come: those with the earliest place first.
    pub(crate) due: Vec<Arc<Liveness>>,
    /// Whether the turn has reached its limits, so that other sessions may be due, too.
    pub(crate) is_full: bool,
}

impl Expiries {
    pub(super) fn new(tick_ms: u32) -> Self {
        Self { tick_ms: u64::from(tick_ms), listed: Mutex::default() }
    }

    /// Lists a session with the tick of its expiry. A session with an earlier place keeps that.
    pub(super) fn list(&self, liveness: &Liveness) {
        let mut listed = self.listed.lock();
        let (tick_ms, before_ms) = (liveness.expires_ms(self.tick_ms), listed_ms(liveness));
        if tick_ms < before_ms {
            listed.remove(&(before_ms, liveness.session));
            insert(&mut listed, tick_ms, liveness);
        }
    }

    /// Removes a session that has ended.
    pub(super) fn remove(&self, liveness: &Liveness) {
        self.listed.lock().remove(&(listed_ms(liveness), liveness.session));
    }

    /// Whether the tick of a place has come.
    pub(super) fn may_have_due(&self, now_ms: u64) -> bool {
        self.listed.lock().first().is_some_and(|(tick_ms, _)| *tick_ms <= now_ms)
    }

    /// Takes sessions whose tick has come, as many as a turn has. A session that lives on is due
    /// again at the next tick.
    pub(super) fn next_turn(
        &self,
        now_ms: u64,
        session: impl Fn(SessionId) -> Option<Arc<Liveness>>,
    ) -> Turn {
        let next_tick_ms = (now_ms / self.tick_ms + 1) * self.tick_ms;
        let (mut turn, mut listed) = (Turn::default(), self.listed.lock());
        for _ in 0..EXAMINED_PER_TURN {
            match listed.first() {
                Some((tick_ms, _)) if *tick_ms <= now_ms => {}
                _ => return turn,
            }
            let taken = listed.pop_first().and_then(|(_, id)| session(id));
            let Some(liveness) = taken else { continue };
            let tick_ms = liveness.expires_ms(self.tick_ms);
            insert(&mut listed, tick_ms.max(next_tick_ms), &liveness);
            if tick_ms <= now_ms {
                turn.due.push(liveness);
                if turn.due.len() == EXPIRIES_PER_TURN {
                    break;
                }
            }
        }
        Turn { is_full: true, ..turn }
    }
}

#[cfg(test)]
impl Expiries {
    /// Lets no place change until the returned value is dropped.
    pub(super) fn hold(&self) -> impl Drop + '_ {
        self.listed.lock()
    }
}

/// The tick of the place of a session; the end of all time if it was never listed.
fn listed_ms(liveness: &Liveness) -> u64 {
    liveness.listed_ms().load(Ordering::Relaxed)
}

fn insert(listed: &mut BTreeSet<(u64, SessionId)>, tick_ms: u64, liveness: &Liveness) {
    // All that read or change it have locked the list.
    liveness.listed_ms().store(tick_ms, Ordering::Relaxed);
    listed.insert((tick_ms, liveness.session));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const TICK_MS: u32 = 100;

    /// Sessions, as the registry has them.
    struct Sessions {
        expiries: Expiries,
        alive: BTreeMap<SessionId, Arc<Liveness>>,
    }

    impl Sessions {
        /// Sessions with these timeouts, heard of at 0.
        fn new(timeouts_ms: &[i32]) -> Self {
            let mut sessions = Self { expiries: Expiries::new(TICK_MS), alive: BTreeMap::new() };
            for (id, timeout_ms) in (1..).zip(timeouts_ms) {
                let liveness = Arc::new(Liveness::new(SessionId(id), *timeout_ms, 0));
                sessions.expiries.list(&liveness);
                sessions.alive.insert(SessionId(id), liveness);
            }
            sessions
        }

        fn turn(&self, now_ms: u64) -> Turn {
            let may_have_due = self.expiries.may_have_due(now_ms);
            let turn = self.expiries.next_turn(now_ms, |id| self.alive.get(&id).cloned());
            assert!(may_have_due || turn.due.is_empty() && !turn.is_full);
            turn
        }

        /// The sessions that are due, in one turn.
        fn due(&self, now_ms: u64) -> Vec<i64> {
            let turn = self.turn(now_ms);
            assert!(!turn.is_full);
            turn.due.iter().map(|liveness| liveness.session.0).collect()
        }
    }

    #[test]
    fn sessions_are_due_in_the_order_of_their_ticks_and_again_at_the_next() {
        let sessions = Sessions::new(&[250, 120, 130, 1_000]);
        assert!(sessions.due(199).is_empty());
        assert_eq!(sessions.due(300), [2, 3, 1]);
        assert!(sessions.due(399).is_empty(), "each is due once in a tick");
        assert_eq!(sessions.due(400), [1, 2, 3]);
    }

    #[test]
    fn a_session_that_was_heard_of_is_due_later() {
        let sessions = Sessions::new(&[120, 120]);
        sessions.alive[&SessionId(1)].touch(150);
        assert_eq!(sessions.due(200), [2]);
        assert_eq!(sessions.due(300), [1, 2]);
    }

    #[test]
    fn a_session_with_a_shorter_timeout_is_due_earlier_and_one_that_ended_never() {
        let mut sessions = Sessions::new(&[1_000, 1_000, 1_000]);
        let renegotiated = &sessions.alive[&SessionId(1)];
        renegotiated.renegotiate(120);
        sessions.expiries.list(renegotiated);
        let ended = sessions.alive.remove(&SessionId(2)).unwrap();
        sessions.expiries.remove(&ended);
        assert_eq!(sessions.due(200), [1]);
        assert_eq!(sessions.due(2_000), [1, 3]);
        assert_eq!(sessions.expiries.listed.lock().len(), 2);
    }

    #[test]
    fn a_turn_ends_when_enough_sessions_are_due() {
        let count = 2 * EXPIRIES_PER_TURN + 1;
        let sessions = Sessions::new(&vec![120; count]);
        let turns = [200, 210, 220, 230].map(|now_ms| sessions.turn(now_ms));
        let lengths = turns.each_ref().map(|turn| (turn.due.len(), turn.is_full));
        let full = (EXPIRIES_PER_TURN, true);
        assert_eq!(lengths, [full, full, (1, false), (0, false)]);
        let all = turns.iter().flat_map(|turn| &turn.due).map(|liveness| liveness.session.0);
        assert!(all.eq(1..=count as i64), "each of them once, in order");
    }

    #[test]
    fn a_turn_ends_when_enough_sessions_were_examined() {
        let count = EXAMINED_PER_TURN + 2;
        let sessions = Sessions::new(&vec![120; count]);
        for liveness in sessions.alive.values().take(count - 1) {
            liveness.touch(150);
        }
        let turn = sessions.turn(200);
        assert!(turn.due.is_empty() && turn.is_full);
        assert_eq!(sessions.due(200), [count as i64]);
        assert!(!sessions.expiries.may_have_due(200));
    }
}
