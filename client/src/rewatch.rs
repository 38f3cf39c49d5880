//! The requests by which watches are registered again after a reconnect, and taken back.

use zoolet_protocol::{Names, RemoveWatches, Request, SetWatches, Watch, WatcherType, Zxid};

use super::watches::Kind;

/// The bytes of paths in one request, well below what a server takes in a frame; ZooKeeper's own
/// client splits at the same size.
const PATH_BYTES_MAX: usize = 128 << 10;

/// Lists of paths under the five kinds.
#[derive(Default)]
struct Lists<'a> {
    lists: [Vec<&'a str>; 5],
    bytes: usize,
}

impl<'a> Lists<'a> {
    fn add(&mut self, kind: Kind, path: &'a str) {
        self.lists[kind as usize].push(path);
        self.bytes += 4 + path.len();
    }

    fn names(&self, kind: Kind) -> Names {
        self.lists[kind as usize].iter().copied().collect()
    }

    fn into_request(self, relative_zxid: Zxid) -> Request {
        let lists = SetWatches {
            relative_zxid,
            data: self.names(Kind::Data),
            exist: self.names(Kind::Exist),
            child: self.names(Kind::Child),
            persistent: self.names(Kind::Persistent),
            persistent_recursive: self.names(Kind::Recursive),
        };
        // Servers before 3.6 do not know the longer form.
        let is_short = lists.persistent.is_empty() && lists.persistent_recursive.is_empty();
        Request::Watch(if is_short { Watch::Set(lists) } else { Watch::Set2(lists) })
    }
}

/// The requests that register these watches, and have what was missed since `seen` told.
pub(crate) fn registrations<'a>(
    paths: impl Iterator<Item = (Kind, &'a str)>,
    seen: Zxid,
) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut lists = Lists::default();
    for (kind, path) in paths {
        lists.add(kind, path);
        if lists.bytes >= PATH_BYTES_MAX {
            requests.push(std::mem::take(&mut lists).into_request(seen));
        }
    }
    if lists.bytes > 0 {
        requests.push(lists.into_request(seen));
    }
    requests
}

/// The one request that registers a few watches.
pub(crate) fn registration<'a>(
    paths: impl Iterator<Item = (Kind, &'a str)>,
    seen: Zxid,
) -> Request {
    let mut lists = Lists::default();
    paths.for_each(|(kind, path)| lists.add(kind, path));
    lists.into_request(seen)
}

/// The request that takes a kind of watch on a path back.
pub(crate) fn removal(path: &str, kind: Kind) -> Request {
    let watcher_type = match kind {
        Kind::Data | Kind::Exist => WatcherType::DATA,
        Kind::Child => WatcherType::CHILDREN,
        // Servers before 3.9 know no type for these alone.
        Kind::Persistent | Kind::Recursive => WatcherType::ANY,
    };
    Request::Watch(Watch::Remove(RemoveWatches { path: path.into(), watcher_type }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_watches_are_split_over_requests_that_fit_a_frame() {
        let paths: Vec<String> = (0..10_000).map(|n| format!("/some/long/path/{n:050}")).collect();
        let requests =
            registrations(paths.iter().map(|path| (Kind::Child, path.as_str())), Zxid(7));
        let mut count = 0;
        for request in &requests {
            let Request::Watch(Watch::Set(lists)) = request else { panic!("{request:?}") };
            assert_eq!(lists.relative_zxid, Zxid(7));
            count += lists.child.len();
            assert!(
                zoolet_protocol::encode_request(zoolet_protocol::Xid(1), request).len() < 0x3_0000
            );
        }
        assert_eq!(count, 10_000);
        assert!(requests.len() > 3);
    }
}
