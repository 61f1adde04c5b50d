//! Class `queue`: a ring of entries in an object's data. The object begins with a head, which has a fixed room; the
//! ring is the rest. An entry is two bytes that say so, its length, and its bytes; it may go around the end.
//!
//! A place in the ring is an offset and a generation, which counts how often the ring was gone around. What lies
//! between the front and the tail is in use. A head for which that is not so is damaged, and no method goes on with it.
//!
//! What differs from Ceph on purpose:
//! - Entries of one call never overwrite the front. Ceph looks at that only before the first of them.
//! - A marker outside of what is in use is refused. Ceph reads or removes what is there.
//! - A listing ends after 4 MiB, and says that there is more.

use crate::feed::{Feed, LISTING_BYTES};
use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::class::queue::{CapacityReply, EnqueueOp, Entry, Head, InitOp, ListOp, ListReply, Marker, RemoveOp};
use types::Errno;

pub(crate) const METHODS: &[Method] = &[
    Method { name: "queue_init", flags: RD | WR, run: queue_init },
    Method { name: "queue_get_capacity", flags: RD, run: get_capacity },
    Method { name: "queue_enqueue", flags: RD | WR, run: queue_enqueue },
    Method { name: "queue_list_entries", flags: RD, run: list_entries },
    Method { name: "queue_remove_entries", flags: RD | WR, run: remove_entries },
];

/// Bytes of a head besides what a class keeps in it.
const HEAD_ROOM: u64 = 1024;
/// Bytes above which a head is not read.
const MAX_HEAD: u64 = 16 << 20;
/// Sizes and generations stay below this, so that sums of them are numbers, too.
const MAX_NUMBER: u64 = 1 << 62;
/// Number at the beginning of an object with a queue.
const HEAD_START: u16 = 0xdead;
/// Number at the beginning of an entry.
const ENTRY_START: u16 = 0xbeef;
/// Bytes before the head itself, and before an entry's bytes: the two that say so, and the length.
pub(crate) const OVERHEAD: u64 = 10;

/// Bytes from one place to a later one; none if it is not later, or not in the ring.
fn distance(head: &Head, from: Marker, to: Marker) -> Option<u64> {
    if !(head.head_size..=head.size).contains(&to.offset) {
        return None;
    }
    match to.generation.checked_sub(from.generation)? {
        0 => to.offset.checked_sub(from.offset),
        1 => Some(head.size - from.offset + (to.offset - head.head_size)),
        _ => None,
    }
}

/// The place that is `len` bytes later; `len` is at most the ring's size.
fn advanced(head: &Head, at: Marker, len: u64) -> Marker {
    let offset = at.offset + len;
    if offset < head.size {
        return Marker { offset, ..at };
    }
    Marker { generation: at.generation + 1, offset: offset - head.size + head.head_size }
}

/// The parts of the object that `len` bytes from a place on take.
fn ranges(head: &Head, at: Marker, len: u64) -> Vec<(u64, u64)> {
    let first = len.min(head.size - at.offset);
    vec![(at.offset, first), (head.head_size, len - first)]
}

/// Bytes of the ring.
fn capacity(head: &Head) -> u64 {
    head.size - head.head_size
}

/// Bytes that are in use.
fn used(head: &Head) -> u64 {
    distance(head, head.front, head.tail).expect("a head that was read is sound")
}

/// Bytes that are free.
pub(crate) fn free(head: &Head) -> u64 {
    capacity(head) - used(head)
}

/// Reads the head. EINVAL if the object has none; EIO if its numbers do not belong together.
pub(crate) fn read(call: &Call<'_>) -> Result<Head, Fail> {
    let invalid = |_| Fail::Errno(Errno::EINVAL);
    let first = call.view.read(0, HEAD_ROOM)?.contiguous();
    let mut r = Reader::new(&first);
    let (start, len): (u16, u64) = (r.get().map_err(invalid)?, r.get().map_err(invalid)?);
    if start != HEAD_START {
        return Err(Errno::EINVAL.into());
    }
    let head: Head = if len > MAX_HEAD {
        return Err(Errno::EINVAL.into());
    } else if len > HEAD_ROOM - OVERHEAD {
        let whole = call.view.read(OVERHEAD, len)?.contiguous();
        Reader::new(&whole).get().map_err(invalid)?
    } else {
        r.get().map_err(invalid)?
    };
    let small = head.size < MAX_NUMBER && head.tail.generation < MAX_NUMBER;
    let sound = small && (head.head_size..=head.size).contains(&head.front.offset);
    let sound = sound && distance(&head, head.front, head.tail).is_some_and(|used| used <= capacity(&head));
    if sound { Ok(head) } else { Err(Errno::EIO.into()) }
}

/// Writes the head. EINVAL if it has outgrown its room.
pub(crate) fn write(call: &mut Call<'_>, head: &Head) -> Result<(), Fail> {
    let body = head.to_vec();
    let mut out = Vec::new();
    HEAD_START.encode(&mut out);
    (body.len() as u64).encode(&mut out);
    out.extend_from_slice(&body);
    if out.len() as u64 > head.head_size {
        return Err(Errno::EINVAL.into());
    }
    call.change(Change::Write(0, Bytes::from(out).into()));
    Ok(())
}

/// Makes an empty queue. EEXIST if there is one; what else is in the object is written over.
pub(crate) fn init(call: &mut Call<'_>, op: InitOp) -> Outcome {
    match read(call) {
        Ok(_) => return Err(Errno::EEXIST.into()),
        Err(Fail::Errno(Errno::EINVAL)) => {}
        Err(fail) => return Err(fail),
    }
    let head_size = HEAD_ROOM.checked_add(op.urgent_size).ok_or(Errno::EINVAL)?;
    let size = op.size.checked_add(head_size).filter(|size| *size < MAX_NUMBER).ok_or(Errno::EINVAL)?;
    let front = Marker { generation: 0, offset: head_size };
    let head = Head { head_size, front, tail: front, size, urgent_size: op.urgent_size, urgent: op.urgent };
    write(call, &head)?;
    Ok(Bytes::new())
}

/// Appends entries. ENOSPC if they do not all find room; then nothing of them stays.
pub(crate) fn enqueue(call: &mut Call<'_>, head: &mut Head, entries: &[Bytes]) -> Result<(), Fail> {
    if free(head) == 0 && capacity(head) > 0 {
        return Err(Errno::ENOSPC.into());
    }
    let len = entries.iter().map(|data| OVERHEAD + data.len() as u64).sum();
    if len > free(head) {
        return Err(Errno::ENOSPC.into());
    }
    let mut row = Vec::with_capacity(denc::index(len));
    for data in entries {
        ENTRY_START.encode(&mut row);
        (data.len() as u64).encode(&mut row);
        row.extend_from_slice(data);
    }
    let mut row = Bytes::from(row);
    for (offset, part) in ranges(head, head.tail, len).into_iter().filter(|(_, part)| *part > 0) {
        call.change(Change::Write(offset, row.split_to(denc::index(part)).into()));
    }
    head.tail = advanced(head, head.tail, len);
    Ok(())
}

/// Digits at the front as a number, as far as there are any, and what follows.
fn number(text: &[u8]) -> (u64, &[u8]) {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = text[..digits].iter().fold(0u64, |n, b| n.saturating_mul(10).saturating_add(u64::from(b - b'0')));
    (value, &text[digits..])
}

/// A marker from its text. As in Ceph, what cannot be read counts as 0, which is no place of a ring.
fn parse(text: &[u8]) -> Marker {
    let (generation, rest) = number(text);
    let offset = rest.strip_prefix(b"/").map_or(0, |rest| number(rest).0);
    Marker { generation, offset }
}

fn text(marker: Marker) -> Bytes {
    format!("{}/{}", marker.generation, marker.offset).into()
}

/// Lists up to `max` entries from a marker on; from the front if it names no place.
pub(crate) fn list(call: &Call<'_>, head: &Head, max: u64, marker: &[u8]) -> Result<ListReply, Fail> {
    if head.front == head.tail {
        return Ok(ListReply { truncated: false, marker: text(head.front), entries: Vec::new() });
    }
    let given = parse(marker);
    let mut at = if given.offset == 0 { head.front } else { given };
    let skipped = distance(head, head.front, at).filter(|skipped| *skipped <= used(head)).ok_or(Errno::EINVAL)?;
    let mut feed = Feed::new(call.view, ranges(head, at, used(head) - skipped));
    let (mut reply, mut bytes) = (ListReply::default(), 0);
    while !feed.is_empty() && (reply.entries.len() as u64) < max && bytes < LISTING_BYTES {
        let prefix = feed.take(OVERHEAD)?.ok_or(Errno::EINVAL)?;
        let (start, len): (u16, u64) = Reader::new(&prefix).get().map_err(|_| Errno::EINVAL)?;
        if start != ENTRY_START {
            return Err(Errno::EINVAL.into());
        }
        let data = feed.take(len)?.ok_or(Errno::EINVAL)?;
        bytes += data.len();
        reply.entries.push(Entry { data, marker: text(at) });
        at = advanced(head, at, OVERHEAD + len);
    }
    reply.truncated = !feed.is_empty();
    reply.marker = text(at);
    Ok(reply)
}

/// Removes all entries before a marker. EINVAL if it is no place between the front and the tail.
pub(crate) fn remove(call: &mut Call<'_>, head: &mut Head, end: &[u8]) -> Result<(), Fail> {
    if head.front == head.tail {
        return Ok(());
    }
    let gone = distance(head, head.front, parse(end)).filter(|gone| *gone <= used(head)).ok_or(Errno::EINVAL)?;
    // Their space is given back; what reaches the object's end is cut off.
    let mut size = call.must_exist()?.size;
    for (offset, len) in ranges(head, head.front, gone) {
        if len == 0 || offset >= size {
            continue;
        }
        if offset + len < size {
            call.change(Change::Zero(offset, len));
        } else {
            call.change(Change::Truncate(offset));
            size = offset;
        }
    }
    head.front = advanced(head, head.front, gone);
    Ok(())
}

fn queue_init(call: &mut Call<'_>) -> Outcome {
    let op: InitOp = call.arg()?;
    init(call, op)
}

pub(crate) fn get_capacity(call: &mut Call<'_>) -> Outcome {
    let head = read(call)?;
    Ok(CapacityReply { capacity: capacity(&head) }.to_bytes())
}

fn queue_enqueue(call: &mut Call<'_>) -> Outcome {
    let op: EnqueueOp = call.arg()?;
    let mut head = read(call)?;
    enqueue(call, &mut head, &op.entries)?;
    write(call, &head)?;
    Ok(Bytes::new())
}

pub(crate) fn list_entries(call: &mut Call<'_>) -> Outcome {
    let op: ListOp = call.arg()?;
    let head = read(call)?;
    Ok(list(call, &head, op.max, &op.marker)?.to_bytes())
}

pub(crate) fn remove_entries(call: &mut Call<'_>) -> Outcome {
    let op: RemoveOp = call.arg()?;
    let mut head = read(call)?;
    remove(call, &mut head, &op.end)?;
    write(call, &head)?;
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Debug)]
    enum Step {
        Enqueue(Vec<usize>),
        /// List as many, and remove what was listed.
        Take(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![prop::collection::vec(0usize..90, 0..4).prop_map(Step::Enqueue), (1u64..6).prop_map(Step::Take),]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// A queue is a queue: what was appended comes out once and in order, and there is room for exactly as many
        /// bytes as it was made for.
        #[test]
        fn it_keeps_what_was_appended(size in 1u64..300, steps in prop::collection::vec(step(), 0..40)) {
            let mut bench = Bench::default();
            let init = InitOp { size, ..InitOp::default() };
            bench.call("queue", "queue_init", &init.to_vec()).expect("an empty object");
            let (mut model, mut used, mut byte) = (VecDeque::new(), 0, 0u8);
            for step in steps {
                match step {
                    Step::Enqueue(lens) => {
                        let entries: Vec<Bytes> = lens.iter().map(|len| { byte = byte.wrapping_add(1); vec![byte; *len].into() }).collect();
                        let more: u64 = lens.iter().map(|len| *len as u64 + OVERHEAD).sum();
                        let fits = used + more <= size && !(used == size && entries.is_empty());
                        let answer = bench.call("queue", "queue_enqueue", &EnqueueOp { entries: entries.clone() }.to_vec());
                        prop_assert_eq!(answer.is_ok(), fits);
                        if fits {
                            used += more;
                            model.extend(entries);
                        }
                    }
                    Step::Take(max) => {
                        let list = ListOp { max, marker: Bytes::new() }.to_vec();
                        let page = bench.call("queue", "queue_list_entries", &list).expect("a listing");
                        let page: ListReply = Reader::new(&page).get().expect("a reply");
                        let taken: Vec<Bytes> = page.entries.into_iter().map(|entry| entry.data).collect();
                        let count = model.len().min(max as usize);
                        let expected: Vec<Bytes> = model.drain(..count).collect();
                        prop_assert_eq!(&taken, &expected);
                        prop_assert_eq!(page.truncated, !model.is_empty());
                        used -= taken.iter().map(|data| data.len() as u64 + OVERHEAD).sum::<u64>();
                        bench.call("queue", "queue_remove_entries", &RemoveOp { end: page.marker }.to_vec()).expect("a marker");
                    }
                }
            }
        }
    }
}
