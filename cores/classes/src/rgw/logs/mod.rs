//! Logs and queues of the gateway: who used it, what is deleted later, buckets with rules of a life cycle, buckets
//! whose index grows.

mod gc;
mod lc;
mod reshard;
mod usage;

use crate::{Call, Fail, Method, RD, WR};
use denc::Decode;
use types::Errno;

pub(crate) const METHODS: &[Method] = &[
    Method { name: "user_usage_log_add", flags: RD | WR, run: usage::add },
    Method { name: "user_usage_log_read", flags: RD, run: usage::read },
    Method { name: "user_usage_log_trim", flags: RD | WR, run: usage::trim },
    Method { name: "usage_log_clear", flags: WR, run: usage::clear },
    Method { name: "gc_set_entry", flags: RD | WR, run: gc::set_entry },
    Method { name: "gc_defer_entry", flags: RD | WR, run: gc::defer_entry },
    Method { name: "gc_list", flags: RD, run: gc::list },
    Method { name: "gc_remove", flags: RD | WR, run: gc::remove },
    Method { name: "lc_get_entry", flags: RD, run: lc::get_entry },
    Method { name: "lc_set_entry", flags: RD | WR, run: lc::set_entry },
    Method { name: "lc_rm_entry", flags: RD | WR, run: lc::rm_entry },
    Method { name: "lc_get_next_entry", flags: RD, run: lc::get_next_entry },
    Method { name: "lc_put_head", flags: RD | WR, run: lc::put_head },
    Method { name: "lc_get_head", flags: RD, run: lc::get_head },
    Method { name: "lc_list_entries", flags: RD, run: lc::list_entries },
    Method { name: "reshard_add", flags: RD | WR, run: reshard::add },
    Method { name: "reshard_list", flags: RD, run: reshard::list },
    Method { name: "reshard_get", flags: RD, run: reshard::get },
    Method { name: "reshard_remove", flags: RD | WR, run: reshard::remove },
];

/// A stored structure; EIO if it is none.
fn decoded<T: Decode>(call: &Call<'_>, bytes: &[u8]) -> Result<T, Fail> {
    call.stored(bytes, Errno::EIO)
}

/// One entry of the omap; ENOENT if there is none.
fn entry<T: Decode>(call: &Call<'_>, key: &[u8]) -> Result<T, Fail> {
    decoded(call, &call.omap(key)?)
}
