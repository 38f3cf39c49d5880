//! What monitoring systems read: the word `mntr`, the page for Prometheus, the audit log. The names
//! are those of a standalone ZooKeeper 3.9.5, and the counts those of an Apache ZooKeeper that has
//! carried out the same requests.

mod audit;
mod counts;
mod names;
mod page;
mod promtool;
mod requests;

use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("monitoring", 1);
    section.test(&[], "mntr has every key of 3.9.5", names::mntr_has_every_key);
    section.test(&[], "dashboards and alerts find their names", names::dashboards_and_alerts);
    section.test(&[], "mntr and the page agree", page::mntr_agrees);
    section.test(&[], "the page is served as ZooKeeper serves it", page::served);
    section.test(&[Peer::Promtool], "promtool accepts the page", promtool::accepts_the_page);
    section.test(&[Peer::Promtool], "promtool accepts the rules", promtool::accepts_the_rules);
    section.test(&[Peer::Apache], "counts are those of Apache", counts::are_those_of_apache);
    section.test(&[Peer::Apache], "audit lines are those of Apache", audit::lines);
    section
}
