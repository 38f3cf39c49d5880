//! The session of another client, with which a client begins, and what it hands over itself.

use std::time::Duration;

use zoolet_protocol::{Password, SessionId, Zxid};

use super::{Options, Session};
use crate::saved_session::SavedSession;

impl Options {
    /// The session to begin with, which may be none, with the timeout to reckon by.
    pub(super) fn take_session(&mut self) -> SavedSession {
        let none =
            || SavedSession::new(SessionId::NONE, Password::zero(), Duration::MAX, Zxid::ZERO);
        let begun = self.session.take().unwrap_or_else(none);
        // A server may count by the timeout that the other client had.
        let timeout = self.timeout.min(begun.timeout());
        SavedSession::new(begun.id(), begun.password().clone(), timeout, begun.last_zxid_seen())
    }
}

impl Session {
    pub(crate) fn password(&self) -> &Password {
        &self.password
    }

    /// What another client needs to go on with the session; `None` while there is no session, or one
    /// that only a server knows that serves reads only.
    pub(crate) fn saved(&self) -> Option<SavedSession> {
        let is_known = !self.id.is_none() && !self.is_provisional;
        is_known.then(|| {
            let password = self.password.clone();
            SavedSession::new(self.id, password, self.timeout, self.last_zxid_seen)
        })
    }
}
