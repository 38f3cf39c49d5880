//! The operations of a multi or multiRead, and their results. A header (`MultiHeader`) before each
//! tells what follows, and a last header marks the end.

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use crate::code::{ErrorCode, OpCode};
use crate::id::Expect;
use crate::jute::{Decode, DecodeError, DecodeFault, Encode, Parsed, fail};
use crate::limits::SHARED_BYTES_MIN;
use crate::names::Names;
use crate::parts::{Parts, encode_data_in_parts};
use crate::path::RawPath;
use crate::record;
use crate::request::{Check, Create, CreateKind, CreateMode, Delete, Lookup, SetData};
use crate::stat::Stat;

record! {
    /// The header before each entry and at the end.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct MultiHeader {
        op: OpCode,
        done: bool,
        err: ErrorCode,
    }
}

impl MultiHeader {
    const BYTES: usize = 9;

    const END: Self = Self { op: OpCode::ERROR, done: true, err: ErrorCode(-1) };
}

/// A write that may stand alone or within a multi.
///
/// ```
/// use zoolet_protocol::{Delete, Expect, MultiOp, OpCode};
///
/// let op = MultiOp::Delete(Delete { path: "/a".into(), version: Expect::Any });
/// assert_eq!(op.op_code(), OpCode::DELETE);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiOp {
    /// `create`, `create2`, `createContainer` or `createTTL`.
    Create(Create),
    /// `delete`.
    Delete(Delete),
    /// `setData`.
    SetData(SetData),
    /// `check`, which ZooKeeper accepts only within a multi.
    Check(Check),
}

/// Constructors, whose operations have only fields that fit together.
///
/// ```
/// use zoolet_protocol::{CreateMode, Expect, MultiOp, OpCode};
///
/// let ops = [
///     MultiOp::check("/config", 3),
///     MultiOp::create("/jobs/job-", "build", CreateMode::PersistentSequential),
///     MultiOp::set_data("/config", "new", Expect::Any),
///     MultiOp::delete("/jobs/old", Expect::Any),
/// ];
/// assert_eq!(ops[1].op_code(), OpCode::CREATE2);
/// ```
impl MultiOp {
    /// Refuses the multi unless the znode exists and its data has this version.
    pub fn check(path: impl Into<RawPath>, version: impl Into<Expect>) -> Self {
        Self::Check(Check { path: path.into(), version: version.into() })
    }

    /// Creates a znode that is open to everyone. [`Create::new`] has more options.
    pub fn create(path: impl Into<RawPath>, data: impl Into<Bytes>, mode: CreateMode) -> Self {
        Self::Create(Create::new(path, mode).data(data))
    }

    /// Replaces a znode's data.
    pub fn set_data(
        path: impl Into<RawPath>,
        data: impl Into<Bytes>,
        version: impl Into<Expect>,
    ) -> Self {
        let (path, data, version) = (path.into(), Some(data.into()), version.into());
        Self::SetData(SetData { path, data, version })
    }

    /// Deletes a znode.
    pub fn delete(path: impl Into<RawPath>, version: impl Into<Expect>) -> Self {
        Self::Delete(Delete { path: path.into(), version: version.into() })
    }

    /// The code of the operation.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::Create(create) => create.kind.op_code(),
            Self::Delete(_) => OpCode::DELETE,
            Self::SetData(_) => OpCode::SET_DATA,
            Self::Check(_) => OpCode::CHECK,
        }
    }

    /// The path of the znode.
    #[must_use]
    pub fn path(&self) -> &RawPath {
        match self {
            Self::Create(create) => &create.path,
            Self::Delete(delete) => &delete.path,
            Self::SetData(set_data) => &set_data.path,
            Self::Check(check) => &check.path,
        }
    }

    /// Decodes the body of the operation `op`. `None` if a multi cannot contain that operation.
    fn decode_body<'a>(frame: &Bytes, op: OpCode, input: &'a [u8]) -> Option<Parsed<'a, Self>> {
        fn map<'a, T>(
            parsed: Parsed<'a, T>,
            wrap: fn(T) -> MultiOp,
        ) -> Option<Parsed<'a, MultiOp>> {
            Some(parsed.map(|(rest, value)| (rest, wrap(value))))
        }
        match op {
            OpCode::DELETE => map(Delete::decode(frame, input), Self::Delete),
            OpCode::SET_DATA => map(SetData::decode(frame, input), Self::SetData),
            OpCode::CHECK => map(Check::decode(frame, input), Self::Check),
            _ => {
                let kind = CreateKind::from_op_code(op)?;
                map(Create::decode_as(kind, frame, input), Self::Create)
            }
        }
    }

    pub(crate) fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Create(create) => create.encode(out),
            Self::Delete(delete) => delete.encode(out),
            Self::SetData(set_data) => set_data.encode(out),
            Self::Check(check) => check.encode(out),
        }
    }

    /// The bytes of the operation in a multi on the wire: header and body.
    ///
    /// ```
    /// use zoolet_protocol::{Check, Expect, MultiOp};
    ///
    /// let check = MultiOp::Check(Check { path: "/a".into(), version: Expect::Any });
    /// assert_eq!(check.encoded_len(), 9 + 4 + 2 + 4);
    /// ```
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        MultiHeader::BYTES + self.body_len()
    }

    pub(crate) fn body_len(&self) -> usize {
        match self {
            Self::Create(create) => create.encoded_len(),
            Self::Delete(delete) => delete.encoded_len(),
            Self::SetData(set_data) => set_data.encoded_len(),
            Self::Check(check) => check.encoded_len(),
        }
    }
}

impl From<Create> for MultiOp {
    fn from(create: Create) -> Self {
        Self::Create(create)
    }
}

impl From<Delete> for MultiOp {
    fn from(delete: Delete) -> Self {
        Self::Delete(delete)
    }
}

impl From<SetData> for MultiOp {
    fn from(set_data: SetData) -> Self {
        Self::SetData(set_data)
    }
}

impl From<Check> for MultiOp {
    fn from(check: Check) -> Self {
        Self::Check(check)
    }
}

/// A read within a multiRead. On the wire it has a watch flag, which ZooKeeper ignores.
///
/// ```
/// use zoolet_protocol::{MultiReadOp, OpCode};
///
/// assert_eq!(MultiReadOp::GetData("/a".into()).op_code(), OpCode::GET_DATA);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiReadOp {
    /// `getData`.
    GetData(RawPath),
    /// `getChildren`.
    GetChildren(RawPath),
}

impl MultiReadOp {
    /// The code of the operation.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::GetData(_) => OpCode::GET_DATA,
            Self::GetChildren(_) => OpCode::GET_CHILDREN,
        }
    }

    /// The same read on its own.
    #[must_use]
    pub fn to_lookup(&self) -> Lookup {
        match self {
            Self::GetData(path) => Lookup::GetData(path.clone()),
            Self::GetChildren(path) => Lookup::GetChildren(path.clone()),
        }
    }

    /// The path of the znode.
    #[must_use]
    pub fn path(&self) -> &RawPath {
        match self {
            Self::GetData(path) | Self::GetChildren(path) => path,
        }
    }

    fn decode_body<'a>(frame: &Bytes, op: OpCode, input: &'a [u8]) -> Option<Parsed<'a, Self>> {
        let wrap = match op {
            OpCode::GET_DATA => Self::GetData,
            OpCode::GET_CHILDREN => Self::GetChildren,
            _ => return None,
        };
        let body = |input| {
            let (input, path) = RawPath::decode(frame, input)?;
            let (input, _watch) = bool::decode(frame, input)?;
            Ok((input, wrap(path)))
        };
        Some(body(input))
    }
}

/// The result of one operation of a multi or multiRead.
///
/// ```
/// use zoolet_protocol::{ErrorCode, MultiResult, OpCode};
///
/// assert_eq!(MultiResult::Error(ErrorCode::NO_NODE).op_code(), OpCode::ERROR);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiResult {
    /// Of `create`: the path, with its sequence number.
    Create(ByteString),
    /// Of `create2`, `createContainer` and `createTTL`, which all reply like `create2`.
    Create2(ByteString, Stat),
    /// Of `delete`.
    Delete,
    /// Of `setData`.
    SetData(Stat),
    /// Of `check`.
    Check,
    /// Of `getChildren`.
    Children(Names),
    /// Of `getData`.
    Data(Option<Bytes>, Stat),
    /// The operation was not done. In a refused multi every operation has such a result: those
    /// before the refused one have [`ErrorCode::OK`], those after it
    /// [`ErrorCode::RUNTIME_INCONSISTENCY`].
    Error(ErrorCode),
}

impl MultiResult {
    /// The operation code in the header before the result.
    #[must_use]
    pub fn op_code(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::CREATE,
            Self::Create2(..) => OpCode::CREATE2,
            Self::Delete => OpCode::DELETE,
            Self::SetData(_) => OpCode::SET_DATA,
            Self::Check => OpCode::CHECK,
            Self::Children(_) => OpCode::GET_CHILDREN,
            Self::Data(..) => OpCode::GET_DATA,
            Self::Error(_) => OpCode::ERROR,
        }
    }
}

/// Decodes entries up to the header that marks the end.
fn decode_entries<'a, T>(
    frame: &Bytes,
    mut input: &'a [u8],
    mut entry: impl FnMut(OpCode, &'a [u8]) -> Parsed<'a, T>,
) -> Parsed<'a, Vec<T>> {
    let mut entries = Vec::new();
    loop {
        let (rest, header) = MultiHeader::decode(frame, input)?;
        if header.done {
            return Ok((rest, entries));
        }
        let (rest, value) = entry(header.op, rest)?;
        entries.push(value);
        input = rest;
    }
}

/// Decodes the operations of a multi.
pub(crate) fn decode_ops<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Vec<MultiOp>> {
    decode_entries(frame, input, |op, rest| {
        MultiOp::decode_body(frame, op, rest).unwrap_or_else(|| {
            let is_read = MultiReadOp::decode_body(frame, op, rest).is_some();
            fail(if is_read { DecodeFault::MixedMulti } else { DecodeFault::UnknownCode(op.0) })
        })
    })
}

/// Decodes the operations of a multiRead.
pub(crate) fn decode_reads<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Vec<MultiReadOp>> {
    let mut reads = 0;
    let parsed = decode_entries(frame, input, |op, rest| {
        match (MultiReadOp::decode_body(frame, op, rest), MultiOp::decode_body(frame, op, rest)) {
            (Some(parsed), _) => {
                reads += 1;
                parsed.map(|(rest, read)| (rest, Some(read)))
            }
            (None, Some(parsed)) => parsed.map(|(rest, _)| (rest, None)),
            (None, None) => fail(DecodeFault::UnknownCode(op.0)),
        }
    });
    let (rest, entries) = parsed?;
    if reads == entries.len() {
        Ok((rest, entries.into_iter().flatten().collect()))
    } else if reads == 0 {
        fail(DecodeFault::WriteInMultiRead)
    } else {
        fail(DecodeFault::MixedMulti)
    }
}

/// Decodes the results of a multi or multiRead.
pub(crate) fn decode_results<'a>(frame: &Bytes, input: &'a [u8]) -> Parsed<'a, Vec<MultiResult>> {
    decode_entries(frame, input, |op, input| decode_result(frame, op, input))
}

/// Decodes the result of one operation.
fn decode_result<'a>(frame: &Bytes, op: OpCode, input: &'a [u8]) -> Parsed<'a, MultiResult> {
    Ok(match op {
        OpCode::CREATE => {
            let (input, path) = ByteString::decode(frame, input)?;
            (input, MultiResult::Create(path))
        }
        OpCode::CREATE2 => {
            let (input, path) = ByteString::decode(frame, input)?;
            let (input, stat) = Stat::decode(frame, input)?;
            (input, MultiResult::Create2(path, stat))
        }
        OpCode::DELETE => (input, MultiResult::Delete),
        OpCode::SET_DATA => {
            let (input, stat) = Stat::decode(frame, input)?;
            (input, MultiResult::SetData(stat))
        }
        OpCode::CHECK => (input, MultiResult::Check),
        OpCode::GET_CHILDREN => {
            let (input, names) = Names::decode(frame, input)?;
            (input, MultiResult::Children(names))
        }
        OpCode::GET_DATA => {
            let (input, data) = Option::<Bytes>::decode(frame, input)?;
            let (input, stat) = Stat::decode(frame, input)?;
            (input, MultiResult::Data(data, stat))
        }
        OpCode::ERROR => {
            let (input, code) = ErrorCode::decode(frame, input)?;
            (input, MultiResult::Error(code))
        }
        _ => return fail(DecodeFault::UnknownCode(op.0)),
    })
}

/// The operation because of which a multi was refused, and its code, from the body of the reply; `None`
/// if it was carried out. The results of one that was carried out are not decoded: a server answers each
/// operation of a refused multi with a code, and no operation of another.
///
/// # Errors
///
/// [`DecodeError`] if the body does not begin as that of a reply to a multi.
///
/// ```
/// use zoolet_protocol::{ErrorCode, MultiResult, Response, multi_refusal};
///
/// let errors = [ErrorCode::OK, ErrorCode::NO_NODE, ErrorCode::RUNTIME_INCONSISTENCY];
/// let refused = Response::Multi(errors.map(MultiResult::Error).into());
/// assert_eq!(multi_refusal(&refused.to_bytes()), Ok(Some((1, ErrorCode::NO_NODE))));
/// let done = Response::Multi(vec![MultiResult::Delete]);
/// assert_eq!(multi_refusal(&done.to_bytes()), Ok(None));
/// ```
pub fn multi_refusal(body: &Bytes) -> Result<Option<(usize, ErrorCode)>, DecodeError> {
    let (mut input, mut index, mut refusal) = (&body[..], 0, None);
    loop {
        let (rest, header) = MultiHeader::decode(body, input)?;
        if header.done || header.op != OpCode::ERROR {
            return Ok(refusal);
        }
        let (rest, code) = ErrorCode::decode(body, rest)?;
        // The operations before the refused one have the code OK.
        if !code.is_ok() {
            refusal.get_or_insert((index, code));
        }
        (input, index) = (rest, index + 1);
    }
}

pub(crate) fn encode_ops(ops: &[MultiOp], out: &mut BytesMut) {
    for op in ops {
        MultiHeader { op: op.op_code(), done: false, err: ErrorCode(-1) }.encode(out);
        op.encode_body(out);
    }
    MultiHeader::END.encode(out);
}

pub(crate) fn ops_len(ops: &[MultiOp]) -> usize {
    MultiHeader::BYTES + ops.iter().map(MultiOp::encoded_len).sum::<usize>()
}

pub(crate) fn encode_reads(reads: &[MultiReadOp], out: &mut BytesMut) {
    for read in reads {
        MultiHeader { op: read.op_code(), done: false, err: ErrorCode(-1) }.encode(out);
        read.path().encode(out);
        false.encode(out);
    }
    MultiHeader::END.encode(out);
}

pub(crate) fn reads_len(reads: &[MultiReadOp]) -> usize {
    let entry = |read: &MultiReadOp| MultiHeader::BYTES + read.path().encoded_len() + 1;
    MultiHeader::BYTES + reads.iter().map(entry).sum::<usize>()
}

pub(crate) fn encode_results(results: &[MultiResult], out: &mut BytesMut) {
    for result in results {
        result.encode_entry(out);
    }
    MultiHeader::END.encode(out);
}

/// Like [`encode_results`], but shares long data and long lists of names instead of copying them.
pub(crate) fn encode_results_in_parts(results: &[MultiResult], out: &mut impl Parts) {
    for result in results {
        match result {
            MultiResult::Children(names) if names.is_long() => {
                result.header().encode(out.buffer());
                names.encode_in_parts(out);
            }
            MultiResult::Data(Some(data), stat) if data.len() >= SHARED_BYTES_MIN => {
                result.header().encode(out.buffer());
                encode_data_in_parts(data, stat, out);
            }
            _ => result.encode_entry(out.buffer()),
        }
    }
    MultiHeader::END.encode(out.buffer());
}

impl MultiResult {
    fn header(&self) -> MultiHeader {
        let err = if let Self::Error(code) = self { *code } else { ErrorCode::OK };
        MultiHeader { op: self.op_code(), done: false, err }
    }

    fn encode_entry(&self, out: &mut BytesMut) {
        self.header().encode(out);
        match self {
            Self::Create(path) => path.encode(out),
            Self::Create2(path, stat) => {
                path.encode(out);
                stat.encode(out);
            }
            Self::Delete | Self::Check => {}
            Self::SetData(stat) => stat.encode(out),
            Self::Children(names) => names.encode(out),
            Self::Data(data, stat) => {
                data.encode(out);
                stat.encode(out);
            }
            Self::Error(code) => code.encode(out),
        }
    }
}

pub(crate) fn results_len(results: &[MultiResult]) -> usize {
    let body = |result: &MultiResult| match result {
        MultiResult::Create(path) => path.encoded_len(),
        MultiResult::Create2(path, stat) => path.encoded_len() + stat.encoded_len(),
        MultiResult::Delete | MultiResult::Check => 0,
        MultiResult::SetData(stat) => stat.encoded_len(),
        MultiResult::Children(names) => names.encoded_len(),
        MultiResult::Data(data, stat) => data.encoded_len() + stat.encoded_len(),
        MultiResult::Error(code) => code.encoded_len(),
    };
    MultiHeader::BYTES + results.iter().map(|r| MultiHeader::BYTES + body(r)).sum::<usize>()
}
