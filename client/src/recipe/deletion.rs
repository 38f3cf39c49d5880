//! Deletes that go on in the background until they are done.

use bytes::Bytes;
use tokio::task::JoinHandle;
use zoolet_protocol::{ErrorCode, Stat, Zxid};

use super::{RETRY_PAUSE, SessionClient, ZnodeWatch};
use crate::error::Error;
use crate::operation::Sent;

/// How a recipe recognizes its own znode at a path where others create znodes of the same name at
/// other times.
///
/// ```
/// use zoolet_client::protocol::Zxid;
/// use zoolet_client::recipe::ZnodeIdentity;
///
/// assert_ne!(ZnodeIdentity::Data("me".into()), ZnodeIdentity::Czxid(Zxid(7)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZnodeIdentity {
    /// By data that nobody else writes: for as long as the reply to the create has not come.
    Data(Bytes),
    /// By the zxid of the create.
    Czxid(Zxid),
}

impl SessionClient {
    /// The Stat of the znode, if there is one at the path and it is the caller's own. The server is
    /// asked until it answers, and [catches up](SessionClient::catch_up) first.
    ///
    /// # Errors
    ///
    /// Those of a read, except for a lost connection, which is waited for.
    pub async fn find_own(
        &self,
        path: &str,
        identity: &ZnodeIdentity,
    ) -> Result<Option<Stat>, Error> {
        self.catch_up(path).await?;
        let own = match identity {
            ZnodeIdentity::Czxid(own) => {
                let stat = self.stat(path).await?;
                return Ok(stat.filter(|stat| stat.czxid == *own));
            }
            ZnodeIdentity::Data(own) => own,
        };
        match self.get(path).until_answered().await {
            Ok((data, stat)) => Ok((data == *own).then_some(stat)),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The Stat of the znode, if there is one at the path.
    ///
    /// Who may create a znode may not be allowed to read it, and newer servers ask for that right also
    /// where no data is read. An administrator of the znode may read its list, which comes with the Stat.
    async fn stat(&self, path: &str) -> Result<Option<Stat>, Error> {
        match self.exists(path).until_answered().await {
            Err(error) if error.is(ErrorCode::NO_AUTH) => {}
            answered => return answered,
        }
        match self.client().acl(path).in_session(self.id()).until_answered().await {
            Ok((_, stat)) => Ok(Some(stat)),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a znode in the background, until it is gone or the session is over. The returned
    /// future waits for that; dropping it changes nothing. With an `identity`, a znode that
    /// somebody else created at the path stays.
    pub fn delete_in_background(
        &self,
        path: &str,
        identity: Option<ZnodeIdentity>,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let (session, path) = (self.clone(), path.to_owned());
        let deletion: JoinHandle<_> = self.client().spawn(async move {
            let result = session.delete_until_gone(&path, identity.as_ref()).await;
            warn_of_refusal(&result);
            result
        });
        async move { deletion.await.unwrap_or(Err(Error::Closed)) }
    }

    /// As [`SessionClient::delete_in_background`], after a first delete was `sent`. The watch is
    /// kept until the znode is gone: then the server has forgotten it, and it need not be removed.
    pub fn finish_delete_in_background(
        &self,
        sent: Sent<()>,
        path: &str,
        identity: Option<ZnodeIdentity>,
        watch: Option<ZnodeWatch>,
    ) {
        let (session, path) = (self.clone(), path.to_owned());
        self.client().spawn(async move {
            let result = match sent.await {
                Err(error) if !error.is(ErrorCode::NO_NODE) => {
                    session.delete_until_gone(&path, identity.as_ref()).await
                }
                result => result,
            };
            drop(watch);
            warn_of_refusal(&result);
        });
    }

    /// Deletes in the background what a create at a [protected path](crate::Client::protected_path)
    /// made, if it made something: for a create whose reply nobody waits for any more.
    pub fn delete_protected_in_background(&self, path: &str) {
        let (session, path) = (self.clone(), path.to_owned());
        self.client().spawn(async move {
            let deleted = match session.find_protected(&path).await {
                Ok(Some(created)) => session.delete_until_gone(&created.path, None).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            warn_of_refusal(&deleted);
        });
    }

    /// As [`SessionClient::delete_protected_in_background`], for a multi that created several
    /// znodes at the path.
    pub fn delete_all_protected_in_background(&self, path: &str) {
        let (session, path) = (self.clone(), path.to_owned());
        self.client().spawn(async move {
            let deleted = session.delete_all_protected(&path).await;
            warn_of_refusal(&deleted);
        });
    }

    async fn delete_all_protected(&self, path: &str) -> Result<(), Error> {
        for path in self.find_all_protected(path).await? {
            self.delete_until_gone(&path, None).await?;
        }
        Ok(())
    }

    async fn delete_until_gone(
        &self,
        path: &str,
        identity: Option<&ZnodeIdentity>,
    ) -> Result<(), Error> {
        loop {
            if let Some(identity) = identity
                && self.find_own(path, identity).await?.is_none()
            {
                return Ok(());
            }
            match self.delete(path).send().await {
                Err(error) if error.is_passing() => tokio::time::sleep(RETRY_PAUSE).await,
                Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(()),
                result => return result,
            }
        }
    }
}

/// Logs that a server refused a delete whose result nobody may be waiting for: the znode stays, and with
/// it whatever it stands for, as a lock. Neither a znode that is gone nor the end of its session is worth
/// a warning.
pub(crate) fn warn_of_refusal(deleted: &Result<(), Error>) {
    let Err(error) = deleted else { return };
    let is_refused = error.code().is_some_and(|code| code != ErrorCode::NO_NODE);
    if is_refused || matches!(error, Error::TooLong { .. }) {
        tracing::warn!("a znode was not deleted in the background: {error}");
    }
}
