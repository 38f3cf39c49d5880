//! What the recipes need beyond what everybody needs: znodes that are found again after a lost
//! answer, and removals that go on in the background.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zoolet_protocol::{
    Acl, Check, Create, CreateFlags, CreateKind, ErrorCode, Expect, MultiOp, SessionId, Stat, Zxid,
};

use super::create::{parent, protect, protection};
use super::error::Error;
use super::operation::Sent;
use super::proof::{Stake, StakeId};
use super::session::Session;
use super::state::ConnectionState;
use super::{Client, Created, ZnodeWatch};

/// How long to wait before what failed is tried again in the background.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// By what a znode of one's own is known whose name others have at other times.
#[derive(Debug, Clone)]
pub(crate) enum Own {
    /// By data that nobody else writes, while nobody knows of it.
    Data(Bytes),
    /// By the change that created it.
    Creation(Zxid),
}

impl Own {
    fn is(&self, data: &Bytes, stat: &Stat) -> bool {
        match self {
            Self::Data(own) => data == own,
            Self::Creation(czxid) => stat.czxid == *czxid,
        }
    }
}

/// A znode by which something is held, looked at with each proof of life until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    client: Client,
    id: StakeId,
    stake: Arc<Stake>,
}

impl Claim {
    /// Whether the znode was found to be gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.stake.is_gone()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.client.shared().note_down(|session, _now| session.disclaim(self.id));
    }
}

impl Client {
    /// The session, as soon as there is a connection.
    pub(crate) async fn session_when_connected(&self) -> Result<SessionId, Error> {
        loop {
            let session = self.session_id();
            let mut state = self.state();
            if !session.is_none()
                && state.borrow_and_update().is_some_and(ConnectionState::is_connected)
            {
                return Ok(session);
            }
            if self.shared().look(Session::is_closed) {
                return Err(Error::Closed);
            }
            // A client that is closed says nothing more.
            let _ = tokio::time::timeout(Duration::from_secs(1), state.changed()).await;
        }
    }

    /// Whether this session is the present one and surely lives: see the module `held`.
    pub(crate) fn is_session_proven(&self, session: SessionId) -> bool {
        let now = super::now();
        self.shared().look(|present| present.is_proven(session, now))
    }

    /// As [`Client::is_session_proven`], and for long enough that the next proof can be expected by then.
    pub(crate) fn is_session_proven_ahead(&self, session: SessionId) -> bool {
        let now = super::now();
        self.shared().look(|present| present.is_proven_ahead(session, now))
    }

    /// Whether the client is closed, or has asked for that.
    pub(crate) fn is_closing(&self) -> bool {
        self.shared().look(Session::is_closing)
    }

    /// Waits until it is not certain any more that the session lives.
    pub(crate) async fn until_unproven(&self, session: SessionId) {
        let mut changes = self.proof_changes();
        while self.is_session_proven(session) {
            let until = self.session_valid_until();
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Told when the session is proved to live after it was not, and when something else than time has
    /// changed what is known of it.
    pub(crate) fn proof_changes(&self) -> watch::Receiver<()> {
        self.shared().proof.subscribe()
    }

    /// A znode of a session by which something is held from now on.
    pub(crate) fn claim(&self, session: SessionId, path: &str) -> Claim {
        let path = self.server_path(path);
        let claim = |present: &mut Session, now| present.claim(session, path, now);
        let (id, stake) = self.shared().note_down(claim);
        Claim { client: self.clone(), id, stake }
    }

    /// Whether the zxid of a reply covers what was heard on the connection that was the last of so
    /// many. An event of a server before 3.9 has no zxid, so that after a reconnect nothing would keep
    /// this client from a server that is behind the event.
    pub(crate) async fn is_covered(
        &self,
        path: &str,
        session: SessionId,
        connections: u64,
    ) -> Result<bool, Error> {
        match self.exists(path).bound_to(session).send().await {
            // Whatever it tells of the znode: its header has the zxid.
            Ok(_) => Ok(self.connections() == connections),
            Err(error) if error.is_retryable() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Has the server catch up with what a quorum has carried out, so that a look that follows finds what
    /// another server did in this session before. Asked once, in the session to which it is bound.
    ///
    /// A multi of one check, not a `sync`: a leader that was cut off answers `sync` from its old state
    /// until it notices, and commits nothing. A multi that is refused is a transaction too.
    pub(crate) async fn catch_up(
        &self,
        path: &str,
        session: Option<SessionId>,
    ) -> Result<(), Error> {
        let check = MultiOp::Check(Check { path: path.into(), version: Expect::Any });
        let mut checked = self.multi_done(vec![check]);
        if let Some(session) = session {
            checked = checked.bound_to(session);
        }
        match checked.send().await {
            Err(error) if error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::NO_AUTH) => Ok(()),
            result => result,
        }
    }

    /// As [`Client::catch_up`], asked until it is answered or the session is over.
    pub(crate) async fn catch_up_until_answered(
        &self,
        path: &str,
        session: SessionId,
    ) -> Result<(), Error> {
        loop {
            match self.catch_up(path, Some(session)).await {
                Err(error) if error.is_retryable() => {}
                Err(error) if error.is_passing() => tokio::time::sleep(AGAIN_AFTER).await,
                result => return result,
            }
        }
    }

    /// A path whose last part begins with an id of its own.
    pub(crate) fn protected_path(&self, path: &str) -> String {
        protect(path, &protection())
    }

    /// The znode that was made at a path with an id of its own, in this session, if it was.
    ///
    /// Asked until it is answered. The server catches up first: after a reconnect it may be behind
    /// the one that carried the create out. If there are several, because a create was carried out
    /// after it was looked for, the first counts and the others are removed.
    pub(crate) async fn find_protected(
        &self,
        path: &str,
        session: SessionId,
    ) -> Result<Option<Created>, Error> {
        let over = |error: Error| match error {
            Error::Lost => Ok(None),
            error => Err(error),
        };
        let directory = parent(path);
        let prefix = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let ours = match self.protected_names(directory, prefix, session).await {
            Ok(names) => names,
            Err(error) => return over(error),
        };
        let mut found = None;
        for name in ours {
            let path = format!("{}/{name}", directory.trim_end_matches('/'));
            if found.is_some() {
                self.delete(&path).guaranteed();
                continue;
            }
            match self.exists(&path).bound_to(session).until_answered().await {
                Ok(Some(stat)) if stat.ephemeral_owner == session => {
                    found = Some(Created { path, stat });
                }
                Ok(_) => {}
                Err(error) => return over(error),
            }
        }
        Ok(found)
    }

    /// The Stat of a znode of one's own, if it is there. Asked until it is answered, of a server that
    /// has caught up.
    pub(crate) async fn find_own(
        &self,
        path: &str,
        session: SessionId,
        own: &Own,
    ) -> Result<Option<Stat>, Error> {
        self.catch_up_until_answered(path, session).await?;
        match self.get(path).bound_to(session).until_answered().await {
            Ok((data, stat)) => Ok(own.is(&data, &stat).then_some(stat)),
            Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The znodes that were made in one multi at a path with an id of its own, in this session: all
    /// of them, or none. Asked until it is answered.
    pub(crate) async fn find_all_protected(
        &self,
        path: &str,
        session: SessionId,
    ) -> Result<Vec<String>, Error> {
        let (directory, prefix) = path.rsplit_once('/').unwrap_or_default();
        let ours = self.protected_names(directory, prefix, session).await?;
        Ok(ours.into_iter().map(|name| format!("{directory}/{name}")).collect())
    }

    /// The names in a directory that begin with an id of this session's own, in their order. Asked
    /// until it is answered, of a server that has caught up.
    async fn protected_names(
        &self,
        directory: &str,
        prefix: &str,
        session: SessionId,
    ) -> Result<Vec<String>, Error> {
        self.catch_up_until_answered(directory, session).await?;
        let listed = match self.children(directory).bound_to(session).until_answered().await {
            // A znode may be there all the same: who may create need not be allowed to list.
            Err(error) if error.is(ErrorCode::NO_AUTH) => {
                let path = format!("{}/{prefix}", directory.trim_end_matches('/'));
                match self.ephemerals(&path).bound_to(session).until_answered().await {
                    // Servers before 3.6 do not tell them.
                    Err(unknown) if unknown.is(ErrorCode::UNIMPLEMENTED) => Err(error),
                    ephemerals => ephemerals,
                }
            }
            listed => listed,
        };
        let names = match listed {
            Ok(names) => names,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        // Ephemerals are told by their whole paths.
        let last_part = |name| str::rsplit(name, '/').next().unwrap_or_default();
        let ours = names.iter().map(last_part).filter(|name| name.starts_with(prefix));
        let mut ours: Vec<_> = ours.map(str::to_owned).collect();
        ours.sort_unstable();
        Ok(ours)
    }

    /// Sees to it, in the background, that nothing is left of a multi whose answer nobody waits for
    /// any more.
    pub(crate) fn remove_all_protected(&self, path: String, session: SessionId) {
        let client = self.clone();
        self.shared().runtime.spawn(async move {
            for path in client.find_all_protected(&path, session).await.unwrap_or_default() {
                if client.remove(&path, session, None).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Sees to it, in the background, that nothing is left of a create whose answer nobody waits
    /// for any more.
    pub(crate) fn remove_protected(&self, path: String, session: SessionId) {
        let client = self.clone();
        self.shared().runtime.spawn(async move {
            if let Ok(Some(created)) = client.find_protected(&path, session).await {
                client.remove(&created.path, session, None).await
            } else {
                Ok(())
            }
        });
    }

    /// Deletes a znode in the background, until it is gone or its session is over. The future that
    /// is returned only waits for it. Where it must be one's `own`, one of others stays.
    pub(crate) fn remove_in_background(
        &self,
        path: String,
        session: SessionId,
        own: Option<Own>,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let client = self.clone();
        let removal: JoinHandle<_> = self
            .shared()
            .runtime
            .spawn(async move { client.remove(&path, session, own.as_ref()).await });
        async move { removal.await.unwrap_or(Err(Error::Closed)) }
    }

    /// As [`Client::remove_in_background`], after a first try was sent. The watch lasts until the
    /// znode is gone.
    pub(crate) fn remove_after(
        &self,
        sent: Sent<()>,
        path: String,
        session: SessionId,
        own: Option<Own>,
        watch: Option<ZnodeWatch>,
    ) {
        let client = self.clone();
        self.shared().runtime.spawn(async move {
            let result = match sent.await {
                Err(error) if !error.is(ErrorCode::NO_NODE) => {
                    client.remove(&path, session, own.as_ref()).await
                }
                result => result,
            };
            drop(watch);
            result
        });
    }

    async fn remove(&self, path: &str, session: SessionId, own: Option<&Own>) -> Result<(), Error> {
        loop {
            if let Some(own) = own
                && self.find_own(path, session, own).await?.is_none()
            {
                return Ok(());
            }
            match self.delete(path).operation().bound_to(session).send().await {
                Err(error) if error.is_passing() => tokio::time::sleep(AGAIN_AFTER).await,
                Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(()),
                result => return result,
            }
        }
    }

    /// The operations that create a directory and what is missing above it, as containers. What is
    /// missing of the namespace is made at once.
    pub(crate) async fn missing_containers(
        &self,
        directory: &str,
        acl: &[Acl],
    ) -> Result<Vec<MultiOp>, Error> {
        let mut missing = Vec::new();
        let mut ancestor = directory;
        while ancestor != "/" && self.exists(ancestor).await?.is_none() {
            missing.push(ancestor.to_owned());
            ancestor = parent(ancestor);
        }
        if ancestor == "/" && !missing.is_empty() {
            self.create_ancestors("/x", super::Parents::Containers, acl).await?;
        }
        let create = |path: &String| {
            MultiOp::Create(Create {
                kind: CreateKind::Container,
                path: path.as_str().into(),
                data: Some(Bytes::new()),
                acl: Some(acl.to_vec()),
                flags: CreateFlags::CONTAINER,
            })
        };
        Ok(missing.iter().rev().map(create).collect())
    }
}
