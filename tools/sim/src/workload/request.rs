//! Actions as requests, and replies as outcomes.

use crate::model::{Action, Guard, Outcome, Pairs};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::{lock, refcount, version};
use messages::code::{self, cmp_mode, cmp_op, flags, op_flags};
use messages::ops::{self, CopySource, OmapGetKeys, OmapGetVals, OmapKeys, OmapRange, OmapVals};
use messages::osd::{Op, OpArgs, OsdOpReply};
use objecter::OpRequest;
use types::{Locator, PoolId, SnapId};

/// The lock's name.
const LOCK: &str = "l";
/// What it is taken with.
const COOKIE: &str = "c";
/// The longest object here.
const ALL: u64 = 1 << 22;

fn extent(code: u16, offset: u64, length: u64, data: &[u8]) -> Op {
    Op::extent(code, offset, length, Bytes::copy_from_slice(data))
}

fn with_input(code: u16, input: impl Into<Bytes>) -> Op {
    Op { input: input.into(), ..Op::new(code, OpArgs::None) }
}

fn pairs(map: &Pairs) -> Bytes {
    let map: ops::Pairs = map.iter().map(|(k, v)| (bytes(k), Bytes::copy_from_slice(v))).collect();
    map.to_bytes()
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn copy_of(number: u64, pool: PoolId) -> Op {
    let source = CopySource { name: format!("s{number}").into(), locator: Locator::pool(pool), truncate: None };
    let args = OpArgs::CopyFrom { snap: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise: 0 };
    Op { input: source.to_bytes(), ..Op::new(code::COPY_FROM, args) }
}

/// Returns what asks for an action in a pool.
pub(super) fn request_of(action: &Action, pool: PoolId) -> OpRequest {
    let ops = match action {
        Action::CopyOf(number) => vec![copy_of(*number, pool)],
        action if action.is_read() => looks(action),
        action => changes(action),
    };
    let flags = if action.is_read() { flags::READ } else { flags::WRITE };
    let reads = ops.iter().any(|op| code::reads(op.code) && op.code != code::CALL);
    let flags = if reads { flags | flags::READ } else { flags };
    OpRequest { ops, flags, ..OpRequest::default() }
}

fn looks(action: &Action) -> Vec<Op> {
    let key_list = |keys: &[String]| -> Vec<Bytes> { keys.iter().map(|k| bytes(k)).collect() };
    let page = |after: &str, max| OmapGetVals { start_after: bytes(after), max, prefix: Bytes::new() }.to_bytes();
    vec![match action {
        Action::Read => extent(code::READ, 0, ALL, &[]),
        Action::ReadAt(offset, length) => extent(code::READ, *offset, *length, &[]),
        // The size tells how long the last hole is.
        Action::SparseRead => return vec![extent(code::SPARSE_READ, 0, ALL, &[]), with_input(code::STAT, Bytes::new())],
        Action::Stat => with_input(code::STAT, Bytes::new()),
        Action::GetXattr(name) => Op::xattr(code::GETXATTR, name.as_bytes(), &[]),
        Action::GetXattrs => with_input(code::GETXATTRS, Bytes::new()),
        Action::OmapGet => with_input(code::OMAPGETVALS, page("", 1000)),
        Action::OmapPage(after, most) => with_input(code::OMAPGETVALS, page(after, *most)),
        Action::OmapKeys => with_input(code::OMAPGETKEYS, OmapGetKeys { start_after: Bytes::new(), max: 1000 }.to_bytes()),
        Action::OmapByKeys(keys) => with_input(code::OMAPGETVALSBYKEYS, key_list(keys).to_bytes()),
        Action::OmapHeader => with_input(code::OMAPGETHEADER, Bytes::new()),
        Action::VersionRead => Op::call("version", "read", &[]),
        Action::RefRead => Op::call("refcount", "read", &refcount::ReadOp { implicit_ref: true }.to_bytes()),
        other => unreachable!("{other:?} is no read"),
    }]
}

fn changes(action: &Action) -> Vec<Op> {
    let key_list = |keys: &[String]| -> Vec<Bytes> { keys.iter().map(|k| bytes(k)).collect() };
    vec![match action {
        Action::WriteFull(data) => extent(code::WRITEFULL, 0, data.len() as u64, data),
        Action::Write(offset, data) => extent(code::WRITE, *offset, data.len() as u64, data),
        Action::WriteSame(offset, times, data) => {
            let length = data.len() as u64;
            let args = OpArgs::WriteSame { offset: *offset, length: length * times, data_length: length };
            Op { input: Bytes::copy_from_slice(data), ..Op::new(code::WRITESAME, args) }
        }
        Action::Append(data) => extent(code::APPEND, 0, data.len() as u64, data),
        Action::Truncate(size) => extent(code::TRUNCATE, *size, 0, &[]),
        Action::Zero(offset, len) => extent(code::ZERO, *offset, *len, &[]),
        Action::CreateExclusively => Op { flags: op_flags::EXCL, ..with_input(code::CREATE, Bytes::new()) },
        Action::Delete => with_input(code::DELETE, Bytes::new()),
        Action::SetXattr(name, value) => Op::xattr(code::SETXATTR, name.as_bytes(), value),
        Action::RemoveXattr(name) => Op::xattr(code::RMXATTR, name.as_bytes(), &[]),
        Action::OmapSet(map) => with_input(code::OMAPSETVALS, pairs(map)),
        Action::OmapRemove(keys) => with_input(code::OMAPRMKEYS, key_list(keys).to_bytes()),
        Action::OmapRemoveRange(first, end) => {
            with_input(code::OMAPRMKEYRANGE, OmapRange { first: bytes(first), end: bytes(end) }.to_bytes())
        }
        Action::OmapClear => with_input(code::OMAPCLEAR, Bytes::new()),
        Action::OmapSetHeader(header) => with_input(code::OMAPSETHEADER, Bytes::copy_from_slice(header)),
        Action::AppendAndMark(data, key) => {
            let mark = Pairs::from([(key.clone(), data.clone())]);
            return vec![extent(code::APPEND, 0, data.len() as u64, data), with_input(code::OMAPSETVALS, pairs(&mark))];
        }
        Action::DeleteIf(name, value) => {
            return vec![guard_of(&Guard::Xattr(name.clone(), value.clone())), with_input(code::DELETE, Bytes::new())];
        }
        Action::All(actions) => return actions.iter().flat_map(changes).collect(),
        Action::If(guard, action) => return [guard_of(guard)].into_iter().chain(changes(action)).collect(),
        Action::Rollback(snap) => Op::new(code::ROLLBACK, OpArgs::Snap { snap: SnapId(*snap) }),
        call => call_of(call),
    }]
}

fn call_of(action: &Action) -> Op {
    let (name, cookie, tag) = (LOCK.to_string(), COOKIE.to_string(), String::new());
    match action {
        Action::Add(key, number) => Op::call("numops", "add", &(bytes(key), bytes(&number.to_string())).to_bytes()),
        Action::VersionIncrement => Op::call("version", "inc", &version::IncOp::default().to_bytes()),
        Action::VersionIncrementIf(count) => {
            let ver = version::ObjVersion { ver: *count, tag: String::new() };
            let conds = [version::cond::GE, version::cond::LE].map(|cond| version::Condition { ver: ver.clone(), cond });
            let op = version::IncOp { conds: conds.to_vec(), ..version::IncOp::default() };
            Op::call("version", "inc_conds", &op.to_bytes())
        }
        Action::Lock(_) => {
            let op = lock::LockOp { name, kind: lock::kind::EXCLUSIVE, cookie, tag, ..lock::LockOp::default() };
            Op::call("lock", "lock", &op.to_bytes())
        }
        Action::Unlock(_) => Op::call("lock", "unlock", &lock::UnlockOp { name, cookie }.to_bytes()),
        Action::RefGet(tag) => Op::call("refcount", "get", &refcount::GetOp { tag: tag.clone(), implicit_ref: true }.to_bytes()),
        Action::RefPut(tag) => Op::call("refcount", "put", &refcount::PutOp { tag: tag.clone(), implicit_ref: true }.to_bytes()),
        other => unreachable!("{other:?} is no class call"),
    }
}

fn guard_of(guard: &Guard) -> Op {
    match guard {
        Guard::Xattr(name, value) => {
            let mut compare = Op::xattr(code::CMPXATTR, name.as_bytes(), value);
            if let OpArgs::Xattr { cmp_op, cmp_mode, .. } = &mut compare.args {
                (*cmp_op, *cmp_mode) = (self::cmp_op::EQ, self::cmp_mode::STRING);
            }
            compare
        }
        Guard::Omap(key, value) => {
            let wanted = (Bytes::copy_from_slice(value), i32::from(cmp_op::EQ));
            with_input(code::OMAP_CMP, ops::OmapAssertions::from([(bytes(key), wanted)]).to_bytes())
        }
        Guard::Version(version) => Op::new(code::ASSERT_VER, OpArgs::AssertVer { version: *version }),
        Guard::Bytes(offset, bytes) => extent(code::CMPEXT, *offset, bytes.len() as u64, bytes),
    }
}

fn named(map: ops::Pairs) -> Pairs {
    map.into_iter().map(|(k, v)| (String::from_utf8_lossy(&k).into_owned(), v[..].to_vec())).collect()
}

fn names(keys: impl IntoIterator<Item = String>) -> Pairs {
    keys.into_iter().map(|k| (k, Vec::new())).collect()
}

/// Returns what a reply says. An answer that cannot be read is an error with an impossible number.
pub(super) fn outcome_of(action: &Action, reply: &OsdOpReply) -> Outcome {
    if reply.result < 0 {
        return Outcome::Error(reply.result);
    }
    let output = |n: usize| reply.ops.get(n).map(|op| op.output.contiguous()).unwrap_or_default();
    parse(action, &output(0), &output(1)).unwrap_or(Outcome::Error(i32::MIN))
}

fn parse(action: &Action, first: &Bytes, second: &Bytes) -> denc::Result<Outcome> {
    Ok(match action {
        Action::Read | Action::ReadAt(..) | Action::GetXattr(_) | Action::OmapHeader => Outcome::Data(first[..].to_vec()),
        Action::Stat => Outcome::Size(ops::Stat::from_bytes(first)?.size),
        Action::SparseRead => {
            let (extents, data) = ops::parse_sparse_read(first)?;
            let mut whole = vec![0; ops::Stat::from_bytes(second)?.size as usize];
            let mut at = 0;
            for (offset, length) in extents {
                let (from, length) = (offset as usize, length as usize);
                let Some(place) = whole.get_mut(from..from + length) else { return Ok(Outcome::Error(i32::MIN)) };
                place.copy_from_slice(&data[at..at + length]);
                at += length;
            }
            Outcome::Data(whole)
        }
        Action::GetXattrs => {
            let all = named(ops::Pairs::from_bytes(first)?);
            // Classes keep theirs under other names.
            Outcome::Map(all.into_iter().filter(|(name, _)| name.starts_with('k')).collect())
        }
        Action::OmapGet => Outcome::Map(named(OmapVals::from_bytes(first)?.pairs)),
        Action::OmapPage(..) => {
            let page = OmapVals::from_bytes(first)?;
            Outcome::Page(named(page.pairs), page.more)
        }
        Action::OmapByKeys(_) => Outcome::Map(named(ops::Pairs::from_bytes(first)?)),
        Action::OmapKeys => {
            let keys = OmapKeys::from_bytes(first)?.keys;
            Outcome::Map(names(keys.into_iter().map(|k| String::from_utf8_lossy(&k).into_owned())))
        }
        Action::VersionRead => Outcome::Size(version::ReadReply::from_bytes(first)?.objv.ver),
        Action::RefRead => Outcome::Map(names(refcount::ReadReply::from_bytes(first)?.refs)),
        _ => Outcome::Done,
    })
}
