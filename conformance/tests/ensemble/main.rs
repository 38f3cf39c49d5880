//! Locks on an ensemble of Apache ZooKeeper whose members do not know the same: a follower lags, a
//! follower is cut off, a leader is cut off. Two clients must never report that they hold the same
//! lock, and a holder must read what the former holder wrote. And what clients of the test kit's
//! `TestEnsemble` see is what they see of Apache ZooKeeper.
//!
//! `ZOOLET_ENSEMBLE_TRIALS` sets how many times a client is led to a lagging follower, and
//! `ZOOLET_ENSEMBLE_PARTITIONS` how many times a member is cut off.

mod common;
mod costs;
mod double;
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

/// The result of an experiment.
type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A network can be in one state at a time only: each ensemble has one test at a time, and the other
    // threads wait for it.
    arguments.test_threads = Some(11);
    let quick = Lazy::new(Timing::QUICK);
    let usual = Lazy::new(Timing::USUAL);
    let losing_leaders = Lazy::new(Timing::USUAL);
    let trials = vec![
        quick.trial(
            "lag::a_follower_answers_from_its_old_state",
            lag::a_follower_answers_from_its_old_state,
        ),
        quick.trial("lag::a_permit_has_one_holder", lag::a_permit_has_one_holder),
        quick.trial("lag::a_holder_reads_what_was_written", lag::a_holder_reads_what_was_written),
        quick.trial("double::sessions_move_alike", double::sessions_move_alike),
        quick.trial("double::refusals_are_alike", double::refusals_are_alike),
        quick.trial(
            "double::a_lagging_follower_looks_alike",
            double::a_lagging_follower_looks_alike,
        ),
        quick.trial("double::elections_look_alike", double::elections_look_alike),
        usual.trial("costs", costs::are_counted),
        usual.trial("partition::of_a_follower", |ensemble| {
            partition::nobody_holds_beside_another(ensemble, partition::Victim::Follower)
        }),
        losing_leaders.trial("partition::of_a_leader", |ensemble| {
            partition::nobody_holds_beside_another(ensemble, partition::Victim::Leader)
        }),
        losing_leaders.trial("partition::of_a_leader_whose_followers_notice_first", |ensemble| {
            partition::nobody_holds_beside_another(ensemble, partition::Victim::SeveredLeader)
        }),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Stop the servers before the process ends.
    drop((quick, usual, losing_leaders));
    conclusion.exit_code()
}

/// A number of repetitions: that of the variable, or the default, which is enough to notice a
/// regression.
fn times(variable: &str, default: usize) -> Result<usize, Failed> {
    match std::env::var(variable) {
        Ok(times) => Ok(times.parse()?),
        Err(_) => Ok(default),
    }
}

/// An ensemble, which is started when the first test needs it.
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
