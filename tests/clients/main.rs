//! The client: its requests, watches and sessions, and the client for threads.

mod acknowledgements;
mod blocking;
mod client;
mod client_sessions;
mod dropped_watchers;
mod limits;
mod preambles;
mod same_numbers;
mod short_limits;
mod written_together;
