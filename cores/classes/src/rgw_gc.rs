//! Class `rgw_gc`: a queue of what the object gateway deletes later. An entry's time is when it may go. An entry that a
//! reader still needs is deferred: its tag and a later time are noted in the queue's head, or in an attribute if the head has
//! no room, and the entry counts as gone while its own time is before that.
//!
//! Unlike in Ceph, the attribute is written when entries of it are done with. Ceph only counts them down.

use crate::feed::LISTING_BYTES;
use crate::{Call, Change, Fail, Method, Outcome, RD, WR, queue};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::queue::{Head, InitOp as QueueInit};
use messages::class::rgw::gc::{Info, ListOp, ListReply, SetOp};
use messages::class::rgw_gc::{DeferOp, Deferred, InitOp, RemoveOp, Urgent};
use messages::class::two_phase::ATTR;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Errno, UTime};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "rgw_gc_queue_init", flags: RD | WR, run: init },
    Method { name: "rgw_gc_queue_enqueue", flags: RD | WR, run: enqueue },
    Method { name: "rgw_gc_queue_list_entries", flags: RD, run: list_entries },
    Method { name: "rgw_gc_queue_remove_entries", flags: RD | WR, run: remove_entries },
    Method { name: "rgw_gc_queue_update_entry", flags: RD | WR, run: update_entry },
];

/// Bytes of the head for deferred entries (`rgw_gc_max_deferred_entries_size`).
const URGENT_SIZE: u64 = 3072;
/// Entries that one call looks at, about: those that are deferred do not count for what it was asked for.
const LOOKED_AT: usize = 16_384;
/// Entries of a call that does not say how many.
const DEFAULT_ENTRIES: u32 = 128;

/// Reads a structure of the object; EINVAL if it is none.
fn decoded<T: Decode>(call: &Call<'_>, bytes: &[u8]) -> Result<T, Fail> {
    call.stored(bytes, Errno::EINVAL)
}

fn later(call: &Call<'_>, seconds: u32) -> UTime {
    call.now.plus(Duration::from_secs(u64::from(seconds)))
}

/// Deferred entries that the head has no room for.
fn spilled(call: &Call<'_>) -> Result<Deferred, Fail> {
    call.view.xattr(ATTR.as_bytes())?.map_or(Ok(Deferred::new()), |value| decoded(call, &value))
}

fn set_spilled(call: &mut Call<'_>, deferred: &Deferred) {
    call.change(Change::SetXattr(Bytes::from_static(ATTR.as_bytes()), deferred.to_bytes()));
}

fn urgent(call: &Call<'_>, head: &Head) -> Result<Urgent, Fail> {
    if head.urgent.is_empty() { Ok(Urgent::default()) } else { decoded(call, &head.urgent) }
}

/// Returns until when tags are deferred. There may be many of them, and each entry is looked up.
fn times(deferred: &Deferred) -> BTreeMap<Bytes, UTime> {
    deferred.iter().rev().cloned().collect()
}

/// Entries that a call may look at yet.
fn left(looked_at: usize) -> u64 {
    (LOOKED_AT - looked_at) as u64
}

fn init(call: &mut Call<'_>) -> Outcome {
    let op: InitOp = call.arg()?;
    // The number is kept in 32 bits.
    let urgent = Urgent { limit: denc::low32(op.deferred), ..Urgent::default() }.to_bytes();
    queue::init(call, QueueInit { size: op.size, urgent_size: URGENT_SIZE, urgent })
}

fn enqueue(call: &mut Call<'_>) -> Outcome {
    let mut op: SetOp = call.arg()?;
    op.info.time = later(call, op.seconds);
    let mut head = queue::read(call)?;
    queue::enqueue(call, &mut head, &[op.info.to_bytes()])?;
    queue::write(call, &head)?;
    Ok(Bytes::new())
}

/// Lists entries that are not deferred. Those that are asked for by `max` include those whose time has not come, which
/// are left out of the reply all the same.
fn list_entries(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let head = queue::read(call)?;
    let urgent = urgent(call, &head)?;
    let spilled = if urgent.in_attr > 0 { spilled(call)? } else { Deferred::new() };
    let (urgent, spilled, mut looked_at) = (times(&urgent.deferred), times(&spilled), 0);
    let max = if op.max == 0 { DEFAULT_ENTRIES } else { op.max };
    let (mut reply, mut counted, mut bytes, mut marker) = (ListReply::default(), 0, 0, op.marker);
    loop {
        let page = queue::list(call, &head, u64::from(max - counted).min(left(looked_at)), &marker)?;
        (reply.truncated, marker) = (page.truncated, page.marker);
        for entry in &page.entries {
            let info: Info = decoded(call, &entry.data)?;
            let deferred = urgent.get(&info.tag).or_else(|| spilled.get(&info.tag));
            if deferred.is_some_and(|time| *time > info.time) {
                continue;
            }
            counted += 1;
            bytes += entry.data.len();
            if !op.expired_only || info.time <= call.now {
                reply.entries.push(info);
            }
        }
        looked_at += page.entries.len();
        let full = counted >= max || bytes >= LISTING_BYTES || looked_at >= LOOKED_AT;
        if full || !reply.truncated || page.entries.is_empty() {
            break;
        }
    }
    if reply.truncated {
        reply.marker = marker;
    }
    Ok(reply.to_bytes())
}

/// Removes that many entries at the front that are not deferred, and the deferred ones between them.
fn remove_entries(call: &mut Call<'_>) -> Outcome {
    let op: RemoveOp = call.arg()?;
    let mut head = queue::read(call)?;
    let mut urgent = urgent(call, &head)?;
    let mut spilled = if urgent.in_attr > 0 { spilled(call)? } else { Deferred::new() };
    let (spilled_before, mut looked_at) = (spilled.len(), 0);
    // Of the head, and of the attribute: when they end, and which are over.
    let mut known = [times(&urgent.deferred), times(&spilled)];
    let mut over = [BTreeSet::new(), BTreeSet::new()];
    let count = if op.count == 0 { u64::from(DEFAULT_ENTRIES) } else { op.count };
    // The entry behind the last says where to stop.
    let wanted = count.saturating_add(1);
    let (mut counted, mut marker, mut end) = (0, Bytes::new(), None);
    loop {
        let page = queue::list(call, &head, (wanted - counted).min(left(looked_at)), &marker)?;
        let Some(last) = page.entries.last() else { break };
        let last = last.marker.clone();
        for entry in &page.entries {
            let info: Info = decoded(call, &entry.data)?;
            let (list, kept) = match known[0].contains_key(&info.tag) {
                true => (0, &mut urgent.in_head),
                false => (1, &mut urgent.in_attr),
            };
            match known[list].get(&info.tag) {
                Some(time) if *time > info.time => continue,
                Some(time) if *time == info.time => {
                    known[list].remove(&info.tag);
                    over[list].insert(info.tag);
                    *kept = kept.saturating_sub(1);
                }
                _ => {}
            }
            counted += 1;
        }
        looked_at += page.entries.len();
        if counted >= wanted {
            end = Some(last);
            break;
        }
        if !page.truncated || looked_at >= LOOKED_AT {
            end = Some(page.marker);
            break;
        }
        marker = page.marker;
    }
    if let Some(end) = end {
        queue::remove(call, &mut head, &end)?;
    }
    urgent.deferred.retain(|(tag, _)| !over[0].contains(tag));
    spilled.retain(|(tag, _)| !over[1].contains(tag));
    if spilled.len() < spilled_before {
        set_spilled(call, &spilled);
    }
    head.urgent = urgent.to_bytes();
    queue::write(call, &head)?;
    Ok(Bytes::new())
}

/// Defers an entry. As in Ceph since 16.2.5, the entry is not appended once more: its object may have been kept.
fn update_entry(call: &mut Call<'_>) -> Outcome {
    let op: DeferOp = call.arg()?;
    let (tag, time) = (op.info.tag.clone(), later(call, op.seconds));
    let mut head = queue::read(call)?;
    let mut urgent: Urgent = decoded(call, &head.urgent)?;
    if let Some(known) = urgent.deferred.iter_mut().find(|(known, _)| *known == tag) {
        known.1 = time;
    } else {
        let mut spilled = spilled(call)?;
        if let Some(known) = spilled.iter_mut().find(|(known, _)| *known == tag) {
            known.1 = time;
            set_spilled(call, &spilled);
        } else {
            urgent.deferred.push((tag, time));
            urgent.in_head = urgent.in_head.saturating_add(1);
            if urgent.to_vec().len() as u64 > head.urgent_size {
                spilled.extend(urgent.deferred.pop());
                urgent.in_head = urgent.in_head.saturating_sub(1);
                urgent.in_attr = urgent.in_attr.saturating_add(1);
                set_spilled(call, &spilled);
            }
        }
    }
    if u64::from(urgent.in_head) + u64::from(urgent.in_attr) > u64::from(urgent.limit) {
        return Err(Errno::ENOSPC.into());
    }
    head.urgent = urgent.to_bytes();
    queue::write(call, &head)?;
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use messages::class::queue::EnqueueOp;

    #[test]
    fn a_call_looks_at_a_bounded_number_of_deferred_entries() {
        let mut bench = Bench::default();
        let mut call = |class: &str, method: &str, input: Bytes| bench.call(class, method, &input).expect("done");
        call("rgw_gc", "rgw_gc_queue_init", InitOp { size: 16 << 20, deferred: 10 }.to_bytes());
        let info = Info { tag: Bytes::from_static(b"t"), ..Info::default() };
        let many = 3 * LOOKED_AT / 2;
        call("queue", "queue_enqueue", EnqueueOp { entries: vec![info.to_bytes(); many] }.to_bytes());
        call("rgw_gc", "rgw_gc_queue_update_entry", DeferOp { seconds: 100, info }.to_bytes());
        let mut list = |marker: Bytes| {
            let op = ListOp { marker, max: 1_000, ..ListOp::default() };
            let reply = call("rgw_gc", "rgw_gc_queue_list_entries", op.to_bytes());
            ListReply::from_bytes(&reply).expect("a reply")
        };
        let first = list(Bytes::new());
        assert!(first.entries.is_empty() && first.truncated && !first.marker.is_empty(), "it says that there are more");
        let second = list(first.marker);
        assert!(second.entries.is_empty() && !second.truncated);
        // What is removed goes in steps as well.
        let mut steps = 0;
        loop {
            call("rgw_gc", "rgw_gc_queue_remove_entries", RemoveOp { count: u64::MAX }.to_bytes());
            steps += 1;
            let reply =
                call("queue", "queue_list_entries", messages::class::queue::ListOp { max: 1, ..Default::default() }.to_bytes());
            if messages::class::queue::ListReply::from_bytes(&reply).expect("a reply").entries.is_empty() {
                break;
            }
        }
        assert_eq!(steps, 2);
    }
}
