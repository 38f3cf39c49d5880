//! Taking an item.
//!
//! Without leases the item belongs to the client that deletes it. The data are read before, so that a
//! lost answer to the deletion costs no item; the data of the next item are read together with the
//! deletion of this one.
//!
//! With leases the item belongs to the client that creates an ephemeral znode of the same name in the
//! directory of the leases, until that is deleted. One multi creates it if the item is there.
//!
//! Each attempt runs in a task of its own, to its end. If nobody waits for what it took any more, the
//! item is put back, or its lease ends.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{Create, CreateMode, ErrorCode, Expect, MultiOp, Stat};

use super::background::InBackground;
use super::delivery::Delivery;
use super::error::{QueueError, joined};
use super::layout::Layout;
use super::lease::Lease;
use super::limits::READ_AHEAD_AGE_MAX;
use super::retries::{answered, pause_before_next};
use super::taken_item::TakenItem;
use super::znodes::{Candidate, ReadAhead, Znodes, child};
use crate::client::recipe::{SessionClient, ZnodeIdentity, now};
use crate::client::{self, Sent};

/// An attempt to take an item.
type Attempt = Result<Option<TakenItem>, QueueError>;

impl Znodes {
    /// Takes an item, if there is one that can be taken.
    pub(crate) async fn try_take(self: &Arc<Self>) -> Result<Option<Delivery>, QueueError> {
        while let Some(candidate) = self.candidate().await? {
            if let Some(delivery) = self.take(candidate).await? {
                return Ok(Some(delivery));
            }
        }
        Ok(None)
    }

    /// Takes an item, unless another consumer is quicker.
    pub(crate) async fn take(
        self: &Arc<Self>,
        candidate: Candidate,
    ) -> Result<Option<Delivery>, QueueError> {
        let (znodes, background) = (Arc::clone(self), InBackground::begin(self));
        let attempt = self.client().spawn(async move {
            let name = candidate.name.clone();
            let mut attempt = match znodes.settings.leases.clone() {
                Some(leases) => lease(&znodes, &leases, candidate.name).await,
                None => delete(&znodes, candidate).await,
            };
            znodes.listed.lock().in_hand.remove(&name);
            // If nobody receives the item, this goes on until it is put back.
            if let Ok(Some(taken)) = &mut attempt {
                taken.in_background = Some(background);
            }
            attempt
        });
        let taken = joined(attempt.await)?;
        match &taken {
            Some(_) => self.note_race_won(),
            None => self.note_race_lost(),
        }
        Ok(taken.map(Delivery::new))
    }

    /// Reads the next item that this client is going to try, unless it was read already.
    fn read_ahead(&self) -> Option<(String, Sent<(Bytes, Stat)>)> {
        // Items that may come between would be read for nothing.
        if !self.settings.layout.appends_only() {
            return None;
        }
        let listed = self.listed.lock();
        let next = listed.items.front().filter(|next| next.read.is_none())?;
        let sent = self.client().get(&self.item(&next.name)).send();
        Some((next.name.clone(), sent))
    }

    /// Notes the data of an item that is still in the list.
    fn note_read(&self, name: &str, data: Bytes, stat: &Stat) {
        let read = ReadAhead { data, version: stat.version, at: now() };
        let mut listed = self.listed.lock();
        if let Some(next) = listed.items.front_mut().filter(|next| next.name == name) {
            next.read = Some(read);
        }
    }
}

/// Takes an item by deleting it.
async fn delete(znodes: &Arc<Znodes>, candidate: Candidate) -> Attempt {
    let Candidate { name, read, .. } = candidate;
    let mut read =
        read.filter(|read| now().saturating_duration_since(read.at) < READ_AHEAD_AGE_MAX);
    let path = znodes.item(&name);
    loop {
        let (data, version) = match read.take() {
            Some(read) => (read.data, read.version),
            None => match answered(|| znodes.client().get(&path)).await? {
                Some((data, stat)) => (data, stat.version),
                None => return Ok(None),
            },
        };
        let receipt = znodes.receipts.reserve().await?;
        let ahead = znodes.read_ahead();
        let written = receipt.write(vec![MultiOp::delete(path.as_str(), version)]).await;
        if let Some((next, sent)) = ahead
            && let Ok((data, stat)) = sent.await
        {
            znodes.note_read(&next, data, &stat);
        }
        match written {
            Ok(written) => {
                let token = written.zxid();
                let znodes = Arc::clone(znodes);
                let lease = None;
                return Ok(Some(TakenItem {
                    znodes,
                    name,
                    data,
                    token,
                    lease,
                    is_delivered: false,
                    in_background: None,
                }));
            }
            Err(QueueError::Client(error)) if error.is(ErrorCode::NO_NODE) => return Ok(None),
            // Someone has set its data.
            Err(QueueError::Client(error)) if error.is(ErrorCode::BAD_VERSION) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes an item by a lease.
async fn lease(znodes: &Arc<Znodes>, leases: &str, name: String) -> Attempt {
    let (item, path) = (znodes.item(&name), child(leases, &name));
    let mark = znodes.lease_mark();
    let mut has_lost_answer = false;
    loop {
        let session = znodes.client().connected_session().await?;
        let create = Create::new(path.as_str(), CreateMode::Ephemeral);
        let create = create.data(mark.clone()).acl(znodes.acl(&path));
        let ops = vec![MultiOp::check(item.as_str(), Expect::Any), create.into()];
        // Both are sent together: while the lease is held nobody deletes the item.
        let sent = session.multi_with_zxid(ops).send();
        let get = session.get(&item).send();
        // A lease of an earlier session is about to end.
        let own = |found: Option<Stat>| {
            found.filter(|stat| stat.ephemeral_owner == session.id()).map(|stat| stat.czxid)
        };
        let token = match sent.await {
            Ok((_, zxid)) => zxid,
            Err(error) if is_unclear(&error, has_lost_answer) => {
                has_lost_answer = true;
                let mark = ZnodeIdentity::Data(mark.clone());
                match session.find_own(&path, &mark).await.map(own) {
                    Ok(Some(czxid)) => czxid,
                    // Another consumer has the lease.
                    Ok(None) if error.is(ErrorCode::NODE_EXISTS) => return Ok(None),
                    Ok(None) | Err(client::Error::SessionExpired) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) if error.is(ErrorCode::NODE_EXISTS) => return Ok(None),
            Err(error) if error.is(ErrorCode::NO_NODE) && error.operation_index() == Some(0) => {
                return Ok(None);
            }
            Err(error) if error.is(ErrorCode::NO_NODE) => {
                znodes.create_lease_directory().await?;
                continue;
            }
            Err(error) => {
                pause_before_next(error).await?;
                continue;
            }
        };
        let lease = Lease::new(&session, path.clone(), token);
        return Ok(match leased_data(&session, &item, get).await? {
            Some(data) => {
                let (znodes, lease) = (Arc::clone(znodes), Some(lease));
                let (is_delivered, in_background) = (false, None);
                Some(TakenItem { znodes, name, data, token, lease, is_delivered, in_background })
            }
            None => None,
        });
    }
}

/// Whether the lease that was to be created may be this client's: the answer is lost, or an earlier one
/// was and there is a lease now.
fn is_unclear(error: &client::Error, has_lost_answer: bool) -> bool {
    matches!(error, client::Error::ConnectionLoss { .. })
        || (has_lost_answer && error.is(ErrorCode::NODE_EXISTS))
}

/// The data of an item that this session has leased; `None` if someone has deleted it all the same,
/// or the session has ended.
async fn leased_data(
    session: &SessionClient,
    item: &str,
    sent: Sent<(Bytes, Stat)>,
) -> Result<Option<Bytes>, client::Error> {
    let mut got = sent.await;
    if matches!(&got, Err(error) if error.code().is_none()) {
        got = session.get(item).until_answered().await;
    }
    match got {
        Ok((data, _)) => Ok(Some(data)),
        Err(client::Error::SessionExpired) => Ok(None),
        Err(error) if error.is(ErrorCode::NO_NODE) => Ok(None),
        Err(error) => Err(error),
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
