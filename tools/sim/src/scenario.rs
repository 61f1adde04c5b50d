//! Scenarios: what cluster, what clients, what goes wrong; and how a run is judged.

use crate::cluster::{Cluster, MonKind, Plan, SILENT, StoreKind};
use crate::fault::{COPIES, DEATHS, Fault, GENTLE, LIFE, MONITORS, Nemesis, PEERS, UNEVEN};
use crate::mistake::Mistake;
use crate::rng::Rng;
use crate::storeworld::{StoreFault, StorePlan, StoreTown};
use crate::voters::VoterTown;
use crate::workload::{Habits, Snaps, Tide};
use crate::world::Crash;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// What lives in the world of a scenario.
pub enum Kind {
    /// A whole cluster, made by this plan, and what goes wrong with it; repeated faults are likelier.
    Cluster(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// The same, with heartbeats of OSDs that must be heard again when nothing goes wrong any more.
    Peers(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// The same, with several monitors, whose answers to commands are judged, too.
    Quorum(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// A cluster whose pools have several copies, which must be equal when nothing goes wrong any more.
    Copies(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// A cluster whose pool has shards, which must be the code of each other when nothing goes wrong any more.
    Shards(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// A cluster of copies. At the end all OSDs lose their disks: no group may come to be anew.
    Replaced(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// The same. For a while the store of one OSD takes no writes, as a page of its index cannot be read.
    Impaired(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// The same. Scrubs must find what is wrong with a copy, and nothing else.
    Scrubbed(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// A cluster whose daemons get newer programs one after the other.
    Upgraded(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// A cluster whose monitor must know who is down, and nobody else.
    Downs(fn(&mut Rng) -> Plan),
    /// A cluster in trouble, in which nobody does anything, and no machine is busy.
    Idle(fn(&mut Rng) -> Plan),
    /// The same with faults that last: what is lost stays lost, and the cluster may stay broken. Wrong content is wrong all the
    /// same.
    Rotten(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// A cluster whose disks fill up and are emptied, and what goes wrong meanwhile.
    Tides(fn(&mut Rng) -> Plan, &'static [&'static [Fault]]),
    /// A store alone, and what goes wrong with it.
    Store(&'static [StoreFault]),
    /// The same, of which groups of shards ask for what only they need.
    StoreOfShards(&'static [StoreFault]),
    /// A store alone. Its objects are brought together all the time; in half of the runs its journal has a disk of its own.
    Moving(&'static [StoreFault]),
    /// The same, whose liveness is judged behind faults, too; its journal has a disk of its own, if so said.
    Lively(&'static [StoreFault], bool),
    /// The same on a disk that is told what is free, with objects that move while they are in use.
    Discards(&'static [StoreFault]),
    /// A store alone, whose disk rots while it is stopped.
    Rot,
    /// The monitors' log alone.
    Voters,
}

/// A kind of run.
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Longest pause between two faults.
    pub pause: Duration,
    /// What lives in it.
    pub kind: Kind,
}

/// A store whose disk is asked for everything and whose journal is turned over often.
const SMALL: StoreKind = StoreKind::Real { journal: 1 << 20, memory: 4 << 20 };

fn varied(rng: &mut Rng) -> Plan {
    let habits = Habits {
        objects: rng.between(1, 6),
        depth: rng.between(1, 8) as usize,
        pause: Duration::from_millis(rng.magnitude(0, 200)),
        budget: rng.between(40, 160) as usize,
        largest: rng.magnitude(100, 200_000),
        rare: *rng.pick(&[0, 20, 60]),
        snaps: *rng.pick(&[Snaps::None, Snaps::Pool, Snaps::Own]),
        watched: rng.below(3),
        ..Habits::default()
    };
    Plan {
        separate_journal: rng.one_in(4),
        churn: rng.one_in(3),
        osds: rng.between(1, 3) as usize,
        clients: rng.between(1, 3) as usize,
        habits,
        pg_num: 1 << rng.below(4),
        cephx: rng.one_in(3),
        mon: MonKind::Real,
        store: SMALL,
        ..Plan::default()
    }
}

fn varied_reference(rng: &mut Rng) -> Plan {
    let plan = varied(rng);
    let habits = Habits { snaps: Snaps::None, ..plan.habits };
    Plan { store: StoreKind::Reference, mon: MonKind::StandIn, separate_journal: false, churn: false, habits, ..plan }
}

fn busy_reference(rng: &mut Rng) -> Plan {
    let habits = Habits { pause: Duration::from_millis(4), budget: 300, depth: 8, largest: 1000, ..Habits::default() };
    Plan { habits, osds: 1, clients: 2, ..varied_reference(rng) }
}

/// Small disks, and objects that do not fit on them all together.
fn full(rng: &mut Rng) -> Plan {
    let plan = varied(rng);
    let (osds, clients, osd_bytes) = (rng.between(1, 2), rng.between(1, 3), rng.between(4, 7) << 20);
    let largest = osds * rng.between(96 << 10, 192 << 10);
    let objects = 3 * osds * osd_bytes / (2 * largest);
    let habits = Habits {
        objects,
        depth: rng.between(1, 6) as usize,
        pause: Duration::from_millis(rng.between(20, 80)),
        budget: (objects * rng.between(3, 6) / clients) as usize,
        largest,
        snaps: Snaps::None,
        watched: 0,
        tide: Tide::Fills,
        ..plan.habits
    };
    let (osds, clients, emptiers) = (osds as usize, clients as usize, rng.between(1, 2) as usize);
    Plan { osds, clients, emptiers, osd_bytes, habits, churn: false, ..plan }
}

/// Several OSDs, and clients that copy objects most of the time.
fn peers(rng: &mut Rng) -> Plan {
    let plan = varied(rng);
    let habits = Habits {
        sources: rng.between(2, 8),
        objects: rng.between(2, 8),
        pause: Duration::from_millis(rng.magnitude(100, 500)),
        budget: rng.between(80, 250) as usize,
        watched: 0,
        ..plan.habits
    };
    Plan { osds: rng.between(2, 3) as usize, echo: rng.one_in(2), mail: rng.one_in(4), churn: false, habits, ..plan }
}

/// Three monitors.
fn quorum(rng: &mut Rng) -> Plan {
    let plan = varied(rng);
    let habits = Habits {
        snaps: Snaps::None,
        pause: Duration::from_millis(rng.between(100, 400)),
        budget: rng.between(100, 300) as usize,
        depth: rng.between(1, 3) as usize,
        ..plan.habits
    };
    Plan { mons: 3, osds: rng.between(1, 2) as usize, clients: rng.between(1, 2) as usize, churn: false, habits, ..plan }
}

/// Three or five monitors, and several clients that give them commands.
fn petitioned(rng: &mut Rng) -> Plan {
    let plan = quorum(rng);
    let (mons, petitioners) = (*rng.pick(&[3, 3, 5]), (rng.between(2, 5) as usize, rng.between(40, 120) as usize));
    let habits = Habits { budget: 20, ..plan.habits };
    Plan { mons, petitioners, osds: 1, clients: 1, store: StoreKind::Reference, separate_journal: false, habits, ..plan }
}

/// Three monitors. Some clients of them only read, all the time: who reads from a monitor that is cut off waits for nothing else.
fn deposed(rng: &mut Rng) -> Plan {
    let plan = petitioned(rng);
    Plan { mons: 3, petitioners: (rng.between(4, 6) as usize, 60), petition_readers: 2, ..plan }
}

/// Pools of several copies.
fn copies_of(rng: &mut Rng) -> Plan {
    let plan = varied(rng);
    let osds = rng.between(3, 6);
    let size = rng.between(2, osds.min(4)) as u32;
    let min_size = rng.between(1, u64::from(size)) as u32;
    let habits = Habits {
        pause: Duration::from_millis(rng.magnitude(50, 400)),
        watched: 0,
        asides: 40,
        sources: 4,
        copies: 12,
        ..plan.habits
    };
    let store = if rng.one_in(2) { StoreKind::Reference } else { plan.store };
    let separate_journal = plan.separate_journal && store != StoreKind::Reference;
    let (echo, mail, osds) = (rng.one_in(2), rng.one_in(4), osds as usize);
    Plan { osds, size, min_size, store, separate_journal, echo, mail, churn: false, habits, ..plan }
}

/// Pools of shards, on as many OSDs or one more.
fn shards_of(rng: &mut Rng) -> Plan {
    let plan = copies_of(rng);
    let (k, m) = *rng.pick(&[(2, 1), (2, 2), (2, 2), (4, 2)]);
    let (size, spare) = (k + m, rng.below(2) as usize);
    let min_size = rng.between(k as u64, (k + 1) as u64) as u32;
    let habits = Habits { asides: 0, sources: 0, no_omap: true, ..plan.habits };
    Plan { osds: size + spare, size: size as u32, min_size, code: Some((k, m)), mail: false, habits, ..plan }
}

/// The same, one group, few objects that are written all the time, over a store that is trusted.
fn shards_dense(rng: &mut Rng) -> Plan {
    let plan = shards_of(rng);
    let habits = Habits {
        objects: rng.between(1, 3),
        pause: Duration::from_millis(30),
        budget: 200,
        largest: rng.magnitude(2_000, 200_000),
        snaps: Snaps::None,
        rare: 0,
        ..plan.habits
    };
    Plan { pg_num: 1, store: StoreKind::Reference, separate_journal: false, clients: 2, habits, ..plan }
}

/// The same, one group, few objects that are written all the time, over a store that is trusted.
fn copies_dense(rng: &mut Rng) -> Plan {
    let plan = copies_of(rng);
    let habits = Habits {
        objects: rng.between(1, 3),
        pause: Duration::from_millis(20),
        budget: 250,
        largest: 2_000,
        snaps: Snaps::None,
        rare: 0,
        ..plan.habits
    };
    Plan { pg_num: 1, store: StoreKind::Reference, separate_journal: false, clients: 2, habits, ..plan }
}

/// One client with more under way than the groups' logs keep, and groups that remember few requests beside them.
fn few_records(rng: &mut Rng) -> Plan {
    let plan = copies_dense(rng);
    let habits =
        Habits { pause: Duration::from_millis(5), depth: 60, budget: 500, asides: 0, sources: 0, largest: 500, ..plan.habits };
    Plan { clients: 1, few_records: true, habits, ..plan }
}

/// As many OSDs as copies, each of which may serve alone.
fn copies_in_turn(rng: &mut Rng) -> Plan {
    let plan = copies_dense(rng);
    let size = rng.between(2, 3);
    let habits = Habits { pause: Duration::from_millis(100), budget: 250, ..plan.habits };
    Plan { osds: size as usize, size: size as u32, min_size: 1, mail: false, habits, ..plan }
}

/// Two OSDs with two copies, each of which may serve alone.
fn pairs(rng: &mut Rng) -> Plan {
    let plan = copies_in_turn(rng);
    let habits = Habits { objects: rng.between(1, 3), budget: 500, ..plan.habits };
    Plan { osds: 2, size: 2, min_size: 1, clients: 2, echo: false, habits, ..plan }
}

/// Few objects that are read and written all the time by several clients; who is cut off is missed by nobody.
fn islands(rng: &mut Rng) -> Plan {
    let plan = copies_dense(rng);
    // Writes under way when the OSD is cut off would keep all reads behind them.
    // So would reads at other copies, which cannot be sent back from there.
    // And so would copies, which wait for others.
    let habits =
        Habits { objects: 6, pause: Duration::from_millis(150), budget: 500, depth: 1, asides: 0, sources: 0, ..plan.habits };
    let (osds, clients) = (rng.between(3, 4) as usize, rng.between(2, 3) as usize);
    Plan { osds, size: 3, min_size: rng.between(1, 2) as u32, clients, reader: true, mail: false, habits, ..plan }
}

/// Over the real store, which takes its time to stop.
fn farewells(rng: &mut Rng) -> Plan {
    let plan = islands(rng);
    Plan { store: SMALL, ..plan }
}

/// One copy of each of some objects on three OSDs, in few groups at first: what one OSD says is all that is known.
fn divided(rng: &mut Rng) -> Plan {
    let plan = varied(rng);
    let habits = Habits {
        objects: rng.between(6, 16),
        depth: rng.between(1, 4) as usize,
        pause: Duration::from_millis(rng.magnitude(50, 400)),
        budget: rng.between(150, 300) as usize,
        ..plan.habits
    };
    Plan { osds: 3, pg_num: 2, churn: false, habits, ..plan }
}

/// Two copies on four OSDs, groups that move when one of them is taken out.
fn strayed(rng: &mut Rng) -> Plan {
    let plan = copies_in_turn(rng);
    Plan { osds: 4, size: 2, min_size: rng.between(1, 2) as u32, pg_num: 4, ..plan }
}

/// Three copies on three OSDs, each of which may serve alone, and hardly any changes of maps that are kept.
fn forgotten(rng: &mut Rng) -> Plan {
    let plan = copies_in_turn(rng);
    let habits = Habits { budget: 500, ..plan.habits };
    Plan { osds: 3, size: 3, min_size: 1, few_maps: true, habits, ..plan }
}

/// Two copies on four OSDs, each of which may serve alone, and hardly any changes of maps that are kept.
fn moved(rng: &mut Rng) -> Plan {
    let plan = copies_in_turn(rng);
    let habits = Habits { budget: 800, ..plan.habits };
    Plan { osds: 4, size: 2, min_size: 1, pg_num: rng.between(1, 4) as u32, few_maps: true, habits, ..plan }
}

/// Three copies of many objects, of which some are written and read while they rot.
fn rotten_everywhere(rng: &mut Rng) -> Plan {
    let plan = copies_stalled(rng);
    let habits = Habits { objects: rng.between(40, 60), depth: 4, budget: 400, ..plan.habits };
    Plan { osds: 3, size: 3, min_size: 1, habits, ..plan }
}

/// Three OSDs with real stores that bring together what lies scattered all the time, and a few objects large enough for that.
fn moving(rng: &mut Rng) -> Plan {
    let plan = copies_of(rng);
    let habits = Habits {
        objects: rng.between(2, 6),
        largest: rng.between(64 << 10, 250 << 10),
        pause: Duration::from_millis(rng.between(50, 300)),
        ..plan.habits
    };
    let (size, separate_journal) = (rng.between(2, 3) as u32, rng.one_in(2));
    Plan { osds: 3, size, min_size: 1, store: SMALL, moves: true, separate_journal, habits, ..plan }
}

/// Many objects that are written seldom, and clients that keep snapshots themselves and hear late that some are gone.
fn late_contexts(rng: &mut Rng) -> Plan {
    let plan = copies_in_turn(rng);
    let habits = Habits {
        objects: rng.between(40, 120),
        pause: Duration::from_millis(300),
        budget: rng.between(200, 400) as usize,
        snaps: Snaps::Own,
        sources: 0,
        ..plan.habits
    };
    Plan { osds: 3, size: rng.between(2, 3) as u32, pg_num: 2, habits, ..plan }
}

/// The same, all of whose reads go to any copy.
fn asides(rng: &mut Rng) -> Plan {
    let plan = islands(rng);
    let habits = Habits { asides: 100, near: rng.one_in(2), ..plan.habits };
    Plan { habits, ..plan }
}

/// Daemons with programs of the first level, which get those of today.
fn upgrading(rng: &mut Rng) -> Plan {
    let plan = copies_of(rng);
    let mons = *rng.pick(&[1, 3]);
    let names =
        (0..mons).map(|n| format!("mon.{}", char::from(b'a' + n as u8))).chain((0..plan.osds).map(|n| format!("osd.{n}")));
    let programs = names.map(|name| (name, types::Levels::UNSAID)).collect::<BTreeMap<_, _>>();
    let habits = Habits { pause: Duration::from_millis(rng.between(100, 400)), budget: 250, snaps: Snaps::None, ..plan.habits };
    Plan { mons, programs: Some(std::rc::Rc::new(std::cell::RefCell::new(programs))), habits, ..plan }
}

/// Pools of two or three copies with several groups, in which something is written all the time.
fn copies_merged(rng: &mut Rng) -> Plan {
    let plan = copies_of(rng);
    let habits = Habits {
        objects: rng.between(4, 16),
        pause: Duration::from_millis(rng.magnitude(50, 400)),
        budget: rng.between(150, 300) as usize,
        ..plan.habits
    };
    let (osds, size) = (rng.between(3, 4) as usize, rng.between(2, 3) as u32);
    Plan { osds, size, min_size: rng.between(1, u64::from(size)) as u32, pg_num: rng.between(2, 8) as u32, habits, ..plan }
}

/// Two or three copies on four OSDs over stores that are trusted, few groups and objects, and clients that ask for long.
fn copies_united(rng: &mut Rng) -> Plan {
    let plan = copies_merged(rng);
    let habits = Habits {
        objects: rng.between(4, 8),
        depth: rng.between(2, 6) as usize,
        pause: Duration::from_millis(rng.between(200, 600)),
        budget: 250,
        ..plan.habits
    };
    let pg_num = rng.between(2, 4) as u32;
    Plan { osds: 4, pg_num, store: StoreKind::Reference, separate_journal: false, mail: false, habits, ..plan }
}

/// Three copies of few objects over stores that are trusted, and that do not see it when one of them is spoilt.
fn copies_scrubbed(rng: &mut Rng) -> Plan {
    let plan = copies_of(rng);
    let habits = Habits {
        objects: rng.between(2, 12),
        pause: Duration::from_millis(rng.between(10, 100)),
        budget: rng.between(100, 250) as usize,
        ..plan.habits
    };
    let (osds, size, min_size) = (rng.between(3, 5) as usize, 3, rng.between(1, 2) as u32);
    Plan { osds, size, min_size, store: StoreKind::Reference, separate_journal: false, habits, ..plan }
}

/// Three copies of few objects; the first OSD needs old data now and then that are damaged.
fn copies_wounded(rng: &mut Rng) -> Plan {
    let plan = copies_scrubbed(rng);
    Plan { min_size: 2, wounds: rng.magnitude(3, 30), ..plan }
}

/// Two or three copies of few objects that several clients ask for at once; objects of all OSDs may rot.
fn copies_stalled(rng: &mut Rng) -> Plan {
    let plan = copies_in_turn(rng);
    let habits = Habits { objects: rng.between(6, 16), depth: 8, sources: 0, asides: 0, budget: 250, ..plan.habits };
    Plan { min_size: plan.size, clients: 3, wounds: SILENT, habits, ..plan }
}

/// Two copies on three OSDs of one group, whose log is short, and clients that write all the time.
fn flooded(rng: &mut Rng) -> Plan {
    let plan = copies_dense(rng);
    let habits = Habits {
        objects: rng.between(60, 120),
        depth: 8,
        pause: Duration::from_millis(10),
        budget: 1_500,
        reads: 10,
        sources: 0,
        asides: 0,
        ..plan.habits
    };
    Plan { osds: 3, size: 2, min_size: 1, clients: 3, mail: false, habits, ..plan }
}

/// Two or three copies, all of whose writes two copies have at least, on OSDs that lose their disks.
fn copies_replaced(rng: &mut Rng) -> Plan {
    let plan = copies_of(rng);
    let habits = Habits {
        objects: rng.between(4, 30),
        pause: Duration::from_millis(rng.between(50, 200)),
        budget: rng.between(200, 400) as usize,
        ..plan.habits
    };
    let trapped = rng.one_in(2);
    let (osds, size) = if trapped { (3, 3) } else { (rng.between(3, 5), rng.between(2, 3)) };
    let osds = osds as usize;
    Plan { osds, size: size as u32, min_size: 2, pg_num: rng.between(1, 4) as u32, cephx: false, habits, ..plan }
}

/// Three copies of one group whose log is short.
fn copies_refilled(rng: &mut Rng) -> Plan {
    let plan = copies_in_turn(rng);
    let habits = Habits {
        objects: rng.between(4, 12),
        pause: Duration::from_millis(rng.between(30, 80)),
        budget: 500,
        sources: 0,
        ..plan.habits
    };
    Plan { osds: 3, size: 3, min_size: 2, clients: 3, cephx: false, habits, ..plan }
}

/// Three copies; the first OSD's store will take no writes for a while. Sometimes the OSDs are as many as the copies.
fn copies_impaired(rng: &mut Rng) -> Plan {
    let plan = copies_scrubbed(rng);
    Plan { min_size: 2, impaired: Some(Rc::new(Cell::new(false))), ..plan }
}

/// Several OSDs with little to do.
fn watched(rng: &mut Rng) -> Plan {
    let habits = Habits { pause: Duration::from_millis(200), budget: 20, snaps: Snaps::None, ..Habits::default() };
    let (osds, mail) = (rng.between(2, 5) as usize, rng.one_in(5));
    let two_networks = rng.one_in(3);
    let (mon, store) = (MonKind::Real, StoreKind::Reference);
    let plan = Plan { osds, clients: 1, pg_num: 4, mon, store, mail, two_networks, habits, ..Plan::default() };
    if !two_networks {
        return plan;
    }
    // Copies, and clients that write all the while.
    let size = rng.between(2, 3.min(osds as u64)) as u32;
    let habits = Habits { pause: Duration::from_millis(rng.between(100, 500)), budget: 300, objects: 8, ..plan.habits.clone() };
    Plan { size, min_size: rng.between(1, size.into()) as u32, clients: 2, habits, ..plan }
}

/// Clusters of any size, with one or three monitors and few operations.
fn idle(rng: &mut Rng) -> Plan {
    let osds = rng.between(1, 5);
    let size = rng.between(1, osds.min(3)) as u32;
    let habits = Habits { watched: rng.below(2), ..varied(rng).habits };
    let habits = Habits { pause: Duration::from_millis(100), budget: 20, snaps: Snaps::None, tide: Tide::None, ..habits };
    let plan = varied(rng);
    Plan {
        mons: *rng.pick(&[1, 1, 3]),
        osds: osds as usize,
        size,
        min_size: rng.between(1, u64::from(size)) as u32,
        mail: rng.one_in(5),
        store: if rng.one_in(3) { StoreKind::Reference } else { plan.store },
        separate_journal: false,
        rests: true,
        churn: false,
        habits,
        ..plan
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// All scenarios.
pub const ALL: &[Scenario] = &[
    Scenario { name: "calm", about: "nothing goes wrong", pause: SECOND, kind: Kind::Cluster(varied, &[]) },
    Scenario {
        name: "life",
        about: "nothing goes wrong; snapshots and pools come and go, groups split and are merged",
        pause: Duration::from_millis(300),
        kind: Kind::Cluster(varied, &[LIFE]),
    },
    Scenario {
        name: "network",
        about: "connections break, hosts are cut off, clocks jump",
        pause: Duration::from_millis(300),
        kind: Kind::Cluster(varied, &[GENTLE, GENTLE, LIFE]),
    },
    Scenario {
        name: "peers",
        about: "objects are copied between OSDs, whose connections break, are cut both ways or one way, are late, and repeat messages",
        pause: Duration::from_millis(200),
        kind: Kind::Peers(peers, &[PEERS, PEERS, &[Fault::SlowNetwork, Fault::BreakAtByte, Fault::BreakAtByte]]),
    },
    Scenario {
        name: "peers-deaths",
        about: "the same, and groups split, and processes die",
        pause: Duration::from_millis(500),
        kind: Kind::Peers(peers, &[PEERS, &[Fault::OsdKill, Fault::OsdPower, Fault::OsdStop, Fault::MonKill, Fault::Split]]),
    },
    Scenario {
        name: "copies",
        about: "pools of two to four copies, whose OSDs die, freeze, are slow, do not hear each other",
        pause: SECOND,
        kind: Kind::Copies(copies_of, &[COPIES, UNEVEN, &[Fault::MonKill, Fault::ClientKill, Fault::Snap, Fault::SnapRemove]]),
    },
    Scenario {
        name: "copies-dense",
        about: "the same with few objects that are written all the time, and OSDs that die all the time",
        pause: Duration::from_millis(500),
        kind: Kind::Copies(
            copies_dense,
            &[COPIES, UNEVEN, &[Fault::OsdKill, Fault::OsdPower, Fault::OsdAtWrite, Fault::OsdFreeze]],
        ),
    },
    Scenario {
        name: "copies-moves",
        about: "stores bring together what lies scattered all the time, and lose power, die in their disk writes, are killed meanwhile",
        pause: Duration::from_millis(800),
        kind: Kind::Copies(
            moving,
            &[&[
                Fault::OsdKill,
                Fault::OsdPower,
                Fault::OsdPower,
                Fault::OsdAtWrite,
                Fault::OsdAtWrite,
                Fault::Snap,
                Fault::SnapRemove,
            ]],
        ),
    },
    Scenario {
        name: "copies-turns",
        about: "one of two or three copies serves alone, and dies before the others come back without it",
        pause: Duration::from_secs(4),
        kind: Kind::Copies(copies_in_turn, &[&[Fault::TakeTurns, Fault::TakeTurns, Fault::OsdKill, Fault::OsdFreeze]]),
    },
    Scenario {
        name: "copies-traps",
        about: "two copies: changes wait on a slow disk when power is cut, words of an earlier interval come late, who serves is not heard",
        pause: Duration::from_secs(4),
        kind: Kind::Copies(pairs, &[&[Fault::SlowTail, Fault::LateWord, Fault::UnheardReign]]),
    },
    Scenario {
        name: "shards",
        about: "pools of shards of several codes, whose OSDs die, freeze, are slow, do not hear each other",
        pause: SECOND,
        kind: Kind::Shards(shards_of, &[COPIES, &[Fault::MonKill, Fault::ClientKill, Fault::Snap, Fault::SnapRemove]]),
    },
    Scenario {
        name: "shards-turns",
        about: "few objects in shards that are written all the time, and OSDs that die all the time, more than one at once",
        pause: Duration::from_millis(400),
        kind: Kind::Shards(
            shards_dense,
            &[
                COPIES,
                &[Fault::OsdKill, Fault::OsdPower, Fault::OsdAtWrite, Fault::OsdAtWrite, Fault::OsdFreeze, Fault::PeerOneWay],
            ],
        ),
    },
    Scenario {
        name: "shards-torn",
        about: "the same, and power is cut everywhere in the middle of changes that reach only some shards",
        pause: Duration::from_millis(700),
        kind: Kind::Shards(
            shards_dense,
            &[&[
                Fault::Blackout,
                Fault::Blackout,
                Fault::OsdAtWrite,
                Fault::OsdPower,
                Fault::PeerOneWay,
                Fault::PeerPartition,
                Fault::SlowDisk,
            ]],
        ),
    },
    Scenario {
        name: "merges",
        about: "groups of several copies split and are merged all the time, while their OSDs die",
        pause: Duration::from_millis(1500),
        kind: Kind::Copies(
            copies_merged,
            &[
                &[Fault::Split; 8],
                &[Fault::OsdKill, Fault::OsdPower, Fault::OsdAtWrite, Fault::OsdAtWrite, Fault::OsdStop, Fault::OsdFreeze],
                &[Fault::MonKill, Fault::Snap, Fault::SnapRemove],
            ],
        ),
    },
    Scenario {
        name: "merges-traps",
        about: "a group is merged while a client hears no answers, or while an OSD with old copies is away",
        pause: Duration::from_secs(3),
        kind: Kind::Copies(copies_united, &[&[Fault::DeafMerge, Fault::AbsentMerge]]),
    },
    Scenario {
        name: "splits",
        about: "groups of one copy split and move at once, while their OSDs hear of it late and die: nobody denies what is to come out of a split",
        pause: Duration::from_millis(1500),
        kind: Kind::Cluster(
            divided,
            &[&[Fault::LateSplit; 6], &[Fault::OsdKill, Fault::OsdPower, Fault::OsdAtWrite, Fault::MonKill]],
        ),
    },
    Scenario {
        name: "islands",
        about: "an OSD is cut off together with a client, while others serve without it: no read is older than an answered write",
        pause: Duration::from_secs(6),
        kind: Kind::Copies(islands, &[&[Fault::Island, Fault::Island, Fault::Exile, Fault::OsdFreeze]]),
    },
    Scenario {
        name: "farewells",
        about: "an OSD is stopped cleanly and hears late that it is down, as does a client that reads: no read is older than an answered write",
        pause: Duration::from_secs(3),
        kind: Kind::Copies(farewells, &[&[Fault::Farewell]]),
    },
    Scenario {
        name: "amnesias",
        about: "an OSD is cut off together with a client that reads, and all others start anew: no read is older than an answered write",
        pause: Duration::from_secs(3),
        kind: Kind::Copies(islands, &[&[Fault::Amnesia]]),
    },
    Scenario {
        name: "sleepers",
        about: "a host with an OSD and a client that reads sleeps, while others serve: no read is older than an answered write",
        pause: Duration::from_secs(4),
        kind: Kind::Copies(islands, &[&[Fault::Suspend]]),
    },
    Scenario {
        name: "strays",
        about: "an OSD that is no member any more tells what only it has, and is gone for long: the others go on without it",
        pause: Duration::from_secs(3),
        kind: Kind::Copies(strayed, &[&[Fault::StrayDies]]),
    },
    Scenario {
        name: "blackouts",
        about: "two copies lose power when one has a change, and again while it is brought to the other: nothing acknowledged is lost",
        pause: Duration::from_secs(3),
        kind: Kind::Copies(pairs, &[&[Fault::TwoBlackouts]]),
    },
    Scenario {
        name: "late-snaps",
        about: "snapshots are made and removed while OSDs die, and clients write with contexts that still name those that are gone: no clone stays",
        pause: Duration::from_millis(1_500),
        kind: Kind::Copies(
            late_contexts,
            &[&[Fault::Snap, Fault::Snap, Fault::SnapRemove, Fault::SnapRemove, Fault::OsdKill, Fault::OsdStop]],
        ),
    },
    Scenario {
        name: "floods",
        about: "a copy is filled whose disk does nothing, while clients write much and nobody is marked down: what is under way to it has a bound",
        pause: Duration::from_millis(2_500),
        kind: Kind::Copies(flooded, &[&[Fault::Flood]]),
    },
    Scenario {
        name: "disks-lost",
        about: "OSDs lose their disks and come back empty, under the old number or a new one, while others die, freeze and do not hear each other",
        pause: Duration::from_millis(2_500),
        kind: Kind::Replaced(copies_replaced, &[COPIES, &[Fault::DiskLost; 12]]),
    },
    Scenario {
        name: "disks-filled",
        about: "an OSD loses its disk, the only one that has all begins to fill the new one and dies: the others wait for it",
        pause: Duration::from_millis(2_500),
        kind: Kind::Replaced(copies_refilled, &[&[Fault::DiskFilled]]),
    },
    Scenario {
        name: "few-records",
        about: "a client hears no answers for a while, with more under way than the log keeps: what is remembered of requests is enough",
        pause: SECOND,
        kind: Kind::Copies(
            few_records,
            &[&[Fault::Deaf, Fault::Deaf, Fault::Deaf, Fault::OsdKill, Fault::PeerBreak, Fault::OsdFreeze]],
        ),
    },
    Scenario {
        name: "gaps",
        about: "an OSD is away for more maps than are kept, while another one serves alone, which is away when the first returns",
        pause: Duration::from_secs(3),
        kind: Kind::Copies(forgotten, &[&[Fault::SkippedMaps]]),
    },
    Scenario {
        name: "gaps-moved",
        about: "an OSD is away for more maps than are kept, while its groups move to others, which are away when it returns",
        pause: Duration::from_secs(2),
        kind: Kind::Copies(moved, &[&[Fault::MovedAway]]),
    },
    Scenario {
        name: "rot-everywhere",
        about: "objects rot at all members of a group, and one that is no member any more has them as they were: nobody reads that",
        pause: Duration::from_millis(1_500),
        kind: Kind::Rotten(rotten_everywhere, &[&[Fault::RotEverywhere]]),
    },
    Scenario {
        name: "asides",
        about: "clients read from any copy, while OSDs are cut off together with a client, and changes reach copies at different times",
        pause: Duration::from_secs(5),
        kind: Kind::Copies(
            asides,
            &[&[Fault::Island, Fault::Island, Fault::SlowNetwork, Fault::SlowNetwork, Fault::PeerOneWay, Fault::SlowDisk]],
        ),
    },
    Scenario {
        name: "copies-scrub",
        about: "groups of three copies are scrubbed while clients write and OSDs die; then a copy is spoilt, and repaired",
        pause: Duration::from_millis(700),
        kind: Kind::Scrubbed(copies_scrubbed, &[COPIES, &[Fault::Scrub; 12], &[Fault::Snap, Fault::Snap, Fault::SnapRemove]]),
    },
    Scenario {
        name: "upgrade",
        about: "daemons get newer programs one after the other, and some go back, while OSDs and monitors die; then the level is raised",
        pause: SECOND,
        kind: Kind::Upgraded(upgrading, &[COPIES, &[Fault::MonKill, Fault::MonKill, Fault::MonPower]]),
    },
    Scenario {
        name: "copies-index",
        about: "a page of the index of one of three copies cannot be read for a while: the others go on without it, and nobody gets an error",
        pause: Duration::from_millis(700),
        kind: Kind::Impaired(
            copies_impaired,
            &[&[Fault::OsdFreeze, Fault::PeerBreak, Fault::SlowNetwork, Fault::SlowDisk, Fault::Snap, Fault::SnapRemove]],
        ),
    },
    Scenario {
        name: "copies-rot",
        about: "one of three copies meets damage while it carries changes out: it gets the objects anew, and all copies are equal",
        pause: Duration::from_millis(700),
        kind: Kind::Copies(
            copies_wounded,
            &[&[
                Fault::OsdFreeze,
                Fault::PeerBreak,
                Fault::PeerPartition,
                Fault::PeerOneWay,
                Fault::SlowNetwork,
                Fault::SlowDisk,
                Fault::BreakAtByte,
                Fault::NoRoom,
                Fault::NoRoom,
                Fault::Snap,
                Fault::SnapRemove,
            ]],
        ),
    },
    Scenario {
        name: "rot-beside",
        about: "objects rot at one copy while changes of them wait at the others, which have no room: what was acknowledged is read",
        pause: Duration::from_millis(1_500),
        kind: Kind::Copies(copies_stalled, &[&[Fault::RotBeside]]),
    },
    Scenario {
        name: "downs",
        about: "OSDs die, freeze, get the processor late, are cut off: who is down is known in time, and nobody else is called so",
        pause: SECOND,
        kind: Kind::Downs(watched),
    },
    Scenario {
        name: "idle",
        about: "clusters without monitors, without peers, full, damaged, suspended, cut off, in which nobody asks for anything: nobody is busy",
        pause: SECOND,
        kind: Kind::Idle(idle),
    },
    Scenario {
        name: "deaths",
        about: "processes are killed and power is cut, also in the middle of disk writes",
        pause: Duration::from_millis(600),
        kind: Kind::Cluster(varied, &[DEATHS, LIFE, &[Fault::OsdAtWrite, Fault::OsdAtWrite, Fault::OsdPower]]),
    },
    Scenario {
        name: "deaths-ref",
        about: "the same over a store that is trusted: what fails here is above the store",
        pause: Duration::from_millis(600),
        kind: Kind::Cluster(varied_reference, &[DEATHS, &[Fault::OsdAtWrite, Fault::OsdAtWrite]]),
    },
    Scenario {
        name: "torn",
        about: "OSDs die in the middle of their disk writes, again and again, over a store that is trusted",
        pause: Duration::from_millis(100),
        kind: Kind::Cluster(busy_reference, &[&[Fault::OsdAtWrite]]),
    },
    Scenario {
        name: "disks",
        about: "disks are slow, stuck, fail or give wrong bytes; hosts are full",
        pause: Duration::from_millis(500),
        kind: Kind::Cluster(
            varied,
            &[
                &[
                    Fault::SlowDisk,
                    Fault::StuckDisk,
                    Fault::ReadErrors,
                    Fault::WriteErrors,
                    Fault::WrongReads,
                    Fault::HostFull,
                    Fault::OsdPower,
                ],
                &[Fault::Snap, Fault::SnapRemove, Fault::Split, Fault::Pool],
            ],
        ),
    },
    Scenario {
        name: "flushes",
        about: "flushes of disks find no space, while OSDs die and hosts are full",
        pause: Duration::from_millis(500),
        kind: Kind::Cluster(
            varied,
            &[&[
                Fault::FlushFull,
                Fault::FlushFull,
                Fault::FlushFull,
                Fault::HostFull,
                Fault::SlowDisk,
                Fault::OsdPower,
                Fault::Snap,
            ]],
        ),
    },
    Scenario {
        name: "full",
        about: "disks fill up until writes must wait, and are emptied, again and again, beside deaths, bad connections and slow disks",
        pause: Duration::from_millis(500),
        kind: Kind::Tides(
            full,
            &[
                DEATHS,
                &[Fault::OsdAtWrite, Fault::SlowNetwork, Fault::Partition],
                &[Fault::Break, Fault::Break, Fault::Break, Fault::BreakAtByte, Fault::BreakAtByte],
                &[Fault::SlowDisk, Fault::SlowDisk, Fault::SlowDisk, Fault::StuckDisk, Fault::HostFull],
            ],
        ),
    },
    Scenario {
        name: "misdirected",
        about: "OSDs' writes go to other places of their disks: EIO, or a store that says why it stops, but nothing wrong",
        pause: Duration::from_millis(300),
        kind: Kind::Rotten(varied, &[&[Fault::WrongWrites, Fault::WrongWrites, Fault::OsdStop, Fault::Snap, Fault::SnapRemove]]),
    },
    Scenario {
        name: "rot",
        about: "bits of the disks flip for good, and OSDs are restarted: EIO, or a store that says why it stops, but nothing wrong",
        pause: Duration::from_millis(500),
        kind: Kind::Rotten(
            varied,
            &[&[Fault::Rot, Fault::Rot, Fault::Rot, Fault::OsdKill, Fault::OsdStop, Fault::OsdPower, Fault::Snap]],
        ),
    },
    Scenario {
        name: "mon-rot",
        about: "bits of the monitor's disk flip for good, and it is restarted: it serves what it promised, or says why it stops",
        pause: Duration::from_millis(500),
        kind: Kind::Rotten(
            varied,
            &[&[Fault::MonRot, Fault::MonKill, Fault::MonPower, Fault::OsdKill, Fault::Snap, Fault::SnapRemove, Fault::Pool]],
        ),
    },
    Scenario {
        name: "quorum",
        about: "three monitors, which are killed, lose power and are cut off both ways or one way, while commands are given",
        pause: Duration::from_millis(1000),
        kind: Kind::Quorum(quorum, &[MONITORS, &[Fault::Break, Fault::Partition, Fault::SlowNetwork, Fault::OsdKill]]),
    },
    Scenario {
        name: "petitions",
        about: "several clients set, read and remove values, while the monitor that leads dies, is cut off or frozen, one is replaced, and disks are slow",
        pause: Duration::from_millis(1500),
        kind: Kind::Quorum(
            petitioned,
            &[
                &[Fault::LeaderKill, Fault::LeaderAtWrite, Fault::LeaderCut, Fault::LeaderCut, Fault::LeaderFreeze],
                &[Fault::LeaderFreeze, Fault::MonReplace, Fault::MonKill, Fault::MonPartition, Fault::Break],
                &[Fault::MonSlowDisk, Fault::MonSlowDisk, Fault::LeaderKill, Fault::MonPartition, Fault::MonPower],
            ],
        ),
    },
    Scenario {
        name: "deposed",
        about: "some clients only read values and others set them, while the monitor that leads is cut off, frozen, dies: no read is old",
        pause: Duration::from_millis(3000),
        kind: Kind::Quorum(deposed, &[&[Fault::LeaderCut, Fault::LeaderCut, Fault::LeaderFreeze, Fault::LeaderKill]]),
    },
    Scenario {
        name: "everything",
        about: "all of it at once",
        pause: Duration::from_millis(400),
        kind: Kind::Cluster(varied, &[GENTLE, DEATHS, LIFE, &[Fault::SlowDisk, Fault::StuckDisk, Fault::HostFull]]),
    },
    Scenario {
        name: "store",
        about: "a store alone: it dies at any moment, in its writes above all",
        pause: Duration::from_millis(200),
        kind: Kind::Store(&[
            StoreFault::Power,
            StoreFault::Kill,
            StoreFault::AtWrite,
            StoreFault::AtWrite,
            StoreFault::AtWrite,
            StoreFault::Stop,
        ]),
    },
    Scenario {
        name: "store-disks",
        about: "a store alone on a disk that is slow, fails, gives wrong bytes, is full; it dies, too",
        pause: Duration::from_millis(200),
        kind: Kind::Store(&[
            StoreFault::Slow,
            StoreFault::ReadErrors,
            StoreFault::WriteErrors,
            StoreFault::WrongReads,
            StoreFault::HostFull,
            StoreFault::AtWrite,
        ]),
    },
    Scenario {
        name: "store-flush",
        about: "a store alone whose flushes find no space, once and for ever: it stops and says so, and what it took on ends or is decided",
        pause: Duration::from_millis(60),
        kind: Kind::Lively(
            &[StoreFault::FlushFull, StoreFault::FlushFull, StoreFault::HostFull, StoreFault::Slow, StoreFault::AtWrite],
            false,
        ),
    },
    Scenario {
        name: "store-journal",
        about: "a store alone with a disk for its journal: each of the two is slow, fails, is full, and power is lost",
        pause: Duration::from_millis(60),
        kind: Kind::Lively(
            &[
                StoreFault::Slow,
                StoreFault::Slow,
                StoreFault::WriteErrors,
                StoreFault::HostFull,
                StoreFault::FlushFull,
                StoreFault::AtWrite,
                StoreFault::AtWrite,
                StoreFault::Power,
                StoreFault::Stop,
            ],
            true,
        ),
    },
    Scenario {
        name: "store-discard",
        about: "a store alone whose disk is told what is free, and whose objects are brought together: it dies, is slow, fails",
        pause: Duration::from_millis(150),
        kind: Kind::Discards(&[
            StoreFault::Slow,
            StoreFault::ReadErrors,
            StoreFault::WriteErrors,
            StoreFault::AtWrite,
            StoreFault::AtWrite,
            StoreFault::Power,
            StoreFault::Kill,
            StoreFault::Stop,
        ]),
    },
    Scenario {
        name: "store-shards",
        about: "a store alone with changes that take in what is there, as erasure codes need them: it dies, its disk is slow, fails, reads wrong",
        pause: Duration::from_millis(150),
        kind: Kind::StoreOfShards(&[
            StoreFault::AtWrite,
            StoreFault::AtWrite,
            StoreFault::AtWrite,
            StoreFault::Power,
            StoreFault::Kill,
            StoreFault::Stop,
            StoreFault::Slow,
            StoreFault::ReadErrors,
            StoreFault::WriteErrors,
            StoreFault::HostFull,
        ]),
    },
    Scenario {
        name: "store-moves",
        about: "a store alone whose objects are brought together all the time: power is lost between a part's data and its record",
        pause: Duration::from_millis(60),
        kind: Kind::Moving(&[
            StoreFault::AtMove,
            StoreFault::AtMove,
            StoreFault::AtMove,
            StoreFault::AtWrite,
            StoreFault::Power,
            StoreFault::Kill,
            StoreFault::Slow,
        ]),
    },
    Scenario {
        name: "store-rot",
        about: "a store alone: bits of its disk flip while it is stopped",
        pause: SECOND,
        kind: Kind::Rot,
    },
    Scenario {
        name: "voters",
        about: "three to five voters of the monitors' log alone: they die in their disk writes, and messages are lost, doubled, late, cut one way",
        pause: SECOND,
        kind: Kind::Voters,
    },
];

/// A scenario by name.
pub fn by_name(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|s| s.name == name)
}

/// What may be changed about a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print every event.
    pub trace: bool,
    /// Log the letters that OSDs hear of each other, too. The run is the same, its hash is not.
    pub letters: bool,
    /// Put this into all stores, OSDs and monitors, or into all voters of the monitors' log.
    pub mistake: Option<Mistake>,
    /// All OSD disks claim that writes are durable, and lie.
    pub lying_disks: bool,
    /// Instead of the scenario's store.
    pub store: Option<StoreKind>,
    /// A count of the bytes of memory in use, which is judged while a cluster rests.
    pub memory: Option<fn() -> u64>,
    /// Instead of the scenario's monitor.
    pub mon: Option<MonKind>,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Tells it from other runs.
    pub hash: u64,
    /// Events in the world.
    pub events: u64,
    /// Virtual time.
    pub time: Duration,
    /// Operations that were asked.
    pub asked: usize,
    /// Operations that were answered.
    pub answered: usize,
    /// Faults.
    pub faults: u64,
    /// Answers that were errors, by number.
    pub errors: BTreeMap<i32, u64>,
    /// Objects whose history was too wild to judge.
    pub undecided: u64,
    /// Reads that copies answered which do not lead, where that was counted.
    pub asides: u64,
    /// Parts of objects that the stores brought together.
    pub moved: u64,
}

/// A run that is not as it must be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub what: String,
    /// The run up to there.
    pub report: Report,
    /// The last log lines.
    pub tail: Vec<String>,
}

/// Runs a scenario from a seed.
pub fn run(scenario: &Scenario, seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    let rng = Rng::new(seed ^ crate::trace::digest(scenario.name.as_bytes()));
    match scenario.kind {
        Kind::Cluster(plan, faults) => run_cluster(scenario, plan, faults, rng, options, act),
        Kind::Quorum(plan, faults) => run_cluster(scenario, plan, faults, rng, options, reigns),
        Kind::Peers(plan, faults) => run_cluster(scenario, plan, faults, rng, options, copies),
        Kind::Copies(plan, faults) => run_cluster(scenario, plan, faults, rng, options, equal_copies),
        Kind::Replaced(plan, faults) => run_cluster(scenario, plan, faults, rng, options, replaced_disks),
        Kind::Impaired(plan, faults) => run_cluster(scenario, plan, faults, rng, options, impaired_copy),
        Kind::Shards(plan, faults) => run_cluster(scenario, plan, faults, rng, options, whole_shards),
        Kind::Upgraded(plan, faults) => run_cluster(scenario, plan, faults, rng, options, upgraded),
        Kind::Scrubbed(plan, faults) => run_cluster(scenario, plan, faults, rng, options, scrubbed_copies),
        Kind::Downs(plan) => run_cluster(scenario, plan, &[], rng, options, downs),
        Kind::Idle(plan) => run_cluster(scenario, plan, &[], rng, options, idles),
        Kind::Tides(plan, faults) => run_cluster(scenario, plan, faults, rng, options, tides),
        Kind::Rotten(plan, faults) => run_cluster(scenario, plan, faults, rng, options, rot),
        Kind::Store(faults) => run_store(scenario, Some(faults), rng, options, |plan| plan),
        Kind::Lively(faults, separate_journal) => {
            run_store(scenario, Some(faults), rng, options, |plan| StorePlan { judged: true, large: 4, separate_journal, ..plan })
        }
        Kind::Discards(faults) => {
            let told = |plan| StorePlan { discard: true, judged: true, large: 3, capacity: 96 << 20, ..plan };
            run_store(scenario, Some(faults), rng, options, told)
        }
        Kind::StoreOfShards(faults) => {
            let mut rng = rng;
            let large = *rng.pick(&[0, 4]);
            run_store(scenario, Some(faults), rng, options, |plan| StorePlan { shards: true, large, ..plan })
        }
        Kind::Moving(faults) => {
            let mut rng = rng;
            let (separate_journal, objects) = (rng.one_in(2), rng.between(2, 8));
            let largest = rng.between(64 << 10, 300 << 10);
            let moving =
                |plan| StorePlan { moves: true, separate_journal, objects, largest, large: 3, capacity: 96 << 20, ..plan };
            run_store(scenario, Some(faults), rng, options, moving)
        }
        Kind::Rot => run_store(scenario, None, rng, options, |plan| plan),
        Kind::Voters => run_voters(rng, options),
    }
}

fn store_plan(rng: &mut Rng) -> StorePlan {
    StorePlan {
        scopes: rng.between(1, 3),
        objects: rng.between(1, 12),
        budget: rng.between(50, 400),
        pause: Duration::from_micros(rng.magnitude(0, 20_000)),
        largest: rng.magnitude(100, 300_000),
        large: 0,
        capacity: 256 << 20,
        journal: 1 << 20,
        memory: 4 << 20,
        separate_journal: false,
        discard: false,
        moves: false,
        shards: false,
        judged: false,
        mistake: None,
    }
}

/// Bits that rot at most.
const FLIPS: u64 = 50;

fn run_store(
    scenario: &Scenario,
    faults: Option<&[StoreFault]>,
    mut rng: Rng,
    options: &Options,
    as_told: impl Fn(StorePlan) -> StorePlan,
) -> Result<Report, Box<Failure>> {
    let seed = rng.next();
    let plan = StorePlan { mistake: options.mistake, ..as_told(store_plan(&mut rng)) };
    let mut town = StoreTown::new(seed, plan);
    town.world.trace.print = options.trace;
    let verdict = match faults {
        Some(faults) => town.live(&mut rng, faults, scenario.pause),
        None => town.rot(&mut rng, FLIPS),
    };
    let shared = town.shared.borrow();
    let trace = &town.world.trace;
    let report = Report {
        hash: trace.hash(),
        events: trace.events(),
        time: town.world.now(),
        asked: shared.counts.iter().sum::<u64>() as usize,
        answered: shared.counts[0] as usize,
        faults: *verdict.as_ref().unwrap_or(&0),
        moved: shared.moved,
        ..Report::default()
    };
    verdict.map(|_| report.clone()).map_err(|what| Box::new(Failure { what, report, tail: trace.tail().cloned().collect() }))
}

fn run_voters(mut rng: Rng, options: &Options) -> Result<Report, Box<Failure>> {
    let mistake = options.mistake.and_then(Mistake::of_monitors);
    let mut town = VoterTown::new(rng.next(), mistake);
    town.trace.print = options.trace;
    let verdict = town.live();
    let done = town.done;
    let report = Report {
        hash: town.trace.hash(),
        events: town.trace.events(),
        time: town.time(),
        asked: (done.asked + done.reads) as usize,
        answered: (done.answered + done.reads) as usize,
        faults: done.faults,
        ..Report::default()
    };
    verdict
        .map(|()| report.clone())
        .map_err(|what| Box::new(Failure { what, report, tail: town.trace.tail().cloned().collect() }))
}

fn run_cluster(
    scenario: &Scenario,
    plan: fn(&mut Rng) -> Plan,
    faults: &[&[Fault]],
    mut rng: Rng,
    options: &Options,
    act: Act,
) -> Result<Report, Box<Failure>> {
    let mut plan = plan(&mut rng);
    (plan.mistake, plan.letters) = (options.mistake, options.letters);
    plan.store = options.store.unwrap_or(plan.store);
    plan.mon = options.mon.unwrap_or(plan.mon);
    plan.cephx &= plan.mon == MonKind::Real;
    let mut cluster = Cluster::new(rng.next(), plan);
    cluster.world.trace.print = options.trace;
    cluster.world.memory = options.memory;
    let mut nemesis = Nemesis::new(faults.concat(), scenario.pause);
    let verdict = act(&mut cluster, &mut nemesis, options);
    let report = report(&cluster, &nemesis);
    match verdict {
        Ok(undecided) => Ok(Report { undecided, ..report }),
        Err(what) => Err(Box::new(Failure { what, report, tail: cluster.world.trace.tail().cloned().collect() })),
    }
}

/// What is done with a cluster; gives how many histories could not be judged.
type Act = fn(&mut Cluster, &mut Nemesis, &Options) -> Result<u64, String>;

fn act(cluster: &mut Cluster, nemesis: &mut Nemesis, options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    if options.lying_disks {
        for osd in cluster.osds.clone() {
            cluster.world.disk(osd, 0).faults.lies = true;
        }
    }
    nemesis.rage(cluster, Duration::from_secs(120));
    nemesis.relent(cluster)?;
    cluster.wait_clients(Duration::from_secs(120))?;
    let undecided = settle(cluster)?;
    cluster.check_empty()?;
    Ok(undecided)
}

/// Sessions between OSDs that break, and come back.
fn copies(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    nemesis.rage(cluster, Duration::from_secs(120));
    nemesis.relent(cluster)?;
    cluster.wait_clients(Duration::from_secs(120))?;
    cluster.check_beats()?;
    let undecided = settle(cluster)?;
    cluster.check_empty()?;
    Ok(undecided)
}

/// Monitors that come and go.
fn reigns(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    nemesis.rage(cluster, Duration::from_secs(120));
    nemesis.relent(cluster)?;
    cluster.end_decrees()?;
    cluster.wait_clients(Duration::from_secs(120))?;
    let undecided = settle(cluster)?;
    cluster.check_empty()?;
    Ok(undecided)
}

/// Several copies, and what goes wrong with them.
fn equal_copies(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    nemesis.rage(cluster, Duration::from_secs(90));
    nemesis.relent(cluster)?;
    cluster.wait_clients(Duration::from_secs(120))?;
    cluster.wait_clean()?;
    cluster.check_copies()?;
    cluster.scrub_the_untrusted()?;
    cluster.count_asides()?;
    let undecided = settle(cluster)?;
    cluster.check_empty()?;
    Ok(undecided)
}

/// Shards, and what goes wrong with them.
fn whole_shards(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    nemesis.rage(cluster, Duration::from_secs(90));
    nemesis.relent(cluster)?;
    cluster.wait_clients(Duration::from_secs(120))?;
    cluster.wait_clean()?;
    cluster.check_copies()?;
    let undecided = settle(cluster)?;
    cluster.check_empty()?;
    Ok(undecided)
}

/// Disks that are lost, one at a time, and at last all of them.
fn replaced_disks(cluster: &mut Cluster, nemesis: &mut Nemesis, options: &Options) -> Result<u64, String> {
    let undecided = equal_copies(cluster, nemesis, options)?;
    cluster.start_all();
    cluster.lose_everything()?;
    Ok(undecided)
}

/// Several copies, one of which can take no writes from some moment on: all writes end all the same, without it, and with no error.
/// When the page can be read again the OSD comes back, and all copies are equal.
fn impaired_copy(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    let Some(impaired) = cluster.plan.impaired.clone() else { return Err("no store is to be impaired".into()) };
    cluster.begin()?;
    cluster.wait_clean()?;
    let before = Duration::from_millis(cluster.rng.between(500, 8_000));
    nemesis.rage(cluster, before);
    nemesis.relent(cluster)?;
    impaired.set(true);
    nemesis.count += 1;
    cluster.wait_clients(Duration::from_secs(120))?;
    let others = cluster.plan.osds as u64 - 1;
    cluster.wait_until("the OSD that takes no writes is down", Duration::from_secs(30), |status| {
        status["osdmap"]["num_up_osds"].as_u64() == Some(others)
    })?;
    impaired.set(false);
    cluster.wait_clean()?;
    cluster.check_copies()?;
    let undecided = settle(cluster)?;
    cluster.check_empty()?;
    Ok(undecided)
}

/// Programs of different levels, until all are of today and the level is raised.
fn upgraded(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    cluster.upgrade(nemesis)?;
    nemesis.relent(cluster)?;
    if cluster.plan.mons > 1 {
        cluster.end_decrees()?;
    }
    cluster.wait_clients(Duration::from_secs(120))?;
    cluster.wait_level()?;
    cluster.wait_clean()?;
    cluster.check_copies()?;
    let undecided = settle(cluster)?;
    cluster.check_empty()?;
    Ok(undecided)
}

/// Copies that are compared while they change, and when one of them is spoilt.
fn scrubbed_copies(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    nemesis.rage(cluster, Duration::from_secs(60));
    nemesis.relent(cluster)?;
    cluster.wait_clients(Duration::from_secs(120))?;
    cluster.wait_clean()?;
    cluster.check_copies()?;
    cluster.scrub_finds_nothing()?;
    nemesis.count += cluster.spoil_and_mend()? as u64;
    let undecided = settle(cluster)?;
    cluster.check_empty()?;
    Ok(undecided)
}

/// OSDs die, freeze, are slow, are cut off: who is down is known soon, and nobody else is called so.
fn downs(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    nemesis.count += cluster.judge_downs()?;
    if !cluster.plan.two_networks {
        return Ok(0);
    }
    cluster.wait_clients(Duration::from_secs(120))?;
    cluster.wait_clean()?;
    cluster.check_copies()?;
    settle(cluster)
}

/// Nobody asks for anything, and the cluster is in trouble.
fn idles(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    cluster.wait_clients(Duration::from_secs(120))?;
    nemesis.count += cluster.judge_idle()?;
    Ok(0)
}

/// Disks that fill up and are emptied, while things go wrong and while nothing does.
fn tides(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    cluster.history.borrow_mut().was_full = true;
    let used_at_first = cluster.used()?;
    nemesis.rage(cluster, Duration::from_secs(60));
    nemesis.relent(cluster)?;
    cluster.wait_clients(Duration::from_secs(120))?;
    cluster.wait_clean()?;
    for _ in 0..cluster.rng.between(1, 2) {
        cluster.tide()?;
    }
    cluster.end_tides()?;
    let undecided = settle(cluster)?;
    cluster.check_refusals()?;
    cluster.check_drained(used_at_first)?;
    cluster.check_empty()?;
    // No disk was broken: whoever stopped was told to, or killed.
    match cluster.world.gave_up.first() {
        Some(who) => Err(format!("without broken disks, a daemon gave up: {who}")),
        None => Ok(undecided),
    }
}

/// Nothing goes wrong any more, and all clients were answered: what was promised is there. Then everything is deleted.
fn settle(cluster: &mut Cluster) -> Result<u64, String> {
    cluster.wait_told()?;
    cluster.end_churn()?;
    cluster.wait_clean()?;
    cluster.look_at_everything()?;
    // What was acknowledged is there after the power was cut everywhere.
    for osd in cluster.osds.clone() {
        cluster.world.crash(osd, Crash::Power);
    }
    for mon in cluster.mons.clone() {
        cluster.world.crash(mon, Crash::Power);
    }
    cluster.world.run_for(SECOND);
    cluster.start_all();
    cluster.look_at_everything()?;
    cluster.wait_clean()?;
    cluster.kept_promises()?;
    if let Some(wrong) = &cluster.wrong {
        return Err(wrong.clone());
    }
    let undecided = cluster.history.borrow().check()?;
    cluster.delete_everything()?;
    // Groups do not look as if they trimmed before their OSD has the map and has told.
    cluster.world.run_for(TRIMMING);
    cluster.wait_clean()?;
    cluster.judge_rest("all faults are over, and all is deleted")?;
    Ok(undecided)
}

/// Virtual time that snapshots and pools get to go, before groups are asked whether they are done.
const TRIMMING: Duration = Duration::from_secs(15);

/// How long a cluster gets to say what it still can, when its disks have rotted.
const LAST_WORDS: Duration = Duration::from_secs(40);

/// Faults that last. Whoever stops must say why (a machine that panics ends the run); what is answered must be right.
fn rot(cluster: &mut Cluster, nemesis: &mut Nemesis, _options: &Options) -> Result<u64, String> {
    cluster.begin()?;
    cluster.history.borrow_mut().rotten = true;
    nemesis.rage(cluster, Duration::from_secs(60));
    nemesis.relent(cluster)?;
    // Both may fail: what is broken stays broken.
    let _ = cluster.wait_clients(LAST_WORDS);
    cluster.clients.iter().for_each(|(_, shared)| shared.borrow_mut().left = 0);
    let _ = cluster.look_at_everything();
    cluster.history.borrow().check()
}

fn report(cluster: &Cluster, nemesis: &Nemesis) -> Report {
    let history = cluster.history.borrow();
    let mut errors: BTreeMap<i32, u64> = BTreeMap::new();
    for (_, shared) in &cluster.clients {
        for (number, count) in &shared.borrow().errors {
            *errors.entry(*number).or_default() += count;
        }
    }
    Report {
        hash: cluster.world.trace.hash(),
        events: cluster.world.trace.events(),
        time: cluster.world.now(),
        asked: history.entries.len(),
        answered: history.answered(),
        faults: nemesis.count,
        errors,
        undecided: 0,
        asides: cluster.asides,
        moved: cluster.plan.moved.get(),
    }
}
