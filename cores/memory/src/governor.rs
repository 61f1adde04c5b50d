//! The decision. See the crate's text.

use node::{MemoryBound, MemoryShare, MemoryWish, Mono};
use std::collections::VecDeque;
use std::time::Duration;

const LEAST: u64 = MemoryWish::LEAST;
/// Part of a domain that stays free, as its inverse.
const RESERVE: u64 = 8;
/// Part of a host that all servers together leave to others, as its inverse, whatever is available.
const OTHERS: u64 = 4;
/// From so many percent of the time on in which a task waits for memory, a domain is under pressure.
const PRESSURE: f64 = 10.0;
/// How long there must be more before more is given, and how long something is resident before it counts as waste.
const CALM: Duration = Duration::from_secs(10);
/// Part by which less counts at once, as its inverse, and by which more is worth a change.
const LESS: u64 = 32;
const MORE: u64 = 16;
/// Part of the waste that is forgotten in a second, as its inverse: half in three minutes.
const FADING: u64 = 256;
/// Shares are whole multiples of it, in bytes.
const UNIT: u64 = 1 << 20;

/// Other servers like this one in a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Number of OSDs that they run.
    pub osds: usize,
    /// Bytes that they have resident.
    pub resident: u64,
}

/// Something that has so much memory and no more: the host, or a control group with a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Domain {
    /// The one of the two that counts.
    pub bound: MemoryBound,
    /// Bytes that it has in all.
    pub size: u64,
    /// Bytes that can still be taken without hurting others.
    pub available: u64,
    /// Percentage of the last ten seconds in which some task waited for memory; 0 if nobody tells.
    pub stalled: f64,
    /// Other servers in it.
    pub others: Others,
}

/// State of things at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Time.
    pub at: Mono,
    /// Bytes of memory that the process has for itself.
    pub resident: u64,
    /// The host, and all control groups that the process is in and that have a limit.
    pub domains: Vec<Domain>,
}

/// Decides, reading by reading.
#[derive(Debug, Default)]
pub struct Governor {
    /// Bytes for all OSDs together, in force; none before the first decision.
    budget: Option<u64>,
    /// Since when there is more, and the least of it.
    more: Option<(Mono, u64)>,
    /// Bytes that were given by the last decision.
    given: u64,
    /// Bytes above what was given, of the last readings.
    above: VecDeque<(Mono, u64)>,
    waste: u64,
    short: bool,
}

impl Governor {
    /// Nothing decided yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The share of each OSD, in the order of `wishes`.
    pub fn decide(&mut self, reading: &Reading, wishes: &[MemoryWish]) -> Vec<MemoryShare> {
        self.note_waste(reading);
        let rooms = reading.domains.iter().map(|domain| (room(domain, reading.resident, wishes.len()), domain.bound));
        let (room, bound) = rooms.min_by_key(|(room, _)| *room).unwrap_or((u64::MAX, MemoryBound::Wish));
        let budget = self.steady(reading.at, room.saturating_sub(self.waste));
        self.short = budget < LEAST * wishes.len() as u64;
        let shares = divide(budget, bound, wishes);
        self.given = shares.iter().map(|share| share.bytes).fold(0, u64::saturating_add);
        shares
    }

    /// Returns true if there is less than OSDs need to work, by the last decision.
    pub fn short(&self) -> bool {
        self.short
    }

    /// Bytes that the process has above what it was given, and that are taken off.
    pub fn waste(&self) -> u64 {
        self.waste
    }

    fn note_waste(&mut self, reading: &Reading) {
        if self.budget.is_none() {
            return;
        }
        self.waste -= self.waste.div_ceil(FADING);
        self.above.push_back((reading.at, reading.resident.saturating_sub(self.given)));
        let old = |at: &Mono| reading.at.since(*at) >= CALM;
        // The oldest one stays as long as nothing else reaches back so far.
        while self.above.get(1).is_some_and(|(at, _)| old(at)) {
            self.above.pop_front();
        }
        if self.above.front().is_some_and(|(at, _)| old(at)) {
            let least = self.above.iter().map(|(_, bytes)| *bytes).min();
            self.waste = self.waste.max(least.unwrap_or(0));
        }
    }

    /// Follows what there is: down at once, up after a while.
    fn steady(&mut self, at: Mono, there: u64) -> u64 {
        let now = *self.budget.get_or_insert(there);
        if there <= now.saturating_add(now / MORE) {
            self.more = None;
            let less = there < now.saturating_sub(now / LESS);
            return *self.budget.insert(if less { there } else { now });
        }
        let (since, least) = self.more.map_or((at, there), |(since, least)| (since, least.min(there)));
        self.more = Some((since, least));
        if at.since(since) < CALM {
            return now;
        }
        self.more = None;
        *self.budget.insert(least)
    }
}

/// Returns what a domain has for all OSDs of the process together.
fn room(domain: &Domain, resident: u64, osds: usize) -> u64 {
    let reserve = domain.size / RESERVE;
    // (A host's figure counts tasks that wait for their own group's memory, too.)
    let pressed = domain.stalled >= PRESSURE && domain.available < 2 * reserve;
    let reserve = if pressed { 2 * reserve } else { reserve };
    let most = match domain.bound {
        MemoryBound::Host => domain.size - domain.size / OTHERS,
        _ => domain.size - reserve,
    };
    let there = resident.saturating_add(domain.available);
    let pool = there.saturating_add(domain.others.resident).saturating_sub(reserve).min(most);
    let fair = (u128::from(pool) * osds as u128 / (osds + domain.others.osds).max(1) as u128) as u64;
    fair.min(there.saturating_sub(reserve))
}

/// Divides `budget`; those who want less than their part leave the rest to the others.
fn divide(budget: u64, bound: MemoryBound, wishes: &[MemoryWish]) -> Vec<MemoryShare> {
    let mut shares: Vec<_> = wishes.iter().map(|wish| MemoryShare { bytes: wish.most, bound: MemoryBound::Wish }).collect();
    let fixed: u64 = wishes.iter().filter(|wish| wish.fixed).map(|wish| wish.most).fold(0, u64::saturating_add);
    let mut open: Vec<usize> = (0..wishes.len()).filter(|i| !wishes[*i].fixed).collect();
    open.sort_by_key(|i| wishes[*i].most);
    let mut left = budget.saturating_sub(fixed);
    for (done, i) in open.iter().enumerate() {
        let part = (left / (open.len() - done) as u64 / UNIT * UNIT).max(LEAST);
        if part < wishes[*i].most {
            shares[*i] = MemoryShare { bytes: part, bound };
        }
        left = left.saturating_sub(shares[*i].bytes);
    }
    shares
}

#[cfg(test)]
mod tests;
