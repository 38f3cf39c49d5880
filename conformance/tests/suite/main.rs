//! Our server, client and recipes beside Apache ZooKeeper, Curator and kazoo. Each module is about one subject,
//! and the names of its tests begin with its name.
//!
//! Most tests wait, so all are in one program, which runs many of them side by side.

mod console_apache;
mod costs;
mod curator_bytes;
mod data_directory;
mod differential;
mod discovery;
mod doctor;
mod ensembles;
mod fleet;
mod fleets_of_the_past;
mod foreign;
mod golden;
mod golden_ensemble;
mod groups;
mod guides;
mod kazoo_registrations;
mod locks_of_the_past;
mod monitoring;
mod random_faults;
mod recipes;
mod recordings;
mod request_counts;
mod tls;

use std::process::ExitCode;

use zoolet_conformance::harness;

fn main() -> ExitCode {
    // Tests that wait for their turn on a server come first: there are few of these servers, and most
    // of the time they do nothing. Then come the longest.
    harness::run(vec![
        ensembles::tests(),
        foreign::tests(),
        fleets_of_the_past::tests(),
        random_faults::tests(),
        data_directory::tests(),
        request_counts::tests(),
        differential::tests(),
        fleet::tests(),
        tls::tests(),
        groups::tests(),
        guides::tests(),
        costs::tests(),
        discovery::tests(),
        doctor::tests(),
        locks_of_the_past::tests(),
        console_apache::tests(),
        kazoo_registrations::tests(),
        monitoring::tests(),
        curator_bytes::tests(),
        recordings::tests(),
        recipes::tests(),
        golden::tests(),
        golden_ensemble::tests(),
    ])
}
