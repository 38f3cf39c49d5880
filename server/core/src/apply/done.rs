//! What one operation has done, its part of the reply to a multi, and the Stat after a `setData`.

use zoolet_protocol::{ErrorCode, MultiResult, Stat, ZPath};

use crate::tree::{Place, Tree};

/// What one operation has done.
pub(super) enum Done<'a> {
    /// Created a znode, by a `create`.
    Created(&'a ZPath),
    /// Created a znode, by an operation whose reply has the Stat.
    CreatedWithStat(&'a ZPath, Stat),
    /// Deleted a znode.
    Deleted,
    /// Set the data of the znode at this place to so many bytes. Its Stat is read where the reply is made:
    /// to move it from one function to the next would take longer.
    Set(Place, usize),
    /// Compared a version.
    Checked,
}

impl Done<'_> {
    /// The part of the reply to a multi. The tree must not have changed since the operation.
    pub(super) fn result(done: &Result<Self, ErrorCode>, tree: &Tree) -> MultiResult {
        match done {
            Ok(Self::Created(path)) => MultiResult::Create(path.as_str().into()),
            Ok(Self::CreatedWithStat(path, stat)) => {
                MultiResult::Create2(path.as_str().into(), *stat)
            }
            Ok(Self::Deleted) => MultiResult::Delete,
            Ok(Self::Set(place, length)) => MultiResult::SetData(stat_of(*place, *length, tree)),
            Ok(Self::Checked) => MultiResult::Check,
            Err(code) => MultiResult::Error(*code),
        }
    }
}

/// The Stat of the znode at a place, as it was when its data were set. If it has the counters of a quota that
/// counts itself, its data have changed again since.
#[inline]
pub(super) fn stat_of(place: Place, length: usize, tree: &Tree) -> Stat {
    let stat = tree.at(place).expect("its data was set").stat();
    Stat { data_length: i32::try_from(length).expect("data fits a frame"), ..stat }
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::{Acl, CreateKind, Response, SessionId, Xid};

    use super::*;
    use crate::core::Core;
    use crate::settings::Settings;
    use crate::tree::Data;
    use crate::txn::{CreateTxn, Txn, TxnOp};

    fn apply(core: &mut Core, op: TxnOp) -> Result<Response, ErrorCode> {
        let (session, cxid, zxid) = (SessionId(1), Xid(1), core.last_zxid().next());
        core.apply(&Txn { session, cxid, zxid, time_ms: 1, op }).reply
    }

    #[test]
    fn a_stat_has_the_length_that_was_set_where_counters_count_themselves() {
        let mut core = Core::new(Settings::default());
        let quota = "/zookeeper/quota/zookeeper";
        let path = |name: &str| ZPath::parse(&format!("{quota}{name}")).expect("it is valid");
        for name in ["", "/zookeeper_limits", "/zookeeper_stats"] {
            let create = CreateTxn {
                kind: CreateKind::Create,
                path: path(name),
                data: Some(Data::copied(b"count=1,bytes=1")),
                acl: [Acl::open()].into(),
                ephemeral: false,
                parent_cversion: 1,
            };
            apply(&mut core, TxnOp::Create(create)).expect("it is created");
        }
        let path = path("/zookeeper_stats");
        let set = |bytes: &'static str| TxnOp::SetData {
            path: path.clone(),
            data: Some(bytes.into()),
            version: 1,
        };
        let alone = apply(&mut core, set("count=1,bytes=9999"));
        let Ok(Response::Stat(stat)) = alone else { panic!("{alone:?}") };
        assert_eq!(stat.data_length, 18);
        // Then the change of its own length was counted.
        let counted = core.tree.get(&path).and_then(|znode| znode.data.clone());
        assert_eq!(counted.as_deref(), Some(&b"count=1,bytes=10001"[..]));

        let in_multi = apply(&mut core, TxnOp::Multi(vec![set("count=1,bytes=2")]));
        let Ok(Response::Multi(results)) = &in_multi else { panic!("{in_multi:?}") };
        let [MultiResult::SetData(stat)] = &results[..] else { panic!("{results:?}") };
        assert_eq!(stat.data_length, 15);
        let counted = core.tree.get(&path).and_then(|znode| znode.data.clone());
        assert_eq!(counted.as_deref(), Some(&b"count=1,bytes=-2"[..]));
    }
}
