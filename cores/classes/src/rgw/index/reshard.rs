//! Whether the index is being moved to other shards. A gateway asks before each change of the index, in the same
//! vector.

use super::header::Shard;
use crate::{Call, Outcome};
use bytes::Bytes;
use denc::Encode;
use messages::class::rgw::index_ops::{GuardOp, Nothing, ReshardingStatus};
use types::Errno;

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let op: ReshardingStatus = call.arg()?;
    let mut shard = Shard::load(call)?;
    shard.edit().resharding = op.entry;
    shard.store(call);
    Ok(Bytes::new())
}

pub(super) fn clear(call: &mut Call<'_>) -> Outcome {
    call.arg::<Nothing>()?;
    let mut shard = Shard::load(call)?;
    // The number of shards stays, as in Ceph.
    let resharding = &mut shard.edit().resharding;
    (resharding.status, resharding.new_instance) = (0, Bytes::new());
    shard.store(call);
    Ok(Bytes::new())
}

/// Fails with what the client says if the index is being moved.
pub(super) fn guard(call: &mut Call<'_>) -> Outcome {
    let op: GuardOp = call.arg()?;
    if Shard::load(call)?.get().resharding.status == 0 {
        return Ok(Bytes::new());
    }
    match op.result.checked_neg() {
        Some(errno) if errno > 0 => Err(Errno(errno).into()),
        Some(_) => {
            call.result = op.result;
            Ok(Bytes::new())
        }
        None => Err(Errno::EINVAL.into()),
    }
}

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    call.arg::<Nothing>()?;
    let entry = Shard::load(call)?.get().resharding.clone();
    Ok(ReshardingStatus { entry }.to_bytes())
}
