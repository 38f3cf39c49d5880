//! Counters and summaries: numbers that threads change without a lock of their own.
//!
//! A number is read alone, so a report may show a request in one number and not yet in another.

mod counter;
mod histogram;
mod repeats;
mod summary;

pub(crate) use self::counter::{Counter, Spread, Tally};
pub(crate) use self::repeats::Repeats;
pub(crate) use self::summary::{Latency, Summarised, Summary, Window};
