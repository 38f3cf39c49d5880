//! A call: how it is made, made again, and read.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use zoolet_protocol::{
    DecodeError, DecodeFault, ErrorCode, OpCode, RawPath, ReplyHeader, Request, Response,
    SessionId, ZPath,
};

use super::Client;
use super::call::{Answer, Call, Outcome};
use super::error::Error;
use super::recipe::RETRY_PAUSE;
use super::retry::Retry;
use super::session::{Registration, Submission};

/// A boxed future, as `IntoFuture` needs a nameable type.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// How to read an answer: the header too, since an error may be one of the answers.
pub(crate) type Reading<T> = fn(&ReplyHeader, Response) -> Result<T, Unfit>;

/// What is no answer to the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A refusal.
    Refused(ErrorCode),
    /// A refusal of a multi, because of one of its operations.
    RefusedAt(usize, ErrorCode),
    /// The answer to something else.
    Shape,
}

impl Unfit {
    pub(crate) fn of(header: &ReplyHeader) -> Self {
        if header.err.is_ok() { Self::Shape } else { Self::Refused(header.err) }
    }
}

/// What a call is about, as the caller names it, for errors.
#[derive(Debug, Clone)]
pub(crate) enum About {
    Path(String),
    /// The operations of a multi.
    Ops(Vec<(OpCode, RawPath)>),
}

impl About {
    fn path(&self) -> String {
        match self {
            Self::Path(path) => path.clone(),
            Self::Ops(ops) => ops.first().map(|(_, path)| path.to_string()).unwrap_or_default(),
        }
    }

    /// The error of a refusal because of one operation.
    fn refused_at(&self, index: usize, multi: OpCode, code: ErrorCode) -> Error {
        let refused = match self {
            Self::Ops(ops) => ops.get(index),
            Self::Path(_) => None,
        };
        match refused {
            Some((op, path)) => {
                Error::Refused { op: *op, path: path.to_string(), code, index: Some(index) }
            }
            None => Error::Refused { op: multi, path: self.path(), code, index: Some(index) },
        }
    }
}

/// How paths in an answer become those that the client names.
type Localize<T> = fn(&Client, T) -> T;

/// A call that waits to be made: by `await`, with what is lost on the way tried again, or by
/// [`Operation::send`].
#[must_use = "a call is made when it is awaited or sent"]
pub struct Operation<T> {
    pub(crate) client: Client,
    /// The request, unless it cannot be made.
    pub(crate) request: Result<Request, Error>,
    about: About,
    reading: Reading<T>,
    localize: Option<Localize<T>>,
    /// Whether it may be carried out twice.
    is_read: bool,
    /// The session in which it makes sense.
    bound: Option<SessionId>,
}

impl<T> std::fmt::Debug for Operation<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation").field("request", &self.request).finish_non_exhaustive()
    }
}

impl<T> Operation<T> {
    /// Sends the request in this session or not at all: if the session is over, the call fails with
    /// [`Error::SessionExpired`].
    pub fn in_session(mut self, session: SessionId) -> Self {
        self.bound = Some(session);
        self
    }

    /// Makes the call, and tells paths in its answer as the client names them.
    pub(crate) fn localized(mut self, localize: Localize<T>) -> Self {
        self.localize = Some(localize);
        self
    }

    fn sent(&self, answer: Result<Answer, Error>) -> Sent<T> {
        // Without a root there is nothing to do.
        let localize = self.localize.filter(|_| !self.client.root.is_empty());
        let localize = localize.map(|localize| (self.client.clone(), localize));
        Sent { answer, about: self.about.clone(), reading: self.reading, localize }
    }

    /// Makes the call again and again until the server answers it, whatever happens to the connection
    /// and however busy the server is (`THROTTLEDOP`), without asking the client's retry policy. A
    /// call [in a session](Operation::in_session) ends with that session.
    ///
    /// The server may carry out the request more than once, so this is for reads, and for writes
    /// that change nothing the second time.
    ///
    /// # Errors
    ///
    /// What the server answers; [`Error::SessionExpired`] and [`Error::Closed`].
    pub async fn until_answered(self) -> Result<T, Error> {
        loop {
            match self.send_with(None).await {
                Err(error) if error.is_retryable() => {}
                Err(error) if error.is_passing() => tokio::time::sleep(RETRY_PAUSE).await,
                result => return result,
            }
        }
    }

    /// Makes the call now: it has its place in line when this returns. What is lost on the way is
    /// not tried again.
    pub fn send(self) -> Sent<T> {
        self.send_with(None)
    }

    /// Makes the call now, and has these watches there from now on.
    pub(crate) fn send_watching(self, watches: Vec<Registration>) -> Sent<T> {
        let answer = self.request.clone().map(|request| {
            let call = Call::new(request.op_code());
            let answer = Answer(Arc::clone(&call));
            let submission =
                Submission { watches, bound: self.bound, ..Submission::new(request, call) };
            self.client.shared().with(|session, now| session.submit(submission, now));
            answer
        });
        self.sent(answer)
    }

    fn send_with(&self, watch: Option<Registration>) -> Sent<T> {
        let answer = self.request.clone().map(|request| {
            let call = Call::new(request.op_code());
            let answer = Answer(Arc::clone(&call));
            let submission =
                Submission { watch, bound: self.bound, ..Submission::new(request, call) };
            self.client.shared().with(|session, now| session.submit(submission, now));
            answer
        });
        self.sent(answer)
    }
}

impl<T: Send + 'static> Operation<T> {
    /// Makes the call until it is answered or must not be made again.
    pub(crate) async fn run(self, watch: Option<Registration>) -> Result<T, Error> {
        let mut retry = Retry::new(&self.client.retry);
        loop {
            match self.send_with(watch.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => retry.after(error, self.is_read).await?,
            }
        }
    }
}

impl<T: Send + 'static> IntoFuture for Operation<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Boxed<T>;

    fn into_future(self) -> Boxed<T> {
        Box::pin(self.run(None))
    }
}

/// A call that has its place in line. Dropping it forgets the answer, not the request.
#[derive(Debug)]
#[must_use = "the answer tells whether it was done"]
pub struct Sent<T> {
    answer: Result<Answer, Error>,
    about: About,
    reading: Reading<T>,
    localize: Option<(Client, Localize<T>)>,
}

impl<T> Future for Sent<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let answer = match &mut this.answer {
            Ok(answer) => answer,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let op = answer.0.op;
        let outcome = ready!(Pin::new(answer).poll(context));
        let answer = read(outcome, op, &this.about, this.reading);
        Poll::Ready(match &this.localize {
            Some((client, localize)) => answer.map(|answer| localize(client, answer)),
            None => answer,
        })
    }
}

pub(crate) fn read<T>(
    outcome: Outcome,
    op: OpCode,
    about: &About,
    reading: Reading<T>,
) -> Result<T, Error> {
    let (header, body) = match outcome {
        Outcome::Answered(header, body) => (header, body),
        Outcome::ConnectionLost => return Err(Error::ConnectionLoss { op, path: about.path() }),
        Outcome::NotSent => return Err(Error::NotSent { op, path: about.path() }),
        Outcome::SessionLost => return Err(Error::SessionExpired),
        Outcome::Closed => return Err(Error::Closed),
    };
    let response = if header.err.is_ok() { Response::decode(op, &body)? } else { Response::Empty };
    reading(&header, response).map_err(|unfit| match unfit {
        Unfit::Refused(ErrorCode::AUTH_FAILED) => Error::AuthFailed,
        Unfit::Refused(code) => Error::Refused { op, path: about.path(), code, index: None },
        Unfit::RefusedAt(index, code) => about.refused_at(index, op, code),
        Unfit::Shape => {
            DecodeError { record: "Response", fault: DecodeFault::UnknownCode(op.0) }.into()
        }
    })
}

/// Declares how to read one shape of answer.
macro_rules! reading {
    ($pattern:pat => $value:expr) => {
        |header: &zoolet_protocol::ReplyHeader, response: zoolet_protocol::Response| match response
        {
            $pattern if header.err.is_ok() => Ok($value),
            _ => Err($crate::operation::Unfit::of(header)),
        }
    };
}
pub(crate) use reading;

impl Client {
    pub(crate) fn operation<T>(
        &self,
        path: &str,
        reading: Reading<T>,
        request: impl FnOnce(String) -> Request,
    ) -> Operation<T> {
        let request =
            ZPath::check(path).map(|()| request(self.server_path(path))).map_err(Error::from);
        self.prepared(About::Path(path.to_owned()), reading, request)
    }

    /// An operation whose request was made, or cannot be.
    pub(crate) fn prepared<T>(
        &self,
        about: About,
        reading: Reading<T>,
        request: Result<Request, Error>,
    ) -> Operation<T> {
        let is_read = matches!(request, Ok(Request::Read(_)));
        let client = self.clone();
        Operation { client, request, about, reading, localize: None, is_read, bound: None }
    }
}
