//! One who is inside a double barrier, from the moment its znode is asked for until it is gone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, ErrorCode, EventType, Expect, MultiOp, SessionId,
    Zxid,
};

use crate::client::recipe::unique_name;
use crate::client::{self, Client, Watched};
use crate::error::LockError;
use crate::line::leave::Leave;
use crate::tries::Tries;

/// The name of the znode that tells that enough are there.
const READY: &str = "ready";

/// The data of a member that came while others were inside.
pub(crate) const INSIDE: &[u8] = b"inside";

/// A directory with members.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    pub(crate) client: Client,
    pub(crate) directory: Arc<str>,
}

/// Who was in a directory at one moment.
#[derive(Default)]
pub(crate) struct Inside {
    /// Their names, the lowest first.
    pub(crate) members: Vec<String>,
    pub(crate) is_ready: bool,
}

impl Inside {
    pub(crate) fn has(&self, member: &Member) -> bool {
        self.members.iter().any(|name| name == member.name())
    }
}

impl Room {
    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.trim_end_matches('/'))
    }

    pub(crate) fn ready(&self) -> String {
        self.child(READY)
    }

    /// Looks who is there, until it is answered or, if it is bound to one, the session is over.
    pub(crate) async fn look(&self, session: Option<SessionId>) -> Result<Inside, LockError> {
        let list = self.client.children(&self.directory);
        let list = match session {
            Some(session) => list.in_session(session),
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

    /// Waits until a member is gone. One that is there again afterwards has come anew.
    async fn wait_for_end(&self, name: &str, session: Option<SessionId>) -> Result<(), LockError> {
        let mut seen = None;
        let mut tries = Tries::new();
        loop {
            // A look at the data leaves no watch where there is no znode.
            let look = self.client.get(&self.child(name));
            let look = match session {
                Some(session) => look.in_session(session),
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
                // Where it is told without a zxid, as by servers before 3.9, a reply must tell it: a
                // reconnect might lead to a server that is behind.
                Ok(event)
                    if event.event_type == EventType::NODE_DELETED && event.zxid > Zxid::ZERO =>
                {
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(()),
                Err(client::Error::SessionExpired) if session.is_none() => {}
                Err(error) if error.is_retryable() => tries.after(error.into()).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One who was there when `ready` was created, or came while such a one was.
    pub(crate) async fn one_of_the_time_of_ready(
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

    /// Waits until none of these is there.
    async fn wait_for_all(&self, mut members: Vec<String>) -> Result<(), LockError> {
        // The lowest goes last, if nobody is lost.
        while let Some(lowest) = members.first() {
            self.wait_for_end(lowest, None).await?;
            members.remove(0);
            if !members.is_empty() {
                let inside = self.look(None).await?;
                members.retain(|name| inside.members.contains(name));
            }
        }
        Ok(())
    }

    /// Removes `ready` when nobody is inside: whoever would have done that was lost.
    ///
    /// It is not taken from those who come between the look and the removal: a sequential znode that is
    /// created and deleted in the same multi has the number that was next at the look, and another
    /// if any znode was created since, in which case the multi is refused.
    async fn tidy(&self) -> Result<(), LockError> {
        let list = self.client.children_and_stat(&self.directory).until_answered().await;
        let (names, stat) = match list {
            Ok(list) => list,
            Err(error) if error.is(ErrorCode::NO_NODE) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !names.iter().eq([READY]) {
            return Ok(());
        }
        // A Stat counts what was created and what was deleted together; numbers count the former.
        let next = i32::midpoint(stat.cversion, stat.num_children);
        let mark = self.child("tidy-");
        let create = MultiOp::Create(Create {
            kind: CreateKind::Create,
            path: mark.as_str().into(),
            data: Some(Bytes::new()),
            acl: Some(vec![Acl::open()]),
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

/// A member, whose znode may be there or not. Dropped, it sees to it that it is not.
#[derive(Debug)]
pub(crate) struct Member {
    room: Room,
    session: SessionId,
    path: String,
    is_left: bool,
}

impl Member {
    /// One of which no request was made yet.
    pub(crate) fn new(room: &Room, session: SessionId) -> Self {
        let path = room.child(&unique_name());
        Self { room: room.clone(), session, path, is_left: false }
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(_, name)| name)
    }

    pub(crate) fn create_op(&self, acl: Vec<Acl>, data: Bytes) -> MultiOp {
        MultiOp::Create(Create {
            kind: CreateKind::Create,
            path: self.path.as_str().into(),
            data: Some(data),
            acl: Some(acl),
            flags: CreateFlags::EPHEMERAL,
        })
    }

    /// Leaves, and waits for the others: the lowest stays until it is the last, and each of the
    /// others waits for the lowest. Who comes later is not waited for: it may be one of these, who
    /// has left and come anew.
    async fn leave(&mut self) -> Result<(), LockError> {
        let others = loop {
            let inside = self.room.look(Some(self.session)).await?;
            if !inside.has(self) {
                return Err(LockError::Lost);
            }
            match &inside.members[..] {
                [_] => return self.leave_last(inside.is_ready).await,
                [lowest, .., highest] if lowest == self.name() => {
                    self.room.wait_for_end(highest, Some(self.session)).await?;
                }
                _ => break inside.members,
            }
        };
        Leave::begin(&self.room.client, self.session, &self.path).done().await?;
        self.is_left = true;
        let others = others.into_iter().filter(|name| name != self.name()).collect();
        self.room.wait_for_all(others).await?;
        self.room.tidy().await
    }

    /// Leaves as the last, together with `ready`: nobody who comes anew finds one without the other.
    async fn leave_last(&mut self, is_ready: bool) -> Result<(), LockError> {
        let delete =
            |path: &str| MultiOp::Delete(Delete { path: path.into(), version: Expect::Any });
        let mut ops = vec![delete(&self.path)];
        ops.extend(is_ready.then(|| delete(&self.room.ready())));
        let client = &self.room.client;
        match client.multi_without_results(ops).in_session(self.session).send().await {
            Ok(()) => {
                self.is_left = true;
                return Ok(());
            }
            Err(error) if error.is_retryable() => {
                let session = client.in_session(self.session);
                let deletion = session.delete_in_background(&self.path, None);
                deletion.await.map_err(LockError::from)?;
            }
            // One of the two is gone already.
            Err(error) if error.is(ErrorCode::NO_NODE) => {
                Leave::begin(client, self.session, &self.path).done().await?;
            }
            Err(error) => return Err(error.into()),
        }
        self.is_left = true;
        self.room.tidy().await
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let leave = Leave::begin(&self.room.client, self.session, &self.path);
        let room = self.room.clone();
        self.room.client.spawn(async move {
            // Whether it was there before makes no difference here.
            let _ = leave.done().await;
            if let Err(error) = room.tidy().await {
                tracing::debug!("{} is not tidied: {error}", room.directory);
            }
        });
    }
}

/// That one is inside a double barrier. Dropping it leaves without waiting for the others.
///
/// ```no_run
/// # async fn example(membership: zoolet_recipes::Membership) -> Result<(), zoolet_recipes::LockError> {
/// println!("inside as {}", membership.path());
/// membership.leave().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a membership that is dropped is left"]
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
    /// [`LockError::Lost`] if the member was lost before, with its session or because its znode was
    /// deleted by someone else: the others have not waited for it. What else may go wrong with
    /// requests.
    ///
    /// # Cancellation
    ///
    /// Safe: the member is removed in the background, and no watch is left. The others are not
    /// waited for then.
    pub async fn leave(mut self) -> Result<(), LockError> {
        self.0.leave().await.map_err(LockError::of_held)
    }

    /// As [`Membership::leave`], within a time that covers everything.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over: the member has left, and some of the others have
    /// not. Else as [`Membership::leave`].
    pub async fn leave_within(self, time: Duration) -> Result<(), LockError> {
        tokio::time::timeout(time, self.leave()).await.unwrap_or(Err(LockError::Over))
    }
}
