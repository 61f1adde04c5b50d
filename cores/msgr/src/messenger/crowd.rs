//! How many sessions clients have, so that no key keeps everybody else out.
//!
//! All connections have one limit, because memory and descriptors have. Who fills it shuts the door for all; so the
//! last places are kept:
//!
//! | who | may have |
//! |---|---|
//! | one entity at one IP address | a quarter of all connections |
//! | one entity | a half |
//! | all clients together | all but [`Limits::strangers`] and [`Limits::reserve`] |
//! | daemons, and whoever may do everything (an administrator) | all |
//!
//! Strangers are bounded by themselves, and the oldest makes room; so a daemon or an administrator finds a place
//! whatever clients do, as long as their own kind does not take the reserve.
//!
//! Many clients may share a key and an address (the guests of a host), so the bounds are wide: they are for floods, not
//! for quotas.

use crate::{Limits, Peer};
use node::Mono;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use types::EntityName;

/// Entities whose refusals are counted each by itself.
const REFUSED: usize = 64;
/// Time for which a refusal is told of.
const LATELY: Duration = Duration::from_secs(300);

/// Accepted sessions of clients.
#[derive(Default)]
pub(super) struct Crowd {
    all: usize,
    by_name: BTreeMap<EntityName, usize>,
    by_place: BTreeMap<(EntityName, Option<IpAddr>), usize>,
    /// Entities that were turned away lately: how often, and when last.
    refused: BTreeMap<EntityName, (u64, Mono)>,
}

impl Crowd {
    /// Takes a client in, or says why not.
    pub(super) fn enter(&mut self, now: Mono, limits: &Limits, peer: &Peer) -> Result<(), String> {
        let place = (peer.name.clone(), peer.ip);
        let (of_name, of_place) = (self.by_name.get(&peer.name), self.by_place.get(&place));
        let (of_name, of_place) = (of_name.copied().unwrap_or(0), of_place.copied().unwrap_or(0));
        let most = limits.connections.saturating_sub(limits.strangers).saturating_sub(limits.reserve).max(1);
        let why = if self.all >= most {
            format!("there are {most} sessions of clients, further places are kept for daemons and administrators")
        } else if of_name >= (limits.connections / 2).max(1) {
            format!("{} has {of_name} sessions", peer.name)
        } else if of_place >= (limits.connections / 4).max(1) {
            format!("{} has {of_place} sessions at one address", peer.name)
        } else {
            self.all += 1;
            *self.by_name.entry(peer.name.clone()).or_default() += 1;
            *self.by_place.entry(place).or_default() += 1;
            return Ok(());
        };
        if self.refused.len() < REFUSED || self.refused.contains_key(&peer.name) {
            let (count, last) = self.refused.entry(peer.name.clone()).or_insert((0, now));
            (*count, *last) = (*count + 1, now);
        }
        Err(why)
    }

    /// A client that was taken in has gone.
    pub(super) fn leave(&mut self, peer: &Peer) {
        self.all -= 1;
        lessen(&mut self.by_name, peer.name.clone());
        lessen(&mut self.by_place, (peer.name.clone(), peer.ip));
    }

    /// Returns who was turned away lately, and how often.
    pub(super) fn refused(&mut self, now: Mono) -> Vec<(EntityName, u64)> {
        self.refused.retain(|_, (_, last)| now.since(*last) < LATELY);
        self.refused.iter().map(|(name, (count, _))| (name.clone(), *count)).collect()
    }
}

fn lessen<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let std::collections::btree_map::Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use types::{EntityAddr, EntityAddrVec, EntityType};

    fn peer(name: &str, host: u8) -> Peer {
        Peer {
            name: EntityName::new(EntityType::Client, name),
            kind: EntityType::Client,
            global_id: 1,
            addr: EntityAddr::default(),
            addrs: EntityAddrVec::default(),
            ip: Some([10, 0, 0, host].into()),
            ticket: types::UTime::ZERO,
            features: 0,
            caps: None,
            mode: Mode::Crc,
            outgoing: false,
        }
    }

    #[test]
    fn nobody_fills_the_room_alone_and_places_come_free() {
        let limits = Limits { connections: 160, strangers: 20, reserve: 20, ..Limits::default() };
        let mut crowd = Crowd::default();
        let enter = |crowd: &mut Crowd, name: &str, host| {
            (0..1_000).take_while(|_| crowd.enter(Mono(0), &limits, &peer(name, host)).is_ok()).count()
        };
        assert_eq!(enter(&mut crowd, "a", 1), 40, "a quarter from one address");
        assert_eq!(enter(&mut crowd, "a", 2), 40, "a half from all");
        assert_eq!(enter(&mut crowd, "a", 3), 0);
        assert_eq!(enter(&mut crowd, "b", 1), 40, "others come in");
        assert_eq!(enter(&mut crowd, "c", 1), 0, "up to what is kept");
        let refused: Vec<_> = crowd.refused(Mono(1)).into_iter().map(|(name, count)| (name.id, count)).collect();
        assert_eq!(refused, [("a".to_owned(), 3), ("b".into(), 1), ("c".into(), 1)]);
        assert!(crowd.refused(Mono(0).plus(LATELY)).is_empty());
        (0..40).for_each(|_| crowd.leave(&peer("a", 1)));
        assert_eq!((enter(&mut crowd, "c", 1), crowd.all), (40, 120));
        (0..40).for_each(|_| ["a", "b", "c"].iter().zip([2, 1, 1]).for_each(|(name, host)| crowd.leave(&peer(name, host))));
        assert!(crowd.all == 0 && crowd.by_name.is_empty() && crowd.by_place.is_empty());
    }
}
