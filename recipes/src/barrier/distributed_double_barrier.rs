//! A barrier at both ends of a computation: Curator's `DistributedDoubleBarrier`, with its znodes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_protocol::{
    Acl, Check, CreateMode, Delete, ErrorCode, EventType, Expect, MultiOp, ZPath, Zxid,
};

use crate::barrier::member::{INSIDE, Member, Membership, Room};
use crate::client::{self, Client, Parents};
use crate::error::LockError;
use crate::local_address::local_address;
use crate::tries::Tries;

/// Something that many enter together and leave together: nobody is inside before enough are there,
/// and nobody has left before all leave.
///
/// Enough are the `members` that are given; more may come while these are inside, and are waited for
/// at the end too, unless they come after the others have begun to leave.
///
/// Its znodes are those of Curator's `DistributedDoubleBarrier`: an ephemeral for each member, and
/// `ready`, which stays while they are inside. Who finds a `ready` and no member, since all were lost
/// before they left, removes it; Curator would pass. So does one who comes just when the last of them
/// is lost.
///
/// ```no_run
/// use zoolet_recipes::DistributedDoubleBarrier;
/// use zoolet_recipes::client::Client;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("localhost:2181").await?;
/// let barrier = DistributedDoubleBarrier::new(&client, "/jobs/sort", 3)?;
/// let membership = barrier.enter().await?; // until three are there
/// membership.leave().await?; // until all leave
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedDoubleBarrier {
    room: Room,
    members: usize,
}

/// How a member came in.
enum Joined {
    /// While others were inside, and so at once.
    Inside,
    /// Before enough were there, as far as it knows.
    Waits,
}

/// How often it is looked for one who was there when `ready` was created, before `ready` is believed
/// without.
const UNPROVEN_MAX: u32 = 20;

/// How long to wait between two of these looks.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

impl DistributedDoubleBarrier {
    /// The barrier of a path, for at least so many members. Nothing is created before it is entered.
    ///
    /// # Errors
    ///
    /// [`Error::Path`](client::Error::Path) if `path` names no znode.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self, LockError> {
        ZPath::check(path).map_err(client::Error::from)?;
        let room = Room { client: client.clone(), directory: Arc::from(path) };
        Ok(Self { room, members })
    }

    /// Enters, and waits until enough are there. A session that is lost meanwhile does not end the
    /// wait: the next session enters anew. The same object may enter more than once, each time as
    /// another member.
    ///
    /// # Errors
    ///
    /// What may go wrong with requests.
    ///
    /// # Cancellation
    ///
    /// Safe: the member is removed in the background, and no watch is left.
    pub async fn enter(&self) -> Result<Membership, LockError> {
        let mut tries = Tries::new();
        loop {
            let session = self.room.client.connected_session().await?.id();
            let member = Member::new(&self.room, session);
            let entered = match self.join(&member).await {
                Ok(Joined::Inside) => Ok(()),
                Ok(Joined::Waits) => self.wait_until_ready(&member).await,
                Err(error) => Err(error),
            };
            match entered {
                Ok(()) => return Ok(Membership::new(member)),
                Err(LockError::PlaceLost) => tries.after_lost_place().await,
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`DistributedDoubleBarrier::enter`], within a time that covers everything. The clean-up
    /// goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Over`] when the time is over; else as [`DistributedDoubleBarrier::enter`].
    pub async fn enter_within(&self, time: Duration) -> Result<Membership, LockError> {
        tokio::time::timeout(time, self.enter()).await.unwrap_or(Err(LockError::Over))
    }

    /// Has the member's znode created, in its session.
    async fn join(&self, member: &Member) -> Result<Joined, LockError> {
        let mut tries = Tries::new();
        let mut unproven = 0;
        loop {
            let inside = self.room.look(Some(member.session())).await?;
            if inside.has(member) {
                return Ok(Joined::Waits);
            }
            let joined = match inside.members.first() {
                None if inside.is_ready => self.join_anew(member).await.map(|()| Joined::Waits),
                Some(first) if inside.is_ready => {
                    let other = match self.room.one_of_the_time_of_ready(&inside).await? {
                        Some(other) => other,
                        // Those who came too late for it go again.
                        None if unproven < UNPROVEN_MAX => {
                            unproven += 1;
                            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                            continue;
                        }
                        // Others of Curator's went in by `ready` alone, and who comes does as they.
                        None => first.clone(),
                    };
                    self.join_beside(member, &other).await.map(|()| Joined::Inside)
                }
                _ => {
                    let create = self.room.client.create(member.path()).data(local_address());
                    let create = create.mode(CreateMode::Ephemeral);
                    let create = create.parents(Parents::Containers).in_session(member.session());
                    create.await.map(|_created| Joined::Waits)
                }
            };
            match joined {
                Ok(joined) => return Ok(joined),
                // An earlier try made it.
                Err(error) if error.is(ErrorCode::NODE_EXISTS) => return Ok(Joined::Waits),
                Err(error) => tries.after(error.into()).await?,
            }
        }
    }

    /// Joins while another is inside, which is seen in the same moment.
    async fn join_beside(&self, member: &Member, other: &str) -> Result<(), client::Error> {
        let check = |path: &str| MultiOp::Check(Check { path: path.into(), version: Expect::Any });
        let checks = [check(&self.room.ready()), check(&self.room.child(other))];
        let create = member.create_op(vec![Acl::open()], Bytes::from_static(INSIDE));
        let ops = checks.into_iter().chain([create]).collect();
        self.room.client.multi_without_results(ops).in_session(member.session()).send().await
    }

    /// Joins as the first member, and removes what those before left standing, in one: whoever comes
    /// later does not take it for a sign of this time.
    async fn join_anew(&self, member: &Member) -> Result<(), client::Error> {
        let ready = self.room.ready();
        let delete = Delete { path: ready.as_str().into(), version: Expect::Any };
        let create = member.create_op(vec![Acl::open()], local_address());
        let ops = vec![MultiOp::Delete(delete), create];
        self.room.client.multi_without_results(ops).in_session(member.session()).send().await
    }

    /// Waits until `ready` is there, or there is reason to create it. One that was there before the
    /// member is a sign for others, who may all be lost.
    async fn wait_until_ready(&self, member: &Member) -> Result<(), LockError> {
        let (client, session) = (&self.room.client, member.session());
        let ready_path = self.room.ready();
        let mut tries = Tries::new();
        loop {
            let (ready, own, inside) = tokio::join!(
                client.exists(&ready_path).in_session(session).and_watch(),
                client.get(member.path()).in_session(session).and_watch(),
                self.room.look(Some(session)),
            );
            let (mut ready, own) = match (ready, own) {
                (Ok(ready), Ok(own)) => (ready, own),
                (_, Err(error)) if error.is(ErrorCode::NO_NODE) => {
                    return Err(LockError::PlaceLost);
                }
                (Err(error), _) | (_, Err(error)) if error.is_retryable() => {
                    tries.after(error.into()).await?;
                    continue;
                }
                (Err(error), _) | (_, Err(error)) => return Err(error.into()),
            };
            if let Some(found) = &ready.found {
                let (_, own) = &own.found;
                let is_for_it = found.czxid > own.czxid;
                return if is_for_it { Ok(()) } else { Err(LockError::PlaceLost) };
            }
            if inside?.members.len() >= self.members {
                let create = client.create(&ready_path).data(local_address()).in_session(session);
                match create.send().await {
                    Ok(_) => return Ok(()),
                    Err(error) if error.is(ErrorCode::NODE_EXISTS) => return Ok(()),
                    // The directory went, and the member with it.
                    Err(error) if error.is(ErrorCode::NO_NODE) => return Err(LockError::PlaceLost),
                    Err(error) if error.is_retryable() => {
                        tries.after(error.into()).await?;
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
            // It may be gone again by now: others were quick.
            if event.event_type == EventType::NODE_CREATED {
                return if event.zxid > Zxid::ZERO { Ok(()) } else { self.catch_up(member).await };
            }
        }
    }

    /// Has a change made after what was told without a zxid, as by servers before 3.9: whatever
    /// server is read from later has seen both. A read would not do, since it may be answered after a
    /// reconnect, by a server that is behind.
    async fn catch_up(&self, member: &Member) -> Result<(), LockError> {
        let check = Check { path: member.path().into(), version: Expect::Any };
        let checked = self.room.client.multi_without_results(vec![MultiOp::Check(check)]);
        match checked.in_session(member.session()).until_answered().await {
            Err(error) if error.is(ErrorCode::NO_NODE) => Err(LockError::PlaceLost),
            result => Ok(result?),
        }
    }
}
