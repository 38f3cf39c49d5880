//! The only task that acts by the clock: it expires sessions and deletes containers and TTL znodes
//! that are due (`SessionTrackerImpl`, `ContainerManager`).

use std::future::pending;
use std::sync::Weak;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::lock::Engine;

/// Runs until it is cancelled or the engine is gone.
pub(crate) async fn run(engine: Weak<Engine>, cancelled: CancellationToken) {
    let _ = cancelled.run_until_cancelled(tick_for_ever(engine)).await;
}

async fn tick_for_ever(engine: Weak<Engine>) {
    loop {
        let Some(running) = engine.upgrade() else { return };
        if running.registry.may_have_expiries(running.clock.now_ms()) {
            // A client in this process may only need its turn to send something in time. Sessions that
            // expire together let the other tasks have their turns, too.
            drop(running);
            tokio::task::yield_now().await;
        }
        let Some(running) = engine.upgrade() else { return };
        let hooks = running.hooks.clone();
        let changed = hooks.as_ref().map(|hooks| hooks.changed().notified());
        let next = tick(&running);
        drop(running);
        let due = async {
            match next {
                Next::Soon => {}
                Next::At(next) => tokio::time::sleep_until(next).await,
                Next::Frozen => pending().await,
            }
        };
        let changed = async {
            match changed {
                Some(changed) => changed.await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = due => {}
            () = changed => {}
        }
    }
}

/// When to carry out what is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// When other tasks have had their turn: more may be due than is carried out in one.
    Soon,
    At(Instant),
    /// When the server is no longer frozen.
    Frozen,
}

/// Carries out what is due, as much of it as a turn has, and returns when to do so next.
pub(crate) fn tick(engine: &Engine) -> Next {
    let mut last_sweep_ms = engine.last_sweep_ms.lock();
    if engine.is_frozen() {
        return Next::Frozen;
    }
    let now_ms = engine.clock.now_ms();
    if expire_some(engine, now_ms) {
        return Next::Soon;
    }
    let next_sweep_ms = carry_out_others(engine, &mut last_sweep_ms, now_ms);
    let tick_ms = u64::from(engine.config.tick_time_ms);
    let next_tick_ms = (now_ms / tick_ms + 1) * tick_ms;
    Next::At(engine.clock.at_ms(next_tick_ms.min(next_sweep_ms)))
}

/// Carries out all that is due, without looking for input that nobody has read.
pub(crate) fn tick_now(engine: &Engine) {
    let mut last_sweep_ms = engine.last_sweep_ms.lock();
    let now_ms = engine.clock.now_ms();
    // Also those whose connections were asked with this tick whether they have unread input.
    for liveness in engine.registry.sessions() {
        engine.expire_if_due(&liveness, now_ms);
    }
    carry_out_others(engine, &mut last_sweep_ms, now_ms);
}

/// Ends the sessions of a turn whose tick has come, and returns whether there may be more of them. If
/// a connection may hold unread input it ends its session itself, once it has found none; it is asked
/// again with each tick.
fn expire_some(engine: &Engine, now_ms: u64) -> bool {
    let turn = engine.registry.next_expiries(now_ms);
    for liveness in &turn.due {
        if !liveness.request_read() {
            engine.expire_if_due(liveness, now_ms);
        }
    }
    turn.is_full
}

/// Carries out what is due beside expiries, and returns when the next sweep is due.
fn carry_out_others(engine: &Engine, last_sweep_ms: &mut u64, now_ms: u64) -> u64 {
    engine.stats.move_windows(now_ms, engine.config.metrics_provider.interval_ms());
    sweep_if_due(engine, last_sweep_ms, now_ms)
}

/// Deletes due containers and TTL znodes if the interval has passed, and returns when it passes
/// next.
fn sweep_if_due(engine: &Engine, last_sweep_ms: &mut u64, now_ms: u64) -> u64 {
    let interval = engine.config.container_check_interval.max(Duration::from_millis(1));
    let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
    if now_ms >= last_sweep_ms.saturating_add(interval_ms) {
        *last_sweep_ms = now_ms;
        engine.sweep(most_in(interval, engine.config.container_max_per_minute));
    }
    last_sweep_ms.saturating_add(interval_ms)
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
