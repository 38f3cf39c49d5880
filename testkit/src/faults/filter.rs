//! Which requests a fault concerns.

use bytes::Bytes;
use zoolet_protocol::{MultiOp, OpCode, RawPath, Request, Watch, Write, ZPath, decode_request};

use super::FaultError;
use crate::request_paths;

/// Which requests a fault concerns, and how many of them.
///
/// Pings are not among them unless [`RequestFilter::of`] names them, because a test does not decide
/// when a client sends them.
///
/// ```
/// use zoolet_protocol::OpCode;
/// use zoolet_testkit::RequestFilter;
///
/// let first_create = RequestFilter::next(1).creates().below("/locks");
/// let no_reads_any_more = RequestFilter::all().reads();
/// let third_list = RequestFilter::next(1).after(2).of(&[OpCode::GET_CHILDREN, OpCode::GET_CHILDREN2]);
/// ```
#[derive(Debug, Clone)]
#[must_use = "a filter does nothing until a fault is set with it"]
pub struct RequestFilter {
    skipped: u64,
    count: u64,
    operations: Operations,
    paths: Paths,
}

#[derive(Debug, Clone)]
enum Operations {
    Any,
    OneOf(Vec<OpCode>),
    Creates,
    Deletes,
    Writes,
    Reads,
}

#[derive(Debug, Clone)]
enum Paths {
    All,
    At(String),
    /// A path and all below it.
    Below(String),
}

impl RequestFilter {
    /// The next `count` requests.
    pub fn next(count: u64) -> Self {
        Self { skipped: 0, count, operations: Operations::Any, paths: Paths::All }
    }

    /// All requests, until the fault is lifted.
    pub fn all() -> Self {
        Self::next(u64::MAX)
    }

    /// Begins after so many matching requests, which pass.
    pub fn after(mut self, skipped: u64) -> Self {
        self.skipped = skipped;
        self
    }

    /// Requests with one of these operation codes. A multi has [`OpCode::MULTI`], whatever it
    /// contains.
    pub fn of(mut self, operations: &[OpCode]) -> Self {
        self.operations = Operations::OneOf(operations.to_vec());
        self
    }

    /// Requests that create a znode of any mode, alone or in a multi.
    pub fn creates(mut self) -> Self {
        self.operations = Operations::Creates;
        self
    }

    /// Requests that delete a znode, alone or in a multi.
    pub fn deletes(mut self) -> Self {
        self.operations = Operations::Deletes;
        self
    }

    /// Writes.
    pub fn writes(mut self) -> Self {
        self.operations = Operations::Writes;
        self
    }

    /// Reads, with or without a watch.
    pub fn reads(mut self) -> Self {
        self.operations = Operations::Reads;
        self
    }

    /// Requests that name this path, as the server sees it, without a client's chroot. The create
    /// of a sequential znode names the path without the sequence number.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.paths = Paths::At(path.into());
        self
    }

    /// Requests that name this path or one below it, as the server sees it.
    pub fn below(mut self, path: impl Into<String>) -> Self {
        self.paths = Paths::Below(path.into());
        self
    }

    /// Checks that a request can match.
    pub(super) fn check(&self) -> Result<(), FaultError> {
        let path = match &self.paths {
            Paths::All => return Ok(()),
            Paths::At(path) | Paths::Below(path) => path,
        };
        ZPath::check(path).map_err(|error| FaultError::Path { path: path.clone(), error })
    }

    /// How many matching requests pass first, and how many the fault then concerns.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.skipped, self.count)
    }

    /// Whether a request matches.
    pub(super) fn include(&self, frame: &Bytes) -> bool {
        let Ok((header, request)) = decode_request(frame) else { return false };
        let of_any_kind = matches!(self.operations, Operations::Any) && header.op != OpCode::PING;
        let Ok(request) = request else {
            return of_any_kind && matches!(self.paths, Paths::All);
        };
        match &self.operations {
            Operations::Any => of_any_kind && self.has_path(&request),
            Operations::OneOf(wanted) => wanted.contains(&header.op) && self.has_path(&request),
            Operations::Creates => self.is_for(&request, |op| matches!(op, MultiOp::Create(_))),
            Operations::Deletes => self.is_for(&request, |op| matches!(op, MultiOp::Delete(_))),
            Operations::Writes => matches!(request, Request::Write(_)) && self.has_path(&request),
            Operations::Reads => {
                let is_read =
                    matches!(request, Request::Read(_) | Request::Watch(Watch::Lookup(_)));
                is_read && self.has_path(&request)
            }
        }
    }

    /// Whether a single operation of a request is wanted and names a matching path.
    fn is_for(&self, request: &Request, is_wanted: impl Fn(&MultiOp) -> bool) -> bool {
        let ops = match request {
            Request::Write(Write::Op(op)) => std::slice::from_ref(op),
            Request::Write(Write::Multi(ops)) => ops,
            _ => return false,
        };
        ops.iter().any(|op| is_wanted(op) && self.paths.includes(op.path()))
    }

    fn has_path(&self, request: &Request) -> bool {
        let mut has_path = matches!(self.paths, Paths::All);
        request_paths::each(request, |_, path| has_path |= self.paths.includes_text(path));
        has_path
    }
}

impl Paths {
    fn includes(&self, path: &RawPath) -> bool {
        path.text().is_some_and(|path| self.includes_text(path))
    }

    fn includes_text(&self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::At(wanted) => path == wanted,
            Self::Below(wanted) => {
                let top = wanted.trim_end_matches('/');
                path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }
}
