//! Methods on the objects themselves, beside the index: removal that spares attributes, and conditions.

use crate::{Call, Change, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::index_ops::{CheckAttrsOp, CheckMtimeOp, RemoveOp, StorePgVerOp, compare};
use types::{Errno, UTime};

/// Removes the object. If it has attributes that are to stay, an empty object with them takes its place.
pub(super) fn remove(call: &mut Call<'_>) -> Outcome {
    let op: RemoveOp = call.arg()?;
    let mut stay = if op.keep.is_empty() { Vec::new() } else { call.view.xattrs()? };
    stay.retain(|(name, _)| op.keep.iter().any(|prefix| name.starts_with(prefix)));
    call.change(Change::Remove);
    if !stay.is_empty() {
        call.change(Change::Create { exclusive: false });
    }
    for (name, value) in stay {
        call.change(Change::SetXattr(name, value));
    }
    Ok(Bytes::new())
}

/// Puts the version of the group into an attribute.
pub(super) fn store_pg_ver(call: &mut Call<'_>) -> Outcome {
    let op: StorePgVerOp = call.arg()?;
    call.change(Change::SetXattr(op.attr, call.place.0.to_bytes()));
    Ok(Bytes::new())
}

pub(super) fn check_attrs_prefix(call: &mut Call<'_>) -> Outcome {
    let op: CheckAttrsOp = call.arg()?;
    if op.prefix.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let there = call.view.xattrs()?.iter().any(|(name, _)| name.starts_with(&op.prefix));
    if there == op.fail_if_exists { Err(Errno::ECANCELED.into()) } else { Ok(Bytes::new()) }
}

/// Compares the object's time with a given one; that of an object that does not exist is zero.
pub(super) fn check_mtime(call: &mut Call<'_>) -> Outcome {
    let op: CheckMtimeOp = call.arg()?;
    let at = |time: UTime| if op.precise { time } else { UTime { nsec: 0, ..time } };
    let (ours, given) = (at(call.view.stat()?.unwrap_or_default().mtime), at(op.mtime));
    let holds = match op.kind {
        compare::EQ => ours == given,
        compare::LT => ours < given,
        compare::LE => ours <= given,
        compare::GT => ours > given,
        compare::GE => ours >= given,
        _ => return Err(Errno::EINVAL.into()),
    };
    if holds { Ok(Bytes::new()) } else { Err(Errno::ECANCELED.into()) }
}
