//! Obtaining the lease of an item.
//!
//! The lease is an ephemeral znode of the item's name, as in Curator and kazoo. Somebody may delete
//! it while its consumer lives, and another consumer may obtain the item then. Neither must end the
//! lease of the other, and both leases have one path. So they have different data versions. A lease
//! of another library has version 0. One of ours has the least version from 1 on that no other
//! consumer of the item has: each has a *witness*, a second ephemeral znode beside the lease, whose
//! name ends with the version. The witness goes when its consumer is done with the item, or with its
//! session.
//!
//! One multi creates the lease and the witness, if the item is there. If only the witness exists, it
//! is refused, and sent again with the next version.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Create, CreateMode, ErrorCode, Expect, MultiOp, Stat};

use super::error::QueueError;
use super::layout::Layout;
use super::lease::{Lease, witness_of};
use super::limits::LEASE_VERSION_MAX;
use super::retries::pause_before_next;
use super::taken_item::{Attempt, TakenItem};
use super::znodes::{Znodes, child};
use crate::client::recipe::{SessionClient, ZnodeIdentity};
use crate::client::{Error, Sent};

/// The least data version of a lease. That of another library is 0.
const FIRST_VERSION: i32 = 1;

/// Where the operations on the item and on its lease are in the multi that obtains the lease.
const ITEM: Option<usize> = Some(0);
const LEASE: Option<usize> = Some(1);

/// Takes an item by a lease.
pub(crate) async fn lease(znodes: &Arc<Znodes>, leases: &str, name: String) -> Attempt {
    let mut wanted = WantedLease::new(znodes, leases, &name);
    let mut has_lost_answer = false;
    loop {
        let session = znodes.client().connected_session().await?;
        // Both are sent together: while the lease is held nobody deletes the item.
        let sent = session.multi_with_zxid(wanted.ops()).send();
        let get = session.get(&wanted.item).send();
        let (token, version) = match sent.await {
            Ok((_, zxid)) => (zxid, wanted.version),
            Err(error) if is_unclear(&error, has_lost_answer) => {
                has_lost_answer = true;
                match wanted.find_own(&session).await {
                    Ok(Some(stat)) => (stat.czxid, stat.version),
                    // Another consumer has the lease.
                    Ok(None) if error.is(ErrorCode::NODE_EXISTS) => return Ok(None),
                    Ok(None) | Err(Error::SessionExpired) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => match wanted.after_refusal(error).await? {
                Next::TryAgain => continue,
                Next::LeaveIt => return Ok(None),
            },
        };
        let lease = Lease::new(&session, wanted.lease.clone(), token, version);
        let data = leased_data(&session, &wanted.item, get).await?;
        return Ok(data.map(|data| TakenItem {
            znodes: Arc::clone(znodes),
            name,
            data,
            token,
            lease: Some(lease),
            is_delivered: false,
            in_background: None,
        }));
    }
}

/// What follows from a refusal.
enum Next {
    TryAgain,
    /// The item is gone, or is another consumer's.
    LeaveIt,
}

/// A lease that is to be created.
struct WantedLease<'a> {
    znodes: &'a Znodes,
    item: String,
    lease: String,
    /// Data that no other lease has.
    mark: Bytes,
    version: i32,
}

impl<'a> WantedLease<'a> {
    fn new(znodes: &'a Znodes, leases: &str, name: &str) -> Self {
        let (item, lease) = (znodes.item(name), child(leases, name));
        Self { znodes, item, lease, mark: znodes.lease_mark(), version: FIRST_VERSION }
    }

    /// The operations that create the lease and its witness.
    fn ops(&self) -> Vec<MultiOp> {
        let ephemeral = |path: &str| {
            let create = Create::new(path, CreateMode::Ephemeral);
            MultiOp::from(create.acl(self.znodes.acl(path)))
        };
        let lease = self.lease.as_str();
        let mut ops = vec![MultiOp::check(self.item.as_str(), Expect::Any), ephemeral(lease)];
        // The number of changes is the version.
        let marks = 0..self.version;
        ops.extend(marks.map(|version| MultiOp::set_data(lease, self.mark.clone(), version)));
        ops.push(ephemeral(&witness_of(lease, self.version)));
        ops
    }

    /// The Stat of the lease, if it is there and of this session. One of an earlier session is about
    /// to end.
    async fn find_own(&self, session: &SessionClient) -> Result<Option<Stat>, Error> {
        let mark = ZnodeIdentity::Data(self.mark.clone());
        let found = session.find_own(&self.lease, &mark).await?;
        Ok(found.filter(|stat| stat.ephemeral_owner == session.id()))
    }

    async fn after_refusal(&mut self, error: Error) -> Result<Next, QueueError> {
        match (error.code(), error.operation_index()) {
            (Some(ErrorCode::NO_NODE), ITEM) | (Some(ErrorCode::NODE_EXISTS), LEASE) => {
                return Ok(Next::LeaveIt);
            }
            (Some(ErrorCode::NO_AUTH), ITEM) => {
                return Err(QueueError::Unreadable(self.item.clone()));
            }
            (Some(ErrorCode::NO_NODE), LEASE) => self.znodes.create_lease_directory().await?,
            // Somebody has deleted the lease of a consumer whose witness this is.
            (Some(ErrorCode::NODE_EXISTS), Some(_)) if self.version < LEASE_VERSION_MAX => {
                self.version += 1;
            }
            (Some(ErrorCode::NODE_EXISTS), Some(_)) => {
                return Err(QueueError::Contested(self.item.clone()));
            }
            _ => pause_before_next(error).await?,
        }
        Ok(Next::TryAgain)
    }
}

/// Whether the lease that was to be created may be this client's: the answer is lost, or an earlier
/// one was and there is a lease now.
fn is_unclear(error: &Error, has_lost_answer: bool) -> bool {
    let is_there = error.is(ErrorCode::NODE_EXISTS) && error.operation_index() == LEASE;
    matches!(error, Error::ConnectionLoss { .. }) || (has_lost_answer && is_there)
}

/// The data of an item that this session has leased; `None` if someone has deleted it all the same,
/// or the session has ended.
async fn leased_data(
    session: &SessionClient,
    item: &str,
    sent: Sent<(Bytes, Stat)>,
) -> Result<Option<Bytes>, QueueError> {
    let mut got = sent.await;
    if matches!(&got, Err(error) if error.code().is_none()) {
        got = session.get(item).until_answered().await;
    }
    match got {
        Ok((data, _)) => Ok(Some(data)),
        Err(Error::SessionExpired) => Ok(None),
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
        Err(error) => Err(QueueError::of_read(error, item)),
    }
}

impl Znodes {
    /// Data that no other lease has. Kazoo writes 32 hexadecimal digits; Curator does not read it.
    fn lease_mark(&self) -> Bytes {
        let name = self.client().unique_name();
        match self.settings.layout {
            Layout::Kazoo => name.replace('-', "").into(),
            _ => name.into(),
        }
    }
}
