//! Runs every golden script against our server over TCP.

use std::process::ExitCode;

use zoolet_conformance::harness;
use zoolet_conformance::servers::ServerKind;

fn main() -> ExitCode {
    harness::golden(ServerKind::Wire)
}
