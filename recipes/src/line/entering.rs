//! Entering a line: creates whose answers have not come. What is dropped meanwhile is undone in the
//! background, so that no znode stays that nobody knows of.

use bytestring::ByteString;
use zoolet_protocol::{
    CreateMode, DecodeError, DecodeFault, ErrorCode, MultiOp, MultiResult, OpCode, SessionId, Stat,
    Zxid,
};

use crate::client::{self, Client, Created};
use crate::error::LockError;
use crate::line::place::{Line, Place};
use crate::tries::Tries;

/// A place that is asked for and not known to be there. Dropped, it sees to it that it is not.
pub(crate) struct Entering {
    client: Client,
    session: SessionId,
    /// The path without its number, which no other znode has.
    path: String,
    sent: Option<SentCreate>,
}

enum SentCreate {
    Alone(client::Sent<Created>),
    InMulti(client::Sent<(Vec<MultiResult>, Zxid)>),
}

impl Entering {
    /// Asks for a place at the end of a line.
    pub(crate) fn begin(line: &Line, session: SessionId) -> Self {
        let path = line.new_path();
        let create = line
            .client
            .create(&path)
            .data(line.data.clone())
            .acl(line.acl.to_vec())
            .mode(CreateMode::EphemeralSequential)
            .in_session(session);
        let sent = Some(SentCreate::Alone(create.send()));
        Self { client: line.client.clone(), session, path, sent }
    }

    /// Asks for a place by a multi, whose last operation creates it, at a path that begins with
    /// `path`.
    pub(crate) fn by_multi(
        line: &Line,
        session: SessionId,
        path: String,
        ops: Vec<MultiOp>,
    ) -> Self {
        let mut entering = Self { client: line.client.clone(), session, path, sent: None };
        entering.send_multi(ops);
        entering
    }

    /// The path without its number.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Asks again, by a multi whose last operation creates the place.
    pub(crate) fn send_multi(&mut self, ops: Vec<MultiOp>) {
        let multi = self.client.multi_with_zxid(ops).in_session(self.session);
        self.sent = Some(SentCreate::InMulti(multi.send()));
    }

    /// The znode, once it is known to be there. A lost answer is looked for.
    pub(crate) async fn created(&mut self) -> Result<Created, LockError> {
        let result = match self.sent.as_mut() {
            Some(SentCreate::Alone(sent)) => sent.await,
            Some(SentCreate::InMulti(sent)) => sent.await.and_then(|(results, zxid)| {
                let path = results.last().and_then(path_of).ok_or_else(unfit)?;
                Ok(Created { path: path.to_string(), stat: created_at(zxid) })
            }),
            None => unreachable!("something was sent"),
        };
        match result {
            Ok(created) => Ok(created),
            Err(client::Error::ConnectionLoss { .. }) => self.look_for().await,
            Err(error) => {
                self.sent = None;
                Err(error.into())
            }
        }
    }

    /// Looks for a znode whose answer was lost, in the session for which it was made.
    async fn look_for(&mut self) -> Result<Created, LockError> {
        match self.client.in_session(self.session).find_protected(&self.path).await {
            Ok(Some(created)) => Ok(created),
            Ok(None) => {
                self.sent = None;
                // It was not made, or went with its session: a new one must be.
                Err(LockError::PlaceLost)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The place of the znode that was created.
    pub(crate) fn into_place(mut self, created: Created) -> Result<Place, LockError> {
        self.sent = None;
        Place::new(&self.client, self.session, created, self.path.len())
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        if self.sent.take().is_some() {
            self.client.in_session(self.session).delete_protected_in_background(&self.path);
        }
    }
}

/// Places in several lines that are asked for at once and not known to be there. Dropped, it sees
/// to it that they are not.
pub(crate) struct EnteringAll {
    client: Client,
    session: SessionId,
    /// The paths without their numbers, one for each line.
    paths: Vec<String>,
}

impl EnteringAll {
    /// Takes a place at the end of each line, all with one multi.
    pub(crate) async fn enter(client: &Client, lines: &[Line]) -> Result<Vec<Place>, LockError> {
        let mut tries = Tries::new();
        loop {
            match Self::try_enter(client, lines, Vec::new()).await {
                Err(LockError::Client(error)) if error.is(ErrorCode::NO_NODE) => {}
                Ok(places) => return Ok(places),
                Err(error) => {
                    tries.after(error).await?;
                    continue;
                }
            }
            // A directory is missing: made with the places, it may be there by then.
            let entered = match missing_directories(client, lines).await {
                Ok(ops) => Self::try_enter(client, lines, ops).await,
                Err(error) => Err(error),
            };
            match entered {
                Ok(places) => return Ok(places),
                Err(error) => tries.after(error).await?,
            }
        }
    }

    /// Takes the places if these operations before them do not fail.
    async fn try_enter(
        client: &Client,
        lines: &[Line],
        mut ops: Vec<MultiOp>,
    ) -> Result<Vec<Place>, LockError> {
        let session = client.connected_session().await?.id();
        let paths: Vec<_> = lines.iter().map(Line::new_path).collect();
        ops.extend(lines.iter().zip(&paths).map(|(line, path)| line.create_op(path)));
        let entering = Self { client: client.clone(), session, paths };
        places(client, session, entering.send(ops).await?)
    }

    /// The znodes, and how long their paths are without their numbers.
    async fn send(mut self, ops: Vec<MultiOp>) -> Result<Vec<(Created, usize)>, LockError> {
        let result = self.client.multi_with_zxid(ops).in_session(self.session).send().await;
        let created = match result {
            Ok((results, zxid)) => self.created(&results, zxid)?,
            Err(client::Error::ConnectionLoss { .. }) => self.look_for().await?,
            Err(error) => {
                self.paths.clear();
                return Err(error.into());
            }
        };
        self.paths.clear();
        Ok(created)
    }

    fn created(
        &self,
        results: &[MultiResult],
        zxid: Zxid,
    ) -> Result<Vec<(Created, usize)>, client::Error> {
        // The directories that were missing were created before the places.
        let directories = results.len().checked_sub(self.paths.len()).ok_or_else(unfit)?;
        let places = results[directories..].iter().zip(&self.paths);
        let created = places.map(|(result, path)| {
            let path_created = path_of(result).ok_or_else(unfit)?.to_string();
            Ok((Created { path: path_created, stat: created_at(zxid) }, path.len()))
        });
        created.collect()
    }

    /// Looks for the znodes after a lost answer. They were created all at once or not at all, but
    /// somebody may have deleted one since: what is left of the others is deleted then.
    async fn look_for(&mut self) -> Result<Vec<(Created, usize)>, LockError> {
        let mut all = Vec::new();
        for path in &self.paths {
            let found = self.client.in_session(self.session).find_protected(path).await?;
            all.extend(found.map(|created| (created, path.len())));
        }
        if all.len() < self.paths.len() {
            self.paths.clear();
            drop(places(&self.client, self.session, all));
            return Err(LockError::PlaceLost);
        }
        Ok(all)
    }
}

impl Drop for EnteringAll {
    fn drop(&mut self) {
        for path in std::mem::take(&mut self.paths) {
            self.client.in_session(self.session).delete_protected_in_background(&path);
        }
    }
}

fn places(
    client: &Client,
    session: SessionId,
    created: Vec<(Created, usize)>,
) -> Result<Vec<Place>, LockError> {
    let place =
        |(created, digits_at): (Created, usize)| Place::new(client, session, created, digits_at);
    // All are made places before one is refused, so that each is left.
    let places: Vec<_> = created.into_iter().map(place).collect();
    places.into_iter().collect()
}

/// What creates the directories of the lines that are missing, each once.
async fn missing_directories(client: &Client, lines: &[Line]) -> Result<Vec<MultiOp>, LockError> {
    let mut ops: Vec<MultiOp> = Vec::new();
    for line in lines {
        for op in client.missing_containers(&line.directory, &line.acl).await? {
            if !ops.iter().any(|other| other.path() == op.path()) {
                ops.push(op);
            }
        }
    }
    Ok(ops)
}

/// The path that a create of a multi made.
fn path_of(result: &MultiResult) -> Option<&ByteString> {
    match result {
        MultiResult::Create(path) | MultiResult::Create2(path, _) => Some(path),
        _ => None,
    }
}

/// A server answered to a multi what is no answer to it.
fn unfit() -> client::Error {
    DecodeError { record: "MultiResponse", fault: DecodeFault::UnknownCode(OpCode::MULTI.0) }.into()
}

/// The Stat of a znode, as far as it is known of one that a multi made.
fn created_at(zxid: Zxid) -> Stat {
    Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, ..Stat::default() }
}
