//! Changes znodes in steps, each of them once: the migrations of Curator's `curator-x-async`, with its
//! znodes, so that Rust and Java programs apply one list of migrations to one ensemble.
//!
//! A [`Migration`] is a list of operations, and a [`MigrationSet`] the list of all migrations so far,
//! which only grows at its end. [`MigrationManager::migrate`] holds a lock, looks which of them were
//! carried out, and carries out the others in one transaction.
//!
//! This module is there with the feature `migrations`, which brings SHA-256.

mod digest;
mod error;
mod limits;
mod manager;
mod set;

pub use self::error::MigrationError;
pub use self::manager::MigrationManager;
pub use self::set::{Migration, MigrationSet};
