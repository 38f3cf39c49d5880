//! Connections of clients in the same process, to one server or to all in turn.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use zoolet_protocol::{Dial, Dialing, Disconnected, Searching, Transport};

use super::engine::Ensemble;
use super::hooked::ServerSide;

fn refused(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, reason)
}

/// The client's side of a connection.
pub(super) struct ClientSide(Arc<ServerSide>);

impl ClientSide {
    pub(super) fn boxed(server: Arc<ServerSide>) -> Box<dyn Transport> {
        Box::new(Self(server))
    }
}

impl Transport for ClientSide {
    fn is_local(&self) -> bool {
        true
    }

    fn send(&self, frame: Bytes) -> Result<(), Disconnected> {
        if !self.0.is_still_open() {
            self.0.ensemble.act(|_| ());
            return Err(Disconnected);
        }
        // The client learns of the end after the messages before it.
        let _closed = self.0.receive(frame);
        Ok(())
    }

    fn flush(&self) -> Result<(), Disconnected> {
        Ok(())
    }

    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let message = std::task::ready!(self.0.poll_take(context));
        Poll::Ready(message.map(|message| message.into_frame()))
    }
}

/// Connects to the servers of a [`TestEnsemble`](crate::TestEnsemble) in the same process: to one of
/// them, or to all in turn, as a connect string of all does. Clones go on in the same turn.
///
/// It does not keep the ensemble alive. When the last handle of the ensemble is dropped, the clients
/// that use this dialer close.
///
/// ```
/// use zoolet_client::Client;
/// use zoolet_testkit::TestEnsemble;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ensemble = TestEnsemble::start().await?;
/// let client = Client::connect(ensemble.dialer()).await?;
/// client.create("/a").await?;
/// let reader = Client::connect(ensemble.server(2).dialer()).await?;
/// reader.sync("/a").await?;
/// assert!(reader.exists("/a").await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct EnsembleDialer {
    ensemble: Ensemble,
    target: Target,
}

#[derive(Debug, Clone)]
enum Target {
    One(usize),
    InTurn(Arc<Turn>),
}

impl EnsembleDialer {
    pub(super) fn to(ensemble: &Ensemble, server: usize) -> Self {
        Self { ensemble: ensemble.clone(), target: Target::One(server) }
    }

    pub(super) fn in_turn(ensemble: &Ensemble, first: usize) -> Self {
        let turn = Arc::new(Turn::starting_at(first));
        Self { ensemble: ensemble.clone(), target: Target::InTurn(turn) }
    }
}

impl Dial for EnsembleDialer {
    fn dial(&self) -> Dialing {
        let server = match &self.target {
            Target::One(server) => *server,
            Target::InTurn(turn) => turn.next(self.ensemble.servers()),
        };
        let dialed = self.ensemble.open(server, None).map(ClientSide::boxed).map_err(refused);
        Box::pin(std::future::ready(dialed))
    }

    fn servers(&self) -> usize {
        match self.target {
            Target::One(_) => 1,
            Target::InTurn(_) => self.ensemble.servers(),
        }
    }

    fn find_read_write(&self) -> Searching {
        let server = match &self.target {
            Target::One(server) => *server,
            Target::InTurn(turn) => turn.present(self.ensemble.servers()),
        };
        let is_found = self.ensemble.inspect(|state| state.serves_writes(server));
        if let (Target::InTurn(turn), false) = (&self.target, is_found) {
            turn.next(self.ensemble.servers());
        }
        Box::pin(std::future::ready(is_found))
    }

    fn is_gone(&self) -> bool {
        self.ensemble.is_over()
    }
}

/// Connects to a server that the seed draws.
impl Dial for Ensemble {
    fn dial(&self) -> Dialing {
        let member = self.with(|state| {
            let members = state.members.len();
            state.rng.usize(..members)
        });
        let dialed = self.open(member, None).map(ClientSide::boxed).map_err(refused);
        Box::pin(std::future::ready(dialed))
    }

    fn servers(&self) -> usize {
        self.inspect(|state| state.members.len())
    }

    fn is_gone(&self) -> bool {
        self.is_over()
    }
}

/// Counts for those who dial the servers in turn.
#[derive(Debug, Default)]
struct Turn(AtomicUsize);

impl Turn {
    fn starting_at(first: usize) -> Self {
        Self(AtomicUsize::new(first))
    }

    /// The next server of this many.
    fn next(&self, servers: usize) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) % servers
    }

    /// The server whose turn it is.
    fn present(&self, servers: usize) -> usize {
        self.0.load(Ordering::Relaxed) % servers
    }
}
