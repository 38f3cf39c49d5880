//! How a transaction is committed under the engine's lock: appended to the log, applied, and published to
//! those whose watches it fires.

use std::sync::Arc;
use std::task::Waker;

use zoolet_core::{Audience, ConnectionId, Decided, Effects, FiredEvent, Txn, TxnOp};
use zoolet_protocol::{Zxid, encode_event};

use super::lock::{Engine, Wakers};
use super::message::Message;
use super::outbox::Outgoing;
use super::precedence::Receiver;
use super::registry::{Peer, Registry};
use super::state::{LockHeld, State};
use super::stats::EventCounts;
use super::turn::SoFar;
use crate::storage::committer::Origin;

/// Finds the connections that receive the events of one transaction. Mostly these are the one that asked
/// for it and one other, which receives several events.
struct EventPeers<'a> {
    requester: Option<&'a Peer>,
    last: Option<Arc<Peer>>,
    /// The first one whose task is to be woken.
    first_woken: Option<Receiver>,
}

/// What the events of a transaction have in common.
struct Delivery<'a> {
    audience: Audience,
    peers: EventPeers<'a>,
    counts: EventCounts,
}

impl EventPeers<'_> {
    /// A connection; `None` if it was closed.
    fn find(&mut self, id: ConnectionId, registry: &Registry) -> Option<&Peer> {
        if let Some(requester) = self.requester.filter(|requester| requester.id == id) {
            return Some(requester);
        }
        if self.last.as_ref().is_none_or(|last| last.id != id) {
            self.last = registry.peer(id);
        }
        self.last.as_deref()
    }

    /// The task of this connection is to be woken.
    fn note_woken(&mut self, id: ConnectionId, waker: &Waker) {
        if self.first_woken.is_none()
            && self.requester.is_some_and(Peer::is_remote)
            && let Some(peer) = self.last.as_ref().filter(|last| last.id == id)
        {
            let (peer, waker) = (Arc::downgrade(peer), waker.clone());
            self.first_woken = Some(Receiver { peer, waker });
        }
    }
}

impl Engine {
    /// Commits the transaction of a handshake, or one that no client asked for: appends it to the log, applies
    /// it, and publishes what it did. For a request the caller takes the same three steps
    /// ([`Engine::append_for`], [`Core::apply_decided`](zoolet_core::Core::apply_decided) or
    /// [`Core::apply_plain`](zoolet_core::Core::apply_plain), [`Engine::publish_for`]): to return the effects from
    /// one more function takes longer than some of them.
    ///
    /// `received` tells who asked for it and when, in milliseconds of the server's clock.
    pub(super) fn commit(
        &self,
        state: &mut State,
        decided: &Decided,
        received: (Origin, u64),
        wakers: &mut Wakers,
    ) -> Effects {
        self.append(state, decided.txn(), received);
        let effects = state.core.apply_decided(decided);
        self.publish(state, &effects, None, wakers);
        effects
    }

    /// Appends a transaction to the log, before it is applied.
    fn append(&self, state: &mut State, txn: &Txn, (origin, received_ms): (Origin, u64)) {
        state.journal.append(txn, origin, || self.clock.at_ms(received_ms));
        if let (Some(audit), TxnOp::CloseSession { .. }) = (&self.audit, &txn.op) {
            let paths = state.core.ephemerals_after(txn.session, "", usize::MAX);
            audit.session_ended(txn.session, paths.iter(), txn.time_ms);
        }
    }

    /// [`Engine::append`] of what the client of a connection has asked for. [`Engine::publish_for`] must follow,
    /// under the same lock.
    pub(super) fn append_for(&self, peer: &Peer, state: &mut State, txn: &Txn) {
        self.append(state, txn, (Origin::Client, peer.stats.request_received_ms()));
    }

    /// Counts a transaction that was applied, pushes its events, and takes a snapshot if one is due. The caller
    /// pushes the reply, under the same lock. `peer` is the connection of the client that asked for it. Returns
    /// the first receiver that is to be woken.
    fn publish<Reply>(
        &self,
        state: &mut State,
        effects: &Effects<Reply>,
        peer: Option<&Peer>,
        wakers: &mut Wakers,
    ) -> Option<Receiver> {
        self.stats.commits.add(1);
        let first_woken = match &effects.events[..] {
            [] => None,
            _ => self.deliver_all(state.lock_held(), effects, peer, wakers),
        };
        if state.journal.wants_snapshot() {
            state.journal.take_snapshot(state.core.freeze());
        }
        first_woken
    }

    /// [`Engine::publish`] of what the client of a connection has asked for.
    pub(super) fn publish_for<Reply>(
        &self,
        peer: &Peer,
        state: &mut State,
        effects: &Effects<Reply>,
        so_far: &mut SoFar,
        wakers: &mut Wakers,
    ) {
        let first_woken = self.publish(state, effects, Some(peer), wakers);
        if wakers.len() > 0 {
            peer.note_woken(wakers.len(), first_woken);
        }
        if !effects.events.is_empty() {
            // Who hears of this write may ask for the numbers before the turn ends.
            so_far.counts.tell(&peer.stats);
        }
    }

    /// Pushes the events of a transaction, and returns the first receiver that is to be woken.
    fn deliver_all<Reply>(
        &self,
        held: LockHeld<'_>,
        effects: &Effects<Reply>,
        peer: Option<&Peer>,
        wakers: &mut Wakers,
    ) -> Option<Receiver> {
        let mut delivery = Delivery {
            audience: Audience::default(),
            peers: EventPeers { requester: peer, last: None, first_woken: None },
            counts: EventCounts::default(),
        };
        for fired in &effects.events {
            self.deliver(held, effects.zxid, fired, &mut delivery, wakers);
        }
        delivery.counts.tell(&self.stats);
        if wakers.len() > 0 {
            self.stats.clients_woken.add(wakers.len() as u64);
        }
        delivery.peers.first_woken
    }

    /// Pushes an event to every connection whose watch fired and that may read the znode.
    fn deliver(
        &self,
        held: LockHeld<'_>,
        zxid: Zxid,
        fired: &FiredEvent,
        delivery: &mut Delivery<'_>,
        wakers: &mut Wakers,
    ) {
        let Delivery { audience, peers, counts } = delivery;
        let mut frame = encode_event(zxid, &fired.event);
        let is_public = audience.is_everyone(fired);
        self.count_watches(fired);
        let last = fired.receivers.len().saturating_sub(1);
        for (index, receiver) in fired.receivers.iter().enumerate() {
            // The last one takes the frame over: mostly it is the only one.
            let frame = if index == last { std::mem::take(&mut frame) } else { frame.clone() };
            // A connection that is closing may still have watches.
            let Some(peer) = peers.find(*receiver, &self.registry) else { continue };
            if is_public || audience.includes(fired, *receiver, || peer.identities()) {
                let message = Message::Event(frame);
                let outgoing = Outgoing { after: zxid, message };
                let Some(waker) = peer.push_counting(held, outgoing, counts) else { continue };
                peers.note_woken(*receiver, &waker);
                wakers.add(Some(waker));
            }
        }
    }

    fn count_watches(&self, fired: &FiredEvent) {
        let index = usize::try_from(fired.event.event_type.0 - 1).ok();
        if let Some(counter) = index.and_then(|index| self.stats.watches_fired.get(index)) {
            counter.record(fired.receivers.len() as u64);
        }
    }
}
