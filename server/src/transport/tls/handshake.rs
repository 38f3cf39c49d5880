//! Handshakes: how many there may be, what they may cost the other clients, and how they fail.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};

use bytes::BytesMut;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use zoolet_tls::rustls::{
    self, AlertDescription, CertificateError, InvalidMessage, ServerConnection,
};
use zoolet_tls::{ServerTls, TlsError, distinguished_name};

use super::socket::{TlsSocket, nothing};
use crate::engine::connection::{Connection, Hangup};
use crate::engine::lock::workers;
use crate::engine::stats::ServerStats;
use crate::limits::{HANDSHAKE_TIMEOUT, LINGER_TIMEOUT, READ_BYTES};
use crate::transport::socket::Socket;

/// Makes TLS sockets of TCP sockets.
#[derive(Debug)]
pub(super) struct Acceptor {
    tls: Arc<ServerTls>,
    /// `netty.server.outstandingHandshake.limit`.
    outstanding_max: Option<usize>,
    /// A handshake computes for a millisecond and more. Those that do so at the same time share half
    /// of the workers, and queue for them, so that connected clients get their turns in between.
    computing: Semaphore,
}

/// Why there is no TLS socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeFailure {
    #[error("{0} handshakes are under way; netty.server.outstandingHandshake.limit sets the limit")]
    Exceeded(usize),
    #[error("no whole TLS handshake in {HANDSHAKE_TIMEOUT:?}")]
    TimedOut,
    #[error("the client closed the connection before it sent anything")]
    Silent,
    #[error("the TLS handshake failed: {}", reason(.0))]
    Tls(#[from] rustls::Error),
    #[error("the connection ended in the TLS handshake: {0}")]
    Io(io::Error),
    #[error(transparent)]
    Certificate(TlsError),
    #[error(transparent)]
    Identity(Hangup),
}

impl Acceptor {
    pub(super) fn new(tls: Arc<ServerTls>, outstanding_max: Option<usize>) -> Self {
        let computing = Semaphore::new((workers() / 2).max(1));
        Self { tls, outstanding_max, computing }
    }

    /// Carries a handshake out. The client has sent `received` already. Returns the socket, and what
    /// the client sent after its handshake.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        received: BytesMut,
        stats: &ServerStats,
    ) -> Result<(TlsSocket, BytesMut), HandshakeFailure> {
        let outstanding = Outstanding::begin(stats, self.outstanding_max)?;
        let session = ServerConnection::new(self.tls.config())?;
        let mut socket = TlsSocket::new(stream, session);
        let shaken = self.shake_hands(&mut socket, received);
        let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shaken).await;
        drop(outstanding);
        let failure = match shaken {
            Ok(Ok(input)) => return Ok((socket, input)),
            Ok(Err(failure)) => failure,
            Err(_) => HandshakeFailure::TimedOut,
        };
        stats.unsuccessful_handshakes.add(1);
        // As `NettyServerCnxnFactory.CertificateVerifier` counts.
        stats.auth_failed.add(1);
        if let HandshakeFailure::Tls(_) = failure {
            let _ = tokio::time::timeout(LINGER_TIMEOUT, refuse(&mut socket)).await;
        }
        Err(failure)
    }

    /// Gives a connection the identity of the certificate that the client showed, if it showed one.
    pub(super) fn identify(
        &self,
        socket: &TlsSocket,
        connection: &Connection,
    ) -> Result<(), HandshakeFailure> {
        let certificate = socket.session.peer_certificates().and_then(<[_]>::first);
        let Some(certificate) = certificate else { return Ok(()) };
        let subject = distinguished_name(certificate).and_then(|subject| {
            let address = connection.peer.address.map(|address| address.ip());
            let verify = |address| self.tls.verify_client_host(certificate, address);
            address.map_or(Ok(()), verify).map(|()| subject)
        });
        let subject = subject.map_err(|error| {
            connection.peer.stats.server.auth_failed.add(1);
            HandshakeFailure::Certificate(error)
        })?;
        connection.authenticate_certificate(&subject).map_err(HandshakeFailure::Identity)
    }

    async fn shake_hands(
        &self,
        socket: &mut TlsSocket,
        received: BytesMut,
    ) -> Result<BytesMut, HandshakeFailure> {
        let mut input = BytesMut::new();
        let mut is_silent = received.is_empty();
        let mut encrypted = received;
        loop {
            socket.write_all(&mut nothing()).await.map_err(HandshakeFailure::Io)?;
            if !socket.session.is_handshaking() {
                return Ok(input);
            }
            if encrypted.is_empty() {
                read_encrypted(socket, &mut encrypted).await.map_err(HandshakeFailure::Io)?;
            }
            match encrypted.len() {
                0 if is_silent => return Err(HandshakeFailure::Silent),
                0 => return Err(HandshakeFailure::Io(io::ErrorKind::UnexpectedEof.into())),
                _ => is_silent = false,
            }
            let permit = self.computing.acquire().await;
            let taken = socket.take(&encrypted, &mut input);
            drop(permit);
            taken.map_err(failure)?;
            encrypted.clear();
        }
    }
}

async fn read_encrypted(socket: &mut TlsSocket, encrypted: &mut BytesMut) -> io::Result<()> {
    // The buffer is no part of the future, in which it would stay as long as the connection.
    std::future::poll_fn(|context| {
        let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        ready!(socket.poll_read_encrypted(context, &mut buffer))?;
        encrypted.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(()))
    })
    .await
}

/// Sends the alert that tells the client why, and waits until it has read it: closing a socket with
/// unread bytes would take it back.
async fn refuse(socket: &mut TlsSocket) -> io::Result<()> {
    socket.write_all(&mut nothing()).await?;
    socket.shutdown().await?;
    let mut unread = BytesMut::new();
    loop {
        read_encrypted(socket, &mut unread).await?;
        if unread.is_empty() {
            return Ok(());
        }
        unread.clear();
    }
}

fn failure(error: io::Error) -> HandshakeFailure {
    match error.downcast::<rustls::Error>() {
        Ok(error) => error.into(),
        Err(error) => HandshakeFailure::Io(error),
    }
}

/// What went wrong, and what to do about it.
fn reason(error: &rustls::Error) -> String {
    use rustls::Error::{
        AlertReceived, InvalidCertificate, NoCertificatesPresented, PeerIncompatible,
    };
    match error {
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => {
            "the client does not speak TLS; plaintext clients must connect to clientPort".to_owned()
        }
        NoCertificatesPresented => "the client showed no certificate; give it one, or set \
                                    ssl.clientAuth to want or none"
            .to_owned(),
        InvalidCertificate(CertificateError::UnknownIssuer) => {
            "no authority in the trust store has issued the client's certificate".to_owned()
        }
        InvalidCertificate(error) => format!("the client's certificate is not accepted: {error}"),
        PeerIncompatible(error) => {
            format!("client and server have no protocol or cipher suite in common: {error:?}")
        }
        AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired),
        ) => {
            format!("the client does not accept this server's certificate ({alert:?})")
        }
        error => error.to_string(),
    }
}

/// A handshake that is under way, until it is dropped.
struct Outstanding<'a>(&'a ServerStats);

impl<'a> Outstanding<'a> {
    fn begin(stats: &'a ServerStats, max: Option<usize>) -> Result<Self, HandshakeFailure> {
        let before = stats.outstanding_handshakes.fetch_add(1, Ordering::Relaxed);
        let begun = Self(stats);
        match max {
            Some(max) if before >= max => {
                stats.handshakes_exceeded.add(1);
                Err(HandshakeFailure::Exceeded(max))
            }
            _ => Ok(begun),
        }
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        self.0.outstanding_handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}
