//! What is known of one OSD, and why it is down.

use super::{Answer, SHOWN, Scene, counted, percent};
use crate::crashes;
use grammar::units::{bytes, span};
use types::OsdId;

pub(super) fn answer(s: &Scene<'_>, osd: OsdId) -> Answer {
    let mut a = Answer::default();
    let map = &s.state.osdmap;
    let (up, inside) = (map.is_up(osd), map.is_in(osd));
    let name = s.osd(osd);
    let refused = s.soft.refused.get(&osd);
    match (s.down_for(osd), inside) {
        (None, true) => a.say(format!("{name} is up and in.")),
        (None, false) => a.say(format!("{name} is up and gets no data, because it is out.")),
        (Some(since), true) => a.say(format!("{name} {since}; its data waits for it.")),
        (Some(since), false) => a.say(format!("{name} {since} and is out: others have its data, or get it.")),
    }
    if let Some((why, _)) = refused {
        a.say(format!("It tries to start and is refused: {why}"));
    }
    let line = format!("osd.{osd} ");
    let word =
        |text: &str| text.starts_with(&line) || text.contains(&format!(" {line}")) || text.contains(&format!("osd.{osd}:"));
    let log = s.state.log.iter().rev().filter(|e| e.channel == "cluster" && word(&format!("{} ", e.message)));
    for entry in log.take(SHOWN / 2) {
        let at = entry.stamp.iso();
        a.because(format!("{}: {}", at.get(..19).unwrap_or(&at), entry.message), "ceph log last 100");
    }
    let crash = crashes::all(s.state).into_iter().rfind(|report| report.text("entity_name") == format!("osd.{osd}"));
    if let Some(crash) = &crash {
        a.because(format!("it died at {}", crash.text("timestamp")), format!("ceph crash info {}", crash.id()));
    }
    for (code, check) in &s.checks {
        for detail in check.detail.iter().filter(|text| word(&format!("{text} "))).take(2) {
            a.because(format!("{code}: {detail}"), "ceph health detail");
        }
    }
    let told = s.state.osd_metadata.get(&osd);
    let of = |key: &str| told.and_then(|told| told.get(key)).map_or("", String::as_str);
    let disk = [of("devices"), of("device_ids")].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    if !disk.is_empty() {
        a.because(format!("its disk is {disk}"), format!("ceph osd metadata {osd}"));
    }
    let space = s.soft.space(osd);
    if let Some(full) = s.fullness(osd) {
        a.because(format!("it is {} full of {}", percent(full), bytes(space.total)), "ceph osd df");
    }
    let groups = s.soft.pgs_per_osd(s.state).get(&osd).copied().unwrap_or(0);
    a.because(format!("it has, or is to have, {}", counted(groups, "group")), format!("ceph pg ls-by-osd {osd}"));
    if let Some(report) = s.soft.osds.get(&osd).and_then(|o| o.report.as_ref()).filter(|_| up) {
        if report.commit_latency_us > 0 {
            a.because(format!("a durable write takes {:.1} ms", f64::from(report.commit_latency_us) / 1000.0), "ceph osd perf");
        }
        if let Some((mean, most, known)) = s.duties.history.writes_of(osd) {
            let text = format!(
                "in the last {} it took {:.1} ms as a mean, {:.1} ms in the worst five minutes",
                span(known),
                mean / 1e3,
                most / 1e3
            );
            a.because(text, "nacre top --once osds");
        }
        if report.slow_ops > 0 {
            let text = format!(
                "{} wait, the oldest for {}",
                counted(u64::from(report.slow_ops), "operation"),
                span(u64::from(report.slow_oldest))
            );
            a.because(text, format!("ceph tell osd.{osd} dump_blocked_ops"));
        }
    }
    if !up {
        let host = of("hostname");
        let whose = if host.is_empty() { "its host".to_owned() } else { format!("host {host}") };
        a.helps(format!("is {whose} up, and does the process run? Its log has its last words"), "journalctl -u nacre");
        a.helps(
            "start it; if its disk is lost, put a new one under its number",
            format!("nacre disk replace --dir DIR {osd} PATH"),
        );
        a.unknown("the host itself: memory, kernel, disk", "dmesg");
    } else if !inside {
        a.helps("let it have data again", format!("ceph osd in {osd}"));
    }
    a
}
