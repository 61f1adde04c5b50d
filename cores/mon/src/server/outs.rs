//! OSDs that are down for long are marked out, so that their groups go elsewhere.

use super::Monitor;
use maps::{Incremental, OsdMap, flags, state as bits};
use messages::mon::log_level;
use monstate::context::Env;
use monstate::effective::{monitor_flag, monitor_number, of_monitor};
use monstate::osds::held;
use monstate::state::State;
use node::Now;
use types::OsdId;

/// Returns true if all of the smallest bucket above an OSD that is of type `mon_osd_down_out_subtree_limit` or larger
/// is down. What fails all at once comes back all at once, and its data is not to be copied meanwhile.
fn all_below_limit_is_down(state: &State, env: &Env, osd: OsdId) -> bool {
    let map = &state.osdmap;
    let Some(limit) = map.crush.type_id(&of_monitor(state, env, "mon_osd_down_out_subtree_limit")) else { return false };
    let mut at = osd;
    loop {
        if map.crush.devices_under(at).iter().any(|below| map.is_up(*below)) {
            return false;
        }
        if map.crush.kind_of(at).is_some_and(|kind| kind >= limit) {
            return true;
        }
        match map.crush.parents(at).into_iter().find(|parent| !map.crush.is_shadow(*parent)) {
            Some(parent) => at = parent,
            None => return false,
        }
    }
}

/// Seconds that an OSD may be down before it is out; more for one that is often only slow
/// (`mon_osd_adjust_down_out_interval`).
fn patience(state: &State, env: &Env, osd: OsdId, after: f64) -> f64 {
    let Some(xinfo) = state.osdmap.osd_xinfo.get(osd as usize) else { return after };
    match monitor_flag(state, env, "mon_osd_adjust_down_out_interval") {
        true => after + f64::from(xinfo.laggy_interval) * f64::from(xinfo.laggy_probability) / f64::from(u32::MAX),
        false => after,
    }
}

/// Marks an OSD out so that it comes in again by itself when it boots.
fn mark_out_by_itself(map: &OsdMap, inc: &mut Incremental, osd: OsdId) {
    let known = map.osd_xinfo.get(osd as usize).copied().unwrap_or_default();
    inc.new_xinfo.entry(osd).or_insert(known).old_weight = map.weight(osd);
    inc.new_weight.insert(osd, 0);
    *inc.new_state.entry(osd).or_default() ^= bits::AUTOOUT;
}

impl Monitor {
    /// Marks out the OSDs that are down for long.
    pub(super) fn out_osds(&mut self, now: Now, state: &State, inc: &mut Incremental, lines: &mut Vec<(u16, String)>) {
        let map = &state.osdmap;
        let after = monitor_number(state, &self.env, "mon_osd_down_out_interval");
        let ratio = monitor_number(state, &self.env, "mon_osd_min_in_ratio");
        let (exist, _, mut inside) = map.osd_counts();
        for osd in map.osds().collect::<Vec<_>>() {
            let soft = self.leader.soft.osds.entry(osd).or_default();
            if map.is_up(osd) {
                soft.down_since = None;
                continue;
            }
            let since = *soft.down_since.get_or_insert(now.mono);
            let down = now.mono.since(since);
            let long = after > 0.0 && down.as_secs_f64() >= patience(state, &self.env, osd, after);
            let enough = (inside as f64 - 1.0) / exist.max(1) as f64 >= ratio;
            let stays = !long || !map.is_in(osd) || !enough || held(state, osd, flags::NOOUT, bits::NOOUT);
            if stays || all_below_limit_is_down(state, &self.env, osd) {
                continue;
            }
            mark_out_by_itself(map, inc, osd);
            inc.new_last_in_change = now.wall;
            inside -= 1;
            lines.push((log_level::INFO, format!("Marking osd.{osd} out (has been down for {} seconds)", down.as_secs())));
        }
    }
}
