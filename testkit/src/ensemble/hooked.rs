//! What one server of the ensemble lets the hooks of a test do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use zoolet_core::{ConnectionId, Core};
use zoolet_protocol::{ErrorCode, FrameCodec, FrameError, SessionId};
use zoolet_server::hooks::{
    Closed, ConnectionInfo, HookedConnection, HookedServer, Hooks, Message, ResetError,
};

use super::engine::Ensemble;
use super::state::State;
use super::step::Treatment;
use crate::clock::now;

/// The server's side of a connection. The connection ends when this is dropped.
pub(super) struct ServerSide {
    pub(super) ensemble: Ensemble,
    pub(super) id: ConnectionId,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
}

impl Ensemble {
    /// Opens a connection to a server, or says why not.
    pub(super) fn open(
        &self,
        member: usize,
        address: Option<SocketAddr>,
    ) -> Result<Arc<ServerSide>, &'static str> {
        let hooks: Option<Arc<dyn Hooks>> =
            self.inspect(|state| state.members[member].hooks.clone());
        if hooks.as_ref().is_some_and(|hooks| hooks.refuses_connection()) {
            return Err("a fault refuses new connections");
        }
        let opened = self.act(|state| state.open(member, address));
        let id: ConnectionId = opened.ok_or("the server serves nobody now")?;
        Ok(Arc::new(ServerSide { ensemble: self.clone(), id, hooks }))
    }
}

impl ServerSide {
    /// A frame has come in.
    pub(super) fn receive(self: &Arc<Self>, frame: Bytes) -> Result<(), Closed> {
        if let Err(error) = self.codec().check_frame(&frame) {
            self.close(&error);
            return Err(Closed);
        }
        match &self.hooks {
            None => self.handle(frame),
            Some(hooks) => hooks.receive(Arc::<Self>::clone(self), frame),
        }
    }

    /// Cuts a stream into the frames of this connection.
    pub(super) fn codec(&self) -> FrameCodec {
        self.ensemble.0.codec
    }

    /// Ends the connection when its messages have left.
    pub(super) fn close(&self, error: &FrameError) {
        tracing::warn!(connection = self.id.0, cause = %error, "connection closed");
        self.ensemble.act(|state| state.close(self.id));
    }

    /// Waits until the connection is cut.
    pub(super) async fn until_cut(&self) {
        self.ensemble.until(|| self.ensemble.inspect(|state| state.is_cut(self.id))).await;
    }

    /// Whether the handshake was answered.
    pub(super) fn has_session(&self) -> bool {
        self.ensemble.inspect(|state| {
            state.connections.get(&self.id).is_some_and(|connection| connection.session.is_some())
        })
    }

    pub(super) fn is_still_open(&self) -> bool {
        self.ensemble.inspect(|state| state.is_open(self.id))
    }

    pub(super) fn poll_take(&self, context: &Context<'_>) -> Poll<Option<Message>> {
        self.ensemble.with(|state| state.poll_take(self.id, context))
    }
}

impl Drop for ServerSide {
    fn drop(&mut self) {
        self.ensemble.act(|state| state.forget(self.id));
    }
}

impl HookedConnection for ServerSide {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn is_open(&self) -> bool {
        self.is_still_open()
    }

    fn is_established(&self) -> bool {
        let has_begun = |state: &State| state.connections.get(&self.id).map(|it| it.has_begun);
        self.ensemble.inspect(has_begun).unwrap_or(false)
    }

    fn handle(&self, frame: Bytes) -> Result<(), Closed> {
        self.ensemble.act(|state| state.take_in(self.id, &frame, Treatment::CarryOut))
    }

    fn refuse(&self, frame: Bytes, code: ErrorCode) -> Result<(), Closed> {
        self.ensemble.act(|state| state.take_in(self.id, &frame, Treatment::Refuse(code)))
    }

    fn cut(&self) {
        self.ensemble.act(|state| state.cut(self.id));
    }

    fn finish(&self) {
        self.ensemble.act(|state| state.close(self.id));
    }

    fn answers_at_once(&self) -> bool {
        false
    }
}

/// One server of the ensemble.
#[derive(Debug)]
pub(super) struct HookedMember {
    pub(super) ensemble: Ensemble,
    pub(super) index: usize,
}

impl HookedServer for HookedMember {
    fn is_shut_down(&self) -> bool {
        self.ensemble.is_over()
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.ensemble.inspect(|state| {
            let its = state.connections.iter().filter(|(_, it)| it.member == self.index);
            let info = its.map(|(id, it)| ConnectionInfo {
                id: *id,
                session: it.session.unwrap_or(SessionId::NONE),
                address: it.address,
            });
            info.collect()
        })
    }

    fn session_of(&self, connection: ConnectionId) -> Option<SessionId> {
        let its = |state: &State| {
            let connection = state.connections.get(&connection)?;
            (connection.member == self.index).then(|| connection.session.unwrap_or(SessionId::NONE))
        };
        self.ensemble.inspect(its)
    }

    fn is_open(&self, connection: ConnectionId) -> bool {
        self.session_of(connection).is_some()
            && self.ensemble.inspect(|state| state.is_open(connection))
    }

    fn cut(&self, connection: ConnectionId) {
        if self.session_of(connection).is_some() {
            self.ensemble.act(|state| state.cut(connection));
        }
    }

    fn wake(&self, connection: ConnectionId) {
        self.ensemble.act(|state| state.wake(connection));
    }

    fn sessions(&self) -> Vec<SessionId> {
        self.ensemble.inspect(|state| {
            let sessions = state.members[self.index].core.sessions();
            sessions.into_iter().map(|(session, _)| session).collect()
        })
    }

    fn own_sessions(&self) -> Vec<SessionId> {
        let connections = self.connections();
        let mut own: Vec<_> =
            connections.into_iter().map(|connection| connection.session).collect();
        let live = self.sessions();
        own.retain(|session| live.contains(session));
        own.sort_unstable();
        own.dedup();
        own
    }

    fn expire(&self, session: SessionId) {
        self.ensemble.control(|state| state.expire(session));
    }

    fn tick(&self) {
        self.ensemble.act(|_| ());
    }

    fn await_tick(&self) {
        self.ensemble.act(|_| ());
    }

    fn sweep(&self) {
        self.ensemble.control(State::sweep);
    }

    fn reset(&self) -> Result<(), ResetError> {
        Err(ResetError::Member)
    }

    fn inspect(&self, inspect: &mut dyn FnMut(&Core)) {
        self.ensemble.inspect(|state| inspect(&state.members[self.index].core));
    }

    fn since_start(&self) -> Duration {
        self.ensemble.inspect(|state| {
            let hooks = state.members[self.index].hooks.as_ref();
            let offset = hooks.map_or(Duration::ZERO, |hooks| hooks.clock_offset().monotonic);
            now().saturating_duration_since(state.start) + offset
        })
    }
}
