//! The paths that a request names.

use zoolet_protocol::{OpCode, RawPath, Read, Request, SetWatches, Watch, Write};

/// Calls `each` for every path that a request names, with the operation that names it: within a
/// multi, the operation in the multi.
pub(crate) fn each(request: &Request, mut each: impl FnMut(OpCode, &str)) {
    let op = request.op_code();
    let mut one = |op: OpCode, path: &RawPath| {
        if let Some(path) = path.text() {
            each(op, path);
        }
    };
    match request {
        Request::Read(read) => match read {
            Read::Lookup(lookup) => one(op, lookup.path()),
            Read::GetAcl(path)
            | Read::Sync(path)
            | Read::GetEphemerals(path)
            | Read::GetAllChildrenNumber(path) => one(op, path),
            Read::CheckWatches(check) => one(op, &check.path),
            Read::MultiRead(reads) => {
                reads.iter().for_each(|read| one(read.op_code(), read.path()));
            }
        },
        Request::Watch(watch) => match watch {
            Watch::Lookup(lookup) => one(op, lookup.path()),
            Watch::Add(add) => one(op, &add.path),
            Watch::Remove(remove) => one(op, &remove.path),
            Watch::Set(lists) | Watch::Set2(lists) => {
                names(lists).for_each(|path| each(op, path));
            }
        },
        Request::Write(write) => match write {
            Write::Op(write) => one(op, write.path()),
            Write::SetAcl(set_acl) => one(op, &set_acl.path),
            Write::DeleteContainer(path) => one(op, path),
            Write::Multi(ops) => ops.iter().for_each(|write| one(write.op_code(), write.path())),
            Write::Reconfig(_) | Write::CloseSession => {}
        },
        Request::Session(_) | Request::Unknown { .. } => {}
    }
}

fn names(lists: &SetWatches) -> impl Iterator<Item = &str> {
    let lists =
        [&lists.data, &lists.exist, &lists.child, &lists.persistent, &lists.persistent_recursive];
    lists.into_iter().flat_map(|names| names.iter())
}
