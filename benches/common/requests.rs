//! Requests as values.

use bytes::Bytes;
use zoolet::protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, Expect, Lookup, MultiOp, RawPath, Read, SetData,
    Write,
};

/// The data of a znode.
pub const DATA: &[u8] = &[7; 100];

/// A read of one znode.
pub fn lookup(path: &str, wrap: fn(RawPath) -> Lookup) -> Read {
    Read::Lookup(wrap(path.into()))
}

/// A create with [`DATA`], as an operation of a multi.
#[must_use]
pub fn create_op(path: &str, flags: CreateFlags) -> MultiOp {
    MultiOp::Create(Create {
        kind: CreateKind::Create,
        path: path.into(),
        data: Some(Bytes::from_static(DATA)),
        acl: Some(vec![Acl::open()]),
        flags,
    })
}

/// A create with [`DATA`].
#[must_use]
pub fn create(path: &str, flags: CreateFlags) -> Write {
    Write::Op(create_op(path, flags))
}

/// A write of [`DATA`], whatever the version.
#[must_use]
pub fn set_data(path: &str) -> Write {
    let data = Some(Bytes::from_static(DATA));
    Write::Op(MultiOp::SetData(SetData { path: path.into(), data, version: Expect::Any }))
}

/// A delete, whatever the version.
#[must_use]
pub fn delete(path: &str) -> Write {
    Write::Op(MultiOp::Delete(Delete { path: path.into(), version: Expect::Any }))
}
