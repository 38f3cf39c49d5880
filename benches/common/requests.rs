//! Requests as values.

use bytes::Bytes;
use zoolet::protocol::{
    Acl, Create, CreateFlags, CreateKind, Delete, Expect, Lookup, MultiOp, RawPath, Read, SetData,
    Write,
};

/// The data of a znode.
pub(crate) const DATA: &[u8] = &[7; 100];

pub(crate) fn lookup(path: &str, wrap: fn(RawPath) -> Lookup) -> Read {
    Read::Lookup(wrap(path.into()))
}

pub(crate) fn create_op(path: &str, flags: CreateFlags) -> MultiOp {
    MultiOp::Create(Create {
        kind: CreateKind::Create,
        path: path.into(),
        data: Some(Bytes::from_static(DATA)),
        acl: Some(vec![Acl::open()]),
        flags,
    })
}

pub(crate) fn create(path: &str, flags: CreateFlags) -> Write {
    Write::Op(create_op(path, flags))
}

pub(crate) fn set_data(path: &str) -> Write {
    let data = Some(Bytes::from_static(DATA));
    Write::Op(MultiOp::SetData(SetData { path: path.into(), data, version: Expect::Any }))
}

pub(crate) fn delete(path: &str) -> Write {
    Write::Op(MultiOp::Delete(Delete { path: path.into(), version: Expect::Any }))
}
