//! Locks on an ensemble of Apache ZooKeeper whose members do not know the same: a follower lags, a
//! follower is cut off, a leader is cut off, a leader stands still. Two clients must never report that they hold the same
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
mod standstill;

use std::sync::Arc;

use libtest_mimic::Failed;
use zoolet_conformance::apache::Timing;
use zoolet_conformance::ensemble::Ensemble;
use zoolet_conformance::harness::{InTurn, Section};
use zoolet_conformance::peers::Peer;

/// The result of an experiment.
type Outcome = Result<(), Failed>;

pub(crate) fn tests() -> Section {
    let mut section = Section::new("ensembles", 1);
    let quick = Lazy::new(Timing::QUICK);
    let usual = Lazy::new(Timing::USUAL);
    let losing_leaders = Lazy::new(Timing::USUAL);
    quick.add(
        &mut section,
        "lag::a_follower_answers_from_its_old_state",
        lag::a_follower_answers_from_its_old_state,
    );
    quick.add(&mut section, "lag::a_permit_has_one_holder", lag::a_permit_has_one_holder);
    quick.add(
        &mut section,
        "lag::a_holder_reads_what_was_written",
        lag::a_holder_reads_what_was_written,
    );
    quick.add(&mut section, "double::sessions_move_alike", double::sessions_move_alike);
    quick.add(&mut section, "double::refusals_are_alike", double::refusals_are_alike);
    quick.add(
        &mut section,
        "double::a_lagging_follower_looks_alike",
        double::a_lagging_follower_looks_alike,
    );
    quick.add(&mut section, "double::elections_look_alike", double::elections_look_alike);
    usual.add(&mut section, "costs", costs::are_counted);
    for meanwhile in standstill::Meanwhile::ALL {
        let name = format!("standstill::{meanwhile:?}");
        usual.add(&mut section, &name, move |ensemble| {
            standstill::nobody_holds_beside_another(ensemble, meanwhile)
        });
    }
    usual.add(&mut section, "partition::of_a_follower", |ensemble| {
        partition::nobody_holds_beside_another(ensemble, partition::Victim::Follower)
    });
    losing_leaders.add(&mut section, "partition::of_a_leader", |ensemble| {
        partition::nobody_holds_beside_another(ensemble, partition::Victim::Leader)
    });
    losing_leaders.add(
        &mut section,
        "partition::of_a_leader_whose_followers_notice_first",
        |ensemble| {
            partition::nobody_holds_beside_another(ensemble, partition::Victim::SeveredLeader)
        },
    );
    section
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
    ensemble: Arc<InTurn<Option<Ensemble>>>,
}

impl Lazy {
    fn new(timing: Timing) -> Self {
        Self { timing, ensemble: InTurn::new(None) }
    }

    fn add(
        &self,
        section: &mut Section,
        name: &str,
        test: impl FnOnce(&Ensemble) -> Outcome + Send + 'static,
    ) {
        let timing = self.timing;
        section.test_in_turn(&self.ensemble, &[Peer::Apache], name, move |ensemble| {
            if ensemble.is_none() {
                *ensemble = Some(Ensemble::start_at(timing)?);
            }
            test(ensemble.as_ref().expect("it was just started"))
        });
    }
}
