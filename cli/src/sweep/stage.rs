//! The servers of one run.

use std::future::pending;

use zoolet_testkit::{Fault, RequestInfo, TestEnsemble, TestServer};

use super::failure::Failure;
use super::front::Front;
use super::kind::{Kind, PointFault, Times};
use super::tracker::Tracker;

/// The servers of one run, and the fault that is to be injected.
#[derive(Debug)]
pub(super) struct Stage {
    servers: Servers,
    /// The port of an ensemble. Connections lead to the leader, and after the fault to a follower
    /// that is a transaction behind.
    _front: Option<Front>,
    address: String,
    fault: Fault,
    kind: Option<Kind>,
}

#[derive(Debug)]
enum Servers {
    One(TestServer),
    Ensemble(TestEnsemble),
}

/// The server that leads when an ensemble starts.
const LEADER: usize = 0;

/// What the builders were told.
const HAS_PORT: &str = "it listens on a port";

/// The server that is behind.
const BEHIND: usize = 1;

impl Stage {
    /// Starts the servers for a fault. The tracker sees all requests.
    pub(super) async fn start(
        fault: Option<&PointFault>,
        tracker: &Tracker,
    ) -> Result<Self, Failure> {
        let kind = fault.map(|fault| fault.kind);
        let target = tracker.clone();
        let decide = move |request: &RequestInfo<'_>| target.decide(request);
        if kind != Some(Kind::Stale) {
            let server = TestServer::builder().tcp().forgetful().start().await?;
            let fault = server.everyone().decide(decide)?;
            let address = server.connect_string().expect(HAS_PORT);
            return Ok(Self { servers: Servers::One(server), _front: None, address, fault, kind });
        }
        let ensemble = TestEnsemble::builder().tcp().start().await?;
        // The client has seen all but the last transaction, so this server accepts it.
        ensemble.server(BEHIND).lag_by_count(1);
        let fault = ensemble.server(LEADER).everyone().decide(decide)?;
        let follower = tracker.clone();
        let note = move |request: &RequestInfo<'_>| follower.note_elsewhere(request);
        ensemble.server(BEHIND).everyone().decide(note)?;
        let [leader, behind] = [LEADER, BEHIND].map(|index| ensemble.server(index).address());
        let (leader, behind) = (leader.expect(HAS_PORT), behind.expect(HAS_PORT));
        let tracker = tracker.clone();
        let choose = move || if tracker.is_reached() { behind } else { leader };
        let front = Front::open(choose).await.map_err(Failure::System)?;
        let address = front.address().to_string();
        let servers = Servers::Ensemble(ensemble);
        Ok(Self { servers, _front: Some(front), address, fault, kind })
    }

    /// Where clients connect to.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Ends the fault in time, once it was injected. It is never ready.
    pub(super) async fn end_fault<T>(&self, times: Times) -> T {
        self.fault.has_hit(1).await;
        match (&self.servers, self.kind) {
            (Servers::One(server), Some(Kind::Freeze)) => {
                tokio::time::sleep(times.freeze).await;
                server.thaw();
            }
            (Servers::Ensemble(ensemble), _) => {
                tokio::time::sleep(times.stale).await;
                ensemble.server(BEHIND).release();
            }
            _ => {}
        }
        pending().await
    }

    /// Stops the servers.
    pub(super) async fn stop(self) {
        if let Servers::One(server) = &self.servers {
            server.heal();
            server.stop().await;
        }
    }
}
