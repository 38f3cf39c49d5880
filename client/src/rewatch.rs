//! The requests that register watches (`setWatches`) and remove them (`removeWatches`).

use zoolet_protocol::{Names, RemoveWatches, Request, SetWatches, Watch, WatcherType, Zxid};

use super::limits::PATH_BYTES_MAX;
use super::watches::WatchKind;

/// The paths to watch, one list for each of the five kinds.
#[derive(Default)]
struct Lists<'a> {
    lists: [Vec<&'a str>; 5],
    bytes: usize,
}

impl<'a> Lists<'a> {
    fn add(&mut self, kind: WatchKind, path: &'a str) {
        self.lists[kind as usize].push(path);
        self.bytes += 4 + path.len();
    }

    fn has_room_for(&self, path: &str) -> bool {
        self.bytes == 0 || self.bytes + 4 + path.len() <= PATH_BYTES_MAX
    }

    fn names(&self, kind: WatchKind) -> Names {
        self.lists[kind as usize].iter().copied().collect()
    }

    fn into_request(self, relative_zxid: Zxid) -> Request {
        let lists = SetWatches {
            relative_zxid,
            data: self.names(WatchKind::Data),
            exist: self.names(WatchKind::Exist),
            child: self.names(WatchKind::Child),
            persistent: self.names(WatchKind::Persistent),
            persistent_recursive: self.names(WatchKind::Recursive),
        };
        // Servers before 3.6 do not know the longer form.
        let is_short = lists.persistent.is_empty() && lists.persistent_recursive.is_empty();
        Request::Watch(if is_short { Watch::Set(lists) } else { Watch::Set2(lists) })
    }
}

/// The requests that register these watches after a reconnect. The server reports what has happened
/// since the zxid `seen`.
pub(crate) fn registrations<'a>(
    paths: impl Iterator<Item = (WatchKind, &'a str)>,
    seen: Zxid,
) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut lists = Lists::default();
    for (kind, path) in paths {
        if !lists.has_room_for(path) {
            requests.push(std::mem::take(&mut lists).into_request(seen));
        }
        lists.add(kind, path);
    }
    if lists.bytes > 0 {
        requests.push(lists.into_request(seen));
    }
    requests
}

/// The one request that registers a few watches, as [`registrations`].
pub(crate) fn registration<'a>(
    paths: impl Iterator<Item = (WatchKind, &'a str)>,
    seen: Zxid,
) -> Request {
    let mut lists = Lists::default();
    paths.for_each(|(kind, path)| lists.add(kind, path));
    lists.into_request(seen)
}

/// The most bytes of the request that registers one watch, without its header.
pub(crate) fn bytes_of_one(path: &str) -> usize {
    // The zxid, the lengths of five lists, and the path with its length.
    8 + 5 * 4 + 4 + path.len()
}

/// The request that removes a kind of watch from a path.
pub(crate) fn removal(path: &str, kind: WatchKind) -> Request {
    let watcher_type = match kind {
        WatchKind::Data | WatchKind::Exist => WatcherType::DATA,
        WatchKind::Child => WatcherType::CHILDREN,
        // Servers before 3.9 have no type for these alone.
        WatchKind::Persistent | WatchKind::Recursive => WatcherType::ANY,
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
            registrations(paths.iter().map(|path| (WatchKind::Child, path.as_str())), Zxid(7));
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

    #[test]
    fn a_long_path_has_a_request_of_its_own() {
        let (short, long) = (format!("/{:050}", 0), format!("/{}", "a".repeat(300_000)));
        let paths = std::iter::repeat_n(&short, 2_000).chain([&long]).chain([&short]);
        let requests = registrations(paths.map(|path| (WatchKind::Data, path.as_str())), Zxid(7));
        let length =
            |request| zoolet_protocol::encode_request(zoolet_protocol::Xid(1), request).len();
        let lengths: Vec<_> = requests.iter().map(length).collect();
        assert!(lengths.iter().all(|length| *length <= 8 + bytes_of_one(&long)), "{lengths:?}");
        assert_eq!(lengths.len(), 3);
        assert!(lengths.iter().all(|length| *length < 300_100), "{lengths:?}");
    }
}
