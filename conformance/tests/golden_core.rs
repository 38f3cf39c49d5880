//! Every script of the corpus, against the core in process.

use std::process::ExitCode;

use zoolet_conformance::harness;
use zoolet_conformance::servers::ServerKind;

fn main() -> ExitCode {
    harness::golden(ServerKind::Core)
}
