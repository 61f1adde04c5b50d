//! The end of a scrub: statistics, lines for the cluster's log, and what it leads to.

use super::{Order, Scrub};
use crate::api::{ClusterLevel, Ctx, Effect};
use crate::body::Body;
use crate::core::Core;
use crate::primary::Primary;
use crate::stats::Stats;
use types::Feature;

impl Primary {
    pub(super) fn finish_scrub(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, scrub: Scrub) {
        let tally = &scrub.tally;
        let counted = scrub.counted;
        let mut stats = core.info.stats;
        let before = stats;
        let figures = |s: &Stats| [s.objects, s.clones, s.bytes, s.whiteouts, s.omap_objects];
        let (had, found) = (figures(&stats), figures(&counted));
        [stats.objects, stats.clones, stats.bytes, stats.whiteouts, stats.omap_objects] = found;
        stats.shallow_errors = tally.shallow;
        if scrub.deep {
            stats.deep_errors = tally.deep;
            (stats.omap_keys, stats.omap_bytes) = (counted.omap_keys, counted.omap_bytes);
            // Older programs cannot read the figure.
            stats.large_omaps = if ctx.map.level.has(Feature::LargeOmaps) { counted.large_omaps } else { 0 };
            core.history.deep_scrub = (core.info.last_update, ctx.now.wall);
        }
        core.history.scrub = (core.info.last_update, ctx.now.wall);
        let nothing = tally.shallow + tally.deep == 0 && tally.fixed == 0;
        if had != found && !core.history.estimated && nothing && !scrub.again {
            let text = format!(
                "{} {} : stat mismatch, had {had:?} (objects, clones, bytes, whiteouts, omap), found {found:?}",
                core.id,
                scrub.mode()
            );
            ctx.out.push(Effect::ClusterLog { level: ClusterLevel::Error, text });
        }
        self.tell_result(core, ctx, &scrub);
        // What was not there and is brought was not counted.
        core.history.estimated = scrub.again || tally.fixed > 0;
        core.scrubbed = true;
        core.save(ctx);
        // The other copies count as this one does.
        stats.subtract(&before);
        self.change_unlogged(core, ctx, Body { delta: stats, ..Body::default() });
        self.after_scrub(core, ctx, scrub);
    }

    /// The lines of the cluster's log that Ceph writes.
    fn tell_result(&self, core: &Core, ctx: &mut Ctx<'_>, scrub: &Scrub) {
        let (id, mode, tally) = (core.id, scrub.mode(), &scrub.tally);
        let mut say = |level, text: String| ctx.out.push(Effect::ClusterLog { level, text });
        let errors = tally.shallow + tally.deep + tally.fixed as i64;
        if errors == 0 {
            return say(ClusterLevel::Info, format!("{id} {mode} ok"));
        }
        if tally.missing + tally.inconsistent > 0 {
            let (missing, inconsistent) = (tally.missing, tally.inconsistent);
            say(ClusterLevel::Error, format!("{id} {mode} {missing} missing, {inconsistent} inconsistent objects"));
        }
        let fixed = if scrub.repair { format!(", {} fixed", tally.fixed) } else { String::new() };
        say(ClusterLevel::Error, format!("{id} {mode} {errors} errors{fixed}"));
    }

    /// What a scrub leads to: a repair, or a look whether the repair was one.
    fn after_scrub(&mut self, core: &mut Core, ctx: &mut Ctx<'_>, scrub: Scrub) {
        let errors = scrub.tally.shallow + scrub.tally.deep;
        let few = scrub.findings.len() <= ctx.config.auto_repair_errors;
        self.failed_repair = (scrub.repair || self.failed_repair) && errors > 0;
        self.findings = Some(Box::new(scrub.findings));
        if scrub.repair && scrub.tally.fixed > 0 {
            self.order_scrub(core, ctx, Order { deep: true, repair: false, verify: true });
        } else if ctx.config.auto_repair && scrub.deep && !scrub.repair && !scrub.verify && errors > 0 && few {
            self.order_scrub(core, ctx, Order { deep: true, repair: true, verify: false });
        }
        self.begin_ordered(core, ctx);
    }
}
