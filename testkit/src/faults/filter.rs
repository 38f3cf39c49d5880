//! Which requests a fault concerns.

use bytes::Bytes;
use zoolet_protocol::{MultiOp, OpCode, RawPath, Request, Watch, Write, ZPath, decode_request};

use super::FaultError;
use crate::request_paths;

/// Which requests a fault concerns, and how many of them.
///
/// Pings are never among them unless they are named: when they come is nobody's decision.
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
#[must_use = "it says which requests a fault concerns"]
pub struct RequestFilter {
    skipped: u64,
    count: u64,
    kind: Kind,
    place: Place,
}

#[derive(Debug, Clone)]
enum Kind {
    Any,
    Operations(Vec<OpCode>),
    Creates,
    Deletes,
    Writes,
    Reads,
}

#[derive(Debug, Clone)]
enum Place {
    Anywhere,
    At(String),
    /// A path and all below it.
    Below(String),
}

impl RequestFilter {
    /// The next `count` requests.
    pub fn next(count: u64) -> Self {
        Self { skipped: 0, count, kind: Kind::Any, place: Place::Anywhere }
    }

    /// All requests, until the fault is lifted.
    pub fn all() -> Self {
        Self::next(u64::MAX)
    }

    /// After so many others of the same kind, which pass.
    pub fn after(mut self, skipped: u64) -> Self {
        self.skipped = skipped;
        self
    }

    /// Those with one of these codes. A multi is one of [`OpCode::MULTI`], whatever is in it.
    pub fn of(mut self, operations: &[OpCode]) -> Self {
        self.kind = Kind::Operations(operations.to_vec());
        self
    }

    /// Those that create a znode of any kind, alone or in a multi.
    pub fn creates(mut self) -> Self {
        self.kind = Kind::Creates;
        self
    }

    /// Those that delete a znode, alone or in a multi.
    pub fn deletes(mut self) -> Self {
        self.kind = Kind::Deletes;
        self
    }

    /// Those that change something.
    pub fn writes(mut self) -> Self {
        self.kind = Kind::Writes;
        self
    }

    /// Those that look at something, with a watch or without.
    pub fn reads(mut self) -> Self {
        self.kind = Kind::Reads;
        self
    }

    /// Those about this path, as the server sees it. That of a sequential znode is without its number.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.place = Place::At(path.into());
        self
    }

    /// Those about this path or one below it, as the server sees it.
    pub fn below(mut self, path: impl Into<String>) -> Self {
        self.place = Place::Below(path.into());
        self
    }

    /// Looks whether there can be any such request.
    pub(super) fn check(&self) -> Result<(), FaultError> {
        let path = match &self.place {
            Place::Anywhere => return Ok(()),
            Place::At(path) | Place::Below(path) => path,
        };
        ZPath::check(path).map_err(|error| FaultError::Path { path: path.clone(), error })
    }

    /// How many are meant, those that pass included.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.skipped, self.count)
    }

    /// Whether a request is among them, by what it is.
    pub(super) fn include(&self, frame: &Bytes) -> bool {
        let Ok((header, request)) = decode_request(frame) else { return false };
        let of_any_kind = matches!(self.kind, Kind::Any) && header.op != OpCode::PING;
        let Ok(request) = request else {
            return of_any_kind && matches!(self.place, Place::Anywhere);
        };
        match &self.kind {
            Kind::Any => of_any_kind && self.is_in_place(&request),
            Kind::Operations(wanted) => wanted.contains(&header.op) && self.is_in_place(&request),
            Kind::Creates => self.is_for(&request, |op| matches!(op, MultiOp::Create(_))),
            Kind::Deletes => self.is_for(&request, |op| matches!(op, MultiOp::Delete(_))),
            Kind::Writes => matches!(request, Request::Write(_)) && self.is_in_place(&request),
            Kind::Reads => {
                let is_read =
                    matches!(request, Request::Read(_) | Request::Watch(Watch::Lookup(_)));
                is_read && self.is_in_place(&request)
            }
        }
    }

    /// Whether a single operation of a request is of a kind, and in place.
    fn is_for(&self, request: &Request, is_wanted: impl Fn(&MultiOp) -> bool) -> bool {
        let ops = match request {
            Request::Write(Write::Op(op)) => std::slice::from_ref(op),
            Request::Write(Write::Multi(ops)) => ops,
            _ => return false,
        };
        ops.iter().any(|op| is_wanted(op) && self.place.includes(op.path()))
    }

    fn is_in_place(&self, request: &Request) -> bool {
        let mut is_in_place = matches!(self.place, Place::Anywhere);
        request_paths::each(request, |_, path| is_in_place |= self.place.includes_text(path));
        is_in_place
    }
}

impl Place {
    fn includes(&self, path: &RawPath) -> bool {
        path.text().is_some_and(|path| self.includes_text(path))
    }

    fn includes_text(&self, path: &str) -> bool {
        match self {
            Self::Anywhere => true,
            Self::At(wanted) => path == wanted,
            Self::Below(wanted) => {
                let top = wanted.trim_end_matches('/');
                path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }
}
