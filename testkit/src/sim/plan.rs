//! The schedule of a run: which faults happen when. A seed decides it before the run, as a list, so
//! that single faults can be left out.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::fault::{EnsembleFault, Fault, FaultKind, MachineFault, Planned, ServerFault};
use super::servers::Servers;
use crate::ensemble::{MEMBERS, Notice};

/// The most faults of one kind for one machine in one run.
const FAULTS_MAX: usize = 200;

/// What may go wrong.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// How often each kind of fault happens in a minute.
    pub(super) rates: BTreeMap<FaultKind, f64>,
    /// How long faults last, in milliseconds.
    pub(super) faults_ms: u64,
    pub(super) servers: Servers,
}

impl Default for Terms {
    fn default() -> Self {
        let rates = FaultKind::ALL.map(|kind| (kind, kind.default_rate()));
        Self { rates: rates.into(), faults_ms: 12_000, servers: Servers::One }
    }
}

impl Terms {
    /// Why no faults can be drawn.
    pub(super) fn refusal(&self) -> Option<String> {
        let is_rate = |rate: &f64| rate.is_finite() && *rate >= 0.0;
        if let Some((kind, rate)) = self.rates.iter().find(|(_, rate)| !is_rate(rate)) {
            return Some(format!("{kind} cannot happen {rate} times a minute; give 0 or more"));
        }
        let mut chosen = self.rates.iter().filter(|(_, rate)| **rate > 0.0).map(|(kind, _)| *kind);
        let (first, servers) = (chosen.clone().next()?, self.servers);
        if chosen.any(|kind| kind.is_of(servers)) {
            return None;
        }
        let what = match servers {
            Servers::One => "without Sim::ensemble",
            Servers::Ensemble => "with Sim::ensemble",
        };
        Some(format!("none of the chosen faults can happen {what}, for example no {first}"))
    }
}

/// Draws the faults of a run, in the order of their times.
pub(super) fn draw(terms: &Terms, machines: usize, seed: u64) -> Vec<Planned> {
    let mut rng = Rng::with_seed(seed);
    let mut planned = Vec::new();
    for (kind, rate) in &terms.rates {
        // Drawn for each kind, so that a change of one rate leaves the other kinds as they are.
        let mut rng = rng.fork();
        // Each run has some kinds only, and those more often: a run in which everything goes wrong
        // gets nowhere.
        let is_on = rng.bool();
        let rate = rate * rng.choice([1.0, 2.0, 4.0]).unwrap_or(1.0);
        if !is_on || rate <= 0.0 || !kind.is_of(terms.servers) {
            continue;
        }
        let subjects = match kind {
            FaultKind::Lags => MEMBERS,
            kind if kind.is_of_machines() => machines,
            _ => 1,
        };
        for subject in 0..subjects {
            let times = times(&mut rng.fork(), rate, terms.faults_ms);
            let mut rng = rng.fork();
            for at_ms in times {
                let fault = one(*kind, subject, &mut rng);
                let fault = Planned { at_ms, after_entering: trigger(*kind, &mut rng), fault };
                planned.extend(companion(terms, &fault, &mut rng));
                planned.push(fault);
            }
        }
    }
    planned.sort_by_key(|planned| planned.at_ms);
    planned
}

/// When the faults of one kind happen to one subject.
fn times(rng: &mut Rng, rate: f64, faults_ms: u64) -> Vec<u64> {
    let mean_ms = 60_000.0 / rate;
    let mut times = Vec::new();
    let mut at = 0.0;
    while times.len() < FAULTS_MAX {
        // The gaps between independent events are distributed exponentially.
        at += -mean_ms * (1.0 - rng.f64()).ln();
        if at >= faults_ms as f64 {
            break;
        }
        times.push(at as u64);
    }
    times
}

/// Half of the faults that threaten the holder of a lock wait until there is one.
fn trigger(kind: FaultKind, rng: &mut Rng) -> Option<u64> {
    let (waits, soon_ms, later_ms) = (rng.bool(), rng.u64(..5), rng.u64(..200));
    let after_ms = rng.choice([0, soon_ms, later_ms]);
    let threatens = !matches!(kind, FaultKind::ClockJumps | FaultKind::Delays);
    (waits && threatens && kind.is_of_machines()).then_some(after_ms.unwrap_or(0))
}

/// Two faults do harm together that would rarely happen at once, so that half of the first have the
/// second with them. A holder whose server is cut off must work for long enough that its session
/// expires. A holder that loses its connection must come to a server that is behind.
fn companion(terms: &Terms, planned: &Planned, rng: &mut Rng) -> Option<Planned> {
    let happens = |kind| terms.rates.get(&kind).is_some_and(|rate| *rate > 0.0);
    let Fault::Machine(machine, fault) = planned.fault else { return None };
    match fault {
        MachineFault::ServerCutOff { for_ms, .. } => {
            let works_on = rng.bool() && happens(FaultKind::SlowWork);
            let fault = Fault::Machine(machine, MachineFault::SlowWork { for_ms });
            works_on.then_some(Planned { fault, ..*planned })
        }
        MachineFault::Cut { .. } if terms.servers == Servers::Ensemble => {
            let (is_behind, member) = (rng.bool(), rng.usize(..MEMBERS));
            let (delay_ms, for_ms) = (rng.u64(200..2_000), rng.u64(700..9_000));
            let is_behind = is_behind && planned.after_entering.is_some();
            let fault = Fault::Ensemble(EnsembleFault::Lag { member, delay_ms, for_ms });
            // It is behind already when the machine enters.
            let lag = Planned { at_ms: planned.at_ms, after_entering: None, fault };
            (is_behind && happens(FaultKind::Lags)).then_some(lag)
        }
        _ => None,
    }
}

fn one(kind: FaultKind, subject: usize, rng: &mut Rng) -> Fault {
    // All are drawn in any case, so that kinds do not influence each other.
    let (short, long) = (rng.u64(1..700), rng.u64(700..9_000));
    let for_ms = if rng.u8(..3) == 0 { long } else { short };
    let (down_ms, survives, steps) = (rng.u64(1..3_000), rng.u64(..), rng.u64(..2_000));
    let (is_now, jump_ms) = (rng.bool(), rng.i64(-20_000..20_000));
    let noticed_after_ms = if is_now { 0 } else { for_ms };
    let (requests, ms_max) = (rng.u64(..6), rng.choice([3, 30, 300]).unwrap_or(30));
    let (lag, delay_ms) = (rng.u8(..4), rng.choice([20, 200, 1_000]).unwrap_or(200));
    let notice = Notice::drawn(rng);
    let of_machine = |fault| Fault::Machine(subject, fault);
    match kind {
        FaultKind::Cuts => of_machine(MachineFault::Cut { noticed_after_ms }),
        FaultKind::LostReplies => of_machine(MachineFault::LoseReply { requests }),
        FaultKind::Delays => of_machine(MachineFault::Delay { ms_max, for_ms }),
        FaultKind::Silences => of_machine(MachineFault::Silence { for_ms }),
        FaultKind::LateReplies => of_machine(MachineFault::LateReplies { for_ms }),
        FaultKind::Refusals => of_machine(MachineFault::Refuse { for_ms }),
        FaultKind::Expiries => of_machine(MachineFault::Expire),
        FaultKind::Pauses => of_machine(MachineFault::Pause { for_ms }),
        FaultKind::Crashes => {
            of_machine(MachineFault::Crash { down_ms, noticed_after_ms: is_now.then_some(0) })
        }
        FaultKind::ClockJumps => of_machine(MachineFault::ClockJump { ms: jump_ms }),
        FaultKind::ServerRestarts => Fault::Server(ServerFault::Restart { down_ms }),
        FaultKind::PowerLosses => {
            let steps = if is_now { 0 } else { steps };
            Fault::Server(ServerFault::LosePower { steps, down_ms, survives })
        }
        FaultKind::FailedSyncs => Fault::Server(ServerFault::FailToSync { down_ms, survives }),
        FaultKind::ServerClockJumps => Fault::Server(ServerFault::ClockJump { ms: jump_ms / 6 }),
        FaultKind::Lags => Fault::Ensemble(match lag {
            0 | 1 => EnsembleFault::Lag { member: subject, delay_ms, for_ms },
            2 => EnsembleFault::HoldApplying { member: subject, for_ms },
            _ => EnsembleFault::HoldLink { member: subject, for_ms },
        }),
        FaultKind::FollowersCutOff if is_now => {
            let member = subject % MEMBERS;
            Fault::Ensemble(EnsembleFault::CutFollower { member, notice, for_ms: long })
        }
        FaultKind::FollowersCutOff => {
            of_machine(MachineFault::ServerCutOff { notice, for_ms: long })
        }
        FaultKind::LeadersCutOff => {
            Fault::Ensemble(EnsembleFault::CutLeader { notice, for_ms: long })
        }
        // Less than a session timeout would change nothing.
        FaultKind::SlowWork => of_machine(MachineFault::SlowWork { for_ms: long }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_schedule_and_a_rate_of_zero_none() {
        let terms = Terms::default();
        assert_eq!(draw(&terms, 3, 7), draw(&terms, 3, 7));
        assert!((0..20).any(|seed| draw(&terms, 3, seed) != draw(&terms, 3, seed + 1)));
        let none = Terms { rates: BTreeMap::new(), ..terms };
        assert_eq!(draw(&none, 3, 7), []);
    }

    #[test]
    fn faults_that_cannot_happen_are_refused() {
        let terms = |kind, rate, servers| {
            Terms { rates: [(kind, rate)].into(), faults_ms: 1_000, servers }.refusal()
        };
        assert_eq!(Terms::default().refusal(), None);
        assert_eq!(terms(FaultKind::Lags, 1.0, Servers::Ensemble), None);
        assert_eq!(terms(FaultKind::Lags, 0.0, Servers::One), None, "without faults");
        assert!(terms(FaultKind::Lags, 1.0, Servers::One).is_some());
        assert!(terms(FaultKind::PowerLosses, 1.0, Servers::Ensemble).is_some());
        for rate in [f64::NAN, f64::INFINITY, -1.0] {
            let refusal = terms(FaultKind::Cuts, rate, Servers::One).unwrap();
            assert!(refusal.contains("cuts cannot happen"), "{refusal}");
        }
    }

    #[test]
    fn every_kind_happens_about_as_often_as_its_rate_says() {
        let rates = [(FaultKind::Cuts, 6.0)].into();
        let terms = Terms { rates, faults_ms: 60_000, servers: Servers::One };
        let count: usize = (0..400).map(|seed| draw(&terms, 1, seed).len()).sum();
        // In half of the runs, and in these 7/3 times as often on average.
        let mean = count as f64 / 400.0;
        assert!((6.0..8.2).contains(&mean), "{mean}");
    }
}
