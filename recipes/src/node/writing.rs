//! Writes new data to the znode that a node has, and to no other of its name.
//!
//! Another program may have replaced the znode without the knowledge of this one: it was deleted by
//! hand, and the other created its own. ZooKeeper cannot check in a write whose znode it is. So each
//! write is preceded by a look at the znode, and expects the version that was seen. What was written
//! to another znode nevertheless, one that was created since the look and has the same version, is
//! known by the answer.

use bytes::Bytes;
use zoolet_protocol::{ErrorCode, Expect, Stat, Zxid};

use super::error::NodeError;
use super::limits::BACK_OFF_MIN;
use crate::client::recipe::SessionClient;
use crate::client::{self, Client};

/// The znode of a node, as the target of writes.
pub(super) struct Writing<'a> {
    client: &'a Client,
    /// The session of an ephemeral. Any other znode is written in whatever session there is.
    session: Option<&'a SessionClient>,
    path: &'a str,
    czxid: Zxid,
    /// The connection over which the server last told of the znode; `None` when it is behind what is
    /// known, or may be behind what the last request has changed.
    certain: Option<u64>,
}

/// What came of a write.
pub(super) enum Written {
    Yes,
    /// The znode is gone, or another one has its name, or the session of the ephemeral is over.
    NotOwn,
}

impl<'a> Writing<'a> {
    /// For a znode of which the server has just told.
    pub(super) fn new(
        client: &'a Client,
        session: Option<&'a SessionClient>,
        path: &'a str,
        czxid: Zxid,
    ) -> Self {
        Self { client, session, path, czxid, certain: Some(client.connection_count()) }
    }

    /// Writes the data, however often the connection is lost and others write in between.
    ///
    /// # Errors
    ///
    /// What the server refuses; [`client::Error::Closed`].
    pub(super) async fn write(&mut self, data: &Bytes) -> Result<Written, NodeError> {
        loop {
            let session = match self.session {
                Some(session) => session.clone(),
                None => self.client.connected_session().await?,
            };
            match self.write_in(&session, data).await {
                Err(client::Error::SessionExpired) if self.session.is_none() => {}
                Err(client::Error::SessionExpired) => return Ok(Written::NotOwn),
                written => return Ok(written?),
            }
        }
    }

    async fn write_in(
        &mut self,
        session: &SessionClient,
        data: &Bytes,
    ) -> Result<Written, client::Error> {
        loop {
            let Some(expected) = self.look(session).await? else { return Ok(Written::NotOwn) };
            let set = self.client.set(self.path, data.clone()).version(expected).into_operation();
            match set.in_session(session.id()).send().await {
                Ok(stat) if stat.czxid == self.czxid => return Ok(Written::Yes),
                Ok(_) => {
                    tracing::warn!(
                        "{}: another program replaced the znode at this moment, and its data is lost",
                        self.path
                    );
                    return Ok(Written::NotOwn);
                }
                Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(Written::NotOwn),
                // Whether it was carried out, and whose znode it is now, the next look shows.
                Err(error) if error.is(ErrorCode::BAD_VERSION) || error.is_retryable() => {
                    self.certain = None;
                }
                Err(error) if error.is(ErrorCode::THROTTLED_OP) => {
                    tokio::time::sleep(BACK_OFF_MIN).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The version of the znode; `None` if it is gone or another one has its name.
    async fn look(&mut self, session: &SessionClient) -> Result<Option<Expect>, client::Error> {
        let connection = self.client.connection_count();
        if self.certain != Some(connection) {
            session.catch_up(self.path).await?;
        }
        let seen = look(session, self.path, self.czxid, self.session.is_some()).await?;
        self.certain = Some(connection);
        Ok(match seen {
            Seen::Own(stat) => Some(Expect::from(stat.version)),
            Seen::Unreadable => Some(Expect::Any),
            Seen::NotOwn => None,
        })
    }
}

/// What a look at a znode shows.
enum Seen {
    Own(Stat),
    /// It is gone, or another one has its name.
    NotOwn,
    /// The program may not read it. As far as the server tells all the same, it is the own one.
    Unreadable,
}

async fn look(
    session: &SessionClient,
    path: &str,
    czxid: Zxid,
    is_ephemeral: bool,
) -> Result<Seen, client::Error> {
    let own =
        |stat: Option<Stat>| stat.filter(|it| it.czxid == czxid).map_or(Seen::NotOwn, Seen::Own);
    match session.exists(path).until_answered().await {
        Err(error) if error.is(ErrorCode::NO_AUTH) => {}
        looked => return looked.map(own),
    }
    // An administrator of the znode may read its list, which comes with the Stat.
    match session.client().acl(path).in_session(session.id()).until_answered().await {
        Err(error) if error.is(ErrorCode::NO_AUTH) => {}
        Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(Seen::NotOwn),
        looked => return looked.map(|(_, stat)| own(Some(stat))),
    }
    match is_ephemeral && has_ephemeral(session, path).await? == Some(false) {
        true => Ok(Seen::NotOwn),
        false => Ok(Seen::Unreadable),
    }
}

/// Whether the session has an ephemeral at the path, by the list that a server has of each session;
/// `None` if the server does not tell, as one before 3.6.
pub(super) async fn has_ephemeral(
    session: &SessionClient,
    path: &str,
) -> Result<Option<bool>, client::Error> {
    let ephemerals = session.client().ephemerals(path).in_session(session.id());
    match ephemerals.until_answered().await {
        Ok(paths) => Ok(Some(paths.iter().any(|own| *own == *path))),
        Err(unknown) if unknown.is(ErrorCode::UNIMPLEMENTED) => Ok(None),
        Err(error) => Err(error),
    }
}
