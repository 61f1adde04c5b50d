//! Clients' operations on objects, the answers, and what an OSD says unasked: backoffs and watch events.

pub use crate::code;
pub use crate::code::{
    alloc_hint, backoff_op, checksum_type, cmp_mode, cmp_op, copy_from_flags, flags, op_flags, watch_event, watch_op,
};
use crate::frame::{self, message};
use bytes::Bytes;
use denc::{DecodeError, Encode, Reader, Result};
use types::{BlockSums, EVersion, Epoch, HObject, Locator, Message, PgId, ReqId, Rope, SnapId, SpgId, UTime};

/// Bytes of one operation in a front: code, flags, arguments, payload length.
const OP_SIZE: usize = 2 + 4 + ARGS_SIZE + 4;
/// Bytes of an operation's arguments.
const ARGS_SIZE: usize = 28;
/// Bytes of the tracing information that clients send as zeros.
const TRACE_SIZE: usize = 24;

/// An operation's arguments: 28 bytes whose meaning the code selects. Bytes beyond the named fields are zero in
/// everything that clients send, and written so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpArgs {
    /// No arguments.
    #[default]
    None,
    /// READ, WRITE and all others on an extent.
    Extent {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Truncation point that goes with the sequence number.
        truncate_size: u64,
        /// Number of the truncation that the client knows of; 0 for all but file systems.
        truncate_seq: u32,
    },
    /// Attribute operations; the input is name, then value.
    Xattr {
        /// Bytes of the name.
        name_len: u32,
        /// Bytes of the value.
        value_len: u32,
        /// See [`code::cmp_op`].
        cmp_op: u8,
        /// See [`code::cmp_mode`].
        cmp_mode: u8,
    },
    /// CALL; the input is class, method, then the method's input.
    Call {
        /// Bytes of the class name.
        class_len: u8,
        /// Bytes of the method name.
        method_len: u8,
        /// Not used.
        argc: u8,
        /// Bytes of the method's input.
        input_len: u32,
    },
    /// Listings.
    List {
        /// Most entries wanted.
        count: u64,
        /// Epoch in which the listing began.
        start_epoch: Epoch,
    },
    /// ROLLBACK.
    Snap {
        /// Snapshot that the object goes back to.
        snap: SnapId,
    },
    /// WATCH.
    Watch {
        /// The client's name for the watch.
        cookie: u64,
        /// Not used.
        version: u64,
        /// See [`code::watch_op`].
        op: u8,
        /// Counts registrations.
        generation: u32,
        /// Seconds; 0 for the default.
        timeout: u32,
    },
    /// NOTIFY and NOTIFY_ACK.
    Notify {
        /// The notifier's own cookie.
        cookie: u64,
    },
    /// ASSERT_VER.
    AssertVer {
        /// User version that the object must have.
        version: u64,
    },
    /// COPY_GET.
    CopyGet {
        /// Most bytes of data wanted.
        max: u64,
    },
    /// COPY_FROM, COPY_FROM2.
    CopyFrom {
        /// Snapshot of the source.
        snap: SnapId,
        /// User version that the source must have; 0 for any.
        src_version: u64,
        /// See [`code::copy_from_flags`].
        flags: u8,
        /// [`op_flags`] for reading the source.
        src_fadvise: u32,
    },
    /// SETALLOCHINT.
    AllocHint {
        /// Expected size of the object.
        object_size: u64,
        /// Expected size of writes.
        write_size: u64,
        /// See [`code::alloc_hint`].
        flags: u32,
    },
    /// WRITESAME.
    WriteSame {
        /// First byte.
        offset: u64,
        /// Bytes to write.
        length: u64,
        /// Bytes of the pattern.
        data_length: u64,
    },
    /// CHECKSUM.
    Checksum {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Bytes that one checksum covers.
        chunk_size: u32,
        /// See [`code::checksum_type`].
        kind: u8,
    },
    /// Arguments of operations that have no meaning here, and echoed ones with left-overs in them.
    Raw([u8; ARGS_SIZE]),
}

impl OpArgs {
    /// An extent without truncation.
    pub const fn extent(offset: u64, length: u64) -> Self {
        Self::Extent { offset, length, truncate_size: 0, truncate_seq: 0 }
    }

    /// Reads the arguments of operation `op` from their 28 bytes.
    fn parse(op: u16, raw: &[u8; ARGS_SIZE]) -> Result<Self> {
        use code::*;
        let mut r = Reader::new(raw);
        Ok(match op {
            READ | MAPEXT | MASKTRUNC | SPARSE_READ | SYNC_READ | WRITE | WRITEFULL | TRUNCATE | ZERO | APPEND | TRIMTRUNC
            | CMPEXT => Self::Extent { offset: r.get()?, length: r.get()?, truncate_size: r.get()?, truncate_seq: r.get()? },
            GETXATTR | CMPXATTR | SETXATTR | RMXATTR => {
                Self::Xattr { name_len: r.get()?, value_len: r.get()?, cmp_op: r.get()?, cmp_mode: r.get()? }
            }
            CALL => Self::Call { class_len: r.get()?, method_len: r.get()?, argc: r.get()?, input_len: r.get()? },
            PGLS | PGLS_FILTER | PGNLS | PGNLS_FILTER => Self::List { count: r.get()?, start_epoch: r.get()? },
            ROLLBACK => Self::Snap { snap: r.get()? },
            WATCH => Self::Watch { cookie: r.get()?, version: r.get()?, op: r.get()?, generation: r.get()?, timeout: r.get()? },
            NOTIFY | NOTIFY_ACK => Self::Notify { cookie: r.get()? },
            ASSERT_VER => {
                r.u64()?;
                Self::AssertVer { version: r.get()? }
            }
            COPY_GET | COPY_READ => Self::CopyGet { max: r.get()? },
            COPY_FROM | COPY_FROM2 => {
                Self::CopyFrom { snap: r.get()?, src_version: r.get()?, flags: r.get()?, src_fadvise: r.get()? }
            }
            SETALLOCHINT => Self::AllocHint { object_size: r.get()?, write_size: r.get()?, flags: r.get()? },
            WRITESAME => Self::WriteSame { offset: r.get()?, length: r.get()?, data_length: r.get()? },
            CHECKSUM => Self::Checksum { offset: r.get()?, length: r.get()?, chunk_size: r.get()?, kind: r.get()? },
            _ if raw.iter().all(|b| *b == 0) => Self::None,
            _ => Self::Raw(*raw),
        })
    }

    /// The same, but arguments with more than the operation's own fields stay raw: Ceph's OSDs put lengths and other
    /// left-overs into the arguments that they echo.
    fn parse_exactly(op: u16, raw: &[u8; ARGS_SIZE]) -> Result<Self> {
        let args = Self::parse(op, raw)?;
        Ok(if args.to_raw() == *raw { args } else { Self::Raw(*raw) })
    }

    /// The 28 bytes.
    fn to_raw(self) -> [u8; ARGS_SIZE] {
        let mut raw = [0; ARGS_SIZE];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            raw[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        match self {
            Self::None => {}
            Self::Extent { offset, length, truncate_size, truncate_seq } => {
                put(&offset.to_le_bytes());
                put(&length.to_le_bytes());
                put(&truncate_size.to_le_bytes());
                put(&truncate_seq.to_le_bytes());
            }
            Self::Xattr { name_len, value_len, cmp_op, cmp_mode } => {
                put(&name_len.to_le_bytes());
                put(&value_len.to_le_bytes());
                put(&[cmp_op, cmp_mode]);
            }
            Self::Call { class_len, method_len, argc, input_len } => {
                put(&[class_len, method_len, argc]);
                put(&input_len.to_le_bytes());
            }
            Self::List { count, start_epoch } => {
                put(&count.to_le_bytes());
                put(&start_epoch.to_le_bytes());
            }
            Self::Snap { snap } => put(&snap.0.to_le_bytes()),
            Self::Watch { cookie, version, op, generation, timeout } => {
                put(&cookie.to_le_bytes());
                put(&version.to_le_bytes());
                put(&[op]);
                put(&generation.to_le_bytes());
                put(&timeout.to_le_bytes());
            }
            Self::Notify { cookie } => put(&cookie.to_le_bytes()),
            Self::AssertVer { version } => {
                put(&[0; 8]);
                put(&version.to_le_bytes());
            }
            Self::CopyGet { max } => put(&max.to_le_bytes()),
            Self::CopyFrom { snap, src_version, flags, src_fadvise } => {
                put(&snap.0.to_le_bytes());
                put(&src_version.to_le_bytes());
                put(&[flags]);
                put(&src_fadvise.to_le_bytes());
            }
            Self::AllocHint { object_size, write_size, flags } => {
                put(&object_size.to_le_bytes());
                put(&write_size.to_le_bytes());
                put(&flags.to_le_bytes());
            }
            Self::WriteSame { offset, length, data_length } => {
                put(&offset.to_le_bytes());
                put(&length.to_le_bytes());
                put(&data_length.to_le_bytes());
            }
            Self::Checksum { offset, length, chunk_size, kind } => {
                put(&offset.to_le_bytes());
                put(&length.to_le_bytes());
                put(&chunk_size.to_le_bytes());
                put(&[kind]);
            }
            Self::Raw(bytes) => put(&bytes),
        }
        raw
    }
}

/// One operation of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// The operation, see [`code`].
    pub code: u16,
    /// See [`op_flags`].
    pub flags: u32,
    /// Arguments.
    pub args: OpArgs,
    /// Input; shares the message's buffer.
    pub input: Bytes,
    /// Checksums of the input's blocks, if they are known.
    pub sums: BlockSums,
}

/// A class call taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Class name.
    pub class: &'a [u8],
    /// Method name.
    pub method: &'a [u8],
    /// The method's input; shares the buffer.
    pub input: Bytes,
}

impl Op {
    /// An operation without input.
    pub fn new(code: u16, args: OpArgs) -> Self {
        Self { code, args, ..Self::default() }
    }

    /// An operation on an extent.
    pub fn extent(code: u16, offset: u64, length: u64, input: impl Into<Bytes>) -> Self {
        Self { input: input.into(), ..Self::new(code, OpArgs::extent(offset, length)) }
    }

    /// A class call.
    pub fn call(class: &str, method: &str, input: &[u8]) -> Self {
        let args = OpArgs::Call {
            class_len: u8::try_from(class.len()).expect("class names are short"),
            method_len: u8::try_from(method.len()).expect("method names are short"),
            argc: 0,
            input_len: u32::try_from(input.len()).expect("inputs are below 4 GiB"),
        };
        Self { input: [class.as_bytes(), method.as_bytes(), input].concat().into(), ..Self::new(code::CALL, args) }
    }

    /// An attribute operation on `name`.
    pub fn xattr(code: u16, name: &[u8], value: &[u8]) -> Self {
        let len = |b: &[u8]| u32::try_from(b.len()).expect("attributes are below 4 GiB");
        let args = OpArgs::Xattr { name_len: len(name), value_len: len(value), cmp_op: 0, cmp_mode: 0 };
        Self { input: [name, value].concat().into(), ..Self::new(code, args) }
    }

    /// Name and value of an attribute operation.
    ///
    /// # Errors
    /// The operation has other arguments, or its input is shorter than they say.
    pub fn name_value(&self) -> Result<(Bytes, Bytes)> {
        let OpArgs::Xattr { name_len, value_len, .. } = self.args else {
            return Err(DecodeError::Invalid("attribute arguments"));
        };
        let mut r = Reader::new(&self.input);
        let name = r.take(name_len as usize)?;
        let value = r.take(value_len as usize)?;
        Ok((self.input.slice_ref(name), self.input.slice_ref(value)))
    }

    /// Class, method and input of a CALL.
    ///
    /// # Errors
    /// The operation has other arguments, or its input is shorter than they say.
    pub fn class_call(&self) -> Result<Call<'_>> {
        let OpArgs::Call { class_len, method_len, input_len, .. } = self.args else {
            return Err(DecodeError::Invalid("call arguments"));
        };
        let mut r = Reader::new(&self.input);
        let class = r.take(class_len.into())?;
        let method = r.take(method_len.into())?;
        let input = r.take(input_len as usize)?;
        Ok(Call { class, method, input: self.input.slice_ref(input) })
    }

    /// Name for logs.
    pub fn name(&self) -> &'static str {
        code::name(self.code).unwrap_or("unknown")
    }
}

/// A request of operations on one object, all or nothing (42, v8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdOp {
    /// Placement group and shard that the client computed.
    pub pg: SpgId,
    /// Placement hash of the object.
    pub hash: u32,
    /// The client's map.
    pub epoch: Epoch,
    /// See [`flags`].
    pub flags: u32,
    /// All zero from clients: the connection's entity and the message's transaction id say who and what.
    pub reqid: ReqId,
    /// The client's incarnation, 0.
    pub client_inc: u32,
    /// Modification time that a write leaves; zero in reads.
    pub mtime: UTime,
    /// Pool, namespace, key.
    pub locator: Locator,
    /// Object name.
    pub oid: Bytes,
    /// The operations, in order.
    pub ops: Vec<Op>,
    /// Snapshot to read.
    pub snapid: SnapId,
    /// Newest snapshot that the client knows of; 0 with pool snapshots.
    pub snap_seq: u64,
    /// Its snapshots, newest first.
    pub snaps: Vec<u64>,
    /// Number of times that this was sent before; -1 unknown.
    pub retry: i32,
    /// The client's features.
    pub features: u64,
}

impl OsdOp {
    /// Message type number.
    pub const KIND: u16 = 42;
    /// Header version of the layout written.
    pub const VERSION: u16 = 8;

    /// Reads it from a message. Inputs share the data section's buffers.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "OsdOp", Self::KIND, Self::VERSION)?;
        let (pg, hash, epoch, flags, reqid) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        r.skip(TRACE_SIZE)?;
        let (client_inc, mtime, locator, oid) = (r.get()?, r.get()?, r.get()?, r.get()?);
        let n = usize::from(r.u16()?);
        let ops = decode_ops(&mut r, n, &m.data)?;
        let (snapid, snap_seq, snaps, retry, features) = (r.get()?, r.get()?, r.get()?, r.get()?, r.get()?);
        frame::close(m, Self::VERSION, &r)?;
        Ok(Self { pg, hash, epoch, flags, reqid, client_inc, mtime, locator, oid, ops, snapid, snap_seq, snaps, retry, features })
    }

    /// Writes it as a message; the caller sets the transaction id.
    pub fn encode(&self) -> Message {
        let names = self.oid.len() + self.locator.key.len() + self.locator.nspace.len();
        let mut front = Vec::with_capacity(176 + names + OP_SIZE * self.ops.len() + 8 * self.snaps.len());
        self.pg.encode(&mut front);
        self.hash.encode(&mut front);
        self.epoch.encode(&mut front);
        self.flags.encode(&mut front);
        self.reqid.encode(&mut front);
        front.extend_from_slice(&[0; TRACE_SIZE]);
        self.client_inc.encode(&mut front);
        self.mtime.encode(&mut front);
        self.locator.encode(&mut front);
        self.oid.encode(&mut front);
        u16::try_from(self.ops.len()).expect("a request has fewer than 65536 operations").encode(&mut front);
        let mut data = Rope::new();
        for op in &self.ops {
            encode_op(&mut front, op.code, op.flags, op.args, op.input.len());
            data.push(op.input.clone());
        }
        self.snapid.encode(&mut front);
        self.snap_seq.encode(&mut front);
        self.snaps.encode(&mut front);
        self.retry.encode(&mut front);
        self.features.encode(&mut front);
        let mut m = frame::build(Self::KIND, Self::VERSION, 3, front);
        m.priority = types::message::PRIORITY_CLIENT_OP;
        m.data = data;
        m
    }

    /// Returns true if the message's flags say that it may write. Class methods may write without it.
    pub fn may_write(&self) -> bool {
        self.flags & flags::WRITE != 0
    }
}

/// One operation's head, without its payload.
struct RawOp {
    code: u16,
    flags: u32,
    args: OpArgs,
    payload: usize,
}

fn decode_op(r: &mut Reader<'_>, parse: impl Fn(u16, &[u8; ARGS_SIZE]) -> Result<OpArgs>) -> Result<RawOp> {
    let mut r = Reader::new(r.take(OP_SIZE)?);
    let (code, flags) = (r.u16()?, r.u32()?);
    let args = parse(code, &r.array()?)?;
    Ok(RawOp { code, flags, args, payload: r.u32()? as usize })
}

fn encode_op(out: &mut Vec<u8>, code: u16, flags: u32, args: OpArgs, payload: usize) {
    let mut op = [0; OP_SIZE];
    op[..2].copy_from_slice(&code.to_le_bytes());
    op[2..6].copy_from_slice(&flags.to_le_bytes());
    op[6..34].copy_from_slice(&args.to_raw());
    op[34..].copy_from_slice(&u32::try_from(payload).expect("a payload is below 4 GiB").to_le_bytes());
    out.extend_from_slice(&op);
}

/// Reads `n` operations and cuts their inputs out of `data`, which they must use up.
fn decode_ops(r: &mut Reader<'_>, n: usize, data: &Rope) -> Result<Vec<Op>> {
    if n * OP_SIZE > r.remaining() {
        return Err(DecodeError::CountTooLarge { count: n as u64, have: r.remaining() });
    }
    let mut ops = Vec::with_capacity(n);
    let mut at = 0;
    for _ in 0..n {
        let RawOp { code, flags, args, payload } = decode_op(r, OpArgs::parse)?;
        let (input, sums) = input(data, at, payload)?;
        ops.push(Op { code, flags, args, input, sums });
        at += payload;
    }
    if at != data.len() {
        return Err(DecodeError::Trailing(data.len() - at));
    }
    Ok(ops)
}

/// One operation's input. Shares the buffer if it lies in one piece, as it does in what the messenger receives.
fn input(data: &Rope, at: usize, len: usize) -> Result<(Bytes, BlockSums)> {
    let bytes = match data.pieces() {
        _ if len == 0 => return Ok(Default::default()),
        [piece] if at.checked_add(len).is_some_and(|end| end <= piece.len()) => piece.slice(at..at + len),
        _ => section(data, at, len)?.contiguous(),
    };
    Ok((bytes, data.block_sums().from(at)))
}

/// `len` bytes of `data` from `at`, which must be there.
fn section(data: &Rope, at: usize, len: usize) -> Result<Rope> {
    let have = data.len().saturating_sub(at);
    if len > have {
        return Err(DecodeError::Truncated { need: len, have });
    }
    Ok(if len == 0 { Rope::new() } else { data.slice(at, len) })
}

/// Result of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpResult {
    /// The operation, as in the request.
    pub code: u16,
    /// Its flags, as in the request.
    pub flags: u32,
    /// Its arguments; a READ's length becomes the length read.
    pub args: OpArgs,
    /// Result: 0, a count, or a negative error number.
    pub rval: i32,
    /// Output.
    pub output: Rope,
}

impl OpResult {
    /// The result slot of `op`: 0 and empty.
    pub fn of(op: &Op) -> Self {
        Self { code: op.code, flags: op.flags, args: op.args, rval: 0, output: Rope::new() }
    }
}

/// The answer to an [`OsdOp`] (43, v8). Its message carries the request's transaction id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdOpReply {
    /// Object name, as in the request.
    pub oid: Bytes,
    /// Placement group.
    pub pg: PgId,
    /// The request's flags plus ack and ondisk.
    pub flags: i64,
    /// Result of the whole: 0 or more, or a negative error number.
    pub result: i32,
    /// The OSD's map.
    pub epoch: Epoch,
    /// Result of each operation.
    pub ops: Vec<OpResult>,
    /// As in the request.
    pub retry: i32,
    /// Place where the write stands in the group's history; zero for reads.
    pub replay_version: EVersion,
    /// The object's version as users see it.
    pub user_version: u64,
}

impl OsdOpReply {
    /// Message type number.
    pub const KIND: u16 = 43;
    /// Header version of the layout written.
    pub const VERSION: u16 = 8;

    /// Returns what clients from before user versions read: the replay version, with the user version in it if there
    /// is one.
    fn old_version(&self) -> EVersion {
        let version = if self.user_version != 0 { self.user_version } else { self.replay_version.version };
        EVersion { version, epoch: self.replay_version.epoch }
    }

    /// Reads it from a message. Outputs share the data section's buffers.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "OsdOpReply", Self::KIND, Self::VERSION)?;
        let (oid, pg, flags, result) = (r.get()?, r.get()?, r.get()?, r.get()?);
        r.get::<EVersion>()?;
        let epoch = r.get()?;
        let n = r.count(OP_SIZE)?;
        let mut ops = Vec::with_capacity(n);
        let mut at = 0;
        for _ in 0..n {
            let RawOp { code, flags, args, payload } = decode_op(&mut r, OpArgs::parse_exactly)?;
            ops.push(OpResult { code, flags, args, rval: 0, output: section(&m.data, at, payload)? });
            at += payload;
        }
        if at != m.data.len() {
            return Err(DecodeError::Trailing(m.data.len() - at));
        }
        let retry = r.get()?;
        for op in &mut ops {
            op.rval = r.get()?;
        }
        let (replay_version, user_version) = (r.get()?, r.get()?);
        if r.get::<bool>()? {
            return Err(DecodeError::Invalid("redirected reply: pools here have no tiers"));
        }
        r.skip(TRACE_SIZE)?;
        frame::close(m, Self::VERSION, &r)?;
        Ok(Self { oid, pg, flags, result, epoch, ops, retry, replay_version, user_version })
    }

    /// Writes it as a message; the caller sets the transaction id.
    pub fn encode(&self) -> Message {
        // Everything but name and operations takes 110 bytes.
        let mut front = Vec::with_capacity(110 + self.oid.len() + (OP_SIZE + 4) * self.ops.len());
        self.oid.encode(&mut front);
        self.pg.encode(&mut front);
        self.flags.encode(&mut front);
        self.result.encode(&mut front);
        self.old_version().encode(&mut front);
        self.epoch.encode(&mut front);
        denc::put_count(&mut front, self.ops.len());
        let mut data = Rope::new();
        for op in &self.ops {
            encode_op(&mut front, op.code, op.flags, op.args, op.output.len());
            data.append(op.output.clone());
        }
        self.retry.encode(&mut front);
        for op in &self.ops {
            op.rval.encode(&mut front);
        }
        self.replay_version.encode(&mut front);
        self.user_version.encode(&mut front);
        false.encode(&mut front);
        front.extend_from_slice(&[0; TRACE_SIZE]);
        let mut m = frame::build(Self::KIND, Self::VERSION, 2, front);
        m.data = data;
        m
    }
}

/// Asks a client to hold back what it has for a range of objects (61), or the client's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Placement group.
    pub pg: SpgId,
    /// Sender's map.
    pub epoch: Epoch,
    /// See [`code::backoff_op`].
    pub op: u8,
    /// Number of the backoff on its session.
    pub id: u64,
    /// First object concerned.
    pub begin: HObject,
    /// First object no longer concerned; equal to `begin` for just that object.
    pub end: HObject,
}
message!(Backoff = 61 v 1 / 1 { pg, epoch, op, id, begin, end });

/// Tells a watcher of a notify, a notifier of its end, or a watcher that its watch is gone (44, v3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchNotify {
    /// See [`code::watch_event`].
    pub event: u8,
    /// The receiver's cookie.
    pub cookie: u64,
    /// Not used by clients; the object's version.
    pub version: u64,
    /// Number of the notify.
    pub notify_id: u64,
    /// The notifier's payload.
    pub payload: Bytes,
    /// Result of the notify when it ends: 0, or -110 if not all answered.
    pub return_code: i32,
    /// Global id of the notifier.
    pub notifier: u64,
    /// At the end: [`crate::ops::NotifyReplies`].
    pub replies: Rope,
}

impl WatchNotify {
    /// Message type number.
    pub const KIND: u16 = 44;
    /// Header version of the layout written.
    pub const VERSION: u16 = 3;

    /// Reads it from a message.
    pub fn decode(m: &Message) -> Result<Self> {
        let mut r = frame::open(m, "WatchNotify", Self::KIND, Self::VERSION)?;
        // A version of its own, older than header versions.
        if r.u8()? != 1 {
            return Err(DecodeError::Invalid("watch event version"));
        }
        let (event, cookie, version, notify_id) = (r.get()?, r.get()?, r.get()?, r.get()?);
        let (payload, return_code, notifier) = (r.get()?, r.get()?, r.get()?);
        frame::close(m, Self::VERSION, &r)?;
        Ok(Self { event, cookie, version, notify_id, payload, return_code, notifier, replies: m.data.clone() })
    }

    /// Writes it as a message.
    pub fn encode(&self) -> Message {
        let mut front = Vec::with_capacity(42 + self.payload.len());
        front.push(1);
        self.event.encode(&mut front);
        self.cookie.encode(&mut front);
        self.version.encode(&mut front);
        self.notify_id.encode(&mut front);
        self.payload.encode(&mut front);
        self.return_code.encode(&mut front);
        self.notifier.encode(&mut front);
        let mut m = frame::build(Self::KIND, Self::VERSION, 1, front);
        m.data = self.replies.clone();
        m
    }
}
