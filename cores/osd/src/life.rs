//! Opening, loading, booting, reporting, stopping.

use crate::groups::{stored, unknown};
use crate::leases::promised;
use crate::maps::{Maps, OSD_SCOPE, Superblock, format, superblock};
use crate::{Osd, Phase, Readiness};
use ::maps::OsdMap;
use messages::internal::{OptionInForce, OsdBoot, OsdDown, OsdReport, Space};
use messages::mon::{LogMsg, OsdMapMsg};
use node::{Level, Mono, Now, Output, Outputs};
use objectstore::{Hold, ObjectStore, Read, Refused, Ticket, Unread};
use std::sync::Arc;
use std::time::Duration;
use types::{Levels, SpgId};

/// A boot that the map does not answer is sent again after this.
const BOOT_AGAIN: Duration = Duration::from_secs(3);
/// Time for which a stopping OSD waits for the monitor to mark it down before it closes its store.
const FAREWELL: Duration = Duration::from_millis(500);
/// Time for which a stopping OSD waits for its store to be closed: on a host that is full that may never be. What was acknowledged is durable
/// without it.
const CLOSING: Duration = Duration::from_secs(10);
/// Interval at which groups that could not be loaded are tried again.
const RELOAD: Duration = Duration::from_secs(30);
/// The one hold under which the OSD loads.
const LOADING: Hold = Hold(0);

/// Findings of loading.
struct Found {
    superblock: Option<Superblock>,
    /// Longest promise of the former life.
    promised: Option<Duration>,
    maps: Maps,
    groups: Vec<SpgId>,
}

fn read_all(store: &dyn ObjectStore) -> Read<Result<Found, String>> {
    let superblock = match superblock(store, LOADING)? {
        Some(Err(e)) => return Ok(Err(e)),
        Some(Ok(superblock)) => Some(superblock),
        None => None,
    };
    let maps = match Maps::load(store, LOADING)? {
        Err(e) => return Ok(Err(e)),
        Ok(maps) => maps,
    };
    Ok(Ok(Found { superblock, promised: promised(store, LOADING)?, maps, groups: stored(store, LOADING)? }))
}

impl Osd {
    /// The steps of a life that time brings.
    pub(crate) fn live(&mut self, now: Now, out: &mut Outputs) {
        match self.phase {
            Phase::Opening => self.opening(now, out),
            Phase::Booting | Phase::Active => {
                if let Readiness::Failed(why) = self.store.readiness() {
                    return self.fail(out, why);
                }
                self.mon.turn(now, &mut self.msgr, out);
                self.seek_contact(now, out);
                self.boot(now, out);
                self.watch_space(now, out);
                self.hold_clients_back();
                self.report(now);
                if self.phase == Phase::Active {
                    self.beat(now, out);
                    self.look_for_scrubs(now);
                }
                self.watch_disk(now, out);
            }
            Phase::Loading | Phase::Stopping { .. } | Phase::Stopped | Phase::Failed => {}
        }
    }

    pub(crate) fn life_deadline(&self) -> Mono {
        match self.phase {
            Phase::Booting | Phase::Active => {
                let boot = match (self.phase == Phase::Booting, self.mon.session(), self.boot_sent) {
                    (true, ..) if self.waits_to_boot() => self.contact.as_ref().map_or(Mono::NEVER, |contact| contact.deadline()),
                    (true, Some(_), Some(sent)) => sent.plus(BOOT_AGAIN),
                    (true, Some(_), None) => Mono(0),
                    _ => Mono::NEVER,
                };
                let (active, heard) = (self.phase == Phase::Active, self.mon.session().is_some());
                let report = if active && heard { self.reporter.deadline() } else { Mono::NEVER };
                let beats = if active { self.beats.deadline(heard).min(self.scrubs.deadline()) } else { Mono::NEVER };
                self.mon
                    .deadline(&self.msgr)
                    .min(boot)
                    .min(report)
                    .min(beats)
                    .min(self.disk_deadline())
                    .min(self.index_deadline())
            }
            Phase::Stopping { since, closing } => since.plus(if closing { CLOSING } else { FAREWELL }),
            _ => Mono::NEVER,
        }
    }

    pub(crate) fn fail(&mut self, out: &mut Outputs, why: String) {
        if self.phase != Phase::Failed {
            self.phase = Phase::Failed;
            out.push(Output::Fatal(why));
        }
    }

    fn opening(&mut self, now: Now, out: &mut Outputs) {
        match self.store.readiness() {
            Readiness::Opening => {}
            Readiness::Failed(why) => self.fail(out, why),
            Readiness::Ready => {
                self.begin_with_memory();
                self.perf = crate::perf::Perf::new(now.mono);
                self.phase = Phase::Loading;
                self.load(now, out);
            }
        }
    }

    /// Reads what the store holds; called again whenever something that was missing is there.
    pub(crate) fn load(&mut self, now: Now, out: &mut Outputs) {
        if self.phase != Phase::Loading {
            return;
        }
        match read_all(&*self.store) {
            Err(Unread::Missing(wish)) => self.store.fetch(LOADING, wish),
            Err(Unread::Damaged(d)) => self.fail(out, format!("the store is damaged at {} offset {}", d.what, d.offset)),
            Ok(Err(why)) => self.fail(out, why),
            Ok(Ok(found)) => {
                self.store.release(LOADING);
                self.loaded(now, found, out);
            }
        }
    }

    fn loaded(&mut self, now: Now, found: Found, out: &mut Outputs) {
        let ours = Superblock { fsid: self.config.fsid, whoami: self.config.whoami, uuid: self.config.uuid };
        match &found.superblock {
            None => {
                let ticket = Ticket(self.next_id());
                if self.store.submit(format(&ours), ticket).is_err() {
                    return self.fail(out, "the new store has no room for its superblock".into());
                }
            }
            Some(theirs) if theirs.fsid != ours.fsid => {
                return self.fail(out, format!("the store belongs to cluster {}, not to {}", theirs.fsid, ours.fsid));
            }
            Some(theirs) if theirs.whoami != ours.whoami => {
                return self.fail(out, format!("the store belongs to osd.{}, not to osd.{}", theirs.whoami, ours.whoami));
            }
            Some(_) => {}
        }
        // A new store has no former life.
        let former = if found.superblock.is_none() { Some(pg::Leases::LEAST) } else { found.promised };
        self.begin_leases(now.mono, former);
        let level = found.maps.current().level;
        if let Some(why) = self.config.levels.refusal(level).filter(|_| found.maps.epoch() > 0) {
            return self.fail(out, why);
        }
        self.maps = found.maps;
        self.saved_epoch = self.maps.epoch();
        if self.saved_epoch > 0 {
            let map = self.maps.current().clone();
            self.is_up = self.is_up_in(&map);
            self.mon.have_map(map.epoch);
            self.copies.objecter.set_map(map);
        }
        for id in &found.groups {
            let (groups, mut world) = self.world(now);
            groups.load(*id, &mut world);
        }
        let text = format!("loaded {} placement groups at map epoch {}", found.groups.len(), self.saved_epoch);
        out.log(Level::Info, "osd", text);
        self.phase = Phase::Booting;
        if self.saved_epoch > 0 {
            let map = self.maps.current().clone();
            self.primary_since.follow(&map, self.config.whoami, 0);
            self.lead_unknown(now, &map, &map);
        }
        self.scale_logs();
        self.store.set_defragment(self.options.defragment);
        self.drop_groups_of_deleted_pools(now);
    }

    /// Returns true if a map has this OSD up where it is, and not where a former life was.
    pub(crate) fn is_up_in(&self, map: &OsdMap) -> bool {
        let me = self.config.whoami;
        map.is_up(me) && map.osd_addr(me).is_some_and(|addrs| addrs.msgr2() == self.config.addrs.msgr2())
    }

    /// Tells the monitor that we are here, until the map says that we are up where we are, and of the level that we know.
    fn boot(&mut self, now: Now, out: &mut Outputs) {
        let me = self.config.whoami;
        if self.is_up {
            if self.phase == Phase::Booting {
                self.phase = Phase::Active;
                self.boot_sent = None;
                self.contact = None;
                self.reporter.restart();
                out.log(Level::Info, "osd", format!("osd.{me} is up at {}", self.config.addrs));
                self.write_again(now);
            }
            if !self.maps.level_is_unknown() {
                return;
            }
        } else if self.phase == Phase::Active {
            self.phase = Phase::Booting;
            self.marked_down(now);
        }
        let Some(session) = self.mon.session().filter(|_| !self.waits_to_boot()) else { return };
        if self.boot_sent.is_some_and(|sent| now.mono < sent.plus(BOOT_AGAIN)) {
            return;
        }
        self.boot_sent = Some(now.mono);
        self.perf.boots += 1;
        let mut metadata = self.config.metadata.clone();
        metadata.insert(Levels::KEY.into(), self.config.levels.to_string());
        metadata.insert(Levels::REACHED.into(), self.maps.current().level.to_string());
        let boot = OsdBoot {
            fsid: self.config.fsid,
            osd: me,
            uuid: self.config.uuid,
            addrs: self.config.addrs.clone(),
            total_bytes: self.store.space().total,
            metadata,
            newest_map: self.maps.epoch(),
            cluster_addrs: self.config.cluster_addrs.clone(),
        };
        self.msgr.send(session, boot.encode());
    }

    /// The monitor's session stands (again).
    pub(crate) fn monitor_opened(&mut self, now: Now, session: types::SessionId) {
        self.mon.opened(now, session, &mut self.msgr);
        self.letters.ask_again();
        self.doubts.ask_again(session, &mut self.msgr);
        self.beats.tell_again();
        self.boot_sent = None;
        self.reporter.restart();
    }

    fn report(&mut self, now: Now) {
        let Some(session) = self.mon.session() else { return };
        let log = self.clog.take();
        if !log.is_empty() {
            self.msgr.send(session, LogMsg { fsid: self.config.fsid, entries: log, ..LogMsg::default() }.encode());
        }
        if self.phase != Phase::Active || !self.reporter.due(now) {
            return;
        }
        if self.reload_at <= now.mono {
            self.reload_at = now.mono.plus(RELOAD);
            let (groups, mut world) = self.world(now);
            groups.reload_failed(&mut world);
        }
        // Those of which it was not known whether they come out of a split.
        let map = self.maps.current().clone();
        self.lead_unknown(now, &map, &map);
        let (map, me) = (self.maps.current(), self.config.whoami);
        let led = self.groups.iter_mut().filter(|pg| map.placed(pg.id().pg).acting_primary == me);
        let mut pgs: Vec<_> = led.map(pg::Pg::stats).collect();
        pgs.sort_unstable_by_key(|p| p.pg);
        let s = self.store.space();
        // What the host's file system cannot give is not there, rather than used.
        let total = s.total.min(s.available + s.data + s.omap + s.meta);
        let space = Space { total, available: s.available, data: s.data, omap: s.omap, meta: s.meta };
        let (slow, oldest) = self.ops.slow(now.mono, self.options.complaint);
        self.reporter.slow_ops(slow);
        let mut notes: Vec<(String, String)> = self.disk_note(now).into_iter().collect();
        let crowd = self.msgr.turned_away(now.mono);
        if let Some((name, count)) = crowd.iter().max_by_key(|(_, count)| *count) {
            let text = format!("turned away {count} connections of {name}: there are too many sessions");
            notes.push(("CLIENTS_TURNED_AWAY".to_owned(), text));
        }
        notes.extend(self.store.impairment().map(|why| ("OSD_INDEX_DAMAGED".to_owned(), why)));
        let images = self.images.due(now.mono);
        if images {
            self.reporter.hurry();
        }
        if let Some(report) = self.reporter.make(now, self.config.whoami, self.maps.epoch(), space, pgs) {
            let latency = std::mem::take(&mut self.perf.recent_writes).mean_us() as u32;
            let report = OsdReport {
                full: self.full.refusing(),
                slow_ops: slow,
                slow_oldest: u32::try_from(oldest.as_secs()).unwrap_or(u32::MAX),
                notes,
                commit_latency_us: latency,
                apply_latency_us: latency,
                images: if images { self.images.take(now.mono) } else { Vec::new() },
                options: self.options_in_force(),
                ..report
            };
            self.msgr.send(session, report.encode());
        }
    }

    /// Returns what the monitors cannot know of this OSD's options.
    fn options_in_force(&self) -> Vec<OptionInForce> {
        let told = self.local_options.keys().filter_map(|name| Some((&**name, self.options.get(name)?.to_owned(), "override")));
        let memory = (crate::memory::TARGET, self.memory.in_force.to_string(), self.memory.source);
        let all = told.filter(|(name, ..)| *name != memory.0).chain([memory.clone()]);
        all.map(|(name, value, source)| OptionInForce { name: name.into(), value, source: source.into() }).collect()
    }

    /// While the store's journal or memory is nearly used up, nothing more is received from clients: their sockets fill, and they wait.
    fn hold_clients_back(&mut self) {
        let congested = self.store.congested();
        self.perf.rounds_held += u64::from(congested);
        self.msgr.hold_clients(congested);
    }

    /// The monitor sent maps.
    pub(crate) fn take_maps(&mut self, now: Now, message: &OsdMapMsg, out: &mut Outputs) {
        if message.fsid != self.config.fsid {
            return out.log(Level::Error, "osd", format!("maps of another cluster ({}) ignored", message.fsid));
        }
        let first = self.maps.epoch();
        loop {
            let old = self.maps.current().clone();
            match self.maps.advance(message) {
                Ok(Some(new)) => {
                    if let Some(why) = self.config.levels.refusal(new.level) {
                        // Nothing of such a map is carried out or remembered.
                        return self.fail(out, why);
                    }
                    self.new_map(now, &old, &new);
                }
                Ok(None) => break,
                Err(why) => {
                    out.log(Level::Error, "osd", format!("a map from the monitor is not usable: {why}"));
                    break;
                }
            }
        }
        if self.maps.epoch() == first {
            return;
        }
        self.save_maps(out);
        self.mon.have_map(self.maps.epoch());
        self.peers_follow(now, out);
        self.choose_partners();
        if message.newest > self.maps.epoch() {
            self.ask_for_maps();
        }
        self.rehouse();
        self.deliver_held(now, out);
        self.early_operations(now, out);
    }

    /// Chooses whom to send heartbeats, by the newest map.
    fn choose_partners(&mut self) {
        let groups: Vec<_> = self.groups.ids().into_iter().map(|id| id.pg).collect();
        self.beats.follow(self.maps.current(), self.config.whoami, &groups, self.options.beat_partners);
    }

    /// One step of the map: groups are born, change, go.
    fn new_map(&mut self, now: Now, old: &Arc<OsdMap>, new: &Arc<OsdMap>) {
        self.is_up = self.is_up_in(new);
        self.copies.objecter.set_map(new.clone());
        self.full.new_map(old, new);
        self.tell_turned_away(new);
        let (groups, mut world) = self.world(now);
        groups.call_all(&mut world, |pg, ctx| pg.new_map(ctx));
        self.leases_follow(now);
        self.letters_follow(now, old, new);
        if !new.places_as(old) {
            self.primary_since.follow(new, self.config.whoami, new.epoch);
            self.lead_unknown(now, old, new);
        }
        self.scale_logs();
        self.drop_groups_of_deleted_pools(now);
    }

    /// Begins to lead the groups that the map gives to this OSD and that are not here.
    pub(crate) fn lead_unknown(&mut self, now: Now, old: &Arc<OsdMap>, new: &Arc<OsdMap>) {
        let groups = &self.groups;
        let known = |id: &SpgId| groups.find(id).is_some() || groups.is_splitting_into(id) || groups.is_blocked(id, new);
        let (born, sought) = unknown(old, new, self.primary_since.groups(), known);
        let (groups, mut world) = self.world(now);
        born.into_iter().for_each(|id| groups.create(id, &mut world));
        sought.into_iter().for_each(|id| groups.seek(id, &mut world));
    }

    fn drop_groups_of_deleted_pools(&mut self, now: Now) {
        let map = self.maps.current().clone();
        if map.epoch == 0 {
            return;
        }
        for id in self.groups.ids() {
            if !map.pools.contains_key(&id.pg.pool)
                && let Some(slot) = self.groups.find(&id)
            {
                let (groups, mut world) = self.world(now);
                groups.call(slot, &mut world, |pg, ctx| pg.remove(ctx));
            }
        }
    }

    /// Groups that this map brought were submitted before, so the store cannot remember the map and forget them.
    fn save_maps(&mut self, out: &mut Outputs) {
        let transaction = self.maps.save(self.saved_epoch);
        debug_assert_eq!(transaction.scope, OSD_SCOPE);
        let ticket = Ticket(self.next_id());
        match self.store.submit(transaction, ticket) {
            Ok(()) => self.saved_epoch = self.maps.epoch(),
            // The next map tries again; a restart would go through the changes once more.
            Err(Refused::NoSpace | Refused::TooLarge) => out.log(Level::Warn, "osd", "no space to remember the newest map"),
            Err(Refused::Stopped | Refused::Damaged) => {}
        }
    }

    /// A clean stop begins: tell the monitor, take nothing new.
    pub(crate) fn begin_stop(&mut self, now: Now, out: &mut Outputs) {
        if matches!(self.phase, Phase::Stopping { .. } | Phase::Stopped) {
            return;
        }
        self.leases.promises.end();
        if let (Phase::Active, Some(session)) = (&self.phase, self.mon.session()) {
            self.msgr.send(session, OsdDown { osd: self.config.whoami, epoch: self.maps.epoch() }.encode());
        }
        out.log(Level::Info, "osd", "stopping");
        self.phase = Phase::Stopping { since: now.mono, closing: false };
    }

    /// Ends a stop when the monitor knows and the store is closed, or cannot be closed within [`CLOSING`].
    pub(crate) fn finish_stop(&mut self, now: Now, out: &mut Outputs) {
        let Phase::Stopping { since, closing } = self.phase else { return };
        let known = !self.maps.current().is_up(self.config.whoami) || self.mon.session().is_none();
        if !closing && (known || now.mono >= since.plus(FAREWELL)) {
            self.phase = Phase::Stopping { since, closing: true };
            self.store.begin_stop();
            self.turn_store(now, out);
        }
        let late = now.mono >= since.plus(CLOSING);
        if late && !self.store.stopped() {
            let why = self.store.hindrance().unwrap_or_else(|| "the disk is slow".into());
            let text = format!(
                "cannot write its last state within {} s: {why}. It ends as after a kill; the next start reads what was acknowledged from the \
                 journal",
                CLOSING.as_secs()
            );
            out.log(Level::Warn, "osd", text);
        }
        if late || self.store.stopped() {
            self.phase = Phase::Stopped;
            out.push(Output::Stopped);
        }
    }
}
