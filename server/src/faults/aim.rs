//! The faults, as methods.

use std::sync::Arc;

use super::{FaultError, Faults, Scope};
use crate::engine::Engine;
use crate::registry::{Liveness, Peer};

/// Faults for everyone, for a session or for a connection.
///
/// ```
/// use zoolet_server::Server;
/// use zoolet_server::faults::{Faults, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let faults = Faults::default();
/// let server = Server::builder().faults(&faults).start().await?;
/// let everyone = faults.at(Scope::Server);
/// assert_eq!(everyone.expire()?, 0, "there is no session");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Aim {
    faults: Faults,
    scope: Scope,
}

impl Aim {
    pub(super) fn new(faults: Faults, scope: Scope) -> Self {
        Self { faults, scope }
    }

    /// Ends the sessions now, as if their timeouts had passed: their ephemerals are gone and the watches
    /// told when this returns. Their connections are closed, and a client hears of it when it comes
    /// back. Returns how many there were.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if there is no such session or connection, or no server.
    pub fn expire(&self) -> Result<usize, FaultError> {
        let (engine, _) = self.hit()?;
        let sessions = self.sessions(&engine);
        for liveness in &sessions {
            engine.expire(liveness);
        }
        Ok(sessions.len())
    }

    /// Ends the connections now, with all that waits in them; the sessions live on. Returns how many
    /// there were.
    ///
    /// # Errors
    ///
    /// [`FaultError`] if there is no such session or connection, or no server.
    pub fn cut(&self) -> Result<usize, FaultError> {
        let (_, peers) = self.hit()?;
        for peer in &peers {
            peer.outbox.cut();
        }
        Ok(peers.len())
    }

    /// The server, and the connections that it has of those aimed at.
    fn hit(&self) -> Result<(Arc<Engine>, Vec<Arc<Peer>>), FaultError> {
        let engine = self.faults.engine()?;
        let mut peers = engine.registry.peers();
        match self.scope {
            Scope::Session(session) if engine.registry.session(session).is_none() => {
                let sessions = engine.registry.sessions();
                let live = sessions.iter().map(|liveness| liveness.session).collect();
                return Err(FaultError::UnknownSession { session, live });
            }
            Scope::Connection(connection) if engine.registry.peer(connection).is_none() => {
                let open = peers.iter().map(|peer| peer.id).collect();
                return Err(FaultError::UnknownConnection { connection, open });
            }
            _ => {}
        }
        peers.retain(|peer| self.scope.covers(peer.id, peer.stats.session()));
        Ok((engine, peers))
    }

    fn sessions(&self, engine: &Engine) -> Vec<Arc<Liveness>> {
        match self.scope {
            Scope::Server => engine.registry.sessions(),
            Scope::Session(session) => engine.registry.session(session).into_iter().collect(),
            Scope::Connection(connection) => {
                let peer = engine.registry.peer(connection);
                let session = peer.map(|peer| peer.stats.session());
                session.and_then(|session| engine.registry.session(session)).into_iter().collect()
            }
        }
    }
}
