//! Runs a simulation on one thread, under a clock that advances only when no task can run.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use tokio::task;
use tokio::time::Instant;

use super::violation::one_line;
use super::watchdog::Watched;
use crate::clock::now;

/// What a simulation returned.
#[derive(Debug)]
pub struct Played<T> {
    /// `None` if the simulation itself panicked.
    pub result: Option<T>,
    /// The first panic that was not told before, also in a task that no other waits for: where, and its
    /// message, in one line.
    pub panic: Option<String>,
}

/// A panic that is not told yet.
#[derive(Debug)]
pub(super) struct Panic {
    /// The task of tokio that it may have ended.
    task: Option<task::Id>,
    pub(super) at: Instant,
    /// Where, and its message, in one line.
    pub(super) text: String,
}

thread_local! {
    static IS_PLAYING: Cell<bool> = const { Cell::new(false) };
    static PANICS: RefCell<Vec<Panic>> = const { RefCell::new(Vec::new()) };
}

/// Runs a simulation. All that it does must follow from the seed; then it repeats.
pub fn play<T>(seed: u64, simulation: impl AsyncFnOnce() -> T) -> Played<T> {
    // The jitter of clients and the ids in the names of their znodes use this generator. Others of
    // this thread get theirs back.
    let seed_before = fastrand::get_seed();
    fastrand::seed(seed);
    listen_for_panics();
    PANICS.take();
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
    Played { result: result.ok(), panic: take_panic().map(|panic| panic.text) }
}

/// How many panics are not told yet.
pub(super) fn untold_panics() -> usize {
    PANICS.with_borrow(Vec::len)
}

/// The first panic that is not told yet.
pub(super) fn take_panic() -> Option<Panic> {
    PANICS.with_borrow_mut(|panics| (!panics.is_empty()).then(|| panics.remove(0)))
}

/// What the panic says that ended this task.
pub(super) fn take_panic_of(task: task::Id) -> String {
    PANICS.with_borrow_mut(|panics| {
        let index = panics.iter().rposition(|panic| panic.task == Some(task));
        index.map_or_else(String::new, |index| panics.remove(index).text)
    })
}

/// What the last panic says.
pub(super) fn take_last_panic() -> String {
    PANICS.with_borrow_mut(Vec::pop).map_or_else(String::new, |panic| panic.text)
}

/// Runs code of the user: polls a program, or checks something. A panic that does not end it is one that
/// it has caught itself.
pub(super) fn run_user_code<T>(code: impl FnOnce() -> T) -> T {
    let before = untold_panics();
    let result = code();
    PANICS.with_borrow_mut(|panics| panics.truncate(before));
    result
}

/// Keeps panics of simulations, which are reported with their seeds, instead of printing them.
fn listen_for_panics() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_PLAYING.get() {
                let panic = Panic { task: task::try_id(), at: now(), text: told(info) };
                PANICS.with_borrow_mut(|panics| panics.push(panic));
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
    let message = message.map_or_else(|| "with a value that is no text".to_owned(), one_line);
    let location =
        info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    format!("panicked at {location}: {message}")
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
        let played = play(7, async || panic::panic_any(42));
        let panic = played.panic.expect("it panics");
        assert!(panic.ends_with(": with a value that is no text"), "{panic}");
    }

    #[test]
    fn each_task_has_its_own_panic_and_a_program_may_catch_one() {
        let played = play(7, async || {
            let tasks = ["one", "other"].map(|text| tokio::spawn(async move { panic!("{text}") }));
            let mut told = Vec::new();
            for task in tasks {
                let error = task.await.unwrap_err();
                told.push(error.id());
            }
            run_user_code(|| panic::catch_unwind(|| panic!("caught")).is_err());
            // In another order than that in which they happened.
            told.into_iter().rev().map(take_panic_of).collect::<Vec<_>>()
        });
        let [other, one] = &played.result.expect("it returns")[..] else { unreachable!("two") };
        assert!(one.ends_with(": one") && other.ends_with(": other"), "{one} {other}");
        assert_eq!(played.panic, None);
    }
}
