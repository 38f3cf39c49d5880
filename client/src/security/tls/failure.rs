//! What is wrong when TLS fails, and what to do about it.

use std::io;

use zoolet_tls::SettingNames;
use zoolet_tls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// The error of a failed handshake. It has the kind [`io::ErrorKind::InvalidData`] if another attempt
/// would fail in the same way.
pub(super) fn of_handshake(error: io::Error, names: SettingNames) -> io::Error {
    match error.downcast::<Error>() {
        Ok(error) => of_tls(&error, names),
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

/// The error of a connection after its handshake. With TLS 1.3 that includes the server's opinion of the
/// client's certificate.
pub(super) fn of_stream(error: io::Error, names: SettingNames) -> io::Error {
    match error.downcast::<Error>() {
        Ok(error) => of_tls(&error, names),
        Err(error) => error,
    }
}

/// The error of what the TLS library refuses.
pub(super) fn of_tls(error: &Error, names: SettingNames) -> io::Error {
    let text = match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => return of_plaintext(),
        Error::InvalidCertificate(error) => untrusted(error, names),
        Error::AlertReceived(alert) => refused(*alert, names),
        Error::PeerIncompatible(error) => {
            format!("client and server have no protocol or cipher suite in common: {error:?}")
        }
        error => format!("TLS failed: {error}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Why the server's certificate is not accepted.
fn untrusted(error: &CertificateError, names: SettingNames) -> String {
    let SettingNames { trust_store, server_name, .. } = names;
    let authority = || format!("give the certificate of its authority by {trust_store}");
    let (why, cure) = match error {
        CertificateError::UnknownIssuer => {
            ("the trust store has no authority that has issued it".to_owned(), authority())
        }
        CertificateError::BadSignature => (
            "an authority in the trust store has its issuer's name, and another key".to_owned(),
            authority(),
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            error.to_string(),
            format!("connect by a name that it has, or give the name by {server_name}"),
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (error.to_string(), "the server needs a new one".to_owned())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (error.to_string(), "check the clocks of both machines".to_owned())
        }
        error => return format!("the server's certificate is not accepted: {error}"),
    };
    format!("the server's certificate is not trusted: {why}; {cure}")
}

/// Why the server has refused this client.
fn refused(alert: AlertDescription, names: SettingNames) -> String {
    let SettingNames { key_store, .. } = names;
    let why = match alert {
        AlertDescription::CertificateRequired => {
            format!("it wants a certificate of this client; give one by {key_store}")
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => {
            format!(
                "it does not accept this client's certificate, or wants one; give another by \
                 {key_store}. Its log says why"
            )
        }
        AlertDescription::CertificateExpired | AlertDescription::CertificateRevoked => {
            format!(
                "this client's certificate has expired or was revoked; give a new one by {key_store}"
            )
        }
        AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => {
            format!(
                "client and server have no protocol or cipher suite in common, or it wants a \
                 certificate of this client, to be given by {key_store}"
            )
        }
        _ => "its log says why".to_owned(),
    };
    format!("the server refused the TLS connection ({alert:?}): {why}")
}
