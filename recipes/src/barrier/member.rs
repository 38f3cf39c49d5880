//! A member of a double barrier, from the moment its create is sent until its znode is gone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, ErrorCode, EventType, Expect, MultiOp, Zxid,
};

use crate::attempts::Attempts;
use crate::client::recipe::SessionClient;
use crate::client::{self, Client, Watched};
use crate::defaults;
use crate::error::{LockError, within};
use crate::line::deletion::Deletion;

/// The name of the znode that says that enough members have come.
const READY: &str = "ready";

/// The data of a member that entered while others were inside.
pub(crate) const INSIDE: &[u8] = b"inside";

/// The directory of a barrier.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    pub(crate) client: Client,
    pub(crate) directory: Arc<str>,
    /// `None` for the client's defaults.
    pub(crate) acl: Option<Vec<Acl>>,
}

/// The members of a barrier at one moment.
#[derive(Default)]
pub(crate) struct Inside {
    /// The names of their znodes, the lowest first.
    pub(crate) members: Vec<String>,
    pub(crate) is_ready: bool,
}

impl Inside {
    pub(crate) fn has(&self, member: &Member) -> bool {
        self.members.iter().any(|name| name == member.name())
    }
}

impl Room {
    pub(crate) fn new(client: &Client, path: &str) -> Self {
        Self { client: client.clone(), directory: path.into(), acl: None }
    }

    /// The data of its znodes.
    pub(crate) fn data(&self) -> Bytes {
        defaults::data(&self.client)
    }

    /// The access control list of its znodes.
    pub(crate) fn acl(&self) -> Vec<Acl> {
        self.acl.clone().unwrap_or_else(|| self.client.default_acl(&self.directory))
    }

    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.trim_end_matches('/'))
    }

    pub(crate) fn ready(&self) -> String {
        self.child(READY)
    }

    /// Lists the members. The request is repeated until it is answered or, if a session is given,
    /// until that has ended.
    pub(crate) async fn look(&self, session: Option<&SessionClient>) -> Result<Inside, LockError> {
        let list = self.client.children(&self.directory);
        let list = match session {
            Some(session) => list.in_session(session.id()),
            None => list,
        };
        let names = match list.until_answered().await {
            Ok(names) => names,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(Inside::default()),
            Err(error) => return Err(error.into()),
        };
        let is_ready = names.iter().any(|name| name == READY);
        let others = names.iter().filter(|name| *name != READY);
        let mut members: Vec<_> = others.map(str::to_owned).collect();
        members.sort_unstable();
        Ok(Inside { members, is_ready })
    }

    /// Waits until a member is gone. A member that exists again afterwards has entered again.
    async fn wait_until_gone(
        &self,
        name: &str,
        session: Option<&SessionClient>,
    ) -> Result<(), LockError> {
        let mut seen = None;
        let mut attempts = Attempts::new(&self.client);
        loop {
            // Unlike `exists`, `get` leaves no watch if there is no znode.
            let look = self.client.get(&self.child(name));
            let look = match session {
                Some(session) => look.in_session(session.id()),
                None => look,
            };
            let heard = match look.and_watch().await {
                Ok(Watched { found: (_, stat), watcher }) => {
                    if seen.replace(stat.czxid).is_some_and(|czxid| czxid != stat.czxid) {
                        return Ok(());
                    }
                    watcher.await
                }
                Err(error) => Err(error),
            };
            match heard {
                // After an event without a zxid, as servers before 3.9 send, a read must confirm
                // it: a reconnect may lead to a server that is behind.
                Ok(event)
                    if event.event_type == EventType::NODE_DELETED && event.zxid > Zxid::ZERO =>
                {
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(()),
                Err(client::Error::SessionExpired) if session.is_none() => {}
                Err(error) if error.is_retryable() => attempts.wait_after(error.into()).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A member that was there when `ready` was created, or that entered while such a member was
    /// inside.
    pub(crate) async fn member_since_ready(
        &self,
        inside: &Inside,
    ) -> Result<Option<String>, LockError> {
        let Some(ready) = self.client.exists(&self.ready()).until_answered().await? else {
            return Ok(None);
        };
        for name in &inside.members {
            let path = self.child(name);
            match self.client.exists(&path).until_answered().await? {
                Some(stat) if stat.czxid < ready.czxid => return Ok(Some(name.clone())),
                Some(_) => {}
                None => continue,
            }
            match self.client.get(&path).until_answered().await {
                Ok((data, _)) if data == INSIDE => return Ok(Some(name.clone())),
                Err(error) if error.is(ErrorCode::NO_NODE) || error.is(ErrorCode::NO_AUTH) => {}
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Waits until none of these members is there.
    async fn wait_until_all_gone(&self, mut members: Vec<String>) -> Result<(), LockError> {
        // The lowest member leaves last, unless its session ends.
        while let Some(lowest) = members.first() {
            self.wait_until_gone(lowest, None).await?;
            members.remove(0);
            if !members.is_empty() {
                let inside = self.look(None).await?;
                members.retain(|name| inside.members.contains(name));
            }
        }
        Ok(())
    }

    /// Deletes `ready` if no member is inside: the session of the member that had to delete it has
    /// ended.
    ///
    /// It is not deleted if a member enters between the list and the deletion. The multi creates a
    /// sequential znode and deletes it by the number that was next at the list; if any znode was
    /// created since, its number is another, and the server refuses the multi.
    async fn delete_stale_ready(&self) -> Result<(), LockError> {
        let list = self.client.children_and_stat(&self.directory).until_answered().await;
        let (names, stat) = match list {
            Ok(list) => list,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !names.iter().eq([READY]) {
            return Ok(());
        }
        // `cversion` counts creations and deletions; sequence numbers count creations.
        let next = i32::midpoint(stat.cversion, stat.num_children);
        let mark = self.child("tidy-");
        let create = MultiOp::Create(Create {
            kind: CreateKind::Create,
            path: mark.as_str().into(),
            data: Some(Bytes::new()),
            acl: Some(self.acl()),
            flags: CreateFlags::PERSISTENT_SEQUENTIAL,
        });
        let delete =
            |path: &str| MultiOp::Delete(Delete { path: path.into(), version: Expect::Any });
        let ops = vec![create, delete(&format!("{mark}{next:010}")), delete(&self.ready())];
        match self.client.multi_without_results(ops).until_answered().await {
            Err(error) if !error.is(ErrorCode::NO_NODE) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// A member, whose znode may exist or not. When this is dropped, the znode is deleted in the
/// background.
#[derive(Debug)]
pub(crate) struct Member {
    room: Room,
    session: SessionClient,
    path: String,
    is_deleted: bool,
}

impl Member {
    /// A member for which no request was sent yet.
    pub(crate) fn new(room: &Room, session: SessionClient) -> Self {
        let path = room.child(&session.client().unique_name());
        Self { room: room.clone(), session, path, is_deleted: false }
    }

    pub(crate) fn session(&self) -> &SessionClient {
        &self.session
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The error for a member whose znode is gone before it is inside.
    pub(crate) fn lost(&self) -> LockError {
        LockError::PlaceLost(self.path.clone())
    }

    fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(_, name)| name)
    }

    pub(crate) fn create_op(&self, data: Bytes) -> MultiOp {
        MultiOp::Create(Create {
            kind: CreateKind::Create,
            path: self.path.as_str().into(),
            data: Some(data),
            acl: Some(self.room.acl()),
            flags: CreateFlags::EPHEMERAL,
        })
    }

    /// Leaves, and waits for the others. The lowest member stays until it is the last, and each of
    /// the others waits for the lowest. No member waits for members that come later: such a member
    /// may be one of these that has left and entered again.
    async fn leave(&mut self) -> Result<(), LockError> {
        let others = loop {
            let inside = self.room.look(Some(&self.session)).await?;
            if !inside.has(self) {
                return Err(LockError::Lost(self.path.clone()));
            }
            match &inside.members[..] {
                [_] => return self.leave_last(inside.is_ready).await,
                [lowest, .., highest] if lowest == self.name() => {
                    self.room.wait_until_gone(highest, Some(&self.session)).await?;
                }
                _ => break inside.members,
            }
        };
        Deletion::send(&self.session, &self.path).finish().await?;
        self.is_deleted = true;
        let others = others.into_iter().filter(|name| name != self.name()).collect();
        self.room.wait_until_all_gone(others).await?;
        self.room.delete_stale_ready().await
    }

    /// Deletes the znode of the last member together with `ready`, so that no client finds one
    /// without the other.
    async fn leave_last(&mut self, is_ready: bool) -> Result<(), LockError> {
        let delete =
            |path: &str| MultiOp::Delete(Delete { path: path.into(), version: Expect::Any });
        let mut ops = vec![delete(&self.path)];
        ops.extend(is_ready.then(|| delete(&self.room.ready())));
        match self.session.multi_without_results(ops).send().await {
            Ok(()) => {
                self.is_deleted = true;
                return Ok(());
            }
            Err(error) if error.is_retryable() => {
                let removal = self.session.delete_in_background(&self.path, None);
                removal.await.map_err(LockError::from)?;
            }
            // One of the two znodes is gone already.
            Err(error) if error.is(ErrorCode::NO_NODE) => {
                Deletion::send(&self.session, &self.path).finish().await?;
            }
            Err(error) => return Err(error.into()),
        }
        self.is_deleted = true;
        self.room.delete_stale_ready().await
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.is_deleted {
            return;
        }
        let leave = Deletion::send(&self.session, &self.path);
        let room = self.room.clone();
        self.room.client.spawn(async move {
            // It is no error here if the znode was gone before.
            let _ = leave.finish().await;
            if let Err(error) = room.delete_stale_ready().await {
                tracing::debug!("{}: cannot delete `{READY}`: {error}", room.directory);
            }
        });
    }
}

/// The membership of a client that is inside a double barrier. Dropping it leaves without waiting
/// for the others.
///
/// ```no_run
/// # async fn example(membership: zoolet_recipes::Membership) -> Result<(), zoolet_recipes::LockError> {
/// println!("inside as {}", membership.path());
/// membership.leave().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a membership leaves the barrier"]
pub struct Membership(Member);

impl Membership {
    pub(crate) fn new(member: Member) -> Self {
        Self(member)
    }

    /// The member's znode.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Leaves, and waits until all others leave too.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the member was lost before, because its session has ended or someone
    /// has deleted its znode: the others have not waited for it. The errors of requests.
    ///
    /// # Cancellation
    ///
    /// Safe: the member's znode is deleted in the background, and no watch is left. This does not
    /// wait for the others then.
    pub async fn leave(mut self) -> Result<(), LockError> {
        let left = self.0.leave().await;
        left.map_err(|error| error.of_held().at(self.0.path()))
    }

    /// As [`Membership::leave`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed: the member has left, and some of the others
    /// have not. Else as [`Membership::leave`].
    pub async fn leave_within(self, time: Duration) -> Result<(), LockError> {
        let path = self.path().to_owned();
        within(time, path, pin!(self.leave())).await
    }
}
