//! What time brings: OSDs that fall silent, entries that expire, quotas, snapshots that are gone everywhere, keys.

use super::Monitor;
use manager::health::{self, Severity};
use manager::soft::Soft;
use manager::stepping;
use maps::{Incremental, Pool, flags, pool_flags, state as bits};
use messages::mon::log_level;
use monstate::context::Env;
use monstate::effective;
use monstate::levels;
use monstate::osds::{held, mark_down};
use monstate::state::{Change, State};
use node::{Level, Now, Outputs};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddr, Intervals, OsdId, PoolId, UTime};

/// Time that an OSD whose session ended may take to come back before it is marked down.
const RECONNECT: Duration = Duration::from_secs(3);

impl Monitor {
    /// Called about twice a second while serving.
    pub(super) fn tick(&mut self, now: Now, out: &mut Outputs) {
        let applied = self.replica.applied.clone();
        self.leader.soft.sample(now, &applied);
        self.leader.duties.follow_recovery(now.wall, &self.leader.soft.total());
        // What was decided last is durable before anything new is, also where the disk is slow.
        if self.leader.is_past(self.leader.decided) {
            self.tick_map(now, out);
            self.tick_seats(now, out);
            self.leader.decided = self.leader.last_ahead();
        }
        let mut changes = self.key_changes(now);
        changes.extend(self.expired_mutes(now));
        changes.extend(self.old_notes(now));
        let duties = &mut self.leader.duties;
        changes.extend(duties.history.tick(now, &applied, &self.leader.soft, &duties.images));
        if !changes.is_empty() {
            self.propose(now, changes, None, Vec::new(), out);
        }
        self.tick_manager(now);
        self.leader.soft.turned_away = [self.mon.turned_away(now.mono), self.mgr.turned_away(now.mono)].concat();
        self.watch_health(now);
        self.tell_denials(now);
        self.flush_lines(now, out);
    }

    fn tick_map(&mut self, now: Now, out: &mut Outputs) {
        let state = self.newest().clone();
        let mut inc = Incremental::new(state.osdmap.epoch + 1, state.fsid, now.wall);
        let before = inc.clone();
        let mut lines = Vec::new();
        if let Some(line) = self.step_level(now, &state, &mut inc) {
            lines.push((log_level::INFO, line));
        }
        self.judge_silence(now, &state, &mut inc, &mut lines);
        self.silent_osds(now, &state, &mut inc, &mut lines);
        self.out_osds(now, &state, &mut inc, &mut lines);
        full_osds(&state, &self.leader.soft, &mut inc);
        full_pools(&state, &self.leader.soft, &mut inc, &mut lines);
        self.leader.soft.creating.finish(&state, &mut inc);
        let (soft, duties) = (&self.leader.soft, &mut self.leader.duties);
        duties.placements.follow(&state.osdmap);
        stepping::step(&state, soft, &self.env, &duties.placements, &mut inc);
        duties.merging.step(now, &state, soft, &duties.placements, &mut inc);
        purged_snaps(&state, &self.leader.soft, &self.env, &mut inc);
        let over = |list: &BTreeMap<EntityAddr, UTime>| -> Vec<EntityAddr> {
            list.iter().filter(|(_, until)| **until < now.wall).map(|(addr, _)| *addr).collect()
        };
        inc.old_blocklist.extend(over(&state.osdmap.blocklist));
        inc.old_range_blocklist.extend(over(&state.osdmap.range_blocklist));
        let (soft, duties) = (&self.leader.soft, &mut self.leader.duties);
        let scaled = duties.autoscaler.tick(now, &state, soft, &self.env, &mut inc);
        lines.extend(scaled.into_iter().map(|text| (log_level::INFO, text)));
        duties.autoscaler.tell(now, &state, &mut duties.progress);
        if inc == before {
            // Copies are moved only when nothing else is to be done.
            duties.balancer.tick(now, &state, soft, &self.env, &mut inc);
        }
        for (level, text) in lines {
            out.log(Level::Info, "mon", text.clone());
            self.line(now, level, text);
        }
        if inc != before {
            self.propose(now, Vec::new(), Some(inc), Vec::new(), out);
        }
    }

    /// Raises the cluster's level when all programs know the next one for long enough. What is to be told of it.
    fn step_level(&mut self, now: Now, state: &State, inc: &mut Incremental) -> Option<String> {
        match self.leader.soft.level.tick(now, state, &self.env) {
            levels::Step::None => None,
            levels::Step::Tell(level) => Some(match levels::wait(state, &self.env) {
                Some(wait) => format!(
                    "all programs run level {level}; it is raised by itself in {} s, unless 'ceph nacre level hold' is said",
                    wait.as_secs()
                ),
                None => format!("all programs run level {level}; 'ceph nacre level raise' raises it"),
            }),
            levels::Step::Raise(level) => {
                inc.new_level = Some(level);
                Some(moncommands::level_raised(level))
            }
        }
    }

    /// Marks down the OSDs that this monitor alone must judge: those that have not reported for very long, and those
    /// that left when nobody is there to say whether they live.
    fn silent_osds(&mut self, now: Now, state: &State, inc: &mut Incremental, lines: &mut Vec<(u16, String)>) {
        let map = &state.osdmap;
        let grace = Duration::from_secs(effective::monitor_number(state, &self.env, "mon_osd_report_timeout").max(1.0) as u64);
        let osds = &self.leader.soft.osds;
        let here = |osd: OsdId| osds.get(&osd).is_some_and(|soft| soft.session.is_some());
        let witnesses: Vec<OsdId> = map.osds().filter(|osd| map.is_up(*osd) && here(*osd)).collect();
        for osd in map.osds().filter(|o| map.is_up(*o)) {
            let soft = self.leader.soft.osds.entry(osd).or_default();
            let silent = now.mono.since(soft.last_seen);
            let left = soft.closed_at.map(|at| now.mono.since(at));
            let alone = !witnesses.iter().any(|other| *other != osd);
            let gone = silent > grace || alone && left.is_some_and(|d| d > RECONNECT);
            let marked = inc.new_state.get(&osd).is_some_and(|flip| flip & bits::UP != 0);
            if gone && !marked && !held(state, osd, flags::NODOWN, bits::NODOWN) {
                mark_down(map, inc, osd, now);
                lines.push((log_level::INFO, format!("osd.{osd} marked down after no report for {} seconds", silent.as_secs())));
            }
        }
    }

    fn expired_mutes(&self, now: Now) -> Vec<Change> {
        let state = self.newest();
        let gone = |code: &str, mute: &monstate::state::Mute| {
            let expired = !mute.until.is_zero() && mute.until <= now.wall;
            let check = self.leader.duties.health.get(code);
            // A mute that is not sticky ends with its check, or when the check counts more than it did.
            expired || (!mute.sticky && check.is_none_or(|c| c.count > mute.count))
        };
        state
            .mutes
            .iter()
            .filter(|(code, m)| gone(code, m))
            .map(|(code, _)| Change::Mute { code: code.clone(), mute: None })
            .collect()
    }

    /// Tells the cluster log what became of the health checks.
    fn watch_health(&mut self, now: Now) {
        let new = health::checks(&self.replica.applied, &self.leader.soft, &self.env, now);
        let old = std::mem::take(&mut self.leader.duties.health);
        for (code, check) in &new {
            let level = match check.severity {
                Severity::Notice => log_level::INFO,
                Severity::Warning => log_level::WARN,
                Severity::Error => log_level::ERROR,
            };
            match old.get(code) {
                None => self.line(now, level, format!("Health check failed: {} ({code})", check.summary)),
                Some(before) if before.summary != check.summary => {
                    self.line(now, level, format!("Health check update: {} ({code})", check.summary));
                }
                Some(_) => {}
            }
        }
        for (code, check) in old.iter().filter(|(code, _)| !new.contains_key(*code)) {
            self.line(now, log_level::INFO, format!("Health check cleared: {code} (was: {})", check.summary));
        }
        let sick = |checks: &BTreeMap<String, health::Check>| checks.values().any(|c| c.severity > Severity::Notice);
        if sick(&old) && !sick(&new) {
            self.line(now, log_level::INFO, "Cluster is now healthy");
        }
        self.leader.duties.health = new;
    }
}

/// Returns how full an OSD is, as state bits.
fn fullness(map: &maps::OsdMap, soft: &Soft, osd: OsdId) -> Option<u32> {
    if soft.osds.get(&osd).and_then(|o| o.report.as_ref()).is_some_and(|r| r.full) {
        return Some(bits::FULL);
    }
    let space = soft.space(osd);
    if space.total == 0 {
        return None;
    }
    let used = 1.0 - space.available as f64 / space.total as f64;
    Some(if used >= f64::from(map.full_ratio) {
        bits::FULL
    } else if used >= f64::from(map.backfillfull_ratio) {
        bits::BACKFILLFULL
    } else if used >= f64::from(map.nearfull_ratio) {
        bits::NEARFULL
    } else {
        0
    })
}

/// Returns true if the map shows an OSD less or more full than it is.
pub(super) fn fullness_changed(map: &maps::OsdMap, soft: &Soft, osd: OsdId) -> bool {
    fullness(map, soft, osd).is_some_and(|wanted| map.state(osd) & FULLNESS != wanted)
}

/// Bits of an OSD's fullness, as the map has it.
const FULLNESS: u32 = bits::FULL | bits::BACKFILLFULL | bits::NEARFULL;

fn full_osds(state: &State, soft: &Soft, inc: &mut Incremental) {
    let map = &state.osdmap;
    for osd in map.osds() {
        let Some(wanted) = fullness(map, soft, osd) else { continue };
        let flip = (map.state(osd) & FULLNESS) ^ wanted;
        if flip != 0 {
            *inc.new_state.entry(osd).or_default() ^= flip;
        }
    }
}

/// Sets and clears the flags of pools that have no space or have reached their quota.
fn full_pools(state: &State, soft: &Soft, inc: &mut Incremental, lines: &mut Vec<(u16, String)>) {
    const ALL: u64 = pool_flags::FULL | pool_flags::FULL_QUOTA | pool_flags::NEARFULL | pool_flags::BACKFILLFULL;
    let map = &state.osdmap;
    // A pool is as full as the fullest OSD that it may be placed on, or that still has groups. Of one that has not reported since this start
    // the map says what it was: clients that are let write to it would be turned away.
    let holds = map.osds().filter(|o| map.is_in(*o) || map.is_up(*o));
    let worst = holds.map(|o| (o, fullness(map, soft, o).unwrap_or(map.state(o) & FULLNESS)));
    let worst: Vec<(OsdId, u32)> = worst.filter(|(_, f)| *f != 0).collect();
    for (id, pool) in &map.pools {
        let has = |bit| {
            worst.iter().any(|(osd, f)| {
                *f == bit && map.crush.rule_takes(u32::from(pool.crush_rule)).iter().any(|top| map.crush.is_under(*osd, *top))
            })
        };
        let over = over_quota(pool, soft, *id);
        let wanted = if over {
            pool_flags::FULL | pool_flags::FULL_QUOTA
        } else if has(bits::FULL) {
            pool_flags::FULL
        } else if has(bits::BACKFILLFULL) {
            pool_flags::BACKFILLFULL | pool_flags::NEARFULL
        } else if has(bits::NEARFULL) {
            pool_flags::NEARFULL
        } else {
            0
        };
        if pool.flags & ALL == wanted {
            continue;
        }
        let name = state.pool_name(*id);
        match (pool.has_flag(pool_flags::FULL_QUOTA), over) {
            (false, true) => lines.push((log_level::WARN, format!("pool '{name}' is full (reached quota's limits)"))),
            (true, false) => {
                lines.push((log_level::INFO, format!("pool '{name}' no longer out of quota; removing NO_QUOTA flag")))
            }
            _ => {}
        }
        let edited = inc.new_pools.entry(*id).or_insert_with(|| pool.clone());
        edited.flags = edited.flags & !ALL | wanted;
    }
}

fn over_quota(pool: &Pool, soft: &Soft, id: PoolId) -> bool {
    if pool.quota_max_bytes == 0 && pool.quota_max_objects == 0 {
        return false;
    }
    let sum = soft.pool_sum(id);
    let reached = |limit: u64, n: i64| limit > 0 && n.max(0) as u64 >= limit;
    reached(pool.quota_max_bytes, sum.num_bytes) || reached(pool.quota_max_objects, sum.num_objects)
}

/// Snapshots in the queue that every group of the pool has trimmed are declared purged, a bounded number in one map.
fn purged_snaps(state: &State, soft: &Soft, env: &Env, inc: &mut Incremental) {
    let map = &state.osdmap;
    let mut left = effective::monitor_number(state, env, "mon_max_snap_prune_per_epoch").max(1.0) as u64;
    for (id, queue) in &map.removed_snaps_queue {
        let Some(pool) = map.pools.get(id) else {
            inc.new_purged_snaps.insert(*id, queue.clone());
            continue;
        };
        let mut gone = Intervals::new();
        'runs: for (start, len) in queue.iter() {
            for snap in start..start + len {
                if left == 0 {
                    break 'runs;
                }
                let everywhere = soft.pool_pgs(*id).filter(|p| has_purged(&p.report.purged_snaps, snap)).count();
                if everywhere == pool.pg_num as usize {
                    gone.insert(snap, 1);
                    left -= 1;
                }
            }
        }
        if !gone.is_empty() {
            inc.new_purged_snaps.insert(*id, gone);
        }
    }
}

fn has_purged(runs: &[(u64, u64)], snap: u64) -> bool {
    runs.iter().any(|(start, len)| (*start..start.saturating_add(*len)).contains(&snap))
}
