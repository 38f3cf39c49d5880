//! Golden scripts: commands of named clients, and the exact trace of what each of them received.
//!
//! The format is that of the crate goldenscript. A command is the prefix of its client, `>`, and a
//! line that is split as a shell would; `README.md` lists the commands. Three promises make a
//! trace the same in every run:
//!
//! - An answer is awaited before the next command is run, and what arrived before it is shown
//!   before it. At the end of a block every client pings and shows what arrived before the answer,
//!   so that no event is shown in a later block than that of its cause.
//! - What depends on the run is normalised ([`Zxid`](zoolet_protocol::Zxid)s, sessions, times).
//! - A script leaves nothing behind: its znodes are deleted and its sessions closed.

mod cleanup;
mod command;
mod corpus;
mod operation;
mod runner;
mod trace;
mod value;

pub(crate) use self::cleanup::Janitor;
pub use self::cleanup::SUPER_DIGEST;
pub use self::corpus::{Script, ScriptError, Setting, Version, corpus};
pub use self::runner::run;
pub(crate) use self::trace::Trace;
