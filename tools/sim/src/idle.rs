//! Clusters in trouble in which nobody does anything: all the same, no machine may be busy.
//!
//! A round brings the cluster into one or two plights (no monitors, nobody else, a full disk, a suspended host, ...), lets the machines
//! find out, and judges what they do while nothing changes ([`crate::vitals`]). Then the plight ends, all groups must become clean, and
//! that must be a rest, too. A few plights cannot be undone; they come last.

use crate::cluster::{Cluster, StoreKind};
use crate::fault::Nemesis;
use crate::world::{Crash, HostId};
use denc::{Decode, Encode};
use serde_json::json;
use std::time::Duration;

/// How a cluster is in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plight {
    /// All is well.
    Calm,
    /// One OSD lives, and nobody else.
    Alone,
    /// No monitor lives.
    NoMonitors,
    /// One monitor of several lives.
    FewMonitors,
    /// The monitors live, and do not reach each other.
    TornMonitors,
    /// One OSD reaches no monitor.
    Unreachable,
    /// One OSD reaches no other OSD.
    CutOff,
    /// What one OSD says reaches no other OSD.
    Mute,
    /// Clients and OSDs reach no monitor.
    AllUnreachable,
    /// One OSD's host is suspended.
    Suspended,
    /// A monitor's host is suspended.
    SuspendedMonitor,
    /// One OSD's disk completes nothing.
    StuckDisk,
    /// A monitor's disk completes nothing.
    StuckMonitor,
    /// The file system below an OSD is full.
    HostFull,
    /// The file system below a monitor is full.
    MonitorFull,
    /// An OSD's disk fails each write.
    WriteErrors,
    /// An OSD's disk fails each read.
    ReadErrors,
    /// All OSDs but one are dead.
    OthersDead,
    /// An OSD was marked down, and may not come up.
    NoUp,
    /// An OSD died, and may not be marked down.
    NoDown,
    /// Nobody may read or write.
    Paused,
    /// An OSD came back, and nothing may be brought to it.
    NoRecovery,
    /// An OSD was marked down again and again, until it stays down.
    DownTooOften,
    /// The pool has more copies than there are OSDs.
    TooManyCopies,
    /// A rule names an OSD twice.
    Twice,
    /// No OSD is in.
    AllOut,
    /// All OSDs are too full by the map's ratios.
    Full,
    /// All OSDs are too full for copies to be moved to.
    BackfillFull,
    /// Groups are to be merged, and an OSD is dead.
    MergeHeld,
    /// Clocks of all daemons are a day ahead.
    ClocksAhead,
    /// Clocks of all daemons are a day behind.
    ClocksBehind,
    /// The last to serve is dead, and those before it are back.
    Turns,
    /// An OSD's key is gone.
    NoKey,
    /// An OSD was removed from the map while it lives.
    Purged,
    /// Data of an OSD have rotted.
    Rotten,
}

use Plight as P;

/// Those that end.
const PASSING: &[Plight] = &[
    P::Calm,
    P::Alone,
    P::Alone,
    P::NoMonitors,
    P::FewMonitors,
    P::TornMonitors,
    P::Unreachable,
    P::CutOff,
    P::Mute,
    P::AllUnreachable,
    P::Suspended,
    P::SuspendedMonitor,
    P::StuckDisk,
    P::StuckMonitor,
    P::HostFull,
    P::MonitorFull,
    P::WriteErrors,
    P::ReadErrors,
    P::OthersDead,
    P::NoUp,
    P::NoDown,
    P::Paused,
    P::NoRecovery,
    P::DownTooOften,
    P::TooManyCopies,
    P::Twice,
    P::AllOut,
    P::Full,
    P::BackfillFull,
    P::MergeHeld,
    P::ClocksAhead,
    P::ClocksBehind,
    P::Turns,
];
/// Those that last.
const LASTING: &[Plight] = &[P::NoKey, P::Purged, P::Rotten];

/// Until all machines know how things are: sessions are given up, OSDs marked down, those that were asked to boot have.
const FINDING_OUT: Duration = Duration::from_secs(25);
/// Longer than a round.
const SUSPENDED: Duration = Duration::from_secs(120);
/// A day, nanoseconds.
const DAY: i64 = 86_400_000_000_000;
/// Operations that each client asks for in a plight.
const ASKED: usize = 8;

impl Cluster {
    /// Returns true if the cluster can get into this plight.
    fn can(&self, plight: Plight) -> bool {
        match plight {
            P::FewMonitors | P::TornMonitors => self.mons.len() > 1,
            P::CutOff | P::Mute | P::OthersDead => self.osds.len() > 1 && !self.plan.mail,
            P::Turns => self.plan.size > 1 && self.plan.min_size == 1,
            P::NoKey => self.plan.cephx,
            P::MergeHeld => self.plan.pg_num > 1,
            // The store that is trusted takes what it cannot read for the end.
            P::ReadErrors | P::Rotten => self.plan.store != StoreKind::Reference,
            _ => true,
        }
    }

    fn set(&mut self, prefix: &str, more: serde_json::Value) {
        let mut command = json!({ "prefix": prefix });
        let words = command.as_object_mut().zip(more.as_object());
        if let Some((words, more)) = words {
            words.extend(more.clone());
        }
        self.tell(&command.to_string());
    }

    fn flag(&mut self, key: &str) {
        self.set("osd set", json!({ "key": key }));
    }

    fn kill(&mut self, host: HostId) {
        let how = if self.rng.one_in(2) { Crash::Power } else { Crash::Process };
        self.world.crash(host, how);
    }

    /// Lets the monitors carry commands out.
    fn wait_a_little(&mut self) {
        self.world.run_for(Duration::from_secs(2));
    }

    fn part(&mut self, some: &[HostId], others: &[HostId]) {
        for one in some {
            others.iter().filter(|other| *other != one).for_each(|other| self.world.net.partition(*one, *other));
        }
    }

    /// Brings the cluster into a plight.
    fn befall(&mut self, plight: Plight, osd: usize) -> Result<(), String> {
        let (host, osds, mons) = (self.osds[osd], self.osds.clone(), self.mons.clone());
        let others: Vec<HostId> = osds.iter().copied().filter(|other| *other != host).collect();
        let mon = *self.rng.pick(&mons);
        let clients: Vec<HostId> = self.clients.iter().map(|(client, _)| *client).collect();
        match plight {
            P::Calm => {}
            P::Alone => others.into_iter().chain(mons).for_each(|host| self.kill(host)),
            P::NoMonitors => mons.into_iter().for_each(|host| self.kill(host)),
            P::FewMonitors => mons.into_iter().filter(|other| *other != mon).for_each(|host| self.kill(host)),
            P::TornMonitors => self.part(&mons, &mons),
            P::Unreachable => self.part(&[host], &mons),
            P::AllUnreachable => self.part(&[osds, clients].concat(), &mons),
            P::CutOff => self.part(&[host], &others),
            P::Mute => others.into_iter().for_each(|other| self.world.net.cut(host, other)),
            P::Suspended => self.world.freeze(host, SUSPENDED),
            P::SuspendedMonitor => self.world.freeze(mon, SUSPENDED),
            P::StuckDisk => self.world.disk(host, 0).faults.stopped = true,
            P::StuckMonitor => self.world.disk(mon, 0).faults.stopped = true,
            P::HostFull => self.world.disk(host, 0).faults.host_free = Some(0),
            P::MonitorFull => self.world.disk(mon, 0).faults.host_free = Some(0),
            P::WriteErrors => self.world.disk(host, 0).faults.write_errors = 1,
            P::ReadErrors => self.world.disk(host, 0).faults.read_errors = 1,
            P::OthersDead => others.into_iter().for_each(|host| self.kill(host)),
            P::NoUp => {
                self.flag("noup");
                self.wait_a_little();
                self.set("osd down", json!({ "ids": [osd.to_string()] }));
            }
            P::NoDown => {
                self.flag("nodown");
                self.wait_a_little();
                self.kill(host);
            }
            P::Paused => self.flag("pause"),
            P::NoRecovery => {
                ["norecover", "nobackfill", "norebalance", "noscrub", "nodeep-scrub"].into_iter().for_each(|key| self.flag(key));
                self.kill(host);
                self.ask_more();
                self.world.run_for(Duration::from_secs(10));
                self.start(host);
            }
            P::DownTooOften => {
                self.set("config set", json!({ "who": "osd", "name": "osd_max_markdown_count", "value": "2" }));
                for _ in 0..4 {
                    self.wait_a_little();
                    self.wait_a_little();
                    self.set("osd down", json!({ "ids": [osd.to_string()] }));
                }
            }
            P::TooManyCopies => {
                let size = (self.osds.len() + 1).to_string();
                for var in ["size", "min_size"] {
                    let pool = self.plan.habits.pool.clone();
                    self.set("osd pool set", json!({ "pool": pool, "var": var, "val": size, "yes_i_really_mean_it": true }));
                    self.wait_a_little();
                }
            }
            P::Twice => self.place_twice()?,
            P::AllOut => {
                let ids: Vec<String> = (0..self.osds.len()).map(|osd| osd.to_string()).collect();
                self.set("osd out", json!({ "ids": ids }));
            }
            P::Full => ["nearfull", "backfillfull", "full"].into_iter().for_each(|what| self.ratio(what, 0.0001)),
            P::BackfillFull => {
                ["nearfull", "backfillfull"].into_iter().for_each(|what| self.ratio(what, 0.0001));
                self.set("osd out", json!({ "ids": [osd.to_string()] }));
            }
            P::MergeHeld => {
                self.kill(host);
                let pool = self.plan.habits.pool.clone();
                for var in ["pg_num", "pgp_num"] {
                    self.set("osd pool set", json!({ "pool": pool, "var": var, "val": "1" }));
                }
                (self.shrunk, self.plan.pg_num) = (true, 1);
            }
            P::ClocksAhead | P::ClocksBehind => {
                let by = if plight == P::ClocksAhead { DAY } else { -DAY };
                osds.into_iter().chain(mons).for_each(|host| self.world.jump_clock(host, by));
            }
            P::Turns => {
                self.kill(host);
                self.world.run_for(Duration::from_secs(6));
                self.ask_more();
                self.wait_a_little();
                others.into_iter().for_each(|other| self.kill(other));
                self.start(host);
            }
            P::NoKey => self.set("auth rm", json!({ "entity": format!("osd.{osd}") })),
            P::Purged => self.set("osd purge", json!({ "id": osd.to_string(), "yes_i_really_mean_it": true, "force": true })),
            P::Rotten => {
                for _ in 0..200 {
                    self.world.disk(host, 0).rot();
                }
                self.set("osd deep-scrub", json!({ "who": "all" }));
            }
        }
        Ok(())
    }

    fn ratio(&mut self, what: &str, ratio: f64) {
        self.set(&format!("osd set-{what}-ratio"), json!({ "ratio": ratio }));
    }

    /// Gives the pool a rule that takes an OSD and then, in a second choice, the same one again.
    fn place_twice(&mut self) -> Result<(), String> {
        let map = self.command_ok(r#"{"prefix":"osd getcrushmap"}"#)?;
        let mut map = crush::Map::from_bytes(&map).map_err(|e| format!("the CRUSH map does not decode: {e}"))?;
        let default = map.names.iter().find(|(_, name)| *name == "default").map_or(-1, |(id, _)| *id);
        let step = |op, arg1, arg2| crush::Step { op, arg1, arg2 };
        let choice = |n| [step(crush::op::TAKE, default, 0), step(crush::op::CHOOSE_FIRSTN, n, 0), step(crush::op::EMIT, 0, 0)];
        let number = map.rules.len();
        let mask = crush::Mask { ruleset: number as u8, kind: 1, min_size: 1, max_size: 10 };
        map.rules.push(Some(crush::Rule { mask, steps: [choice(1), choice(-1)].concat() }));
        map.rule_names.insert(number as i32, "twice".into());
        let mut bytes = Vec::new();
        map.encode(&mut bytes);
        let command = r#"{"prefix":"osd setcrushmap"}"#;
        self.admin_shared.borrow_mut().inputs.insert(command.into(), bytes.into());
        self.command_ok(command)?;
        let pool = self.plan.habits.pool.clone();
        let set = |var: &str, val: &str| json!({ "prefix": "osd pool set", "pool": pool, "var": var, "val": val }).to_string();
        self.command_ok(&set("crush_rule", "twice"))?;
        if self.plan.size == 1 {
            let size = json!({ "prefix": "osd pool set", "pool": pool, "var": "size", "val": "2" });
            self.command_ok(&size.to_string())?;
            self.command_ok(&set("min_size", "1"))?;
        }
        Ok(())
    }

    /// All clients have something to ask.
    fn ask_more(&mut self) {
        for (client, shared) in self.clients.clone() {
            shared.borrow_mut().left += ASKED;
            self.world.start(client);
            self.world.call(client, "");
        }
    }

    /// Ends all plights that end.
    fn relieve(&mut self) -> Result<(), String> {
        let mut nemesis = Nemesis::new(Vec::new(), Duration::ZERO);
        // Who is suspended is not waited for: it goes on, or is killed.
        for host in self.mons.clone().into_iter().chain(self.osds.clone()) {
            if self.world.is_suspended(host) {
                self.world.crash(host, Crash::Process);
            }
        }
        nemesis.relent(self)?;
        self.world.run_for(Duration::from_secs(5));
        // Who gave up meanwhile.
        self.start_all();
        self.wait_a_little();
        for key in ["noup", "nodown", "pause", "norecover", "nobackfill", "norebalance", "noscrub", "nodeep-scrub"] {
            self.command_ok(&json!({ "prefix": "osd unset", "key": key }).to_string())?;
        }
        for (what, ratio) in [("full", 0.95), ("backfillfull", 0.9), ("nearfull", 0.85)] {
            self.command_ok(&json!({ "prefix": format!("osd set-{what}-ratio"), "ratio": ratio }).to_string())?;
        }
        let ids: Vec<String> = (0..self.osds.len()).map(|osd| osd.to_string()).collect();
        self.command_ok(&json!({ "prefix": "osd in", "ids": ids }).to_string())?;
        self.command_ok(r#"{"prefix":"config set","who":"osd","name":"osd_max_markdown_count","value":"100000"}"#)?;
        let (pool, size, min_size) = (self.plan.habits.pool.clone(), self.plan.size.to_string(), self.plan.min_size.to_string());
        let rule = "replicated_rule".to_string();
        for (var, val) in [("crush_rule", rule), ("size", size), ("min_size", min_size)] {
            let set = json!({ "prefix": "osd pool set", "pool": pool, "var": var, "val": val, "yes_i_really_mean_it": true });
            self.command_ok(&set.to_string())?;
        }
        // Who stays down until it is started again.
        for host in self.osds.clone() {
            self.world.crash(host, Crash::Process);
            self.start(host);
        }
        Ok(())
    }

    /// Some rounds. Gives how many.
    ///
    /// # Errors
    /// Who is busy without a reason, in which plight.
    pub(crate) fn judge_idle(&mut self) -> Result<u64, String> {
        let rounds = self.rng.between(2, 3);
        for _ in 0..rounds {
            let mut plights = Vec::new();
            while plights.is_empty() || plights.len() < 2 && self.rng.one_in(3) {
                let plight = *self.rng.pick(PASSING);
                if self.can(plight) {
                    plights.push(plight);
                }
            }
            // It needs monitors that answer.
            if plights.last() == Some(&P::Twice) {
                plights.reverse();
            }
            self.be_in(&plights)?;
            self.relieve()?;
            // What the monitors are told of groups is some seconds old.
            self.world.run_for(Duration::from_secs(8));
            self.wait_clients(Duration::from_secs(120)).map_err(|why| format!("after {plights:?}: {why}"))?;
            self.wait_clean().map_err(|why| format!("after {plights:?}: {why}"))?;
            self.judge_rest(&format!("after {plights:?}"))?;
        }
        let last = *self.rng.pick(LASTING);
        if self.can(last) {
            self.be_in(&[last])?;
        }
        Ok(rounds)
    }

    /// Lets these befall the cluster, and judges.
    fn be_in(&mut self, plights: &[Plight]) -> Result<(), String> {
        let osd = self.rng.index(self.osds.len());
        for plight in plights {
            self.befall(*plight, osd)?;
            if self.rng.one_in(2) {
                self.wait_a_little();
            }
            if self.rng.one_in(2) {
                self.ask_more();
            }
        }
        self.world.run_for(FINDING_OUT);
        self.judge_rest(&format!("{plights:?} of osd.{osd}"))
    }
}
