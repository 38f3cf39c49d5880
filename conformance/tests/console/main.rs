//! The console in a browser: what each view shows, at which sizes and in which colours, that hostile names
//! are text there, that it can be used with keys and by a screen reader, that it stays fluid, and how soon a
//! change is seen.
//!
//! Pictures of all views are left in `target/tmp/console`, or where `ZOOLET_CONSOLE_PICTURES` says.
#![allow(clippy::disallowed_methods, reason = "browser and server have clocks of their own")]

mod browser;
mod checks;
mod fluid;
mod hand_over;
mod scene;
mod views;

use std::error::Error;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use zoolet_conformance::harness::needs;
use zoolet_conformance::peers::Peer::Chromium;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A browser keeps two cores busy.
    arguments.test_threads = Some(1);
    let run = |test: fn() -> Outcome<()>| move || Ok(test()?);
    let trials = vec![
        needs(&[Chromium], "checks-find-defects", run(checks::find_defects)),
        needs(&[Chromium], "data", run(views::show_their_data)),
        needs(&[Chromium], "what-was", run(views::forget_what_was)),
        needs(&[Chromium], "readme-picture", run(views::take_the_picture_of_the_readme)),
        needs(&[Chromium], "hostile-names", run(views::show_hostile_names_as_text)),
        needs(&[Chromium], "missing-words", run(views::tell_what_is_missing)),
        needs(&[Chromium], "keys", run(views::obey_the_keys)),
        needs(&[Chromium], "hand-over", run(hand_over::is_seen_soon)),
        needs(&[Chromium], "fluid-waiters", run(fluid::with_many_waiters)),
        needs(&[Chromium], "fluid-znodes", run(fluid::with_many_znodes)),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}
