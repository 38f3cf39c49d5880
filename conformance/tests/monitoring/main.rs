//! What monitoring systems read: the word `mntr`, the page for Prometheus, the audit log. The names
//! are those of a standalone ZooKeeper 3.9.5, and the counts those of an Apache ZooKeeper that has
//! carried out the same requests.

mod audit;
mod counts;
mod names;
mod page;
mod promtool;
mod requests;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use zoolet_conformance::harness;
use zoolet_conformance::peers::Peer;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("mntr has every key of 3.9.5", names::mntr_has_every_key),
        Trial::test("dashboards and alerts find their names", names::dashboards_and_alerts),
        Trial::test("mntr and the page agree", page::mntr_agrees),
        Trial::test("the page is served as ZooKeeper serves it", page::served),
        harness::needs(&[Peer::Promtool], "promtool accepts the page", promtool::accepts_the_page),
        harness::needs(
            &[Peer::Promtool],
            "promtool accepts the rules",
            promtool::accepts_the_rules,
        ),
        harness::needs(&[Peer::Apache], "counts are those of Apache", counts::are_those_of_apache),
        harness::needs(&[Peer::Apache], "audit lines are those of Apache", audit::lines),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}
