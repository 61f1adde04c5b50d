//! Why operations take long.

use super::{Answer, SHOWN, Scene, counted};
use crate::soft::all_pgs;
use grammar::units::span;
use maps::{flags, pool_flags};
use types::{OsdId, PgState};

/// An OSD is slow among others if its writes take so many times as long as half of theirs, and so many microseconds longer.
const TIMES: u32 = 4;
const LONGER_US: u32 = 5_000;
/// A history of so many seconds says how an OSD usually is.
const HISTORY_SECS: u64 = 3600;
/// Writes are slow everywhere if half of them take longer, in microseconds.
const ALL_SLOW_US: u32 = 50_000;

fn millis(us: u32) -> String {
    format!("{:.1} ms", f64::from(us) / 1000.0)
}

/// Mean times of durable writes, in microseconds, of OSDs that wrote lately, the slowest first.
fn writes(s: &Scene<'_>) -> Vec<(u32, OsdId)> {
    let map = &s.state.osdmap;
    let told = s.soft.osds.iter().filter(|(osd, _)| map.is_up(**osd));
    let mut all: Vec<(u32, OsdId)> =
        told.filter_map(|(osd, o)| Some((o.report.as_ref()?.commit_latency_us, *osd))).filter(|(us, _)| *us > 0).collect();
    all.sort_by_key(|(us, osd)| (std::cmp::Reverse(*us), *osd));
    all
}

pub(super) fn answer(s: &Scene<'_>) -> Answer {
    let mut a = Answer::default();
    held(s, &mut a);
    disks(s, &mut a);
    let waiting: Vec<(OsdId, u32, u32)> = s
        .soft
        .osds
        .iter()
        .filter(|(osd, _)| s.state.osdmap.is_up(**osd))
        .filter_map(|(osd, o)| o.report.as_ref().map(|r| (*osd, r.slow_ops, r.slow_oldest)))
        .filter(|(_, n, _)| *n > 0)
        .collect();
    for (osd, n, oldest) in waiting.iter().take(SHOWN) {
        let text = format!("{} of {} wait, the oldest for {oldest} s", counted(u64::from(*n), "operation"), s.osd(*osd));
        a.because(text, format!("ceph tell osd.{osd} dump_blocked_ops"));
    }
    if a.sentences.is_empty() {
        match waiting.iter().map(|(_, n, _)| u64::from(*n)).sum() {
            0 => a.say("As far as the monitors know, nothing is slow: no operation takes too long."),
            n => a.say(format!("{} too long, and the monitors do not know for what.", takes(n))),
        }
        if let Some((osd, ..)) = waiting.first() {
            a.helps(
                "see at which stage they stand, and which copy was waited for",
                format!("ceph tell osd.{osd} dump_blocked_ops"),
            );
        }
    }
    let pace = s.soft.pace(None);
    if pace.is_zero() {
        a.excludes("recovery: nothing is copied");
    } else {
        a.because(format!("recovery copies {}; it yields to clients by itself", pace.text()), "nacre explain recovery");
    }
    if let Some((osd, _)) = writes(s).first() {
        a.unknown("at which stage single operations stood", format!("ceph tell osd.{osd} dump_historic_ops"));
        a.unknown("the network between OSDs", format!("ceph tell osd.{osd} dump_osd_network"));
    }
    a.unknown("clients, their hosts, and the network to them", "");
    a
}

fn takes(n: u64) -> String {
    format!("{} {}", counted(n, "operation"), if n == 1 { "takes" } else { "take" })
}

/// Tells what holds operations up by the map: flags, full disks, groups that do not serve.
fn held(s: &Scene<'_>, a: &mut Answer) {
    let map = &s.state.osdmap;
    if map.has_flag(flags::PAUSERD) || map.has_flag(flags::PAUSEWR) {
        a.say("Clients wait, because somebody paused the cluster.");
        a.because("the map has the flag pauserd or pausewr", "ceph osd dump");
        a.helps("let them go on", "ceph osd unset pause");
    }
    let full: Vec<&str> =
        map.pools.iter().filter(|(_, p)| p.has_flag(pool_flags::FULL)).map(|(id, _)| s.state.pool_name(*id)).collect();
    if map.has_flag(flags::FULL) || !full.is_empty() {
        let whom = if full.is_empty() { "the cluster".to_owned() } else { format!("pool {}", full.join(", ")) };
        a.say(format!("Writes wait, because {whom} is full."));
        a.because("an OSD is fuller than the full ratio, or a quota was reached", "nacre explain space");
        a.helps("remove data, or add disks; writes go on by themselves", "ceph df detail");
    } else {
        a.excludes("full disks");
    }
    let all = all_pgs(s.state).count() as u64;
    let idle = all_pgs(s.state).filter(|pg| !s.soft.pg_state(s.state, *pg).has(PgState::ACTIVE)).count() as u64;
    if idle > 0 {
        a.say(format!("Operations on objects of {} of {all} wait, because these do not serve.", counted(idle, "group")));
        a.because("groups that are not active", "ceph pg dump_stuck inactive");
        a.helps("see for whom they wait", "nacre explain groups");
    } else if all > 0 {
        a.excludes(format!("groups that do not serve: all {all} do"));
    }
}

/// Disks that are slow, alone or all.
fn disks(s: &Scene<'_>, a: &mut Answer) {
    let all = writes(s);
    let Some((slowest, osd)) = all.first().copied() else {
        a.excludes("disks: nobody wrote lately");
        return;
    };
    let half = all[all.len() / 2].0;
    let alone = |us: u32| us > half.saturating_mul(TIMES) && us - half > LONGER_US;
    let slow: Vec<(u32, OsdId)> = all.iter().copied().filter(|(us, _)| alone(*us)).collect();
    if !slow.is_empty() {
        let names: Vec<OsdId> = slow.iter().map(|(_, osd)| *osd).collect();
        a.say(format!("Writes that {} takes part in are slow, because its disk is.", s.osds(&names)));
        for (us, osd) in slow.iter().take(SHOWN) {
            let told = s.state.osd_metadata.get(osd).and_then(|told| told.get("devices")).map_or("", String::as_str);
            let disk = if told.is_empty() { String::new() } else { format!(", disk {told}") };
            let text = format!(
                "a durable write takes {} at {}{disk}; half of all OSDs need at most {}",
                millis(*us),
                s.osd(*osd),
                millis(half)
            );
            a.because(text, "ceph osd perf");
            // Was it always so?
            if let Some((mean, _, known)) = s.duties.history.writes_of(*osd).filter(|(.., known)| *known >= HISTORY_SECS) {
                let text =
                    format!("in the last {} a durable write took {} at osd.{osd} as a mean", span(known), millis(mean as u32));
                a.because(text, format!("nacre explain osd {osd}"));
            }
        }
        a.helps("look at what the kernel says of the disk, and replace it if it fails", "dmesg");
        a.helps("let others have its data meanwhile", format!("ceph osd out {osd}"));
    } else if half > ALL_SLOW_US {
        a.say(format!("All disks are slow: half of the OSDs need {} or more for a durable write.", millis(half)));
        a.because(format!("the slowest is {} with {}", s.osd(osd), millis(slowest)), "ceph osd perf");
        a.helps("give journals a disk that writes faster: --disk PATH,journal=PATH", "");
    } else {
        a.excludes(format!("one slow disk: a durable write takes {} at the slowest, {}", millis(slowest), s.osd(osd)));
    }
}
