//! Every script of the corpus, against Apache ZooKeeper 3.8, which recorded it.

use std::process::ExitCode;

use zoolet_conformance::harness;
use zoolet_conformance::servers::ServerKind;

fn main() -> ExitCode {
    harness::golden(ServerKind::Apache)
}
