//! The form of messages in the trace of a script. The recorder of the test kit uses the same form.

use std::ops::{Deref, DerefMut};

use zoolet_protocol::{Response, Zxid};

use crate::client::{Body, Handshake, Message};

/// Shows messages so that they do not depend on the run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(zoolet_testkit::Trace);

impl Trace {
    /// A trace in which zxids are counted from `base`.
    pub(crate) fn new(is_fresh: bool, base: Zxid) -> Self {
        Self(zoolet_testkit::Trace::new(is_fresh, base))
    }

    /// The line for a handshake.
    pub(crate) fn handshake(&self, handshake: &Handshake) -> String {
        match handshake {
            Handshake::Answered(response) => self.0.handshake(response),
            Handshake::Garbage(bytes) => format!("garbage {}", zoolet_testkit::hex(bytes)),
            Handshake::Closed => "closed".into(),
            Handshake::Silence => "SILENCE".into(),
        }
    }

    /// The line for a message.
    pub(crate) fn message(&mut self, message: &Message) -> String {
        match message {
            Message::Event { zxid, event } => self.event(*zxid, event),
            Message::Reply { asked, header, body } => {
                let has_its_xid = *asked == Some(header.xid);
                match body {
                    Body::Known(response) => self.reply(has_its_xid, header, response),
                    Body::Odd(bytes) => {
                        self.reply(has_its_xid, header, &Response::Raw(bytes.clone()))
                    }
                }
            }
            Message::Garbage(bytes) => format!("garbage {}", zoolet_testkit::hex(bytes)),
            Message::Closed => "closed".into(),
            Message::Silence => "SILENCE".into(),
        }
    }
}

impl Deref for Trace {
    type Target = zoolet_testkit::Trace;

    fn deref(&self) -> &zoolet_testkit::Trace {
        &self.0
    }
}

impl DerefMut for Trace {
    fn deref_mut(&mut self) -> &mut zoolet_testkit::Trace {
        &mut self.0
    }
}
