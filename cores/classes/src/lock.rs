//! Class `lock`: advisory locks. A lock is an attribute `lock.NAME` with all its holders; locks with a duration end by
//! themselves and are dropped when they are looked at.

use crate::{Call, Change, Fail, MOST_REWRITTEN, Method, Outcome, PROMOTE, RD, WR};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::EntityNum;
use messages::class::lock::{
    ATTR_PREFIX, AssertOp, BreakOp, GetInfoOp, ListLocksReply, LockInfo, LockOp, LockerId, LockerInfo, SetCookieOp, UnlockOp,
    flag, kind,
};
use types::{AddrType, EntityAddr, Errno};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "lock", flags: RD | WR | PROMOTE, run: lock },
    Method { name: "unlock", flags: RD | WR | PROMOTE, run: unlock },
    Method { name: "break_lock", flags: RD | WR, run: break_lock },
    Method { name: "get_info", flags: RD, run: get_info },
    Method { name: "list_locks", flags: RD, run: list_locks },
    Method { name: "assert_locked", flags: RD | PROMOTE, run: assert_locked },
    Method { name: "set_cookie", flags: RD | WR | PROMOTE, run: set_cookie },
];

fn attribute(name: &str) -> Bytes {
    format!("{ATTR_PREFIX}{name}").into()
}

fn valid_kind(k: u8) -> bool {
    matches!(k, kind::EXCLUSIVE | kind::SHARED | kind::EXCLUSIVE_EPHEMERAL)
}

fn exclusive(k: u8) -> bool {
    matches!(k, kind::EXCLUSIVE | kind::EXCLUSIVE_EPHEMERAL)
}

/// The lock as it stands now, without holders whose time is over; empty if there is none.
fn read_lock(call: &Call<'_>, name: &str) -> Result<LockInfo, Fail> {
    let Some(value) = call.view.xattr(&attribute(name))? else { return Ok(LockInfo::default()) };
    // Bytes that are no lock are the fault of whoever set the attribute.
    let mut lock = LockInfo::from_bytes(&value).map_err(|_| Fail::Errno(Errno::EIO))?;
    let now = call.now;
    lock.lockers.retain(|_, info| info.expiration.is_zero() || info.expiration >= now);
    Ok(lock)
}

fn write_lock(call: &mut Call<'_>, name: &str, lock: &LockInfo) {
    call.change(Change::SetXattr(attribute(name), lock.to_bytes()));
}

/// Writes a lock that may have become larger: each holder makes all of them be written anew.
fn write_larger(call: &mut Call<'_>, name: &str, lock: &LockInfo) -> Outcome {
    let bytes = lock.to_bytes();
    if bytes.len() > MOST_REWRITTEN {
        return Err(Errno::EDQUOT.into());
    }
    call.change(Change::SetXattr(attribute(name), bytes));
    Ok(Bytes::new())
}

fn caller(call: &Call<'_>) -> EntityNum {
    EntityNum { kind: call.origin.kind, num: call.origin.num }
}

fn lock(call: &mut Call<'_>) -> Outcome {
    let op: LockOp = call.arg()?;
    let renews = op.flags & (flag::MAY_RENEW | flag::MUST_RENEW);
    if !valid_kind(op.kind) || op.name.is_empty() || renews == flag::MAY_RENEW | flag::MUST_RENEW {
        return Err(Errno::EINVAL.into());
    }
    let mut lock = read_lock(call, &op.name)?;
    let id = LockerId { locker: caller(call), cookie: op.cookie.clone() };
    if !lock.lockers.is_empty() && lock.tag != op.tag {
        return Err(Errno::EBUSY.into());
    }
    let held = lock.lockers.contains_key(&id);
    if held && renews == 0 {
        return Err(Errno::EEXIST.into());
    }
    if !held && op.flags & flag::MUST_RENEW != 0 {
        return Err(Errno::ENOENT.into());
    }
    lock.lockers.remove(&id);
    if !lock.lockers.is_empty() && (exclusive(op.kind) || exclusive(lock.kind)) {
        return Err(Errno::EBUSY.into());
    }
    lock.kind = op.kind;
    lock.tag = op.tag;
    let expiration =
        if op.duration.is_zero() { op.duration } else { call.now.plus(std::time::Duration::from_nanos(op.duration.as_nanos())) };
    // IP and nonce tell who holds the lock. The protocol is written as the first one, as blocklist entries print it.
    let addr = EntityAddr { kind: AddrType::Legacy, ..call.origin.addr };
    lock.lockers.insert(id, LockerInfo { expiration, addr, description: op.description });
    write_larger(call, &op.name, &lock)
}

/// Ends a hold; the object goes with the last hold of an ephemeral lock.
fn remove_holder(call: &mut Call<'_>, name: &str, id: &LockerId) -> Outcome {
    let mut lock = read_lock(call, name)?;
    if lock.lockers.remove(id).is_none() {
        return Err(Errno::ENOENT.into());
    }
    if lock.lockers.is_empty() && lock.kind == kind::EXCLUSIVE_EPHEMERAL {
        call.change(Change::Remove);
    } else {
        write_lock(call, name, &lock);
    }
    Ok(Bytes::new())
}

fn unlock(call: &mut Call<'_>) -> Outcome {
    let op: UnlockOp = call.arg()?;
    let id = LockerId { locker: caller(call), cookie: op.cookie };
    remove_holder(call, &op.name, &id)
}

fn break_lock(call: &mut Call<'_>) -> Outcome {
    let op: BreakOp = call.arg()?;
    remove_holder(call, &op.name, &LockerId { locker: op.locker, cookie: op.cookie })
}

fn get_info(call: &mut Call<'_>) -> Outcome {
    let op: GetInfoOp = call.arg()?;
    Ok(read_lock(call, &op.name)?.to_bytes())
}

fn list_locks(call: &mut Call<'_>) -> Outcome {
    let prefix = ATTR_PREFIX.as_bytes();
    let names = call.view.xattrs()?;
    let locks = names.iter().filter_map(|(name, _)| name.strip_prefix(prefix));
    let locks = locks.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    Ok(ListLocksReply { locks }.to_bytes())
}

/// The lock, if the caller holds it with this kind, tag and cookie; EBUSY otherwise, ENOENT without an object.
fn held(call: &Call<'_>, name: &str, wanted: u8, tag: &str, cookie: &str) -> Result<LockInfo, Fail> {
    if !valid_kind(wanted) || name.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    if !call.exists()? {
        return Err(Errno::ENOENT.into());
    }
    let lock = read_lock(call, name)?;
    let id = LockerId { locker: caller(call), cookie: cookie.into() };
    if lock.lockers.is_empty() || lock.kind != wanted || lock.tag != tag || !lock.lockers.contains_key(&id) {
        return Err(Errno::EBUSY.into());
    }
    Ok(lock)
}

fn assert_locked(call: &mut Call<'_>) -> Outcome {
    let op: AssertOp = call.arg()?;
    held(call, &op.name, op.kind, &op.tag, &op.cookie)?;
    Ok(Bytes::new())
}

fn set_cookie(call: &mut Call<'_>) -> Outcome {
    let op: SetCookieOp = call.arg()?;
    let mut lock = held(call, &op.name, op.kind, &op.tag, &op.cookie)?;
    let locker = caller(call);
    let id = LockerId { locker, cookie: op.cookie };
    let new = LockerId { locker, cookie: op.new_cookie };
    if lock.lockers.contains_key(&new) {
        return Err(Errno::EBUSY.into());
    }
    if let Some(info) = lock.lockers.remove(&id) {
        lock.lockers.insert(new, info);
    }
    write_larger(call, &op.name, &lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use types::UTime;

    fn op(k: u8, cookie: &str, tag: &str) -> LockOp {
        LockOp { name: "l".into(), kind: k, cookie: cookie.into(), tag: tag.into(), ..LockOp::default() }
    }

    fn take(bench: &mut Bench, op: &LockOp) -> Result<Bytes, Errno> {
        bench.call("lock", "lock", &op.to_bytes())
    }

    fn release(bench: &mut Bench, cookie: &str) -> Result<Bytes, Errno> {
        bench.call("lock", "unlock", &UnlockOp { name: "l".into(), cookie: cookie.into() }.to_bytes())
    }

    #[test]
    fn an_exclusive_lock_excludes() {
        let mut bench = Bench::default();
        assert_eq!(release(&mut bench, "c"), Err(Errno::ENOENT));
        assert!(take(&mut bench, &op(kind::EXCLUSIVE, "c", "")).is_ok());
        assert_eq!(take(&mut bench, &op(kind::EXCLUSIVE, "c", "")), Err(Errno::EEXIST));
        bench.origin.num = 2;
        assert_eq!(take(&mut bench, &op(kind::EXCLUSIVE, "c", "")), Err(Errno::EBUSY));
        assert_eq!(take(&mut bench, &op(kind::SHARED, "c", "")), Err(Errno::EBUSY));
        assert_eq!(release(&mut bench, "c"), Err(Errno::ENOENT));
        let other = EntityNum { kind: 8, num: 1 };
        let break_it = BreakOp { name: "l".into(), locker: other, cookie: "c".into() }.to_bytes();
        assert!(bench.call("lock", "break_lock", &break_it).is_ok());
        assert!(take(&mut bench, &op(kind::EXCLUSIVE, "c", "")).is_ok());
    }

    #[test]
    fn the_holders_of_a_lock_have_a_bound() {
        let mut bench = Bench::default();
        let long = |n: usize| LockOp { description: "d".repeat(50_000), ..op(kind::SHARED, &format!("c{n}"), "t") };
        let held = (0..100).take_while(|n| take(&mut bench, &long(*n)).is_ok()).count();
        assert_eq!(held, 20);
        assert_eq!(take(&mut bench, &long(99)), Err(Errno::EDQUOT));
        assert!(take(&mut bench, &op(kind::SHARED, "short", "t")).is_ok() && release(&mut bench, "c0").is_ok());
        assert!(take(&mut bench, &long(99)).is_ok());
    }

    #[test]
    fn shared_locks_share_a_tag() {
        let mut bench = Bench::default();
        assert!(take(&mut bench, &op(kind::SHARED, "a", "t")).is_ok());
        assert!(take(&mut bench, &op(kind::SHARED, "b", "t")).is_ok());
        assert_eq!(take(&mut bench, &op(kind::SHARED, "c", "u")), Err(Errno::EBUSY));
        let info = bench.call("lock", "get_info", &GetInfoOp { name: "l".into() }.to_bytes()).expect("read");
        assert_eq!(LockInfo::from_bytes(&info).expect("decodes").lockers.len(), 2);
        let locks = bench.call("lock", "list_locks", b"").expect("read");
        assert_eq!(ListLocksReply::from_bytes(&locks).expect("decodes").locks, ["l"]);
    }

    #[test]
    fn locks_with_a_duration_end_and_can_be_renewed() {
        let mut bench = Bench { now: UTime { sec: 100, nsec: 0 }, ..Bench::default() };
        let short = LockOp { duration: UTime { sec: 10, nsec: 0 }, flags: flag::MAY_RENEW, ..op(kind::EXCLUSIVE, "c", "") };
        assert!(take(&mut bench, &short).is_ok());
        bench.now.sec = 105;
        assert!(take(&mut bench, &short).is_ok());
        bench.origin.num = 2;
        bench.now.sec = 114;
        assert_eq!(take(&mut bench, &short), Err(Errno::EBUSY));
        bench.now.sec = 116;
        assert!(take(&mut bench, &short).is_ok());
        let must = LockOp { flags: flag::MUST_RENEW, cookie: "d".into(), ..short };
        assert_eq!(take(&mut bench, &must), Err(Errno::ENOENT));
    }

    #[test]
    fn the_holder_can_prove_and_rename_its_hold() {
        let mut bench = Bench::default();
        assert!(take(&mut bench, &op(kind::EXCLUSIVE, "c", "t")).is_ok());
        let assert_op = AssertOp { name: "l".into(), kind: kind::EXCLUSIVE, cookie: "c".into(), tag: "t".into() };
        assert!(bench.call("lock", "assert_locked", &assert_op.to_bytes()).is_ok());
        let rename =
            SetCookieOp { name: "l".into(), kind: kind::EXCLUSIVE, cookie: "c".into(), tag: "t".into(), new_cookie: "d".into() };
        assert!(bench.call("lock", "set_cookie", &rename.to_bytes()).is_ok());
        assert_eq!(bench.call("lock", "assert_locked", &assert_op.to_bytes()), Err(Errno::EBUSY));
    }

    #[test]
    fn an_ephemeral_lock_takes_the_object_with_it() {
        let mut bench = Bench::default();
        assert!(take(&mut bench, &op(kind::EXCLUSIVE_EPHEMERAL, "c", "")).is_ok());
        assert!(bench.exists());
        assert!(release(&mut bench, "c").is_ok());
        assert!(!bench.exists());
    }
}
