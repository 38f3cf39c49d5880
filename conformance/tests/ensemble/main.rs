//! Locks on an ensemble of Apache's whose members do not know the same: a follower lags, a follower
//! is cut off, a leader is cut off. At no time may two clients believe that they hold one lock, and
//! a holder must read what the holder before it wrote.
//!
//! `ZOOLET_ENSEMBLE_TRIALS` is how often a client is led to a follower that lags, and
//! `ZOOLET_ENSEMBLE_PARTITIONS` how often a member is cut off.

mod common;
mod costs;
mod holding;
mod lag;
mod partition;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use zoolet_conformance::apache::Timing;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::harness;
use zoolet_conformance::peers::Peer;

/// What came of an experiment.
type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A network is in one state at a time.
    arguments.test_threads = Some(1);
    let quick = Lazy::new(Timing::QUICK);
    let usual = Lazy::new(Timing::USUAL);
    let trials = vec![
        quick.trial(
            "lag::a_follower_answers_from_its_old_state",
            lag::a_follower_answers_from_its_old_state,
        ),
        quick.trial("lag::a_permit_has_one_holder", lag::a_permit_has_one_holder),
        quick.trial("lag::a_holder_reads_what_was_written", lag::a_holder_reads_what_was_written),
        usual.trial("costs", costs::are_counted),
        usual.trial("partition::of_a_follower", |ensemble| {
            partition::nobody_holds_beside_another(ensemble, partition::Victim::Follower)
        }),
        usual.trial("partition::of_a_leader", |ensemble| {
            partition::nobody_holds_beside_another(ensemble, partition::Victim::Leader)
        }),
        usual.trial("partition::of_a_leader_whose_followers_notice_first", |ensemble| {
            partition::nobody_holds_beside_another(ensemble, partition::Victim::SeveredLeader)
        }),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers go before the process does.
    drop((quick, usual));
    conclusion.exit_code()
}

/// How often something is done: by the variable, or as often as is enough to notice.
fn times(variable: &str, default: usize) -> Result<usize, Failed> {
    match std::env::var(variable) {
        Ok(times) => Ok(times.parse()?),
        Err(_) => Ok(default),
    }
}

/// An ensemble, started when the first test needs it.
struct Lazy {
    timing: Timing,
    ensemble: Arc<Mutex<Option<Ensemble>>>,
}

impl Lazy {
    fn new(timing: Timing) -> Self {
        Self { timing, ensemble: Arc::default() }
    }

    fn trial(&self, name: &str, test: impl FnOnce(&Ensemble) -> Outcome + Send + 'static) -> Trial {
        let (timing, ensemble) = (self.timing, Arc::clone(&self.ensemble));
        harness::needs(&[Peer::Apache], name, move || {
            let mut ensemble = ensemble.lock().unwrap_or_else(PoisonError::into_inner);
            if ensemble.is_none() {
                *ensemble = Some(Ensemble::start_at(timing)?);
            }
            test(ensemble.as_ref().expect("it was just started"))
        })
    }
}
