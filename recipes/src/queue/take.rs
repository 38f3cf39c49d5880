//! Taking an item.
//!
//! Without leases the item belongs to the client that deletes it. The data are read before, so that a
//! lost answer to the deletion costs no item; the data of the next item are read together with the
//! deletion of this one.
//!
//! With leases the item belongs to the client that creates an ephemeral znode of the same name in the
//! directory of the leases, until that is deleted: see the module `leasing`.
//!
//! Each attempt runs in a task of its own, to its end. If nobody waits for what it took any more, the
//! item is put back, or its lease ends.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_protocol::{ErrorCode, MultiOp, Stat};

use super::background::InBackground;
use super::delivery::Delivery;
use super::error::{QueueError, joined};
use super::leasing::lease;
use super::limits::READ_AHEAD_AGE_MAX;
use super::retries::answered;
use super::taken_item::{Attempt, TakenItem};
use super::znodes::{Candidate, ReadAhead, Znodes};
use crate::client::Sent;
use crate::client::recipe::now;

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
            znodes.note_tried(&name, attempt.as_ref().err());
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
            None => match answered(|| znodes.client().get(&path)).await {
                Ok(Some((data, stat))) => (data, stat.version),
                Ok(None) => return Ok(None),
                Err(error) => return Err(QueueError::of_read(error, &path)),
            },
        };
        let receipt = znodes.receipts.reserve().await?;
        if !znodes.can_put_back(&receipt, &name, &data).await? {
            receipt.keep();
            return Err(QueueError::NoWayBack { path, bytes: data.len() });
        }
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
