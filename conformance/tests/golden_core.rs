//! Runs every golden script against the state machine in this process.

use std::process::ExitCode;

use zoolet_conformance::harness;
use zoolet_conformance::servers::ServerKind;

fn main() -> ExitCode {
    harness::golden(ServerKind::Core)
}
