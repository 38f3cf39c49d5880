//! When a client begins to wait for events.

use super::Session;

impl Session {
    /// Returns `true` once when no reply is outstanding, after watches were set or a ping was answered: from
    /// now on the client waits for events only.
    pub(crate) fn poll_wait(&mut self) -> bool {
        let begins = self.may_wait && self.sent.is_empty() && self.pings.is_empty();
        self.may_wait &= !begins;
        begins
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zoolet_protocol::{ErrorCode, Lookup, OpCode, Read, Request, Xid, decode_request};

    use super::super::opened::{TIMEOUT, answer, connected};
    use super::super::{Session, Submission};
    use crate::call::Call;
    use crate::clock::{Instant, now};

    /// Sends a request and a ping, and returns their xids.
    fn ask(session: &mut Session, at: Instant) -> Vec<Xid> {
        let request = Request::Read(Read::Lookup(Lookup::Exists("/a".into())));
        session.handle_timeout(at).expect("the server may still answer");
        session.submit(Submission::new(request, Call::new(OpCode::EXISTS)), at);
        let xid = |frame: Bytes| decode_request(&frame).expect("it is legal").0.xid;
        std::iter::from_fn(|| session.poll_transmit()).map(xid).collect()
    }

    #[test]
    fn the_wait_begins_with_the_last_answer_however_the_answers_come() {
        let start = now();
        let mut session = connected(start);
        let at = start + TIMEOUT / 2;
        let xids = ask(&mut session, at);
        assert!(xids.len() == 2 && xids[0] == Xid::PING, "{xids:?}");
        assert!(!session.poll_wait());
        answer(&mut session, xids[0], ErrorCode::OK, at);
        assert!(!session.poll_wait(), "another answer is to come");
        answer(&mut session, xids[1], ErrorCode::NO_NODE, at);
        assert_eq!([session.poll_wait(), session.poll_wait()], [true, false]);
    }

    #[test]
    fn a_wait_ends_with_its_connection() {
        let start = now();
        let mut session = connected(start);
        let at = start + TIMEOUT / 2;
        let xids = ask(&mut session, at);
        answer(&mut session, xids[0], ErrorCode::OK, at);
        session.handle_disconnected();
        assert!(!session.poll_wait());
    }
}
