//! Data objects of an image.

use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Errno, Rope};

pub(super) const METHODS: &[Method] = &[
    Method { name: "copyup", flags: RD | WR, run: copyup },
    Method { name: "sparse_copyup", flags: RD | WR, run: sparse_copyup },
    Method { name: "assert_snapc_seq", flags: RD | WR, run: assert_snapc_seq },
    Method { name: "sparsify", flags: RD | WR, run: sparsify },
];

/// Input: the parent's bytes. Written if the clone has no object yet; if it has, that is newer.
fn copyup(call: &mut Call<'_>) -> Outcome {
    if !call.exists()? {
        call.change(Change::Write(0, Rope::from(call.input.clone())));
    }
    Ok(Bytes::new())
}

/// Input: offsets and lengths of the parts, and the parts' bytes one after the other.
fn sparse_copyup(call: &mut Call<'_>) -> Outcome {
    let (extents, data): (BTreeMap<u64, u64>, Bytes) = call.arg()?;
    if call.exists()? {
        return Ok(Bytes::new());
    }
    if extents.is_empty() {
        call.change(Change::Create { exclusive: true });
    }
    let mut rest = data;
    for (offset, len) in extents {
        let len = usize::try_from(len).ok().filter(|len| *len <= rest.len()).ok_or(Fail::Errno(Errno::EINVAL))?;
        call.change(Change::Write(offset, Rope::from(rest.split_to(len))));
    }
    Ok(Bytes::new())
}

/// Input: a snapshot id, and what must hold: 0, that the object was not written under it or a newer one; 1, that it
/// was. ERANGE if it does not hold.
fn assert_snapc_seq(call: &mut Call<'_>) -> Outcome {
    let (seq, state): (u64, u8) = call.arg()?;
    let newer = call.view.snap_seq().is_none_or(|written| seq > written);
    match (state, newer) {
        (0, true) | (1, false) => Ok(Bytes::new()),
        (0 | 1, _) => Err(Errno::ERANGE.into()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// Input: bytes of a block, whether an object of zeros is to go altogether. Rewrites the object without its blocks of
/// zeros.
fn sparsify(call: &mut Call<'_>) -> Outcome {
    let (block, remove_empty): (u64, bool) = call.arg()?;
    let stat = call.must_exist()?;
    let data = call.view.read(0, stat.size)?.contiguous();
    if data.iter().all(|b| *b == 0) {
        if remove_empty {
            call.change(Change::Remove);
        } else if !data.is_empty() {
            call.change(Change::Truncate(0));
        }
        return Ok(Bytes::new());
    }
    if block == 0 {
        return Err(Errno::EINVAL.into());
    }
    let parts = parts(&data, usize::try_from(block).unwrap_or(usize::MAX));
    if parts != [(0, data.len())] {
        call.change(Change::Truncate(0));
        for (start, end) in parts {
            call.change(Change::Write(start as u64, Rope::from(data.slice(start..end))));
        }
    }
    Ok(Bytes::new())
}

/// Runs of blocks that are not all zeros: start and end.
fn parts(data: &[u8], block: usize) -> Vec<(usize, usize)> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    let mut start = 0;
    for chunk in data.chunks(block) {
        let end = start + chunk.len();
        if chunk.iter().any(|b| *b != 0) {
            match parts.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => parts.push((start, end)),
            }
        }
        start = end;
    }
    parts
}
