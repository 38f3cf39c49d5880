//! Handshakes: how many there may be, what they may cost the other clients, and how they fail.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use zoolet_tls::rustls::{
    self, AlertDescription, CertificateError, InvalidMessage, ServerConnection,
};
use zoolet_tls::{ServerTls, TlsError, distinguished_name};

use super::socket::{TlsSocket, nothing};
use crate::engine::clock::now;
use crate::engine::connection::{Connection, Hangup};
use crate::engine::lock::Engine;
use crate::limits::{HANDSHAKE_TIMEOUT, LINGER_TIMEOUT, READ_BYTES};
use crate::transport::socket::Socket;

/// Makes TLS sockets of TCP sockets.
#[derive(Debug)]
pub(crate) struct Acceptor {
    tls: Arc<ServerTls>,
    /// `netty.server.outstandingHandshake.limit`.
    outstanding_max: Option<usize>,
    /// Its handshakes that are under way.
    outstanding: AtomicUsize,
    advice: Advice,
}

/// What to do about clients whose handshakes fail, which depends on the port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advice {
    /// About one that speaks plaintext.
    pub(crate) plaintext: &'static str,
    /// About one without a certificate.
    pub(crate) no_certificate: &'static str,
}

/// Why there is no TLS socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeFailure {
    #[error("{0} handshakes are under way; netty.server.outstandingHandshake.limit sets the limit")]
    Exceeded(usize),
    #[error("no whole TLS handshake in {HANDSHAKE_TIMEOUT:?}")]
    TimedOut,
    #[error("the client closed the connection before it sent anything")]
    Silent,
    #[error("the TLS handshake failed: {}", reason(.error, *.advice))]
    Tls { error: rustls::Error, advice: Advice },
    #[error("the connection ended in the TLS handshake: {0}")]
    Io(io::Error),
    #[error(transparent)]
    Certificate(TlsError),
    #[error(transparent)]
    Identity(Hangup),
}

impl Acceptor {
    pub(crate) fn new(tls: Arc<ServerTls>, outstanding_max: Option<usize>, advice: Advice) -> Self {
        Self { tls, outstanding_max, outstanding: AtomicUsize::new(0), advice }
    }

    /// Carries a handshake out. The client has sent `received` already. Returns the socket, and what
    /// the client sent after its handshake.
    pub(crate) async fn accept(
        &self,
        begun: Begun<'_>,
        stream: TcpStream,
        received: BytesMut,
        engine: &Engine,
    ) -> Result<(TlsSocket, BytesMut), HandshakeFailure> {
        let mut socket = None;
        let shaken = self.shake_hands(stream, received, &mut socket, engine);
        let shaken = tokio::time::timeout_at(begun.deadline, shaken).await;
        drop(begun);
        let failure = match shaken {
            Ok(Ok(input)) => return Ok((socket.expect("it has shaken hands"), input)),
            Ok(Err(failure)) => counted(failure, engine),
            Err(_) => timed_out(engine),
        };
        if let (HandshakeFailure::Tls { .. }, Some(socket)) = (&failure, &mut socket) {
            let _ = tokio::time::timeout(LINGER_TIMEOUT, refuse(socket)).await;
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

    /// Counts a handshake that begins with an accepted connection, until the returned value is
    /// dropped.
    pub(crate) fn begin<'a>(&'a self, engine: &'a Engine) -> Result<Begun<'a>, HandshakeFailure> {
        let stats = &engine.stats;
        let before = self.outstanding.fetch_add(1, Ordering::Relaxed);
        stats.outstanding_handshakes.fetch_add(1, Ordering::Relaxed);
        let outstanding = [&self.outstanding, &stats.outstanding_handshakes];
        let begun = Begun { outstanding, deadline: now() + HANDSHAKE_TIMEOUT };
        match self.outstanding_max {
            Some(max) if before >= max => {
                stats.handshakes_exceeded.add(1);
                Err(HandshakeFailure::Exceeded(max))
            }
            _ => Ok(begun),
        }
    }

    fn failed(&self, error: rustls::Error) -> HandshakeFailure {
        HandshakeFailure::Tls { error, advice: self.advice }
    }

    /// Returns what the client sent after its handshake. `socket` is the socket from the beginning
    /// of the handshake on.
    async fn shake_hands(
        &self,
        mut stream: TcpStream,
        received: BytesMut,
        socket: &mut Option<TlsSocket>,
        engine: &Engine,
    ) -> Result<BytesMut, HandshakeFailure> {
        let mut encrypted = received;
        if encrypted.is_empty() {
            read_encrypted(&mut stream, &mut encrypted).await.map_err(HandshakeFailure::Io)?;
        }
        if encrypted.is_empty() {
            return Err(HandshakeFailure::Silent);
        }
        let begins = engine.new_handshakes.acquire().await;
        // A client that has given up meanwhile costs no more.
        read_waiting(&stream, &mut encrypted).map_err(HandshakeFailure::Io)?;
        let session = ServerConnection::new(self.tls.config());
        let session = session.map_err(|error| self.failed(error))?;
        let socket = socket.insert(TlsSocket::new(stream, session));
        let mut input = BytesMut::new();
        self.compute(socket, &mut encrypted, &mut input, engine).await?;
        drop(begins);
        loop {
            socket.write_all(&mut nothing()).await.map_err(HandshakeFailure::Io)?;
            if !socket.session.is_handshaking() {
                return Ok(input);
            }
            let read = read_encrypted(&mut socket.stream, &mut encrypted).await;
            read.map_err(HandshakeFailure::Io)?;
            if encrypted.is_empty() {
                return Err(HandshakeFailure::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            self.compute(socket, &mut encrypted, &mut input, engine).await?;
        }
    }

    /// Takes what came in, which may be a step of the handshake.
    async fn compute(
        &self,
        socket: &mut TlsSocket,
        encrypted: &mut BytesMut,
        input: &mut BytesMut,
        engine: &Engine,
    ) -> Result<(), HandshakeFailure> {
        let permit = engine.handshakes.acquire().await;
        let taken = socket.take(encrypted, input);
        drop(permit);
        encrypted.clear();
        taken.map(drop).map_err(|error| match error.downcast() {
            Ok(error) => self.failed(error),
            Err(error) => HandshakeFailure::Io(error),
        })
    }
}

/// Counts a handshake that did not come to its end in time.
pub(super) fn timed_out(engine: &Engine) -> HandshakeFailure {
    counted(HandshakeFailure::TimedOut, engine)
}

fn counted(failure: HandshakeFailure, engine: &Engine) -> HandshakeFailure {
    engine.stats.unsuccessful_handshakes.add(1);
    // As `NettyServerCnxnFactory.CertificateVerifier` counts.
    engine.stats.auth_failed.add(1);
    failure
}

async fn read_encrypted(stream: &mut TcpStream, encrypted: &mut BytesMut) -> io::Result<()> {
    // The buffer is no part of the future, in which it would stay as long as the connection.
    std::future::poll_fn(|context| {
        let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
        encrypted.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(()))
    })
    .await
}

/// Reads what has come in, without waiting. It is an error if the stream has ended.
fn read_waiting(stream: &TcpStream, encrypted: &mut BytesMut) -> io::Result<()> {
    let mut buffer = [0; READ_BYTES];
    match stream.try_read(&mut buffer) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(bytes) => {
            encrypted.extend_from_slice(&buffer[..bytes]);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sends the alert that tells the client why, and waits until it has read it: closing a socket with
/// unread bytes would take it back.
async fn refuse(socket: &mut TlsSocket) -> io::Result<()> {
    socket.write_all(&mut nothing()).await?;
    socket.shutdown().await?;
    let mut unread = BytesMut::new();
    loop {
        read_encrypted(&mut socket.stream, &mut unread).await?;
        if unread.is_empty() {
            return Ok(());
        }
        unread.clear();
    }
}

/// What went wrong, and what to do about it.
fn reason(error: &rustls::Error, advice: Advice) -> String {
    use rustls::Error::{
        AlertReceived, InvalidCertificate, NoCertificatesPresented, PeerIncompatible,
    };
    match error {
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => format!("the client does not speak TLS; {}", advice.plaintext),
        NoCertificatesPresented => {
            format!("the client showed no certificate; {}", advice.no_certificate)
        }
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
#[derive(Debug)]
pub(crate) struct Begun<'a> {
    /// The numbers of these.
    outstanding: [&'a AtomicUsize; 2],
    /// When it must have come to its end.
    pub(crate) deadline: Instant,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        for number in self.outstanding {
            number.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
