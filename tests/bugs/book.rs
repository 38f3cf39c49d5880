//! What is true of each bug, and of its page.

use std::ops::Range;

use zoolet::sim::{Failure, Sim, ViolationKind};

use crate::page;

/// The seeds in which a bug must be found. A hundred take less than a minute on two cores.
const SEEDS: Range<u64> = 0..100;
/// The seeds in which a cured program must have no violation, unless the variable says another number.
const CURED_SEEDS: u64 = 12;
const CURED_SEEDS_VARIABLE: &str = "ZOOLET_BOOK_SEEDS";
/// How often the smallest run is repeated, unless the variable says another number.
const REPEATS: u64 = 3;
const REPEATS_VARIABLE: &str = "ZOOLET_BOOK_REPEATS";
/// A story must be shorter.
const LINES_MAX: usize = 30;

/// A bug of the book.
pub(crate) struct Bug {
    /// Its page is `docs/bugs/NAME.md`.
    pub(crate) name: &'static str,
    /// The file with its programs.
    pub(crate) source: &'static str,
    pub(crate) wrong: Sim,
    pub(crate) cured: Sim,
    /// What the wrong program violates.
    pub(crate) violates: ViolationKind,
}

impl Bug {
    /// The bug is found, told in a short story that repeats, and cured; its page shows just that.
    pub(crate) fn check(&self) {
        let failure = self.find();
        let story = failure.story();
        assert!((2..LINES_MAX).contains(&story.len()), "{failure}");
        let schedule = failure.schedule();
        let first = self.wrong.run(schedule.clone());
        assert_eq!(first.violation.as_ref(), Some(failure.violation()));
        for _ in 0..number(REPEATS_VARIABLE, REPEATS) {
            assert_eq!(self.wrong.run(schedule.clone()), first, "a seed repeats to the byte");
        }
        self.check_page(&failure);
        if let Err(failure) = self.cured.search(0..number(CURED_SEEDS_VARIABLE, CURED_SEEDS)) {
            panic!("the cured program fails: {failure}");
        }
    }

    #[allow(clippy::disallowed_methods, reason = "it measures how long the search takes")]
    fn find(&self) -> Failure {
        let begun = std::time::Instant::now();
        let failure = self.wrong.search(SEEDS).expect_err("the program is wrong");
        let taken = begun.elapsed();
        println!("{}: found in {:.1} s\n{failure}", self.name, taken.as_secs_f64());
        assert_eq!(failure.violation().kind, self.violates, "{failure}");
        failure
    }

    /// The page shows the code and the story as they are.
    fn check_page(&self, failure: &Failure) {
        let blocks = ["wrong", "sim", "story", "cured"];
        page::check(&format!("bugs/{}.md", self.name), &blocks, &|name| match name {
            "story" => Some(failure.to_string()),
            "sim" => page::item(self.source, "fn sim"),
            module => page::item(self.source, &format!("mod {module}")).map(|it| page::body(&it)),
        });
    }
}

/// The number in a variable.
fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text:?} is no number")),
        Err(_) => otherwise,
    }
}
