//! What goes wrong, when, and for how long.

use crate::cluster::Cluster;
use crate::disk::Disk;
use crate::vitals::Talk;
use crate::world::{Crash, HostId, World};
use std::collections::BTreeSet;
use std::time::Duration;
use types::ObjectId;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An OSD's process is killed.
    OsdKill,
    /// An OSD loses power.
    OsdPower,
    /// An OSD dies in one of its next disk writes.
    OsdAtWrite,
    /// An OSD is stopped as it should be.
    OsdStop,
    /// The monitor's process is killed.
    MonKill,
    /// The monitor loses power.
    MonPower,
    /// The monitor dies in one of its next disk writes.
    MonAtWrite,
    /// Everything loses power at once.
    Blackout,
    /// A client is killed.
    ClientKill,
    /// A connection breaks.
    Break,
    /// The connection that carries some byte breaks there.
    BreakAtByte,
    /// Two hosts cannot reach each other for a while.
    Partition,
    /// A connection between two OSDs breaks.
    PeerBreak,
    /// Two OSDs cannot reach each other for a while.
    PeerPartition,
    /// What an OSD says does not reach another one for a while.
    PeerOneWay,
    /// Two monitors cannot reach each other for a while.
    MonPartition,
    /// What a monitor says does not reach another one for a while.
    MonOneWay,
    /// Each write takes up to 3 s at some monitors' disks, for a while.
    MonSlowDisk,
    /// Everything is late for a while.
    SlowNetwork,
    /// A disk is up to 1000 times slower for a while.
    SlowDisk,
    /// A disk does nothing for a while.
    StuckDisk,
    /// An OSD's disk fails some reads for a while.
    ReadErrors,
    /// An OSD's disk fails some writes for a while.
    WriteErrors,
    /// An OSD's disk gives wrong bytes for some reads for a while.
    WrongReads,
    /// The file system below an OSD's disk is full for a while.
    HostFull,
    /// Flushes of an OSD's disk find no space for a while.
    FlushFull,
    /// A wall clock jumps.
    ClockJump,
    /// Some of an OSD's writes go to another place for a while.
    WrongWrites,
    /// A bit of an OSD's disk flips for good.
    Rot,
    /// A bit of the monitor's disk flips for good.
    MonRot,
    /// All OSDs but one die; that one serves alone for a while and dies, and the others come back before it does.
    TakeTurns,
    /// An OSD and a client hear each other, and neither hears the other OSDs and the monitors.
    Island,
    /// The monitor that leads dies.
    LeaderKill,
    /// It dies in one of its next disk writes.
    LeaderAtWrite,
    /// It and the other monitors do not hear each other for a while, both ways or one way.
    LeaderCut,
    /// It gets no processor for a while.
    LeaderFreeze,
    /// A monitor is removed, and another one with an empty disk comes in its place.
    MonReplace,
    /// A copy whose disk was slow serves alone after a power cut.
    SlowTail,
    /// What a copy told in an earlier interval comes late.
    LateWord,
    /// An OSD serves alone, and dies before the monitors hear of it.
    UnheardReign,
    /// An OSD is cut off together with a client, as in an island, and an operator calls it down at once.
    Exile,
    /// An OSD is stopped as it should be, and does not hear that it is down; nor does a client that reads.
    Farewell,
    /// As Exile, with longer promises, and those who promised are started anew.
    Amnesia,
    /// An OSD that is no member any more tells of a change that nobody else has, and its host is switched off for long.
    StrayDies,
    /// Power is cut when a change waits on a slow disk, and again when the same object is being brought there.
    TwoBlackouts,
    /// An OSD is away for so many maps that it goes on with a full one. Meanwhile another one serves alone, and is away when it returns.
    SkippedMaps,
    /// An OSD is away for so many maps. Meanwhile its groups move to others, which are away when it returns; nobody else has kept a copy.
    MovedAway,
    /// Objects rot at all members of a group, while one that is no member any more has them as they were.
    RotEverywhere,
    /// Objects rot at the OSD that leads while changes wait at the others, which have no room for them.
    RotBeside,
    /// A host with an OSD and a client sleeps, and others serve meanwhile.
    Suspend,
    /// A copy is to be filled whose disk does nothing for a while, and nobody may be marked down.
    Flood,
    /// An OSD loses its disk and gets an empty one: under its old number, or as one that was never there. Only when all groups are clean.
    DiskLost,
    /// The same, and the one that has everything dies when it has just begun to fill the empty disk.
    DiskFilled,
    /// Heartbeats are rarer or denser from now on, and promises longer or shorter.
    BeatInterval,
    /// Nobody is marked down for a while, whoever does not answer.
    NoDown,
    /// An OSD hears nothing of the monitors for a while.
    LateMaps,
    /// An OSD has no room for data for a while.
    NoRoom,
    /// A group is merged while a client waits for answers that are lost.
    DeafMerge,
    /// What OSDs answer a client is lost for a while. Then it asks again.
    Deaf,
    /// A group is merged while an OSD that has old copies of it is away.
    AbsentMerge,
    /// The pool gets more groups, of which an OSD hears late.
    LateSplit,
    /// An OSD gets no processor for a while.
    OsdFreeze,
    /// No fault: a snapshot is made.
    Snap,
    /// No fault: a snapshot is removed.
    SnapRemove,
    /// No fault: the pool's groups split, or some are merged.
    Split,
    /// No fault: an OSD scrubs the groups that it leads.
    Scrub,
    /// No fault: a pool is made, or removed with all that is in it.
    Pool,
}

/// What happens to a cluster that is used, without anything going wrong.
pub const LIFE: &[Fault] = &[Fault::Snap, Fault::Snap, Fault::SnapRemove, Fault::Split, Fault::Pool];

/// Faults that nothing but time, connections and processes suffer from.
pub const GENTLE: &[Fault] = &[Fault::Break, Fault::BreakAtByte, Fault::Partition, Fault::SlowNetwork, Fault::ClockJump];
/// Faults between OSDs.
pub const PEERS: &[Fault] = &[Fault::PeerBreak, Fault::PeerBreak, Fault::PeerPartition, Fault::PeerOneWay, Fault::PeerOneWay];
/// Faults between monitors, and of their processes.
pub const MONITORS: &[Fault] = &[
    Fault::MonKill,
    Fault::MonKill,
    Fault::MonPower,
    Fault::MonAtWrite,
    Fault::MonPartition,
    Fault::MonOneWay,
    Fault::MonOneWay,
];
/// What copies must bear: their OSDs die, freeze, are late, do not hear each other.
pub const COPIES: &[Fault] = &[
    Fault::OsdKill,
    Fault::OsdPower,
    Fault::OsdAtWrite,
    Fault::OsdStop,
    Fault::OsdFreeze,
    Fault::PeerBreak,
    Fault::PeerPartition,
    Fault::PeerOneWay,
    Fault::SlowNetwork,
    Fault::SlowDisk,
    Fault::BreakAtByte,
];
/// Faults of processes and power.
pub const DEATHS: &[Fault] = &[
    Fault::OsdKill,
    Fault::OsdPower,
    Fault::OsdAtWrite,
    Fault::OsdStop,
    Fault::MonKill,
    Fault::MonPower,
    Fault::MonAtWrite,
    Fault::Blackout,
    Fault::ClientKill,
];

/// What must be borne beside all else: an operator who sets other times, monitors that are not heard.
pub const UNEVEN: &[Fault] = &[Fault::BeatInterval, Fault::NoDown, Fault::LateMaps];
/// Takes [`Fault::NoDown`] back.
const ALLOW_DOWN: &str = r#"{"prefix":"osd unset","key":"nodown"}"#;

/// Something that ends later.
#[derive(Debug)]
pub(crate) enum Later {
    Start(HostId),
    Heal,
    FastNetwork,
    MendDisk(HostId),
    /// Who does not answer is marked down again.
    Downs,
    /// There is room everywhere.
    Room,
}

/// Makes things go wrong.
pub struct Nemesis {
    faults: Vec<Fault>,
    /// Longest pause between two faults.
    pause: Duration,
    pub(crate) later: Vec<(Duration, Later)>,
    next: Duration,
    /// Objects that rotted once.
    pub(crate) rotten: BTreeSet<ObjectId>,
    /// What OSDs wrote to each other until the last look.
    talk: Talk,
    /// What it did.
    pub count: u64,
}

impl Nemesis {
    /// Of these faults (repeat one to make it likelier), each after at most `pause`.
    pub fn new(faults: Vec<Fault>, pause: Duration) -> Self {
        Self { faults, pause, later: Vec::new(), next: Duration::ZERO, rotten: BTreeSet::new(), talk: Talk::default(), count: 0 }
    }

    /// Lets the world run until the clients are done, and makes things go wrong meanwhile. Gives up after `limit`: what then
    /// still hangs is judged when nothing goes wrong any more.
    pub fn rage(&mut self, cluster: &mut Cluster, limit: Duration) {
        let end = cluster.world.now() + limit;
        self.plan_next(cluster);
        while !cluster.clients_done() && cluster.world.now() < end && cluster.kept_promises().is_ok() {
            let due = self.later.iter().map(|(at, _)| *at).min().unwrap_or(end).min(self.next).min(end);
            let step = due.min(cluster.world.now() + Duration::from_millis(50));
            cluster.world.run_until(step);
            cluster.judge_talk(&mut self.talk);
            cluster.decree(false);
            cluster.replaces_monitor();
            self.end_what_is_due(cluster);
            if cluster.world.now() >= self.next {
                let fault = *cluster.rng.pick(&self.faults);
                self.inflict(cluster, fault);
                self.plan_next(cluster);
            }
        }
    }

    fn plan_next(&mut self, cluster: &mut Cluster) {
        let pause = match self.faults.is_empty() {
            true => u64::MAX / 4,
            false => cluster.rng.below(self.pause.as_nanos() as u64 + 1),
        };
        self.next = cluster.world.now() + Duration::from_nanos(pause);
    }

    fn end_what_is_due(&mut self, cluster: &mut Cluster) {
        let now = cluster.world.now();
        let (due, rest) = std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= now);
        self.later = rest;
        for (_, what) in due {
            Self::end(cluster, &what);
        }
        // Whoever died of an armed crash, or of its disk, comes back too.
        for host in cluster.world.hosts() {
            let planned = self.later.iter().any(|(_, l)| matches!(l, Later::Start(h) if *h == host));
            if !cluster.world.is_up(host) && !planned {
                self.start_later(cluster, host);
            }
        }
    }

    fn end(cluster: &mut Cluster, what: &Later) {
        match what {
            Later::Start(host) => cluster.start(*host),
            Later::Heal => cluster.world.heal(),
            Later::FastNetwork => cluster.world.net.config = crate::net::NetConfig::default(),
            Later::MendDisk(host) => cluster.world.mend_disks(*host),
            Later::Downs => cluster.tell(ALLOW_DOWN),
            Later::Room => cluster.meanings.iter().for_each(|store| store.borrow_mut().full = false),
        }
    }

    fn start_later(&mut self, cluster: &mut Cluster, host: HostId) {
        let wait = cluster.rng.magnitude(1_000_000, 5_000_000_000);
        self.later.push((cluster.world.now() + Duration::from_nanos(wait), Later::Start(host)));
    }

    fn for_a_while(&mut self, cluster: &mut Cluster, what: Later) {
        let wait = cluster.rng.magnitude(10_000_000, 4_000_000_000);
        self.later.push((cluster.world.now() + Duration::from_nanos(wait), what));
    }

    pub(crate) fn kill(&mut self, cluster: &mut Cluster, host: HostId, how: Crash) {
        cluster.world.crash(host, how);
        self.start_later(cluster, host);
    }

    fn inflict(&mut self, cluster: &mut Cluster, fault: Fault) {
        self.count += 1;
        let osds = cluster.osds.clone();
        let osd = *cluster.rng.pick(&osds);
        let mon = Self::some_monitor(cluster);
        match fault {
            Fault::OsdKill => self.kill(cluster, osd, Crash::Process),
            Fault::OsdPower => self.kill(cluster, osd, Crash::Power),
            Fault::OsdStop => cluster.world.stop(osd),
            Fault::MonKill => self.kill(cluster, mon, Crash::Process),
            Fault::MonPower => self.kill(cluster, mon, Crash::Power),
            Fault::TakeTurns => self.take_turns(cluster, osd),
            Fault::SlowTail | Fault::LateWord | Fault::UnheardReign => self.trap(cluster, fault, osd),
            Fault::Exile => self.exile(cluster, osd),
            Fault::Farewell => self.farewell(cluster, osd),
            Fault::Amnesia => self.amnesia(cluster, osd),
            Fault::StrayDies => self.stray_dies(cluster, osd),
            Fault::TwoBlackouts => self.two_blackouts(cluster, osd),
            Fault::SkippedMaps => self.skipped_maps(cluster, osd),
            Fault::MovedAway => self.moved_away(cluster, osd),
            Fault::RotEverywhere => self.rot_everywhere(cluster),
            Fault::RotBeside => self.rot_beside(cluster),
            Fault::Suspend => self.suspend(cluster, osd),
            Fault::DiskLost => self.disk_lost(cluster, osd),
            Fault::DiskFilled => self.disk_filled(cluster, osd),
            Fault::Flood => self.flood(cluster),
            Fault::DeafMerge => self.deaf_merge(cluster),
            Fault::Deaf => self.deaf(cluster),
            Fault::AbsentMerge => self.absent_merge(cluster, osd),
            Fault::LateSplit => self.late_split(cluster, osd),
            Fault::OsdAtWrite => Self::arm(cluster, osd),
            Fault::MonAtWrite => Self::arm(cluster, mon),
            Fault::Blackout => {
                for host in cluster.mons.clone().into_iter().chain(osds) {
                    self.kill(cluster, host, Crash::Power);
                }
            }
            Fault::ClientKill => {
                let clients: Vec<HostId> = cluster.clients.iter().map(|(h, _)| *h).collect();
                let client = *cluster.rng.pick(&clients);
                self.kill(cluster, client, Crash::Process);
            }
            Fault::LeaderKill | Fault::LeaderAtWrite | Fault::LeaderCut | Fault::LeaderFreeze | Fault::MonReplace => {
                self.depose(cluster, fault);
            }
            _ => self.inflict_quietly(cluster, fault, osd),
        }
    }

    fn some_monitor(cluster: &mut Cluster) -> HostId {
        // Runs with one monitor draw no number for it.
        if cluster.mons.len() == 1 { cluster.mon } else { *cluster.rng.pick(&cluster.mons) }
    }

    fn take_turns(&mut self, cluster: &mut Cluster, last: HostId) {
        let others: Vec<HostId> = cluster.osds.iter().copied().filter(|osd| *osd != last).collect();
        cluster.start(last);
        for other in &others {
            cluster.world.crash(*other, Crash::Process);
            let wait = cluster.rng.between(1, 400);
            cluster.world.run_for(Duration::from_millis(wait));
        }
        let alone = cluster.rng.between(100, 3_000);
        cluster.world.run_for(Duration::from_millis(alone));
        self.later.retain(|(_, later)| !matches!(later, Later::Start(host) if *host == last));
        cluster.world.crash(last, Crash::Process);
        let back = cluster.world.now() + Duration::from_millis(cluster.rng.between(2_000, 8_000));
        self.later.push((back, Later::Start(last)));
        others.into_iter().for_each(|other| cluster.start(other));
    }

    /// Long enough for the others to agree on another primary, most of the time. False if nothing is done, as an earlier one stands: its
    /// end would end this one, too.
    pub(crate) fn island(&mut self, cluster: &mut Cluster, osd: HostId) -> bool {
        if self.later.iter().any(|(_, later)| matches!(later, Later::Heal)) {
            return false;
        }
        // The first client, which may be one that only reads: one that writes soon waits for what nobody acknowledges.
        let Some((client, _)) = cluster.clients.first().cloned() else { return false };
        let mainland = cluster.mons.clone().into_iter().chain(cluster.osds.clone()).filter(|host| *host != osd);
        for host in mainland.collect::<Vec<_>>() {
            cluster.world.net.partition(osd, host);
            cluster.world.net.partition(client, host);
        }
        // Others' writes would lie in the way of its reads.
        for other in cluster.clients.iter().map(|(host, _)| *host).filter(|other| *other != client) {
            cluster.world.net.partition(osd, other);
        }
        let wait = Duration::from_millis(cluster.rng.between(2_000, 10_000));
        self.later.push((cluster.world.now() + wait, Later::Heal));
        true
    }

    pub(crate) fn arm(cluster: &mut Cluster, host: HostId) {
        let nth = cluster.rng.magnitude(1, 40);
        let how = if cluster.rng.one_in(2) { Crash::Power } else { Crash::Process };
        cluster.world.crash_at_write(host, nth, how);
    }

    /// Faults that no process dies of, at least not at once.
    fn inflict_quietly(&mut self, cluster: &mut Cluster, fault: Fault, osd: HostId) {
        match fault {
            Fault::Break => {
                cluster.world.break_any_link();
            }
            Fault::BreakAtByte => {
                let bytes = cluster.rng.magnitude(1, 1 << 17);
                cluster.world.net.break_after(bytes);
            }
            Fault::Partition => {
                let hosts: Vec<HostId> = cluster.world.hosts().collect();
                let (a, b) = (*cluster.rng.pick(&hosts), *cluster.rng.pick(&hosts));
                cluster.world.net.partition(a, b);
                self.for_a_while(cluster, Later::Heal);
            }
            Fault::PeerBreak => {
                let osds = cluster.osds.clone();
                cluster.world.break_among(&osds);
            }
            Fault::PeerPartition | Fault::PeerOneWay => {
                let other = *cluster.rng.pick(&cluster.osds);
                match fault {
                    _ if other == osd => return,
                    Fault::PeerOneWay => cluster.world.net.cut(osd, other),
                    _ => cluster.world.net.partition(osd, other),
                }
                self.for_a_while(cluster, Later::Heal);
            }
            Fault::MonPartition | Fault::MonOneWay => {
                let (one, other) = (Self::some_monitor(cluster), Self::some_monitor(cluster));
                match fault {
                    _ if other == one => return,
                    Fault::MonOneWay => cluster.world.net.cut(one, other),
                    _ => cluster.world.net.partition(one, other),
                }
                self.for_a_while(cluster, Later::Heal);
            }
            Fault::MonSlowDisk => {
                for host in cluster.mons.clone() {
                    let delay = cluster.rng.magnitude(1_000_000, 3_000_000_000);
                    if !cluster.rng.one_in(3) {
                        cluster.world.disk(host, 0).faults.delay = delay;
                        self.for_a_while(cluster, Later::MendDisk(host));
                    }
                }
            }
            Fault::Island => drop(self.island(cluster, osd)),
            Fault::BeatInterval => {
                let interval = *cluster.rng.pick(&["0.3", "0.5", "1", "2", "6"]);
                cluster.configure("osd", "osd_heartbeat_interval", interval);
            }
            Fault::NoDown => {
                cluster.tell(r#"{"prefix":"osd set","key":"nodown"}"#);
                self.for_a_while(cluster, Later::Downs);
            }
            Fault::LateMaps => {
                cluster.mons.clone().into_iter().for_each(|mon| cluster.world.net.cut(mon, osd));
                self.for_a_while(cluster, Later::Heal);
            }
            Fault::NoRoom => {
                let nth = cluster.rng.index(cluster.osds.len());
                cluster.history.borrow_mut().was_full = true;
                cluster.meanings[nth].borrow_mut().full = true;
                self.for_a_while(cluster, Later::Room);
            }
            Fault::OsdFreeze => {
                let wait = cluster.rng.magnitude(10_000_000, 8_000_000_000);
                cluster.world.freeze(osd, Duration::from_nanos(wait));
            }
            Fault::SlowNetwork => {
                cluster.world.net.config.jitter = cluster.rng.magnitude(100_000, 300_000_000);
                self.for_a_while(cluster, Later::FastNetwork);
            }
            Fault::ClockJump => {
                let hosts: Vec<HostId> = cluster.world.hosts().collect();
                let by = cluster.rng.magnitude(1, 100_000_000_000_000) as i64;
                let by = if cluster.rng.one_in(2) { by } else { -by };
                let host = *cluster.rng.pick(&hosts);
                // Tickets need clocks that agree: daemons of a cluster with cephx share one, as on one machine.
                let shared = cluster.plan.cephx && (cluster.mons.contains(&host) || cluster.osds.contains(&host));
                let daemons = cluster.mons.clone().into_iter().chain(cluster.osds.clone());
                let whose: Vec<HostId> = if shared { daemons.collect() } else { vec![host] };
                whose.into_iter().for_each(|host| cluster.world.jump_clock(host, by));
            }
            Fault::Rot => Self::rot(cluster, osd),
            Fault::MonRot => {
                cluster.world.disk(cluster.mon, 0).rot();
            }
            Fault::Snap | Fault::SnapRemove | Fault::Split | Fault::Pool | Fault::Scrub => crate::life::happen(cluster, fault),
            _ => self.hurt_disk(cluster, fault, osd),
        }
    }

    fn rot(cluster: &mut Cluster, osd: HostId) {
        let device = cluster.rng.index(cluster.world.disks(osd).len());
        cluster.world.disk(osd, device).rot();
    }

    fn hurt_disk(&mut self, cluster: &mut Cluster, fault: Fault, osd: HostId) {
        let one_in = cluster.rng.magnitude(2, 100);
        let slower = cluster.rng.magnitude(1, 1000);
        let free = cluster.rng.magnitude(0, 4 << 20) / 4096 * 4096;
        let whom = if fault == Fault::SlowDisk && cluster.rng.one_in(4) { cluster.mon } else { osd };
        cluster.history.borrow_mut().was_full |= fault == Fault::HostFull;
        // A journal on a disk of its own suffers as often as the data.
        let device = cluster.rng.index(cluster.world.disks(whom).len());
        let faults = &mut cluster.world.disk(whom, device).faults;
        match fault {
            Fault::SlowDisk => faults.slower = slower,
            Fault::StuckDisk => faults.stopped = true,
            Fault::ReadErrors => faults.read_errors = one_in,
            Fault::WriteErrors => faults.write_errors = one_in,
            Fault::WrongReads => (faults.flipped_reads, faults.misdirected_reads) = (one_in, one_in),
            Fault::WrongWrites => faults.misdirected_writes = one_in,
            Fault::HostFull => faults.host_free = Some(free),
            Fault::FlushFull => faults.full_flushes = 1 + one_in % 4,
            _ => unreachable!("{fault:?} is inflicted elsewhere"),
        }
        self.for_a_while(cluster, Later::MendDisk(whom));
    }

    /// Nothing goes wrong any more. Who was asked to stop gets the time to.
    pub fn relent(&mut self, cluster: &mut Cluster) -> Result<(), String> {
        cluster.kept_promises()?;
        if self.faults.contains(&Fault::NoDown) {
            cluster.tell(ALLOW_DOWN);
        }
        if self.faults.contains(&Fault::BeatInterval) {
            cluster.configure("osd", "osd_heartbeat_interval", "0.5");
        }
        self.later.clear();
        cluster.meanings.iter().for_each(|store| store.borrow_mut().full = false);
        cluster.world.heal();
        cluster.world.net.config = crate::net::NetConfig::default();
        for host in cluster.mons.clone().into_iter().chain(cluster.osds.clone()) {
            cluster.world.mend_disks(host);
            cluster.world.disarm(host);
            // A daemon whose flush failed ends with its next change; somebody who starts it again is not there any
            // more then.
            if cluster.world.disks(host).iter().any(Disk::flush_failed) {
                cluster.world.crash(host, Crash::Process);
            }
        }
        let stopping = |world: &mut World| world.hosts().any(|host| world.is_stopping(host));
        if !cluster.world.run_while(Duration::from_secs(60), stopping) {
            return Err("a daemon that was asked to stop a minute ago still runs".into());
        }
        cluster.start_all();
        Ok(())
    }
}
