//! Whether an OSD that was marked down while it lives reaches other OSDs, before it asks to be up again.
//!
//! Who is cut off from the other OSDs and not from the monitors would be up and down again every few seconds, and with
//! each step groups agree anew. So an OSD that lives and was marked down opens sessions to those whom it sent
//! heartbeats. A session that stands proves both directions. Who has two networks is reached when sessions stand in
//! both. A port that refuses proves them, too: its process is gone, and the monitors can be told of that once this OSD
//! is up.
//!
//! | times marked down within `osd_max_markdown_period` | who must be reached |
//! |---|---|
//! | once | `osd_heartbeat_min_healthy_ratio` (a third) of those that are up |
//! | n times | n times as many, at most all |
//!
//! The others may be dead, and nobody left to tell the monitors. So the OSD boots at last whoever is reached: after a
//! minute, then two, at most ten. An OSD that has just started boots at once.

use crate::Osd;
use crate::peers::Purpose;
use maps::OsdMap;
use node::{Mono, Now, Outputs};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::OsdId;

/// Time for which it waits the first time, and at most.
const PATIENCE: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(600);
/// A session that does not stand after this is opened anew.
const ANEW: Duration = Duration::from_secs(3);

/// OSDs that must be reached before this OSD boots.
#[derive(Debug)]
pub(crate) struct Contact {
    /// OSDs that are not reached yet, and when each is tried next.
    sought: BTreeMap<(OsdId, Purpose), Mono>,
    reached: BTreeSet<(OsdId, Purpose)>,
    /// The part of all of them that must be reached.
    part: f64,
    /// It boots then in any case.
    until: Mono,
}

impl Contact {
    /// It was marked down just now, for the `times`th time lately.
    fn new(now: Mono, partners: impl Iterator<Item = (OsdId, Purpose)>, times: usize, ratio: f64) -> Self {
        let doubled = u32::try_from(times.saturating_sub(1)).unwrap_or(u32::MAX).min(8);
        Self {
            sought: partners.map(|way| (way, now)).collect(),
            reached: BTreeSet::new(),
            part: (ratio * times as f64).min(1.0),
            until: now.plus((PATIENCE * 2u32.pow(doubled)).min(LONGEST)),
        }
    }

    /// Only those that the map has up count.
    fn follow(&mut self, map: &OsdMap) {
        self.sought.retain(|(osd, _), _| map.is_up(*osd));
        self.reached.retain(|(osd, _)| map.is_up(*osd));
    }

    fn reach(&mut self, way: (OsdId, Purpose)) {
        if self.sought.remove(&way).is_some() {
            self.reached.insert(way);
        }
    }

    /// Returns true if too few are reached.
    fn lacks(&self, now: Mono) -> bool {
        // One network of two is of no use.
        let sought: BTreeSet<OsdId> = self.sought.keys().map(|(osd, _)| *osd).collect();
        let reached: BTreeSet<OsdId> = self.reached.iter().map(|(osd, _)| *osd).filter(|osd| !sought.contains(osd)).collect();
        let all = (sought.len() + reached.len()) as f64;
        now < self.until && (reached.len() as f64) < all * self.part
    }

    /// Returns when [`Osd::seek_contact`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Mono {
        self.sought.values().copied().min().unwrap_or(Mono(0)).min(self.until)
    }
}

impl Osd {
    /// It was marked down, and lives: sessions for heartbeats that stand prove nothing, and are opened anew.
    pub(crate) fn begin_contact(&mut self, now: Now, times: usize) {
        let map = self.maps.current().clone();
        let partners: Vec<(OsdId, Purpose)> = self.beats.partners().filter(|(osd, _)| map.is_up(*osd)).collect();
        for (osd, purpose) in &partners {
            self.hang_up(now, *osd, *purpose);
        }
        let mut contact = Contact::new(now.mono, partners.into_iter(), times, self.options.healthy_ratio);
        // No network is between those of one process.
        for osd in self.config.neighbours.keys() {
            [Purpose::Beats, Purpose::Front].into_iter().for_each(|purpose| contact.reach((*osd, purpose)));
        }
        self.contact = Some(contact);
    }

    /// Opens sessions to those who are not reached yet, until enough are.
    pub(crate) fn seek_contact(&mut self, now: Now, out: &mut Outputs) {
        let Some(contact) = &mut self.contact else { return };
        contact.follow(self.maps.current());
        if !contact.lacks(now.mono) {
            self.contact = None;
            return;
        }
        let due = contact.sought.iter().filter(|(_, at)| **at <= now.mono).map(|(way, _)| *way);
        for (osd, purpose) in due.collect::<Vec<_>>() {
            self.hang_up(now, osd, purpose);
            let next = match self.reach(now, osd, purpose, out) {
                Some(Err(at)) => at,
                Some(Ok(_)) | None => now.mono.plus(ANEW),
            };
            self.try_contact_at(osd, purpose, next);
        }
    }

    /// Somebody answers, or his port refuses.
    pub(crate) fn contact_made(&mut self, osd: OsdId, purpose: Purpose) {
        if let Some(contact) = &mut self.contact {
            contact.reach((osd, purpose));
        }
    }

    /// A session broke; another may be opened at that moment.
    pub(crate) fn try_contact_at(&mut self, osd: OsdId, purpose: Purpose, at: Mono) {
        if let Some(next) = self.contact.as_mut().and_then(|contact| contact.sought.get_mut(&(osd, purpose))) {
            *next = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    fn ways(osds: std::ops::Range<OsdId>) -> impl Iterator<Item = (OsdId, Purpose)> {
        osds.map(|osd| (osd, Purpose::Beats))
    }

    fn map(up: &[OsdId]) -> OsdMap {
        let mut map = OsdMap::default();
        map.set_max_osd(5);
        up.iter().for_each(|osd| map.osd_state[*osd as usize] = maps::state::EXISTS | maps::state::UP);
        map
    }

    #[test]
    fn a_third_is_enough_at_first_and_all_must_be_reached_after_three_times() {
        for (times, needed) in [(1, 1), (2, 2), (3, 3), (9, 3)] {
            let mut contact = Contact::new(at(0), ways(1..4), times, 0.33);
            for osd in 1..=needed {
                assert!(contact.lacks(at(1)), "{times} times, {} reached", osd - 1);
                contact.reach((osd, Purpose::Beats));
            }
            assert!(!contact.lacks(at(1)), "{times} times, {needed} reached");
        }
    }

    #[test]
    fn who_has_two_networks_is_reached_in_both() {
        let both = ways(1..4).chain(ways(1..4).map(|(osd, _)| (osd, Purpose::Front)));
        let mut contact = Contact::new(at(0), both, 1, 0.33);
        (1..4).for_each(|osd| contact.reach((osd, Purpose::Front)));
        assert!(contact.lacks(at(1)), "nobody is reached in the OSDs' own network");
        contact.reach((2, Purpose::Beats));
        assert!(!contact.lacks(at(1)));
    }

    #[test]
    fn who_is_down_is_not_waited_for_and_who_is_alone_boots() {
        let mut contact = Contact::new(at(0), ways(1..4), 3, 0.33);
        contact.reach((1, Purpose::Beats));
        contact.follow(&map(&[1, 2]));
        assert!(contact.lacks(at(1)));
        contact.follow(&map(&[1]));
        assert!(!contact.lacks(at(1)));
        assert!(!Contact::new(at(0), ways(1..1), 3, 0.33).lacks(at(0)));
    }

    #[test]
    fn it_boots_at_last_each_time_later() {
        for (times, seconds) in [(1, 60), (2, 120), (4, 480), (5, 600), (1000, 600)] {
            let contact = Contact::new(at(0), ways(1..4), times, 0.33);
            assert!(contact.lacks(at(seconds - 1)) && !contact.lacks(at(seconds)), "{times} times");
        }
    }
}
