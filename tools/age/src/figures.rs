//! What is measured, and how it is shown.

use crate::disk::{BLOCK, forgotten};
use crate::goals::said;
use crate::profiles::{Dice, Kind, Load, mix, small_objects};
use crate::rig::{Rig, Slow, Used, object};
use objectstore::{ObjectChange, View};
use store::Config;

/// Most bytes of keys.
const MOST_KEYS: u64 = 512 << 20;
/// Nanoseconds of processor time from which on calls are counted in tables.
const LONG: u64 = 5_000_000;
/// Objects of 4 MiB that are written into the aged disk.
const LONG_WRITES: u64 = 8;

/// How a store is aged.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What clients do.
    pub kind: Kind,
    /// Bytes of the disk.
    pub size: u64,
    /// Bytes of the disk of which clients fill a share. The rest, if there is any, gets a mixed map first.
    pub part: u64,
    /// Ceiling of the store's memory, in bytes.
    pub memory: u64,
    /// Bytes of the journal.
    pub journal: u64,
    /// Days before it is measured, and days that are measured.
    pub days: (u64, u64),
    /// Operations of a day.
    pub ops: u64,
    /// How often all of it is done, for the times of single calls; at least once.
    pub runs: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Aged {
    /// Operations that were measured.
    pub ops: u64,
    /// What they used, with the checkpoints behind them.
    pub used: Used,
    /// What the nights used: all of them, and how many there were.
    pub nights: (Used, u64),
    /// Calls that took long since the disk was empty.
    pub slow: Slow,
    /// Most bytes that the store took of the process's memory.
    pub memory: u64,
    /// What the store said that it held then, in bytes.
    pub says: u64,
    /// Bytes of lists of this tool at most, which `memory` does not have.
    pub lists: u64,
    /// Free blocks, runs of them, and the longest run.
    pub runs: (u64, u64, u64),
    /// Writes to the disk for an object of 4 MiB at 12 % free, the mean. None where the disk is not that full.
    pub long_write: Option<f64>,
    /// What opening after a kill used.
    pub open: Used,
}

/// Fills a store, ages and measures it.
///
/// # Errors
/// The store failed, or found no rest.
pub fn age(plan: &Plan) -> Result<Aged, String> {
    let mut aged = age_once(plan)?;
    for _ in 1..plan.runs {
        aged.slow.meet(&age_once(plan)?.slow)?;
    }
    Ok(aged)
}

fn age_once(plan: &Plan) -> Result<Aged, String> {
    let config = Config { uuid: [1; 16], memory: plan.memory, journal_bytes: plan.journal, ..Config::default() };
    let mut rig = Rig::new(config, plan.size)?;
    let mixed = plan.part < plan.size;
    if mixed {
        mix(&mut rig)?;
    }
    let percent = match plan.kind {
        Kind::Images | Kind::Buckets | Kind::Files => 80,
        Kind::Snapshots => 60,
        Kind::Omap => 30,
    };
    let share = plan.part / 100 * percent;
    let mut load = Load::new(plan.kind, if plan.kind == Kind::Omap { share.min(MOST_KEYS) } else { share });
    load.fill(&mut rig)?;
    rig.checkpoint()?;
    for _ in 0..plan.days.0 {
        load.day(&mut rig, plan.ops)?;
        rig.night()?;
    }
    let mut aged = Aged::default();
    for _ in 0..plan.days.1 {
        rig.zero();
        aged.ops += load.day(&mut rig, plan.ops)?;
        rig.checkpoint()?;
        aged.used.add(&rig.used());
        rig.zero();
        rig.night()?;
        aged.nights.0.add(&rig.used());
        aged.nights.1 += 1;
    }
    (aged.memory, aged.says, aged.lists) = (rig.memory(), rig.says(), rig.own_lists());
    aged.runs = rig.store.free_runs();
    if !mixed && plan.kind != Kind::Omap {
        aged.long_write = Some(long_writes(&mut rig)?);
    }
    rig.rest()?;
    rig.zero();
    rig.reopen()?;
    aged.open = rig.used();
    aged.slow = rig.slow().clone();
    Ok(aged)
}

/// Writes objects of 4 MiB until 12 % are free, and some more. Gives the mean of the requests for one of those.
fn long_writes(rig: &mut Rig) -> Result<f64, String> {
    let (mut n, mut counted, mut writes) = (0, 0, 0);
    while counted < LONG_WRITES {
        rig.rest()?;
        let full = rig.available() <= 120;
        let before = rig.disk.traffic.writes;
        let data = forgotten((4 << 20) / BLOCK);
        if !rig.change(object(5, n, None), vec![ObjectChange::Write(0, data)])? {
            return Err(format!("no room for 4 MiB at {} per mille free", rig.available()));
        }
        rig.rest()?;
        n += 1;
        if full {
            counted += 1;
            writes += rig.disk.traffic.writes - before;
        }
    }
    Ok(writes as f64 / LONG_WRITES as f64)
}

/// What a new small object costs when there are many.
#[derive(Clone, Debug, Default)]
pub struct Grown {
    /// Objects that are there.
    pub objects: u64,
    /// What the last `counted` of them used.
    pub used: Used,
    /// Number of objects that were counted.
    pub counted: u64,
    /// Most bytes that the store took of the process's memory so far.
    pub memory: u64,
    /// What opening used after a kill.
    pub open: Used,
    /// What 1,000 reads of objects used then.
    pub reads: Used,
    /// Calls that took long since the disk was empty.
    pub slow: Slow,
}

/// Writes small objects, and measures at each of `steps`. All of it is done `runs` times, for the times of single calls.
///
/// # Errors
/// The store failed.
pub fn grow(steps: &[u64], memory: u64, size: u64, runs: u32) -> Result<Vec<Grown>, String> {
    let mut out = grow_once(steps, memory, size)?;
    for _ in 1..runs {
        for (grown, again) in out.iter_mut().zip(grow_once(steps, memory, size)?) {
            grown.slow.meet(&again.slow)?;
        }
    }
    Ok(out)
}

fn grow_once(steps: &[u64], memory: u64, size: u64) -> Result<Vec<Grown>, String> {
    let config = Config { uuid: [1; 16], memory, ..Config::default() };
    let mut rig = Rig::new(config, size)?;
    let (mut at, mut out) = (0, Vec::new());
    for objects in steps {
        let counted = (objects - at).min((objects / 4).clamp(40_000, 200_000));
        small_objects(&mut rig, at, objects - counted)?;
        rig.rest()?;
        rig.zero();
        small_objects(&mut rig, objects - counted, *objects)?;
        rig.rest()?;
        let mut grown = Grown { objects: *objects, used: rig.used(), counted, memory: rig.memory(), ..Grown::default() };
        rig.zero();
        rig.reopen()?;
        grown.open = rig.used();
        rig.zero();
        let mut dice = Dice(*objects);
        for _ in 0..1000 {
            let object = object(4, dice.below(*objects), None);
            let data = rig.read(|store, hold| store.read(hold, &object, 0, BLOCK as u64))?;
            if data.len() != BLOCK {
                return Err(format!("an object has {} bytes", data.len()));
            }
        }
        grown.reads = rig.used();
        rig.rest()?;
        (at, grown.memory, grown.slow) = (*objects, rig.memory(), rig.slow().clone());
        out.push(grown);
    }
    Ok(out)
}

/// A size in words.
pub fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 40 => format!("{} TiB", b >> 40),
        b if b >= 1 << 30 => format!("{} GiB", b >> 30),
        b => format!("{} MiB", b >> 20),
    }
}

fn micros(used: &Used, ops: u64) -> f64 {
    used.processor as f64 / 1e3 / ops.max(1) as f64
}

fn kib(bytes: u64, ops: u64) -> f64 {
    bytes as f64 / 1024.0 / ops.max(1) as f64
}

/// The head of the table of [`age`].
pub const HEAD: &str = "\
| profile | disk | operations | processor µs each | written, read KiB each | longest call ms (over 5 ms) | memory MiB of (says, lists) | \
a night: processor ms, MiB written | free runs: number, mean, longest MiB | writes of 4 MiB | open: processor ms, reads |\n\
|---|---|---|---|---|---|---|---|---|---|---|\n";

/// A row of it.
pub fn row(plan: &Plan, aged: &Aged) -> String {
    let (free, runs, longest) = aged.runs;
    let night = |n: u64| n as f64 / aged.nights.1.max(1) as f64;
    let mib = |blocks: f64| blocks * BLOCK as f64 / f64::from(1 << 20);
    format!(
        "| {} | {}{} | {} | {:.1} | {:.1}, {:.1} | {:.1} {} ({}) | {} of {} ({}, {:.1}) | {:.0}, {:.0} | {}, {:.2}, {:.1} | {} | {:.0}, {} |\n",
        plan.kind.name(),
        size(plan.size),
        if plan.part < plan.size { ", mixed" } else { "" },
        aged.ops,
        micros(&aged.used, aged.ops),
        kib(aged.used.traffic.written_bytes, aged.ops),
        kib(aged.used.traffic.read_bytes, aged.ops),
        aged.slow.longest().0 as f64 / 1e6,
        aged.slow.longest().1,
        aged.slow.over(LONG),
        aged.memory >> 20,
        plan.memory >> 20,
        aged.says >> 20,
        aged.lists as f64 / f64::from(1 << 20),
        night(aged.nights.0.processor) / 1e6,
        night(aged.nights.0.traffic.written_bytes) / f64::from(1 << 20),
        runs,
        mib(free as f64 / runs.max(1) as f64),
        mib(longest as f64),
        aged.long_write.map_or("–".into(), |n| format!("{n:.0}")),
        aged.open.processor as f64 / 1e6,
        aged.open.traffic.reads,
    )
}

/// The same for another process to read.
pub fn raw(plan: &Plan, aged: &Aged) -> String {
    let mut text = said("micros", micros(&aged.used, aged.ops)) + &said("longest_ms", aged.slow.longest().0 as f64 / 1e6);
    text += &said("memory", aged.memory as f64 / plan.memory as f64);
    if let Some(writes) = aged.long_write {
        text += &said("long_write", writes);
    }
    text
}

/// Returns what [`grow`] found, for another process to read.
pub fn raw_grown(rows: &[Grown], memory: u64) -> String {
    let mut text = String::new();
    for row in rows {
        text += &said(&format!("micros.{}", row.objects), micros(&row.used, row.counted));
        text += &said(&format!("open_s.{}", row.objects), row.open.processor as f64 / 1e9);
        text += &said(&format!("memory.{}", row.objects), row.memory as f64 / memory as f64);
        text += &said(&format!("longest_ms.{}", row.objects), row.slow.longest().0 as f64 / 1e6);
    }
    text
}

/// The table of [`grow`].
pub fn grown(rows: &[Grown], memory: u64) -> String {
    let mut text = String::from(
        "| objects | processor µs of a new one | written KiB | longest call ms (over 5 ms) | memory MiB | \
open: processor ms, reads | a read at random: processor µs, disk reads |\n|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        text += &format!(
            "| {} | {:.1} | {:.1} | {:.1} ({}) | {} of {} | {:.0}, {} | {:.1}, {:.1} |\n",
            row.objects,
            micros(&row.used, row.counted),
            kib(row.used.traffic.written_bytes, row.counted),
            row.slow.longest().0 as f64 / 1e6,
            row.slow.over(LONG),
            row.memory >> 20,
            memory >> 20,
            row.open.processor as f64 / 1e6,
            row.open.traffic.reads,
            micros(&row.reads, 1000),
            row.reads.traffic.reads as f64 / 1000.0,
        );
    }
    text
}
