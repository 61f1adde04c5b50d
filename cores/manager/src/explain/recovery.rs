//! How far recovery is, and what holds it.

use super::{Answer, Scene, counted, percent};
use crate::recovery::parts;
use crate::soft::all_pgs;
use grammar::units::span;
use maps::flags;
use types::PgState;

pub(super) fn answer(s: &Scene<'_>) -> Answer {
    let mut a = Answer::default();
    let sum = s.soft.total();
    let left = sum.num_objects_degraded.max(0) + sum.num_objects_misplaced.max(0);
    if left == 0 && sum.num_objects_unfound <= 0 {
        a.say("Nothing is to be recovered: all copies are there, and where they belong.");
        return a;
    }
    let pace = s.soft.pace(None);
    let per_second = if pace.secs > 0.0 { pace.objects as f64 / pace.secs } else { 0.0 };
    if per_second > 0.0 {
        let time = span((left as f64 / per_second) as u64);
        a.say(format!(
            "{} are to be made or moved; at the pace of the last seconds that takes {time}.",
            counted(left.cast_unsigned(), "copy").replace("copys", "copies")
        ));
        a.because(format!("recovery copies {}", pace.text()), "ceph osd pool stats");
    } else {
        a.say(format!("{left} copies are missing or elsewhere, and nothing was copied in the last seconds."));
    }
    for part in parts(&sum) {
        a.because(part.text(), "ceph pg stat");
    }
    let count = |bit| all_pgs(s.state).filter(|pg| s.soft.pg_state(s.state, *pg).has(bit)).count() as u64;
    let running = count(PgState::RECOVERING) + count(PgState::BACKFILLING);
    let waiting = count(PgState::RECOVERY_WAIT) + count(PgState::BACKFILL_WAIT);
    a.because(format!("{} get copies now, {waiting} wait for their turn", counted(running, "group")), "ceph pg ls recovering");
    let map = &s.state.osdmap;
    let held = [
        (flags::NORECOVER, "norecover"),
        (flags::NOBACKFILL, "nobackfill"),
        (flags::NOREBALANCE, "norebalance"),
        (flags::NOOUT, "noout"),
        (flags::NOIN, "noin"),
    ];
    for (_, name) in held.iter().filter(|(bit, _)| map.has_flag(*bit)) {
        a.say(format!("Somebody set the flag {name}."));
        a.helps("take it back", format!("ceph osd unset {name}"));
    }
    let full = count(PgState::BACKFILL_TOOFULL) + count(PgState::RECOVERY_TOOFULL);
    if full > 0 {
        a.say(format!("{} get no copies for want of room.", counted(full, "group")));
        a.helps("add disks, or remove data", "nacre explain space");
    }
    let down: Vec<_> = map.osds().filter(|osd| !map.is_up(*osd) && map.is_in(*osd)).collect();
    if !down.is_empty() {
        a.because(format!("{} cannot be reached and may come back", s.osds(&down)), "nacre explain groups");
    }
    if sum.num_objects_unfound > 0 {
        a.say(format!(
            "The newest versions of {} are on no OSD that runs.",
            counted(sum.num_objects_unfound.cast_unsigned(), "object")
        ));
        a.helps("start OSDs that had them", "nacre explain groups");
    }
    let rates = s.soft.rates(None);
    if !rates.is_zero() {
        let text =
            format!("clients do {} writes and {} reads a second, to which recovery yields", rates.write_ops, rates.read_ops);
        a.because(text, "ceph tell osd.N perf dump");
    }
    if let Some(share) = far(s) {
        a.because(format!("{} is done", percent(share)), "ceph progress");
    }
    a
}

/// The share of all that was to be recovered that is done, if that is followed.
fn far(s: &Scene<'_>) -> Option<f64> {
    let events = s.duties.progress.to_json(s.now.wall);
    let event = events["events"].as_array()?.iter().find(|event| event["id"] == "global-recovery")?;
    event["progress"].as_f64()
}
