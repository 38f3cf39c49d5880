//! The handshake: the first frame in each direction, which has no header.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::id::{SessionId, Zxid};
use crate::jute::{Decode, Encode, Parsed, within};

/// The bytes of a session password.
pub const PASSWORD_BYTES: usize = 16;

/// The password of a session. A client that reconnects proves with it that the session is its own.
///
/// `Debug` does not show the bytes.
///
/// ```
/// use zoolet_protocol::Password;
///
/// assert_eq!(format!("{:?}", Password::from_bytes(vec![7; 16])), "Password(16 bytes)");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Password(Option<Bytes>);

impl Password {
    /// A null password.
    pub const NULL: Self = Self(None);

    /// A password of these bytes.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self(Some(bytes.into()))
    }

    /// A password of zeros: the reply to a client whose session has expired.
    #[must_use]
    pub fn zero() -> Self {
        Self(Some(Bytes::from_static(&[0; PASSWORD_BYTES])))
    }

    /// The password that ZooKeeper gives to a session.
    ///
    /// It is derived from the id alone, so it needs no storage and is the same after a restart:
    /// `java.util.Random`, seeded with the id and a public constant
    /// (`ZooKeeperServer.generatePasswd`). It does not protect a session from a client that knows
    /// the session's id.
    #[must_use]
    pub fn of(session: SessionId) -> Self {
        const SUPER_SECRET: i64 = 0xB341_5C00;
        const MULTIPLIER: u64 = 0x5_DEEC_E66D;
        const MASK: u64 = (1 << 48) - 1;
        let mut seed = ((session.0 ^ SUPER_SECRET) as u64 ^ MULTIPLIER) & MASK;
        let mut bytes = Vec::with_capacity(PASSWORD_BYTES);
        for _ in 0..PASSWORD_BYTES / 4 {
            seed = seed.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
            bytes.extend_from_slice(&((seed >> 16) as u32).to_le_bytes());
        }
        Self::from_bytes(bytes)
    }

    /// The bytes; empty for null.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Password({} bytes)", self.as_bytes().len())
    }
}

impl Decode for Password {
    const MIN_BYTES: usize = 4;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, bytes) = Option::<Bytes>::decode(frame, input)?;
        Ok((input, Self(bytes)))
    }
}

impl Encode for Password {
    fn encode(&self, out: &mut BytesMut) {
        self.0.encode(out);
    }

    fn encoded_len(&self) -> usize {
        self.0.encoded_len()
    }
}

/// The first frame that a client sends.
///
/// ```
/// use zoolet_protocol::{ConnectRequest, Encode, decode_all};
///
/// let request = ConnectRequest::new(30_000);
/// let mut frame = bytes::BytesMut::new();
/// request.encode(&mut frame);
/// assert_eq!(decode_all(&frame.freeze()), Ok(request));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Always 0.
    pub protocol_version: i32,
    /// The last zxid that the client received. A server that is behind it must not serve the
    /// client.
    pub last_zxid_seen: Zxid,
    /// The requested session timeout in milliseconds.
    pub timeout_ms: i32,
    /// The session to reattach to, or [`SessionId::NONE`] for a new one.
    pub session: SessionId,
    /// The password of that session.
    pub password: Password,
    /// Whether the client accepts a read-only server. `None` from clients before 3.4, which do not
    /// send the byte and do not accept one in the reply.
    pub read_only: Option<bool>,
}

impl ConnectRequest {
    /// A request for a new session.
    #[must_use]
    pub fn new(timeout_ms: i32) -> Self {
        Self {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout_ms,
            session: SessionId::NONE,
            password: Password::zero(),
            read_only: Some(false),
        }
    }
}

/// The first frame that a server sends.
///
/// ```
/// use zoolet_protocol::ConnectResponse;
///
/// assert!(ConnectResponse::refused(Some(false)).is_refused());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Always 0.
    pub protocol_version: i32,
    /// The negotiated session timeout in milliseconds; 0 if the session has expired.
    pub timeout_ms: i32,
    /// The session.
    pub session: SessionId,
    /// Its password.
    pub password: Password,
    /// Whether the server is read-only. `None` for clients that did not send the byte.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// The reply to a client whose session has expired or whose password is wrong.
    #[must_use]
    pub fn refused(read_only: Option<bool>) -> Self {
        Self {
            protocol_version: 0,
            timeout_ms: 0,
            session: SessionId::NONE,
            password: Password::zero(),
            read_only,
        }
    }

    /// Whether the server refused to reattach the session.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.timeout_ms <= 0
    }
}

/// Decodes a byte that may be missing.
fn optional_flag<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Option<bool>> {
    if input.is_empty() {
        return Ok((input, None));
    }
    let (input, flag) = bool::decode(frame, input)?;
    Ok((input, Some(flag)))
}

fn encode_optional_flag(flag: Option<bool>, out: &mut BytesMut) {
    if let Some(flag) = flag {
        flag.encode(out);
    }
}

impl Decode for ConnectRequest {
    const MIN_BYTES: usize = 28;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let fields = |input| {
            let (input, protocol_version) = i32::decode(frame, input)?;
            let (input, last_zxid_seen) = Zxid::decode(frame, input)?;
            let (input, timeout_ms) = i32::decode(frame, input)?;
            let (input, session) = SessionId::decode(frame, input)?;
            let (input, password) = Password::decode(frame, input)?;
            let (input, read_only) = optional_flag(frame, input)?;
            let request =
                Self { protocol_version, last_zxid_seen, timeout_ms, session, password, read_only };
            Ok((input, request))
        };
        within("ConnectRequest", fields(input))
    }
}

impl Encode for ConnectRequest {
    fn encode(&self, out: &mut BytesMut) {
        self.protocol_version.encode(out);
        self.last_zxid_seen.encode(out);
        self.timeout_ms.encode(out);
        self.session.encode(out);
        self.password.encode(out);
        encode_optional_flag(self.read_only, out);
    }

    fn encoded_len(&self) -> usize {
        24 + self.password.encoded_len() + usize::from(self.read_only.is_some())
    }
}

impl Decode for ConnectResponse {
    const MIN_BYTES: usize = 20;

    fn decode<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Self> {
        let fields = |input| {
            let (input, protocol_version) = i32::decode(frame, input)?;
            let (input, timeout_ms) = i32::decode(frame, input)?;
            let (input, session) = SessionId::decode(frame, input)?;
            let (input, password) = Password::decode(frame, input)?;
            let (input, read_only) = optional_flag(frame, input)?;
            Ok((input, Self { protocol_version, timeout_ms, session, password, read_only }))
        };
        within("ConnectResponse", fields(input))
    }
}

impl Encode for ConnectResponse {
    fn encode(&self, out: &mut BytesMut) {
        self.protocol_version.encode(out);
        self.timeout_ms.encode(out);
        self.session.encode(out);
        self.password.encode(out);
        encode_optional_flag(self.read_only, out);
    }

    fn encoded_len(&self) -> usize {
        16 + self.password.encoded_len() + usize::from(self.read_only.is_some())
    }
}
