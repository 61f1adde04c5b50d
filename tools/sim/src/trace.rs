//! What happened, as a hash that tells two runs apart and, if wanted, as lines.

use crate::rng::splitmix;
use std::collections::VecDeque;

/// Lines that are kept for the report of a failure.
const KEPT: usize = 200;

/// The record of a run.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    events: u64,
    /// True if each event is printed.
    pub print: bool,
    lines: VecDeque<String>,
}

/// A hash of bytes, for traces alone.
pub fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, word| (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    let (words, rest) = bytes.as_chunks();
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| step(hash, *word));
    if rest.is_empty() {
        return hash;
    }
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    step(hash, word)
}

impl Trace {
    /// Takes one event in: when, at whom, what, and two numbers that tell it from others of its kind.
    pub fn event(&mut self, at: u64, who: &str, what: &'static str, a: u64, b: u64) {
        let mut mix = self.hash ^ at.rotate_left(40) ^ digest(who.as_bytes()) ^ digest(what.as_bytes()).rotate_left(13);
        self.hash = splitmix(&mut mix) ^ a.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ b.rotate_left(32);
        self.events += 1;
        if self.print {
            println!("{} {who} {what} {a} {b:x}", seconds(at));
        }
    }

    /// A line in words. Words are part of the hash too: what a machine logs must replay.
    pub fn line(&mut self, at: u64, who: &str, text: &str) {
        self.hash = self.hash.rotate_left(5) ^ digest(text.as_bytes());
        let line = format!("{} {who}: {text}", seconds(at));
        if self.print {
            println!("{line}");
        }
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Tells this run from others.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns how much happened.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The last lines.
    pub fn tail(&self) -> impl Iterator<Item = &String> {
        self.lines.iter()
    }
}

/// Virtual time as people read it.
pub fn seconds(nanos: u64) -> String {
    format!("{:>4}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}
