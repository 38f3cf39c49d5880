//! The server: sessions, users, bad input, what administrators ask, and what is on the disk.

mod administrator;
mod authentication;
mod bad_input;
mod damaged_files;
mod durability;
mod durable_mark;
mod group_commit;
mod precedence;
mod reports;
mod seeds;
mod sessions;
