//! Troubles of stores: disks whose writes take seconds, stores that are set back to older copies, a new member whose store fails while it learns.
//!
//! Set-backs are judged by what the others can know. A *calm* is a time without faults in which every voter acknowledges entries; after it each
//! other store knows of promises that are newer than all copies from before. So:
//!
//! | what is set back | what the judge demands |
//! |---|---|
//! | so few that the others are a majority, to copies from before a calm | none of them ever takes part; all other rules hold as ever, nothing that was answered is lost |
//! | more, but not all, to such copies, while the others run | none of them ever takes part; nobody leads |
//! | the same, and from then on all disks are slow | the same, later |
//! | the first, and those who know lose power in their writes before they hear of it | the same: they remember it |
//! | all of them, or one at any moment | what was answered may be lost. Whoever runs in the end has the same state, or stopped and said why |

use super::{Happening, MS, PEACE, RAGE, VoterTown};
use crate::disk::DiskCopy;
use crate::rng::Rng;
use mon::{Mistake, Voter};
use std::collections::{BTreeMap, BTreeSet};

/// How long a calm is: entries, and then marks of who acknowledged them, become durable everywhere.
const CALM: u64 = 14_000 * MS;
/// Who is set back is noticed within this while nothing else is wrong.
const NOTICED: u64 = 10_000 * MS;
/// Copies of a store that are kept.
const COPIES: usize = 8;
/// How long slow disks are watched, and how long it may take until there is a leader that lasts.
const WATCHED: u64 = 240_000 * MS;
const FIRST: u64 = 60_000 * MS;
/// How long a leader has led when it counts as the first one.
const LASTS: u64 = 2_000 * MS;
/// How long somebody is taken in, and within how long something must be answered meanwhile.
const LEARNS: u64 = 120_000 * MS;
const WINDOW: u64 = 10_000 * MS;
/// How often somebody looks whether there is a leader.
const LOOK: u64 = 50 * MS;

/// What else is wrong with the stores in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing.
    None,
    /// Some are set back: so many, or all.
    SetBack(usize),
    /// One is set back at any moment.
    SetBackAnyTime,
    /// Disks are slow.
    Slow,
    /// A new member is taken in, whose disk, link and process fail while it learns.
    Learner,
}

/// What is remembered of it.
pub(super) struct Troubles {
    pub(super) kind: Trouble,
    rng: Rng,
    /// Copies of stores, with the time when they were made.
    copies: BTreeMap<u64, Vec<(u64, DiskCopy)>>,
    /// Who was set back behind what all others know.
    pub(super) set_back: BTreeSet<u64>,
    /// What was answered may be lost.
    pub(super) amnesty: bool,
    /// A majority of the voters was set back, and the others know it: nobody can lead.
    pub(super) headless: bool,
    /// Time when a leader was seen first, how often was looked since, and how often one was seen.
    first: Option<u64>,
    looks: u64,
    led: u64,
}

impl Troubles {
    /// Returns what a seed brings. A mistake is looked for where it shows: only what concerns stores that are set back
    /// needs one.
    pub(super) fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut rng = Rng::new(seed ^ 0x6f6c_6473_746f_7265);
        let kind = match rng.below(11) {
            0 => Trouble::SetBack(1),
            1 => Trouble::SetBack(rng.between(1, 2) as usize),
            2 => *rng.pick(&[Trouble::SetBack(2), Trouble::SetBack(usize::MAX)]),
            3 => Trouble::SetBackAnyTime,
            4 => Trouble::Slow,
            10 => Trouble::Learner,
            _ => Trouble::None,
        };
        let kind = if mistake.is_some_and(|mistake| !matches!(mistake, Mistake::Forgetful | Mistake::FoldedMarks)) {
            Trouble::None
        } else {
            kind
        };
        let (copies, set_back) = (BTreeMap::new(), BTreeSet::new());
        Self { kind, rng, copies, set_back, amnesty: false, headless: false, first: None, looks: 0, led: 0 }
    }
}

impl VoterTown {
    /// The part of a run that comes before its peace.
    pub(super) fn rage(&mut self) -> Result<(), String> {
        match self.troubles.kind {
            Trouble::None => self.run_until(RAGE),
            Trouble::Slow => self.crawl(),
            Trouble::SetBack(most) => self.set_some_back(most),
            Trouble::SetBackAnyTime => self.set_one_back(),
            Trouble::Learner => self.take_one_in(),
        }
    }

    // ----- a member that learns

    /// Three voters are well, and answer all the time. A fourth store is taken in: its disk is slow and stalls, its links are cut, it
    /// dies. None of that is to be felt; when it has caught up, it votes.
    fn take_one_in(&mut self) -> Result<(), String> {
        self.raging = false;
        self.run_until(8_000 * MS)?;
        let new = 4;
        let slowest = self.troubles.rng.between(0, 3000);
        self.place(new).disk.faults.delay = slowest * MS;
        let (begin, mut votes) = (self.now, false);
        let mut hurt = self.now + self.troubles.rng.between(0, 2_000) * MS;
        let (mut window, mut answered) = (self.now + WINDOW, self.done.answered);
        while self.now < begin + LEARNS {
            self.run_until(self.now + LOOK)?;
            let leader = self.leaders().last().copied();
            self.troubles.looks += 1;
            self.troubles.led += u64::from(leader.is_some());
            // The members change now and then: it learns, votes, learns again.
            if let Some(leader) = leader.filter(|_| self.troubles.rng.one_in(10)) {
                votes |= self.change_member(leader, new);
            }
            if self.now >= window {
                if self.done.answered == answered {
                    return Err(format!("life: nothing was answered in {} s while a member was taken in", WINDOW / MS / 1000));
                }
                (window, answered) = (self.now + WINDOW, self.done.answered);
            }
            if self.now >= hurt {
                self.hurt_learner(new);
                hurt = self.now + self.troubles.rng.magnitude(100, 15_000) * MS;
            }
        }
        self.cuts.clear();
        let percent = self.troubles.led * 100 / self.troubles.looks.max(1);
        if percent < 95 {
            return Err(format!("life: while a member was taken in somebody led {percent} % of the time"));
        }
        self.done.taken_in += u64::from(votes);
        Ok(())
    }

    /// The leader makes this member learn, or vote. Whether it votes from now on.
    fn change_member(&mut self, leader: u64, id: u64) -> bool {
        let Some(voter) = self.places.get_mut(&leader).and_then(|place| place.voter.as_mut()) else { return false };
        let (mut voters, mut learners) = voter.members();
        let votes = voters.contains(&id);
        if votes {
            return false;
        }
        let learns = learners.contains(&id);
        learners.retain(|other| *other != id);
        if learns {
            voters.push(id)
        } else {
            learners.push(id)
        }
        let changed = voter.change(&voters, &learners);
        if changed {
            self.done.changes += 1;
            self.note(|| format!("voter {leader} changes the members to {voters:?} and {learners:?}"));
        }
        changed && learns
    }

    fn hurt_learner(&mut self, id: u64) {
        let others = 1..=3;
        match self.troubles.rng.below(6) {
            0 => self.stop(id, true),
            1 => self.stop(id, false),
            2 => {
                self.place(id).disk.faults.stall = 10_000 * MS;
                self.note(|| format!("the next write of {id} takes 10 s longer"));
            }
            3 => self.cuts.extend(others.map(|other| (other, id))),
            4 => self.cuts.extend(others.map(|other| (id, other))),
            _ => self.cuts.clear(),
        }
    }

    // ----- slow disks

    /// Every write takes up to 3 s at some of the disks, and 10 s now and then; nothing else is wrong.
    fn crawl(&mut self) -> Result<(), String> {
        self.raging = false;
        let slowest = self.troubles.rng.between(300, 3000);
        let spared = if self.troubles.rng.one_in(3) { self.troubles.rng.between(1, 3) } else { 0 };
        for id in (1..=self.plan.stores).filter(|id| *id != spared) {
            self.place(id).disk.faults.delay = slowest * MS;
        }
        self.note(|| format!("writes take up to {slowest} ms, but at {spared}"));
        // The first two writes make the store.
        let (begin, first) = (self.now, FIRST + 2 * slowest * MS);
        let mut stall = self.now + self.troubles.rng.between(40_000, 90_000) * MS;
        let mut since = None;
        while self.now < begin + WATCHED {
            self.run_until(self.now + LOOK)?;
            let leads = !self.leaders().is_empty();
            since = if leads { since.or(Some(self.now)) } else { None };
            // Who is elected beside a candidate whose vote is still being written leads for a moment only.
            if self.troubles.first.is_none() && since.is_some_and(|since| self.now >= since + LASTS) {
                self.troubles.first = since;
                self.done.slow_first = (self.now - LASTS - begin) / MS;
            }
            if self.troubles.first.is_none() && self.now > begin + first {
                return Err(format!("life: writes take up to {slowest} ms, and after {} s nobody leads", first / MS / 1000));
            }
            if self.troubles.first.is_some() {
                self.troubles.looks += 1;
                self.troubles.led += u64::from(leads);
            }
            if self.now >= stall {
                let id = self.troubles.rng.between(1, 3);
                self.place(id).disk.faults.stall = 10_000 * MS;
                self.note(|| format!("the next write of {id} takes 10 s longer"));
                stall = self.now + self.troubles.rng.between(40_000, 90_000) * MS;
            }
        }
        let percent = self.troubles.led * 100 / self.troubles.looks.max(1);
        self.done.slow_led = percent;
        if percent < 90 {
            return Err(format!("life: writes take up to {slowest} ms, and somebody leads {percent} % of the time"));
        }
        Ok(())
    }

    // ----- stores that are set back

    /// Somebody copies a store.
    pub(super) fn copy_store(&mut self) {
        let id = self.troubles.rng.between(1, self.plan.stores);
        let (now, copy) = (self.now, self.place(id).disk.copy());
        let copies = self.troubles.copies.entry(id).or_default();
        if copies.len() == COPIES {
            let nth = self.troubles.rng.index(COPIES);
            copies.remove(nth);
        }
        copies.push((now, copy));
        let pause = self.troubles.rng.magnitude(50, 4000) * MS;
        self.after(pause, Happening::Copy);
    }

    /// Faults end for a while: everybody runs, and hears everybody.
    fn calm_down(&mut self) -> Result<(), String> {
        self.raging = false;
        self.cuts.clear();
        for id in 1..=self.plan.stores {
            self.place(id).disk.faults.slower = 0;
            self.start(id)?;
        }
        Ok(())
    }

    /// The voters of the newest leader.
    fn voters(&self) -> Vec<u64> {
        let leader = self.leaders().last().and_then(|id| self.places[id].voter.as_ref());
        leader.map(|voter| voter.members().0).unwrap_or_default()
    }

    fn set_some_back(&mut self, most: usize) -> Result<(), String> {
        self.after(3000 * MS, Happening::Copy);
        let until = self.troubles.rng.between(15_000, 30_000) * MS;
        self.run_until(until)?;
        self.calm_down()?;
        let before = self.now;
        self.run_until(before + CALM)?;
        let voters = self.voters();
        let answered = self.judge.answered.len();
        let all = voters.iter().all(|id| self.places[id].voter.as_ref().is_some_and(|v| v.takes_part() && v.applied() > 0));
        if voters.is_empty() || !all {
            return Err(format!("life: after a calm the voters are {voters:?}, and not all of them take part"));
        }
        let mut victims: Vec<u64> = voters.clone();
        while victims.len() > most {
            let nth = self.troubles.rng.index(victims.len());
            victims.remove(nth);
        }
        // Whether those who are left are no majority: of four voters, or two, half is enough for that.
        let beheads = |gone: usize| voters.len() - gone <= voters.len() / 2;
        let majority = beheads(victims.len());
        let everybody = victims.len() == voters.len();
        let mut back = Vec::new();
        for id in victims {
            let old: Vec<DiskCopy> =
                self.troubles.copies.get(&id).into_iter().flatten().filter(|(at, _)| *at < before).map(|c| c.1.clone()).collect();
            if old.is_empty() {
                continue;
            }
            let nth = self.troubles.rng.index(old.len());
            back.push((id, old[nth].clone()));
        }
        self.plan.changes = false;
        self.troubles.amnesty = everybody;
        self.troubles.headless = majority && !everybody && beheads(back.len());
        let slow = if self.troubles.rng.one_in(3) { self.troubles.rng.between(300, 3000) } else { 0 };
        for id in 1..=self.plan.stores {
            self.place(id).disk.faults.delay = slow * MS;
        }
        for (id, copy) in &back {
            if !everybody {
                self.troubles.set_back.insert(*id);
            }
            self.put_back(*id, copy);
        }
        if !majority && self.troubles.rng.one_in(2) {
            let gone: Vec<u64> = back.iter().map(|(id, _)| *id).collect();
            self.lose_power_beside(&voters, &gone)?;
        }
        if majority || self.troubles.rng.one_in(2) {
            self.run_until(self.now + NOTICED + 10 * slow * MS)?;
        }
        self.note(|| format!("writes take up to {slow} ms"));
        self.note(|| format!("{} of {} were set back after {answered} answers", back.len(), voters.len()));
        if self.troubles.headless {
            return self.check_headless();
        }
        self.go_on()
    }

    /// Those who know lose power in the middle of their writes, again and again, before they hear anything of who was set back: what they
    /// remember is what their disks have.
    fn lose_power_beside(&mut self, voters: &[u64], gone: &[u64]) -> Result<(), String> {
        for id in gone {
            let links = (1..=self.plan.stores).flat_map(|other| [(*id, other), (other, *id)]);
            self.cuts.extend(links);
        }
        for _ in 0..self.troubles.rng.between(1, 3) {
            let pause = self.troubles.rng.magnitude(200, 8_000);
            self.run_until(self.now + pause * MS)?;
            for id in voters.iter().filter(|id| !gone.contains(id)) {
                self.stop(*id, true);
            }
        }
        let pause = self.troubles.rng.magnitude(1, 8_000);
        self.run_until(self.now + pause * MS)?;
        self.cuts.clear();
        Ok(())
    }

    /// Faults begin again.
    fn go_on(&mut self) -> Result<(), String> {
        self.raging = true;
        self.after(self.plan.pause, Happening::Fault);
        self.run_until(self.now + 25_000 * MS)
    }

    /// At any moment, whatever others know.
    fn set_one_back(&mut self) -> Result<(), String> {
        self.after(3000 * MS, Happening::Copy);
        let until = self.troubles.rng.between(10_000, 40_000) * MS;
        self.run_until(until)?;
        let owners: Vec<u64> = self.troubles.copies.keys().copied().collect();
        let id = *self.troubles.rng.pick(&owners);
        let nth = self.troubles.rng.index(self.troubles.copies[&id].len());
        let copy = self.troubles.copies[&id][nth].1.clone();
        self.plan.changes = false;
        self.troubles.amnesty = true;
        self.put_back(id, &copy);
        self.run_until(RAGE)
    }

    fn put_back(&mut self, id: u64, copy: &DiskCopy) {
        self.stop(id, true);
        self.place(id).disk.set_back(copy);
        self.done.set_back += 1;
        self.note(|| format!("the store of {id} is set back"));
    }

    /// A majority forgot: nobody may go on.
    fn check_headless(&self) -> Result<(), String> {
        for id in &self.troubles.set_back {
            if !self.places[id].voter.as_ref().is_some_and(Voter::has_stopped) {
                return Err(format!("the store of {id} was set back, and that is not noticed"));
            }
        }
        match self.leaders()[..] {
            [] => Ok(()),
            [leader, ..] => Err(format!("voter {leader} leads, and a majority was set back")),
        }
    }

    /// A voter whose store was set back takes part in nothing. One that knows of no voters cannot.
    pub(super) fn check_part(&self, id: u64) -> Result<(), String> {
        let Some(voter) = self.places[&id].voter.as_ref().filter(|_| self.troubles.set_back.contains(&id)) else { return Ok(()) };
        if voter.takes_part() && !voter.members().0.is_empty() {
            return Err(format!("voter {id} takes part with a store that was set back"));
        }
        Ok(())
    }

    /// Checks, when answers may be lost, that those who run agree.
    pub(super) fn check_agreement(&mut self) -> Result<(), String> {
        self.plan.proposals = 0;
        self.queue.retain(|_, what| !matches!(what, Happening::Ask));
        self.run_until(self.now + PEACE / 4)?;
        let mut states: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for (id, place) in &self.places {
            let Some(voter) = place.voter.as_ref().filter(|v| v.takes_part()) else { continue };
            let (other, state) = *states.entry(voter.applied()).or_insert((*id, voter.state()));
            if state != voter.state() {
                return Err(format!("voters {other} and {id} run on with different states after entry {}", voter.applied()));
            }
        }
        Ok(())
    }
}
