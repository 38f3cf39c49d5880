//! The guide `docs/testing.md`. Its tests run on the lock as it was first written, which fails some of
//! them in the words that the guide shows, and on the cured lock, which passes all.

use std::thread;

use zoolet::sim_test;

use crate::page;

mod cured;
mod first;

use cured::steps;
use cured::steps::stock;

sim_test!(the_lock_excludes, 0..50, stock());
sim_test!(the_lock_on_an_ensemble_excludes, 0..25, stock().ensemble());

#[tokio::test(start_paused = true)]
async fn the_cured_lock_passes() {
    steps::one_at_a_time().await.unwrap();
    steps::the_network_of_a_holder_is_down().await.unwrap();
    steps::any_reply_may_be_lost().await.unwrap();
    steps::the_server_of_a_holder_is_cut_off().await.unwrap();
}

#[test]
fn the_guide_shows_what_runs() {
    let steps = include_str!("guide/steps.rs");
    panics_with(first::steps::one_at_a_time()).expect_err("the first step finds nothing");
    panics_with(first::steps::the_network_of_a_holder_is_down()).expect_err("nor does the second");
    let blocks = ["lock", "lost reply", "report", "cut off", "cured lock", "sim tests"];
    page::check("testing.md", &blocks, &|name| match name {
        "lock" => Some(page::program(include_str!("guide/first.rs"))),
        "cured lock" => Some(page::program(include_str!("guide/cured.rs"))),
        "lost reply" => panics_with(first::steps::any_reply_may_be_lost()).ok(),
        "cut off" => panics_with(first::steps::the_server_of_a_holder_is_cut_off()).ok(),
        "report" => {
            let sim = first::steps::stock().page_directory("target/zoolet-sim");
            panic_of(move || sim.sweep(0..1_000)).ok()
        }
        "sim tests" => {
            let tests = include_str!("guide.rs").lines().filter(|it| it.starts_with("sim_test!"));
            Some(tests.collect::<Vec<_>>().join("\n"))
        }
        "impl Held" => page::item(steps, name),
        test => {
            let kinds = ["async fn", "fn"].map(|kind| format!("pub(crate) {kind} {test}("));
            let test = kinds.iter().find_map(|begins| page::item(steps, begins))?;
            Some(test.replacen("pub(crate) ", "", 1))
        }
    });
}

/// With what a test panics under the paused clock.
fn panics_with(
    test: impl Future<Output = steps::TestResult> + Send + 'static,
) -> Result<String, ()> {
    panic_of(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let test = runtime.expect("a runtime can be built").block_on(test);
        test.expect("no request fails");
    })
}

/// With what a test of this name panics.
fn panic_of(test: impl FnOnce() + Send + 'static) -> Result<String, ()> {
    let test = thread::Builder::new().name("the_lock_excludes".to_owned()).spawn(test);
    match test.expect("a thread can be started").join() {
        Ok(()) => Err(()),
        Err(panic) => Ok(match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic.downcast_ref::<&str>().expect("it has a message").to_string(),
        }),
    }
}
