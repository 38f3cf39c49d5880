//! What the machines of a simulation connect to: a server with its disk, or an ensemble.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{SessionId, Stat};
use zoolet_server::Config;

use super::ensemble_host::EnsembleHost;
use super::fault::{EnsembleFault, ServerFault};
use super::network::Network;
use super::record::Record;
use super::server_host::ServerHost;
use super::servers::Servers;
use crate::ensemble::Notice;

/// What serves the machines of a run.
pub(super) enum Host {
    Server(Box<ServerHost>),
    Ensemble(EnsembleHost),
}

impl Host {
    pub(super) fn new(
        servers: Servers,
        record: &Arc<Record>,
        network: &Network,
        config: &Config,
        seed: u64,
    ) -> Self {
        match servers {
            Servers::One => Self::Server(Box::new(ServerHost::new(record, network, config))),
            Servers::Ensemble => Self::Ensemble(EnsembleHost::new(record, network, seed)),
        }
    }

    /// Starts to serve.
    pub(super) async fn start(&self) {
        match self {
            Self::Server(host) => host.start().await,
            Self::Ensemble(host) => host.start(),
        }
    }

    /// Carries out a fault of a single server, and returns when it serves again.
    pub(super) async fn inject(&self, fault: ServerFault) {
        if let Self::Server(host) = self {
            host.inject(fault).await;
        }
    }

    /// Carries out a fault of an ensemble, and returns when it is over.
    pub(super) async fn inject_in_ensemble(&self, fault: EnsembleFault) {
        if let Self::Ensemble(host) = self {
            host.inject(fault).await;
        }
    }

    /// Whether a server can be cut off from the others now.
    pub(super) fn can_be_cut(&self) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Ensemble(host) => host.can_be_cut(),
        }
    }

    /// Cuts the server off from the others that serves the last of these sessions, if there are others.
    /// An earlier one may be that of a machine before it crashed.
    pub(super) fn cut_off(&self, sessions: &[SessionId], notice: Notice, for_ms: u64) {
        if let Self::Ensemble(host) = self {
            sessions.iter().rev().for_each(|session| host.cut_off(*session, notice, for_ms));
        }
    }

    /// Ends all faults.
    pub(super) fn end_faults(&self) {
        if let Self::Ensemble(host) = self {
            host.end_faults();
        }
    }

    /// Expires a session, if a single server runs and has it.
    pub(super) fn expire(&self, session: SessionId) {
        if let Self::Server(host) = self {
            host.expire(session);
        }
    }

    /// Whether a session lives, or may do so when a server runs again.
    pub(super) fn may_have_session(&self, session: SessionId) -> bool {
        match self {
            Self::Server(host) => host.may_have_session(session),
            Self::Ensemble(host) => host.has_session(session),
        }
    }

    /// The data of a znode with its Stat, as committed; `Some(None)` if there is no such znode, and
    /// `None` while no server runs, or none whose state would survive a crash.
    pub(super) fn znode(&self, path: &str) -> Option<Option<(Bytes, Stat)>> {
        match self {
            Self::Server(host) => host.znode(path),
            Self::Ensemble(host) => Some(host.znode(path)),
        }
    }
}
