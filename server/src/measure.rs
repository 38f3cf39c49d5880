//! Counters and summaries: numbers that many threads change without a lock.
//!
//! A number is read alone, so a report may show a request in one number and not yet in another.

mod counter;
mod histogram;
mod summary;

pub(crate) use self::counter::Counter;
pub(crate) use self::summary::{Latency, Summarised, Summary, Window};
