//! The connections of clients: how they are opened and end, and the messages that leave.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use zoolet_core::ConnectionId;
use zoolet_server::hooks::{Admission, Message};
use zoolet_server::limits::{OUTBOX_BYTES_MAX, OUTBOX_MESSAGES_MAX};

use super::connection::{Connection, End};
use super::state::{Role, State};
use super::step::Step;

impl State {
    /// Connects a client to a member, if that accepts connections.
    pub(super) fn open(
        &mut self,
        member: usize,
        address: Option<SocketAddr>,
    ) -> Option<ConnectionId> {
        let is_serving = match self.members[member].role {
            Role::Stopped => false,
            Role::Looking => self.is_read_only(member),
            Role::Leading | Role::Following => true,
        };
        if !is_serving {
            return None;
        }
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        self.connections.insert(id, Connection::new(member, address));
        Some(id)
    }

    /// The client is gone.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.close(id);
        if let Some(connection) = self.connections.remove(&id)
            && let Some(hooks) = self.members[connection.member].hooks.clone()
        {
            self.closed.push((hooks, id));
        }
    }

    /// The next message that may leave.
    pub(super) fn poll_take(
        &mut self,
        id: ConnectionId,
        context: &Context<'_>,
    ) -> Poll<Option<Message>> {
        let Some(connection) = self.connections.get_mut(&id) else { return Poll::Ready(None) };
        let hooks = self.members[connection.member].hooks.as_deref();
        if !connection.waiting.is_empty() {
            if hooks.is_none_or(|hooks| hooks.may_leave(id, connection.left)) {
                connection.left += 1;
                let message = connection.waiting.pop_front();
                let length = message.as_ref().map_or(0, Message::encoded_len);
                connection.waiting_bytes = connection.waiting_bytes.saturating_sub(length);
                return Poll::Ready(message);
            }
        } else if connection.end == End::Cut
            || (connection.end == End::Finishing && !hooks.is_some_and(|hooks| hooks.is_frozen(id)))
        {
            return Poll::Ready(None);
        }
        connection.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// A message for the client waits to leave.
    pub(super) fn give(&mut self, id: ConnectionId, mut message: Message) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let hooks = self.members[connection.member].hooks.as_deref();
        self.has_sent = true;
        if !connection.is_open() {
            if let Some(hooks) = hooks {
                hooks.discard(id, &message);
            }
            return;
        }
        let is_full = connection.waiting.len() >= OUTBOX_MESSAGES_MAX
            || connection.waiting_bytes >= OUTBOX_BYTES_MAX;
        if is_full {
            return self.cut(id);
        }
        let number = connection.left + connection.waiting.len() as u64;
        let admission = hooks.map(|hooks| hooks.send(id, number, &mut message));
        match admission {
            None | Some(Admission::Queue | Admission::Last) => {
                connection.sent += 1;
                connection.waiting_bytes += message.encoded_len();
                connection.waiting.push_back(message);
                if admission == Some(Admission::Last) {
                    connection.end = End::Finishing;
                    connection.steps.clear();
                }
            }
            Some(Admission::Drop) => return,
            Some(Admission::End) => {
                connection.end = End::Finishing;
                connection.steps.clear();
            }
        }
        self.wake(id);
    }

    /// Wakes the receiver of a connection's messages.
    pub(super) fn wake(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let hooks = self.members[connection.member].hooks.as_deref();
        if hooks.is_none_or(|hooks| hooks.may_wake(id)) {
            self.wakers.extend(connection.waker.take());
        }
    }

    /// The member closes a connection when its messages have left, and drops its waiting requests.
    pub(super) fn close(&mut self, id: ConnectionId) {
        self.end_connection(id, End::Finishing);
    }

    /// The member closes a connection at once; the messages that wait are lost.
    pub(super) fn cut(&mut self, id: ConnectionId) {
        self.end_connection(id, End::Cut);
    }

    fn end_connection(&mut self, id: ConnectionId, end: End) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if end == End::Cut {
            connection.waiting.clear();
            connection.waiting_bytes = 0;
        }
        if connection.end != End::Cut {
            connection.end = end;
        }
        if let Some(session) = connection.session {
            // The member orders requests by sessions (`CommitProcessor`).
            let places = connection.steps.iter().filter_map(Step::awaited);
            let member = &mut self.members[connection.member];
            member.left_behind.extend(places.map(|place| (session, place)));
        }
        connection.steps.clear();
        self.members[connection.member].core.remove_watches_of(id, usize::MAX);
        self.wake(id);
    }

    /// Whether a connection takes messages for its client.
    pub(super) fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(Connection::is_open)
    }

    /// Whether a connection has ended, and its messages are lost.
    pub(super) fn is_cut(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_none_or(Connection::is_cut)
    }

    /// The ids of all connections, in order.
    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    /// The ids of the connections of a member, in order.
    pub(super) fn ids_of(&self, member: usize) -> Vec<ConnectionId> {
        let its = self.connections.iter().filter(|(_, connection)| connection.member == member);
        its.map(|(id, _)| *id).collect()
    }
}
