//! OSDs that hold nothing and say what the product's OSDs would say to a monitor.
//!
//! *Data.* [`Crowd`] is shared by all: the maps, each decoded once, with the groups that each OSD leads and since when
//! ([`View`]); who holds a complete copy of which group; who is dead and who misses them. A [`StandIn`] has its own
//! link to the monitors, the epoch that it has come to, and what it last said of the groups that it leads.
//!
//! *A group's way.* A new interval begins with `peering`. It goes on when the primary's `up_thru` has reached the
//! interval, else the primary asks for that. If members do not hold a copy and others do, the primary wishes for those
//! others (`pg_temp`), and ends the wish when the members are filled, after [`FILL`]. A member of a new pool holds a
//! copy at once.
//!
//! *Time.* Groups that changed are reported once a second, everything else every five seconds; who is silent for the
//! grace is reported every second, as `cores/osd` does it (`report.rs`, `failure_detector.rs`).

use denc::Decode;
use maps::{Incremental, OsdMap};
use messages::internal::{Beat, Failure, OsdAlive, OsdBoot, OsdFailures, OsdReport, PgReport, PgTempWish, Space};
use messages::mon::OsdMapMsg;
use messages::stats::ObjectStatSum;
use msgr::auth::{Auth, ClientAuth};
use msgr::{Event, Messenger};
use node::{Input, Mono, Node, Now, Output, Outputs};
use objecter::{LinkConfig, MonLink, Pause};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use types::{EVersion, EntityAddrVec, Epoch, Fsid, Levels, Message, OsdId, PgId, PgState, SessionId};

/// Objects in a group, and bytes of each.
const OBJECTS: i64 = 100;
const OBJECT_BYTES: i64 = 4 << 20;
/// How long new members of a group are filled, at least; chance adds as much.
const FILL: Duration = Duration::from_secs(5);
/// Between two reports.
const OFTEN: Duration = Duration::from_secs(1);
/// A report is sent after so long although nothing changed.
const AT_LEAST: Duration = Duration::from_secs(5);
/// Silence after which an OSD accuses.
const GRACE: Duration = Duration::from_secs(3);
/// A boot that no map answers is sent again.
const BOOT_AGAIN: Duration = Duration::from_secs(3);
/// Maps that are kept.
const KEPT: usize = 64;

/// One map, and what follows from it.
pub struct View {
    map: OsdMap,
    /// By OSD: the groups that it leads, and the epoch in which their interval began.
    led: BTreeMap<OsdId, Vec<(PgId, Epoch)>>,
}

/// What all stand-ins know together.
#[derive(Default)]
pub struct Crowd {
    views: BTreeMap<Epoch, Rc<View>>,
    since: BTreeMap<PgId, Epoch>,
    holders: BTreeMap<PgId, Vec<OsdId>>,
    /// Since when OSDs are dead, nanoseconds of virtual time.
    dead: BTreeMap<OsdId, u64>,
    /// Who shares groups with dead OSDs.
    misses: BTreeMap<OsdId, BTreeSet<OsdId>>,
    /// How the groups are, as their primaries see it.
    states: BTreeMap<PgId, PgState>,
    /// Number of messages the stand-ins sent to the monitor.
    pub told: u64,
    /// Number of groups these reported.
    pub groups_told: u64,
}

impl Crowd {
    fn newest(&self) -> Option<&Rc<View>> {
        self.views.last_key_value().map(|(_, view)| view)
    }

    fn view(&self, epoch: Epoch) -> Option<Rc<View>> {
        self.views.get(&epoch).or_else(|| self.newest()).cloned()
    }

    /// Takes maps in that nobody had before. Gives the newest epoch that the message leads to.
    fn learn(&mut self, message: &OsdMapMsg) -> denc::Result<Epoch> {
        let mut newest = self.views.last_key_value().map_or(0, |(epoch, _)| *epoch);
        if newest == 0
            && let Some((epoch, bytes)) = message.full.last_key_value()
        {
            self.add(OsdMap::from_bytes(bytes)?);
            newest = *epoch;
        }
        while let Some(bytes) = message.incremental.get(&(newest + 1)) {
            let view = self.newest().cloned().expect("there is a map to go on from");
            let next = view.map.apply(&Incremental::from_bytes(bytes)?);
            self.add(next.expect("a step of the monitor's own follows its map"));
            newest += 1;
        }
        let told = [message.full.last_key_value(), message.incremental.last_key_value()];
        Ok(told.into_iter().flatten().map(|(epoch, _)| *epoch).max().unwrap_or(0))
    }

    fn add(&mut self, map: OsdMap) {
        let (before, mut led) = (self.newest().cloned(), BTreeMap::<OsdId, Vec<_>>::new());
        for (id, pool) in &map.pools {
            for seed in 0..pool.pg_num {
                let pg = PgId::new(*id, seed);
                let placed = map.placed(pg);
                let same = before.as_ref().is_some_and(|before| before.map.placed(pg) == placed);
                let since = self.since.entry(pg).or_default();
                if !same {
                    *since = map.epoch;
                }
                led.entry(placed.acting_primary).or_default().push((pg, *since));
            }
        }
        self.views.insert(map.epoch, Rc::new(View { map, led }));
        while self.views.len() > KEPT {
            self.views.pop_first();
        }
    }

    /// OSDs of which nothing is heard from now on. Those that share groups with them will say so.
    pub fn lose(&mut self, osds: &[OsdId], now: u64) {
        self.dead.extend(osds.iter().map(|osd| (*osd, now)));
        let Some(view) = self.newest().cloned() else { return };
        for pg in self.since.keys() {
            let members = &view.map.placed(*pg).acting;
            for (gone, other) in members.iter().flat_map(|a| members.iter().map(move |b| (*a, *b))) {
                if self.dead.contains_key(&gone) && !self.dead.contains_key(&other) {
                    self.misses.entry(other).or_default().insert(gone);
                }
            }
        }
    }

    /// Returns how many groups their primaries hold for all of this.
    pub fn count(&self, state: PgState) -> usize {
        self.states.values().filter(|is| is.has(state)).count()
    }

    /// The groups of an OSD, and who else has one of them.
    pub fn shared_by(&self, osd: OsdId) -> (Vec<PgId>, BTreeSet<OsdId>) {
        let Some(view) = self.newest() else { return Default::default() };
        let groups: Vec<PgId> = self.since.keys().copied().filter(|pg| view.map.placed(*pg).acting.contains(&osd)).collect();
        let others = groups.iter().flat_map(|pg| view.map.placed(*pg).acting.clone()).filter(|other| *other != osd);
        let others = others.collect();
        (groups, others)
    }

    /// The newest map.
    pub fn map(&self) -> Option<&OsdMap> {
        self.newest().map(|view| &view.map)
    }
}

/// A group that a stand-in leads.
struct Led {
    since: Epoch,
    state: PgState,
    /// It is to be reported.
    fresh: bool,
    /// What was wished of the monitors in this interval.
    wished: bool,
    /// Time when its new members are filled.
    filled: Option<Mono>,
    changed: types::UTime,
    clean: Epoch,
}

/// Who a stand-in is.
#[derive(Clone)]
pub struct Identity {
    /// Cluster.
    pub fsid: Fsid,
    /// Number.
    pub osd: OsdId,
    /// Place where it listens.
    pub addrs: EntityAddrVec,
    /// Its host, as it says when it boots.
    pub host: String,
    /// Place where the monitors are.
    pub monitors: Vec<EntityAddrVec>,
    /// Bytes of its store.
    pub bytes: u64,
}

/// One OSD of the crowd.
pub struct StandIn {
    me: Identity,
    crowd: Rc<RefCell<Crowd>>,
    clock: Rc<Cell<u64>>,
    messenger: Messenger,
    link: MonLink,
    epoch: Epoch,
    booted: Option<Mono>,
    groups: BTreeMap<PgId, Led>,
    reports: u64,
    /// Time when it reported last, and looks next whether there is something to say.
    reported: Mono,
    next: Mono,
    reported_epoch: Epoch,
    accuses: Mono,
    wants: Epoch,
    asked: Epoch,
    chance: u64,
}

impl StandIn {
    /// One that has not connected yet.
    pub fn new(me: Identity, crowd: Rc<RefCell<Crowd>>, clock: Rc<Cell<u64>>, seed: [u8; 32]) -> Self {
        let name: types::EntityName = format!("osd.{}", me.osd).parse().expect("a name");
        let auth = Auth { client: ClientAuth::none(name.clone()), ..Auth::none(name.clone()) };
        let mut config = msgr::Config::server(name, me.addrs.clone(), me.osd.into());
        config.lossless_from.clear();
        let pause = Pause { first: Duration::from_millis(100), most: Duration::from_secs(3) };
        let link = LinkConfig { monitors: me.monitors.clone(), hostname: me.host.clone(), pause, follow: true };
        Self {
            messenger: Messenger::new(config, auth, seed),
            link: MonLink::new(link),
            me,
            crowd,
            clock,
            epoch: 0,
            booted: None,
            groups: BTreeMap::new(),
            reports: 0,
            reported: Mono(0),
            next: Mono(0),
            reported_epoch: 0,
            accuses: Mono(0),
            wants: 0,
            asked: 0,
            chance: u64::from_le_bytes(std::array::from_fn(|i| seed[i])),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance = self.chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.chance >> 33) % bound.max(1)
    }

    fn tell(&mut self, message: Message) {
        let Some(session) = self.link.session() else { return };
        self.crowd.borrow_mut().told += 1;
        self.messenger.send(session, message);
    }

    fn event(&mut self, now: Now, event: Event, out: &mut Outputs) {
        match event {
            Event::Opened { session, .. } if self.link.owns(session) => {
                self.link.opened(now, session, &mut self.messenger);
                self.booted = None;
                self.groups.values_mut().for_each(|led| led.fresh = true);
            }
            Event::Closed { session, .. } if self.link.owns(session) => self.link.closed(now),
            Event::Message { session, message, bytes } => {
                let understood = self.message(now, session, &message, out);
                understood.expect("what the product's machines send is understood");
                self.messenger.done(session, bytes);
            }
            Event::Opened { .. } | Event::Closed { .. } | Event::Reset { .. } => {}
        }
    }

    fn message(&mut self, now: Now, session: SessionId, message: &Message, out: &mut Outputs) -> denc::Result<()> {
        match message.kind {
            OsdMapMsg::KIND => {
                let epoch = self.crowd.borrow_mut().learn(&OsdMapMsg::decode(message)?)?;
                if epoch > self.epoch {
                    self.epoch = epoch;
                    self.link.have_map(epoch);
                    self.follow(now);
                }
            }
            Beat::KIND => {
                let beat = Beat::decode(message)?;
                let answer = Beat { osd: self.me.osd, epoch: self.epoch, answer: true, ..beat };
                self.messenger.send(session, answer.encode());
            }
            _ => drop(self.link.message(now, message, &mut self.messenger, out)?),
        }
        Ok(())
    }

    /// Takes up the groups that this OSD leads by its map.
    fn follow(&mut self, now: Now) {
        let Some(view) = self.crowd.borrow().view(self.epoch) else { return };
        let led = view.led.get(&self.me.osd).map_or(&[][..], |led| led);
        let mut kept = BTreeMap::new();
        for (pg, since) in led {
            let old = self.groups.remove(pg);
            let led = match old {
                Some(led) if led.since == *since => led,
                old => Led {
                    since: *since,
                    state: PgState::PEERING,
                    fresh: true,
                    wished: false,
                    filled: None,
                    changed: now.wall,
                    clean: old.map_or(0, |old| old.clean),
                },
            };
            self.crowd.borrow_mut().states.insert(*pg, led.state);
            kept.insert(*pg, led);
        }
        self.groups = kept;
        self.go_on(now);
    }

    /// Does what has become possible for the groups.
    fn go_on(&mut self, now: Now) {
        let Some(view) = self.crowd.borrow().view(self.epoch) else { return };
        let thru = view.map.info(self.me.osd).map_or(0, |info| info.up_thru);
        let mut wishes = Vec::new();
        let mut groups = std::mem::take(&mut self.groups);
        for (pg, led) in &mut groups {
            if led.state == PgState::PEERING {
                if thru < led.since {
                    self.wants = self.wants.max(led.since);
                } else {
                    wishes.extend(self.activate(now, &view.map, *pg, led));
                }
            } else if led.filled.is_some_and(|at| at <= now.mono) {
                led.filled = None;
                let up = view.map.placed(*pg).up.clone();
                self.crowd.borrow_mut().holders.insert(*pg, up);
                wishes.push((*pg, Vec::new()));
            }
        }
        self.groups = groups;
        if !wishes.is_empty() {
            let wish = PgTempWish { osd: self.me.osd, epoch: self.epoch, wishes };
            self.tell(wish.encode());
        }
        if self.wants > self.asked && self.wants > thru {
            self.asked = self.wants;
            let alive = OsdAlive { osd: self.me.osd, epoch: self.epoch, want: self.wants };
            self.tell(alive.encode());
        }
    }

    /// A group whose primary may lead. What it wishes first, if members do not hold what others do.
    fn activate(&mut self, now: Now, map: &OsdMap, pg: PgId, led: &mut Led) -> Option<(PgId, Vec<OsdId>)> {
        let (placed, crowd) = (map.placed(pg), self.crowd.clone());
        let mut crowd = crowd.borrow_mut();
        let crowd = &mut *crowd;
        let holders = crowd.holders.entry(pg).or_insert_with(|| placed.acting.clone());
        let there: Vec<OsdId> = holders.iter().copied().filter(|osd| map.is_up(*osd)).collect();
        let size = map.pool(pg.pool).map_or(0, |pool| usize::from(pool.size));
        if there.is_empty() || placed.acting.iter().all(|osd| there.contains(osd)) {
            let home = placed.up == placed.acting;
            led.state = match (home, placed.acting.len() == size) {
                (true, true) => PgState::ACTIVE.with(PgState::CLEAN),
                (true, false) => PgState::ACTIVE.with(PgState::UNDERSIZED).with(PgState::DEGRADED),
                (false, _) => PgState::ACTIVE.with(PgState::REMAPPED).with(PgState::BACKFILLING),
            };
            if home {
                *holders = placed.acting.clone();
            } else {
                let fill = FILL.as_nanos() as u64;
                led.filled = Some(now.mono.plus(FILL + Duration::from_nanos(self.below(fill))));
            }
            if led.state.has(PgState::CLEAN) {
                led.clean = self.epoch;
            }
            (led.fresh, led.changed) = (true, now.wall);
            crowd.states.insert(pg, led.state);
            return None;
        }
        let asked = std::mem::replace(&mut led.wished, true);
        (!asked).then_some((pg, there))
    }

    fn boot(&mut self, now: Now) {
        let up = self.crowd.borrow().view(self.epoch).is_some_and(|view| self.is_there(&view.map));
        let waits = self.booted.is_some_and(|at| now.mono < at.plus(BOOT_AGAIN));
        if up || waits || self.epoch == 0 || self.link.session().is_none() {
            return;
        }
        self.booted = Some(now.mono);
        let of = |key: &str, value: String| (key.to_owned(), value);
        let metadata = [of("hostname", self.me.host.clone()), of(Levels::KEY, Levels::OWN.to_string())];
        let boot = OsdBoot {
            fsid: self.me.fsid,
            osd: self.me.osd,
            uuid: uuid(self.me.osd),
            addrs: self.me.addrs.clone(),
            total_bytes: self.me.bytes,
            metadata: metadata.into(),
            newest_map: self.epoch,
            cluster_addrs: Default::default(),
        };
        self.tell(boot.encode());
    }

    fn is_there(&self, map: &OsdMap) -> bool {
        map.is_up(self.me.osd) && map.osd_addr(self.me.osd) == Some(&self.me.addrs)
    }

    fn report(&mut self, now: Now) {
        if now.mono < self.next || self.link.session().is_none() {
            return;
        }
        self.next = now.mono.plus(OFTEN);
        let view = self.crowd.borrow().view(self.epoch);
        let Some(view) = view.filter(|view| self.is_there(&view.map)) else { return };
        let fresh: Vec<PgId> = self.groups.iter().filter(|(_, led)| led.fresh).map(|(pg, _)| *pg).collect();
        if fresh.is_empty() && self.epoch == self.reported_epoch && now.mono.since(self.reported) < AT_LEAST {
            return;
        }
        let pgs: Vec<PgReport> = fresh.into_iter().map(|pg| self.describe(&view.map, pg)).collect();
        (self.reported, self.reported_epoch) = (now.mono, self.epoch);
        self.crowd.borrow_mut().groups_told += pgs.len() as u64;
        let data = OBJECTS as u64 * OBJECT_BYTES as u64 * self.groups.len() as u64 * 3;
        let space = Space { total: self.me.bytes, available: self.me.bytes - data, data, omap: 0, meta: 1 << 20 };
        let report = OsdReport { osd: self.me.osd, epoch: self.epoch, space, pgs, ..OsdReport::default() };
        self.tell(report.encode());
    }

    fn describe(&mut self, map: &OsdMap, pg: PgId) -> PgReport {
        self.reports += 1;
        let led = self.groups.get_mut(&pg).expect("it leads it");
        led.fresh = false;
        let (size, placed) = (map.pool(pg.pool).map_or(0, |pool| i64::from(pool.size)), map.placed(pg));
        let lacks = (size - placed.acting.len() as i64).max(0);
        let misplaced = if placed.up == placed.acting { 0 } else { OBJECTS };
        let stats = ObjectStatSum {
            num_bytes: OBJECTS * OBJECT_BYTES,
            num_objects: OBJECTS,
            num_object_copies: OBJECTS * size,
            num_objects_degraded: OBJECTS * lacks,
            num_objects_misplaced: misplaced,
            ..ObjectStatSum::default()
        };
        PgReport {
            pg,
            state: led.state,
            reported: EVersion { epoch: self.epoch, version: self.reports },
            version: EVersion { epoch: 1, version: OBJECTS as u64 },
            log_size: OBJECTS as u32,
            created: 1,
            stats,
            last_change: led.changed,
            last_active: led.changed,
            last_epoch_clean: led.clean,
            ..PgReport::default()
        }
    }

    fn accuse(&mut self, now: Now) {
        let crowd = self.crowd.clone();
        let crowd = crowd.borrow();
        let Some(missed) = crowd.misses.get(&self.me.osd) else { return };
        if now.mono < self.accuses {
            return;
        }
        let Some(view) = crowd.view(self.epoch) else { return };
        let silence =
            |osd: &OsdId| Duration::from_nanos(self.clock.get().saturating_sub(crowd.dead.get(osd).copied().unwrap_or(u64::MAX)));
        let silent = missed.iter().filter(|osd| view.map.is_up(**osd) && silence(osd) >= GRACE);
        let failed: Vec<Failure> = silent
            .map(|osd| {
                let silent_ms = u32::try_from(silence(osd).as_millis()).unwrap_or(u32::MAX);
                Failure { osd: *osd, up_from: view.map.up_from(*osd), silent_ms, ..Failure::default() }
            })
            .collect();
        drop(crowd);
        // Beats go out twice a second, at everybody's own moments.
        self.accuses = now.mono.plus(if failed.is_empty() { Duration::from_millis(500) } else { OFTEN });
        if !failed.is_empty() {
            let failures = OsdFailures { osd: self.me.osd, epoch: self.epoch, failed };
            self.tell(failures.encode());
        }
    }

    fn own_deadline(&self) -> Mono {
        let filled = self.groups.values().filter_map(|led| led.filled).min().unwrap_or(Mono::NEVER);
        let accuses = if self.crowd.borrow().misses.contains_key(&self.me.osd) { self.accuses } else { Mono::NEVER };
        let report = if self.link.session().is_some() { self.next } else { Mono::NEVER };
        filled.min(report).min(accuses).min(self.link.deadline(&self.messenger))
    }
}

/// The identity of an OSD's store.
pub fn uuid(osd: OsdId) -> [u8; 16] {
    let mut uuid = [0x11; 16];
    uuid[..4].copy_from_slice(&(osd + 1).to_le_bytes());
    uuid
}

impl Node for StandIn {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Stop => out.push(Output::Stopped),
            input => self.messenger.handle(now, input, out),
        }
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        if self.next == Mono(0) {
            // Everybody's second begins at another moment.
            self.next = now.mono.plus(Duration::from_nanos(self.below(OFTEN.as_nanos() as u64)));
            self.accuses = now.mono.plus(Duration::from_nanos(self.below(500_000_000)));
        }
        self.link.turn(now, &mut self.messenger, out);
        while let Some(event) = self.messenger.poll_event() {
            self.event(now, event, out);
        }
        self.boot(now);
        self.go_on_in_time(now);
        self.accuse(now);
        self.report(now);
        self.messenger.turn(now, out);
    }

    fn deadline(&self) -> Mono {
        if self.messenger.has_event() {
            return Mono(0);
        }
        self.messenger.deadline().min(self.own_deadline())
    }
}

impl StandIn {
    fn go_on_in_time(&mut self, now: Now) {
        if self.groups.values().any(|led| led.filled.is_some_and(|at| at <= now.mono)) {
            self.go_on(now);
        }
    }
}
