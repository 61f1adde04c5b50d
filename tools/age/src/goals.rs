//! What the figures of an aged store must be, and what they are.

use crate::disk::{BLOCK, forgotten};
use crate::profiles::Dice;
use crate::rig::{Rig, object};
use objectstore::{ObjectChange, ObjectStore, View};
use std::collections::BTreeMap;
use store::Config;

/// Numbers by name, as one process found them.
pub type Raw = BTreeMap<String, f64>;

/// Reads what [`said`] wrote; other lines are left out.
pub fn heard(text: &str) -> Raw {
    let words = text.lines().filter_map(|line| line.strip_prefix("raw ")?.split_once(' '));
    words.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

/// A line for another process to read.
pub fn said(name: &str, value: f64) -> String {
    format!("raw {name} {value}\n")
}

/// One goal.
#[derive(Clone, Debug)]
pub struct Goal {
    /// What is measured.
    pub what: String,
    /// Most that it may be, and less that is aimed at.
    pub must: f64,
    /// See `must`; none if nothing better is aimed at.
    pub aim: Option<f64>,
    /// What it is. None if it was not measured.
    pub found: Option<f64>,
    /// Its unit.
    pub unit: &'static str,
}

impl Goal {
    /// A goal, and what was found.
    pub fn new(what: impl Into<String>, (must, aim): (f64, Option<f64>), unit: &'static str, found: Option<f64>) -> Self {
        Self { what: what.into(), must, aim, found, unit }
    }

    fn verdict(&self) -> &'static str {
        match (self.found, self.aim) {
            (None, _) => "not measured",
            (Some(found), Some(aim)) if found <= aim => "as aimed at",
            (Some(found), _) if found <= self.must => "as it must be",
            _ => "**too much**",
        }
    }
}

/// The table of goals.
pub fn table(goals: &[Goal]) -> String {
    let mut text = String::from("| what | must | aim | found | |\n|---|---|---|---|---|\n");
    for goal in goals {
        let number =
            |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.2} {}", goal.unit).trim().to_owned());
        let (must, aim, found) = (number(Some(goal.must)), number(goal.aim), number(goal.found));
        text += &format!("| {} | ≤ {must} | {aim} | {found} | {} |\n", goal.what, goal.verdict());
    }
    text
}

/// What reading the objects of an image costs: requests to the disk for each object of 4 MiB, and processor time in µs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Requests.
    pub reads: f64,
    /// Microseconds of the store's processor time.
    pub micros: f64,
}

/// Reading an image that was just written, that was overwritten at random, and that was brought together again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tidied {
    /// Just written.
    pub fresh: Reading,
    /// Overwritten at random until what was free was used so many times.
    pub aged: Reading,
    /// After defragmentation.
    pub tidy: Reading,
    /// Processor time of defragmentation for a MiB of the image, in µs, and bytes that it wrote for a byte of the
    /// image.
    pub micros: f64,
    /// See `micros`.
    pub written: f64,
    /// Walks that it took.
    pub walks: u64,
}

const OBJECT: u64 = 1024;

/// Ages an image of `percent` of a disk, and brings it together.
///
/// # Errors
/// The store failed.
pub fn tidy(size: u64, percent: u64, memory: u64) -> Result<Tidied, String> {
    let config = Config { uuid: [1; 16], memory, ..Config::default() };
    let mut rig = Rig::new(config, size)?;
    let objects = size / 100 * percent / (4 << 20);
    for n in 0..objects {
        rig.change(object(1, n, None), vec![ObjectChange::Write(0, forgotten(OBJECT as usize))])?;
    }
    rig.checkpoint()?;
    let mut tidied = Tidied { fresh: reading(&mut rig, objects)?, ..Tidied::default() };
    let (mut dice, writes) = (Dice(9), 2 * rig.store.space().available / BLOCK as u64);
    for _ in 0..writes {
        let (o, at) = (dice.below(objects), dice.below(OBJECT) * BLOCK as u64);
        rig.change(object(1, o, None), vec![ObjectChange::Write(at, forgotten(1))])?;
    }
    rig.checkpoint()?;
    tidied.aged = reading(&mut rig, objects)?;
    rig.zero();
    rig.store.defragment_eagerly();
    let mut left = 0;
    for _ in 0..60 {
        let before = rig.store.counters().defrag;
        rig.walk()?;
        let after = rig.store.counters().defrag;
        // A walk that moves next to nothing has nothing left to do.
        left = if (after.bytes - before.bytes) * 200 < objects << 22 { left + 1 } else { 0 };
        if left == 3 {
            break;
        }
    }
    let (used, defrag) = (rig.used(), rig.store.counters().defrag);
    tidied.walks = defrag.walks;
    tidied.micros = used.processor as f64 / 1e3 / (objects << 2) as f64;
    tidied.written = defrag.bytes as f64 / (objects << 22) as f64;
    rig.store.set_defragment(false);
    rig.checkpoint()?;
    tidied.tidy = reading(&mut rig, objects)?;
    Ok(tidied)
}

fn reading(rig: &mut Rig, objects: u64) -> Result<Reading, String> {
    let counted = objects.min(200);
    rig.rest()?;
    rig.store.drop_caches();
    rig.zero();
    for n in 0..counted {
        let object = object(1, n * objects / counted, None);
        let data = rig.read(|store, hold| store.read(hold, &object, 0, 4 << 20))?;
        if data.len() != 4 << 20 {
            return Err(format!("an object has {} bytes", data.len()));
        }
    }
    let used = rig.used();
    let each = |n: u64| n as f64 / counted as f64;
    Ok(Reading { reads: each(used.traffic.reads), micros: each(used.processor) / 1e3 })
}

/// The table of [`tidy`].
pub fn reading_table(size: u64, percent: u64, tidied: &Tidied) -> String {
    let row = |name: &str, reading: &Reading| format!("| {name} | {:.1} | {:.0} |\n", reading.reads, reading.micros);
    format!(
        "An image of {percent} % of {}, read in objects of 4 MiB with nothing in memory:\n\n\
| image | reads of the disk for an object | processor µs |\n|---|---|---|\n{}{}{}\n\
Defragmentation took {} walks, {:.0} µs of processor time for a MiB of the image, and wrote {:.1} times its bytes.\n",
        crate::figures::size(size),
        row("just written", &tidied.fresh),
        row("overwritten at random", &tidied.aged),
        row("after defragmentation", &tidied.tidy),
        tidied.walks,
        tidied.micros,
        tidied.written,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_handed_on_and_judged() {
        let raw = heard(&format!("other\n{}{}", said("a", 1.5), said("b", 2.0)));
        assert_eq!(raw, BTreeMap::from([("a".into(), 1.5), ("b".into(), 2.0)]));
        let goal = |found| Goal::new("x", (2.0, Some(1.0)), "×", found);
        let told = [goal(Some(0.5)), goal(Some(1.5)), goal(Some(2.5)), goal(None)].map(|goal| goal.verdict());
        assert_eq!(told, ["as aimed at", "as it must be", "**too much**", "not measured"]);
        assert!(table(&[goal(Some(0.5))]).contains("| x | ≤ 2.00 × | 1.00 × | 0.50 × | as aimed at |"));
    }
}
