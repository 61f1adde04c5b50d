//! What is wrong altogether; and scrubs, clocks, monitors, crashes, and single findings.

use super::{Answer, SHOWN, Scene, counted};
use crate::crashes;
use crate::health::advice::advice;
use crate::health::{Severity, status};
use crate::soft::all_pgs;
use grammar::units::span;
use grammar::{Refusal, refuse};
use maps::flags;
use monstate::effective;

/// The question that tells more about a finding, if there is one.
fn question(code: &str) -> Option<&'static str> {
    Some(match code {
        "PG_AVAILABILITY" | "PG_DEGRADED" | "PG_DAMAGED" | "OBJECT_UNFOUND" | "PG_BACKFILL_FULL" | "PG_RECOVERY_FULL" => "groups",
        "OBJECT_MISPLACED" => "recovery",
        "SLOW_OPS" | "OSD_DISK_STUCK" => "slow",
        "PG_NOT_SCRUBBED" | "PG_NOT_DEEP_SCRUBBED" | "POOL_SCRUB_FLAGS" => "scrub",
        "MON_CLOCK_SKEW" => "clock",
        "MON_DOWN" | "MON_STORE_SET_BACK" => "monitors",
        "RECENT_CRASH" => "crash",
        _ if code.contains("FULL") => "space",
        _ => return None,
    })
}

pub(super) fn overview(s: &Scene<'_>) -> Answer {
    let mut a = Answer::default();
    let mut found: Vec<_> = s.checks.iter().filter(|(code, _)| !s.state.mutes.contains_key(*code)).collect();
    found.sort_by_key(|(_, check)| std::cmp::Reverse(check.severity));
    let bad = found.iter().filter(|(_, check)| check.severity > Severity::Notice).count() as u64;
    match bad {
        0 => a.say("The cluster is well."),
        n => a.say(format!("The cluster is {}: {}.", status(s.state, &s.checks), counted(n, "finding"))),
    }
    for (code, check) in found.iter().take(SHOWN) {
        let command =
            question(code).map_or_else(|| format!("nacre explain health {code}"), |about| format!("nacre explain {about}"));
        a.because(check.summary.clone(), command);
    }
    if found.len() > SHOWN {
        a.because(format!("{} further findings", found.len() - SHOWN), "ceph health detail");
    }
    if bad == 0 {
        let rates = s.soft.rates(None);
        a.because(format!("clients do {} writes and {} reads a second", rates.write_ops, rates.read_ops), "ceph osd pool stats");
    }
    a.helps("ask on: slow, groups, group PGID, space [POOL], osd N, recovery, scrub, clock, monitors, crash, health CODE", "");
    a
}

pub(super) fn finding(s: &Scene<'_>, code: &str) -> Result<Answer, Refusal> {
    let mut a = Answer::default();
    let Some(check) = s.checks.get(code) else {
        if crate::health::codes::CODES.iter().any(|(known, _)| *known == code) {
            a.say(format!("{code} is not raised now."));
            return Ok(a);
        }
        refuse!(ENOENT, "there is no code '{code}'; 'ceph health detail' shows those that are raised");
    };
    a.say(format!("{code}: {}.", check.summary.trim_end_matches('.')));
    for line in check.detail.iter().take(SHOWN) {
        a.because(line.clone(), "");
    }
    if check.detail.len() > SHOWN {
        a.because(format!("{} further lines", check.detail.len() - SHOWN), "ceph health detail");
    }
    if s.state.mutes.contains_key(code) {
        a.because("somebody muted it: it does not count", format!("ceph health unmute {code}"));
    }
    if let Some((text, command)) = advice(code) {
        a.helps(text, command);
    }
    if let Some(about) = question(code) {
        a.helps("ask why", format!("nacre explain {about}"));
    }
    Ok(a)
}

pub(super) fn scrubs(s: &Scene<'_>) -> Answer {
    let mut a = Answer::default();
    let late: Vec<_> = ["PG_NOT_SCRUBBED", "PG_NOT_DEEP_SCRUBBED"].into_iter().filter_map(|code| s.checks.get(code)).collect();
    match late.is_empty() {
        true => a.say("All groups were scrubbed in time."),
        false => late.iter().for_each(|check| a.say(format!("{}.", check.summary))),
    }
    let oldest = s.soft.pgs.values().filter(|p| s.state.osdmap.pool(p.report.pg.pool).is_some());
    if let Some(oldest) = oldest.min_by_key(|p| p.report.last_deep_scrub_stamp) {
        let stamp = oldest.report.last_deep_scrub_stamp;
        let text = match stamp.is_zero() {
            true => format!("group {} was never scrubbed deeply", oldest.report.pg),
            false => {
                let ago = span(u64::from(s.now.wall.sec.saturating_sub(stamp.sec)));
                format!("the oldest deep scrub is that of group {}, {ago} ago", oldest.report.pg)
            }
        };
        a.because(text, format!("ceph pg deep-scrub {}", oldest.report.pg));
    }
    let interval = |name: &str| span(effective::number_for_osds(s.state, s.env, name) as u64);
    let text = format!(
        "groups are to be scrubbed at least every {}, deeply every {}",
        interval("osd_scrub_max_interval"),
        interval("osd_deep_scrub_interval")
    );
    a.because(text, "ceph config get osd osd_deep_scrub_interval");
    let map = &s.state.osdmap;
    for (_, name) in
        [(flags::NOSCRUB, "noscrub"), (flags::NODEEP_SCRUB, "nodeep-scrub")].iter().filter(|(bit, _)| map.has_flag(*bit))
    {
        a.say(format!("Somebody set the flag {name}."));
        a.helps("let scrubs begin again", format!("ceph osd unset {name}"));
    }
    if let Some(check) = s.checks.get("POOL_SCRUB_FLAGS") {
        check.detail.iter().take(SHOWN).for_each(|line| a.because(line.clone(), ""));
    }
    let (from, to) = ("osd_scrub_begin_hour", "osd_scrub_end_hour");
    let hour = |name: &str| effective::number_for_osds(s.state, s.env, name) as u64 % 24;
    if hour(from) == hour(to) {
        a.excludes("the hours: scrubs may begin at any time");
    } else {
        a.because(
            format!("scrubs begin between {} and {} o'clock only", hour(from), hour(to)),
            format!("ceph config get osd {from}"),
        );
    }
    let most = effective::number_for_osds(s.state, s.env, "osd_max_scrubs") as u64;
    a.because(format!("an OSD takes part in {} at a time", counted(most, "scrub")), "ceph config get osd osd_max_scrubs");
    let dirty = all_pgs(s.state).filter(|pg| s.soft.pg_state(s.state, *pg).has(types::PgState::SCRUBBING)).count() as u64;
    a.because(format!("{} are scrubbed now", counted(dirty, "group")), "ceph tell osd.N dump_scrubs");
    a
}

pub(super) fn clocks(s: &Scene<'_>) -> Answer {
    let mut a = Answer::default();
    let allowed = effective::monitor_number(s.state, s.env, "mon_clock_drift_allowed");
    let off: Vec<_> = s.soft.clocks.off(allowed).collect();
    match off.len() as u64 {
        0 => a.say(format!("The monitors' clocks agree within {allowed} s.")),
        n => a.say(format!("The clocks of {} are off by more than {allowed} s.", counted(n, "monitor"))),
    }
    for name in s.env.standing.quorum.iter().filter(|name| **name != s.env.config.name) {
        let text = match s.soft.clocks.of(name) {
            Some(clock) => format!("mon.{name} is off by {:.3} s at least; asking took {:.3} s", clock.skew, clock.latency),
            None => format!("mon.{name} has not told its time yet"),
        };
        a.because(text, "ceph time-sync-status");
    }
    if !off.is_empty() {
        a.helps("let all hosts keep time by the same servers; after a step the finding goes within minutes", "chronyc tracking");
    }
    a.because("what lies within the time of asking is no difference: a slow network makes none", "");
    a
}

pub(super) fn monitors(s: &Scene<'_>) -> Answer {
    let mut a = Answer::default();
    let standing = &s.env.standing;
    let missing: Vec<&str> = standing.voters.iter().filter(|name| !standing.quorum.contains(name)).map(String::as_str).collect();
    let (all, majority) = (standing.voters.len(), standing.voters.len() / 2 + 1);
    let leader = standing.leader.as_deref().unwrap_or("nobody");
    match missing.is_empty() {
        true => a.say(format!("All {} agree; {leader} leads.", counted(all as u64, "monitor"))),
        false => {
            a.say(format!("{} of {all} monitors agree; {leader} leads. Missing: {}.", standing.quorum.len(), missing.join(", ")))
        }
    }
    let spare = standing.quorum.len().saturating_sub(majority);
    a.because(format!("{majority} of {all} are needed; {spare} more may fail"), "ceph quorum_status");
    for name in missing.iter().take(SHOWN) {
        let at = s.state.monmap.by_rank().find(|info| info.name == **name);
        let at = at
            .and_then(|info| info.public_addrs.0.first())
            .and_then(|addr| addr.addr)
            .map_or(String::new(), |at| format!(" at {at}"));
        let why = if standing.set_back.iter().any(|set_back| set_back == name) {
            "its store was set back, so it stopped"
        } else {
            "it does not answer"
        };
        a.because(format!("mon.{name}{at}: {why}"), "ceph health detail");
    }
    if !missing.is_empty() {
        a.helps(
            "start its host or process, and see whether this host reaches it",
            format!("ceph tell mon.{} mon_status", missing[0]),
        );
        a.helps(
            "a host of three or more that stays away is replaced by another one after ten minutes",
            "nacre host ls --dir DIR",
        );
    }
    if all < 3 {
        a.because("with fewer than three monitors, the loss of one stops the cluster", "nacre token --dir DIR");
    }
    a
}

pub(super) fn crashes(s: &Scene<'_>) -> Answer {
    let mut a = Answer::default();
    let recent = crashes::recent(s.state, s.now.wall);
    let all = crashes::all(s.state);
    match recent.len() as u64 {
        0 => a.say("No daemon died lately that nobody has looked at."),
        n => a.say(format!("{} of daemons that died were not looked at.", counted(n, "report"))),
    }
    for report in recent.iter().rev().take(SHOWN) {
        let why = report.text_or("assert_msg", report.text("process_name"));
        let text = format!(
            "{} died at {}: {}",
            report.text("entity_name"),
            report.text("timestamp"),
            why.lines().next().unwrap_or_default()
        );
        a.because(text, format!("ceph crash info {}", report.id()));
    }
    a.because(format!("{} are kept in all", counted(all.len() as u64, "report")), "ceph crash ls");
    if !recent.is_empty() {
        a.helps("say that they were seen", "ceph crash archive-all");
    }
    a.unknown("processes that the kernel killed for memory", "dmesg");
    a
}
