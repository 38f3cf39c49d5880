//! A transaction as a record of the log: `TxnHeader`, the transaction, and possibly a digest.

use std::sync::{Arc, LazyLock};

use bytes::{Buf, Bytes, BytesMut};
use zoolet_core::{CreateTxn, Data, TTL_MS_MAX, Txn, TxnOp};
use zoolet_protocol::{
    Acl, CreateKind, DecodeError, Encode, ErrorCode, OpCode, PathError, RawPath, SessionId, Xid,
    ZPath, Zxid, decode_front,
};

zoolet_protocol::record! {
    /// The header of every transaction.
    #[derive(Debug)]
    struct TxnHeader {
        session: SessionId,
        cxid: Xid,
        zxid: Zxid,
        time_ms: i64,
        op: OpCode,
    }
}

zoolet_protocol::record! {
    /// A digest of the tree after the transaction, by which ZooKeeper finds servers that differ
    /// (`TxnDigest`). It may be missing.
    ///
    /// ```
    /// use zoolet_server::storage::TxnDigest;
    ///
    /// let digest = TxnDigest { version: 2, tree: 0x51c6_d660 };
    /// assert_eq!(digest.version, 2);
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TxnDigest {
        /// The version of its algorithm.
        pub version: i32,
        /// The digest.
        pub tree: i64,
    }
}

zoolet_protocol::record! {
    /// One operation of a multi: its code, and its record in a buffer.
    struct SubTxn {
        op: OpCode,
        record: Option<Bytes>,
    }
}

/// Why the bytes of a record are not a transaction.
///
/// ```
/// use bytes::Bytes;
/// use zoolet_server::storage::decode_txn;
///
/// let error = decode_txn(Bytes::from_static(&[0; 9])).unwrap_err();
/// assert_eq!(error.to_string(), "TxnHeader: the bytes end within a field (1 left)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TxnRecordError {
    /// A field cannot be decoded.
    #[error(transparent)]
    Field(#[from] DecodeError),
    /// A path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A path, a list or a record is null.
    #[error("{0} is null")]
    Null(&'static str),
    /// The type of the transaction is unknown.
    #[error("a transaction of type {0:?}")]
    Type(OpCode),
    /// The time to live of a znode is none that a client can set.
    #[error("a time to live of {0} ms; it must be from 1 to {TTL_MS_MAX}")]
    Ttl(i64),
}

/// Appends the record of a transaction, without a digest.
///
/// ```
/// use bytes::BytesMut;
/// use zoolet_core::{Core, Settings};
/// use zoolet_protocol::SessionId;
/// use zoolet_server::storage::{decode_txn, encode_txn};
///
/// let txn = Core::new(Settings::default()).prepare_create_session(SessionId(1), 30_000, 0);
/// let mut record = BytesMut::new();
/// encode_txn(&txn, &mut record);
/// assert_eq!(decode_txn(record.freeze()), Ok((txn, None)));
/// ```
pub fn encode_txn(txn: &Txn, out: &mut BytesMut) {
    let header = TxnHeader {
        session: txn.session,
        cxid: txn.cxid,
        zxid: txn.zxid,
        time_ms: txn.time_ms,
        op: txn.op.op_code(),
    };
    header.encode(out);
    encode_op(&txn.op, out);
}

fn encode_op(op: &TxnOp, out: &mut BytesMut) {
    match op {
        TxnOp::CreateSession { timeout_ms } => timeout_ms.encode(out),
        TxnOp::CloseSession { paths } => {
            encode_count(paths.len(), out);
            paths.iter().for_each(|path| encode_path(path, out));
        }
        TxnOp::Create(create) => encode_create(create, out),
        TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => encode_path(path, out),
        TxnOp::SetData { path, data, version } => {
            encode_path(path, out);
            data.encode(out);
            version.encode(out);
        }
        TxnOp::SetAcl { path, acl, version } => {
            encode_path(path, out);
            encode_acl(acl, out);
            version.encode(out);
        }
        TxnOp::Check { path, version } => {
            encode_path(path, out);
            version.encode(out);
        }
        TxnOp::Multi(ops) => {
            encode_count(ops.len(), out);
            for op in ops {
                let mut record = BytesMut::new();
                encode_op(op, &mut record);
                SubTxn { op: op.op_code(), record: Some(record.freeze()) }.encode(out);
            }
        }
        TxnOp::Error(code) => code.encode(out),
    }
}

fn encode_create(create: &CreateTxn, out: &mut BytesMut) {
    encode_path(&create.path, out);
    create.data.as_deref().encode(out);
    encode_acl(&create.acl, out);
    match create.kind {
        CreateKind::Create | CreateKind::Create2 => create.ephemeral.encode(out),
        CreateKind::Container | CreateKind::Ttl { .. } => {}
    }
    create.parent_cversion.encode(out);
    if let CreateKind::Ttl { ttl_ms } = create.kind {
        ttl_ms.encode(out);
    }
}

fn encode_path(path: &ZPath, out: &mut BytesMut) {
    RawPath::from(path).encode(out);
}

fn encode_acl(acl: &[Acl], out: &mut BytesMut) {
    encode_count(acl.len(), out);
    acl.iter().for_each(|entry| entry.encode(out));
}

fn encode_count(count: usize, out: &mut BytesMut) {
    i32::try_from(count).expect("what a request carries is counted by an int").encode(out);
}

/// Decodes the record of a transaction, and the digest if there is one. The data of a `setData` share the memory
/// of `record`, and those of a create are copied.
///
/// # Errors
///
/// [`TxnRecordError`] if it is not a transaction.
pub fn decode_txn(mut record: Bytes) -> Result<(Txn, Option<TxnDigest>), TxnRecordError> {
    let header: TxnHeader = decode_front(&mut record)?;
    let op = decode_op(header.op, &mut record)?;
    let digest = if record.is_empty() { None } else { Some(decode_front(&mut record)?) };
    let TxnHeader { session, cxid, zxid, time_ms, .. } = header;
    Ok((Txn { session, cxid, zxid, time_ms, op }, digest))
}

fn decode_op(op: OpCode, record: &mut Bytes) -> Result<TxnOp, TxnRecordError> {
    Ok(match op {
        OpCode::CREATE_SESSION => TxnOp::CreateSession { timeout_ms: decode_front(record)? },
        // ZooKeeper before 3.6 wrote no digests.
        OpCode::CLOSE_SESSION if record.is_empty() => TxnOp::CloseSession { paths: Vec::new() },
        OpCode::CLOSE_SESSION => TxnOp::CloseSession { paths: decode_paths(record)? },
        OpCode::CREATE => decode_create(CreateKind::Create, record)?,
        OpCode::CREATE2 => decode_create(CreateKind::Create2, record)?,
        OpCode::CREATE_CONTAINER => decode_create(CreateKind::Container, record)?,
        OpCode::CREATE_TTL => decode_create(CreateKind::Ttl { ttl_ms: 0 }, record)?,
        OpCode::DELETE => TxnOp::Delete { path: decode_path(record)? },
        OpCode::DELETE_CONTAINER => TxnOp::DeleteContainer { path: decode_path(record)? },
        // ZooKeeper logs a reconfiguration as a change of the znode with the configuration.
        OpCode::SET_DATA | OpCode::RECONFIG => TxnOp::SetData {
            path: decode_path(record)?,
            data: decode_front(record)?,
            version: decode_front(record)?,
        },
        OpCode::SET_ACL => TxnOp::SetAcl {
            path: decode_path(record)?,
            acl: decode_acl(record)?,
            version: decode_front(record)?,
        },
        OpCode::CHECK => {
            TxnOp::Check { path: decode_path(record)?, version: decode_front(record)? }
        }
        OpCode::MULTI => TxnOp::Multi(decode_multi(record)?),
        OpCode::ERROR => TxnOp::Error(decode_front::<ErrorCode>(record)?),
        other => return Err(TxnRecordError::Type(other)),
    })
}

fn decode_multi(record: &mut Bytes) -> Result<Vec<TxnOp>, TxnRecordError> {
    let subs: Vec<SubTxn> =
        decode_front::<Option<Vec<SubTxn>>>(record)?.ok_or(TxnRecordError::Null("a multi"))?;
    let decode = |SubTxn { op, record }: SubTxn| {
        let mut record = record.ok_or(TxnRecordError::Null("a part of a multi"))?;
        if may_be_in_multi(op) { decode_op(op, &mut record) } else { Err(TxnRecordError::Type(op)) }
    };
    subs.into_iter().map(decode).collect()
}

/// A nested multi could be as deep as the record is long.
fn may_be_in_multi(op: OpCode) -> bool {
    let alone = [OpCode::CREATE_SESSION, OpCode::CLOSE_SESSION, OpCode::SET_ACL, OpCode::MULTI];
    !alone.contains(&op)
}

fn decode_create(kind: CreateKind, record: &mut Bytes) -> Result<TxnOp, TxnRecordError> {
    let path = decode_path(record)?;
    let data = decode_front::<Option<Bytes>>(record)?.as_deref().map(Data::copied);
    let acl = decode_acl(record)?;
    let ephemeral = match kind {
        CreateKind::Create | CreateKind::Create2 => decode_front(record)?,
        CreateKind::Container | CreateKind::Ttl { .. } => false,
    };
    // ZooKeeper before 3.4 did not write this field.
    let parent_cversion =
        if record.is_empty() { CreateTxn::PARENT_CVERSION_UNKNOWN } else { decode_front(record)? };
    let kind = match kind {
        CreateKind::Ttl { .. } => match decode_front(record)? {
            // Others do not fit beside the mark of a TTL znode in its owner.
            ttl_ms @ 1..=TTL_MS_MAX => CreateKind::Ttl { ttl_ms },
            ttl_ms => return Err(TxnRecordError::Ttl(ttl_ms)),
        },
        kind => kind,
    };
    Ok(TxnOp::Create(CreateTxn { kind, path, data, acl, ephemeral, parent_cversion }))
}

fn decode_path(record: &mut Bytes) -> Result<ZPath, TxnRecordError> {
    // Nearly all are valid as they are, and need no text of their own that shares the record.
    if let Some(text) = front_text(record)
        && let Ok(path) = ZPath::parse(text)
    {
        record.advance(LENGTH_BYTES + path.len());
        return Ok(path);
    }
    path_of(&decode_front(record)?)
}

/// The bytes of a length.
const LENGTH_BYTES: usize = 4;

/// The text at the front of a record, if it is one.
fn front_text(record: &[u8]) -> Option<&str> {
    let (length, rest) = record.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    std::str::from_utf8(rest.get(..length)?).ok()
}

fn path_of(path: &RawPath) -> Result<ZPath, TxnRecordError> {
    Ok(ZPath::parse(path.text().ok_or(TxnRecordError::Null("a path"))?)?)
}

fn decode_paths(record: &mut Bytes) -> Result<Vec<ZPath>, TxnRecordError> {
    let paths: Option<Vec<RawPath>> = decode_front(record)?;
    paths.ok_or(TxnRecordError::Null("a list of paths"))?.iter().map(path_of).collect()
}

/// The access control list that most znodes have, and its bytes.
static OPEN: LazyLock<(Arc<[Acl]>, Bytes)> = LazyLock::new(|| {
    let (open, mut bytes) = (Arc::from([Acl::open()]), BytesMut::new());
    encode_acl(&open, &mut bytes);
    (open, bytes.freeze())
});

fn decode_acl(record: &mut Bytes) -> Result<Arc<[Acl]>, TxnRecordError> {
    let (open, bytes) = &*OPEN;
    if record.starts_with(bytes) {
        record.advance(bytes.len());
        return Ok(open.clone());
    }
    let acl = decode_front::<Option<Vec<Acl>>>(record)?;
    Ok(acl.ok_or(TxnRecordError::Null("an access control list"))?.into())
}
