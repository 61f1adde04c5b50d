//! The operations, by family. Each is a function over a [`Run`]: it looks at the object, notes what shall change, fills
//! its result slot, and gives a result of 0 or more; or stops.

mod checksum;
mod class;
mod copy;
mod cost;
pub(crate) mod internal;
pub(crate) mod list;
mod omap;
pub(crate) mod portion;
mod read;
pub(crate) mod run;
mod snap;
mod tier;
mod tmap;
mod watch;
mod write;
mod xattr;

use crate::ops::run::{Exec, Run};
use bytes::Bytes;
use messages::osd::{Op, OpArgs, code};
use types::{Errno, Rope};

/// An extent's arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) truncate_size: u64,
    pub(crate) truncate_seq: u32,
}

impl Extent {
    fn of(op: &Op) -> Exec<Self> {
        let OpArgs::Extent { offset, length, mut truncate_size, mut truncate_seq } = op.args else {
            return Err(Errno::EINVAL.into());
        };
        // Old clients say "never truncated" so.
        if truncate_seq == 1 && truncate_size == u64::MAX {
            (truncate_size, truncate_seq) = (0, 0);
        }
        Ok(Self { offset, length, truncate_size, truncate_seq })
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

impl Run<'_> {
    /// The operation at `index`.
    pub(crate) fn at(&self, index: usize) -> &Op {
        &self.op.op.ops[index]
    }

    pub(crate) fn output(&mut self, index: usize, output: impl Into<Rope>) {
        self.results[index].output = output.into();
    }

    /// Counts a read of `bytes`.
    pub(crate) fn count_read(&mut self, bytes: u64) {
        self.delta.rd += 1;
        self.delta.rd_kb += crate::stats::kb(bytes);
    }

    /// EOPNOTSUPP if the pool does not take the operation.
    fn must_be_admitted(&self, index: usize) -> Exec {
        let (offset, size) = match self.at(index).args {
            OpArgs::Extent { offset, .. } | OpArgs::WriteSame { offset, .. } => (offset, self.after.size),
            _ => (0, self.after.size),
        };
        Ok(self.env.scheme.admits(self.env.pool, self.at(index).code, offset, self.after.live().then_some(size))?)
    }

    pub(crate) fn input(&self, index: usize) -> Bytes {
        self.at(index).input.clone()
    }
}

/// Returns true if a successful operation has no result of its own.
pub(crate) fn keeps_result(op: u16) -> bool {
    use code::*;
    matches!(op, STAT | ASSERT_VER | LIST_SNAPS | OMAPGETKEYS | OMAPGETVALS | OMAPGETHEADER | OMAPGETVALSBYKEYS)
}

/// Runs the operation at `index` of the vector.
pub(crate) fn apply(run: &mut Run<'_>, index: usize) -> Exec<i32> {
    let op = run.at(index).code;
    run.must_be_admitted(index)?;
    // Everything that changes the object in a user's eyes moves its user version; watches do not, copies bring their own.
    if code::writes(op) && !matches!(op, code::WATCH | code::COPY_FROM | code::COPY_FROM2 | code::UNDIRTY) {
        run.user_modify = true;
    }
    match op {
        code::READ | code::SYNC_READ => run.op_read(index),
        code::SPARSE_READ => run.op_sparse_read(index),
        code::MAPEXT => run.op_mapext(index),
        code::STAT => run.op_stat(index),
        code::CMPEXT => run.op_cmpext(index),
        code::CHECKSUM => run.op_checksum(index),
        code::ASSERT_VER => run.op_assert_version(index),
        code::LIST_WATCHERS => run.op_list_watchers(index),
        code::LIST_SNAPS => run.op_list_snaps(index),
        code::NOTIFY => run.op_notify(index),
        code::NOTIFY_ACK => run.op_notify_ack(index),
        code::WATCH => run.op_watch(index),
        code::WRITE => run.op_write(index),
        code::WRITEFULL => run.op_write_full(index),
        code::WRITESAME => run.op_write_same(index),
        code::APPEND => run.op_append(index),
        code::ZERO => run.op_zero(index),
        code::TRUNCATE | code::TRIMTRUNC => run.op_truncate(index),
        code::CREATE => run.op_create(index),
        code::DELETE => run.op_delete(),
        code::SETALLOCHINT => run.op_alloc_hint(index),
        code::ROLLBACK => run.op_rollback(index),
        code::GETXATTR => run.op_get_xattr(index),
        code::GETXATTRS => run.op_get_xattrs(index),
        code::CMPXATTR => run.op_cmp_xattr(index),
        code::SETXATTR => run.op_set_xattr(index),
        code::RMXATTR => run.op_rm_xattr(index),
        code::OMAPGETKEYS..=code::OMAP_CMP => apply_omap_read(run, op, index),
        code::TMAPGET => run.op_tmap_get(index),
        code::TMAPPUT => run.op_tmap_put(index),
        code::TMAPUP => run.op_tmap_update(index),
        code::TMAP2OMAP => run.op_tmap_to_omap(index),
        code::OMAPSETVALS => run.op_omap_set(index),
        code::OMAPSETHEADER => run.op_omap_set_header(index),
        code::OMAPCLEAR => run.op_omap_clear(),
        code::OMAPRMKEYS => run.op_omap_rm_keys(index),
        code::OMAPRMKEYRANGE => run.op_omap_rm_range(index),
        code::CALL => run.op_call(index),
        code::COPY_FROM | code::COPY_FROM2 => run.op_copy_from(index),
        code::ISDIRTY => run.op_is_dirty(index),
        code::UNDIRTY => run.op_undirty(),
        code::STARTSYNC => run.op_start_sync(),
        code::COPY_READ => run.op_copy_read(index),
        _ => apply_tier(run, op, index),
    }
}

/// Answers what is for cache tiers and redirects only as a pool that is no tier does: there are none.
fn apply_tier(run: &mut Run<'_>, op: u16, index: usize) -> Exec<i32> {
    match op {
        code::CACHE_PIN | code::CACHE_UNPIN => Err(Errno::EINVAL.into()),
        code::COPY_GET => run.must_live().and(Err(Errno::EINVAL.into())),
        code::CACHE_FLUSH | code::CACHE_TRY_FLUSH | code::CACHE_EVICT | code::TIER_EVICT => {
            run.must_live().and(Err(Errno::EINVAL.into()))
        }
        code::TIER_FLUSH | code::TIER_PROMOTE => run.must_live().map(|()| 0),
        code::SET_CHUNK if run.at(index).input.is_empty() => Err(Errno::EINVAL.into()),
        _ => {
            if code::of_cache(op) || op == code::UNSET_MANIFEST {
                run.must_live()?;
            }
            Err(Errno::EOPNOTSUPP.into())
        }
    }
}

fn apply_omap_read(run: &mut Run<'_>, op: u16, index: usize) -> Exec<i32> {
    match op {
        code::OMAPGETKEYS => run.op_omap_keys(index),
        code::OMAPGETVALS => run.op_omap_vals(index),
        code::OMAPGETHEADER => run.op_omap_header(index),
        code::OMAPGETVALSBYKEYS => run.op_omap_by_keys(index),
        code::OMAP_CMP => run.op_omap_cmp(index),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}
