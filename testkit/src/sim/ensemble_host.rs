//! The ensemble of a simulation: its servers lag and are cut off from each other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;
use tokio::time::Instant;
use zoolet_core::{Core, Txn};
use zoolet_protocol::{SessionId, Stat};

use super::fault::EnsembleFault;
use super::network::Network;
use super::record::{Lane, Record, ServerOf, What};
use super::znode;
use crate::clock::now;
use crate::ensemble::{
    CutOff, Ensemble, EnsembleEvent, EnsembleObserver, EnsembleSettings, MEMBERS, Notice,
};

/// A test double of an ensemble of three servers.
pub(super) struct EnsembleHost {
    record: Arc<Record>,
    network: Network,
    ensemble: Ensemble,
    /// The delays of members, and when they end.
    lags: Mutex<Vec<(usize, Duration, Instant)>>,
    _server_of: Arc<ServerOf>,
}

impl EnsembleHost {
    pub(super) fn new(record: &Arc<Record>, network: &Network, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let settings = EnsembleSettings {
            tick: Duration::from_millis(rng.choice([250, 500, 1_000]).unwrap_or(500)),
            sync_limit: rng.u32(2..=10),
            tell_zxids: tell_zxids(&mut rng),
        };
        let observer = Arc::new(Recorder(Arc::clone(record)));
        let ensemble = Ensemble::new(rng, settings, observer);
        let asked = ensemble.clone();
        let server_of: Arc<ServerOf> =
            Arc::new(move |session| asked.inspect(|state| state.server_of(session)));
        record.ask_server_of(&server_of);
        let (record, network) = (Arc::clone(record), network.clone());
        Self { record, network, ensemble, lags: Mutex::default(), _server_of: server_of }
    }

    pub(super) fn start(&self) {
        tokio::spawn(self.ensemble.clone().live());
        self.network.serve(Some(Arc::new(self.ensemble.clone())));
        self.record.add(Lane::Server, || What::State("an ensemble of three serves".to_owned()));
    }

    /// Carries out a fault, and returns when it is over.
    pub(super) async fn inject(&self, mut fault: EnsembleFault) {
        match &mut fault {
            EnsembleFault::CutFollower { .. } | EnsembleFault::CutLeader { .. }
                if !self.can_be_cut() =>
            {
                return;
            }
            // One that leads is never behind.
            EnsembleFault::Lag { member, .. } | EnsembleFault::HoldApplying { member, .. } => {
                *member = self.follower_at(*member);
            }
            EnsembleFault::HoldLink { member, for_ms } => {
                *member = self.follower_at(*member);
                // The story tells what happens.
                let longest = self.ensemble.inspect(|state| state.longest_hold());
                *for_ms = (*for_ms).min(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX));
            }
            EnsembleFault::CutFollower { .. } | EnsembleFault::CutLeader { .. } => {}
        }
        let (text, for_ms) = (fault.to_string(), Some(fault.for_ms()));
        self.record.add(Lane::Server, || What::Fault { text, for_ms });
        let time = Duration::from_millis(fault.for_ms());
        match fault {
            EnsembleFault::Lag { member, delay_ms, .. } => {
                let delay = Duration::from_millis(delay_ms);
                self.lags.lock().push((member, delay, now() + time));
                self.lag(member);
                tokio::time::sleep(time).await;
                self.lag(member);
            }
            EnsembleFault::HoldApplying { member, .. } => {
                self.ensemble.change_faults(|state| state.hold_applying(member, time));
            }
            EnsembleFault::HoldLink { member, .. } => {
                self.ensemble.change_faults(|state| state.hold_link(member, time));
            }
            EnsembleFault::CutFollower { member, notice, .. } => {
                let follower = CutOff::Follower(member);
                self.ensemble.change_faults(|state| state.cut_off(follower, notice, time));
            }
            EnsembleFault::CutLeader { notice, .. } => {
                let leader = CutOff::Leader;
                self.ensemble.change_faults(|state| state.cut_off(leader, notice, time));
            }
        }
    }

    /// This member, or the next one if it leads.
    fn follower_at(&self, member: usize) -> usize {
        match self.ensemble.inspect(|state| state.leads(member)) {
            true => (member + 1) % MEMBERS,
            false => member,
        }
    }

    /// Delays a member by its greatest present delay.
    fn lag(&self, member: usize) {
        let mut lags = self.lags.lock();
        lags.retain(|(_, _, until)| *until > now());
        let its = lags.iter().filter(|(of, _, _)| *of == member);
        let delay = its.map(|(_, delay, _)| *delay).max().unwrap_or_default();
        drop(lags);
        self.ensemble.change_faults(|state| state.delay(member, delay));
    }

    /// Whether a server can be cut off now: one at a time, and only while there is a leader.
    pub(super) fn can_be_cut(&self) -> bool {
        self.ensemble.inspect(|state| state.is_well())
    }

    /// Cuts the server off from the others that serves a session.
    pub(super) fn cut_off(&self, session: SessionId, notice: Notice, for_ms: u64) {
        let (server, time) = (CutOff::ServerOf(session), Duration::from_millis(for_ms));
        self.ensemble.change_faults(|state| state.cut_off(server, notice, time));
    }

    pub(super) fn end_faults(&self) {
        self.ensemble.change_faults(|state| state.end_faults());
    }

    /// Whether a session lives, after all committed transactions.
    pub(super) fn has_session(&self, session: SessionId) -> bool {
        self.ensemble.inspect(|state| state.head().has_session(session))
    }

    /// The data of a znode with its Stat, after all committed transactions.
    pub(super) fn znode(&self, path: &str) -> Option<(Bytes, Stat)> {
        self.ensemble.inspect(|state| znode::read(state.head(), path))
    }
}

/// Which servers send the zxid with an event: all, as since ZooKeeper 3.9, or none, or some, as
/// during a rolling upgrade.
fn tell_zxids(rng: &mut Rng) -> [bool; MEMBERS] {
    match rng.u8(..5) {
        0 | 1 => [true; MEMBERS],
        2 | 3 => [false; MEMBERS],
        _ => std::array::from_fn(|_| rng.bool()),
    }
}

/// Records what happens in an ensemble.
struct Recorder(Arc<Record>);

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl EnsembleObserver for Recorder {
    fn happened(&self, event: EnsembleEvent) {
        match event {
            EnsembleEvent::SessionExpired(session) => self.0.expired(session),
            _ => self.0.add(Lane::Server, || What::State(event.to_string())),
        }
    }

    fn committing(&self, _txn: &Txn, before: &Core) {
        // Several may be committed at once.
        self.0.state_committed(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_leads_is_not_told_to_be_behind() {
        let record = Arc::new(Record::new(true));
        let network = Network::new(Arc::clone(&record) as _);
        let host = EnsembleHost::new(&record, &network, 7);
        host.start();
        let leads = |member: &usize| host.ensemble.inspect(|state| state.leads(*member));
        let leader = (0..MEMBERS).find(leads).expect("one leads");
        for fault in [
            EnsembleFault::Lag { member: leader, delay_ms: 5, for_ms: 5 },
            EnsembleFault::HoldApplying { member: leader, for_ms: 5 },
            EnsembleFault::HoldLink { member: leader, for_ms: 5 },
        ] {
            host.inject(fault).await;
        }
        let (_, _, _, entries) = record.finish();
        let faults: Vec<_> = entries.iter().map(|entry| format!("{:?}", entry.what)).collect();
        let other = format!("server {}", (leader + 1) % MEMBERS);
        assert_eq!(faults.iter().filter(|fault| fault.contains(&other)).count(), 3, "{faults:?}");
    }
}
