//! What space there is, for whom, and what takes it.

use super::{Answer, SHOWN, Scene, counted, percent};
use crate::history::forecast::Forecast;
use crate::room::room;
use grammar::units::{bytes, span};
use maps::{Pool, pool_flags};
use types::{OsdId, PoolId};

pub(super) fn of_pool(s: &Scene<'_>, id: PoolId) -> Answer {
    let mut a = Answer::default();
    let Some(pool) = s.state.osdmap.pool(id) else { return a };
    let name = s.state.pool_name(id);
    let sum = s.soft.pool_sum(id);
    match room(s.state, s.soft, id, pool) {
        None => a.say(format!("No OSD of pool {name} has told how much room it has.")),
        Some(room) => {
            let full = percent(f64::from(s.state.osdmap.full_ratio));
            a.say(format!("Clients can write {} more to pool {name}.", bytes(room.bytes)));
            let times = grammar::units::number(s.state.osdmap.raw_rate(id));
            a.because(format!("each byte is stored {times} times"), format!("ceph osd pool get {name} size"));
            let used = s.fullness(room.first).map_or(String::new(), |used| format!(", is {} full", percent(used)));
            let text = format!(
                "the OSD of its rule that is full first counts: {}{used}, gets {} of what is written, and takes no writes from {full} on",
                s.osd(room.first),
                percent(room.share),
            );
            a.because(text, "ceph osd df");
            let text =
                format!("if all {} were full at the same moment, it would be {}", counted(room.osds, "OSD"), bytes(room.even));
            a.because(text, "ceph balancer status");
            if room.even > room.bytes.saturating_mul(5) / 4 {
                a.helps(
                    "let groups be spread more evenly: by the balancer, or by more groups",
                    format!("ceph osd pool get {name} pg_num"),
                );
            }
            let of_all = s.soft.total_space(s.state).available;
            a.because(format!("{} are free in the whole cluster, all copies counted", bytes(of_all)), "ceph df");
        }
    }
    if let Some(told) = s.duties.history.forecast(id) {
        a.because(
            format!("it will be full {}, at the pace of the last {}", within(&told), span(told.seen as u64)),
            format!("nacre explain full {name}"),
        );
    }
    quota(s, pool, name, &mut a);
    held(s, Some(id), &mut a);
    let text = format!("it has {} of data in {} objects", bytes(sum.num_bytes.max(0).cast_unsigned()), sum.num_objects);
    a.because(text, "ceph df detail");
    a.unknown("images in the trash, and blocks that guests deleted but did not discard", format!("rbd trash ls {name}"));
    a
}

/// A span of time in which something is gone, as people say it: `in 12 to 19 days`.
fn within(told: &Forecast) -> String {
    let (unit, word) = match told.soonest {
        secs if secs < 7200.0 => (60.0, "minutes"),
        secs if secs < 172_800.0 => (3600.0, "hours"),
        _ => (86_400.0, "days"),
    };
    let (soonest, latest) = ((told.soonest / unit).floor(), (told.latest / unit).ceil());
    if latest - soonest <= 1.0 { format!("in about {latest} {word}") } else { format!("in {soonest} to {latest} {word}") }
}

/// Tells when a pool, or any, will be full at the pace of the last day.
pub(super) fn when_full(s: &Scene<'_>, only: Option<PoolId>) -> Answer {
    let mut a = Answer::default();
    let history = &s.duties.history;
    let (map, known) = (&s.state.osdmap, history.known());
    let mut told: Vec<(PoolId, Forecast)> = map
        .pools
        .keys()
        .filter(|id| only.is_none_or(|only| only == **id))
        .filter_map(|id| Some((*id, history.forecast(*id)?)))
        .collect();
    told.sort_by(|x, y| x.1.soonest.total_cmp(&y.1.soonest));
    for (id, forecast) in told.iter().take(SHOWN) {
        let name = s.state.pool_name(*id);
        a.say(format!("Pool {name} will be full {}, at the pace of the last {}.", within(forecast), span(forecast.seen as u64)));
        if let Some(room) = map.pool(*id).and_then(|pool| room(s.state, s.soft, *id, pool)) {
            let text = format!("clients can write {} more to it until {} is full", bytes(room.bytes), s.osd(room.first));
            a.because(text, format!("nacre explain space {name}"));
        }
        a.helps("add disks or hosts, or remove what nobody needs", format!("rbd du -p {name}"));
    }
    if told.len() > SHOWN {
        a.say(format!("{} other pools fill, too.", told.len() - SHOWN));
    }
    let what = only.map_or_else(|| "No pool".to_owned(), |id| format!("Pool {}", s.state.pool_name(id)));
    if told.is_empty() {
        let six = 6 * 3600;
        a.say(if known < six {
            format!("That is not known yet: it follows from six hours of history, and there are {}.", span(known))
        } else if only.is_some() {
            format!("{what} does not fill at the pace of the last {}.", span(known))
        } else {
            format!("{what} fills at the pace of the last {}.", span(known))
        });
    }
    a.because(format!("of the last day, {} are known", span(known)), "");
    a.unknown(
        "what will be written otherwise than in the last day, and what quotas refuse before",
        "ceph osd pool get-quota POOL",
    );
    a
}

fn quota(s: &Scene<'_>, pool: &Pool, name: &str, a: &mut Answer) {
    if pool.quota_max_bytes == 0 && pool.quota_max_objects == 0 {
        return;
    }
    let mut limits = Vec::new();
    if pool.quota_max_bytes > 0 {
        limits.push(bytes(pool.quota_max_bytes));
    }
    if pool.quota_max_objects > 0 {
        limits.push(counted(pool.quota_max_objects, "object"));
    }
    let command = format!("ceph osd pool get-quota {name}");
    if pool.has_flag(pool_flags::FULL_QUOTA) {
        a.say(format!("Writes to pool {name} are refused, because its quota was reached."));
        a.helps("raise the quota; 0 is none", format!("ceph osd pool set-quota {name} max_bytes N"));
    }
    let _ = s;
    a.because(format!("it has a quota of {}", limits.join(" and ")), command);
}

/// Tells what takes space that nobody wrote last: clones, and snapshots that are not removed yet.
fn held(s: &Scene<'_>, pool: Option<PoolId>, a: &mut Answer) {
    let sum = pool.map_or_else(|| s.soft.total(), |id| s.soft.pool_sum(id));
    if sum.num_object_clones > 0 {
        let text = format!("{} keep what snapshots hold", counted(sum.num_object_clones.cast_unsigned(), "object clone"));
        a.because(text, "rbd du");
    }
    let groups = s.soft.pgs.iter().filter(|(pg, _)| pool.is_none_or(|id| pg.pool == id));
    let queue: u64 = groups.map(|(_, soft)| u64::from(soft.report.snap_trimq_len)).sum();
    if queue > 0 {
        let text = format!(
            "what {} held is being removed, group by group; its space comes back then",
            counted(queue, "removed snapshot")
        );
        a.because(text, "ceph pg dump pgs");
    }
}

pub(super) fn answer(s: &Scene<'_>) -> Answer {
    let mut a = Answer::default();
    let all = s.soft.total_space(s.state);
    if all.total == 0 {
        a.say("No OSD has told how much room it has.");
        return a;
    }
    let used = 1.0 - all.available as f64 / all.total as f64;
    a.say(format!("{} of {} are in use, all copies counted.", percent(used), bytes(all.total)));
    let map = &s.state.osdmap;
    let inside = map.osds().filter(|osd| map.is_in(*osd));
    let mut full: Vec<(f64, OsdId)> = inside.filter_map(|osd| Some((s.fullness(osd)?, osd))).collect();
    full.sort_by(|x, y| y.0.total_cmp(&x.0));
    if let (Some((most, first)), Some((least, last))) = (full.first(), full.last()) {
        let text = format!(
            "the fullest is {} with {}, the emptiest {} with {}",
            s.osd(*first),
            percent(*most),
            s.osd(*last),
            percent(*least)
        );
        a.because(text, "ceph osd df");
        if *most >= f64::from(map.full_ratio) {
            a.say(format!("Writes wait, because {} is full.", s.osd(*first)));
            a.helps("remove data; writes go on by themselves", "ceph df detail");
        } else if most - least > 0.2 {
            a.helps("see whether groups are spread unevenly", "ceph balancer status");
        }
    }
    let mut pools: Vec<(i64, PoolId)> = map.pools.keys().map(|id| (s.soft.pool_sum(*id).num_bytes, *id)).collect();
    pools.sort_by_key(|(n, id)| (std::cmp::Reverse(*n), *id));
    for (stored, id) in pools.iter().take(SHOWN) {
        let name = s.state.pool_name(*id);
        let room = map.pool(*id).and_then(|pool| room(s.state, s.soft, *id, pool)).map_or(0, |room| room.bytes);
        let stored = bytes((*stored).max(0).cast_unsigned());
        a.because(
            format!("pool {name} has {stored} of data, copies counted once, and can take {}", bytes(room)),
            format!("nacre explain space {name}"),
        );
    }
    if pools.len() > SHOWN {
        a.because(format!("{} other pools have less", pools.len() - SHOWN), "ceph df");
    }
    held(s, None, &mut a);
    a.unknown("images in the trash, and blocks that guests deleted but did not discard", "rbd trash ls POOL");
    a
}
