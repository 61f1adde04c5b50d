//! What machines do while nothing happens: turns, log lines, connections, maps, boots, elections, letters; and how much of it is too much.
//!
//! A cluster at rest has heartbeats, leases, ticks and reports, which are a few turns in a second. A machine that asks for what it was
//! just refused, or to be woken at a moment that is past, does hundreds or thousands. The bounds lie between.

use crate::cluster::Cluster;
use crate::world::HostId;
use node::{Level, Output};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Add, Sub};
use std::rc::Rc;
use std::time::Duration;

/// What the driver saw of a machine, in all its lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Turns.
    pub turns: u64,
    /// Turns for which nothing had come in: a deadline had come.
    pub idle: u64,
    /// Idle turns after which the machine had put nothing out, and its deadline was past again.
    pub vain: u64,
    /// Log lines that people see: of level info and above.
    pub lines: u64,
    /// Connections that it asked for.
    pub connects: u64,
    /// Sends.
    pub sends: u64,
    /// Disk requests.
    pub disk: u64,
}

impl Vitals {
    /// Counts an output.
    pub(crate) fn count(&mut self, output: &Output) {
        match output {
            Output::Log(line) => self.lines += u64::from(line.level <= Level::Info),
            Output::Connect { .. } => self.connects += 1,
            Output::Send { .. } => self.sends += 1,
            Output::Disk(_) => self.disk += 1,
            _ => {}
        }
    }
}

impl Sub for Vitals {
    type Output = Self;

    fn sub(self, then: Self) -> Self {
        Self {
            turns: self.turns - then.turns,
            idle: self.idle - then.idle,
            vain: self.vain - then.vain,
            lines: self.lines - then.lines,
            connects: self.connects - then.connects,
            sends: self.sends - then.sends,
            disk: self.disk - then.disk,
        }
    }
}

/// What a machine tells of itself: a monitor the first three, an OSD the others, which are counted through all its lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// The epoch of the newest durable OSD map.
    pub epoch: u64,
    /// The newest term of the monitors' log.
    pub term: u64,
    /// Entries of the monitors' log that are committed.
    pub entries: u64,
    /// Letters to other copies.
    pub letters: u64,
    /// Requests to be marked up.
    pub boots: u64,
    /// The part that wanted to be woken first after the last turn.
    pub waits_for: &'static str,
}

impl Add for Signs {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            epoch: self.epoch.max(more.epoch),
            term: self.term.max(more.term),
            entries: self.entries.max(more.entries),
            letters: self.letters + more.letters,
            boots: self.boots + more.boots,
            waits_for: more.waits_for,
        }
    }
}

impl Sub for Signs {
    type Output = Self;

    fn sub(self, then: Self) -> Self {
        // A monitor that begins anew with an empty disk has less than before.
        Self {
            epoch: self.epoch.saturating_sub(then.epoch),
            term: self.term.saturating_sub(then.term),
            entries: self.entries.saturating_sub(then.entries),
            letters: self.letters.saturating_sub(then.letters),
            boots: self.boots.saturating_sub(then.boots),
            waits_for: self.waits_for,
        }
    }
}

/// The signs of one host through all its lives: each life adds its own to those before.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Rc<Cell<(Signs, Signs)>>);

impl Pulse {
    /// A new life begins.
    pub(crate) fn born(&self) {
        let (before, now) = self.0.get();
        self.0.set((before + now, Signs::default()));
    }

    /// What this life has done so far.
    pub(crate) fn shows(&self, signs: Signs) {
        let (before, _) = self.0.get();
        self.0.set((before, signs));
    }

    /// All lives together.
    pub fn all(&self) -> Signs {
        let (before, now) = self.0.get();
        before + now
    }
}

/// What a machine may do at most in a second without anything to do.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    idle: u64,
    turns: u64,
    lines: u64,
    connects: u64,
    disk: u64,
}

/// All machines at one moment.
struct Look {
    at: Duration,
    vitals: BTreeMap<HostId, (Vitals, Signs)>,
    memory: Option<u64>,
}

/// How long it is looked.
const LOOK: Duration = Duration::from_secs(20);
/// Idle turns in a second: a tick, heartbeats, a look at groups, a lease, attempts to reach somebody: four to five. Stores that are made to
/// defragment briskly, in the simulator alone, begin a walk five times a second and look twice: up to sixteen in all.
const IDLE: u64 = 18;
/// All turns in a second of a machine that talks to nobody, and for each other machine: heartbeats both ways, answers, what was sent.
const TURNS: (u64, u64) = (30, 30);
/// Bytes of memory that all machines together may take more after a [`LOOK`], for each of them.
const GROWTH: u64 = 64 << 10;
/// New OSD maps in a [`LOOK`], if nobody gives commands.
const EPOCHS: u64 = 4;
/// New terms of monitors that cannot agree, or have to.
const TERMS: u64 = 8;
/// Entries of the monitors' log: reports, lines of the cluster's log.
const ENTRIES: u64 = 60;
/// Boots of one OSD: it asks each 3 s.
const BOOTS: u64 = 8;
/// Letters of one OSD. Groups say again what nobody answers, each a few times a minute.
const LETTERS: u64 = 100;
/// Letters of one OSD in a second while clients ask for much and things go wrong, over [`LISTEN`] or longer.
const LIVELY: u64 = 6_000;
/// Over so long letters are counted.
const LISTEN: Duration = Duration::from_secs(1);

/// What OSDs wrote to each other until a moment.
#[derive(Default)]
pub struct Talk {
    at: Duration,
    letters: BTreeMap<HostId, u64>,
}

impl Cluster {
    /// Looks at all machines.
    fn look_at_pulses(&self) -> Look {
        let signs = |host: HostId| self.pulses.get(&host).map(Pulse::all).unwrap_or_default();
        let vitals = self.world.hosts().map(|host| (host, (self.world.vitals(host), signs(host)))).collect();
        Look { at: self.world.now(), vitals, memory: self.world.memory.map(|memory| memory()) }
    }

    /// Lets time pass in which nobody asks for anything, and judges what all machines did meanwhile. `what` tells how the cluster is.
    ///
    /// # Errors
    /// Who did too much of what.
    pub fn judge_rest(&mut self, what: &str) -> Result<(), String> {
        let before = self.look_at_pulses();
        self.world.run_for(LOOK);
        let after = self.look_at_pulses();
        if self.world.trace.print {
            println!("at rest ({what}):\n{}", self.describe_since(&before));
        }
        self.judge_between(&before, &after).map_err(|why| format!("at rest ({what}): {why}"))
    }

    /// Judges how much OSDs wrote to each other since the last look, if that is [`LISTEN`] ago: who asks again at once for what it was just
    /// refused writes ten times as much.
    pub(crate) fn judge_talk(&mut self, before: &mut Talk) {
        let now = self.world.now();
        let passed = now.saturating_sub(before.at);
        if passed < LISTEN {
            return;
        }
        let letters: BTreeMap<HostId, u64> =
            self.osds.iter().filter_map(|osd| Some((*osd, self.pulses.get(osd)?.all().letters))).collect();
        let last = std::mem::replace(before, Talk { at: now, letters });
        let most = LIVELY * passed.as_millis() as u64 / 1_000;
        for (osd, count) in &before.letters {
            let count = count.saturating_sub(last.letters.get(osd).copied().unwrap_or(0));
            if count > most {
                let name = self.world.name(*osd);
                self.wrong.get_or_insert(format!("{name}: {count} letters to other copies in {passed:?}, at most {most}"));
            }
        }
    }

    fn bounds(&self) -> Bounds {
        let others = self.mons.len() as u64 + self.osds.len() as u64;
        // Clients that are not let in are written down each time; they come about once in a second.
        let lines = 2 + self.clients.len() as u64;
        Bounds { idle: IDLE, turns: TURNS.0 + TURNS.1 * others, lines, connects: 4 + others / 2, disk: 20 }
    }

    fn judge_between(&self, before: &Look, after: &Look) -> Result<(), String> {
        let (bounds, seconds) = (self.bounds(), (after.at - before.at).as_secs().max(1));
        let mut wrong = Vec::new();
        for (host, (vitals, signs)) in &after.vitals {
            let Some((vitals_then, signs_then)) = before.vitals.get(host) else { continue };
            let (did, signs) = (*vitals - *vitals_then, *signs - *signs_then);
            let each_second = [
                ("turns for which nothing had come", did.idle, bounds.idle),
                ("turns", did.turns, bounds.turns),
                ("log lines", did.lines, bounds.lines),
                ("connections", did.connects, bounds.connects),
                ("disk requests", did.disk, bounds.disk),
            ];
            let in_all = [
                ("turns in vain", did.vain, seconds),
                ("epochs", signs.epoch, EPOCHS),
                ("terms", signs.term, TERMS),
                ("entries of the log", signs.entries, ENTRIES),
                ("boots", signs.boots, BOOTS),
                ("letters", signs.letters, LETTERS),
            ];
            let all = each_second.map(|(of, count, most)| (of, count, most * seconds)).into_iter().chain(in_all);
            for (of, count, most) in all.filter(|(_, count, most)| count > most) {
                let waits = if signs.waits_for.is_empty() { "" } else { ", waits for " };
                let name = self.world.name(*host);
                wrong.push(format!("{name}: {count} {of} in {seconds} s, at most {most}{waits}{}", signs.waits_for));
            }
        }
        if let (Some(then), Some(now)) = (before.memory, after.memory) {
            let most = GROWTH * after.vitals.len() as u64;
            let grown = now.saturating_sub(then);
            if grown > most {
                wrong.push(format!("memory grew by {grown} bytes in {seconds} s, at most {most}"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Returns what each machine did since, as a table for people.
    fn describe_since(&self, before: &Look) -> String {
        let after = self.look_at_pulses();
        let row = |(host, (vitals, signs)): (&HostId, &(Vitals, Signs))| {
            let (v, s) = before.vitals.get(host).copied().unwrap_or_default();
            format!("{}: {:?} {:?}", self.world.name(*host), *vitals - v, *signs - s)
        };
        let memory = after.memory.zip(before.memory).map(|(now, then)| format!("memory {}", now as i64 - then as i64));
        after.vitals.iter().map(row).chain(memory).collect::<Vec<_>>().join("\n")
    }
}
