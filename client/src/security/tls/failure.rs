//! What is wrong when TLS fails, and what to do about it.

use std::io;

use zoolet_tls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// The error of a failed handshake. It has the kind [`io::ErrorKind::InvalidData`] if another attempt
/// would fail in the same way.
pub(super) fn of_handshake(error: io::Error) -> io::Error {
    match error.downcast::<Error>() {
        Ok(error) => of_tls(&error),
        Err(error) => {
            let text = format!(
                "the connection ended during the TLS handshake; does the server speak TLS on this \
                 port? ({error})"
            );
            io::Error::new(error.kind(), text)
        }
    }
}

/// The error of a server that speaks plaintext.
pub(super) fn of_plaintext() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, SPEAKS_PLAINTEXT)
}

const SPEAKS_PLAINTEXT: &str = "the server does not speak TLS on this port; name its \
                                secureClientPort, or connect without TLS";

/// The error of what the TLS library refuses.
pub(super) fn of_tls(error: &Error) -> io::Error {
    let text = match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => return of_plaintext(),
        Error::InvalidCertificate(error) => untrusted(error),
        Error::AlertReceived(alert) => refused(*alert),
        Error::PeerIncompatible(error) => {
            format!("client and server have no protocol or cipher suite in common: {error:?}")
        }
        error => format!("TLS failed: {error}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Why the server's certificate is not accepted.
fn untrusted(error: &CertificateError) -> String {
    let (why, cure) = match error {
        CertificateError::UnknownIssuer => (
            "the trust store has no authority that has issued it".to_owned(),
            "give the certificate of its authority as trust store",
        ),
        CertificateError::BadSignature => (
            "an authority in the trust store has its issuer's name, and another key".to_owned(),
            "give the certificate of its authority as trust store",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            error.to_string(),
            "connect by a name that it has, or set the server name that it must have",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (error.to_string(), "the server needs a new one")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (error.to_string(), "check the clocks of both machines")
        }
        error => return format!("the server's certificate is not accepted: {error}"),
    };
    format!("the server's certificate is not trusted: {why}; {cure}")
}

/// Why the server has refused this client.
fn refused(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::CertificateRequired => {
            "it wants a certificate of this client; give a key store"
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => {
            "it does not accept this client's certificate, or wants one; its log says why"
        }
        AlertDescription::CertificateExpired | AlertDescription::CertificateRevoked => {
            "this client's certificate has expired or was revoked; give a new one"
        }
        AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
            "client and server have no protocol or cipher suite in common, or it wants a certificate \
             of this client"
        }
        _ => "its log says why",
    };
    format!("the server refused the TLS connection ({alert:?}): {why}")
}
