//! The OSD as a whole, as one machine without input or output: sessions with clients and other OSDs, maps, placement
//! groups and their lives, the link to the monitors. It has one disk, one store and one thread; nothing in it is
//! locked.
//!
//! # The way of an operation
//!
//! | step | what happens |
//! |---|---|
//! | 1 | the messenger gives a whole message; [`ops`] notes the operation. All others keep its key only |
//! | 2 | [`dispatch`] checks the session's rights and the map. A client with an older map is sent the changes that it lacks. An operation with a newer map waits until the OSD has that map |
//! | 3 | the group executes it over the store, submits a transaction, and writes letters to the other copies |
//! | 4 | at the end of the round [`letters`] bundles letters for each peer, and the store closes its journal group ([`node::Node::turn`]) |
//! | 5 | when it is durable here and at the copies that count, the group gives the reply to the messenger |
//! | 6 | the reply leaves at the end of that round |
//!
//! # The life of an OSD
//!
//! | phase | what happens |
//! |---|---|
//! | opening | the store replays its journal |
//! | loading | superblock, maps and groups are read |
//! | booting | a monitor is found. Maps that were missed are gone through one by one: each may create, split or merge groups. Then the OSD asks to be marked up |
//! | active | the map says that it is up at its address |
//! | stopping | the monitor is told; what was submitted becomes durable; the store is closed |

#![forbid(unsafe_code)]

mod admit;
mod backend;
mod backlog;
mod beats;
mod bench;
mod clusterlog;
mod commands;
mod config;
mod contact;
mod copies;
mod dispatch;
mod doubts;
mod failure_detector;
mod fullness;
mod groups;
mod images;
mod leases;
mod letters;
mod life;
mod maps;
mod memory;
mod mempools;
mod ops;
mod pace;
mod peers;
mod perf;
mod primary_since;
mod query;
mod refused;
mod report;
mod revoke;
mod rounds;
mod scrubs;
#[cfg(feature = "sim")]
mod selfcheck;
mod sessions;
mod slots;
mod unfound;
mod unions;
mod vigil;

pub use backend::{Backend, Counted, Readiness};
pub use config::{OPTIONS, OptionRow, Options, OsdConfig};
pub use memory::store_share;
pub use peers::Neighbours;
#[cfg(feature = "sim")]
pub use pg::{Mistake, Sizes, change_in, omap_in, shards_in, version_in};
pub use scrubs::ScrubOptions;
#[cfg(feature = "sim")]
pub use selfcheck::Answered;

use crate::beats::Beats;
use crate::clusterlog::ClusterLog;
use crate::copies::Copies;
use crate::groups::{Groups, Slot, World};
use crate::maps::Maps;
use crate::peers::Peers;
use crate::perf::Perf;
use crate::report::Reporter;
use crate::sessions::Sessions;
use messages::mon::LogEntry;
use msgr::Messenger;
use msgr::auth::{Acceptor, Auth, ClientAuth, Key, ServiceAuth};
use node::{Input, Level, Mono, Node, Now, Output, Outputs};
use objecter::{LinkConfig, MonLink, Pause};
use objectstore::{Hold, Ticket};
use pg::Effect;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{EntityType, Epoch, SessionId};

/// Between two attempts to reach a monitor.
const HUNT: Pause = Pause { first: Duration::from_millis(100), most: Duration::from_secs(3) };

/// Phase of an OSD.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Loading,
    Booting,
    Active,
    /// A clean stop since then; `closing`: the store was told to close.
    Stopping {
        since: Mono,
        closing: bool,
    },
    Stopped,
    Failed,
}

/// An operation that waits: for a map that this OSD does not have yet, for its group, or for room for its answer.
struct Early {
    key: pg::OpKey,
    session: SessionId,
    message: types::Message,
    epoch: Epoch,
}

/// An object storage daemon. See the crate's text.
pub struct Osd {
    config: OsdConfig,
    options: Options,
    /// From the configuration database.
    central_options: BTreeMap<String, String>,
    /// From `config set` of a `tell`; they stand above the database until the next start.
    local_options: BTreeMap<String, String>,
    phase: Phase,
    memory: memory::Memory,
    store: Box<dyn Backend>,
    msgr: Messenger,
    mon: MonLink,
    clog: ClusterLog,
    wakes: node::Wakes,
    maps: Maps,
    /// The epoch that the store remembers.
    saved_epoch: Epoch,
    groups: Groups,
    primary_since: primary_since::PrimarySince,
    sessions: Sessions,
    /// Sessions whose rights have ended.
    ending: Vec<SessionId>,
    ops: ops::OpTable,
    peers: Peers,
    letters: letters::Letters,
    copies: Copies,
    beats: Beats,
    leases: leases::Leases,
    disk: vigil::DiskWatch,
    /// Time when the monitors were asked last to mark this OSD down as its store takes no writes.
    away: Option<Mono>,
    /// The store takes no more changes: no client is answered any more.
    store_stopped: bool,
    markdowns: vigil::Markdowns,
    /// OSDs that it must reach before it boots again.
    contact: Option<contact::Contact>,
    reporter: Reporter,
    scrubs: scrubs::Scrubs,
    slots: slots::Slots,
    pace: pace::Pace,
    full: fullness::Fullness,
    perf: Perf,
    images: images::Images,
    early: VecDeque<Early>,
    doubts: doubts::Doubts,
    /// Operations for groups that are about to come out of a split.
    homeless: VecDeque<backlog::Waiting>,
    /// Sessions with operations whose answers do not fit yet.
    stalled: VecDeque<SessionId>,
    /// True if they were not looked at since this round's answers left.
    relieved: bool,
    /// Number of messages of clients this round may answer.
    rounds: rounds::Rounds,
    bench: Option<bench::Bench>,
    effects: Vec<(Slot, Effect)>,
    /// Groups that are to be united shall be looked at.
    unite: bool,
    last_id: u64,
    log_seq: u64,
    boot_sent: Option<Mono>,
    /// The newest map has this OSD up where it is.
    is_up: bool,
    /// Time when groups that could not be loaded are tried again.
    reload_at: Mono,
    /// The log level that was asked for last.
    level_told: Option<Level>,
    /// Counts the messages of other OSDs, some of which are heard twice.
    #[cfg(feature = "sim")]
    echo: Option<u64>,
    /// Answers to clients that nobody judged yet, `None` if nobody judges.
    #[cfg(feature = "sim")]
    answered: Option<Vec<selfcheck::Answered>>,
}

impl Osd {
    /// An OSD over `store`, which may still be opening.
    pub fn new(config: OsdConfig, store: Box<dyn Backend>) -> Self {
        let auth = match config.key {
            None => Auth::none(config.name()),
            Some(secret) => Auth {
                acceptor: Acceptor::Service(ServiceAuth::new(EntityType::Osd)),
                client: ClientAuth::cephx(config.name(), Key::new(types::UTime::ZERO, secret)),
            },
        };
        let mut messenger = msgr::Config::server(config.name(), config.addrs.clone(), config.whoami.into());
        messenger.further = config.cluster_addrs.clone();
        messenger.limits = memory::limits(messenger.limits, config.memory);
        // Who asks asks again: nothing is replayed.
        messenger.lossless_from.clear();
        let hostname = config.metadata.get("hostname").cloned().unwrap_or_else(|| "localhost".into());
        Self {
            msgr: Messenger::new(messenger, auth, config.seed),
            mon: MonLink::new(LinkConfig { monitors: config.monitors.clone(), hostname, pause: HUNT, follow: true }),
            clog: ClusterLog::default(),
            wakes: node::Wakes::default(),
            memory: memory::Memory::new(config.memory, config.memory_ceiling),
            peers: Peers::new(),
            letters: letters::Letters::default(),
            copies: Copies::new(config.whoami),
            beats: Beats::default(),
            leases: leases::Leases::default(),
            disk: vigil::DiskWatch::default(),
            away: None,
            store_stopped: false,
            markdowns: vigil::Markdowns::default(),
            contact: None,
            config,
            options: Options::default(),
            central_options: BTreeMap::new(),
            local_options: BTreeMap::new(),
            phase: Phase::Opening,
            store,
            maps: Maps::none(),
            saved_epoch: 0,
            groups: Groups::default(),
            primary_since: primary_since::PrimarySince::default(),
            sessions: Sessions::default(),
            ending: Vec::new(),
            ops: ops::OpTable::default(),
            reporter: Reporter::default(),
            scrubs: scrubs::Scrubs::default(),
            slots: slots::Slots::default(),
            pace: pace::Pace::default(),
            full: fullness::Fullness::default(),
            perf: Perf::default(),
            images: images::Images::default(),
            early: VecDeque::new(),
            doubts: doubts::Doubts::default(),
            homeless: VecDeque::new(),
            stalled: VecDeque::new(),
            relieved: false,
            rounds: rounds::Rounds::default(),
            bench: None,
            effects: Vec::new(),
            unite: false,
            last_id: 0,
            log_seq: 0,
            boot_sent: None,
            is_up: false,
            reload_at: Mono(0),
            level_told: None,
            #[cfg(feature = "sim")]
            echo: None,
            #[cfg(feature = "sim")]
            answered: None,
        }
    }

    /// Returns true if the cluster counts this OSD as up and all its groups serve.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active && self.groups.all_settled()
    }

    fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Opening => "opening",
            Phase::Loading => "loading",
            Phase::Booting => "booting",
            Phase::Active => "active",
            Phase::Stopping { .. } => "stopping",
            Phase::Stopped => "stopped",
            Phase::Failed => "failed",
        }
    }

    /// A new number for the OSD's own holds and tickets (slot 0).
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Groups, and what they are called with.
    fn world(&mut self, now: Now) -> (&mut Groups, World<'_>) {
        let world = World {
            now,
            map: self.maps.current(),
            store: &mut *self.store,
            out: &mut self.effects,
            whoami: self.config.whoami,
            is_up: self.is_up,
            config: &self.options.pg,
            leases: &self.leases.promises,
            room: &mut self.pace.room,
            steps_aside: self.away.is_some(),
            recorder: &mut self.ops,
        };
        (&mut self.groups, world)
    }

    /// Puts the options together; the names of those whose values do not parse.
    fn apply_options(&mut self) -> Vec<String> {
        let mut given = self.central_options.clone();
        given.extend(self.local_options.clone());
        let (mut options, bad) = Options::from_config(&given);
        options.pg.sizes = self.options.pg.sizes;
        self.options = options;
        let class = self.config.metadata.get("default_device_class").map(String::as_str);
        let most = self.options.recovery_at_a_time(class);
        self.options.pg.recovery_at_a_time = most;
        self.pace.limit(most, self.options.time_between(class));
        self.scale_logs();
        self.store.set_defragment(self.options.defragment);
        self.apply_memory();
        bad.into_iter().filter_map(|b| Some(b.split(' ').next()?.to_owned())).collect()
    }

    /// Tells the driver when somebody changed the log level.
    fn tell_level(&mut self, out: &mut Outputs) {
        let level = self.options.level();
        if level != self.level_told {
            self.level_told = level;
            out.push(Output::LogLevel(level.unwrap_or(Level::Info)));
        }
    }

    /// Tells the driver when the OSD would take more or less memory.
    fn tell_wish(&mut self, out: &mut Outputs) {
        if let Some(wish) = self.memory.new_wish(&self.options) {
            out.push(Output::Memory(wish));
        }
    }

    /// Shares the memory for logs among the groups, unless somebody chose otherwise.
    fn scale_logs(&mut self) {
        let share = (memory::log_entries(self.memory.in_force) / self.groups.len().max(1)).clamp(250, 3000);
        if !self.options.given.contains_key("osd_max_pg_log_entries") {
            self.options.pg.log_entries = share;
        }
        if !self.options.given.contains_key("osd_pg_log_dups_tracked") {
            self.options.pg.dup_entries = share;
        }
    }

    /// Asks the monitor for whatever maps are newer than ours.
    fn ask_for_maps(&mut self) {
        self.mon.want_newer_map();
    }

    /// A line for the cluster's log.
    pub(crate) fn cluster_log(&mut self, now: Now, level: pg::ClusterLevel, text: String) {
        self.log_seq += 1;
        let level = match level {
            pg::ClusterLevel::Info => 1,
            pg::ClusterLevel::Warn => 3,
            pg::ClusterLevel::Error => 4,
        };
        self.clog.push(LogEntry {
            name: self.config.name(),
            rank: messages::EntityNum { kind: EntityType::Osd as u8, num: self.config.whoami.into() },
            addrs: self.config.addrs.clone(),
            stamp: now.wall,
            seq: self.log_seq,
            level,
            message: text,
            channel: "cluster".into(),
        });
    }

    /// Calls a group of this OSD, if it is here.
    pub(crate) fn call_group(&mut self, now: Now, id: types::SpgId, f: impl FnOnce(&mut pg::Pg, &mut pg::Ctx<'_>)) {
        if let Some(slot) = self.groups.find(&id) {
            let (groups, mut world) = self.world(now);
            groups.call(slot, &mut world, f);
        }
    }

    /// Gives the store's events to whom they belong.
    fn drain_store(&mut self, now: Now, out: &mut Outputs) {
        while let Some(event) = self.store.poll_event() {
            let (groups, mut world) = self.world(now);
            match groups::slot_of(&event, groups, world.map) {
                Some(0) => self.own_event(now, &event, out),
                Some(slot) => {
                    groups.call(slot, &mut world, |pg, ctx| pg.store_event(ctx, event));
                }
                // A group that splits or goes: a scrub finds it.
                None => {}
            }
        }
    }

    /// An event for the OSD itself: something fetched while loading, or a write of a bench.
    fn own_event(&mut self, now: Now, event: &objectstore::Event, out: &mut Outputs) {
        match event {
            objectstore::Event::Fetched(Hold(_)) => self.load(now, out),
            // What the OSD writes for itself is made of nothing older.
            objectstore::Event::Damaged(..) | objectstore::Event::Rotten(_) => {}
            objectstore::Event::Committed(ticket) => {
                self.promised_written(*ticket);
                if self.bench.as_mut().is_some_and(|b| b.committed(*ticket)) {
                    self.run_bench(now);
                }
            }
        }
    }

    fn run_bench(&mut self, now: Now) {
        let Some(bench) = &mut self.bench else { return };
        let last_id = &mut self.last_id;
        let mut ticket = || {
            *last_id += 1;
            Ticket(*last_id)
        };
        let answer = match bench.run(now, &mut *self.store, &mut ticket) {
            bench::Outcome::Running => return,
            bench::Outcome::Done(value) => commands::Answer::json(value),
            bench::Outcome::Failed(error) => commands::Answer::error(error, format!("the store refused a write: {error}")),
        };
        let asker = self.bench.take().map(|b| b.asker);
        if let Some(asker) = asker {
            self.answer_command(asker.session, asker.tid, answer.into());
        }
    }

    /// Carries out what groups, store and messenger want until nothing is left.
    fn settle(&mut self, now: Now, out: &mut Outputs) {
        loop {
            self.drain_messenger(now, out);
            self.end_sessions(now, "its rights are others now", out);
            self.drain_store(now, out);
            if self.effects.is_empty() && !self.copies.is_busy() && !self.resume(now, out) {
                return;
            }
            self.carry_out(now, out);
            if self.effects.is_empty() && !self.resume(now, out) {
                return;
            }
        }
    }
}

impl Node for Osd {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        self.perf.note(now.mono);
        match input {
            Input::Disk(done) => {
                self.disk.ended(now.mono);
                self.store.disk_done(now, done);
            }
            Input::Call { call, command } => {
                let (result, text) = match commands::run(self, now, &command, None) {
                    commands::Dispatch::Now(answer) if answer.output.is_empty() => (answer.result, answer.status),
                    commands::Dispatch::Now(answer) => (answer.result, answer.output),
                    commands::Dispatch::Bench(_) => (types::Errno::EINVAL.wire(), "bench needs a client".into()),
                };
                out.push(Output::Answer { call, result, text });
            }
            Input::Memory(share) => self.take_memory(share, out),
            Input::Mail { from, mail } => self.mail_arrived(now, from, mail, out),
            Input::Stop => self.begin_stop(now, out),
            network => self.msgr.handle(now, network, out),
        }
        self.settle(now, out);
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        self.perf.rounds += 1;
        self.perf.note(now.mono);
        if self.ops.overdue() {
            self.answers_left(now);
        }
        self.relieved = true;
        self.live(now, out);
        if matches!(self.phase, Phase::Booting | Phase::Active | Phase::Stopping { .. }) {
            let (groups, mut world) = self.world(now);
            groups.turn(&mut world);
            self.share_slots(now);
            self.keep_pace(now);
            self.end_breaks(now);
        }
        self.run_copies(now, out);
        self.settle(now, out);
        self.turn_store(now, out);
        self.watch_index(now, out);
        // A store in memory commits at once.
        self.settle(now, out);
        self.send_letters(now, out);
        self.msgr.turn(now, out);
        self.tell_level(out);
        self.tell_wish(out);
        self.finish_stop(now, out);
        self.rounds.end();
    }

    fn carried_out(&mut self, now: Now) {
        self.answers_left(now);
    }

    fn woken(&mut self, wakes: node::Wakes) {
        self.wakes = wakes;
    }

    fn deadline(&self) -> Mono {
        if self.msgr.has_event() {
            return Mono(0);
        }
        let running = matches!(self.phase, Phase::Booting | Phase::Active);
        let groups = if running { self.groups.deadline().min(self.pace.deadline()) } else { Mono::NEVER };
        let copies = self.copies.deadline().min(self.letters.deadline());
        [self.msgr.deadline(), self.store.deadline(), self.life_deadline(), groups, copies]
            .into_iter()
            .min()
            .unwrap_or(Mono::NEVER)
    }
}
