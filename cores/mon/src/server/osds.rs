//! The lives of OSDs: they boot, report, stop, vanish.

use super::sessions::{Outgoing, Side};
use super::{Monitor, failures};
use maps::{Incremental, flags, state as bits};
use messages::internal::{OsdBoot, OsdDown, OsdReport};
use messages::mon::log_level;
use monstate::context::version_line;
use monstate::effective;
use monstate::osds::{MAX_OSDS, held, mark_down, node_flags};
use monstate::state::{Change, State};
use node::{Level, Now, Outputs};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityType, Fsid, Levels, OsdId, SessionId};

/// Time within which who was heard, on a session that is still open, may run beside another process of the same number. A
/// host that lost its power leaves such a session, too, so this is worth a line and nothing more.
const TWIN: Duration = Duration::from_secs(3);

impl Monitor {
    /// Returns true if this session may speak for that OSD.
    pub(super) fn is_osd(&self, session: SessionId, osd: OsdId) -> bool {
        let speaks = |s: &super::sessions::Session| {
            s.peer.name.kind == EntityType::Osd && s.peer.name.id == osd.to_string() && s.rights.may_be_an_osd()
        };
        self.sessions.0.get(&(Side::Mon, session)).is_some_and(speaks)
    }

    /// An OSD is up and says who it is.
    pub(super) fn osd_boot(&mut self, now: Now, session: SessionId, boot: OsdBoot, out: &mut Outputs) {
        let osd = boot.osd;
        let state = self.newest().clone();
        let may = self.check_boot(&state, session, &boot).and_then(|()| self.check_address(now, &state, &boot));
        if let Err(why) = may {
            let text = format!("osd.{osd} may not boot: {why}");
            if self.is_osd(session, osd) {
                let before = self.leader.soft.refused.insert(osd, (why, now.mono));
                if before.is_none_or(|(before, _)| !text.ends_with(&before)) {
                    self.line(now, log_level::ERROR, text.clone());
                }
            }
            return out.log(Level::Error, "mon", text);
        }
        if let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) {
            entry.osd = Some(osd);
        }
        self.take_up_level(now, &state, &boot, out);
        let state = self.newest().clone();
        let map = &state.osdmap;
        let same = map.is_up(osd) && map.osd_addr(osd) == Some(&boot.addrs);
        let soft = self.leader.soft.osds.entry(osd).or_default();
        let lives =
            soft.closed_at.is_none() && now.mono.since(soft.last_seen) < TWIN && soft.session.is_some_and(|s| s != session);
        soft.session = Some(session);
        soft.last_seen = now.mono;
        soft.closed_at = None;
        soft.down_since = None;
        if !same && map.is_up(osd) && lives {
            let (new, old) = (&boot.addrs, map.osd_addr(osd).map_or(String::new(), ToString::to_string));
            let text = format!("osd.{osd} boots at {new} while the one at {old} is heard: do two processes run with one number?");
            self.line(now, log_level::WARN, text);
        }
        self.leader.soft.refused.remove(&osd);
        self.leader.soft.booted.insert(osd, boot.addrs.clone());
        if self.env.cephx() {
            let keys = self.service_keys().encode();
            self.tell(Side::Mon, session, keys);
            self.tell_osd_revoked(&self.replica.applied.clone(), session);
        }
        if same {
            // A session that broke and came back: it only needs the maps that it missed.
            return self.send_maps(session, u64::from(boot.newest_map) + 1);
        }
        if let Some(why) = boot_forbidden(&state, &boot) {
            self.send_maps(session, u64::from(boot.newest_map) + 1);
            return out.log(Level::Warn, "mon", format!("osd.{osd} stays down: {why}"));
        }
        let mut inc = self.next_inc(&state, now);
        if map.is_up(osd) {
            // Another instance than the map knows: its predecessor must be seen to go down first.
            mark_down(map, &mut inc, osd, now);
        }
        self.clear_address(now, &state, &boot, &mut inc);
        if !inc.new_state.is_empty() {
            self.propose(now, Vec::new(), Some(inc), Vec::new(), out);
        }
        self.mark_up(now, session, &boot, out);
    }

    fn check_boot(&self, state: &State, session: SessionId, boot: &OsdBoot) -> Result<(), String> {
        if boot.fsid != state.fsid {
            return Err(format!("it belongs to cluster {}, this is {}", boot.fsid, state.fsid));
        }
        if !self.is_osd(session, boot.osd) {
            return Err("its session has another name, or not the rights of an OSD".into());
        }
        if !(0..MAX_OSDS).contains(&boot.osd) {
            return Err(format!("numbers of OSDs are below {MAX_OSDS}"));
        }
        if boot.addrs.msgr2().is_none_or(|a| a.addr.is_none()) {
            return Err("it names no address".into());
        }
        if !boot.cluster_addrs.0.is_empty() && boot.cluster_addrs.msgr2().is_none_or(|a| a.addr.is_none()) {
            return Err("it names no address for other OSDs, and says that it has one".into());
        }
        let map = &state.osdmap;
        let known = if map.exists(boot.osd) { map.osd_uuid.get(boot.osd as usize).copied() } else { None };
        if known.is_some() && map.state(boot.osd) & bits::DESTROYED != 0 {
            return Err("it was destroyed: its data counts no more. 'nacre disk replace' puts a new disk under its number".into());
        }
        if let Some(known) = known.filter(|k| *k != Fsid::default() && k.0 != boot.uuid) {
            return Err(format!("another store ({known}) has this number"));
        }
        let reached = Levels::reached(boot.metadata.get(Levels::REACHED));
        let own = self.env.config.levels;
        if reached > own.newest {
            return Err(format!(
                "it ran at level {reached}, and the monitor's program runs levels {own}: install a newer one there first"
            ));
        }
        Levels::told(boot.metadata.get(Levels::KEY)).refusal(map.level.max(reached)).map_or(Ok(()), Err)
    }

    /// An OSD knows a higher level than the map has: the monitors were made anew of a state from before its raise. What
    /// the OSD wrote since may be of that level, so it holds at once.
    fn take_up_level(&mut self, now: Now, state: &State, boot: &OsdBoot, out: &mut Outputs) {
        let level = Levels::reached(boot.metadata.get(Levels::REACHED));
        if level <= state.osdmap.level {
            return;
        }
        let mut inc = self.next_inc(state, now);
        inc.new_level = Some(level);
        let text = format!(
            "osd.{} ran at level {level}, the monitors' state is of before: {}",
            boot.osd,
            moncommands::level_raised(level)
        );
        self.line(now, log_level::WARN, text);
        self.propose(now, Vec::new(), Some(inc), Vec::new(), out);
    }

    fn next_inc(&self, state: &State, now: Now) -> Incremental {
        Incremental::new(state.osdmap.epoch + 1, state.fsid, now.wall)
    }

    fn mark_up(&mut self, now: Now, session: SessionId, boot: &OsdBoot, out: &mut Outputs) {
        let osd = boot.osd;
        self.leader.failures.begin_life(now.mono, osd);
        let state = self.newest().clone();
        let map = &state.osdmap;
        let mut inc = self.next_inc(&state, now);
        if osd >= map.max_osd {
            inc.new_max_osd = osd + 1;
        }
        let old = map.state(osd);
        let mut flip = old & (bits::DESTROYED | bits::STOP);
        if old & bits::EXISTS == 0 {
            flip |= bits::EXISTS;
        }
        if flip != 0 {
            inc.new_state.insert(osd, flip);
        }
        let before = map.info(osd).copied().unwrap_or_default();
        if boot.newest_map == 0 && before.up_from > before.lost_at {
            // A store without maps is new: whatever was under this number before is gone, and nobody waits for it.
            inc.new_lost.insert(osd, map.epoch);
        } else if old & bits::EXISTS == 0 && before.lost_at > 0 {
            // The number was free, and the map forgets what it knew of it with the step that makes it an OSD again.
            inc.new_lost.insert(osd, before.lost_at);
        }
        inc.new_up_client.insert(osd, boot.addrs.clone());
        let back = if boot.cluster_addrs.0.is_empty() { &boot.addrs } else { &boot.cluster_addrs };
        inc.new_up_cluster.insert(osd, back.clone());
        inc.new_hb_back_up.insert(osd, back.clone());
        inc.new_hb_front_up.insert(osd, boot.addrs.clone());
        let before = map.osd_uuid.get(osd as usize).copied().filter(|_| map.exists(osd)).unwrap_or_default();
        if before != Fsid::default() && before.0 != boot.uuid {
            // Another store under an old number: it remembers nothing of what the old one had.
            inc.new_lost.insert(osd, inc.epoch);
        }
        inc.new_uuid.insert(osd, Fsid(boot.uuid));
        inc.new_last_up_change = now.wall;
        let mut xinfo = map.osd_xinfo.get(osd as usize).copied().unwrap_or_default();
        if let Some(features) = self.sessions.0.get(&(Side::Mon, session)).map(|s| s.peer.features) {
            xinfo.features = features;
        }
        let alive = map.osd_addr(osd) == Some(&boot.addrs);
        failures::note_boot(&state, &self.env, &mut xinfo, alive, now);
        if map.weight(osd) == 0 && comes_in(&state, osd) {
            let weight = if xinfo.old_weight > 0 { xinfo.old_weight } else { crush::ONE };
            inc.new_weight.insert(osd, weight);
            inc.new_last_in_change = now.wall;
            xinfo.old_weight = 0;
        }
        inc.new_xinfo.insert(osd, xinfo);
        // The OSD's own value counts, also at its first boot.
        let host = boot.metadata.get("hostname").cloned().unwrap_or_default();
        if !(alive && stays(&state, boot))
            && effective::is_true(&effective::of_osd(&state, &self.env, osd, &host, "osd_crush_update_on_start"))
            && let Err(why) = place(&state, &mut inc, boot)
        {
            out.log(Level::Warn, "mon", format!("osd.{osd} is not put into the CRUSH map: {why}"));
        }
        self.line(now, log_level::INFO, format!("osd.{osd} {} boot", boot.addrs));
        let mut changes = Vec::new();
        let metadata = with_birth(&state, boot, now);
        if state.osd_metadata.get(&osd) != Some(&metadata) {
            changes.push(Change::OsdMetadata { osd, metadata: Some(metadata) });
        }
        self.propose(now, changes, Some(inc), Vec::<Outgoing>::new(), out);
        // With the maps that lead to the one in which it is up, it need not ask; the newest comes by its subscription.
        self.send_maps(session, u64::from(boot.newest_map) + 1);
        self.follow_hardware(now, out);
    }

    /// Figures, and a sign of life.
    pub(super) fn osd_report(&mut self, now: Now, session: SessionId, mut report: OsdReport) {
        if !self.is_osd(session, report.osd) || !self.replica.applied.osdmap.exists(report.osd) {
            return;
        }
        let osd = report.osd;
        let state = self.replica.applied.clone();
        self.leader.duties.images.report(&state, &std::mem::take(&mut report.images));
        self.leader.soft.report(&state, now, report);
        if super::tick::fullness_changed(&state.osdmap, &self.leader.soft, osd) {
            // Clients write on until they have the map that says so.
            self.tick_soon(now);
        }
        if self.leader.duties.merging.is_due(&state, &self.leader.soft) {
            // Clients of both groups wait.
            self.tick_soon(now);
        }
        if !self.leader.soft.creating.done(&state.osdmap).is_empty() {
            self.tick_soon(now);
        }
        let soft = self.leader.soft.osds.entry(osd).or_default();
        let came_back = soft.session != Some(session);
        soft.session = Some(session);
        soft.closed_at = None;
        if came_back && self.env.cephx() {
            // Its session broke and it need not boot again; keys may have been changed meanwhile.
            let keys = self.service_keys().encode();
            self.tell(Side::Mon, session, keys);
            self.tell_osd_revoked(&self.replica.applied.clone(), session);
        }
        if let Some(entry) = self.sessions.0.get_mut(&(Side::Mon, session)) {
            entry.osd = Some(osd);
        }
    }

    /// An OSD stops cleanly.
    pub(super) fn osd_down(&mut self, now: Now, session: SessionId, down: OsdDown, out: &mut Outputs) {
        let state = self.newest().clone();
        if !self.is_osd(session, down.osd) || !state.osdmap.is_up(down.osd) {
            return;
        }
        let mut inc = self.next_inc(&state, now);
        mark_down(&state.osdmap, &mut inc, down.osd, now);
        let epoch = inc.epoch;
        inc.new_xinfo.entry(down.osd).or_default().dead_epoch = epoch;
        let info = state.osdmap.info(down.osd).copied().unwrap_or_default();
        inc.new_last_clean_interval.insert(down.osd, (info.up_from, state.osdmap.epoch));
        self.line(now, log_level::INFO, format!("osd.{} marked itself down and dead", down.osd));
        self.propose(now, Vec::new(), Some(inc), Vec::new(), out);
    }
}

/// Returns why an OSD must stay down.
fn boot_forbidden(state: &State, boot: &OsdBoot) -> Option<&'static str> {
    let (map, osd) = (&state.osdmap, boot.osd);
    if map.has_flag(flags::NOUP) {
        Some("the noup flag is set")
    } else if map.state(osd) & bits::NOUP != 0 || node_flags(state, osd) & bits::NOUP != 0 {
        Some("its noup flag is set")
    } else if map.state(osd) & bits::STOP != 0 && map.osd_addr(osd) == Some(&boot.addrs) {
        Some("it was stopped on request; a restart of its process, or 'osd rm-noup', lets it come back")
    } else {
        None
    }
}

/// Returns true if an OSD that boots while it is out comes in.
fn comes_in(state: &State, osd: OsdId) -> bool {
    let has = state.osdmap.state(osd);
    let fresh = has & bits::EXISTS == 0 || has & (bits::AUTOOUT | bits::NEW) != 0;
    fresh && !held(state, osd, flags::NOIN, bits::NOIN)
}

/// Returns what an OSD tells of itself, and when it was here first and by which program, as far as that is known: it
/// is noted at its first boot and stays as long as the OSD does.
fn with_birth(state: &State, boot: &OsdBoot, now: Now) -> BTreeMap<String, String> {
    let mut metadata = boot.metadata.clone();
    let known = state.osd_metadata.get(&boot.osd);
    let first = [("created_at", now.wall.iso()), ("ceph_version_when_created", version_line(&boot.metadata))];
    for (key, value) in first {
        let value = known.map_or(Some(value), |known| known.get(key).cloned());
        metadata.extend(value.map(|value| (key.to_owned(), value)));
    }
    metadata
}

/// Returns true if an OSD that has not been started anew, but was down for the map, has its place: then it stays,
/// although somebody moved it elsewhere.
fn stays(state: &State, boot: &OsdBoot) -> bool {
    let known = state.osd_metadata.get(&boot.osd).and_then(|metadata| metadata.get("hostname"));
    known == boot.metadata.get("hostname") && !state.osdmap.crush.parents(boot.osd).is_empty()
}

/// Puts an OSD below its host, with the weight of its size, if it is not there yet; gives it a class. A host that has
/// no bucket gets one where the OSD says that it is (`crush_location`). One that exists stays where it is.
fn place(state: &State, inc: &mut Incremental, boot: &OsdBoot) -> Result<(), crush::Error> {
    let host = boot.metadata.get("hostname").map_or("localhost", String::as_str);
    let class = boot.metadata.get("default_device_class").map_or("ssd", String::as_str);
    let mut map = (*state.osdmap.crush).clone();
    // One TiB weighs 1; whatever is smaller than a millionth of that would weigh nothing and get nothing.
    let weight = ((boot.total_bytes as f64 / (1u64 << 40) as f64 * f64::from(crush::ONE)) as u32).max(1);
    let mut place = crush::Location::of_host(boot.metadata.get("crush_location").map_or("root=default", String::as_str))?;
    place.0.insert("host".into(), host.into());
    let mut changed = map.create_or_move_item(boot.osd, weight, &format!("osd.{}", boot.osd), &place)?;
    if map.class_of(boot.osd).is_none() {
        map.set_device_class(boot.osd, class)?;
        changed = true;
    }
    if changed {
        inc.crush = denc::Encode::to_bytes(&map);
    }
    Ok(())
}
