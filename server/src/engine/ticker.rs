//! The only task that acts by the clock: it expires sessions and deletes containers and TTL znodes
//! that are due (`SessionTrackerImpl`, `ContainerManager`).

use std::future::pending;
use std::sync::Weak;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::lock::Engine;

/// Runs until it is cancelled or the engine is gone.
pub(crate) async fn run(engine: Weak<Engine>, cancelled: CancellationToken) {
    let _ = cancelled.run_until_cancelled(tick_for_ever(engine)).await;
}

async fn tick_for_ever(engine: Weak<Engine>) {
    let mut is_in_turns = false;
    loop {
        let Some(running) = engine.upgrade() else { return };
        if is_in_turns || running.registry.may_have_expiries(running.clock.now_ms()) {
            // A client in this process may only need its turn to send something in time. What is done in
            // turns lets the other tasks have theirs, too.
            drop(running);
            tokio::task::yield_now().await;
        }
        let Some(running) = engine.upgrade() else { return };
        let hooks = running.hooks.clone();
        let changed = hooks.as_ref().map(|hooks| hooks.changed().notified());
        let next = tick(&running);
        is_in_turns = next == Next::Soon;
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
    let mut sweeps = engine.sweeps.lock();
    if engine.is_frozen() {
        return Next::Frozen;
    }
    let now_ms = engine.clock.now_ms();
    if expire_some(engine, now_ms) {
        return Next::Soon;
    }
    engine.stats.move_windows(now_ms, engine.config.metrics_provider.interval_ms());
    let Some(next_sweep_ms) = sweeps.turn(engine, now_ms) else { return Next::Soon };
    let tick_ms = u64::from(engine.config.tick_time_ms);
    let next_tick_ms = (now_ms / tick_ms + 1) * tick_ms;
    Next::At(engine.clock.at_ms(next_tick_ms.min(next_sweep_ms)))
}

/// Carries out all that is due, without looking for input that nobody has read.
pub(crate) fn tick_now(engine: &Engine) {
    let mut sweeps = engine.sweeps.lock();
    let now_ms = engine.clock.now_ms();
    // Also those whose connections were asked with this tick whether they have unread input.
    for liveness in engine.registry.sessions() {
        engine.expire_if_due(&liveness, now_ms);
    }
    engine.stats.move_windows(now_ms, engine.config.metrics_provider.interval_ms());
    sweeps.turns(engine, now_ms);
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
