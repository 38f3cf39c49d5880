//! The faults and the observer of a test as the hooks of a server.

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use zoolet_core::ConnectionId;
use zoolet_protocol::Zxid;
use zoolet_server::hooks::{
    Admission, ClockOffset, Closed, HookedConnection, HookedServer, Hooks, Message, ServerTxn,
};

use crate::faults::{Control, Faults};
use crate::gate::Running;
use crate::gates::Gates;
use crate::observe::Observer;
use crate::observe::observations::Observations;

/// Connects the faults and the observer of a test with one server, through
/// [`Builder::hooks`](zoolet_server::Builder::hooks). [`TestServer`](crate::TestServer) does this
/// by itself. A server that is started again needs new hooks, with the same faults and observer.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_testkit::{Faults, Observer, TestHooks};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let observer = Observer::default();
/// let hooks = TestHooks::new(&Faults::default(), &observer);
/// let server = Server::builder().hooks(hooks).start().await?;
/// assert_eq!(observer.totals().requests.total(), 0);
/// # Ok(())
/// # }
/// ```
pub struct TestHooks {
    faults: Arc<Control>,
    observations: Arc<Observations>,
    gates: Arc<Gates>,
}

impl TestHooks {
    /// Hooks for one server.
    #[must_use]
    pub fn new(faults: &Faults, observer: &Observer) -> Arc<Self> {
        let (faults, observations) = (Arc::clone(&faults.0), Arc::clone(&observer.0));
        let gates = Gates::new(Arc::clone(faults.rules()), Arc::clone(&observations));
        Arc::new(Self { faults, observations, gates: Arc::new(gates) })
    }
}

impl Hooks for TestHooks {
    fn started(&self, server: Weak<dyn HookedServer>) {
        let running = Running { server: Weak::clone(&server), runtime: Handle::current() };
        self.gates.started(running);
        self.faults.started(&self.gates);
        self.observations.started(server);
    }

    fn stopping(&self) {
        self.faults.stopping(&self.gates);
    }

    fn changed(&self) -> &Notify {
        self.gates.rules().changed()
    }

    fn clock_offset(&self) -> ClockOffset {
        self.gates.rules().offset()
    }

    fn is_server_frozen(&self) -> bool {
        self.gates.rules().is_server_frozen()
    }

    fn refuses_connection(&self) -> bool {
        let rules = self.gates.rules();
        rules.is_active() && rules.with(|rules| rules.refuses_all())
    }

    fn is_frozen(&self, connection: ConnectionId) -> bool {
        self.gates.rules().is_active() && self.gates.gate(connection).is_frozen()
    }

    fn receive(&self, connection: Arc<dyn HookedConnection>, frame: Bytes) -> Result<(), Closed> {
        let running = self.gates.running().expect("the first connection comes after the start");
        self.gates.gate(connection.id()).receive(connection, frame, &running.server)
    }

    fn send(&self, connection: ConnectionId, number: u64, message: &mut Message) -> Admission {
        self.gates.gate(connection).send(number, message, self.gates.running())
    }

    fn discard(&self, connection: ConnectionId, message: &Message) {
        self.observations.discarded(connection, message);
    }

    fn may_leave(&self, connection: ConnectionId, number: u64) -> bool {
        self.gates.gate(connection).may_leave(number)
    }

    fn may_wake(&self, connection: ConnectionId) -> bool {
        self.gates.gate(connection).may_wake()
    }

    fn server_txn(&self, txn: ServerTxn, zxid: Zxid) {
        self.observations.server_txn(txn, zxid);
    }

    fn closed(&self, connection: ConnectionId) {
        self.gates.remove(connection);
        self.observations.closed(connection);
        self.observations.changed();
    }

    fn settled(&self) {
        self.observations.changed();
    }
}

impl fmt::Debug for TestHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestHooks").finish_non_exhaustive()
    }
}
