//! The quotas, compared with the znodes.

use std::collections::BTreeSet;

use super::{LIMITS, QUOTA_ROOT, QuotaZnode, Quotas, STATS, StatsTrack};
use crate::check::Findings;
use crate::tree::Tree;

impl Quotas {
    /// Compares the paths that have a quota with the znodes that hold limits, and the counters with
    /// the znodes that they count.
    pub(crate) fn check(&self, tree: &Tree, findings: &mut Findings) {
        let limits = tree.iter().filter_map(|znode| match QuotaZnode::at(&znode.path) {
            Some(QuotaZnode::Limits(quota)) if !quota.is_empty() => Some(quota),
            _ => None,
        });
        let listed = self.paths.iter().map(String::as_str).collect();
        findings.compare_index("the quotas", &listed, &limits.collect::<BTreeSet<_>>());
        for quota in self.paths.iter().filter(|quota| counts_everything(tree, quota)) {
            let stats = tree.get(&format!("{QUOTA_ROOT}{quota}/{STATS}"));
            let track = stats.and_then(StatsTrack::of);
            let value = |key| track.as_ref().map_or(-1, |track| track.value(key));
            let below = tree.below(quota);
            let what = || format!("the counted znodes of the quota on {quota}");
            findings.compare(what, value("count"), below.znodes as i64);
            let what = || format!("the counted bytes of the quota on {quota}");
            findings.compare(what, value("bytes"), below.data_bytes as i64);
        }
    }
}

/// Whether the counters of a quota are certain to count every znode at and below its path. In
/// ZooKeeper they do not always do that:
///
/// - A client may set them.
/// - They are counted when they are created, and afterwards only while the limits exist.
/// - A change counts for the deepest quota alone, so a quota below this one takes its changes away.
/// - A quota on the quotas does not count how its own data changes.
///
/// The directory of a quota shows whether any of that has happened: exactly two children were ever
/// created and both exist, the limits first, and no client has set the counters.
fn counts_everything(tree: &Tree, quota: &str) -> bool {
    let directory = format!("{QUOTA_ROOT}{quota}");
    let get = |name: &str| tree.get(&format!("{directory}/{name}")).map(|znode| znode.stat);
    let (Some(limits), Some(stats)) = (get(LIMITS), get(STATS)) else { return false };
    let is_alone = tree.get(&directory).is_some_and(|directory| directory.stat.cversion == 2);
    let is_on_quotas = quota == "/zookeeper" || quota.starts_with(QUOTA_ROOT);
    let is_unset = stats.version == 0 && stats.mzxid == stats.czxid;
    is_alone && !is_on_quotas && is_unset && limits.czxid < stats.czxid
}

#[cfg(test)]
mod tests {
    use zoolet_protocol::{ZPath, Zxid};

    use super::*;
    use crate::acl::AclList;
    use crate::ephemeral_owner::EphemeralOwner;
    use crate::tree::{Data, Znode};

    fn insert(tree: &mut Tree, path: &str, zxid: i64) {
        let (path, data) = (ZPath::parse(path).unwrap(), Some(Data::copied(b"12345")));
        let parent = path.parent().unwrap().to_owned();
        let owner = EphemeralOwner::default();
        tree.insert(Znode::created(path, data, AclList::OPEN, owner, Zxid(zxid), 0));
        tree.update(&parent, |parent| parent.stat.cversion += 1);
    }

    /// A quota on `/a`, which has a child; both have five bytes of data.
    fn filled() -> (Tree, Quotas) {
        let (mut tree, mut quotas) = (Tree::new(), Quotas::default());
        insert(&mut tree, "/a", 1);
        insert(&mut tree, "/a/b", 2);
        insert(&mut tree, "/zookeeper/quota/a", 3);
        insert(&mut tree, "/zookeeper/quota/a/zookeeper_limits", 4);
        insert(&mut tree, "/zookeeper/quota/a/zookeeper_stats", 5);
        quotas.insert("/a");
        Quotas::recount(&mut tree, "/a");
        assert_eq!(found(&tree, &quotas), [""; 0]);
        (tree, quotas)
    }

    fn found(tree: &Tree, quotas: &Quotas) -> Vec<String> {
        let mut findings = Findings::default();
        quotas.check(tree, &mut findings);
        findings.to_strings()
    }

    #[test]
    fn check_finds_a_quota_that_is_not_enforced() {
        let (tree, mut quotas) = filled();
        quotas.remove("/a");
        assert_eq!(found(&tree, &quotas), ["the quotas do not list /a"]);
    }

    #[test]
    fn check_finds_a_quota_without_limits() {
        let (tree, mut quotas) = filled();
        quotas.insert("/b");
        assert_eq!(found(&tree, &quotas), ["the quotas list /b, which does not belong there"]);
    }

    #[test]
    fn check_finds_wrong_counters() {
        let (mut tree, quotas) = filled();
        insert(&mut tree, "/a/uncounted", 6);
        assert_eq!(
            found(&tree, &quotas),
            [
                "the counted znodes of the quota on /a: 2 is kept, 3 is right",
                "the counted bytes of the quota on /a: 10 is kept, 15 is right",
            ]
        );
    }

    #[test]
    fn check_accepts_counters_that_a_client_has_set() {
        let (mut tree, quotas) = filled();
        tree.update("/zookeeper/quota/a/zookeeper_stats", |stats| {
            stats.data = Some(Data::copied(b"count=7,bytes=7"));
            stats.stat.version = 1;
        });
        assert_eq!(found(&tree, &quotas), [""; 0]);
    }
}
