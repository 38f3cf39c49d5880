//! A place in a line: an ephemeral znode of this client, from its creation until it is deleted. The
//! server gives it its number; a second place of an owner takes the number of the first.
//!
//! A znode without a line is a place too, if a lock is held by it: a semaphore's permit, or the one
//! znode of a herd lock.
//!
//! - A place belongs to one session. When that session has ended, the place is lost
//!   ([`LockError::PlaceLost`]); it never becomes a place of the next session.
//! - A place that is dropped is deleted in the background, until its znode is gone or its session
//!   has ended.
//! - A disconnect does not cost the place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use bytestring::ByteString;
use zoolet_protocol::{
    Delete, EventType, Expect, MultiOp, RawPath, SEQUENCE_DIGITS, SetData, Zxid,
};

use super::deletion::Deletion;
use super::order;
use crate::client::recipe::{Claim, SessionClient, WaiterId, WatchFor, ZnodeIdentity, ZnodeWatch};
use crate::client::{self, Created};
use crate::error::LockError;

/// The data that a holder writes to its znode in the multi that deletes it, if no place was ahead
/// of it. The data itself is not read: a client that watches the znode receives both events with
/// the same zxid, and concludes from that alone that no other place is ahead.
const RELEASED_IN_FRONT: &[u8] = b"released";

/// A place in a line. It has memory of its own, since it moves from a future to the next one, to a guard.
#[derive(Debug)]
pub(crate) struct Place(Box<Parts>);

#[derive(Debug)]
struct Parts {
    session: SessionClient,
    /// Shared with the requests that name it.
    path: ByteString,
    /// Where the name begins in the path.
    name_at: usize,
    czxid: Zxid,
    /// The fencing token: the czxid of this znode, or the token of the place whose number this one
    /// has.
    token: Zxid,
    /// Whether the deletion announces to the waiting places that no place was ahead of this one
    /// ([`RELEASED_IN_FRONT`]). A place that entered while this one waited cannot know it
    /// otherwise.
    announces_release: bool,
    /// The watch on the place's own znode.
    own_watch: Option<ZnodeWatch>,
    /// Whether the watch could not be set, so that it receives no events.
    is_watch_lost: AtomicBool,
    /// Whether the znode is known to be gone.
    is_gone: AtomicBool,
    /// While the lock is held: the session's proof of life checks the znode.
    claim: Option<Claim>,
    /// Whether the deletion was sent, so that dropping the place sends none.
    is_deletion_sent: bool,
    /// Whether other clients create znodes of the same name, so that the name does not identify
    /// this one.
    has_common_name: bool,
}

impl Place {
    /// The place of a znode whose number begins at `digits_at` of its path.
    ///
    /// # Errors
    ///
    /// [`LockError::NumbersExhausted`] if the number is not unique. The znode is deleted.
    pub(crate) fn new(
        session: &SessionClient,
        created: Created,
        digits_at: usize,
    ) -> Result<Self, LockError> {
        let place = Self::unordered(session, created.path, created.stat.czxid);
        let number = place.0.path.get(digits_at..).and_then(|digits| digits.parse().ok());
        if !number.is_some_and(order::is_unique) {
            let directory = place.0.path[..place.0.name_at.saturating_sub(1)].to_owned();
            return Err(LockError::NumbersExhausted(directory));
        }
        Ok(place)
    }

    /// The place of a znode whose number does not matter, as that of a semaphore's permit.
    pub(crate) fn unordered(session: &SessionClient, path: String, czxid: Zxid) -> Self {
        Self(Box::new(Parts {
            session: session.clone(),
            name_at: path.rfind('/').map_or(0, |slash| slash + 1),
            path: shared(path),
            czxid,
            token: czxid,
            announces_release: false,
            own_watch: None,
            is_watch_lost: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            claim: None,
            is_deletion_sent: false,
            has_common_name: false,
        }))
    }

    /// The place of a znode whose name other clients use too. If it is known to be gone, nothing is
    /// deleted, and a repeated deletion deletes only a znode that was created at `czxid`. The first
    /// deletion uses the name alone.
    pub(crate) fn of_common_name(session: &SessionClient, path: String, czxid: Zxid) -> Self {
        let mut place = Self::unordered(session, path, czxid);
        place.0.has_common_name = true;
        place
    }

    /// The same place with the fencing token of the place whose number it has.
    pub(crate) fn with_token(mut self, token: Zxid) -> Self {
        self.0.token = token;
        self
    }

    pub(crate) fn path(&self) -> &str {
        &self.0.path
    }

    /// The path, for those who keep it.
    pub(crate) fn shared_path(&self) -> &ByteString {
        &self.0.path
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.path[self.0.name_at..]
    }

    /// The sequence number as text, as in the name.
    pub(crate) fn digits(&self) -> &str {
        let name = self.name();
        &name[name.len().saturating_sub(SEQUENCE_DIGITS)..]
    }

    /// The fencing token. Each later place has a greater one, also after the numbers overflowed.
    pub(crate) fn token(&self) -> Zxid {
        self.0.token
    }

    /// The session to which the place belongs.
    pub(crate) fn session(&self) -> &SessionClient {
        &self.0.session
    }

    /// Sets whether the deletion announces that no place was ahead of this one.
    pub(crate) fn set_announces_release(&mut self, announces_release: bool) {
        self.0.announces_release = announces_release;
    }

    /// Whether the znode is there. The request is repeated until it is answered.
    pub(crate) async fn exists(&self) -> Result<bool, LockError> {
        Ok(self.0.session.exists(&self.0.path).until_answered().await?.is_some())
    }
}

/// How the end of the own znode is noticed.
impl Place {
    /// Has the session's proof of life check the znode from now on, until the place is deleted.
    pub(crate) fn claim(&mut self) {
        self.0.claim.get_or_insert_with(|| self.0.session.claim(&self.0.path));
    }

    /// As [`Place::claim`], if the session is proved to be alive until the next proof can be expected.
    /// Returns whether it is.
    pub(crate) fn claim_if_proven_ahead(&mut self) -> bool {
        if self.0.claim.is_some() {
            return self.0.session.is_proven_ahead();
        }
        self.0.claim = self.0.session.claim_if_proven_ahead(&self.0.path);
        self.0.claim.is_some()
    }

    /// Ready when the znode is known to be gone, as far as the watch shows it.
    pub(crate) fn poll_lost(&self, waiter: WaiterId, context: &Context<'_>) -> Poll<LockError> {
        while !self.is_known_to_be_gone() {
            let Some(watch) = &self.0.own_watch else { return Poll::Pending };
            let event = std::task::ready!(watch.poll_event(waiter, context));
            self.handle_event(event);
        }
        Poll::Ready(LockError::PlaceLost(self.0.path.to_string()))
    }

    /// Removes a waiter of [`Place::poll_lost`].
    pub(crate) fn forget_waiter(&self, waiter: WaiterId) {
        if let Some(watch) = &self.0.own_watch {
            watch.forget_waiter(waiter);
        }
    }

    /// Whether the znode is known to be gone, as far as the watch shows it.
    pub(crate) fn is_lost(&self) -> bool {
        while let Some(event) = self.0.own_watch.as_ref().and_then(ZnodeWatch::take_event) {
            self.handle_event(event);
        }
        self.is_known_to_be_gone()
    }

    /// Notes an event of the own znode. A place that is gone stays gone. An error that is not
    /// retryable is the end of the session or of the client, and so of the znode.
    ///
    /// An ephemeral has no children. A server that is told to watch it (`setWatches`) reports a
    /// change of its children nevertheless if the znode was deleted meanwhile and another client has
    /// created one of this name: the children of that one are newer than what the client has seen.
    /// The watch is not set then, so that nothing else would ever report it.
    fn handle_event(&self, event: Result<(Zxid, EventType), client::Error>) {
        match event {
            Err(error) if error.is_retryable() => {
                self.0.is_watch_lost.store(true, Ordering::Release)
            }
            Ok((_, EventType::NODE_DELETED | EventType::NODE_CHILDREN_CHANGED)) | Err(_) => {
                self.note_gone();
            }
            Ok(_) => {}
        }
    }

    /// Notes that the znode is gone.
    pub(crate) fn note_gone(&self) {
        self.0.is_gone.store(true, Ordering::Release);
    }

    fn is_known_to_be_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::Acquire) || self.0.claim.as_ref().is_some_and(Claim::is_gone)
    }

    /// Whether no watch is registered on the znode.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.0.own_watch.is_none() || self.0.is_watch_lost.load(Ordering::Acquire)
    }

    /// Replaces the watch on the znode by one that is being registered. It receives all that the
    /// last one would have received.
    pub(crate) fn set_own_watch(&mut self, watch: ZnodeWatch) {
        self.0.own_watch = Some(watch);
        self.0.is_watch_lost.store(false, Ordering::Release);
    }

    /// Forgets the watch on the znode, which could not be registered.
    pub(crate) fn clear_own_watch(&mut self) {
        self.0.own_watch = None;
    }

    /// Registers a watch on the znode, if there is none.
    pub(crate) fn watch_own(&mut self) -> Option<client::Sent<()>> {
        if !self.is_unwatched() {
            return None;
        }
        let own = [(&*self.0.path, WatchFor::Deletion)];
        let ([own], sent) = self.0.session.watch_znodes(own, self.0.czxid);
        self.set_own_watch(own);
        Some(sent)
    }

    /// Registers a watch on the znode, if there is none, and waits until the server has it.
    pub(crate) async fn ensure_own_watch(&mut self) -> Result<(), LockError> {
        while let Some(sent) = self.watch_own() {
            match sent.await {
                Ok(()) => break,
                Err(error) if error.is_retryable() => self.clear_own_watch(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// How a place is deleted.
impl Place {
    /// Sends the deletion of the znode. The request is sent when this returns.
    pub(crate) fn send_delete(mut self) -> Deletion {
        self.delete_in_background()
    }

    /// Deletes a place that does not hold the lock, and waits until the znode is gone. If the
    /// future is dropped, the deletion goes on in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::PlaceLost`] if the znode was gone before.
    pub(crate) async fn delete(self) -> Result<(), LockError> {
        self.send_delete().finish().await.map_err(LockError::of_place)
    }

    /// As [`Place::delete`]; it is no error if the znode was gone before.
    pub(crate) async fn delete_if_present(self) -> Result<(), LockError> {
        self.send_delete().finish_if_present().await
    }

    /// The operations of a multi that delete the znode.
    pub(crate) fn delete_ops(&self) -> Vec<MultiOp> {
        deletion_of(self.0.path.clone().into(), self.0.announces_release)
    }

    /// Notes that a multi of the caller has deleted the znode.
    pub(crate) fn note_deleted(mut self) {
        self.0.is_deletion_sent = true;
    }

    /// As [`Place::send_delete`], of a place that is dropped afterwards.
    pub(crate) fn delete_in_background(&mut self) -> Deletion {
        self.0.is_deletion_sent = true;
        // The claim may know that the znode is gone, and ends now.
        self.0.is_gone.fetch_or(self.is_known_to_be_gone(), Ordering::AcqRel);
        let claim = self.0.claim.take();
        let own = self.0.has_common_name.then_some(ZnodeIdentity::Czxid(self.0.czxid));
        let sent = if own.is_some() && self.is_lost() {
            // A znode of this name belongs to another client.
            None
        } else {
            let request = if self.0.announces_release {
                self.0.session.multi_without_results(self.delete_ops())
            } else {
                self.0.session.delete(&self.0.path)
            };
            Some(match claim {
                Some(claim) => claim.end_with(request),
                None => request.send(),
            })
        };
        Deletion::of(&self.0.session, self.0.path.clone(), sent, self.0.own_watch.take(), own)
    }
}

/// The operations of a multi that delete a place. One that announces the release first sets the data of the
/// znode.
pub(crate) fn deletion_of(path: RawPath, announces_release: bool) -> Vec<MultiOp> {
    let delete = MultiOp::Delete(Delete { path: path.clone(), version: Expect::Any });
    if !announces_release {
        return vec![delete];
    }
    let data = Some(Bytes::from_static(RELEASED_IN_FRONT));
    let announce = SetData { path, data, version: Expect::Any };
    vec![MultiOp::SetData(announce), delete]
}

/// A text whose clones share its memory from the first one on.
fn shared(text: String) -> ByteString {
    Bytes::from_owner(text).try_into().expect("a text is UTF-8")
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.0.is_deletion_sent {
            drop(self.delete_in_background());
        }
    }
}
