//! Sweeps: the server deletes containers and TTL znodes that are due (`ContainerManager`).

use std::time::Duration;

use zoolet_core::SweepCursor;
use zoolet_protocol::ZPath;

use super::hooks::ServerTxn;
use super::lock::{Engine, Wakers};
use crate::limits::{EXAMINED_PER_TURN, SWEPT_PER_TURN};
use crate::storage::committer::Origin;

/// When the last sweep began, and where it goes on if it is not at its end.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    /// In milliseconds of the server's clock.
    last_ms: u64,
    under_way: Option<Sweep>,
}

/// A sweep that is not at its end.
#[derive(Debug, Default)]
struct Sweep {
    cursor: SweepCursor,
    /// How many znodes it may still delete.
    left: usize,
}

impl Sweeps {
    /// Begins a sweep if the interval has passed, and goes on with the one that is under way for a turn.
    /// Returns when the interval passes next; `None` if the sweep is not at its end.
    pub(super) fn turn(&mut self, engine: &Engine, now_ms: u64) -> Option<u64> {
        let interval = engine.config.container_check_interval.max(Duration::from_millis(1));
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        if self.under_way.is_none() && now_ms >= self.last_ms.saturating_add(interval_ms) {
            self.last_ms = now_ms;
            let left = most_in(interval, engine.config.container_max_per_minute);
            self.under_way = Some(Sweep { left, ..Sweep::default() });
        }
        self.under_way = self.under_way.take().and_then(|sweep| sweep.turn(engine));
        self.under_way.is_none().then(|| self.last_ms.saturating_add(interval_ms))
    }

    /// Turns until nothing that is due by `now_ms` is left: where a sweep is under way, also the next one.
    pub(super) fn turns(&mut self, engine: &Engine, now_ms: u64) {
        while self.turn(engine, now_ms).is_none_or(|next_ms| next_ms <= now_ms) {}
    }
}

impl Sweep {
    /// Deletes some of the znodes that are due, and returns the sweep if it is not at its end.
    fn turn(mut self, engine: &Engine) -> Option<Self> {
        let now_ms = engine.clock.wall_ms();
        let never_used_ms = engine.config.container_max_never_used_ms;
        let most = self.left.min(SWEPT_PER_TURN);
        let slice = engine.inspect(|core| {
            core.sweepable_after(&self.cursor, most, EXAMINED_PER_TURN, now_ms, never_used_ms)
        });
        slice.due.iter().for_each(|path| engine.delete_if_empty(path));
        self.left -= slice.due.len();
        self.cursor = slice.next?;
        (self.left > 0).then_some(self)
    }
}

impl Engine {
    /// Deletes all containers and TTL znodes that are due.
    pub(super) fn sweep(&self) {
        let mut sweep = Some(Sweep { left: usize::MAX, ..Sweep::default() });
        while let Some(under_way) = sweep {
            sweep = under_way.turn(self);
        }
    }

    /// Deletes a container or TTL znode that was due, unless it is in use again.
    fn delete_if_empty(&self, path: &ZPath) {
        let mut wakers = Wakers::default();
        let mut state = self.state.write();
        let txn = state.core.prepare_sweep(path, self.clock.wall_ms());
        let received = (Origin::Server, self.clock.now_ms());
        let effects = self.commit(&mut state, &txn.into(), received, &mut wakers);
        self.tell_hooks(ServerTxn::Sweep, effects.zxid);
        drop(state);
        self.stats.containers_swept.add(u64::from(effects.reply.is_ok()));
        drop(wakers);
        self.settled();
    }
}

/// How many deletions an interval allows when a minute allows `per_minute`; at least one.
fn most_in(interval: Duration, per_minute: u32) -> usize {
    let share = interval.as_millis().saturating_mul(u128::from(per_minute)) / 60_000;
    usize::try_from(share).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use zoolet_core::{Core, CreateTxn, Txn, TxnOp};
    use zoolet_protocol::{Acl, CreateKind, SessionId, Xid};

    use super::*;
    use crate::config::Config;
    use crate::engine::journal::Journal;

    #[test]
    fn deletions_are_spread_over_the_minute() {
        assert_eq!(most_in(Duration::from_secs(60), 10_000), 10_000);
        assert_eq!(most_in(Duration::from_millis(600), 10_000), 100);
        assert_eq!(most_in(Duration::from_millis(1), 1), 1);
    }

    /// An engine with so many TTL znodes whose time was over long ago.
    fn engine(znodes: usize) -> Engine {
        let mut core = Core::new(Config::default().settings);
        (0..znodes).for_each(|number| create_due(&mut core, &format!("/{number}")));
        Engine::new(Config::default(), None, Journal::in_memory(), core)
    }

    fn create_due(core: &mut Core, path: &str) {
        let create = CreateTxn {
            kind: CreateKind::Ttl { ttl_ms: 1 },
            path: ZPath::parse(path).expect("a path"),
            data: None,
            acl: [Acl::open()].into(),
            ephemeral: false,
            parent_cversion: CreateTxn::PARENT_CVERSION_UNKNOWN,
        };
        let (session, zxid) = (SessionId::NONE, core.last_zxid().next());
        let op = TxnOp::Create(create);
        core.apply(&Txn { session, cxid: Xid(0), zxid, time_ms: 0, op });
    }

    #[test]
    fn a_sweep_of_many_lets_others_have_their_turn() {
        let engine = engine(2 * SWEPT_PER_TURN + 1);
        let before = engine.inspect(|core| core.totals().znodes);
        let left = || engine.inspect(|core| core.totals().znodes);
        let (mut sweeps, hour_ms) = (Sweeps::default(), 3_600_000);
        for turn in 1..=2 {
            assert_eq!(sweeps.turn(&engine, hour_ms), None);
            assert_eq!(left(), before - turn * SWEPT_PER_TURN);
        }
        let next_ms = sweeps.turn(&engine, hour_ms).expect("the sweep is at its end");
        assert_eq!(left(), before - 2 * SWEPT_PER_TURN - 1);
        assert!(next_ms > hour_ms, "the next one begins an interval after this one began");
    }

    #[test]
    fn a_tick_on_request_does_what_is_due_behind_a_sweep_that_is_under_way() {
        let engine = engine(2 * SWEPT_PER_TURN);
        let (mut sweeps, hour_ms) = (Sweeps::default(), 3_600_000);
        assert_eq!(sweeps.turn(&engine, hour_ms), None);
        let left = || engine.inspect(|core| core.totals().znodes);
        let before = left();
        create_due(&mut engine.state.write().core, "/!");
        sweeps.turns(&engine, 2 * hour_ms);
        assert_eq!(left(), before - SWEPT_PER_TURN);
    }

    #[test]
    fn a_sweep_ends_where_the_minute_allows_no_more() {
        let mut engine = engine(3 * SWEPT_PER_TURN);
        engine.config.container_max_per_minute = 100;
        engine.config.container_check_interval = Duration::from_secs(60);
        let before = engine.inspect(|core| core.totals().znodes);
        Sweeps::default().turns(&engine, 3_600_000);
        assert_eq!(engine.inspect(|core| core.totals().znodes), before - 100);
        engine.sweep();
        assert_eq!(engine.inspect(|core| core.totals().znodes), before - 3 * SWEPT_PER_TURN);
    }
}
