//! Who watches what: read when the group begins to serve, and removed when their time is over or their clients are
//! fenced. What lives as long as the daemon only is in [`crate::watch`].

use super::Primary;
use super::lanes::{Work, send_all};
use crate::api::Ctx;
use crate::core::Core;
use crate::core::read::{bad, scan};
use crate::info::ObjectInfo;
use crate::meta;
use bytes::Bytes;
use objectstore::{Hold, Unread};
use types::HObject;

impl Primary {
    /// Arms the watches that an object's record has.
    fn arm(&mut self, core: &Core, ctx: &Ctx<'_>, hold: Hold, head: &HObject) -> Result<(), Unread> {
        let Some(stat) = ctx.store.stat(hold, &core.object(head.clone()))? else { return Ok(()) };
        let info = ObjectInfo::decode(&stat.info).map_err(|_| bad("record of a watched object"))?;
        for watch in info.watchers {
            self.watches.arm(ctx.now.mono, head, watch);
        }
        Ok(())
    }

    /// An object was missing here and is not any more.
    pub(crate) fn arm_watches(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, head: &HObject) {
        let hold = core.next_hold(ctx);
        // It was just written, so its record is in memory. Else its watchers ping, and show themselves again.
        let _ = self.arm(core, ctx, hold, head);
        ctx.store.release(hold);
    }

    /// Arms the watches of a page of objects behind a key. Gives the key to go on behind; `None`: there are no more.
    pub(crate) fn read_watches(
        &mut self,
        core: &Core,
        ctx: &Ctx<'_>,
        hold: Hold,
        after: &Bytes,
    ) -> Result<Option<Bytes>, Unread> {
        let page = scan(ctx, hold, core.id, meta::WATCHED, after)?;
        for (key, _) in &page.entries {
            let head = meta::parse_watched_key(key, core.id.pg.pool).map_err(|_| bad("key of a watched object"))?;
            if !core.missing.contains_key(&head) {
                self.arm(core, ctx, hold, &head)?;
            }
        }
        Ok(page.entries.last().filter(|_| page.more).map(|(key, _)| key.clone()))
    }

    /// Watches of fenced clients go at once.
    pub(crate) fn fence(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        if !ctx.map.has_blocklist() || self.watches.len() == 0 {
            return;
        }
        let map = ctx.map.clone();
        for (head, cookie, holder) in self.watches.fence(|watch| map.is_blocklisted(&watch.addr)) {
            let head = core.object(head);
            self.enqueue(core, ctx, head, Work::Expire { cookie, holder });
        }
    }

    pub(super) fn turn_watches(&mut self, core: &mut Core, ctx: &mut Ctx<'_>) {
        for (head, cookie, holder) in self.watches.expired(ctx.now.mono) {
            let head = core.object(head);
            self.enqueue(core, ctx, head, Work::Expire { cookie, holder });
        }
        let mut sends = Vec::new();
        self.watches.time_out(ctx.now.mono, &mut sends);
        send_all(ctx, sends);
    }
}
