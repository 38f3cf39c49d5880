//! The requests of a cache that are in flight over one connection. Their replies come in order.

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_protocol::{ErrorCode, MultiReadOp, MultiResult, Stat, Zxid};

use super::limits::{EXISTS_IN_FLIGHT_MAX, ONE_SHOT_READS_IN_FLIGHT_MAX, REQUESTS_IN_FLIGHT_MAX};
use super::resync::{Read, ReadResult, Request};
use crate::client::recipe::{OneShotWatches, SessionClient};
use crate::client::{Error, Operation, Sent};

/// What a request was for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Paths of which events have told.
    Changed(Vec<Box<str>>),
    /// Reads of a resync.
    Resync(Vec<Read>),
    /// A cached znode with long data.
    ResyncExists(Box<str>),
    /// The children of a znode, with a one-shot watch.
    Children(Box<str>),
    /// Whether the root exists, with a one-shot watch in any case.
    Root,
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
    /// One read, which leaves a watch.
    Read(Sent<(MultiResult, Zxid)>),
    Stat(Sent<(Option<Stat>, Zxid)>),
}

/// The requests without a reply, the oldest first.
pub(crate) struct Requests {
    session: SessionClient,
    /// The watches that reads leave, where there is no persistent watch. Then each read is a request
    /// of its own.
    one_shots: Option<Arc<OneShotWatches>>,
    /// Whether each read is a request of its own also where it leaves no watch: the server refuses a
    /// multiRead whose reply would be too long, and no other read.
    reads_alone: bool,
    in_flight: VecDeque<(Asked, InFlight)>,
    exists: usize,
    /// How many of them list children for a watch, and how many for a resync.
    lists: usize,
    resync_lists: usize,
}

impl Requests {
    pub(crate) fn new(
        session: SessionClient,
        one_shots: Option<Arc<OneShotWatches>>,
        reads_alone: bool,
    ) -> Self {
        Self {
            session,
            one_shots,
            reads_alone,
            in_flight: VecDeque::new(),
            exists: 0,
            lists: 0,
            resync_lists: 0,
        }
    }

    /// Whether another request may be sent.
    pub(crate) fn has_room(&self) -> bool {
        let reads_max = match self.one_shots {
            None => REQUESTS_IN_FLIGHT_MAX,
            Some(_) => ONE_SHOT_READS_IN_FLIGHT_MAX,
        };
        self.exists < EXISTS_IN_FLIGHT_MAX && self.in_flight.len() - self.exists < reads_max
    }

    /// Whether a multiRead has no reply.
    pub(crate) fn has_multi_reads(&self) -> bool {
        self.one_shots.is_none() && self.in_flight.len() > self.exists
    }

    /// Whether no request is without a reply.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether a list of children for a watch has no reply.
    pub(crate) fn has_lists(&self) -> bool {
        self.lists > 0
    }

    /// Whether a list of children for a resync has no reply.
    pub(crate) fn has_resync_lists(&self) -> bool {
        self.resync_lists > 0
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
                self.resync_lists += usize::from(lists_children(&reads));
                self.multi_read(Asked::Resync(reads), ops);
            }
            Request::Exists(path) => {
                let sent = self.exists_of(&path);
                self.in_flight.push_back((Asked::ResyncExists(path), InFlight::Stat(sent)));
            }
        }
    }

    /// Lists the children of a znode, and leaves a watch for them.
    pub(crate) fn list(&mut self, path: Box<str>) {
        let read = MultiReadOp::GetChildren((&*path).into());
        self.lists += 1;
        self.multi_read(Asked::Children(path), vec![read]);
    }

    /// Asks whether the root exists, and leaves a watch in any case.
    pub(crate) fn await_root(&mut self, root: &str) {
        let sent = self.exists_of(root);
        self.in_flight.push_back((Asked::Root, InFlight::Stat(sent)));
    }

    /// Asks how far the server is.
    pub(crate) fn probe(&mut self, path: &str) {
        let sent = self.exists_of(path);
        self.in_flight.push_back((Asked::Probe, InFlight::Stat(sent)));
    }

    fn exists_of(&mut self, path: &str) -> Sent<(Option<Stat>, Zxid)> {
        self.exists += 1;
        self.send(self.session.client().exists_with_zxid(path))
    }

    /// Sends reads: one at a time where each leaves a watch, or where several would be too long.
    fn multi_read(&mut self, asked: Asked, mut ops: Vec<MultiReadOp>) {
        let client = self.session.client();
        let is_alone = self.reads_alone || self.one_shots.is_some();
        let sent = match ops.pop() {
            Some(op) if ops.is_empty() && is_alone => {
                InFlight::Read(self.send(client.read_with_zxid(op)))
            }
            last => {
                ops.extend(last);
                InFlight::Reads(self.send(client.multi_read_with_zxid(ops)))
            }
        };
        self.in_flight.push_back((asked, sent));
    }

    fn send<T>(&self, read: Operation<T>) -> Sent<T> {
        let read = read.in_session(self.session.id());
        match &self.one_shots {
            Some(watches) => watches.send(read),
            None => read.send(),
        }
    }

    /// Waits for the oldest reply. For ever if nothing was asked.
    ///
    /// # Cancellation
    ///
    /// Safe.
    pub(crate) async fn reply(&mut self) -> Reply {
        match self.in_flight.front_mut() {
            Some((_, InFlight::Reads(sent))) => Reply::Reads(sent.await),
            Some((_, InFlight::Read(sent))) => {
                Reply::Reads(sent.await.map(|(result, zxid)| (vec![result], zxid)))
            }
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
        match &asked {
            Asked::Children(_) => self.lists -= 1,
            Asked::Resync(reads) => self.resync_lists -= usize::from(lists_children(reads)),
            _ => {}
        }
        asked
    }
}

fn lists_children(reads: &[Read]) -> bool {
    reads.iter().any(|read| matches!(read, Read::Children(_)))
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
