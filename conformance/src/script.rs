//! Golden scripts: commands of named clients, and the exact trace of what each client received.
//!
//! The format is that of the crate goldenscript. A command is the name of its client, `>`, and a
//! line that is split as by a shell; `README.md` lists the commands. A trace is the same in every
//! run because:
//!
//! - The runner waits for the reply before it runs the next command, and shows earlier messages
//!   before the reply. At the end of a block every client pings and shows the messages before the
//!   reply, so that no event is shown in a later block than its cause.
//! - Zxids, sessions and times, which depend on the run, are shown in a form that does not
//!   ([`Zxid`](zoolet_protocol::Zxid)s are counted from the start of the script).
//! - A script leaves nothing behind: its znodes are deleted and its sessions are closed.

mod cleanup;
mod command;
mod corpus;
mod ground;
mod operation;
mod runner;
mod trace;
mod value;

pub(crate) use self::cleanup::Janitor;
pub use self::cleanup::SUPER_DIGEST;
pub(crate) use self::command::ServerCommand;
pub use self::corpus::{
    ENSEMBLE_SCRIPTS, Script, ScriptError, Setting, Version, corpus, ensemble_corpus,
};
pub(crate) use self::ground::Ground;
pub(crate) use self::runner::play;
pub use self::runner::run;
pub(crate) use self::trace::Trace;
