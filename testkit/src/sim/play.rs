//! Runs a simulation on one thread, under a clock that advances only when no task can run.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// What a simulation returned.
#[derive(Debug)]
pub struct Played<T> {
    /// `None` if the simulation itself panicked.
    pub result: Option<T>,
    /// The first panic, also in a task that no other waits for.
    pub panic: Option<String>,
}

thread_local! {
    static IS_PLAYING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a simulation. All that it does must follow from the seed; then it repeats.
pub fn play<T>(seed: u64, simulation: impl AsyncFnOnce() -> T) -> Played<T> {
    // The jitter of clients and the ids in the names of their znodes use this generator.
    fastrand::seed(seed);
    listen_for_panics();
    PANIC.take();
    let was_playing = IS_PLAYING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O can be had");
        runtime.block_on(simulation())
    }));
    IS_PLAYING.set(was_playing);
    Played { result: result.ok(), panic: PANIC.take() }
}

/// The first panic since the last call.
pub(super) fn take_panic() -> Option<String> {
    PANIC.take()
}

/// Keeps panics of simulations, which are reported with their seeds, instead of printing them.
fn listen_for_panics() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_PLAYING.get() {
                PANIC.with_borrow_mut(|panic| panic.get_or_insert_with(|| info.to_string()).len());
            } else {
                before(info);
            }
        }));
    });
}
