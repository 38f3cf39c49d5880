//! Waiting until a place is in front.
//!
//! A place watches the znode of the last place ahead that it waits for, and its own znode: one
//! request sets both watches. When the znode ahead is gone and no other place was ahead of it, no
//! request is needed: numbers only grow, so this place is in front. The last list shows that no
//! other place was ahead, or the holder announces it ([`Place::delete_ops`]). Otherwise the
//! directory is listed again.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use zoolet_protocol::{EventType, Zxid};

use super::order::Position;
use super::place::Place;
use super::unreadable::{self, ZnodeAhead};
use super::{Line, PositionAt};
use crate::client;
use crate::client::recipe::{WaiterId, WatchFor, ZnodeWatch};
use crate::error::LockError;

/// What a waiting place learns.
enum Heard {
    /// The znode ahead was deleted, with the zxid of the deletion.
    Deletion(Zxid),
    /// The watches could not be registered.
    NotRegistered,
    Failure(LockError),
}

/// What is known about a znode ahead that is gone, or of which no event will come.
struct Gone {
    /// How many connections the client had made when the watches were registered.
    connections: u64,
    /// Whether the event had a zxid. Servers before 3.9 send none; then a reconnect may lead to a
    /// server that is behind the event.
    has_zxid: bool,
    /// Whether the event came in the order of the changes: over the connection on which the watches
    /// were registered.
    is_in_order: bool,
    /// Whether the holder announced that no place was ahead of it.
    was_in_front: bool,
}

impl Gone {
    /// No event reported that the znode is gone, and it may exist. The directory is listed again.
    fn without_event(connections: u64) -> Self {
        Self { connections, has_zxid: false, is_in_order: false, was_in_front: false }
    }
}

impl Line {
    /// Waits until a place is in front.
    ///
    /// # Errors
    ///
    /// [`LockError::PlaceLost`] if the place is gone before.
    pub(crate) async fn wait(&self, place: &mut Place, at: PositionAt) -> Result<(), LockError> {
        let PositionAt { mut position, mut zxid } = at;
        let mut has_waited = false;
        let mut nobody_ahead = false;
        let mut look_after = unreadable::look_after(&self.client);
        loop {
            match position {
                Position::Front => break,
                Position::Missing => {
                    return Err(LockError::PlaceLost(place.path().to_owned()));
                }
                Position::Behind { ahead, is_only, is_adjacent } => {
                    has_waited = true;
                    let gone = self.wait_behind(place, &ahead, zxid, &mut look_after).await?;
                    let is_front = gone.is_in_order
                        && (is_only || gone.was_in_front)
                        && unreadable::hears_of_own_znode(self);
                    if is_front
                        && (gone.has_zxid || self.is_covered(place, gone.connections).await?)
                    {
                        nobody_ahead = gone.was_in_front && is_adjacent;
                        break;
                    }
                }
            }
            let (names, listed_at) = self.list(place.session()).await?;
            position = self.position_in(&names, place);
            zxid = listed_at;
        }
        // A place that shares the lock may have others ahead of it. It announces its release only
        // if it knows that it has none: the place directly ahead announced that it was the first.
        place.set_announces_release(self.announces_release(has_waited) || nobody_ahead);
        Ok(())
    }

    /// Records that a place is in front without having waited.
    pub(crate) fn came_to_front(&self, place: &mut Place) {
        place.set_announces_release(self.announces_release(false));
    }

    /// Whether a place in front announces its release. Only an exclusive holder does, because the
    /// announcement proves that no other place is ahead.
    fn announces_release(&self, has_waited: bool) -> bool {
        self.kind.is_exclusive && (has_waited || self.kind.always_announces_release())
    }

    /// Whether the server to which the client is connected now knows the event, so that later reads
    /// cannot be older than it.
    async fn is_covered(&self, place: &Place, connections: u64) -> Result<bool, LockError> {
        Ok(place.session().confirms_event(place.path(), connections).await?)
    }

    /// Waits until the znode ahead is gone. After `look_after` without that event, this checks
    /// whether it can arrive at all.
    async fn wait_behind(
        &self,
        place: &mut Place,
        ahead: &str,
        seen: Zxid,
        look_after: &mut Duration,
    ) -> Result<Gone, LockError> {
        let connections = self.client.connection_count();
        let path = self.child(ahead);
        let znodes =
            [(path.as_str(), WatchFor::ChangeAndDeletion), (place.path(), WatchFor::Deletion)];
        let ([watch, own], sent) = place.session().watch_znodes(znodes, seen);
        place.set_own_watch(own);
        let mut registering = Some(sent);
        let mut last_change = None;
        loop {
            let heard = hear(place, &watch, &mut registering, &mut last_change);
            match tokio::time::timeout(*look_after, heard).await {
                // In memory of its own: the future of each waiting task would have room for it.
                Err(_) => match Box::pin(unreadable::look(place, self, &path, look_after)).await? {
                    ZnodeAhead::Present => {}
                    ZnodeAhead::Gone => return Ok(Gone::without_event(connections)),
                },
                Ok(Heard::Deletion(zxid)) => {
                    let has_zxid = zxid > Zxid::ZERO;
                    return Ok(Gone {
                        connections,
                        has_zxid,
                        is_in_order: registering.is_none()
                            && self.client.connection_count() == connections,
                        was_in_front: last_change == Some(zxid) && has_zxid,
                    });
                }
                // No event would ever arrive: the directory is listed again.
                Ok(Heard::NotRegistered) => {
                    place.clear_own_watch();
                    return Ok(Gone::without_event(connections));
                }
                Ok(Heard::Failure(error)) => return Err(error),
            }
        }
    }
}

/// Waits for the deletion of the znode ahead, for that of the own znode, or until the watches turn out
/// not to be set. `last_change` is the zxid of the last change of the znode ahead: a release that is
/// announced is both events, which mostly are there together.
async fn hear(
    place: &Place,
    ahead: &ZnodeWatch,
    registering: &mut Option<client::Sent<()>>,
    last_change: &mut Option<Zxid>,
) -> Heard {
    std::future::poll_fn(|context| {
        // An event that arrived before the reply is handled before it.
        while let Poll::Ready(event) = poll_event(place, ahead, context) {
            return Poll::Ready(match event {
                Ok((zxid, EventType::NODE_DELETED)) => Heard::Deletion(zxid),
                // An ephemeral has no children: by the time at which the watches were to be set, another
                // znode had the name, so that none is set.
                Ok((_, EventType::NODE_CHILDREN_CHANGED)) => Heard::NotRegistered,
                Ok((zxid, _)) => {
                    *last_change = Some(zxid);
                    continue;
                }
                Err(LockError::Client(error)) if error.is_retryable() => Heard::NotRegistered,
                Err(error) => Heard::Failure(error),
            });
        }
        let Some(sent) = registering else { return Poll::Pending };
        match std::task::ready!(Pin::new(sent).poll(context)) {
            Ok(()) => {
                *registering = None;
                Poll::Pending
            }
            Err(error) if error.is_retryable() => Poll::Ready(Heard::NotRegistered),
            Err(error) => Poll::Ready(Heard::Failure(error.into())),
        }
    })
    .await
}

/// The next event of the znode ahead, or [`LockError::PlaceLost`] if the own znode is gone.
fn poll_event(
    place: &Place,
    ahead: &ZnodeWatch,
    context: &Context<'_>,
) -> Poll<Result<(Zxid, EventType), LockError>> {
    if place.is_lost() {
        return Poll::Ready(Err(LockError::PlaceLost(place.path().to_owned())));
    }
    if let Poll::Ready(event) = ahead.poll_event(WaiterId::ONLY, context) {
        return Poll::Ready(event.map_err(LockError::from));
    }
    place.poll_lost(WaiterId::ONLY, context).map(Err)
}
