//! The guide `docs/testing.md`, and its second half, the book of bugs: bugs of locks and leaders, most of
//! them as their users reported them. The simulation finds each of them, and nothing in the cured program.
//! `docs/bugs` has a page for each, which shows the code and the story of its test.

mod book;
mod guide;
mod line;
mod page;

mod created_again;
mod downgrade;
mod expired_session;
mod late_write;
mod lease_by_clocks;
mod lost_reply;
mod old_session;
mod overtaken_read;
mod permits_one_by_one;
mod sorted_by_name;
mod watch_on_nothing;
