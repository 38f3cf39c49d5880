//! The requests of a cache that are in flight over one connection. Their replies come in order.

use std::collections::VecDeque;

use zoolet_protocol::{ErrorCode, MultiReadOp, MultiResult, Stat, Zxid};

use super::limits::{EXISTS_IN_FLIGHT_MAX, REQUESTS_IN_FLIGHT_MAX};
use super::resync::{Read, ReadResult, Request};
use crate::client::recipe::SessionClient;
use crate::client::{Error, Sent};

/// What a request was for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Paths of which events have told.
    Changed(Vec<Box<str>>),
    /// Reads of a resync.
    Resync(Vec<Read>),
    /// A cached znode with long data.
    ResyncExists(Box<str>),
    /// How far the server is.
    Probe,
}

/// A reply, with the zxid in its header.
#[derive(Debug)]
pub(crate) enum Reply {
    Reads(Result<(Vec<MultiResult>, Zxid), Error>),
    Stat(Result<(Option<Stat>, Zxid), Error>),
}

enum InFlight {
    Reads(Sent<(Vec<MultiResult>, Zxid)>),
    Stat(Sent<(Option<Stat>, Zxid)>),
}

/// The requests without a reply, the oldest first.
pub(crate) struct Requests {
    session: SessionClient,
    in_flight: VecDeque<(Asked, InFlight)>,
    exists: usize,
}

impl Requests {
    pub(crate) fn new(session: SessionClient) -> Self {
        Self { session, in_flight: VecDeque::new(), exists: 0 }
    }

    /// Whether another request may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.exists < EXISTS_IN_FLIGHT_MAX
            && self.in_flight.len() - self.exists < REQUESTS_IN_FLIGHT_MAX
    }

    /// Whether a multiRead has no reply.
    pub(crate) fn has_multi_reads(&self) -> bool {
        self.in_flight.len() > self.exists
    }

    /// Reads znodes of which events have told.
    pub(crate) fn read_changed(&mut self, paths: Vec<Box<str>>) {
        let ops = paths.iter().map(|path| MultiReadOp::GetData((&**path).into())).collect();
        self.multi_read(Asked::Changed(paths), ops);
    }

    /// Sends a request of a resync.
    pub(crate) fn resync(&mut self, request: Request) {
        match request {
            Request::Reads(reads) => {
                let op = |read: &Read| match read {
                    Read::Data(path) => MultiReadOp::GetData((&**path).into()),
                    Read::Children(path) => MultiReadOp::GetChildren((&**path).into()),
                };
                let ops = reads.iter().map(op).collect();
                self.multi_read(Asked::Resync(reads), ops);
            }
            Request::Exists(path) => {
                let sent = self.exists_of(&path);
                self.in_flight.push_back((Asked::ResyncExists(path), InFlight::Stat(sent)));
            }
        }
    }

    /// Asks how far the server is.
    pub(crate) fn probe(&mut self, path: &str) {
        let sent = self.exists_of(path);
        self.in_flight.push_back((Asked::Probe, InFlight::Stat(sent)));
    }

    fn exists_of(&mut self, path: &str) -> Sent<(Option<Stat>, Zxid)> {
        self.exists += 1;
        let exists = self.session.client().exists_with_zxid(path);
        exists.in_session(self.session.id()).send()
    }

    fn multi_read(&mut self, asked: Asked, ops: Vec<MultiReadOp>) {
        let read = self.session.client().multi_read_with_zxid(ops);
        let sent = read.in_session(self.session.id()).send();
        self.in_flight.push_back((asked, InFlight::Reads(sent)));
    }

    /// Waits for the oldest reply. For ever if nothing was asked.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub(crate) async fn reply(&mut self) -> Reply {
        match self.in_flight.front_mut() {
            Some((_, InFlight::Reads(sent))) => Reply::Reads(sent.await),
            Some((_, InFlight::Stat(sent))) => Reply::Stat(sent.await),
            None => std::future::pending().await,
        }
    }

    /// What the reply was for that [`Requests::reply`] has returned.
    pub(crate) fn take_asked(&mut self) -> Asked {
        let (asked, in_flight) = self.in_flight.pop_front().expect("a reply is to a request");
        if let InFlight::Stat(_) = in_flight {
            self.exists -= 1;
        }
        asked
    }
}

/// A result of a multiRead, or the code of an error that says nothing of the znode.
pub(crate) fn read_result(result: MultiResult) -> Result<ReadResult, ErrorCode> {
    match result {
        MultiResult::Data(data, stat) => Ok(ReadResult::Data(data.unwrap_or_default(), stat)),
        MultiResult::Children(names) => Ok(ReadResult::Children(names)),
        MultiResult::Error(ErrorCode::NO_NODE) => Ok(ReadResult::Missing),
        MultiResult::Error(ErrorCode::NO_AUTH) => Ok(ReadResult::Unreadable),
        MultiResult::Error(code) => Err(code),
        _ => Err(ErrorCode::MARSHALLING_ERROR),
    }
}
