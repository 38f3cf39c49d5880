//! One connection of a client to a server of the ensemble: its session, what it waits for, and the
//! messages that wait for it.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::Waker;

use zoolet_core::Identities;
use zoolet_protocol::SessionId;
use zoolet_server::hooks::Message;

use super::step::Step;

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) member: usize,
    pub(super) address: Option<SocketAddr>,
    pub(super) session: Option<SessionId>,
    /// The negotiated session timeout.
    pub(super) timeout_ms: i32,
    pub(super) identities: Identities,
    /// Its handshake has come in.
    pub(super) has_begun: bool,
    /// The server accepted it while it had no leader.
    pub(super) is_read_only: bool,
    pub(super) steps: VecDeque<Step>,
    /// The frames that came in, and those that were sent.
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) waiting: VecDeque<Message>,
    pub(super) waiting_bytes: usize,
    /// How many messages have left: the number of the first that waits, as hooks count.
    pub(super) left: u64,
    pub(super) end: End,
    pub(super) waker: Option<Waker>,
}

/// Whether a connection is open, and how it ends otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// It ends when all messages have left.
    Finishing,
    /// It has ended, and the messages that waited are lost.
    Cut,
}

impl Connection {
    pub(super) fn new(member: usize, address: Option<SocketAddr>) -> Self {
        let ip = address.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip());
        Self {
            member,
            address,
            session: None,
            timeout_ms: 0,
            identities: Identities::of_address(ip),
            has_begun: false,
            is_read_only: false,
            steps: VecDeque::new(),
            received: 0,
            sent: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            left: 0,
            end: End::Open,
            waker: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.end == End::Open
    }

    pub(super) fn is_cut(&self) -> bool {
        self.end == End::Cut
    }

    /// The messages that wait for the client.
    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }
}
