//! A call: how it is sent, retried, and how its reply is read.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use zoolet_protocol::{
    DecodeError, DecodeFault, ErrorCode, MultiOp, OpCode, RawPath, ReplyHeader, Request, Response,
    SessionId, Write, ZPath,
};

use super::Client;
use super::call::{Answer, Call, Outcome};
use super::driver::Shared;
use super::error::Error;
use super::proof::ClaimId;
use super::recipe::RETRY_PAUSE;
use super::retry::Retry;
use super::session::{Submission, WatchRegistration};

/// A boxed future, as `IntoFuture` needs a nameable type.
pub(crate) type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Reads a reply. It gets the header too, since an error code may be a valid result, as of
/// `exists`.
pub(crate) type ReplyReader<T> = fn(&ReplyHeader, Response) -> Result<T, UnexpectedReply>;

/// Reads the body of a reply without an error, where that needs no [`Response`].
pub(crate) type BodyReader<T> = fn(&Bytes) -> Result<Result<T, UnexpectedReply>, DecodeError>;

/// How a reply is read.
#[derive(Debug)]
pub(crate) enum Reading<T> {
    Reply(ReplyReader<T>),
    Body(BodyReader<T>),
}

impl<T> Clone for Reading<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Reading<T> {}

impl<T> Reading<T> {
    fn read(
        self,
        op: OpCode,
        header: &ReplyHeader,
        body: &Bytes,
    ) -> Result<Result<T, UnexpectedReply>, DecodeError> {
        match self {
            Self::Reply(read) if header.err.is_ok() => {
                Ok(read(header, Response::decode(op, body)?))
            }
            Self::Reply(read) => Ok(read(header, Response::Empty)),
            Self::Body(read) if header.err.is_ok() => read(body),
            Self::Body(_) => Ok(Err(UnexpectedReply::of(header))),
        }
    }
}

/// Why a reply does not give the result of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnexpectedReply {
    /// The server refused the request.
    Refused(ErrorCode),
    /// The server refused a multi because of the operation at this index.
    RefusedAt(usize, ErrorCode),
    /// The record belongs to another request.
    WrongRecord,
    /// The data cannot be decompressed.
    #[cfg(feature = "compression")]
    Compressed(crate::compression::DecompressError),
}

impl UnexpectedReply {
    pub(crate) fn of(header: &ReplyHeader) -> Self {
        if header.err.is_ok() { Self::WrongRecord } else { Self::Refused(header.err) }
    }
}

/// The path or paths of a call, as the caller names them, for errors.
#[derive(Debug, Clone)]
pub(crate) enum RequestSubject {
    Path(String),
    /// The operations of a multi.
    Ops(Vec<(OpCode, RawPath)>),
    /// The operations of a multi, whose paths are the same in the request.
    OpsOfRequest,
}

impl RequestSubject {
    /// What this is of a request with these operations, none if it is no multi.
    fn with<'a>(&'a self, ops: &'a [MultiOp]) -> Subject<'a> {
        match self {
            Self::Path(path) => Subject::Path(path),
            Self::Ops(named) => Subject::Ops(named),
            Self::OpsOfRequest => Subject::MultiOps(ops),
        }
    }
}

/// A [`RequestSubject`], with the operations of its request if it needs them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    Path(&'a str),
    Ops(&'a [(OpCode, RawPath)]),
    MultiOps(&'a [MultiOp]),
}

impl Subject<'_> {
    fn path(self) -> String {
        match (self, self.op(0)) {
            (Self::Path(path), _) => path.to_owned(),
            (_, op) => op.map(|(_, path)| path.to_string()).unwrap_or_default(),
        }
    }

    /// An operation of a multi.
    fn op(&self, index: usize) -> Option<(OpCode, &RawPath)> {
        match self {
            Self::Path(_) => None,
            Self::Ops(ops) => ops.get(index).map(|(op, path)| (*op, path)),
            Self::MultiOps(ops) => ops.get(index).map(|op| (op.op_code(), op.path())),
        }
    }

    /// The error of a multi that was refused because of one operation.
    fn refused_at(self, index: usize, multi: OpCode, code: ErrorCode) -> Error {
        match self.op(index) {
            Some((op, path)) => {
                Error::Refused { op, path: path.to_string(), code, index: Some(index) }
            }
            None => Error::Refused { op: multi, path: self.path(), code, index: Some(index) },
        }
    }
}

/// The operations of a request, if it is a multi.
fn multi_ops(request: Option<&Request>) -> &[MultiOp] {
    match request {
        Some(Request::Write(Write::Multi(ops))) => ops,
        _ => &[],
    }
}

/// Removes the namespace from the paths in a result.
type Localize<T> = fn(&Client, T) -> T;

/// A call that was not sent yet.
///
/// Awaiting it sends the request when it is first polled, and retries as the client's
/// [`RetryPolicy`](crate::RetryPolicy) says after a lost connection: a read always, a write only if
/// it was never sent. [`Operation::send`] sends it at once and does not retry.
///
/// ```no_run
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let (one, two) = (client.get("/one").send(), client.get("/two").send()); // pipelined
/// let (one, two) = (one.await?, two.await?);
/// # drop((one, two));
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is sent when the call is awaited or `send()` is called"]
pub struct Operation<T> {
    pub(crate) client: Client,
    /// The request, or why there is none.
    pub(crate) request: Result<Request, Error>,
    about: RequestSubject,
    reading: Reading<T>,
    localize: Option<Localize<T>>,
    /// Whether the server may carry it out twice.
    is_read: bool,
    /// The only session in which it may be sent.
    bound: Option<SessionId>,
}

impl<T> fmt::Debug for Operation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = self.request.as_ref().map(Request::op_code);
        f.debug_struct("Operation")
            .field("op", &op)
            .field("path", &self.subject().path())
            .finish_non_exhaustive()
    }
}

impl<T> Operation<T> {
    fn subject(&self) -> Subject<'_> {
        self.about.with(multi_ops(self.request.as_ref().ok()))
    }

    /// Sends the request in this session or not at all: if the session is over, the call fails with
    /// [`Error::SessionExpired`].
    pub fn in_session(mut self, session: SessionId) -> Self {
        self.bound = Some(session);
        self
    }

    /// Removes the namespace from the paths in the result.
    pub(crate) fn localized(mut self, localize: Localize<T>) -> Self {
        self.localize = Some(localize);
        self
    }

    /// Makes the call again and again until the server answers it, whatever happens to the
    /// connection and however busy the server is (`THROTTLEDOP`), without asking the client's retry
    /// policy. A call [in a session](Operation::in_session) ends with that session.
    ///
    /// The server may carry out the request more than once, so this is for reads, and for writes
    /// that change nothing the second time.
    ///
    /// # Errors
    ///
    /// What the server answers; [`Error::SessionExpired`] and [`Error::Closed`].
    #[expect(clippy::manual_async_fn, reason = "an async fn has room for each argument twice")]
    pub fn until_answered(self) -> impl Future<Output = Result<T, Error>> {
        async move {
            loop {
                match self.once(None).await {
                    Err(error) if error.is_retryable() => {}
                    Err(error) if error.is_passing() => tokio::time::sleep(RETRY_PAUSE).await,
                    result => return result,
                }
            }
        }
    }

    /// Sends the request now, without retries. Requests of a client are carried out in the order in
    /// which they were sent.
    ///
    /// Over a socket, the first four requests that the tasks of a client send after a turn of its driver task leave
    /// at once. Up to 31 more, each of less than 1 KiB, may wait until a task lets the client's runtime run, sends
    /// more, or drops a [`Sent`] that it never polled: then they leave with one system call. What a recipe sends
    /// when a guard is dropped never waits, and takes with it what does.
    pub fn send(self) -> Sent<T> {
        self.send_with(None)
    }

    /// Sends the request now, and adds these watches before the reply.
    pub(crate) fn send_watching(self, watches: Vec<WatchRegistration>) -> Sent<T> {
        let submitted = self.submit(None, watches, None);
        self.into_sent(submitted)
    }

    /// Sends the request now, which adds this watch when its reply comes.
    pub(crate) fn send_with(self, watch: Option<WatchRegistration>) -> Sent<T> {
        let submitted = self.submit(watch, Vec::new(), None);
        self.into_sent(submitted)
    }

    /// Sends the request, and ends the claim `ends` with it, if there is one. Also returns whether the
    /// request waits for the driver task.
    pub(crate) fn submit(
        &self,
        watch: Option<WatchRegistration>,
        watches: Vec<WatchRegistration>,
        ends: Option<ClaimId>,
    ) -> Result<(Answer, bool), Error> {
        let request = self.request.as_ref().map_err(Error::clone)?;
        let call = Call::new(request.op_code());
        let answer = Answer(Arc::clone(&call));
        let submission =
            Submission { watch, watches, bound: self.bound, ends, ..Submission::of(request, call) };
        let is_waiting = self.client.shared().submit(submission);
        Ok((answer, is_waiting))
    }

    /// The request after [`Operation::submit`], as a future of its result.
    pub(crate) fn into_sent(self, submitted: Result<(Answer, bool), Error>) -> Sent<T> {
        let Self { client, request, about, reading, localize, .. } = self;
        let ops = match request {
            Ok(Request::Write(Write::Multi(ops))) => ops,
            _ => Vec::new(),
        };
        let is_waiting = submitted.as_ref().is_ok_and(|(_, is_waiting)| *is_waiting);
        let unwritten = Unwritten(is_waiting.then(|| Arc::clone(client.shared())));
        let answer = submitted.map(|(answer, _)| answer);
        let localize = localize.filter(|_| !client.root.is_empty());
        Sent {
            answer,
            unwritten,
            about,
            ops,
            reading,
            localize: localize.map(|localize| (client, localize)),
        }
    }

    /// Sends the request once and waits for its reply.
    async fn once(&self, watch: Option<WatchRegistration>) -> Result<T, Error> {
        let (answer, _) = self.submit(watch, Vec::new(), None)?;
        let op = answer.0.op;
        let answer = read_reply(answer.await, op, self.subject(), self.reading)?;
        // Without a namespace the paths are the same.
        let localize = self.localize.filter(|_| !self.client.root.is_empty());
        Ok(match localize {
            Some(localize) => localize(&self.client, answer),
            None => answer,
        })
    }
}

impl<T: Send + 'static> Operation<T> {
    /// Sends the request until it succeeds or must not be sent again.
    #[expect(clippy::manual_async_fn, reason = "an async fn has room for each argument twice")]
    pub(crate) fn run(
        self,
        watch: Option<WatchRegistration>,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        async move {
            let mut retry = Retry::new(&self.client);
            loop {
                match self.once(watch.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => retry.after(error, self.is_read).await?,
                }
            }
        }
    }
}

impl<T: Send + 'static> IntoFuture for Operation<T> {
    type Output = Result<T, Error>;
    type IntoFuture = CallFuture<T>;

    fn into_future(self) -> CallFuture<T> {
        Box::pin(self.run(None))
    }
}

/// A request that was sent: a future of its result. Dropping it does not take the request back. Like most
/// futures it may panic if it is polled after it was ready.
///
/// ```no_run
/// # async fn example(client: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let sent = client.set("/config", "new").send();
/// let (data, _stat) = client.get("/config").await?; // the server handles it after `set`
/// assert_eq!(&data[..], b"new");
/// sent.await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the result tells whether it was carried out"]
pub struct Sent<T> {
    answer: Result<Answer, Error>,
    unwritten: Unwritten,
    about: RequestSubject,
    /// The operations of a multi, which an error may name.
    ops: Vec<MultiOp>,
    reading: Reading<T>,
    localize: Option<(Client, Localize<T>)>,
}

/// The client, while it may wait with the request for a task that awaits the reply. If nobody does, the
/// request is written.
struct Unwritten(Option<Arc<Shared>>);

impl Drop for Unwritten {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.write_held_back();
        }
    }
}

impl<T> fmt::Debug for Sent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = self.answer.as_ref().map(|answer| answer.0.op);
        f.debug_struct("Sent")
            .field("op", &op)
            .field("path", &self.about.with(&self.ops).path())
            .finish_non_exhaustive()
    }
}

impl<T> Future for Sent<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.unwritten.0 = None;
        let answer = match &mut this.answer {
            Ok(answer) => answer,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let op = answer.0.op;
        let outcome = ready!(Pin::new(answer).poll(context));
        let answer = read_reply(outcome, op, this.about.with(&this.ops), this.reading);
        Poll::Ready(match &this.localize {
            Some((client, localize)) => answer.map(|answer| localize(client, answer)),
            None => answer,
        })
    }
}

pub(crate) fn read_reply<T>(
    outcome: Outcome,
    op: OpCode,
    about: Subject<'_>,
    reading: Reading<T>,
) -> Result<T, Error> {
    let (header, body) = match outcome {
        Outcome::Answered(header, body) => (header, body),
        Outcome::ConnectionLoss => return Err(Error::ConnectionLoss { op, path: about.path() }),
        Outcome::NotSent => return Err(Error::NotSent { op, path: about.path() }),
        Outcome::TooLong { bytes, limit } => {
            return Err(Error::TooLong { op, path: about.path(), bytes, limit });
        }
        Outcome::SessionExpired => return Err(Error::SessionExpired),
        Outcome::Closed => return Err(Error::Closed),
    };
    reading.read(op, &header, &body)?.map_err(|unfit| match unfit {
        UnexpectedReply::Refused(ErrorCode::AUTH_FAILED) => Error::AuthFailed,
        UnexpectedReply::Refused(code) => {
            Error::Refused { op, path: about.path(), code, index: None }
        }
        UnexpectedReply::RefusedAt(index, code) => about.refused_at(index, op, code),
        #[cfg(feature = "compression")]
        UnexpectedReply::Compressed(fault) => Error::Decompress { path: about.path(), fault },
        UnexpectedReply::WrongRecord => {
            DecodeError { record: "Response", fault: DecodeFault::UnknownCode(op.0) }.into()
        }
    })
}

/// A [`ReplyReader`] for one kind of response.
macro_rules! reply_reader {
    ($pattern:pat => $value:expr) => {
        |header: &zoolet_protocol::ReplyHeader, response: zoolet_protocol::Response| match response
        {
            $pattern if header.err.is_ok() => Ok($value),
            _ => Err($crate::operation::UnexpectedReply::of(header)),
        }
    };
}
pub(crate) use reply_reader;

impl Client {
    pub(crate) fn operation<T>(
        &self,
        path: &str,
        reading: ReplyReader<T>,
        request: impl FnOnce(String) -> Request,
    ) -> Operation<T> {
        self.operation_at(path.to_owned(), reading, request)
    }

    /// As [`Client::operation`], for a caller who has the path to give.
    pub(crate) fn operation_at<T>(
        &self,
        path: String,
        reading: ReplyReader<T>,
        request: impl FnOnce(String) -> Request,
    ) -> Operation<T> {
        let request =
            ZPath::check(&path).map(|()| request(self.server_path(&path))).map_err(Error::from);
        self.prepared(RequestSubject::Path(path), reading, request)
    }

    /// An operation with a request, or with the error that prevented one.
    pub(crate) fn prepared<T>(
        &self,
        about: RequestSubject,
        reading: ReplyReader<T>,
        request: Result<Request, Error>,
    ) -> Operation<T> {
        self.prepared_with(about, Reading::Reply(reading), request)
    }

    /// As [`Client::prepared`], with a reply that is read in either way.
    pub(crate) fn prepared_with<T>(
        &self,
        about: RequestSubject,
        reading: Reading<T>,
        request: Result<Request, Error>,
    ) -> Operation<T> {
        let is_read = matches!(request, Ok(Request::Read(_)));
        let client = self.clone();
        Operation { client, request, about, reading, localize: None, is_read, bound: None }
    }
}
