//! Cleans up after a script on a server that other scripts use too.

use std::io;

use bytes::Bytes;
use zoolet_protocol::{
    Auth, ConnectRequest, Delete, Expect, Lookup, MultiOp, Password, Read, ReplyHeader, Request,
    Response, SessionId, SessionRequest, Write, Zxid,
};

use crate::client::{Body, Client, Handshake, Message};
use crate::target::Target;

/// The superuser's digest on every server under test (`DigestAuthenticationProvider.superDigest`).
/// The password is `secret`.
pub const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

const SUPER_CREDENTIALS: &[u8] = b"super:secret";

/// The session timeout of the janitor, which sends no request while a script runs.
const TIMEOUT_MS: i32 = 60_000;

/// The built-in znodes, which are not deleted.
const BUILT_IN: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// A client of the superuser.
#[derive(Debug)]
pub(crate) struct Janitor {
    client: Client,
}

impl Janitor {
    pub(crate) fn new(target: &dyn Target) -> io::Result<Self> {
        let mut janitor = Self { client: Client::open(target, TIMEOUT_MS)? };
        janitor.ask(&super_auth())?;
        Ok(janitor)
    }

    /// The zxid of the server's last transaction.
    pub(crate) fn last_zxid(&mut self) -> io::Result<Zxid> {
        Ok(self.ask(&Request::Session(SessionRequest::Ping))?.0.zxid)
    }

    /// Closes its own session.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.ask(&Request::Write(Write::CloseSession)).map(drop)
    }

    /// Closes these sessions and deletes every znode that is not built in.
    pub(crate) fn clean(&mut self, target: &dyn Target, sessions: &[SessionId]) -> io::Result<()> {
        for session in sessions {
            end_session(target, *session)?;
        }
        self.delete_below("/")?;
        self.close()
    }

    fn delete_below(&mut self, path: &str) -> io::Result<()> {
        let list = Request::Read(Read::Lookup(Lookup::GetChildren(path.into())));
        let (_, Body::Known(Response::Names(names))) = self.ask(&list)? else { return Ok(()) };
        for name in names.iter() {
            let separator = if path == "/" { "" } else { "/" };
            let child = format!("{path}{separator}{name}");
            self.delete_below(&child)?;
            if !BUILT_IN.contains(&child.as_str()) {
                let delete = Delete { path: child.into(), version: Expect::Any };
                self.ask(&Request::Write(Write::Op(MultiOp::Delete(delete))))?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, request: &Request) -> io::Result<(ReplyHeader, Body)> {
        let messages = self.client.ask(request);
        let reply = messages.into_iter().find_map(|message| match message {
            Message::Reply { header, body, .. } => Some((header, body)),
            _ => None,
        });
        reply.ok_or_else(|| io::Error::other("the server did not reply to the clean-up"))
    }
}

fn super_auth() -> Request {
    Request::Session(SessionRequest::Auth(Auth {
        auth_type: 0,
        scheme: Some("digest".into()),
        auth: Some(Bytes::from_static(SUPER_CREDENTIALS)),
    }))
}

/// Reattaches to a session and closes it, if it exists.
fn end_session(target: &dyn Target, session: SessionId) -> io::Result<()> {
    let mut client = Client::dial(target)?;
    let password = Password::of(session);
    let request = ConnectRequest { session, password, ..ConnectRequest::new(TIMEOUT_MS) };
    if let Handshake::Answered(response) = client.shake_hands(&request)
        && !response.is_refused()
    {
        client.ask(&super_auth());
        client.ask(&Request::Write(Write::CloseSession));
    }
    Ok(())
}
