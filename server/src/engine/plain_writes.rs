//! The plainest writes, one or many at once: creates, deletes and `setData` that stand alone and are short.
//!
//! They are carried out as all writes are, but borrow from their frames what others own, and those that follow
//! one another share the lock and the reading of the clock. Whatever is not as plain as that takes the general way
//! (`connection.rs`), which does the same.

use zoolet_core::Requester;
use zoolet_protocol::{FrameCodec, PlainWrite, RequestHeader, Zxid};

use super::lock::{Engine, Wakers, check_session};
use super::registry::Peer;
use super::turn::SoFar;

/// How many are carried out while the lock is held, so that others do not wait for longer than some ten
/// microseconds. One that fires watches is the last: those who hear of it are in a hurry.
const WRITES_AT_ONCE: usize = 16;

/// A write below this path may change quotas or the configuration, so it is not plain.
const OF_THE_SERVER: &[u8] = b"/zookeeper";

/// What was carried out.
#[derive(Debug, Clone, Copy)]
pub(super) struct CarriedOut {
    pub(super) requests: usize,
    /// The bytes of their frames, with the lengths before them.
    pub(super) bytes: usize,
    /// The header of the last one, and the zxid of its reply.
    pub(super) header: RequestHeader,
    pub(super) zxid: Zxid,
}

/// Whether a plain write seems to come first.
pub(crate) fn comes_first(codec: &FrameCodec, stream: &[u8]) -> bool {
    codec.peek(stream).is_some_and(PlainWrite::is_announced_by)
}

/// The plain write that comes next, and the bytes of its payload.
fn next<'a>(
    codec: &FrameCodec,
    stream: &'a [u8],
    after_bytes: usize,
) -> Option<(PlainWrite<'a>, usize)> {
    let payload = codec.peek(stream.get(after_bytes..)?)?;
    let write = PlainWrite::decode(payload)?;
    (!write.change.path().starts_with(OF_THE_SERVER)).then_some((write, payload.len()))
}

impl Engine {
    /// Carries out the plain writes that come first, and replies. `None` if there is none, or if the session
    /// or the connection has ended.
    pub(super) fn carry_out_plain_writes(
        &self,
        peer: &Peer,
        requester: &mut Requester,
        (codec, stream, most): (&FrameCodec, &[u8], usize),
        so_far: &mut SoFar,
    ) -> Option<CarriedOut> {
        // Whether there is one is found out before the lock is taken.
        next(codec, stream, 0)?;
        let mut wakers = Wakers::default();
        let mut state = self.state.write();
        check_session(&state.core, requester).ok()?;
        // Read under the lock, so that times are in the order of zxids.
        let time_ms = self.clock.wall_ms();
        let (mut requests, mut bytes, mut last) = (0, 0, None);
        // A write is carried out only while the outbox is open, as in `Engine::change`.
        while requests < WRITES_AT_ONCE.min(most) && peer.outbox.is_open() {
            // The write stays where it was decoded, and so do the decision and its effects: to move them
            // takes longer than to decide.
            let coming = next(codec, stream, bytes);
            let Some((write, payload_bytes)) = &coming else { break };
            let header = write.header;
            requester.xid = header.xid;
            so_far.counts.frame_received(*payload_bytes);
            so_far.counts.request_began(&peer.stats, header.op);
            let mut decided = state.core.decide_plain(write, requester, time_ms);
            self.append_for(peer, &mut state, decided.txn());
            self.stats.namespaces.wrote(&mut so_far.counts.namespace, decided.txn());
            let effects = state.core.apply_plain(&mut decided);
            self.publish_for(peer, &mut state, &effects, so_far, &mut wakers);
            let (zxid, reply) = (effects.zxid, &effects.reply);
            wakers.add(so_far.push_plain_reply(state.lock_held(), peer, header.xid, zxid, reply));
            requests += 1;
            bytes += 4 + payload_bytes;
            last = Some((header, zxid));
            if !effects.events.is_empty() || wakers.len() > 0 {
                break;
            }
        }
        let (header, zxid) = last?;
        Some(CarriedOut { requests, bytes, header, zxid })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::Path;
    use std::sync::Arc;

    use bytes::{Bytes, BytesMut};
    use proptest::prelude::*;
    use zoolet_protocol::{
        Acl, ConnectRequest, Create, CreateFlags, CreateKind, Delete, Encode, Lookup, MultiOp,
        Permissions, Request, SetData, Watch, Write, Xid, encode_request,
    };

    use super::*;
    use crate::WallTime;
    use crate::config::Config;
    use crate::engine::connection::{Connection, Treatment};
    use crate::engine::journal::Journal;
    use crate::engine::registry::Entrance;
    use crate::measure::Spread;
    use crate::storage::{Disk as _, MemDisk, StorageConfig};

    /// A server with two clients.
    struct Served {
        engine: Arc<Engine>,
        clients: [Connection; 2],
        disk: MemDisk,
    }

    /// Transactions between two snapshots: some are taken amid writes that are carried out together.
    const SNAP_COUNT: u64 = 7;

    fn config() -> Config {
        let wall_time = WallTime::Virtual { start_ms: 1_000 };
        Config { seed: Some(7), wall_time, ..Config::default() }
    }

    impl Served {
        fn new() -> Self {
            let disk = MemDisk::default();
            let storage = StorageConfig {
                disk: Arc::new(disk.clone()),
                snap_count: SNAP_COUNT,
                snap_retain_count: None,
                ..StorageConfig::at("/data")
            };
            let opened = Journal::open(&storage, &config().settings);
            let (journal, core) = opened.expect("the disk is empty");
            let engine = Arc::new(Engine::new(config(), None, journal, core));
            let connect = || {
                let connection = Connection::open(Arc::clone(&engine), Entrance::IN_PROCESS);
                let connection = connection.expect("it may");
                let mut handshake = BytesMut::new();
                ConnectRequest::new(30_000).encode(&mut handshake);
                connection.handle(handshake.freeze(), Treatment::CarryOut).expect("it is one");
                assert_eq!(connection.peer.outbox.take_all(usize::MAX).0.len(), 1);
                connection
            };
            let clients = [connect(), connect()];
            Self { engine, clients, disk }
        }

        /// The names of logs and snapshots, and what is in them.
        fn files(&self) -> Vec<(String, Vec<u8>)> {
            let directory = Path::new("/data/version-2");
            let read = |name: String| {
                let mut content = Vec::new();
                let mut file = self.disk.open(&directory.join(&name)).expect("it is there");
                file.read_to_end(&mut content).expect("it is in memory");
                (name, content)
            };
            self.disk.list(directory).expect("it is there").into_iter().map(read).collect()
        }

        /// What a client receives when it sends all of this at once. Plain writes are carried out as such, or in
        /// the general way.
        fn send(&self, client: usize, requests: &[Bytes], as_plain: bool) -> Vec<Bytes> {
            let (codec, mut input) = (FrameCodec::default(), BytesMut::new());
            requests.iter().for_each(|request| FrameCodec::put(request, &mut input));
            let client = &self.clients[client];
            let (mut turn, mut output) = (client.begin_turn(0), BytesMut::new());
            loop {
                let most = 64;
                if as_plain
                    && let Some(requests) =
                        turn.carry_out_plain_writes(&codec, &mut input, most, &mut output)
                {
                    assert!((1..=WRITES_AT_ONCE).contains(&requests));
                    continue;
                }
                let Some(frame) = codec.next_frame(&mut input).expect("it is one") else { break };
                let reply = turn.handle(&frame, Treatment::CarryOut, Some(&mut output));
                if let Some(reply) = reply.expect("it may") {
                    FrameCodec::put(&reply.into_frame(), &mut output);
                }
            }
            assert!(input.is_empty());
            drop(turn);
            std::iter::from_fn(|| codec.next_frame(&mut output).expect("it is one"))
                .chain(self.told(client))
                .collect()
        }

        fn told(&self, client: &Connection) -> impl Iterator<Item = Bytes> + use<> {
            client
                .peer
                .outbox
                .take_all(usize::MAX)
                .0
                .into_iter()
                .map(|message| message.into_frame())
        }
    }

    fn request(request: Request) -> Bytes {
        encode_request(Xid(1), &request)
    }

    fn create(path: &str, flags: i32, data: usize) -> Bytes {
        create_for(Permissions::ALL, path, flags, data)
    }

    fn create_for(everyone: Permissions, path: &str, flags: i32, data: usize) -> Bytes {
        let (data, flags) = (Some(vec![7; data].into()), CreateFlags(flags));
        let kind = if flags.0 == 2 { CreateKind::Create2 } else { CreateKind::Create };
        let acl = Some(vec![Acl::open().with_permissions(everyone)]);
        let create = Create { kind, path: path.into(), data, acl, flags };
        request(Request::Write(Write::Op(MultiOp::Create(create))))
    }

    fn set(path: &str, data: usize, version: i32) -> Bytes {
        let data = Some(vec![8; data].into());
        let set = SetData { path: path.into(), data, version: version.into() };
        request(Request::Write(Write::Op(MultiOp::SetData(set))))
    }

    fn delete(path: &str, version: i32) -> Bytes {
        let delete = Delete { path: path.into(), version: version.into() };
        request(Request::Write(Write::Op(MultiOp::Delete(delete))))
    }

    fn watch(path: &str) -> Bytes {
        request(Request::Watch(Watch::Lookup(Lookup::Exists(path.into()))))
    }

    /// A `setData` that ends within a field.
    fn cut() -> Bytes {
        set("/a", 3, -1).slice(..11)
    }

    fn any_request() -> impl Strategy<Value = Bytes> {
        let long = format!("/{}", "a".repeat(600));
        let paths = ["/", "/a", "/b", "/a/b", "/missing/a", "/zookeeper/a", "no", ""];
        let path = prop::sample::select(
            paths.map(str::to_owned).into_iter().chain([long]).collect::<Vec<_>>(),
        );
        let data = prop::sample::select(vec![0, 5, 5, 5, 2_000]);
        // All and read, and some that are no permissions or give none.
        let everyone = prop::sample::select(vec![31, 31, 31, 1, 0, 32, -1]).prop_map(Permissions);
        let version = prop::sample::select(vec![-1, -1, 0, 1, 5, i32::MIN]);
        let created = (everyone, path.clone(), 0..8, data.clone());
        prop_oneof![
            8 => created.prop_map(|(everyone, path, flags, data)| create_for(everyone, &path, flags, data)),
            4 => (path.clone(), version.clone()).prop_map(|(path, version)| delete(&path, version)),
            4 => (path.clone(), data, version).prop_map(|(path, data, version)| set(&path, data, version)),
            1 => path.prop_map(|path| watch(&path)),
            1 => Just(cut()),
        ]
    }

    proptest! {
        /// Replies, events, state, files and numbers are the same, whether writes are carried out from where they
        /// were read, alone or together, or in the general way.
        #[test]
        fn plain_writes_do_the_same_as_in_the_general_way(
            batches in prop::collection::vec((0..2_usize, prop::collection::vec(any_request(), 1..40)), 1..8),
        ) {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_time().start_paused(true).build().unwrap();
            let _entered = runtime.enter();
            let served = [Served::new(), Served::new()];
            for (client, requests) in &batches {
                let [one, other] = [true, false].map(|as_plain| {
                    let served = &served[usize::from(as_plain)];
                    let replies = served.send(*client, requests, as_plain);
                    (replies, served.told(&served.clients[1 - client]).collect::<Vec<_>>())
                });
                prop_assert_eq!(one, other);
            }
            let [files, others] = served.each_ref().map(Served::files);
            prop_assert!(files.iter().any(|(name, _)| name.starts_with("log.")));
            prop_assert_eq!(files, others);
            let [one, other] = served.map(|served| {
                let numbers = served.clients.each_ref().map(|client| {
                    let stats = &client.peer.stats;
                    (stats.received.value(), stats.sent(), stats.last().zxid, stats.last().op)
                });
                let stats = &served.engine.stats;
                let counted: Vec<_> = stats.operations.values().collect();
                let bytes = [&stats.bytes_received, &stats.response_bytes, &stats.watch_bytes];
                let bytes = bytes.map(Spread::value);
                let commits = (stats.commits.value(), stats.clients_woken.value());
                stats.reset();
                assert_eq!(stats.commits.value(), 0);
                served.engine.inspect(|core| {
                    core.check().expect("it agrees");
                    let frozen = core.freeze();
                    let znodes: Vec<_> = frozen.znodes().into_iter().cloned().collect();
                    assert_eq!(commits.0, frozen.zxid.0 as u64, "each transaction has a zxid");
                    let owners = core.ephemeral_owners();
                    (znodes, frozen.zxid, owners, numbers, counted, bytes, commits)
                })
            });
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn a_write_that_fires_a_watch_is_the_last_of_those_that_are_carried_out_together() {
        let served = Served::new();
        served.send(1, &[watch("/b")], false);
        let (codec, mut input) = (FrameCodec::default(), BytesMut::new());
        let paths = ["/a", "/b", "/c", "/d"];
        paths.iter().for_each(|path| FrameCodec::put(&create(path, 0, 5), &mut input));
        let mut turn = served.clients[0].begin_turn(0);
        let mut together =
            || turn.carry_out_plain_writes(&codec, &mut input, 64, &mut BytesMut::new());
        assert_eq!([together(), together(), together()], [Some(2), Some(2), None]);
        assert_eq!(served.told(&served.clients[1]).count(), 1);
    }

    #[test]
    fn a_write_for_which_others_would_wait_long_is_not_one_of_them() {
        let codec = FrameCodec::default();
        let is_plain = |request: &Bytes| {
            let mut stream = BytesMut::new();
            FrameCodec::put(request, &mut stream);
            (comes_first(&codec, &stream), next(&codec, &stream, 0).is_some())
        };
        assert_eq!(is_plain(&create("/a", 0, 100)), (true, true));
        assert_eq!(is_plain(&create("/a", 0, PlainWrite::BYTES_MAX)), (false, false));
        // It counts all znodes below a path.
        let counts = create("/zookeeper/quota/a/zookeeper_stats", 0, 5);
        assert_eq!(is_plain(&counts), (true, false));
        assert_eq!(is_plain(&cut()), (true, false));
        let acl = Some(vec![Acl::creator_all()]);
        let (kind, flags) = (CreateKind::Create, CreateFlags(0));
        let create = Create { kind, path: "/a".into(), data: None, acl, flags };
        let of_its_creator = request(Request::Write(Write::Op(MultiOp::Create(create))));
        assert_eq!(is_plain(&of_its_creator), (false, false));
        assert_eq!(is_plain(&watch("/a")), (false, false));
    }
}
