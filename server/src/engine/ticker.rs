//! The one task that acts by the clock: it ends sessions that were not heard of, and deletes
//! containers and TTL znodes whose time has come (`SessionTrackerImpl`, `ContainerManager`).

use std::sync::Weak;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::lock::Engine;

/// Runs until it is cancelled or the engine is gone.
pub(crate) async fn run(engine: Weak<Engine>, cancelled: CancellationToken) {
    let _ = cancelled.run_until_cancelled(tick_for_ever(engine)).await;
}

async fn tick_for_ever(engine: Weak<Engine>) {
    loop {
        let Some(running) = engine.upgrade() else { return };
        if has_due(&running) {
            // A client in this process whose task was not scheduled in time has its turn first.
            drop(running);
            tokio::task::yield_now().await;
        }
        let Some(running) = engine.upgrade() else { return };
        let faults = running.faults.clone();
        let changed = faults.changed();
        let next = tick(&running);
        drop(running);
        let tick = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = tick => {}
            () = changed => {}
        }
    }
}

/// Does what is due, unless the server stands still, and returns when to look again.
pub(crate) fn tick(engine: &Engine) -> Option<Instant> {
    let mut sweeps = engine.sweeps.lock();
    if engine.faults.is_stopped() {
        return None;
    }
    Some(turn(engine, &mut sweeps, Silence::MayBeUnread))
}

/// What it means that a session was not heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// What its client has sent may not have been read.
    MayBeUnread,
    /// Its time is over, whatever was sent.
    #[cfg(feature = "testing")]
    IsOver,
}

/// Does what is due now.
#[cfg(feature = "testing")]
pub(crate) fn tick_now(engine: &Engine) {
    turn(engine, &mut engine.sweeps.lock(), Silence::IsOver);
}

/// `sweeps` is held while sessions end and znodes go, so that nobody else does it at the same time.
fn turn(engine: &Engine, sweeps: &mut Sweeps, silence: Silence) -> Instant {
    let now_ms = engine.clock.now_ms();
    let tick_ms = u64::from(engine.config.tick_time_ms);
    expire(engine, now_ms, silence);
    let next_sweep_ms = sweeps.sweep_if_due(engine, now_ms);
    let next_tick_ms = (now_ms / tick_ms + 1) * tick_ms;
    engine.clock.at_ms(next_tick_ms.min(next_sweep_ms))
}

/// Whether the tick of a session has come.
fn has_due(engine: &Engine) -> bool {
    let tick_ms = u64::from(engine.config.tick_time_ms);
    let now_ms = engine.clock.now_ms();
    engine.registry.any_session(|liveness| liveness.expires_ms(tick_ms) <= now_ms)
}

/// Ends the sessions whose tick has come. One whose connection may hold unread input is ended by its
/// connection, once that has found none; it is asked again with each tick.
fn expire(engine: &Engine, now_ms: u64, silence: Silence) {
    let tick_ms = u64::from(engine.config.tick_time_ms);
    for liveness in engine.registry.sessions() {
        let is_due = liveness.expires_ms(tick_ms) <= now_ms;
        if is_due && !(silence == Silence::MayBeUnread && liveness.asks_for_input()) {
            engine.expire_if_due(&liveness, now_ms);
        }
    }
}

/// When containers and TTL znodes were looked at.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    last_ms: u64,
}

impl Sweeps {
    /// Looks at them if the interval is over, and returns when to look again.
    fn sweep_if_due(&mut self, engine: &Engine, now_ms: u64) -> u64 {
        let interval = engine.config.container_check_interval.max(Duration::from_millis(1));
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        if now_ms >= self.last_ms.saturating_add(interval_ms) {
            self.last_ms = now_ms;
            engine.sweep(most_in(interval, engine.config.container_max_per_minute));
        }
        self.last_ms.saturating_add(interval_ms)
    }
}

/// How many deletions an interval allows when a minute allows `per_minute`; at least one.
fn most_in(interval: Duration, per_minute: u32) -> usize {
    let share = interval.as_millis().saturating_mul(u128::from(per_minute)) / 60_000;
    usize::try_from(share).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_are_spread_over_the_minute() {
        assert_eq!(most_in(Duration::from_secs(60), 10_000), 10_000);
        assert_eq!(most_in(Duration::from_millis(600), 10_000), 100);
        assert_eq!(most_in(Duration::from_millis(1), 1), 1);
    }
}
