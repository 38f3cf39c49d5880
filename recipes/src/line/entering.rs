//! Entering a line: creates places.
//!
//! The create and the list that shows the position are sent together, so that entering a line costs
//! one round trip. If no task waits for the reply to a create any more, the znode is deleted in the
//! background, so that no unknown znode stays.

use bytestring::ByteString;
use zoolet_protocol::{
    Check, Create, CreateFlags, CreateMode, DecodeError, DecodeFault, Delete, ErrorCode, Expect,
    MultiOp, MultiResult, OpCode, SEQUENCE_DIGITS, Stat, Zxid,
};

use super::order::Position;
use super::place::Place;
use super::{Line, PositionAt};
use crate::attempts::Attempts;
use crate::client::recipe::SessionClient;
use crate::client::{self, Created};
use crate::error::LockError;

impl Line {
    /// Creates a place at the end of the line, and returns its position.
    pub(crate) async fn enter(&self) -> Result<(Place, PositionAt), LockError> {
        let mut attempts = Attempts::new(&self.client);
        loop {
            let session = self.client.connected_session().await?;
            session.expect_claims();
            match self.try_enter(&session).await {
                Ok(entered) => return Ok(entered),
                // Another client deleted or created the directory, the session changed, or the
                // connection closed before anything was sent: a new place is created.
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    async fn try_enter(&self, session: &SessionClient) -> Result<(Place, PositionAt), LockError> {
        let mut pending = PendingPlace::create(self, session);
        // The server handles the list right after the create, so that it contains the new znode.
        // The list needs no session: whenever it contains the znode, it contains all that are
        // ahead. Otherwise the place counts as missing.
        let list = self.client.children_with_zxid(&self.directory).send();
        match pending.created().await {
            Ok(created) => {
                let place = pending.into_place(created)?;
                let (names, zxid) = match list.await {
                    Ok(list) => list,
                    Err(error) if error.is_retryable() => Box::pin(self.list(session)).await?,
                    Err(error) => return Err(error.into()),
                };
                let position = self.position_in(&names, &place);
                Ok((place, PositionAt { position, zxid }))
            }
            Err(LockError::Client(error)) if error.is(ErrorCode::NO_NODE) => {
                drop(list);
                Box::pin(self.enter_new_directory(pending)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the directory, its missing ancestors and the place with one multi. If the multi
    /// created the directory, no place is ahead. If another client has created the directory, the
    /// multi creates the place alone, or is refused.
    async fn enter_new_directory(
        &self,
        mut pending: PendingPlace,
    ) -> Result<(Place, PositionAt), LockError> {
        let acl = self.directory_acl.as_deref();
        let mut ops = self.client.missing_directories(&self.directory, self.parents, acl).await?;
        let is_new = !ops.is_empty();
        ops.push(self.create_op(&pending.path));
        pending.send_multi(ops);
        let created = pending.created().await?;
        let place = pending.into_place(created)?;
        if is_new {
            return Ok((place, PositionAt { position: Position::Front, zxid: Zxid::ZERO }));
        }
        let position = self.position_of(&place).await?;
        Ok((place, position))
    }

    /// Creates a second place of the same owner, with the number and the token of the first: no
    /// other place is between the two.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the first place is gone.
    pub(crate) async fn enter_beside(
        &self,
        (name, session): &(String, SessionClient),
        token: Zxid,
    ) -> Result<Place, LockError> {
        let digits_at = name.len().saturating_sub(SEQUENCE_DIGITS);
        let check = Check { path: self.child(name).as_str().into(), version: Expect::Any };
        let first = MultiOp::Check(check);
        let mut pending = PendingPlace::with_number(self, session, first, &name[digits_at..]);
        let created = pending.created().await.map_err(|error| match error {
            LockError::Client(error) if error.is(ErrorCode::NO_NODE) => {
                LockError::Lost(self.child(name))
            }
            error => error,
        })?;
        Ok(pending.into_place(created)?.with_token(token))
    }

    /// Replaces a place of the same owner by one with its number and its token. One multi deletes
    /// the one and creates the other, so that no other place gets in between.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the other place is gone.
    pub(crate) async fn enter_instead(&self, other: Place) -> Result<Place, LockError> {
        let mut attempts = Attempts::new(&self.client);
        loop {
            let delete = Delete { path: other.path().into(), version: Expect::Any };
            let first = MultiOp::Delete(delete);
            let mut pending =
                PendingPlace::with_number(self, other.session(), first, other.digits());
            match pending.created().await {
                Ok(created) => {
                    let place = pending.into_place(created)?.with_token(other.token());
                    other.note_deleted();
                    return Ok(place);
                }
                Err(error) => attempts.wait_after(error).await?,
            }
            if !other.exists().await.map_err(LockError::of_held)? {
                return Err(LockError::Lost(other.path().to_owned()));
            }
        }
    }
}

/// A place whose create was sent and not answered. Dropped, it is deleted in the background.
struct PendingPlace {
    session: SessionClient,
    /// The path without its number. It contains an id that no other znode has.
    path: String,
    sent: Option<SentCreate>,
}

enum SentCreate {
    Single(client::Sent<Created>),
    InMulti(client::Sent<(Vec<MultiResult>, Zxid)>),
}

impl PendingPlace {
    /// Sends the create of a place at the end of a line.
    fn create(line: &Line, session: &SessionClient) -> Self {
        let path = line.new_path();
        let create = session
            .create(&path)
            .data(line.data.clone())
            .acl(line.acl.to_vec())
            .mode(CreateMode::EphemeralSequential);
        let sent = Some(SentCreate::Single(create.send()));
        Self { session: session.clone(), path, sent }
    }

    /// Sends a multi of an operation and of the create of a place with this number.
    fn with_number(line: &Line, session: &SessionClient, first: MultiOp, digits: &str) -> Self {
        let mut pending = Self { session: session.clone(), path: line.new_path(), sent: None };
        let path = format!("{}{digits}", pending.path);
        let create = Create { flags: CreateFlags::EPHEMERAL, ..line.create(&path) };
        pending.send_multi(vec![first, MultiOp::Create(create)]);
        pending
    }

    /// Sends a multi whose last operation creates the place.
    fn send_multi(&mut self, ops: Vec<MultiOp>) {
        self.sent = Some(SentCreate::InMulti(self.session.multi_with_zxid(ops).send()));
    }

    /// Waits for the reply. If the reply is lost, this looks for the znode.
    async fn created(&mut self) -> Result<Created, LockError> {
        let result = match self.sent.as_mut() {
            Some(SentCreate::Single(sent)) => sent.await,
            Some(SentCreate::InMulti(sent)) => sent.await.and_then(|(results, zxid)| {
                let path = results.last().and_then(created_path).ok_or_else(unexpected_results)?;
                Ok(Created { path: path.to_string(), stat: stat_of_created(zxid) })
            }),
            None => unreachable!("the create was sent"),
        };
        match result {
            Ok(created) => Ok(created),
            Err(client::Error::ConnectionLoss { .. }) => Box::pin(self.find()).await,
            Err(error) => {
                self.sent = None;
                Err(error.into())
            }
        }
    }

    /// Looks for the znode in the session that created it.
    async fn find(&mut self) -> Result<Created, LockError> {
        match self.session.find_protected(&self.path).await {
            Ok(Some(created)) => Ok(created),
            Ok(None) => {
                self.sent = None;
                // It was not created, or was deleted with its session.
                Err(LockError::PlaceLost(self.path.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The place of the znode that was created.
    fn into_place(mut self, created: Created) -> Result<Place, LockError> {
        self.sent = None;
        Place::new(&self.session, created, self.path.len())
    }
}

impl Drop for PendingPlace {
    fn drop(&mut self) {
        if self.sent.take().is_some() {
            self.session.delete_protected_in_background(&self.path);
        }
    }
}

/// The path of the znode that a create in a multi made.
pub(super) fn created_path(result: &MultiResult) -> Option<&ByteString> {
    match result {
        MultiResult::Create(path) | MultiResult::Create2(path, _) => Some(path),
        _ => None,
    }
}

/// The error for results that do not match the operations of a multi.
pub(super) fn unexpected_results() -> client::Error {
    DecodeError { record: "MultiResponse", fault: DecodeFault::UnknownCode(OpCode::MULTI.0) }.into()
}

/// The Stat of a znode that a multi created, as far as the reply shows it.
pub(super) fn stat_of_created(zxid: Zxid) -> Stat {
    Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, ..Stat::default() }
}
