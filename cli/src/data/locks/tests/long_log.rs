//! Writes the log on which docs/data.md measures.

use std::collections::VecDeque;
use std::fs::{File, create_dir_all};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use bytes::BytesMut;
use zoolet_core::{CreateTxn, Data, Txn, TxnOp};
use zoolet_protocol::{Acl, CreateKind, SessionId, Xid, ZPath, Zxid};
use zoolet_server::storage::encode_log_record;

const SESSIONS: i64 = 200;
const LOCKS: usize = 100;

/// The header of a log of ZooKeeper's.
const HEADER: &[u8] = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";

/// A lock with those in its line.
#[derive(Default)]
struct Line {
    next: u32,
    places: VecDeque<(i64, ZPath)>,
}

/// A log file with what is in it so far.
struct Log {
    file: BufWriter<File>,
    buffer: BytesMut,
    zxid: i64,
    bytes: u64,
}

impl Log {
    fn write(&mut self, session: i64, cxid: i32, op: TxnOp) {
        self.zxid += 1;
        let (zxid, time_ms) = (Zxid(self.zxid), 1_780_000_000_000 + self.zxid / 4);
        let txn = Txn { session: SessionId(session), cxid: Xid(cxid), zxid, time_ms, op };
        self.buffer.clear();
        encode_log_record(&txn, &mut self.buffer);
        self.file.write_all(&self.buffer).expect("there is room");
        self.bytes += self.buffer.len() as u64;
    }

    fn create(&mut self, session: i64, path: ZPath) {
        let op = TxnOp::Create(CreateTxn {
            kind: CreateKind::Create,
            path,
            data: Some(Data::copied(b"10.0.0.217")),
            acl: [Acl::open()].into(),
            ephemeral: session != 0,
            parent_cversion: 1,
        });
        self.write(session, 1, op);
    }
}

/// `ZOOLET_LONG_LOG=DIR` is where, `ZOOLET_LONG_LOG_BYTES` how much: 1 GB if it is not there.
///
/// Sessions enter random lines of Curator's, leave them when they hold, and sometimes before. One of 4,000
/// steps is the end of a session that expires.
#[test]
#[ignore = "writes a large file: docs/measurements.md"]
fn writes_a_long_log() {
    let directory = std::env::var_os("ZOOLET_LONG_LOG").expect("ZOOLET_LONG_LOG names a directory");
    let wanted = std::env::var("ZOOLET_LONG_LOG_BYTES")
        .map_or(1_000_000_000, |bytes| bytes.parse().expect("ZOOLET_LONG_LOG_BYTES is a number"));
    let directory = PathBuf::from(directory).join("version-2");
    create_dir_all(&directory).expect("it can be created");
    let file = File::create(directory.join("log.1")).expect("it can be created");
    let mut log = Log {
        file: BufWriter::new(file),
        buffer: BytesMut::new(),
        zxid: 0,
        bytes: HEADER.len() as u64,
    };
    log.file.write_all(HEADER).expect("there is room");

    let directory = |lock: usize| format!("/services/orders/locks-{lock:03}");
    let path = |text: &str| ZPath::parse(text).expect("a legal path");
    ["/services", "/services/orders"].into_iter().for_each(|it| log.create(0, path(it)));
    (0..LOCKS).for_each(|lock| log.create(0, path(&directory(lock))));
    let mut random = fastrand::Rng::with_seed(7);
    let mut lines: Vec<Line> = (0..LOCKS).map(|_| Line::default()).collect();
    let mut idle: Vec<i64> = (1..=SESSIONS).collect();
    let mut newest = SESSIONS;
    idle.iter().for_each(|it| log.write(*it, 0, TxnOp::CreateSession { timeout_ms: 30_000 }));
    while log.bytes < wanted {
        let line = random.usize(..LOCKS);
        let chance = random.u32(..4_000);
        if chance.is_multiple_of(2) && !idle.is_empty() {
            let session = idle.swap_remove(random.usize(..idle.len()));
            let (id, number) = (random.u128(..), lines[line].next);
            let (a, b, c) = ((id >> 96) as u32, (id >> 80) as u16, (id >> 64) as u16);
            let (d, e) = ((id >> 48) as u16, id as u64 & 0xffff_ffff_ffff);
            let uuid = format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}");
            let place = path(&format!("{}/_c_{uuid}-lock-{number:010}", directory(line)));
            lines[line].next += 1;
            lines[line].places.push_back((session, place.clone()));
            log.create(session, place);
        } else {
            // One of twenty gives up.
            let at = if chance % 20 == 1 { random.usize(..8) } else { 0 };
            let Some((session, place)) = lines[line].places.remove(at) else { continue };
            if chance == 3 {
                log.write(session, 0, TxnOp::CloseSession { paths: vec![place] });
                newest += 1;
                log.write(newest, 0, TxnOp::CreateSession { timeout_ms: 30_000 });
                idle.push(newest);
            } else {
                log.write(session, 2, TxnOp::Delete { path: place });
                idle.push(session);
            }
        }
    }
    log.file.flush().expect("there is room");
    println!("{} bytes, {} transactions", log.bytes, log.zxid);
}
