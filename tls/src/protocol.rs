//! The choices of a TLS configuration that have few values.

use std::fmt;
use std::str::FromStr;

use rustls::SupportedProtocolVersion;

use crate::TlsError;

/// A version of TLS, by Java's name: a value of `ssl.enabledProtocols`.
///
/// ```
/// use zoolet_tls::Protocol;
///
/// assert_eq!("TLSv1.3".parse::<Protocol>()?, Protocol::Tls13);
/// assert!("TLSv1.1".parse::<Protocol>().is_err());
/// # Ok::<(), zoolet_tls::TlsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TLS 1.2, `TLSv1.2`.
    Tls12,
    /// TLS 1.3, `TLSv1.3`.
    Tls13,
}

impl Protocol {
    /// All that are supported, which is the default.
    pub const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    pub(crate) fn version(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &rustls::version::TLS12,
            Self::Tls13 => &rustls::version::TLS13,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        })
    }
}

impl FromStr for Protocol {
    type Err = TlsError;

    fn from_str(name: &str) -> Result<Self, TlsError> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.to_string() == name)
            .ok_or_else(|| TlsError::Protocol { name: name.to_owned() })
    }
}

/// Whether clients show certificates: `ssl.clientAuth`.
///
/// ```
/// use zoolet_tls::ClientAuth;
///
/// assert_eq!("Want".parse::<ClientAuth>()?, ClientAuth::Want);
/// assert_eq!(ClientAuth::default(), ClientAuth::Need);
/// # Ok::<(), zoolet_tls::TlsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// No client is asked for a certificate.
    None,
    /// Clients are asked. A client without a certificate is accepted, with one that is not trusted
    /// it is not.
    Want,
    /// A client without a certificate that is trusted is not accepted.
    #[default]
    Need,
}

impl fmt::Display for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Want => "want",
            Self::Need => "need",
        })
    }
}

impl FromStr for ClientAuth {
    type Err = TlsError;

    fn from_str(name: &str) -> Result<Self, TlsError> {
        [Self::None, Self::Want, Self::Need]
            .into_iter()
            .find(|mode| mode.to_string().eq_ignore_ascii_case(name))
            .ok_or_else(|| TlsError::ClientAuth { name: name.to_owned() })
    }
}

/// Whether a certificate must be made for the host of the peer that shows it.
///
/// ```
/// use zoolet_tls::{ClientTlsOptions, HostnameVerification};
///
/// // Dangerous: any server with a certificate of the same authority may answer.
/// let options = ClientTlsOptions::new().hostname_verification(HostnameVerification::Off);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostnameVerification {
    /// It must have a subject alternative name that matches.
    On,
    /// It may be any that is trusted.
    Off,
}
