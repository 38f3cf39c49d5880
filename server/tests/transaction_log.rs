//! Transaction logs: one that Apache ZooKeeper 3.8 wrote, and what damage is taken for.

use bytes::{BufMut, Bytes, BytesMut};
use zoolet_core::{ConnectionId, Core, CreateTxn, Data, Requester, Settings, Txn, TxnOp};
use zoolet_protocol::{
    Acl, CreateKind, ErrorCode, Lookup, OpCode, Read, SessionId, Xid, ZPath, Zxid,
};
use zoolet_server::storage::{
    LogEnd, LogError, LogReader, LogRecord, TxnRecordError, decode_txn, encode_txn,
};

/// What a client did: creates of every kind, changes, refusals, a multi, a refused multi, and the
/// ends of two sessions. The zeros that follow are cut short.
const APACHE: &[u8] = include_bytes!("data/apache-3.8.log");

const HEADER_BYTES: usize = 16;
const PADDING_BYTES: usize = 100;

fn read(log: &[u8]) -> (Vec<LogRecord>, Result<LogEnd, LogError>) {
    let mut records = Vec::new();
    let mut reader = match LogReader::new(log) {
        Ok(reader) => reader,
        Err(error) => return (records, Err(error)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return (records, Ok(reader.end().expect("it has ended"))),
            Err(error) => return (records, Err(error)),
        }
    }
}

fn path(path: &str) -> ZPath {
    ZPath::parse(path).expect("a legal path")
}

/// The record as it stands in the file.
fn bytes_of(record: &LogRecord) -> &'static [u8] {
    let start = usize::try_from(record.offset).expect("a short file");
    let length = i32::from_be_bytes(APACHE[start + 8..start + 12].try_into().expect("four bytes"));
    &APACHE[start..start + 12 + usize::try_from(length).expect("a length") + 1]
}

#[test]
fn a_log_of_zookeeper_is_read() {
    let (records, end) = read(APACHE);
    let last = APACHE.len() - PADDING_BYTES;
    assert_eq!(end.unwrap(), LogEnd::Clean { offset: last as u64 });
    let zxids: Vec<_> = records.iter().map(|record| record.txn.zxid).collect();
    assert_eq!(zxids, (1..=zxids.len() as i64).map(Zxid).collect::<Vec<_>>(), "no gap");
    let ops: Vec<_> = records.iter().map(|record| record.txn.op.op_code()).collect();
    assert_eq!(
        ops,
        [
            OpCode::CREATE_SESSION,
            OpCode::CREATE,
            OpCode::CREATE,
            OpCode::CREATE,
            OpCode::SET_DATA,
            OpCode::SET_ACL,
            OpCode::ERROR,
            OpCode::MULTI,
            OpCode::MULTI,
            OpCode::CREATE,
            OpCode::DELETE,
            OpCode::CLOSE_SESSION,
            OpCode::CREATE_SESSION,
            OpCode::CREATE_CONTAINER,
            OpCode::CREATE_TTL,
            OpCode::CLOSE_SESSION,
        ]
    );
    let op = |zxid: usize| &records[zxid - 1].txn.op;
    assert_eq!(*op(1), TxnOp::CreateSession { timeout_ms: 10_000 });
    let sequential = CreateTxn {
        kind: CreateKind::Create,
        path: path("/app/job-0000000000"),
        data: Some(Data::copied(&[])),
        acl: [Acl::open()].into(),
        ephemeral: true,
        parent_cversion: 1,
    };
    assert_eq!(*op(3), TxnOp::Create(sequential));
    let data = Some(Bytes::from_static(b"\x00\xff bytes"));
    assert_eq!(*op(5), TxnOp::SetData { path: path("/app"), data, version: 1 });
    assert_eq!(*op(7), TxnOp::Error(ErrorCode::NO_NODE));
    let TxnOp::Multi(ops) = op(8) else { panic!("a multi") };
    assert_eq!(ops[1], TxnOp::Check { path: path("/app"), version: 2 });
    let TxnOp::Multi(refused) = op(9) else { panic!("a multi") };
    assert!(!refused[0].is_refusal(), "what stands before a refusal is logged as granted");
    assert_eq!(refused[1], TxnOp::Error(ErrorCode::NO_NODE));
    let paths = ["/app/ephemeral", "/app/job-0000000000"];
    let TxnOp::CloseSession { paths: closed } = op(12) else { panic!("the end of a session") };
    let mut closed: Vec<_> = closed.iter().map(ZPath::as_str).collect();
    closed.sort_unstable();
    assert_eq!(closed, paths);
    let TxnOp::Create(soon) = op(15) else { panic!("a create") };
    assert_eq!(soon.kind, CreateKind::Ttl { ttl_ms: 60_000 });
}

#[test]
fn a_log_of_zookeeper_is_applied_as_in_zookeeper() {
    let mut core = Core::new(Settings::default());
    for record in read(APACHE).0 {
        core.apply(&record.txn);
    }
    let requester = Requester::new(SessionId(1), ConnectionId(1), Xid(1));
    let exists = |path: &str| {
        let look = Lookup::Exists(path.into());
        core.read(&Read::Lookup(look), &requester).is_ok()
    };
    let paths = ["/app", "/box", "/soon", "/app/refused", "/app/multi", "/app/ephemeral"];
    assert_eq!(paths.map(exists), [true, true, true, false, false, false]);
}

#[test]
fn records_are_encoded_as_zookeeper_wrote_them() {
    let (records, _) = read(APACHE);
    for record in records {
        let mut encoded = BytesMut::new();
        encode_txn(&record.txn, &mut encoded);
        if let Some(digest) = record.digest {
            encoded.put_i32(digest.version);
            encoded.put_i64(digest.tree);
        }
        let written = bytes_of(&record);
        assert_eq!(encoded, written[12..written.len() - 1], "{:?}", record.txn);
    }
}

#[test]
fn a_log_cut_anywhere_gives_the_complete_records_before_the_cut() {
    let (all, _) = read(APACHE);
    let ends: Vec<_> =
        all.iter().map(|record| record.offset as usize + bytes_of(record).len()).collect();
    for cut in HEADER_BYTES..APACHE.len() {
        let (records, end) = read(&APACHE[..cut]);
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(records, all[..whole], "cut at {cut}");
        let offset = ends[..whole].last().map_or(HEADER_BYTES, |&end| end) as u64;
        let end = end.unwrap();
        // The first bytes of a checksum are zeros, and so are those of what was never written.
        let is_clean = APACHE[offset as usize..cut].iter().all(|&byte| byte == 0);
        let expected = if is_clean { LogEnd::Clean { offset } } else { LogEnd::Torn { offset } };
        assert_eq!(end, expected, "cut at {cut}");
    }
}

#[test]
fn a_changed_byte_in_a_record_is_damage_or_the_end_and_never_another_transaction() {
    let (all, _) = read(APACHE);
    let last = APACHE.len() - PADDING_BYTES;
    for at in HEADER_BYTES..last {
        let mut log = APACHE.to_vec();
        log[at] ^= 0x01;
        let (records, end) = read(&log);
        let before =
            all.iter().filter(|record| record.offset as usize + bytes_of(record).len() <= at);
        assert_eq!(records, all[..before.count()], "changed at {at}");
        assert!(!matches!(end, Ok(LogEnd::Clean { .. })), "changed at {at}: {end:?}");
    }
}

#[test]
fn an_impossible_record_length_allocates_no_memory() {
    for length in [i32::MIN, -1, i32::MAX] {
        let mut log = APACHE[..HEADER_BYTES].to_vec();
        log.put_i64(1);
        log.put_i32(length);
        let (_, end) = read(&log);
        let error = end.unwrap_err();
        assert!(matches!(error, LogError::Length { offset: 16, .. }), "{error}");
    }
}

#[test]
fn a_file_of_another_program_is_not_a_log() {
    let named = |bytes: &[u8]| read(bytes).1.unwrap_err().to_string();
    assert_eq!(named(b""), "not a transaction log: 0 bytes, and its header alone has 16");
    let snapshot = b"ZKSN\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff";
    assert_eq!(named(snapshot), "not a transaction log: it begins with 5a4b534e instead of ZKLG");
    let newer = b"ZKLG\0\0\0\x03\0\0\0\0\0\0\0\0";
    assert_eq!(named(newer), "a transaction log of version 3; only version 2 is known");
}

#[test]
fn a_multi_within_a_multi_is_refused() {
    let ops = vec![TxnOp::Multi(Vec::new())];
    let txn = Txn {
        session: SessionId(1),
        cxid: Xid(1),
        zxid: Zxid(1),
        time_ms: 0,
        op: TxnOp::Multi(ops),
    };
    let mut record = BytesMut::new();
    encode_txn(&txn, &mut record);
    assert_eq!(decode_txn(record.freeze()), Err(TxnRecordError::Type(OpCode::MULTI)));
}
