//! Random operations from a short range of seeds, on our server and on Apache ZooKeeper. The
//! command `differential` runs more seeds.

use libtest_mimic::Failed;
use zoolet_conformance::apache::Apache;
use zoolet_conformance::core_target::CoreTarget;
use zoolet_conformance::differential::{self, Plan};
use zoolet_conformance::harness::Section;
use zoolet_conformance::peers::Peer;
use zoolet_conformance::script::Setting;
use zoolet_conformance::servers;
use zoolet_conformance::target::Target;
use zoolet_conformance::wire::Wire;

/// Takes half a minute on two busy cores.
const SEEDS: u64 = 200;
const OPERATIONS: u64 = 10_000;

/// Our server carries out no writes together while it enforces quotas.
const WITH_QUOTAS: Setting = Setting::SteadyWithQuotas;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("differential", 1);
    section.test(&[Peer::Apache], "core", || {
        let core = CoreTarget::new(servers::settings(WITH_QUOTAS));
        agrees(&core, WITH_QUOTAS)
    });
    section.test(&[Peer::Apache], "wire", || {
        let server = Wire::start(servers::config(WITH_QUOTAS))?;
        agrees(&server.target(), WITH_QUOTAS)
    });
    section.test(&[Peer::Apache], "wire_without_quotas", || {
        let server = Wire::start(servers::config(Setting::Steady))?;
        agrees(&server.target(), Setting::Steady)
    });
    section
}

fn agrees(ours: &dyn Target, setting: Setting) -> Result<(), Failed> {
    let reference = Apache::start(&servers::properties(setting))?;
    let has_quotas = setting == WITH_QUOTAS;
    let (seeds, operations) = (0..SEEDS, OPERATIONS);
    let plan = Plan { seeds, operations, has_quotas, is_verbose: false, has_event_zxids: true };
    let agreement = differential::run(&plan, ours, &reference.target())?;
    assert_eq!((agreement.seeds, agreement.steps), (SEEDS, OPERATIONS));
    Ok(())
}
