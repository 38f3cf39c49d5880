//! Tests of TLS between clients and a server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
mod certificates;
mod clients;
mod hostile;
mod ports;
