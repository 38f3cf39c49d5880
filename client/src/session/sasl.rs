//! SASL at the beginning of a connection: after the handshake, before anything else is sent.

use bytes::Bytes;
use zoolet_protocol::{Incoming, OpCode, Request, Response, SessionRequest, Xid, encode_request};

use super::{ConnectionFault, Phase, Session};
use crate::clock::Instant;
use crate::sasl::Exchange;

/// An exchange that has begun.
#[derive(Debug)]
pub(super) struct Authenticating {
    exchange: Box<dyn Exchange>,
    /// The xid of the request that has no reply yet.
    xid: Xid,
    /// Whether the handshake was with a server that serves reads only.
    pub(super) is_read_only: bool,
}

impl Session {
    /// Sends the first token, if the user chose a mechanism.
    pub(super) fn begin_sasl(&mut self, is_read_only: bool, now: Instant) {
        let Some(mechanism) = &self.options.sasl else {
            return self.begin_requests(is_read_only, now);
        };
        let (token, exchange) = mechanism.begin();
        let xid = self.send_token(token, now);
        self.phase = Phase::Authenticating;
        self.sasl = Some(Authenticating { exchange, xid, is_read_only });
    }

    /// The xid of the next request.
    pub(super) fn take_xid(&mut self) -> Xid {
        let xid = Xid(self.next_xid);
        // Xids are positive: the counter wraps to 1.
        self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
        xid
    }

    fn send_token(&mut self, token: Vec<u8>, now: Instant) -> Xid {
        let xid = self.take_xid();
        let request = Request::Session(SessionRequest::Sasl(Some(token.into())));
        self.outgoing.push_back(encode_request(xid, &request));
        self.last_sent = now;
        xid
    }

    /// Answers the server's token. When the exchange is complete, what has waited is sent.
    pub(super) fn handle_sasl(
        &mut self,
        incoming: Incoming,
        now: Instant,
    ) -> Result<(), ConnectionFault> {
        // There are no watches yet that could fire.
        let Incoming::Reply { header, body } = incoming else { return Ok(()) };
        let Some(mut sasl) = self.sasl.take() else { return Ok(()) };
        if header.xid != sasl.xid {
            let expected = Some(sasl.xid);
            return Err(ConnectionFault::OutOfOrder { expected, got: header.xid });
        }
        if !header.err.is_ok() {
            return Err(self.end_unauthenticated(&format!("the server answered {}", header.err)));
        }
        let token = match Response::decode(OpCode::SASL, &body)? {
            Response::Token(token) => token.unwrap_or_else(Bytes::new),
            _ => Bytes::new(),
        };
        match sasl.exchange.respond(&token) {
            Ok(Some(token)) => {
                sasl.xid = self.send_token(token, now);
                self.sasl = Some(sasl);
            }
            Ok(None) => self.begin_requests(sasl.is_read_only, now),
            Err(refused) => return Err(self.end_unauthenticated(&refused.to_string())),
        }
        Ok(())
    }

    /// Ends the client: another server of the ensemble would not let it in either.
    fn end_unauthenticated(&mut self, reason: &str) -> ConnectionFault {
        tracing::warn!("SASL authentication failed: {reason}");
        self.end();
        ConnectionFault::AuthFailed
    }
}
