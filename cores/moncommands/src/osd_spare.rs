//! Commands on OSDs that shall go: whether they can be spared for a time or for good, and their end.
//!
//! *For a time*: would each group still serve? *For good*: is each object complete elsewhere? Answers err on the safe
//! side: what was not reported by who leads a group now is not known. Words and results are Ceph's.

use super::osd_admin::erase;
use super::{Cx, Row, row};
use denc::Encode;
use grammar::{Args, Format, Outcome, Refusal, Reply, refuse};
use manager::soft::all_pgs;
use maps::state as bits;
use messages::stats::ObjectStatSum;
use monstate::state::Change;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use types::{EntityName, EntityType, Epoch, Errno, Fsid, OsdId, PgId, PgState};

pub(super) const ROWS: &[Row] = &[
    row(
        "osd ok-to-stop <ids:String n=N> <max:Int req=false>",
        "check whether OSDs can stop without harm to availability",
        "osd",
        "r",
        ok_to_stop,
    ),
    row(
        "osd safe-to-destroy <ids:String n=N>",
        "check whether OSDs can be destroyed without harm to data",
        "osd",
        "r",
        safe_to_destroy,
    ),
    row(
        "osd destroy <id:OsdName> <force:Bool req=false> <yes_i_really_mean_it:Bool req=false>",
        "give an OSD's data up, keep its number",
        "osd",
        "rw",
        |cx, a| when_safe(cx, a, destroy),
    ),
    row(
        "osd destroy-actual <id:OsdName> <yes_i_really_mean_it:Bool req=false>",
        "'osd destroy' without its checks",
        "osd",
        "rw",
        |cx, a| when_sure(cx, a, destroy),
    ),
    row(
        "osd purge <id:OsdName> <force:Bool req=false> <yes_i_really_mean_it:Bool req=false>",
        "remove an OSD with all that belongs to it",
        "osd",
        "rw",
        |cx, a| when_safe(cx, a, purge),
    ),
    row(
        "osd purge-actual <id:OsdName> <yes_i_really_mean_it:Bool req=false>",
        "'osd purge' without its checks",
        "osd",
        "rw",
        |cx, a| when_sure(cx, a, purge),
    ),
    row(
        "osd purge-new <id:OsdName> <yes_i_really_mean_it:Bool req=false>",
        "remove an OSD that never booted",
        "osd",
        "rw",
        |cx, a| when_sure(cx, a, purge_new),
    ),
    row(
        "osd lost <id:OsdName> <yes_i_really_mean_it:Bool req=false>",
        "declare that an OSD's data will not come back",
        "osd",
        "rw",
        lost,
    ),
];

/// Fate of the groups of OSDs that stop.
#[derive(Default)]
struct Offline {
    unknown: Vec<PgId>,
    already_inactive: Vec<PgId>,
    become_inactive: Vec<PgId>,
    become_degraded: Vec<PgId>,
    become_more_degraded: Vec<PgId>,
}

impl Offline {
    fn of(cx: &Cx<'_>, osds: &BTreeSet<OsdId>) -> Self {
        let mut offline = Self::default();
        for pg in all_pgs(cx.state) {
            let placed = cx.state.osdmap.placed(pg);
            let state = cx.soft.pg_state(cx.state, pg);
            if state.is_unknown() {
                offline.unknown.push(pg);
            } else if placed.acting.iter().any(|osd| osds.contains(osd)) {
                offline.sort_in(cx, osds, pg, state);
            }
        }
        offline
    }

    fn sort_in(&mut self, cx: &Cx<'_>, osds: &BTreeSet<OsdId>, pg: PgId, state: PgState) {
        let placed = cx.state.osdmap.placed(pg);
        let (size, least) = cx.state.osdmap.pool(pg.pool).map_or((1, 1), |p| (usize::from(p.size), usize::from(p.min_size)));
        let known = cx.soft.pgs.get(&pg).filter(|p| p.osd == placed.acting_primary);
        let left = placed.acting.iter().filter(|o| !osds.contains(o) && **o != crush::NONE).count();
        let list = match known {
            Some(_) if !state.has(PgState::ACTIVE) => &mut self.already_inactive,
            None => &mut self.already_inactive,
            Some(p) if left < least || members_lack_objects(&p.report.stats, size, placed.acting.len()) => {
                &mut self.become_inactive
            }
            Some(_) if state.has(PgState::DEGRADED) => &mut self.become_more_degraded,
            Some(_) => &mut self.become_degraded,
        };
        list.push(pg);
    }

    /// Returns why the OSDs may not stop, as Ceph says it; none if all groups would go on.
    fn refusal(&self) -> Option<(Errno, String)> {
        match (self.unknown.len(), self.bad()) {
            (0, 0) => None,
            (0, bad) => {
                Some((Errno::EBUSY, format!("unsafe to stop osd(s) at this time ({bad} PGs are or would become offline)")))
            }
            (unknown, _) => Some((Errno::EAGAIN, format!("{unknown} pgs have unknown state; cannot draw any conclusions"))),
        }
    }

    fn bad(&self) -> usize {
        self.already_inactive.len() + self.become_inactive.len()
    }

    fn dump(&self, osds: &BTreeSet<OsdId>) -> Value {
        let mut map = Map::new();
        map.insert("ok_to_stop".into(), json!(self.bad() == 0 && self.unknown.is_empty()));
        map.insert("osds".into(), json!(osds));
        map.insert("num_ok_pgs".into(), json!(self.become_degraded.len() + self.become_more_degraded.len()));
        map.insert("num_not_ok_pgs".into(), json!(self.bad()));
        for (name, pgs) in [
            ("unknown_pgs", &self.unknown),
            ("bad_already_inactive", &self.already_inactive),
            ("bad_become_inactive", &self.become_inactive),
            ("ok_become_degraded", &self.become_degraded),
            ("ok_become_more_degraded", &self.become_more_degraded),
        ] {
            if !pgs.is_empty() {
                map.insert(name.into(), pgs.iter().map(ToString::to_string).collect());
            }
        }
        Value::Object(map)
    }
}

/// Returns true if more copies are missing than those of members that are not there: then some member lacks objects,
/// and nobody says which one.
fn members_lack_objects(stats: &ObjectStatSum, size: usize, members: usize) -> bool {
    let absent = size.saturating_sub(members) as i64;
    stats.num_objects_degraded > absent.saturating_mul(stats.num_objects)
}

/// Returns why some OSDs may not stop now; none if all groups would go on.
pub(super) fn why_not_stop(cx: &Cx<'_>, osds: &[OsdId]) -> Option<String> {
    Offline::of(cx, &osds.iter().copied().collect()).refusal().map(|(_, text)| text)
}

/// Returns which groups would serve nobody without an OSD, in words; none if all would.
pub(super) fn without(cx: &Cx<'_>, osd: OsdId) -> Option<String> {
    let offline = Offline::of(cx, &BTreeSet::from([osd]));
    let bad = offline.bad() + offline.unknown.len();
    (bad > 0).then(|| format!("{bad} placement groups would serve nobody without osd.{osd}"))
}

fn ok_to_stop(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osds: BTreeSet<OsdId> = super::osd_state::named(&cx.state.osdmap, args.list("ids"))?.into_iter().collect();
    let offline = Offline::of(cx, &osds);
    let format = if cx.format.is_structured() { cx.format } else { Format::Json };
    let data = format.render("ok_to_stop", &offline.dump(&osds)) + "\n";
    match offline.refusal() {
        None => Ok(Reply::data(data)),
        Some((errno, text)) => Err(Refusal { errno, text, data: data.into() }),
    }
}

/// OSDs by what is known about the need for them.
#[derive(Default)]
pub(super) struct Need {
    safe: Vec<OsdId>,
    /// Groups are mapped to them.
    active: Vec<OsdId>,
    /// Number of bytes.
    mapped: u64,
    /// They report nothing.
    silent: Vec<OsdId>,
    /// They hold data that may be nowhere else.
    stored: Vec<OsdId>,
}

/// The newest map by which every group is known to be clean; none if some are not. What was reported of an older map
/// says nothing of an OSD that went out since: who leads a group that just lost a member may not know of it yet, and
/// the map has no entry yet that keeps the member.
fn clean_since(cx: &Cx<'_>) -> Option<Epoch> {
    all_pgs(cx.state).try_fold(Epoch::MAX, |oldest, pg| {
        let reported = cx.soft.pg_state(cx.state, pg);
        let clean = reported.has(PgState::ACTIVE.with(PgState::CLEAN)) && !reported.has(PgState::STALE);
        cx.soft.last_clean(cx.state, pg).filter(|_| clean).map(|at| oldest.min(at))
    })
}

/// Numbers with commas between them.
pub(super) fn list(osds: &[OsdId]) -> String {
    osds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl Need {
    /// Looks at what is known of some OSDs.
    pub(super) fn of(cx: &Cx<'_>, osds: &[OsdId]) -> Result<Self, Refusal> {
        let states = cx.soft.pg_states(cx.state);
        let unknown: u64 = states.iter().filter(|(s, _)| s.is_unknown()).map(|(_, n)| n).sum();
        if unknown > 0 {
            refuse!(EAGAIN, "{unknown} pgs have unknown state; cannot draw any conclusions");
        }
        let clean = clean_since(cx);
        let counts = cx.soft.pgs_per_osd(cx.state);
        let mut need = Self::default();
        for osd in osds.iter().copied() {
            let mapped = counts.get(&osd).copied().unwrap_or(0);
            let report = cx.soft.osds.get(&osd).and_then(|o| o.report.as_ref()).filter(|_| cx.state.osdmap.is_up(osd));
            if !cx.state.osdmap.exists(osd) {
                need.safe.push(osd);
            } else if mapped > 0 {
                need.mapped += mapped;
                need.active.push(osd);
            } else if clean.is_some_and(|at| at >= cx.soft.out_since(osd)) {
                need.safe.push(osd);
            } else {
                match report {
                    None => need.silent.push(osd),
                    Some(report) if report.space.data > 0 => need.stored.push(osd),
                    Some(_) => need.safe.push(osd),
                }
            }
        }
        Ok(need)
    }

    /// Returns why the OSDs are needed, or may be; none if they are not.
    pub(super) fn why(&self) -> Option<(Errno, String)> {
        let mut text = String::new();
        if !self.safe.is_empty() {
            text.push_str(&format!("OSD(s) {} are safe to destroy without reducing data durability. ", list(&self.safe)));
        }
        if !self.active.is_empty() {
            text.push_str(&format!("OSD(s) {} have {} pgs currently mapped to them. ", list(&self.active), self.mapped));
        }
        if !self.silent.is_empty() {
            text.push_str(&format!(
                "OSD(s) {} have no reported stats, and not all PGs are active+clean; we cannot draw any conclusions. ",
                list(&self.silent)
            ));
        }
        if !self.stored.is_empty() {
            text.push_str(&format!(
                "OSD(s) {} last reported they still store some PG data, and not all PGs are active+clean; we cannot be sure they aren't still needed.",
                list(&self.stored)
            ));
        }
        let busy = !self.active.is_empty() || !self.stored.is_empty();
        let errno = if busy { Errno::EBUSY } else { Errno::EAGAIN };
        (busy || !self.silent.is_empty()).then_some((errno, text))
    }

    fn dump(&self) -> Value {
        json!({"safe_to_destroy": self.safe, "active": self.active, "missing_stats": self.silent, "stored_pgs": self.stored})
    }
}

fn safe_to_destroy(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osds = super::osd_state::named(&cx.state.osdmap, args.list("ids"))?;
    let need = Need::of(cx, &osds)?;
    let data = if cx.format.is_structured() { cx.format.render("osd_status", &need.dump()) } else { String::new() };
    match need.why() {
        // Who asks for a structure reads there which OSDs are needed; Rook takes any error for a command that failed.
        Some((errno, text)) => match cx.format.is_structured() {
            true => Ok(Reply::data(data)),
            false => Err(Refusal::new(errno, text)),
        },
        None => {
            let text = format!("OSD(s) {} are safe to destroy without reducing data durability.", list(&osds));
            Ok(if cx.format.is_structured() { Reply::data(data) } else { Reply::status(text) })
        }
    }
}

/// Does what ends an OSD if it is not needed any more, or if the asker wants it all the same.
fn when_safe(cx: &mut Cx<'_>, args: &Args, end: fn(&mut Cx<'_>, OsdId) -> Outcome) -> Outcome {
    let osd = args.osd("id")?;
    let forced = args.flag("force") || args.flag("yes_i_really_mean_it");
    let why = match Need::of(cx, &[osd]) {
        _ if forced => None,
        Ok(need) => need.why(),
        Err(refusal) => Some((refusal.errno, refusal.text)),
    };
    match why {
        Some((errno, text)) => {
            let advice =
                "You can proceed by passing --force, but be warned that this will likely mean real, permanent data loss.";
            Err(Refusal::new(errno, format!("{text}\n{advice}")))
        }
        None => end(cx, osd),
    }
}

/// Does what ends an OSD if the asker knows what that means.
fn when_sure(cx: &mut Cx<'_>, args: &Args, end: fn(&mut Cx<'_>, OsdId) -> Outcome) -> Outcome {
    if !args.flag("yes_i_really_mean_it") {
        refuse!(
            EPERM,
            "Are you SURE? This will mean real, permanent data loss, as well as the loss of the OSD's key. Pass --yes-i-really-mean-it if you really do."
        );
    }
    end(cx, args.osd("id")?)
}

/// Refuses an OSD that is up.
fn must_be_down(cx: &Cx<'_>, osd: OsdId) -> Result<(), Refusal> {
    if cx.state.osdmap.is_up(osd) {
        refuse!(EBUSY, "osd.{osd} is not `down`.");
    }
    Ok(())
}

/// Removes the key of an OSD, the secrets of its disk, and that it shall go.
pub(super) fn drop_keys(cx: &mut Cx<'_>, osd: OsdId) {
    let name = EntityName::new(EntityType::Osd, osd.to_string());
    if cx.state.auth.get(&name).is_some() {
        cx.changes.push(Change::Auth { name, entity: None });
    }
    let disk = super::osd_secrets::forget(cx, osd);
    cx.changes.extend(disk);
    super::marks::forget_removal(cx, osd);
}

fn destroy(cx: &mut Cx<'_>, osd: OsdId) -> Outcome {
    if !cx.state.osdmap.exists(osd) {
        refuse!(ENOENT, "osd.{osd} does not exist");
    }
    must_be_down(cx, osd)?;
    if cx.state.osdmap.state(osd) & bits::DESTROYED != 0 {
        return Ok(Reply::status(format!("destroyed osd.{osd}")));
    }
    let inc = cx.inc();
    inc.new_state.insert(osd, bits::DESTROYED);
    inc.new_uuid.insert(osd, Fsid::default());
    drop_keys(cx, osd);
    Ok(Reply::status(format!("destroyed osd.{osd}")))
}

fn purge(cx: &mut Cx<'_>, osd: OsdId) -> Outcome {
    if !cx.state.osdmap.exists(osd) {
        return Ok(Reply::status(format!("osd.{osd} does not exist")));
    }
    must_be_down(cx, osd)?;
    let mut crush = (*cx.state.osdmap.crush).clone();
    if crush.name_of(osd).is_some() || !crush.parents(osd).is_empty() {
        crush.remove_item(osd).map_err(super::shared::refusal)?;
        cx.inc().crush = crush.to_bytes();
    }
    erase(cx, osd);
    drop_keys(cx, osd);
    Ok(Reply::status(format!("purged osd.{osd}")))
}

fn purge_new(cx: &mut Cx<'_>, osd: OsdId) -> Outcome {
    if cx.state.osdmap.exists(osd) && cx.state.osdmap.up_from(osd) > 0 {
        refuse!(EPERM, "osd.{osd} is not new: it has been up");
    }
    purge(cx, osd)
}

/// Nobody waits for the OSD's data any more: groups go on with what others have.
fn lost(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let osd = args.osd("id")?;
    if !args.flag("yes_i_really_mean_it") {
        refuse!(
            EPERM,
            "are you SURE?  this might mean real, permanent data loss.  pass --yes-i-really-mean-it if you really do."
        );
    }
    let map = &cx.state.osdmap;
    if !map.exists(osd) {
        refuse!(ENOENT, "osd.{osd} does not exist");
    }
    if map.is_up(osd) {
        refuse!(EBUSY, "osd.{osd} is not down");
    }
    let epoch = map.info(osd).map_or(0, |i| i.down_at);
    cx.inc().new_lost.insert(osd, epoch);
    Ok(Reply::status(format!("marked osd lost in epoch {epoch}")))
}
