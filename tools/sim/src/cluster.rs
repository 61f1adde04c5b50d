//! A whole cluster in a world: a monitor, OSDs, clients, an administrator.

use crate::decrees::Decrees;
use crate::disk::DiskConfig;
use crate::history::History;
use crate::mistake::{COMPACTS, Mistake, OFTEN, Reopen, Strict, Wayward, Wrapped};
use crate::model::{Action, source_change};
use crate::promises::Promises;
use crate::reference::{Meaning, RefStore};
use crate::rng::Rng;
use crate::upgrade::Programs;
use crate::vitals::Pulse;
use crate::workload::{Admin, AdminShared, Habits, Petitioner, Petitions, Shared, Snaps, Tide, Workload};
use crate::world::{Boot, HostConfig, HostId, HostState, World};
use crate::wounds::{Bad, Wounds};
use mon::{AuthMode, Monitor};
use msgr::auth::{Auth, ClientAuth};
use node::{MailId, Node};
use objecter::ClientNode;
use osd::{Backend, Osd, OsdConfig, Sizes};
use standmon::StandMon;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Fsid, Levels};

/// Which store the OSDs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// [`RefStore`].
    Reference,
    /// The product's, with a journal of so many bytes and so much memory.
    Real {
        /// Bytes of the journal.
        journal: u64,
        /// Bytes of memory.
        memory: u64,
    },
}

/// Which monitor the cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonKind {
    /// [`StandMon`].
    StandIn,
    /// The product's.
    Real,
}

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of OSDs.
    pub osds: usize,
    /// Number of clients.
    pub clients: usize,
    /// The first client only reads.
    pub reader: bool,
    /// Number of further clients, which do the same but for making room: see [`Tide::Empties`].
    pub emptiers: usize,
    /// What they do.
    pub habits: Habits,
    /// Placement groups of the pool.
    pub pg_num: u32,
    /// Copies of each object; more than one need the product's monitor.
    pub size: u32,
    /// Copies without which nothing is served.
    pub min_size: u32,
    /// The pool has shards: so many with data, and parities. Its size is all of them.
    pub code: Option<(usize, usize)>,
    /// The monitor.
    pub mon: MonKind,
    /// How many of them there are; more than one are the product's.
    pub mons: usize,
    /// Number of clients that give commands to the monitors, and how many each gives.
    pub petitioners: (usize, usize),
    /// So many of them, the first ones, only read, as long as others have commands to give.
    pub petition_readers: usize,
    /// The OSDs' stores.
    pub store: StoreKind,
    /// Bytes of an OSD's disk.
    pub osd_bytes: u64,
    /// What all stores and OSDs do wrong.
    pub mistake: Option<Mistake>,
    /// OSDs log the letters that come.
    pub letters: bool,
    /// True if the cluster uses cephx.
    pub cephx: bool,
    /// True if the journals have disks of their own.
    pub separate_journal: bool,
    /// True if the cluster is judged while it rests: no store looks in haste for what lies scattered.
    pub rests: bool,
    /// True if a pool comes and goes, with a client in it.
    pub churn: bool,
    /// True if the OSDs are of one process, and send each other mail.
    pub mail: bool,
    /// True if the OSDs have a network of their own.
    pub two_networks: bool,
    /// True if OSDs hear some messages of each other twice.
    pub echo: bool,
    /// Monitors and OSDs keep hardly any changes of maps: who was away goes on with a full one.
    pub few_maps: bool,
    /// True if groups keep the fewest entries of their logs, and remember the fewest requests: see [`FEW_RECORDS`].
    pub few_records: bool,
    /// In how large pieces OSDs bring and copy objects.
    pub sizes: Sizes,
    /// One of so many changes on the first OSD needs old data that are damaged; 0: none. [`SILENT`]: no change is hurt, and objects of all
    /// OSDs may rot ([`Cluster::bad`]). [`TOLD`]: the same, and the stores tell of it, as if they had come by.
    pub wounds: u64,
    /// True if what lies scattered comes together all the time in all lives of OSDs, and not only in half of them, and checkpoints come
    /// more often.
    pub moves: bool,
    /// Parts of objects that the stores' defragmentation moved.
    pub moved: Rc<Cell<u64>>,
    /// True if the first OSD's store takes no writes now, as if a page of its index were damaged.
    pub impaired: Option<Rc<Cell<bool>>>,
    /// Which levels the daemons' programs run, if not all are of today.
    pub programs: Option<Programs>,
}

impl Plan {
    /// Returns what the program of a host runs.
    fn levels_of(&self, host: &str) -> Levels {
        let programs = self.programs.as_ref().map(|programs| programs.borrow());
        programs.and_then(|programs| programs.get(host).copied()).unwrap_or(Levels::OWN)
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            osds: 2,
            clients: 2,
            reader: false,
            emptiers: 0,
            habits: Habits::default(),
            pg_num: 4,
            size: 1,
            min_size: 1,
            code: None,
            mon: MonKind::StandIn,
            mons: 1,
            petitioners: (0, 0),
            petition_readers: 0,
            store: StoreKind::Reference,
            osd_bytes: 256 << 20,
            mistake: None,
            letters: false,
            cephx: false,
            separate_journal: false,
            rests: false,
            churn: false,
            mail: false,
            echo: false,
            two_networks: false,
            programs: None,
            few_maps: false,
            few_records: false,
            sizes: Sizes::TINY,
            wounds: 0,
            moves: false,
            moved: Rc::default(),
            impaired: None,
        }
    }
}

/// Entries that the logs of groups keep where they are to be short; 100 leave together.
const FEW_ENTRIES: u64 = 20;
/// Requests that groups remember beside them: a page of them, and more than one client has under way.
const FEW_RECORDS: u64 = 100;

/// A cluster.
pub struct Cluster {
    /// Place where it lives.
    pub world: World,
    /// The monitor with which the cluster began.
    pub mon: HostId,
    /// All monitors.
    pub mons: Vec<HostId>,
    /// The term in which each of them leads; 0 if it does not.
    pub(crate) reigns: Vec<Rc<Cell<u64>>>,
    /// What monitors and OSDs show of themselves.
    pub(crate) pulses: BTreeMap<HostId, Pulse>,
    pub(crate) decrees: Decrees,
    /// What clients ask of the monitors.
    pub(crate) petitions: Rc<RefCell<Petitions>>,
    petitioners: Vec<HostId>,
    /// The OSDs.
    pub osds: Vec<HostId>,
    /// The clients, and what they share; those that make room last.
    pub clients: Vec<(HostId, Rc<RefCell<Shared>>)>,
    admin: HostId,
    pub(crate) admin_shared: Rc<RefCell<AdminShared>>,
    /// The client in the pool that comes and goes.
    pub churn: Option<(HostId, Rc<RefCell<Shared>>)>,
    /// The pool was to have fewer groups once.
    pub(crate) shrunk: bool,
    /// What was asked and answered.
    pub history: Rc<RefCell<History>>,
    /// Chance for whoever plans.
    pub rng: Rng,
    /// What it is made of.
    pub plan: Plan,
    /// Which OSDs' stores were ever ready.
    pub(crate) made: Vec<Rc<Cell<bool>>>,
    /// Number of disks each OSD has lost.
    pub(crate) lost: Vec<Rc<Cell<u8>>>,
    /// What reference stores hold.
    pub(crate) meanings: Vec<Rc<RefCell<Meaning>>>,
    /// Objects that cannot be read, of OSDs whose stores meet damage.
    pub(crate) bad: Vec<Bad>,
    /// Judges what OSDs acknowledge.
    pub(crate) promises: Rc<RefCell<Promises>>,
    /// The first thing that cannot be, found on a disk.
    pub wrong: Option<String>,
    /// What the map of an epoch said, when it was looked at last.
    pub(crate) seen: (u64, crate::downs::Seen),
    /// Stores that were checked after a crash.
    pub checked: u64,
    /// Reads that copies answered which do not lead.
    pub asides: u64,
}

/// See [`Plan::wounds`].
pub(crate) const SILENT: u64 = u64::MAX;
/// The same, and the stores tell what has rotted.
pub const TOLD: u64 = u64::MAX - 1;

/// The pool that comes and goes.
pub const CHURN_POOL: &str = "tmp";

const FSID: Fsid = Fsid([0x5a; 16]);

fn socket(a: u8, b: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, a, b], port))
}

fn address(at: SocketAddr, nonce: u32) -> EntityAddrVec {
    EntityAddrVec(vec![EntityAddr::msgr2(at, nonce)])
}

fn mail_id(osd: usize) -> MailId {
    MailId(osd as u32)
}

fn mon_address(n: usize) -> SocketAddr {
    socket(0, 1 + n as u8, 3300)
}

fn mon_name(n: usize) -> String {
    char::from(b'a' + n as u8).to_string()
}

/// Returns where all monitors are.
fn monitors(plan: &Plan) -> Vec<EntityAddrVec> {
    (0..plan.mons).map(|n| address(mon_address(n), 0)).collect()
}

/// Keys that every cluster here has: one for each entity, from its name.
fn key_of(name: &str) -> [u8; 16] {
    let mut key = [7; 16];
    for (i, byte) in name.bytes().enumerate() {
        key[i % 16] ^= byte.rotate_left(i as u32);
    }
    key
}

fn monitor(plan: &Plan, n: usize, boot: &Boot, reign: &Rc<Cell<u64>>, pulse: &Pulse) -> Strict {
    let mut keys = Vec::new();
    let mut entity = |name: &str, caps: &[(&str, &str)]| {
        let caps = caps.iter().map(|(service, text)| (service.to_string(), text.to_string())).collect();
        let name_parsed = name.parse().expect("a well-formed name");
        keys.push(mon::InitialKey { name: name_parsed, key: key_of(name), caps });
    };
    let all = [("mon", "allow *"), ("osd", "allow *"), ("mgr", "allow *")];
    entity("client.admin", &all);
    entity("mon.", &[("mon", "allow *")]);
    for osd in 0..plan.osds {
        entity(&format!("osd.{osd}"), &[("mon", "allow profile osd"), ("osd", "allow *"), ("mgr", "allow profile osd")]);
    }
    let config = mon::Config {
        fsid: FSID,
        name: mon_name(n),
        addrs: address(mon_address(n), 0),
        mgr_name: if n == 0 { "x".into() } else { mon_name(n) },
        mgr_addrs: address(socket(0, 1 + n as u8, 6800), 0),
        host: "sim".into(),
        about: Default::default(),
        auth: if plan.cephx { AuthMode::Cephx } else { AuthMode::None },
        keys,
        options: [
            ("osd_pool_default_pg_autoscale_mode".into(), "off".into()),
            ("mon_level_raise_after".into(), crate::upgrade::RAISED_AFTER.to_string()),
        ]
        .into(),
        join: if n == 0 { Vec::new() } else { monitors(plan).into_iter().take(n).collect() },
        defaults_follow: false,
        levels: plan.levels_of(&format!("mon.{}", mon_name(n))),
        log_bytes: 256 << 10,
        services: std::collections::BTreeMap::new(),
    };
    let mut monitor = Monitor::new(config, boot.seed);
    if plan.few_maps {
        monitor.keep_maps(1);
    }
    if plan.mistake == Some(Mistake::DoneTwice) {
        monitor.forget_answers();
    }
    Strict::new(monitor, plan.mistake, reign.clone(), pulse.clone())
}

/// What stands for the store of an OSD: what it means, whether it was ever ready, how many the OSD had before.
type Made = (Rc<RefCell<Meaning>>, Rc<Cell<bool>>, Rc<Cell<u8>>);

/// The UUID of an OSD's store, after it has lost so many.
pub(crate) fn store_name(number: usize, lost: u8) -> [u8; 16] {
    let mut uuid = [number as u8 + 1; 16];
    uuid[0] = uuid[0].wrapping_add(lost.wrapping_mul(16));
    uuid
}

fn osd(
    plan: &Plan,
    number: usize,
    boot: &Boot,
    meaning: &Made,
    bad: &Bad,
    promises: &Rc<RefCell<Promises>>,
    pulse: &Pulse,
) -> Wayward {
    let nonce = boot.life as u32 + 1;
    let config = OsdConfig {
        fsid: FSID,
        whoami: number as i32,
        uuid: store_name(number, meaning.2.get()),
        addrs: address(socket(1, number as u8, 6800), nonce),
        cluster_addrs: if plan.two_networks { address(socket(2, number as u8, 6800), nonce) } else { EntityAddrVec::default() },
        neighbours: if plan.mail { (0..plan.osds).map(|osd| (osd as i32, mail_id(osd))).collect() } else { BTreeMap::new() },
        monitors: monitors(plan),
        key: plan.cephx.then(|| key_of(&format!("osd.{number}"))),
        metadata: BTreeMap::from([("hostname".into(), "sim".into())]),
        levels: plan.levels_of(&format!("osd.{number}")),
        seed: boot.seed,
        memory: 64 << 20,
        memory_ceiling: Some(64 << 20),
    };
    // What lies scattered comes together all the time in half of all lives.
    let brisk = (plan.moves || boot.seed[9].is_multiple_of(2)) && !plan.rests;
    let compacts = brisk.then_some(if plan.moves { OFTEN } else { COMPACTS });
    let (store, reopen) = open_store(plan, number, brisk, boot, meaning);
    let mut store = Wrapped::new(store, reopen, meaning.1.clone(), plan.mistake, boot.life).in_haste(compacts);
    store.moved = plan.moved.clone();
    if plan.wounds > 0 && (number == 0 || plan.wounds >= TOLD) {
        store = store.wounded(Wounds::new(bad.clone(), plan.wounds, boot.life));
    }
    if number == 0 {
        store = store.impaired_by(plan.impaired.clone());
    }
    let store = Box::new(store);
    let mut osd = Osd::new(config, store);
    osd.cut(plan.sizes);
    if plan.echo {
        osd.hear_twice();
    }
    let osd = Wayward::new(osd, plan.mistake, pulse.clone()).keeping(plan.few_maps.then_some(1)).telling(plan.letters);
    // Who meets damage under a change acknowledges it all the same, and gets the object anew.
    let judges = plan.store == StoreKind::Reference && plan.wounds == 0;
    if judges { osd.judged(number as i32, promises.clone()) } else { osd }
}

/// The store as this start of the OSD opens it, and what to do if making it finds that it is there.
fn open_store(
    plan: &Plan,
    number: usize,
    brisk: bool,
    boot: &Boot,
    (meaning, made, lost): &Made,
) -> (Box<dyn Backend>, Option<Reopen>) {
    let (journal_bytes, memory) = match plan.store {
        StoreKind::Reference => return (Box::new(RefStore::open(meaning.clone(), boot.life + 1)), None),
        StoreKind::Real { journal, memory } => (journal, memory),
    };
    let config = store::Config {
        uuid: store_name(number, lost.get()),
        fsid: FSID,
        whoami: number as i32,
        memory,
        journal_bytes,
        separate_journal: plan.separate_journal,
        // Every second store has some space ready.
        write_ahead: (number as u64 % 2) << 20,
        // Every second store shares nearly all omaps of clones.
        copied_omap: [store::Config::COPIED_OMAP, 100][number % 2],
        replaced: 1 << 20,
        // Every third store has a disk that is told what is free.
        discard: number % 3 == 1,
    };
    let (made, mistake) = (made.get(), plan.mistake);
    let ready = move |mut store: store::Store| {
        if brisk {
            store.defragment_briskly();
        }
        if let Some(Mistake::Moves(mistake)) = mistake {
            store.err_in_moves(mistake);
        }
        Box::new(store)
    };
    if made {
        return (ready(store::Store::open(config)), None);
    }
    let again = config.clone();
    (ready(store::Store::create(config)), Some(Box::new(move || ready(store::Store::open(again)))))
}

fn client<D: objecter::Driver>(plan: &Plan, boot: &Boot, driver: D) -> ClientNode<D> {
    let name = EntityName::new(EntityType::Client, "admin");
    let auth = match plan.cephx {
        true => ClientAuth::cephx(name.clone(), msgr::auth::Key::new(types::UTime::ZERO, key_of("client.admin"))),
        false => ClientAuth::none(name.clone()),
    };
    let nonce = u32::from_le_bytes(boot.seed[..4].try_into().expect("four bytes"));
    let follow_maps = plan.habits.tide == Tide::Empties || plan.reader;
    let config = objecter::Config { monitors: monitors(plan), follow_maps, ..objecter::Config::default() };
    ClientNode::new(msgr::Config::client(name, nonce), Auth::client(auth), config, boot.seed, driver)
}

fn add<N: Node + 'static>(
    world: &mut World,
    name: String,
    listen: Vec<SocketAddr>,
    disks: Vec<DiskConfig>,
    mut make: impl FnMut(Boot) -> N + 'static,
) -> HostId {
    world.add(HostConfig { name, listen, disks, factory: Box::new(move |boot| Box::new(make(boot))) })
}

impl Cluster {
    /// A cluster whose hosts do not run yet.
    pub fn new(seed: u64, plan: Plan) -> Self {
        let mut world = World::new(seed);
        let rng = world.fork_rng();
        let history = Rc::new(RefCell::new(History::default()));
        let mon_disk = DiskConfig { capacity: 64 << 20, ..DiskConfig::default() };
        let listen = |n: usize| vec![mon_address(n), socket(0, 1 + n as u8, 6800)];
        let reigns: Vec<Rc<Cell<u64>>> = (0..plan.mons).map(|_| Rc::default()).collect();
        let mut pulses = BTreeMap::new();
        let mon_pulses: Vec<Pulse> = (0..plan.mons).map(|_| Pulse::default()).collect();
        let mon = match plan.mon {
            MonKind::StandIn => {
                let kept = Rc::new(RefCell::new(standmon::Kept::new(FSID)));
                let make = move |boot: Boot| StandMon::new(address(mon_address(0), 0), kept.clone(), boot.now.mono, boot.seed);
                add(&mut world, "mon.a".into(), listen(0), vec![mon_disk], make)
            }
            MonKind::Real => {
                let (plan, reign, pulse) = (plan.clone(), reigns[0].clone(), mon_pulses[0].clone());
                add(&mut world, "mon.a".into(), listen(0), vec![mon_disk], move |boot| monitor(&plan, 0, &boot, &reign, &pulse))
            }
        };
        let more = (1..plan.mons).map(|n| {
            let (plan, reign, pulse) = (plan.clone(), reigns[n].clone(), mon_pulses[n].clone());
            let disk = DiskConfig { capacity: 64 << 20, ..DiskConfig::default() };
            add(&mut world, format!("mon.{}", mon_name(n)), listen(n), vec![disk], move |boot| {
                monitor(&plan, n, &boot, &reign, &pulse)
            })
        });
        let mons: Vec<HostId> = [mon].into_iter().chain(more.collect::<Vec<_>>()).collect();
        let made: Vec<Rc<Cell<bool>>> = (0..plan.osds).map(|_| Rc::default()).collect();
        let lost: Vec<Rc<Cell<u8>>> = (0..plan.osds).map(|_| Rc::default()).collect();
        let meanings: Vec<Rc<RefCell<Meaning>>> = (0..plan.osds).map(|_| Rc::default()).collect();
        let promises = Rc::new(RefCell::new(Promises::of(meanings.clone())));
        pulses.extend(mons.iter().copied().zip(mon_pulses));
        let bad: Vec<Bad> = (0..plan.osds).map(|_| Bad::default()).collect();
        let mut osds = Vec::new();
        for number in 0..plan.osds {
            let pulse = Pulse::default();
            let made = (meanings[number].clone(), made[number].clone(), lost[number].clone());
            let host = Self::add_osd(&mut world, &plan, number, made, (&promises, &bad[number]), pulse.clone());
            pulses.insert(host, pulse);
            osds.push(host);
        }
        let habits = |n: usize| match plan.reader && n == 0 {
            true => Habits { reads: 100, depth: 8, ..plan.habits.clone() },
            false => plan.habits.clone(),
        };
        let clients = (0..plan.clients).map(|n| Plan { habits: habits(n), ..plan.clone() });
        let mut clients: Vec<_> = clients.enumerate().map(|(n, plan)| Self::add_client(&mut world, &plan, n, &history)).collect();
        for n in plan.clients..plan.clients + plan.emptiers {
            let habits = Habits { tide: Tide::Empties, budget: 0, ..plan.habits.clone() };
            clients.push(Self::add_client(&mut world, &Plan { habits, ..plan.clone() }, n, &history));
        }
        if plan.habits.sources > 0 {
            let habits = Habits { budget: 0, ..plan.habits.clone() };
            let maker = Self::add_client(&mut world, &Plan { habits, ..plan.clone() }, plan.clients + plan.emptiers, &history);
            let sources = (0..plan.habits.sources).map(|n| (format!("s{n}"), source_change(n), None));
            maker.1.borrow_mut().script.extend(sources);
            clients.push(maker);
        }
        let admin_shared = Rc::new(RefCell::new(AdminShared { history: history.clone(), ..AdminShared::default() }));
        let (p, shared) = (plan.clone(), admin_shared.clone());
        let admin = add(&mut world, "admin".into(), vec![], vec![], move |boot| client(&p, &boot, Admin::new(shared.clone())));
        let churn = plan.churn.then(|| {
            let habits = Habits { pool: CHURN_POOL.into(), snaps: Snaps::None, ..plan.habits.clone() };
            let plan = Plan { habits, ..plan.clone() };
            Self::add_client(&mut world, &plan, plan.clients + plan.emptiers + 1, &Rc::default())
        });
        let petitions = Petitions::new(plan.petitioners.0, plan.petitioners.1, plan.petition_readers);
        let petitioners = (0..plan.petitioners.0).map(|n| Self::add_petitioner(&mut world, &plan, n, &petitions)).collect();
        let (wrong, checked) = (None, 0);
        Self {
            world,
            mon,
            mons,
            reigns,
            pulses,
            decrees: Decrees::default(),
            petitions,
            petitioners,
            osds,
            clients,
            admin,
            admin_shared,
            churn,
            shrunk: false,
            history,
            rng,
            plan,
            made,
            lost,
            meanings,
            bad,
            promises,
            wrong,
            seen: Default::default(),
            checked,
            asides: 0,
        }
    }

    fn add_osd(
        world: &mut World,
        plan: &Plan,
        number: usize,
        made: Made,
        (promises, bad): (&Rc<RefCell<Promises>>, &Bad),
        pulse: Pulse,
    ) -> HostId {
        // A reference store's space exists from the start.
        let len = if plan.store == StoreKind::Reference { plan.osd_bytes } else { 0 };
        let disk = DiskConfig { capacity: plan.osd_bytes, len, ..DiskConfig::default() };
        let mut disks = vec![disk];
        if plan.separate_journal {
            disks.push(DiskConfig { capacity: 16 << 20, ..DiskConfig::default() });
        }
        let (plan, meaning, bad, promises) = (plan.clone(), made, bad.clone(), promises.clone());
        let mut listen = vec![socket(1, number as u8, 6800)];
        if plan.two_networks {
            listen.push(socket(2, number as u8, 6800));
        }
        let make = move |boot: &Boot| osd(&plan, number, boot, &meaning, &bad, &promises, &pulse);
        let host = add(world, format!("osd.{number}"), listen, disks, move |boot| make(&boot));
        world.give_address(host, mail_id(number));
        host
    }

    fn add_client(world: &mut World, plan: &Plan, n: usize, history: &Rc<RefCell<History>>) -> (HostId, Rc<RefCell<Shared>>) {
        let shared = Shared::new(history.clone(), plan.habits.budget);
        let (plan, inside, clock) = (plan.clone(), shared.clone(), world.shared_clock());
        let host = add(world, format!("client.{n}"), vec![], vec![], move |boot| {
            client(&plan, &boot, Workload::new(plan.habits.clone(), inside.clone(), boot.seed, clock.clone()))
        });
        (host, shared)
    }

    fn add_petitioner(world: &mut World, plan: &Plan, n: usize, petitions: &Rc<RefCell<Petitions>>) -> HostId {
        let (plan, inside, clock) = (plan.clone(), petitions.clone(), world.shared_clock());
        // Few keys, so that commands meet.
        let keys = 1 + plan.petitioners.0 as u64 / 2;
        add(world, format!("petitioner.{n}"), vec![], vec![], move |boot| {
            let pause = Duration::from_millis(200);
            client(&plan, &boot, Petitioner::new(inside.clone(), n, keys, pause, boot.seed, clock.clone()))
        })
    }

    /// Starts the daemons, makes the pool, waits until all is clean, and starts the clients.
    pub fn begin(&mut self) -> Result<(), String> {
        let mons = self.mons.clone().into_iter();
        let daemons: Vec<HostId> = mons.chain([self.admin]).chain(self.osds.clone()).collect();
        daemons.into_iter().for_each(|host| self.world.start(host));
        let osds = self.plan.osds as u64;
        self.wait_until("all OSDs are up", Duration::from_secs(30), |s| s["osdmap"]["num_up_osds"] == osds)?;
        let (pool, pg_num) = (&self.plan.habits.pool, self.plan.pg_num);
        match self.plan.code {
            Some(code) => self.make_pool_of_shards(code)?,
            None => {
                let create = serde_json::json!({
                    "prefix": "osd pool create", "pool": pool, "pg_num": pg_num, "pgp_num": pg_num, "size": self.plan.size,
                    "format": "json"
                });
                self.command_ok(&create.to_string())?;
            }
        }
        self.set_copies()?;
        let mons = self.plan.mons;
        if mons > 1 {
            let vote = |s: &serde_json::Value| s["quorum_names"].as_array().map(Vec::len) == Some(mons);
            self.wait_until("all monitors vote", Duration::from_secs(30), vote)?;
        }
        self.wait_clean()?;
        self.make_sources()?;
        let clients = self.clients.iter().chain(&self.churn).map(|(host, _)| *host).chain(self.petitioners.clone());
        for host in clients.collect::<Vec<_>>() {
            self.world.start(host);
        }
        Ok(())
    }

    /// All objects of an OSD have rotted. Gives their number.
    pub fn rot_objects(&mut self, osd: usize) -> usize {
        let meaning = self.meanings[osd].borrow();
        let all = meaning.content().objects().filter(|object| object.pool >= 0).cloned().collect::<Vec<_>>();
        let n = all.len();
        self.bad[osd].borrow_mut().extend(all);
        n
    }

    /// Number of objects of an OSD that cannot be read.
    pub fn rotten(&self, osd: usize) -> usize {
        self.bad[osd].borrow().len()
    }

    /// Makes the pool of a code of so many data shards and parities.
    fn make_pool_of_shards(&mut self, (k, m): (usize, usize)) -> Result<(), String> {
        let (pool, pg_num) = (self.plan.habits.pool.clone(), self.plan.pg_num);
        self.command_ok(r#"{"prefix":"config set","who":"mon","name":"mon_allow_erasure","value":"true"}"#)?;
        let words = ["plugin=jerasure", "technique=reed_sol_van", "crush-failure-domain=osd"].map(String::from);
        let words: Vec<String> = words.into_iter().chain([format!("k={k}"), format!("m={m}")]).collect();
        let profile = serde_json::json!({ "prefix": "osd erasure-code-profile set", "name": "sim", "profile": words });
        self.command_ok(&profile.to_string())?;
        let create = serde_json::json!({
            "prefix": "osd pool create", "pool": pool, "pg_num": pg_num, "pgp_num": pg_num, "pool_type": "erasure",
            "erasure_code_profile": "sim", "format": "json"
        });
        self.command_ok(&create.to_string())?;
        let overwrites =
            serde_json::json!({ "prefix": "osd pool set", "pool": pool, "var": "allow_ec_overwrites", "val": "true" });
        self.command_ok(&overwrites.to_string()).map(drop)
    }

    /// Gives the pool its copies.
    fn set_copies(&mut self) -> Result<(), String> {
        if self.plan.size == 1 {
            return Ok(());
        }
        let (pool, least) = (&self.plan.habits.pool, self.plan.min_size.to_string());
        let set = serde_json::json!({ "prefix": "osd pool set", "pool": pool, "var": "min_size", "val": least });
        self.command_ok(&set.to_string())?;
        self.command_ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_min_up_ratio","value":"0"}"#)?;
        // Who was away for some time finds that the log does not reach back that far.
        let entries = *self.rng.pick(&[20, 80, 3000]);
        let entries = if self.plan.few_records { FEW_ENTRIES } else { entries };
        self.configure("osd", "osd_max_pg_log_entries", &entries.to_string());
        // What is older than all that a group remembers is done again. So groups remember few requests only where nobody else can write
        // while a client waits for an answer.
        if self.plan.few_records || self.plan.clients == 1 && self.plan.emptiers == 0 {
            self.configure("osd", "osd_pg_log_dups_tracked", &FEW_RECORDS.to_string());
        }
        // Faults come faster here than operators would bear.
        self.command_ok(r#"{"prefix":"config set","who":"osd","name":"osd_max_markdown_count","value":"100000"}"#)?;
        self.command_ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_adjust_heartbeat_grace","value":"false"}"#)?;
        Ok(())
    }

    /// Makes the objects that clients will copy.
    fn make_sources(&mut self) -> Result<(), String> {
        if self.plan.habits.sources == 0 {
            return Ok(());
        }
        let Some((maker, shared)) = self.clients.last().cloned() else { return Ok(()) };
        self.world.start(maker);
        let made = self.world.run_while(Duration::from_secs(30), |_| !shared.borrow().is_done());
        if made { Ok(()) } else { Err("before anything went wrong, objects cannot be made".into()) }
    }

    /// Sets an option; nobody waits for the answer.
    pub(crate) fn configure(&mut self, who: &str, name: &str, value: &str) {
        self.tell(&serde_json::json!({ "prefix": "config set", "who": who, "name": name, "value": value }).to_string());
    }

    /// Sends a command to the monitor; nobody waits for the answer.
    pub fn tell(&mut self, command: &str) {
        self.world.call(self.admin, command);
    }

    /// Sends a command to the monitor, and gives result, status and output.
    pub fn command(&mut self, json: &str) -> Result<(i32, String, Vec<u8>), String> {
        self.world.call(self.admin, json);
        let shared = self.admin_shared.clone();
        let answered = || shared.borrow().answers.iter().position(|(command, ..)| command == json);
        if !self.world.run_while(Duration::from_secs(60), |_| answered().is_none()) {
            return Err(format!("the monitor does not answer {json}"));
        }
        let at = answered().expect("it was answered");
        let (_, result, status, output) = shared.borrow_mut().answers.remove(at);
        Ok((result, status, output))
    }

    /// The same, for a command that must succeed.
    pub fn command_ok(&mut self, json: &str) -> Result<Vec<u8>, String> {
        match self.command(json)? {
            (0, _, output) => Ok(output),
            (result, status, _) => Err(format!("the monitor answers {json} with {result}: {status}")),
        }
    }

    /// Waits until the cluster's status is as wanted.
    pub fn wait_until(&mut self, what: &str, limit: Duration, wanted: impl Fn(&serde_json::Value) -> bool) -> Result<(), String> {
        let end = self.world.now() + limit;
        loop {
            let output = self.command_ok(r#"{"prefix":"status","format":"json"}"#)?;
            let status: serde_json::Value = serde_json::from_slice(&output).map_err(|e| format!("status is not JSON: {e}"))?;
            if wanted(&status) {
                return Ok(());
            }
            if self.world.now() > end {
                return Err(format!("not within {} s: {what}; the status is {status}", limit.as_secs()));
            }
            self.world.run_for(Duration::from_millis(200));
        }
    }

    /// Waits until all OSDs are up and all placement groups active and clean.
    pub fn wait_clean(&mut self) -> Result<(), String> {
        let (osds, pgs) = (self.plan.osds as u64, u64::from(self.plan.pg_num));
        // Groups are merged one by one.
        let limit = if self.shrunk { 300 } else { 90 };
        self.wait_until("all groups are active and clean", Duration::from_secs(limit), |status| {
            let states = status["pgmap"]["pgs_by_state"].as_array().map_or(&[][..], |v| v);
            let clean = states.iter().filter(|s| s["state_name"] == "active+clean").filter_map(|s| s["count"].as_u64());
            let total = status["pgmap"]["num_pgs"].as_u64().unwrap_or(0);
            status["osdmap"]["num_up_osds"].as_u64() == Some(osds) && total == pgs && clean.sum::<u64>() == total
        })
    }

    /// Returns whether every acknowledged write was whole on all members when it was acknowledged.
    pub(crate) fn kept_promises(&self) -> Result<(), String> {
        self.promises.borrow().broken.clone().map_or(Ok(()), Err)
    }

    /// Returns true if all clients have asked what they wanted and heard the answers.
    pub fn clients_done(&self) -> bool {
        self.clients.iter().all(|(_, shared)| shared.borrow().is_done()) && self.petitions.borrow().is_done()
    }

    /// Waits for the clients.
    pub fn wait_clients(&mut self, limit: Duration) -> Result<(), String> {
        let clients: Vec<Rc<RefCell<Shared>>> = self.clients.iter().map(|(_, s)| s.clone()).collect();
        let done = |_: &mut World| !clients.iter().all(|s| s.borrow().is_done());
        if self.world.run_while(limit, done) {
            return Ok(());
        }
        let open: Vec<usize> = clients.iter().map(|s| s.borrow().open).collect();
        Err(format!("operations hang: {} s after the faults, clients still wait for {open:?}", limit.as_secs()))
    }

    /// One client looks at everything there is.
    pub fn look_at_everything(&mut self) -> Result<(), String> {
        let snaps: Vec<u64> = match self.plan.habits.snaps {
            Snaps::None => Vec::new(),
            Snaps::Own => self.history.borrow().own_snaps.1.clone(),
            Snaps::Pool => self.history.borrow().pool_snaps().into_iter().map(|(_, id)| id).collect(),
        };
        let places = || [None].into_iter().chain(snaps.iter().copied().map(Some));
        let mut script = Vec::new();
        for n in 0..self.plan.habits.objects {
            let object = format!("o{n}");
            for at in places() {
                let actions = [Action::Read, Action::OmapGet, Action::GetXattrs, Action::OmapHeader];
                script.extend(actions.into_iter().map(|action| (object.clone(), action, at)));
            }
            let calls = [Action::VersionRead, Action::RefRead, Action::SparseRead, Action::Stat];
            script.extend(calls.into_iter().map(|action| (object.clone(), action, None)));
        }
        self.perform(script)
    }

    /// The client that looks at everything and deletes it: one for whom a full cluster is no obstacle, if there is any.
    pub(crate) fn speaker(&self) -> (HostId, Rc<RefCell<Shared>>) {
        let nth = if self.plan.emptiers > 0 { self.plan.clients } else { 0 };
        self.clients[nth].clone()
    }

    /// It is asked to do this, in any order.
    pub(crate) fn ask(&mut self, script: Vec<(String, Action, Option<u64>)>) {
        let (host, shared) = self.speaker();
        shared.borrow_mut().script.extend(script);
        self.world.start(host);
        // The client sleeps until something happens to it.
        self.world.call(host, "");
    }

    /// One client does this, in any order.
    pub fn perform(&mut self, script: Vec<(String, Action, Option<u64>)>) -> Result<(), String> {
        self.ask(script);
        self.wait_clients(Duration::from_secs(60))
    }

    /// Starts every host that should run and does not.
    pub fn start_all(&mut self) {
        for host in self.world.hosts() {
            self.start(host);
        }
    }

    /// Starts a host that does not run. An OSD's disk is looked at before, sometimes: what crashes leave must be whole.
    pub fn start(&mut self, host: HostId) {
        if self.world.is_up(host) {
            return;
        }
        if let Some(number) = self.osds.iter().position(|osd| *osd == host)
            && self.rng.one_in(4)
        {
            self.check_store(number);
        }
        self.world.start(host);
    }

    /// The failures that hosts ended with.
    pub fn failed(&self) -> Vec<(String, String)> {
        let failed = self.world.hosts().filter_map(|h| match self.world.state(h) {
            HostState::Failed(why) => Some((self.world.name(h).to_string(), why.clone())),
            _ => None,
        });
        failed.collect()
    }
}
