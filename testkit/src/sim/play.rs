//! Runs a simulation on one thread, under a clock that advances only when no task can run.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use super::watchdog::Watched;

/// What a simulation returned.
#[derive(Debug)]
pub struct Played<T> {
    /// `None` if the simulation itself panicked.
    pub result: Option<T>,
    /// The first panic, also in a task that no other waits for: where, and its message, in one line.
    pub panic: Option<String>,
}

thread_local! {
    static IS_PLAYING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a simulation. All that it does must follow from the seed; then it repeats.
pub fn play<T>(seed: u64, simulation: impl AsyncFnOnce() -> T) -> Played<T> {
    // The jitter of clients and the ids in the names of their znodes use this generator. Others of
    // this thread get theirs back.
    let seed_before = fastrand::get_seed();
    fastrand::seed(seed);
    listen_for_panics();
    PANIC.take();
    let watched = Watched::begin(seed);
    let was_playing = IS_PLAYING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O can be had");
        runtime.block_on(simulation())
    }));
    drop(watched);
    IS_PLAYING.set(was_playing);
    fastrand::seed(seed_before);
    Played { result: result.ok(), panic: PANIC.take() }
}

/// Whether something has panicked since the last call of [`take_panic`].
pub(super) fn has_panic() -> bool {
    PANIC.with_borrow(Option::is_some)
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
                PANIC.with_borrow_mut(|panic| panic.get_or_insert_with(|| told(info)).len());
            } else {
                before(info);
            }
        }));
    });
}

/// Where it panicked, and what it said, in one line: a story has one for each event.
fn told(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let lines: Vec<_> = message.unwrap_or_default().lines().map(str::trim).collect();
    let location =
        info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    format!("panicked at {location}: {}", lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_leaves_the_random_numbers_of_its_thread_as_they_were() {
        fastrand::seed(5);
        let expected = fastrand::u64(..);
        fastrand::seed(5);
        play(7, async || fastrand::u64(..));
        assert_eq!(fastrand::u64(..), expected);
    }

    #[test]
    fn a_panic_is_told_in_one_line() {
        let played = play(7, async || assert_eq!(1, 2, "numbers"));
        let panic = played.panic.expect("it panics");
        assert!(
            panic.starts_with("panicked at ") && panic.contains("numbers; left: 1; right: 2"),
            "{panic}"
        );
    }
}
