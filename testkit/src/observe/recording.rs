//! A recording of what passes between a server and its clients, and how it grows.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_core::ConnectionId;
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, Incoming, OpCode, ReplyHeader, Request, RequestHeader,
    Response, SessionId, WatchedEvent, Xid, Zxid, decode_incoming,
};
use zoolet_server::hooks::Message;

use crate::limits::RECORDED_MESSAGES_MAX;

/// A recording.
#[derive(Debug)]
pub(super) struct Recording {
    /// The last zxid before it began.
    pub(super) base: Zxid,
    /// The sessions that lived before it began.
    pub(super) sessions: BTreeSet<SessionId>,
    pub(super) entries: Mutex<Vec<Entry>>,
}

/// One step of a recording, in the order in which they happened.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// The server answered a handshake.
    Connected { connection: ConnectionId, request: ConnectRequest, response: ConnectResponse },
    /// The server replied to a request.
    Answered {
        connection: ConnectionId,
        requested: Requested,
        header: ReplyHeader,
        response: Response,
    },
    /// A request got no reply.
    Unanswered { connection: ConnectionId, requested: Requested },
    /// A frame was neither a handshake nor a request.
    Unreadable { frame: Bytes },
    /// A connection received an event, before the reply to the request that caused it.
    Event { connection: ConnectionId, zxid: Zxid, event: WatchedEvent },
    /// A connection was closed.
    Closed { connection: ConnectionId },
    /// The server expired a session.
    Expired { session: SessionId, zxid: Zxid },
    /// The server deleted a container or TTL znode.
    Swept { zxid: Zxid },
    /// The server was started again.
    Restarted,
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(super) struct Requested {
    pub(super) header: RequestHeader,
    /// `None` if the body cannot be decoded.
    pub(super) request: Option<Request>,
    pub(super) body: Bytes,
    /// What a fault did to it, if one did.
    pub(super) interference: Option<Interference>,
}

/// What a fault or the end of a connection did to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interference {
    /// It was lost on its way to the server.
    Lost,
    /// A fault refused it.
    Refused,
    /// The server carried it out, and its reply was lost.
    ReplyLost,
}

/// The recordings in progress, and the requests without a reply so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    recordings: Vec<Weak<Recording>>,
    /// Most servers answer a request before they handle the next one.
    requested: HashMap<ConnectionId, VecDeque<Requested>>,
    handshakes: HashMap<ConnectionId, ConnectRequest>,
}

impl Log {
    pub(super) fn begin(&mut self, base: Zxid, sessions: BTreeSet<SessionId>) -> Arc<Recording> {
        let recording = Arc::new(Recording { base, sessions, entries: Mutex::default() });
        self.recordings.push(Arc::downgrade(&recording));
        recording
    }

    /// Whether a recording is in progress.
    pub(super) fn is_on(&mut self) -> bool {
        self.recordings.retain(|recording| recording.strong_count() > 0);
        !self.recordings.is_empty()
    }

    pub(super) fn note(&self, entry: &Entry) {
        for recording in self.recordings.iter().filter_map(Weak::upgrade) {
            let mut entries = recording.entries.lock();
            // One entry more than the limit shows that there were more.
            if entries.len() <= RECORDED_MESSAGES_MAX {
                entries.push(entry.clone());
            }
        }
    }

    pub(super) fn handshake(&mut self, connection: ConnectionId, request: &ConnectRequest) {
        self.handshakes.insert(connection, request.clone());
    }

    pub(super) fn requested(&mut self, connection: ConnectionId, requested: Requested) {
        self.requested.entry(connection).or_default().push_back(requested);
    }

    /// A fault interferes with the request that came in last.
    pub(super) fn interfere(&mut self, connection: ConnectionId, interference: Interference) {
        if let Some(requested) = self.requested.get_mut(&connection).and_then(VecDeque::back_mut) {
            requested.interference = Some(interference);
        }
    }

    /// The request that a reply with this xid answers.
    fn answered(&mut self, connection: ConnectionId, xid: Xid) -> Option<Requested> {
        let requested = self.requested.get_mut(&connection)?;
        let is_answered = |requested: &Requested| match requested.header.op {
            OpCode::PING => xid == Xid::PING,
            _ => xid == requested.header.xid,
        };
        let place = requested.iter().position(is_answered)?;
        requested.remove(place)
    }

    /// A message is sent to a connection, or lost as a fault wants it.
    pub(super) fn sent(&mut self, connection: ConnectionId, message: &Message, is_lost: bool) {
        let entry = match message {
            Message::Connected(response) => {
                let request = self.handshakes.remove(&connection);
                let response = ConnectResponse::clone(response);
                request.map(|request| Entry::Connected { connection, request, response })
            }
            Message::Reply(header, response) => {
                let (header, response) = (*header, Response::clone(response));
                self.answered(connection, header.xid).map(|mut requested| {
                    if is_lost {
                        requested.interference = Some(Interference::ReplyLost);
                    }
                    Entry::Answered { connection, requested, header, response }
                })
            }
            Message::Event(frame) => match decode_incoming(frame) {
                Ok(Incoming::Event { zxid, event }) => {
                    Some(Entry::Event { connection, zxid, event })
                }
                _ => None,
            },
        };
        if let Some(entry) = entry {
            self.note(&entry);
        }
    }

    /// The server has handled all requests; those without a reply by now never get one.
    pub(super) fn handled(&mut self, connection: ConnectionId) {
        for requested in self.requested.remove(&connection).into_iter().flatten() {
            self.note(&Entry::Unanswered { connection, requested });
        }
    }

    pub(super) fn closed(&mut self, connection: ConnectionId) {
        self.handled(connection);
        self.handshakes.remove(&connection);
        self.note(&Entry::Closed { connection });
    }
}
