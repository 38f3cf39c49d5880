//! A barrier at the start and at the end of a computation: Curator's `DistributedDoubleBarrier`,
//! with its znodes.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, Check, CreateMode, Delete, ErrorCode, EventType, Expect, MultiOp, ZPath, Zxid,
};

use crate::attempts::Attempts;
use crate::barrier::member::{INSIDE, Member, Membership, Room};
use crate::client::{self, Client, Parents};
use crate::defaults::with_acl;
use crate::error::{LockError, within};

/// A barrier that many members enter together and leave together: no member is inside before enough
/// members have come, and none has left before all members leave.
///
/// `members` is how many are enough. More members may enter while these are inside; all wait for
/// them at the end too, unless they come after the others have begun to leave.
///
/// Its znodes are those of Curator's `DistributedDoubleBarrier`: an ephemeral for each member, and
/// `ready`, which exists while they are inside. A client that finds `ready` and no member, because
/// all sessions ended before the members left, deletes `ready`; Curator's would enter. A client
/// that comes just when the last session ends enters as well.
///
/// ```no_run
/// use zoolet_recipes::DistributedDoubleBarrier;
/// use zoolet_client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let barrier = DistributedDoubleBarrier::new(&client, "/jobs/sort", 3)?;
/// let membership = barrier.enter().await?; // waits until three have come
/// membership.leave().await?; // waits until all leave
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedDoubleBarrier {
    room: Room,
    members: usize,
}

/// How a member joined.
enum Joined {
    /// While others were inside: it is inside at once.
    Inside,
    /// As far as it knows, before enough members had come.
    Waiting,
}

/// How often a client looks for a member that existed when `ready` was created, before it trusts
/// `ready` without one.
const UNPROVEN_MAX: u32 = 20;

/// The pause between two of these looks.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

impl DistributedDoubleBarrier {
    /// The barrier of a path, for at least this many members. Nothing is created before a member
    /// enters.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` is not valid.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self, LockError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let room = Room::new(client, path);
        Ok(Self { room, members })
    }

    /// The same barrier with this access control list for its znodes and for the directories that
    /// are created for them. Without it each has the [default](zoolet_client::Client::default_acl)
    /// of its path.
    #[must_use]
    pub fn with_acl(mut self, acl: Vec<Acl>) -> Self {
        self.room.acl = Some(acl);
        self
    }

    /// Enters, and waits until enough members have come. When the session ends, the client enters
    /// again in the next session. The same object may enter more than once, each time as another
    /// member.
    ///
    /// # Errors
    ///
    /// The errors of requests.
    ///
    /// # Cancellation
    ///
    /// Safe: the member's znode is deleted in the background, and no watch is left.
    pub async fn enter(&self) -> Result<Membership, LockError> {
        let mut attempts = Attempts::new(&self.room.client);
        loop {
            let session = self.room.client.connected_session().await?;
            let member = Member::new(&self.room, session);
            let entered = match self.join(&member).await {
                Ok(Joined::Inside) => Ok(()),
                Ok(Joined::Waiting) => self.wait_until_ready(&member).await,
                Err(error) => Err(error),
            };
            match entered {
                Ok(()) => return Ok(Membership::new(member)),
                Err(LockError::PlaceLost(_)) => attempts.wait_after_lost_place().await,
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`DistributedDoubleBarrier::enter`], within a time limit for everything. The member's
    /// znode is deleted in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] when the time has passed; else as [`DistributedDoubleBarrier::enter`].
    pub async fn enter_within(&self, time: Duration) -> Result<Membership, LockError> {
        within(time, &self.room.directory, pin!(self.enter())).await
    }

    /// Creates the member's znode in its session.
    async fn join(&self, member: &Member) -> Result<Joined, LockError> {
        let mut attempts = Attempts::new(&self.room.client);
        let mut unproven = 0;
        loop {
            let inside = self.room.look(Some(member.session())).await?;
            if inside.has(member) {
                return Ok(Joined::Waiting);
            }
            let joined = match inside.members.first() {
                None if inside.is_ready => self.join_anew(member).await.map(|()| Joined::Waiting),
                Some(first) if inside.is_ready => {
                    let other = match self.room.member_since_ready(&inside).await? {
                        Some(other) => other,
                        // Members that came too late leave again.
                        None if unproven < UNPROVEN_MAX => {
                            unproven += 1;
                            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                            continue;
                        }
                        // Members of Curator's entered because of `ready` alone; this one does the
                        // same.
                        None => first.clone(),
                    };
                    self.join_beside(member, &other).await.map(|()| Joined::Inside)
                }
                _ => {
                    let create = self.room.client.create(member.path()).data(self.room.data());
                    let create = with_acl(create, self.room.acl.as_deref());
                    let create = create.mode(CreateMode::Ephemeral);
                    let create =
                        create.parents(Parents::Containers).in_session(member.session().id());
                    create.await.map(|_created| Joined::Waiting)
                }
            };
            match joined {
                Ok(joined) => return Ok(joined),
                // An earlier attempt created it.
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => return Ok(Joined::Waiting),
                Err(error) => attempts.wait_after(error.into()).await?,
            }
        }
    }

    /// Creates the member's znode if another member is inside, which the same multi checks.
    async fn join_beside(&self, member: &Member, other: &str) -> Result<(), client::Error> {
        let check = |path: &str| MultiOp::Check(Check { path: path.into(), version: Expect::Any });
        let checks = [check(&self.room.ready()), check(&self.room.child(other))];
        let create = member.create_op(Bytes::from_static(INSIDE));
        let ops = checks.into_iter().chain([create]).collect();
        member.session().multi_without_results(ops).send().await
    }

    /// Creates the znode of the first member and deletes the `ready` that former members left, with
    /// one multi: clients that come later do not take that `ready` for a new one.
    async fn join_anew(&self, member: &Member) -> Result<(), client::Error> {
        let ready = self.room.ready();
        let delete = Delete { path: ready.as_str().into(), version: Expect::Any };
        let create = member.create_op(self.room.data());
        let ops = vec![MultiOp::Delete(delete), create];
        member.session().multi_without_results(ops).send().await
    }

    /// Waits until `ready` exists, or creates it when enough members have come. A `ready` that is
    /// older than the member's znode was meant for others, whose sessions may have ended.
    async fn wait_until_ready(&self, member: &Member) -> Result<(), LockError> {
        let session = member.session();
        let ready_path = self.room.ready();
        let mut attempts = Attempts::new(&self.room.client);
        loop {
            let (ready, own, inside) = tokio::join!(
                session.exists(&ready_path).and_watch(),
                session.get(member.path()).and_watch(),
                self.room.look(Some(session)),
            );
            let (mut ready, own) = match (ready, own) {
                (Ok(ready), Ok(own)) => (ready, own),
                (_, Err(error)) if error.is(ErrorCode::NO_NODE) => {
                    return Err(member.lost());
                }
                (Err(error), _) | (_, Err(error)) if error.is_retryable() => {
                    attempts.wait_after(error.into()).await?;
                    continue;
                }
                (Err(error), _) | (_, Err(error)) => return Err(error.into()),
            };
            if let Some(found) = &ready.found {
                let (_, own) = &own.found;
                let is_newer = found.czxid > own.czxid;
                return if is_newer { Ok(()) } else { Err(member.lost()) };
            }
            if inside?.members.len() >= self.members {
                let create = session.create(&ready_path).data(self.room.data());
                let create = with_acl(create, self.room.acl.as_deref());
                match create.send().await {
                    Ok(_) => return Ok(()),
                    Err(error) if error.is(ErrorCode::NODE_EXISTS) => return Ok(()),
                    // The directory is gone, and the member's znode with it.
                    Err(error) if error.is(ErrorCode::NO_NODE) => return Err(member.lost()),
                    Err(error) if error.is_retryable() => {
                        attempts.wait_after(error.into()).await?;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let event = tokio::select! {
                biased;
                event = &mut ready.watcher => event.map_err(LockError::from)?,
                event = own.watcher => event.map_err(LockError::from)?,
            };
            // It may be deleted again by now, if the others were quick.
            if event.event_type == EventType::NODE_CREATED {
                return if event.zxid > Zxid::ZERO { Ok(()) } else { self.catch_up(member).await };
            }
        }
    }

    /// Makes a transaction after an event without a zxid, as servers before 3.9 send: every server
    /// that answers a later read knows both. A read is not enough, since a server that is behind
    /// may answer it after a reconnect.
    async fn catch_up(&self, member: &Member) -> Result<(), LockError> {
        let check = Check { path: member.path().into(), version: Expect::Any };
        let checked = member.session().multi_without_results(vec![MultiOp::Check(check)]);
        match checked.until_answered().await {
            Err(error) if error.is(ErrorCode::NO_NODE) => Err(member.lost()),
            result => Ok(result?),
        }
    }
}
