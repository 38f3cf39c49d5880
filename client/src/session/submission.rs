//! Requests before they are sent.

use std::ops::Deref;
use std::sync::Arc;

use zoolet_protocol::{Request, SessionId};

use crate::call::{Call, Outcome};
use crate::proof::ClaimId;
use crate::watches::{EventQueue, WatchKind, WatchUpdate};

/// A request before it is sent. One that is sent at once is not copied.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) request: SubmittedRequest<'a>,
    pub(crate) call: Arc<Call>,
    /// The watch that exists once the reply has come.
    pub(crate) watch: Option<WatchRegistration>,
    /// The watches of a `setWatches`. They exist from the moment it is sent, since an event that
    /// fires at once comes before the reply.
    pub(crate) watches: Vec<WatchRegistration>,
    /// The only session in which the request may be sent.
    pub(crate) bound: Option<SessionId>,
    /// The claim that ends with the request.
    pub(crate) ends: Option<ClaimId>,
}

impl<'a> Submission<'a> {
    /// A request without a watch, for whatever session there is.
    pub(crate) fn new(request: Request, call: Arc<Call>) -> Self {
        Self::with(SubmittedRequest::Owned(Box::new(request)), call)
    }

    /// As [`Submission::new`], of a request that the caller keeps to send it again.
    pub(crate) fn of(request: &'a Request, call: Arc<Call>) -> Self {
        Self::with(SubmittedRequest::Kept(request), call)
    }

    fn with(request: SubmittedRequest<'a>, call: Arc<Call>) -> Self {
        Self { request, call, watch: None, watches: Vec::new(), bound: None, ends: None }
    }

    /// The same with a request of its own.
    pub(super) fn into_owned(self) -> Submission<'static> {
        Submission { request: self.request.into_owned(), ..self }
    }
}

/// Why a request is never sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unsent {
    NoConnection,
    SessionExpired,
    Closed,
}

impl Unsent {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::NoConnection => Outcome::NotSent,
            Self::SessionExpired => Outcome::SessionExpired,
            Self::Closed => Outcome::Closed,
        }
    }

    /// What those get who wait for its watches.
    pub(super) fn update(self) -> WatchUpdate {
        match self {
            Self::NoConnection => WatchUpdate::NotRegistered,
            Self::SessionExpired => WatchUpdate::SessionExpired,
            Self::Closed => WatchUpdate::Closed,
        }
    }
}

/// The request of a [`Submission`], which moves as a pointer.
#[derive(Debug)]
pub(crate) enum SubmittedRequest<'a> {
    /// The caller keeps it, to send it again.
    Kept(&'a Request),
    Owned(Box<Request>),
}

impl SubmittedRequest<'_> {
    fn into_owned(self) -> SubmittedRequest<'static> {
        SubmittedRequest::Owned(match self {
            Self::Kept(request) => Box::new(request.clone()),
            Self::Owned(request) => request,
        })
    }
}

impl Deref for SubmittedRequest<'_> {
    type Target = Request;

    fn deref(&self) -> &Request {
        match self {
            Self::Kept(request) => request,
            Self::Owned(request) => request,
        }
    }
}

/// A watch that is to be registered with the server, and the queue for its events.
#[derive(Debug, Clone)]
pub(crate) struct WatchRegistration {
    pub(crate) path: Arc<str>,
    pub(crate) kind: WatchKind,
    pub(crate) queue: Arc<EventQueue>,
}
