//! Class `cmpomap`: entries of an omap are compared with given values, and changed if the comparison holds.

use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use messages::class::cmpomap::{CompareOp, RemoveOp, comparison, mode};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use types::Errno;

pub(crate) const METHODS: &[Method] = &[
    Method { name: "cmp_vals", flags: RD, run: cmp_vals },
    Method { name: "cmp_set_vals", flags: RD | WR, run: cmp_set_vals },
    Method { name: "cmp_rm_keys", flags: RD | WR, run: cmp_rm_keys },
];

/// A number of 8 bytes; what follows them is ignored.
fn number(value: &[u8]) -> Option<u64> {
    denc::Reader::new(value).get().ok()
}

/// Texts in Ceph's order: bytes from 0x80 on are before all others.
fn text_order(left: &[u8], right: &[u8]) -> Ordering {
    let signed = |bytes: &[u8]| bytes.iter().map(|b| i8::from_le_bytes([*b])).collect::<Vec<i8>>();
    signed(left).cmp(&signed(right))
}

/// Returns whether a comparison holds between a given and a stored value. A stored value that is empty is the number
/// 0. EINVAL if the given value is no number or the comparison none; EIO if the stored value is no number.
fn holds(how: u8, op: u8, given: &[u8], stored: &[u8]) -> Result<bool, Errno> {
    let order = match how {
        mode::STRING => text_order(given, stored),
        mode::U64 => {
            let given = number(given).ok_or(Errno::EINVAL)?;
            let stored = if stored.is_empty() { 0 } else { number(stored).ok_or(Errno::EIO)? };
            given.cmp(&stored)
        }
        _ => return Err(Errno::EINVAL),
    };
    match op {
        comparison::EQ => Ok(order.is_eq()),
        comparison::NE => Ok(order.is_ne()),
        comparison::GT => Ok(order.is_gt()),
        comparison::GE => Ok(order.is_ge()),
        comparison::LT => Ok(order.is_lt()),
        comparison::LE => Ok(order.is_le()),
        _ => Err(Errno::EINVAL),
    }
}

fn stored(call: &Call<'_>, values: &BTreeMap<Bytes, Bytes>) -> Result<BTreeMap<Bytes, Bytes>, Fail> {
    let keys: Vec<Bytes> = values.keys().cloned().collect();
    Ok(call.view.omap_get(&keys)?.into_iter().collect())
}

/// Fails with ECANCELED unless all comparisons hold.
fn cmp_vals(call: &mut Call<'_>) -> Outcome {
    let op: CompareOp = call.arg()?;
    let stored = stored(call, &op.values)?;
    for (key, given) in &op.values {
        let value = stored.get(key).or(op.default.as_ref()).ok_or(Errno::ECANCELED)?;
        if !holds(op.mode, op.comparison, given, value)? {
            return Err(Errno::ECANCELED.into());
        }
    }
    Ok(Bytes::new())
}

/// Returns what holds for a stored value that a write may replace: one that is no number is as one that differs.
fn holds_for_write(how: u8, op: u8, given: &[u8], stored: &[u8]) -> Result<bool, Errno> {
    match holds(how, op, given, stored) {
        Err(Errno::EIO) => Ok(false),
        other => other,
    }
}

/// Sets those values whose comparisons hold.
fn cmp_set_vals(call: &mut Call<'_>) -> Outcome {
    let op: CompareOp = call.arg()?;
    let stored = stored(call, &op.values)?;
    let mut changed = Vec::new();
    for (key, given) in &op.values {
        let Some(value) = stored.get(key).or(op.default.as_ref()) else { continue };
        if holds_for_write(op.mode, op.comparison, given, value)? {
            changed.push((key.clone(), given.clone()));
        }
    }
    if !changed.is_empty() {
        call.change(Change::OmapSet(changed));
    }
    Ok(Bytes::new())
}

/// Removes those keys whose comparisons hold.
fn cmp_rm_keys(call: &mut Call<'_>) -> Outcome {
    let op: RemoveOp = call.arg()?;
    let mut gone = Vec::new();
    for (key, value) in stored(call, &op.values)? {
        if holds_for_write(op.mode, op.comparison, &op.values[&key], &value)? {
            gone.push(key);
        }
    }
    if !gone.is_empty() {
        call.change(Change::OmapRemove(gone));
    }
    Ok(Bytes::new())
}
