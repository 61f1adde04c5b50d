//! Listing a group's objects, and what scrub found.

use crate::core::read::list_current;
use crate::object::bounds;
use crate::ops::cost::listing_costs_too_much;
use crate::ops::run::{Env, Exec, Stop};
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::ops::{ListEntry, ListFilter, ListPage, OldListPage, ScrubPage};
use messages::osd::{Op, OpArgs, OpResult, OsdOp, code};
use types::{Errno, HObject, Locator, ObjectId, SnapId};

/// Most objects in one page (`osd_max_pgls`).
const MAX_PAGE: u64 = 1024;
/// Objects that one page looks at, at most, for one that it lists: a page of another namespace ends early instead of
/// walking the group.
const LOOK_AT: usize = 4;
/// The namespace that stands for all.
const ALL_NAMESPACES: &[u8] = b"\x01";

/// Result of a page.
struct Listed {
    next: HObject,
    entries: Vec<ListEntry>,
    done: bool,
}

/// Executes a vector of operations on the group.
pub(crate) fn execute(env: &Env<'_>, op: &OsdOp) -> Exec<(i32, Vec<OpResult>)> {
    let mut results: Vec<OpResult> = op.ops.iter().map(OpResult::of).collect();
    let mut last = 0;
    for (single, slot) in op.ops.iter().zip(&mut results) {
        let result = match single.code {
            code::PGNLS | code::PGNLS_FILTER | code::PGLS | code::PGLS_FILTER => list(env, op, single, slot),
            code::SCRUBLS => scrub_list(env, single, slot),
            // Cache tiers keep track of what is used; there are none.
            code::PG_HITSET_LS => Ok(output(slot, 0u32.to_bytes())),
            code::PG_HITSET_GET => Err(Errno::ENOENT.into()),
            _ => Err(Errno::EINVAL.into()),
        };
        last = match result {
            Ok(result) | Err(Stop::Result(result)) => result,
            Err(stop) => return Err(stop),
        };
        // Results of operations on the group show in the whole request only.
        if last < 0 {
            break;
        }
        if listing_costs_too_much(env, slot.output.len()) {
            last = Errno::EMSGSIZE.wire();
            break;
        }
    }
    if last == Errno::EMSGSIZE.wire() {
        results.iter_mut().for_each(|slot| slot.output = types::Rope::new());
    }
    Ok((last, results))
}

fn output(slot: &mut OpResult, bytes: Bytes) -> i32 {
    slot.output = bytes.into();
    0
}

/// Findings of the last scrub. ENOENT before the first, and when another OSD led it and found something: that is not known here.
fn scrub_list(env: &Env<'_>, op: &Op, slot: &mut OpResult) -> Exec<i32> {
    let wanted: messages::ops::ScrubList = Reader::new(&op.input).get()?;
    if !env.scrubbed {
        return Err(Errno::ENOENT.into());
    }
    let interval = env.since;
    if wanted.interval != 0 && wanted.interval != interval {
        return Err(Errno::EAGAIN.into());
    }
    let damaged = env.info.stats.shallow_errors + env.info.stats.deep_errors > 0;
    let values = match env.findings {
        Some(findings) => findings.page(wanted.snapsets != 0, &wanted.start_after, wanted.max),
        None if damaged => return Err(Errno::ENOENT.into()),
        None => Vec::new(),
    };
    slot.output = ScrubPage { interval, values }.to_bytes().into();
    Ok(1)
}

fn list(env: &Env<'_>, request: &OsdOp, op: &Op, slot: &mut OpResult) -> Exec<i32> {
    let OpArgs::List { count, .. } = op.args else { return Err(Errno::EINVAL.into()) };
    let mut r = Reader::new(&op.input);
    let (filter, cursor) = match op.code {
        code::PGLS_FILTER | code::PGNLS_FILTER => {
            let judge = judge(&op.input)?;
            let filter: ListFilter = r.get()?;
            let cursor = filter.cursor.clone();
            (Some((filter, judge)), cursor)
        }
        _ => (None, r.get::<HObject>()?),
    };
    let old = matches!(op.code, code::PGLS | code::PGLS_FILTER);
    let listed = page(env, &cursor, count.min(MAX_PAGE) as usize, filter.as_ref(), &request.locator)?;
    slot.output = if old {
        let entries = listed.entries.into_iter().map(|e| (e.name, e.key)).collect();
        OldListPage { next: listed.next, entries }.to_bytes().into()
    } else {
        ListPage { next: listed.next, entries: listed.entries }.to_bytes().into()
    };
    Ok(i32::from(listed.done))
}

/// Comparison of an attribute's value with what the client gave.
type Judge = fn(value: &[u8], given: &[u8]) -> bool;

/// Returns who judges for a filter of this kind: `plain`, which compares, or an object class.
fn judge(input: &[u8]) -> Exec<Judge> {
    let mut r = Reader::new(input);
    let (_, _, kind) = (r.blob()?, r.blob()?, r.blob()?);
    match kind.iter().position(|b| *b == b'.').filter(|dot| *dot > 0) {
        Some(dot) => Ok(classes::find_filter(&kind[..dot], &kind[dot + 1..])?.matches),
        None if kind == b"plain" => Ok(|value, given| value == given),
        None => Err(Errno::EINVAL.into()),
    }
}

fn page(env: &Env<'_>, cursor: &HObject, count: usize, filter: Option<&(ListFilter, Judge)>, place: &Locator) -> Exec<Listed> {
    let (start, end) = bounds(env.id.pg.pool, env.id.pg.seed, env.pool.pg_num);
    let beginning = *cursor == HObject::min() || *cursor == HObject::default();
    let outside = (!cursor.max && *cursor >= end) || (!beginning && *cursor < start);
    if outside {
        return Err(Errno::EINVAL.into());
    }
    let from = if beginning { start } else { cursor.clone() };
    let mut listed = Listed { next: end_cursor(&end), entries: Vec::new(), done: true };
    if cursor.max {
        return Ok(listed);
    }
    let look_at = count.saturating_mul(LOOK_AT).max(1);
    // One more than looked at, so that the cursor can name an object and the end is known.
    let range = (&from.clone().into(), &end.clone().into());
    let mut objects = list_current(env.store, env.hold, env.id.shard, range, look_at + 1)?;
    with_missing(env, &from, &end, look_at + 1, &mut objects);
    for (n, object) in objects.into_iter().enumerate() {
        if n == look_at || listed.entries.len() == count {
            listed.next = HObject::clone(&object.object);
            listed.done = false;
            break;
        }
        if wanted(env, &object, filter, place)? {
            let HObject { nspace, name, key, .. } = HObject::clone(&object.object);
            listed.entries.push(ListEntry { nspace, name, key });
        }
    }
    Ok(listed)
}

/// Objects that are missing on this copy exist all the same.
fn with_missing(env: &Env<'_>, from: &HObject, end: &HObject, most: usize, objects: &mut Vec<ObjectId>) {
    if env.missing.is_empty() {
        return;
    }
    // Beyond a list that is full nothing is known of the store.
    let last = objects.last().filter(|_| objects.len() >= most).map_or(end, |last| &*last.object).clone();
    let missing = env.missing.range(from.clone()..last).map(|(object, _)| ObjectId::of_shard(object.clone(), env.id.shard));
    objects.extend(missing.collect::<Vec<_>>());
    objects.sort();
    objects.dedup();
    objects.truncate(most);
}

/// The cursor behind a group's last object, as Ceph writes it: the head of a nameless object, or the largest of all.
fn end_cursor(end: &HObject) -> HObject {
    if end.hash == 0 { HObject::end() } else { end.at(SnapId::HEAD) }
}

fn wanted(env: &Env<'_>, object: &ObjectId, filter: Option<&(ListFilter, Judge)>, place: &Locator) -> Exec<bool> {
    if !object.is_head()
        || object.generation != types::object_id::CURRENT
        || (place.nspace != ALL_NAMESPACES && object.nspace != place.nspace)
    {
        return Ok(false);
    }
    if env.missing.contains_key(&object.object) && filter.is_some() {
        // Its attributes are on their way.
        return Err(Stop::Result(Errno::EAGAIN.wire()));
    }
    let Some((filter, judge)) = filter else { return Ok(true) };
    // Users' attributes have a prefix in the filter's name that they do not have here; others no client sees.
    let Some(name) = filter.xattr.strip_prefix(b"_") else { return Ok(false) };
    let value: Option<Bytes> = env.store.xattr(env.hold, object, name)?;
    Ok(value.is_some_and(|v| judge(&v, &filter.value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::hash::stable_mod;

    #[test]
    fn groups_divide_the_order_of_objects_without_gap_or_overlap() {
        for pg_num in [1u32, 2, 3, 4, 5, 7, 8, 12, 32, 33] {
            let mask = pg_num.next_power_of_two() - 1;
            let mut x = 1u32;
            for _ in 0..400 {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let hash = x ^ x >> 15;
                let object = HObject { name: Bytes::from_static(b"x"), ..HObject::start_of_hash(2, hash) };
                let seed = stable_mod(hash, pg_num, mask);
                for group in 0..pg_num {
                    let (start, end) = bounds(2, group, pg_num);
                    assert_eq!(start <= object && object < end, group == seed, "pg_num {pg_num} hash {hash:x} group {group}");
                }
            }
        }
    }
}
