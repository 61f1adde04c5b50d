//! Findings about programs of different versions, and about the cluster's level.

use super::Checks;
use crate::soft::Soft;
use monstate::context::Env;
use monstate::effective;
use monstate::levels;
use monstate::state::State;
use node::Now;
use std::time::Duration;
use types::level::Level;

/// An OSD that tries to boot says so every few seconds; after this it has given up.
const TRIES: Duration = Duration::from_secs(30);

pub(super) fn find(checks: &mut Checks, state: &State, soft: &Soft, env: &Env, now: Now) {
    refused(checks, soft, now);
    if !env.standing.leads {
        return;
    }
    older_programs(checks, state, soft, env, now);
    could_be_raised(checks, state, soft, env);
}

/// OSDs that the leader does not let boot.
fn refused(checks: &mut Checks, soft: &Soft, now: Now) {
    let trying = soft.refused.iter().filter(|(_, (_, at))| now.mono.since(*at) < TRIES);
    let detail: Vec<String> = trying.map(|(osd, (why, _))| format!("osd.{osd} may not boot: {why}")).collect();
    if !detail.is_empty() {
        checks.warn("OSD_REFUSED", detail.len() as u64, format!("{} osds may not boot", detail.len()), detail);
    }
}

/// Daemons whose programs are older than others' for long.
fn older_programs(checks: &mut Checks, state: &State, soft: &Soft, env: &Env, now: Now) {
    let patience = effective::monitor_number(state, env, "mon_warn_older_version_delay");
    let Some((newest, since)) = soft.level.mixed() else { return };
    let long = now.mono.since(since).as_secs_f64() >= patience;
    if !long || !effective::monitor_flag(state, env, "mon_warn_on_older_version") {
        return;
    }
    let older = levels::laggards(state, &env.config, newest);
    let detail: Vec<String> = older.iter().map(|lag| format!("{} is running levels {}", lag.name, lag.levels)).collect();
    let summary = match detail.len() {
        1 => "There is a daemon running an older version of ceph".to_owned(),
        _ => "There are daemons running an older version of ceph".to_owned(),
    };
    checks.warn("DAEMON_OLD_VERSION", detail.len() as u64, summary, detail);
}

/// All programs have the next level, and nobody raises it.
fn could_be_raised(checks: &mut Checks, state: &State, soft: &Soft, env: &Env) {
    let Some((Level(next), _)) = soft.level.ready().filter(|_| levels::wait(state, env).is_none()) else { return };
    let summary = format!("all daemons can run level {next} but the cluster's level is {}", state.osdmap.level);
    let detail = vec!["'ceph nacre level raise' raises it; older programs are refused after that".to_owned()];
    checks.warn("OSD_UPGRADE_FINISHED", 1, summary, detail);
}
