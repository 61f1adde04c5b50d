//! Who the monitor holds for down, against who is: OSDs that die, freeze, get no processor or hear nobody.
//!
//! A round does one thing to some OSDs. Those may be down in the map, and some of them must be so in time; nobody else
//! ever may. An OSD whose life in the map (`up_from`) changes was marked down in between, seen or not.

use crate::cluster::Cluster;
use crate::world::{Crash, HostId};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Between two looks at the map.
const LOOK: Duration = ms(50);
/// Until the map has a killed process down, whose peers have sessions to it.
const REFUSED: Duration = ms(400);
/// Until it has one down that is silent: the grace, the time until the next question, and some for the way.
const SILENT: Duration = ms(4_200);
/// The same where there is only one that could hear it.
const SILENT_TO_ONE: Duration = ms(5_200);
/// Until it is known, too, that nobody says the opposite: a host in one of two networks is heard in the other.
const LONGER: Duration = ms(1_500);
/// Until an OSD that is well again is up.
const BACK: Duration = Duration::from_secs(15);
/// A calm time in which all sessions stand again.
const CALM: Duration = Duration::from_secs(5);

/// What the map says of each OSD: whether it is up, and since when.
pub(crate) type Seen = BTreeMap<usize, (bool, u64)>;

/// What is looked at of `ceph osd dump`.
#[derive(Deserialize)]
struct Dump {
    osds: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    osd: usize,
    up: u8,
    up_from: u64,
}

/// The rules of a round.
struct Watch {
    before: Seen,
    /// Who may be down.
    may: BTreeSet<usize>,
}

impl Cluster {
    /// What the map says. The monitors are asked only when they have a new one.
    fn seen(&mut self) -> Result<Seen, String> {
        let epoch = self.pulses.get(&self.mon).map_or(0, |pulse| pulse.all().epoch);
        if epoch > 0 && self.seen.0 == epoch {
            return Ok(self.seen.1.clone());
        }
        let dump = self.command_ok(r#"{"prefix":"osd dump","format":"json"}"#)?;
        let dump: Dump = serde_json::from_slice(&dump).map_err(|e| format!("osd dump is not as it must be: {e}"))?;
        let seen: Seen = dump.osds.into_iter().map(|row| (row.osd, (row.up == 1, row.up_from))).collect();
        self.seen = (epoch, seen.clone());
        Ok(seen)
    }

    /// Until one that is silent is down.
    fn silent_for(&self) -> Duration {
        if self.osds.len() > 2 { SILENT } else { SILENT_TO_ONE }
    }

    fn watch(&mut self, may: &[usize]) -> Result<Watch, String> {
        Ok(Watch { before: self.seen()?, may: may.iter().copied().collect() })
    }

    /// Looks at the map until it is as wanted. Whoever is down and may not be ends the run.
    fn look(&mut self, watch: &Watch, what: &str, limit: Duration, done: impl Fn(&Seen) -> bool) -> Result<(), String> {
        let (begun, mut wanted) = (self.world.now(), false);
        while self.world.now() <= begun + limit && !wanted {
            let seen = self.seen()?;
            let wrong = seen.iter().find(|(osd, now)| !watch.may.contains(*osd) && watch.before.get(*osd) != Some(now));
            if let Some((osd, now)) = wrong {
                let before = watch.before.get(osd);
                return Err(format!("{what}: osd.{osd} lives, and was marked down: {before:?}, now {now:?}"));
            }
            wanted = done(&seen);
            self.world.run_for(LOOK);
        }
        match wanted {
            true => Ok(()),
            false => Err(format!("{what}: the map does not show it within {} ms: {:?}", limit.as_millis(), self.seen()?)),
        }
    }

    /// So long, nobody is marked down who may not be.
    fn look_for(&mut self, watch: &Watch, what: &str, time: Duration) -> Result<(), String> {
        let end = self.world.now() + time;
        while self.world.now() < end {
            self.look(watch, what, Duration::ZERO, |_| true)?;
        }
        Ok(())
    }

    fn all_back(&mut self, watch: &Watch, what: &str) -> Result<(), String> {
        self.look(watch, what, BACK, |seen| seen.values().all(|(up, _)| *up))
    }

    /// A process dies: its port refuses, and it is down at once. What is said of it late is not believed of its next life.
    fn dies(&mut self, osd: usize) -> Result<(), String> {
        let watch = self.watch(&[osd])?;
        let host = self.osds[osd];
        let late = self.rng.one_in(2);
        if late {
            // What the others say of it comes when it lives again.
            let others: Vec<HostId> = self.osds.iter().copied().filter(|other| *other != host).collect();
            others.into_iter().for_each(|other| self.world.net.cut(other, self.mon));
        }
        self.world.crash(host, Crash::Process);
        if late {
            let wait = self.rng.between(20, 300);
            self.world.run_for(ms(wait));
        } else {
            // OSDs of one process have no sessions with each other that could break.
            let limit = if self.plan.mail { self.silent_for() } else { REFUSED };
            let life = watch.before[&osd].1;
            self.look(&watch, "a process that died is down", limit, |seen| !seen[&osd].0 || seen[&osd].1 > life)?;
        }
        self.world.start(host);
        let life = watch.before[&osd].1;
        self.look(&watch, "who was started again is up", BACK, |seen| seen[&osd].0 && seen[&osd].1 > life)?;
        let watch = self.watch(&[])?;
        self.world.heal();
        self.look_for(&watch, "who was started again stays up", CALM)
    }

    /// Some get no processor for a while. Who is the only one must be down in time; those who go on accuse nobody wrongly, and those
    /// who come back neither.
    fn freezes(&mut self, osds: &[usize]) -> Result<(), String> {
        let watch = self.watch(osds)?;
        let time = self.rng.between(1_500, 12_000);
        osds.iter().for_each(|osd| self.world.freeze(self.osds[*osd], ms(time)));
        self.world.accusations.clear();
        let others = self.osds.len() - osds.len();
        let begun = self.world.now();
        if let ([osd], true) = (osds, others > 0 && time > 5_000) {
            self.look(&watch, "who is frozen is down", self.silent_for(), |seen| {
                !seen[osd].0 || seen[osd].1 > watch.before[osd].1
            })?;
        }
        let rest = (begun + ms(time)).saturating_sub(self.world.now());
        self.look_for(&watch, "others are frozen", rest)?;
        self.look_for(&watch, "others were frozen", ms(2_500))?;
        // The others may have answered, or not: who was frozen cannot know.
        let frozen: Vec<HostId> = osds.iter().map(|osd| self.osds[*osd]).collect();
        if let Some((host, line)) = self.world.accusations.iter().find(|(host, _)| frozen.contains(host)) {
            return Err(format!("{} was frozen, and accuses others: {line}", self.world.name(*host)));
        }
        self.all_back(&watch, "who was frozen comes back")?;
        // Who went on gives those who were slow to answer more time, until that is long ago.
        let watch = self.watch(&[])?;
        self.look_for(&watch, "some were frozen", 8 * CALM)
    }

    /// All get the processor late: nobody is down for that.
    fn drags(&mut self) -> Result<(), String> {
        let watch = self.watch(&[])?;
        for host in self.osds.clone() {
            let lag = self.rng.between(1, 500);
            self.world.slow_down(host, ms(lag));
        }
        let wait = self.rng.between(5_000, 20_000);
        let looked = self.look_for(&watch, "all are slow", ms(wait));
        self.osds.clone().into_iter().for_each(|host| self.world.slow_down(host, Duration::ZERO));
        looked?;
        // Who was slow to answer gets more time, until that is long ago.
        self.look_for(&watch, "all were slow", 8 * CALM)
    }

    /// One gets no processor for seconds, again and again, mostly just after it asked: it may be down, and accuses nobody.
    fn stutters(&mut self, osd: usize) -> Result<(), String> {
        let (watch, host) = (self.watch(&[osd])?, self.osds[osd]);
        self.world.accusations.clear();
        self.world.slow_down(host, ms(4_000));
        let wait = self.rng.between(20_000, 40_000);
        let looked = self.look_for(&watch, "one stutters", ms(wait));
        self.world.slow_down(host, Duration::ZERO);
        looked?;
        // Who was marked down is answered by nobody, and heard by nobody.
        let stayed_up = self.seen()?.get(&osd) == watch.before.get(&osd);
        let line = self.world.accusations.iter().find(|(who, _)| *who == host && stayed_up);
        if let Some((_, line)) = line {
            return Err(format!("osd.{osd} was frozen, and accuses others: {line}"));
        }
        // Who was slow to answer gets more time, until that is long ago. Its last pause may go on yet.
        self.look_for(&watch, "one was slow", 8 * CALM)?;
        self.all_back(&watch, "who stuttered comes back")
    }

    /// A link is cut one way for less than the grace: nobody is down for that.
    fn blinks(&mut self, osd: usize, other: usize) -> Result<(), String> {
        let watch = self.watch(&[])?;
        self.world.net.cut(self.osds[osd], self.osds[other]);
        let wait = self.rng.between(100, 2_000);
        let looked = self.look_for(&watch, "a link was cut shortly", ms(wait));
        self.world.heal();
        looked?;
        self.look_for(&watch, "a link was cut shortly", CALM)
    }

    /// Cuts one off from all other OSDs, but not from the monitor: with enough others, it alone goes.
    fn is_cut_off(&mut self, osd: usize) -> Result<(), String> {
        // Of two that do not hear each other nobody can say which one is cut off.
        let all: Vec<usize> = (0..self.osds.len()).collect();
        let watch = self.watch(if all.len() == 2 { &all } else { std::slice::from_ref(&osd) })?;
        let host = self.osds[osd];
        for other in self.osds.clone() {
            if other != host {
                self.world.net.cut(host, other);
            }
        }
        let looked = match self.osds.len() > 2 && !self.plan.mail {
            true => self
                .look(&watch, "who is cut off is down", 2 * SILENT, |seen| !seen[&osd].0 || seen[&osd].1 > watch.before[&osd].1),
            false => self.look_for(&watch, "one is cut off", 2 * SILENT),
        };
        self.world.heal();
        looked?;
        self.all_back(&watch, "who was cut off comes back")?;
        let watch = self.watch(&[])?;
        self.look_for(&watch, "nobody is cut off", CALM)
    }

    /// A host loses one of its two networks: what clients write and read goes through the one, what OSDs tell each other through the other.
    /// It is of no use to anybody, and down in time; nobody else is. Its connections are as they were when the network is back.
    fn loses_a_network(&mut self, osd: usize) -> Result<(), String> {
        let all: Vec<usize> = (0..self.osds.len()).collect();
        let clients = self.rng.one_in(2);
        let (host, what) = (self.osds[osd], if clients { "the clients' network" } else { "the OSDs' network" });
        // Of two that do not hear each other nobody can say which one is cut off, if both reach the monitors.
        let watch = self.watch(if all.len() == 2 && !clients { &all } else { std::slice::from_ref(&osd) })?;
        match clients {
            true => self.world.net.unplug(host),
            false => self.world.net.unplug_own(host),
        }
        let lost = format!("a host without {what} is down");
        // Who reaches the monitors says of all others that they are down.
        let limit = if clients { SILENT + LONGER } else { 2 * SILENT };
        // Of OSDs of one process none is without the others.
        let looked = match self.osds.len() > 2 && !self.plan.mail {
            true => self.look(&watch, &lost, limit, |seen| !seen[&osd].0 || seen[&osd].1 > watch.before[&osd].1),
            false => self.look_for(&watch, &lost, 2 * SILENT),
        };
        if looked.is_ok() {
            let wait = self.rng.magnitude(50, 15_000);
            let end = self.world.now() + ms(wait);
            let known = self.osds.len() > 2 && !self.plan.mail;
            while self.world.now() < end {
                // With one network it does not come back.
                self.look(&watch, &lost, Duration::ZERO, |seen| !known || !seen[&osd].0)?;
            }
        }
        self.world.heal();
        looked?;
        self.all_back(&watch, &format!("who had lost {what} comes back"))?;
        let watch = self.watch(&[])?;
        self.look_for(&watch, "all have their networks", CALM)
    }

    /// A few rounds.
    pub(crate) fn judge_downs(&mut self) -> Result<u64, String> {
        self.command_ok(r#"{"prefix":"config set","who":"osd","name":"osd_max_markdown_count","value":"1000"}"#)?;
        // Chance alone would let OSDs that were slow once be slow for ever after.
        self.command_ok(r#"{"prefix":"config set","who":"mon","name":"mon_osd_adjust_heartbeat_grace","value":"false"}"#)?;
        let watch = self.watch(&[])?;
        self.look_for(&watch, "nothing happens", CALM)?;
        let rounds = self.rng.between(3, 6);
        for _ in 0..rounds {
            let osd = self.rng.index(self.osds.len());
            let other = (osd + 1) % self.osds.len();
            if self.plan.two_networks && self.rng.one_in(3) {
                self.loses_a_network(osd)?;
                continue;
            }
            match self.rng.below(9) {
                0 | 1 => self.dies(osd)?,
                2 => self.freezes(&[osd])?,
                3 => self.freezes(&[osd, other])?,
                4 => self.freezes(&(0..self.osds.len()).filter(|n| *n != osd).collect::<Vec<_>>())?,
                5 => self.drags()?,
                6 => self.stutters(osd)?,
                7 => self.blinks(osd, other)?,
                _ => self.is_cut_off(osd)?,
            }
            let wait = self.rng.between(2_000, 6_000);
            self.world.run_for(ms(wait));
        }
        Ok(rounds)
    }
}
