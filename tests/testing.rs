//! The test kit: servers for tests, and each of the faults.

#[path = "testing/lifecycle.rs"]
mod lifecycle;
