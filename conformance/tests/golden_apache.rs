//! Runs every golden script against Apache ZooKeeper 3.8, from which it was recorded.

use std::process::ExitCode;

use zoolet_conformance::harness;
use zoolet_conformance::servers::ServerKind;

fn main() -> ExitCode {
    harness::golden(ServerKind::Apache)
}
