//! Transactions and znodes as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zoolet_core::{CreateTxn, EphemeralOwner, EphemeralType, StatPersisted, TxnOp};
use zoolet_protocol::{Acl, CreateKind};
use zoolet_server::storage::LogRecord;

/// Data as text if it is text.
pub(super) fn data(data: Option<&[u8]>) -> (Option<String>, Option<String>) {
    match data.map(|data| std::str::from_utf8(data).map_err(|_| data)) {
        None => (None, None),
        Some(Ok(text)) => (Some(text.to_owned()), None),
        Some(Err(bytes)) => (None, Some(STANDARD.encode(bytes))),
    }
}

pub(super) fn acl(acl: &[Acl]) -> Vec<String> {
    acl.iter().map(Acl::to_string).collect()
}

pub(super) fn time(ms: i64) -> String {
    // Always three digits, so that times align.
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| format!("{time:.3}"))
}

/// A znode, as a line of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ZnodeLine {
    pub(super) path: String,
    /// Missing if the data is null or not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    /// The data in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) data_base64: Option<String>,
    /// Missing if the list is the open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) acl: Option<Vec<String>>,
    /// Missing if the znode is persistent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<KindLine>,
    /// For readers only: an import assigns new values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stat: Option<Value>,
}

/// What deletes the znode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindLine {
    Container,
    TtlMs(i64),
    EphemeralOf(String),
}

impl ZnodeLine {
    pub(super) fn new(
        path: String,
        bytes: Option<&[u8]>,
        entries: Option<&[Acl]>,
        stat: &StatPersisted,
    ) -> Self {
        let (data, data_base64) = data(bytes);
        let kind = kind(stat.ephemeral_owner);
        let stat = Some(stat_line(stat));
        Self { path, data, data_base64, acl: entries.map(acl), kind, stat }
    }

    /// The data, or why it cannot be decoded.
    pub(super) fn bytes(&self) -> Result<Option<Bytes>, String> {
        match (&self.data, &self.data_base64) {
            (Some(_), Some(_)) => {
                Err("it has data and data_base64; one of them is too much".into())
            }
            (Some(text), None) => Ok(Some(text.clone().into())),
            (None, Some(text)) => match STANDARD.decode(text) {
                Ok(bytes) => Ok(Some(bytes.into())),
                Err(error) => Err(format!("data_base64: {error}")),
            },
            (None, None) => Ok(None),
        }
    }
}

fn kind(owner: EphemeralOwner) -> Option<KindLine> {
    match owner.ephemeral_type() {
        EphemeralType::Persistent => None,
        EphemeralType::Container => Some(KindLine::Container),
        EphemeralType::Ttl { ttl_ms } => Some(KindLine::TtlMs(ttl_ms)),
        EphemeralType::Ephemeral(session) => Some(KindLine::EphemeralOf(session.to_string())),
    }
}

fn stat_line(stat: &StatPersisted) -> Value {
    json!({
        "czxid": stat.czxid.to_string(),
        "mzxid": stat.mzxid.to_string(),
        "pzxid": stat.pzxid.to_string(),
        "ctime": time(stat.ctime),
        "mtime": time(stat.mtime),
        "version": stat.version,
        "created_children": stat.cversion,
        "aversion": stat.aversion,
    })
}

/// A transaction of a log.
pub(super) fn record(record: &LogRecord) -> Value {
    let txn = &record.txn;
    let mut line = json!({
        "offset": record.offset,
        "zxid": txn.zxid.to_string(),
        "time": time(txn.time_ms),
        "session": txn.session.to_string(),
        "cxid": txn.cxid.0,
    });
    merge(&mut line, op(&txn.op));
    line
}

fn merge(line: &mut Value, more: Value) {
    if let (Value::Object(line), Value::Object(more)) = (line, more) {
        line.extend(more);
    }
}

fn op(op: &TxnOp) -> Value {
    let mut line = json!({ "type": op.op_code().to_string() });
    merge(
        &mut line,
        match op {
            TxnOp::CreateSession { timeout_ms } => json!({ "timeout_ms": timeout_ms }),
            TxnOp::CloseSession { paths } => {
                json!({ "deleted": paths.iter().map(ToString::to_string).collect::<Vec<_>>() })
            }
            TxnOp::Create(create) => created(create),
            TxnOp::Delete { path } | TxnOp::DeleteContainer { path } => {
                json!({ "path": path.to_string() })
            }
            TxnOp::SetData { path, data, version } => {
                with_data(json!({ "path": path.to_string(), "version": version }), data.as_deref())
            }
            TxnOp::SetAcl { path, acl: list, version } => {
                json!({ "path": path.to_string(), "acl": acl(list), "version": version })
            }
            TxnOp::Check { path, version } => {
                json!({ "path": path.to_string(), "version": version })
            }
            TxnOp::Multi(ops) => json!({ "ops": ops.iter().map(self::op).collect::<Vec<_>>() }),
            TxnOp::Error(code) => json!({ "error": code.to_string() }),
        },
    );
    line
}

fn created(create: &CreateTxn) -> Value {
    let mut line = json!({
        "path": create.path.to_string(),
        "acl": acl(&create.acl),
        "parent_created_children": create.parent_cversion,
    });
    match create.kind {
        CreateKind::Ttl { ttl_ms } => line["ttl_ms"] = ttl_ms.into(),
        _ if create.ephemeral => line["ephemeral"] = true.into(),
        _ => {}
    }
    with_data(line, create.data.as_deref())
}

pub(super) fn with_data(mut line: Value, bytes: Option<&[u8]>) -> Value {
    match data(bytes) {
        (_, Some(base64)) => line["data_base64"] = base64.into(),
        (text, None) => line["data"] = text.into(),
    }
    line
}
