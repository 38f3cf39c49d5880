//! What passes, kept for a script.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use zoolet_core::ConnectionId;
use zoolet_protocol::{
    ConnectRequest, ConnectResponse, Incoming, ReplyHeader, Request, RequestHeader, Response,
    SessionId, WatchedEvent, Zxid, decode_incoming,
};
use zoolet_server::hooks::Message;

use super::script;
use crate::limits::RECORDED_MESSAGES_MAX;

/// Records what passes between a server and its clients, until it is dropped.
///
/// Begun when the server was just started, the script is complete. It repeats the run on any server,
/// whatever its zxids, sessions and times are.
///
/// ```
/// use zoolet_testkit::TestServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await?;
/// let recorder = server.record();
/// assert_eq!(recorder.script(), "# Recorded from a run.\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it records until it is dropped"]
pub struct Recorder {
    pub(super) recording: Arc<Recording>,
}

impl Recorder {
    /// What has passed since it was begun, as a golden script: commands of named clients, and what each
    /// of them received.
    ///
    /// Sessions are named `a`, `b`, and so on, in the order in which they appear. The order of commands
    /// is that in which they were carried out. Requests whose bytes no command has a name for stand
    /// there as `raw`. What a script cannot repeat is told in a comment at its place: sessions that were
    /// there before, a server that was started again, requests that got no answer, and faults, but for
    /// delays and messages that were falsified on their way. Pings are left out, and the first lines say
    /// how many.
    #[must_use]
    pub fn script(&self) -> String {
        script::write(&self.recording)
    }
}

/// What was recorded.
#[derive(Debug)]
pub(super) struct Recording {
    /// The last zxid before.
    pub(super) base: Zxid,
    /// The sessions that were there before.
    pub(super) sessions: BTreeSet<SessionId>,
    pub(super) entries: Mutex<Vec<Entry>>,
}

/// Something that passed, in the order in which it happened.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// A handshake was answered.
    Connected { connection: ConnectionId, request: ConnectRequest, response: ConnectResponse },
    /// A request was answered.
    Answered {
        connection: ConnectionId,
        requested: Requested,
        header: ReplyHeader,
        response: Response,
    },
    /// A request was not answered.
    Unanswered { connection: ConnectionId, requested: Requested },
    /// Something came that is neither.
    Unreadable { frame: Bytes },
    /// An event was given to a connection, before the answer to what caused it.
    Event { connection: ConnectionId, zxid: Zxid, event: WatchedEvent },
    /// A connection is gone.
    Closed { connection: ConnectionId },
    /// A session was ended by the server.
    Expired { session: SessionId, zxid: Zxid },
    /// A container or TTL znode went.
    Swept { zxid: Zxid },
    /// The server was started again.
    Restarted,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(super) struct Requested {
    pub(super) header: RequestHeader,
    /// Nothing if the body cannot be read.
    pub(super) request: Option<Request>,
    pub(super) body: Bytes,
    /// What was done to it, if something was.
    pub(super) interference: Option<Interference>,
}

/// What a fault or the end of a connection did to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interference {
    /// It did not arrive.
    Lost,
    /// It was refused, whatever it was.
    Refused,
    /// It was carried out, and its answer did not arrive.
    ReplyLost,
}

/// Who records, and what was requested and not answered yet.
#[derive(Debug, Default)]
pub(super) struct Log {
    recordings: Vec<Weak<Recording>>,
    requested: HashMap<ConnectionId, Requested>,
    handshakes: HashMap<ConnectionId, ConnectRequest>,
}

impl Log {
    pub(super) fn begin(&mut self, base: Zxid, sessions: BTreeSet<SessionId>) -> Recorder {
        let recording = Arc::new(Recording { base, sessions, entries: Mutex::default() });
        self.recordings.push(Arc::downgrade(&recording));
        Recorder { recording }
    }

    /// Whether anyone records.
    pub(super) fn is_on(&mut self) -> bool {
        self.recordings.retain(|recording| recording.strong_count() > 0);
        !self.recordings.is_empty()
    }

    pub(super) fn note(&self, entry: &Entry) {
        for recording in self.recordings.iter().filter_map(Weak::upgrade) {
            let mut entries = recording.entries.lock();
            // One more, by which the script knows.
            if entries.len() <= RECORDED_MESSAGES_MAX {
                entries.push(entry.clone());
            }
        }
    }

    pub(super) fn handshake(&mut self, connection: ConnectionId, request: &ConnectRequest) {
        self.handshakes.insert(connection, request.clone());
    }

    pub(super) fn requested(&mut self, connection: ConnectionId, requested: Requested) {
        self.requested.insert(connection, requested);
    }

    /// A fault interferes with what was requested last.
    pub(super) fn interfere(&mut self, connection: ConnectionId, interference: Interference) {
        if let Some(requested) = self.requested.get_mut(&connection) {
            requested.interference = Some(interference);
        }
    }

    /// A message goes to a connection.
    pub(super) fn sent(&mut self, connection: ConnectionId, message: &Message) {
        let entry = match message {
            Message::Connected(response) => {
                let request = self.handshakes.remove(&connection);
                let response = response.clone();
                request.map(|request| Entry::Connected { connection, request, response })
            }
            Message::Reply(header, response) => {
                let (header, response) = (*header, response.clone());
                let requested = self.requested.remove(&connection);
                requested.map(|requested| Entry::Answered {
                    connection,
                    requested,
                    header,
                    response,
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

    /// A request has been carried out, and if it is not answered by now it never will be.
    pub(super) fn handled(&mut self, connection: ConnectionId) {
        if let Some(requested) = self.requested.remove(&connection) {
            self.note(&Entry::Unanswered { connection, requested });
        }
    }

    pub(super) fn closed(&mut self, connection: ConnectionId) {
        self.requested.remove(&connection);
        self.handshakes.remove(&connection);
        self.note(&Entry::Closed { connection });
    }
}
