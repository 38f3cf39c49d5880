//! Lines: the sequential znodes of one directory, in which locks and leaders wait for each other.

pub(crate) mod entering;
pub(crate) mod leave;
pub(crate) mod order;
pub(crate) mod place;
pub(crate) mod unreadable;
pub(crate) mod wait_all;
