//! The live sessions in the order of their expiry.
//!
//! A request that extends a session does not change its place here. When the tick of the place has
//! come, the session gets the place that it has by then. So a request costs nothing, and a tick only
//! looks at the sessions of which nothing was heard for a timeout before it last looked at them, as
//! ZooKeeper's `ExpiryQueue` does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use zoolet_protocol::SessionId;

use super::registry::Liveness;

/// The ticks at which sessions may expire.
#[derive(Debug)]
pub(super) struct Expiries {
    tick_ms: u64,
    /// Each live session once, with a tick that is not later than that of its expiry. A tree and no
    /// table of lists: it never moves many entries at once.
    listed: Mutex<BTreeSet<(u64, SessionId)>>,
}

impl Expiries {
    pub(super) fn new(tick_ms: u32) -> Self {
        Self { tick_ms: u64::from(tick_ms), listed: Mutex::default() }
    }

    /// Lists a session with its tick, if it is alive. A session that is listed already, with a tick
    /// that is not later, keeps that.
    pub(super) fn list(&self, liveness: &Liveness, is_alive: impl FnOnce() -> bool) {
        let mut listed = self.listed.lock();
        let tick_ms = liveness.expires_ms(self.tick_ms);
        let before = (liveness.listed_ms().load(Ordering::Relaxed), liveness.session);
        if listed.contains(&before) && before.0 <= tick_ms {
            return;
        }
        listed.remove(&before);
        if is_alive() {
            liveness.listed_ms().store(tick_ms, Ordering::Relaxed);
            listed.insert((tick_ms, liveness.session));
        }
    }

    /// Removes a session that has ended.
    pub(super) fn remove(&self, liveness: &Liveness) {
        let mut listed = self.listed.lock();
        listed.remove(&(liveness.listed_ms().load(Ordering::Relaxed), liveness.session));
    }

    /// Whether the tick of a session has come.
    pub(super) fn has_due(
        &self,
        now_ms: u64,
        session: impl Fn(SessionId) -> Option<Arc<Liveness>>,
    ) -> bool {
        let (mut listed, mut examined) = (self.listed.lock(), 0);
        while let Some(&(listed_ms, id)) = listed.first()
            && listed_ms <= now_ms
        {
            let liveness = session(id);
            let is_due = |liveness: &Arc<Liveness>| liveness.expires_ms(self.tick_ms) <= now_ms;
            examined += 1;
            if examined == EXAMINED_AT_ONCE || liveness.as_ref().is_some_and(is_due) {
                return true;
            }
            listed.pop_first();
            self.relist(&mut listed, liveness.as_deref(), 0);
        }
        false
    }

    /// Takes at most `most` sessions whose tick has come, and lists them with the next one.
    pub(super) fn take_due(
        &self,
        now_ms: u64,
        most: usize,
        session: impl Fn(SessionId) -> Option<Arc<Liveness>>,
    ) -> Vec<Arc<Liveness>> {
        let next_tick_ms = (now_ms / self.tick_ms + 1) * self.tick_ms;
        let mut due = Vec::new();
        while due.len() < most {
            // The lock is released now and then: sessions begin and end meanwhile.
            let mut listed = self.listed.lock();
            for _ in 0..EXAMINED_AT_ONCE {
                let is_due = |(listed_ms, _): &&(u64, SessionId)| *listed_ms <= now_ms;
                let Some(&(_, id)) = listed.first().filter(is_due) else { return due };
                listed.pop_first();
                let Some(liveness) = session(id) else { continue };
                self.relist(&mut listed, Some(&liveness), next_tick_ms);
                if liveness.expires_ms(self.tick_ms) <= now_ms {
                    due.push(liveness);
                    if due.len() == most {
                        break;
                    }
                }
            }
        }
        due
    }

    /// Lists a session that was taken off with its tick, or with `earliest_ms` if that is later.
    fn relist(
        &self,
        listed: &mut BTreeSet<(u64, SessionId)>,
        liveness: Option<&Liveness>,
        earliest_ms: u64,
    ) {
        let Some(liveness) = liveness else { return };
        let tick_ms = liveness.expires_ms(self.tick_ms).max(earliest_ms);
        liveness.listed_ms().store(tick_ms, Ordering::Relaxed);
        listed.insert((tick_ms, liveness.session));
    }
}

/// The sessions that are looked at while the list is locked once: some hundred microseconds.
const EXAMINED_AT_ONCE: usize = 1_000;

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
                sessions.expiries.list(&liveness, || true);
                sessions.alive.insert(SessionId(id), liveness);
            }
            sessions
        }

        fn due(&self, now_ms: u64, most: usize) -> Vec<i64> {
            let session = |id| self.alive.get(&id).cloned();
            let has_due = self.expiries.has_due(now_ms, session);
            let due = self.expiries.take_due(now_ms, most, session);
            assert!(has_due || due.is_empty());
            due.iter().map(|liveness| liveness.session.0).collect()
        }
    }

    #[test]
    fn sessions_are_due_in_the_order_of_their_ticks_and_again_at_the_next() {
        let sessions = Sessions::new(&[250, 120, 130, 1_000]);
        assert_eq!(sessions.due(199, 9), []);
        assert_eq!(sessions.due(300, 2), [2, 3], "their tick was at 200");
        assert_eq!(
            sessions.due(300, 9),
            [1],
            "as often as a turn ends, each is due once in a tick"
        );
        assert_eq!(sessions.due(300, 9), []);
        assert_eq!(sessions.due(400, 9), [1, 2, 3]);
    }

    #[test]
    fn a_session_that_was_heard_of_is_due_later() {
        let sessions = Sessions::new(&[120, 120]);
        sessions.alive[&SessionId(1)].touch(150);
        assert_eq!(sessions.due(200, 9), [2]);
        assert_eq!(sessions.due(300, 9), [1, 2]);
    }

    #[test]
    fn a_session_with_a_shorter_timeout_is_due_earlier_and_one_that_ended_never() {
        let mut sessions = Sessions::new(&[1_000, 1_000, 1_000]);
        let renegotiated = Arc::clone(&sessions.alive[&SessionId(1)]);
        renegotiated.renegotiate(120);
        sessions.expiries.list(&renegotiated, || true);
        let ended = sessions.alive.remove(&SessionId(2)).unwrap();
        sessions.expiries.remove(&ended);
        ended.renegotiate(120);
        sessions.expiries.list(&ended, || false);
        assert_eq!(sessions.due(200, 9), [1]);
        assert_eq!(sessions.due(2_000, 9), [1, 3]);
        assert_eq!(sessions.expiries.listed.lock().len(), 2);
    }

    #[test]
    fn many_sessions_that_were_heard_of_are_listed_anew_without_being_due() {
        let count = 3 * EXAMINED_AT_ONCE as i64;
        let sessions = Sessions::new(&vec![120; count as usize]);
        sessions.alive.values().for_each(|liveness| liveness.touch(150));
        sessions.alive[&SessionId(count)].renegotiate(20);
        assert_eq!(sessions.due(200, 64), [count]);
        assert_eq!(sessions.due(200, 64), []);
        assert_eq!(sessions.due(300, usize::MAX).len(), count as usize);
    }
}
