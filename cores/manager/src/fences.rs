//! Who fenced whom, and how many more anybody may fence.
//!
//! Each fence is in every map that everybody reads, so there are [`MOST`] places. Many keys may fence: `profile rbd` must shut out who died with
//! the lock of an image. So that no key takes the places of others:
//!
//! - Who may lift fences as well (`rw` of `osd` at the monitors) may use all places. [`RESERVE`] of them are for those alone.
//! - Everybody else has an eighth of the places that others left free. However many keys fence, something is left for the next one.
//!
//! Who made a fence is known as far back as this monitor leads. Fences of before count as those of others: a change of leaders gives an
//! entity another share, which is an eighth of what is free then, and never all.

use grammar::{Refusal, refuse};
use maps::{Incremental, OsdMap};
use std::collections::BTreeMap;
use types::{EntityAddr, EntityName};

/// Clients and ranges that may be fenced at once.
pub const MOST: usize = 65_536;
/// Places for those who may lift fences.
pub const RESERVE: usize = MOST / 8;
/// An entity has one part in so many of what others left free.
const SHARE: usize = 8;

/// Fences, and who made them.
#[derive(Clone, Debug, Default)]
pub struct Fences {
    by: BTreeMap<EntityAddr, EntityName>,
    /// Number that each entity made; none is 0.
    counts: BTreeMap<EntityName, usize>,
}

impl Fences {
    /// Checks whether one more client or range may be fenced. `who` has a share; `None`: it may lift fences, too.
    ///
    /// # Errors
    /// ENOSPC: all places are taken. EDQUOT: the share is, or what there is for all who have one.
    pub fn has_room(&self, map: &OsdMap, who: Option<&EntityName>) -> Result<(), Refusal> {
        let all = map.blocklist.len() + map.range_blocklist.len();
        if all >= MOST {
            refuse!(
                ENOSPC,
                "{MOST} clients and ranges are blocklisted, and there is no room for more: `osd blocklist rm`, or `clear`"
            );
        }
        let Some(name) = who else { return Ok(()) };
        let own = self.counts.get(name).copied().unwrap_or(0).min(all);
        let share = (MOST - RESERVE).saturating_sub(all - own) / SHARE;
        if own >= share {
            refuse!(
                EDQUOT,
                "{name} has {own} clients on the blocklist, and may have {share}: an eighth of the places that others left free. An entry goes \
                 when its time is over, or an administrator removes it (`osd blocklist rm`)"
            );
        }
        Ok(())
    }

    /// Notes who made fences that a proposal brings, and forgets those that it removes.
    pub fn follow(&mut self, inc: &Incremental, who: Option<&EntityName>) {
        for addr in inc.old_blocklist.iter().chain(&inc.old_range_blocklist) {
            self.forget(addr);
        }
        let new = inc.new_blocklist.keys().chain(inc.new_range_blocklist.keys());
        for (addr, name) in new.filter_map(|addr| Some((addr, who?))) {
            self.forget(addr);
            self.by.insert(*addr, name.clone());
            *self.counts.entry(name.clone()).or_default() += 1;
        }
    }

    fn forget(&mut self, addr: &EntityAddr) {
        let Some(name) = self.by.remove(addr) else { return };
        let left = self.counts.get_mut(&name).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            self.counts.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{AddrType, Fsid, UTime};

    fn at(n: usize) -> EntityAddr {
        EntityAddr { kind: AddrType::Any, nonce: n as u32 + 1, addr: Some(([10, 0, 0, 1], 0).into()) }
    }

    fn name(text: &str) -> EntityName {
        text.parse().expect("a name")
    }

    /// Fences as many clients as somebody may, one after the other.
    fn fence(fences: &mut Fences, map: &mut OsdMap, who: Option<&str>) -> usize {
        let who = who.map(name);
        for done in 0.. {
            if fences.has_room(map, who.as_ref()).is_err() {
                return done;
            }
            let mut inc = Incremental::new(map.epoch + 1, Fsid::default(), UTime::ZERO);
            inc.new_blocklist.insert(at(map.blocklist.len()), UTime::ZERO);
            map.blocklist.extend(inc.new_blocklist.clone());
            fences.follow(&inc, who.as_ref());
        }
        unreachable!("there is a bound")
    }

    #[test]
    fn nobody_takes_all_places_for_fences() {
        let (mut fences, mut map) = (Fences::default(), OsdMap::default());
        let places = MOST - RESERVE;
        assert_eq!(fence(&mut fences, &mut map, Some("client.vm")), places / 8);
        let refusal = fences.has_room(&map, Some(&name("client.vm"))).expect_err("its share is taken");
        assert!(refusal.errno == types::Errno::EDQUOT && refusal.text.starts_with("client.vm has 7168 clients"), "{refusal:?}");
        // The next one has an eighth of the rest, and the first one no more for that.
        assert_eq!(fence(&mut fences, &mut map, Some("client.other")), (places - places / 8) / 8);
        assert_eq!(fence(&mut fences, &mut map, Some("client.vm")), 0);
        // A new leader knows nobody, and a share is less then.
        let mut fences = Fences::default();
        let left = places - map.blocklist.len();
        assert_eq!(fence(&mut fences, &mut map, Some("client.vm")), left / 8);
        // What is removed, or is over, leaves room.
        let mut inc = Incremental::new(map.epoch + 1, Fsid::default(), UTime::ZERO);
        inc.old_blocklist = map.blocklist.keys().rev().take(100).copied().collect();
        inc.old_blocklist.iter().for_each(|addr| {
            map.blocklist.remove(addr);
        });
        fences.follow(&inc, None);
        let mut again = 0;
        while again < 100 && fences.has_room(&map, Some(&name("client.vm"))).is_ok() {
            let mut inc = Incremental::new(map.epoch + 1, Fsid::default(), UTime::ZERO);
            inc.new_blocklist.insert(at(MOST + again), UTime::ZERO);
            map.blocklist.extend(inc.new_blocklist.clone());
            fences.follow(&inc, Some(&name("client.vm")));
            again += 1;
        }
        assert_eq!(again, 100);
        // Who may lift fences has all that is left.
        let left = MOST - map.blocklist.len();
        assert_eq!(fence(&mut fences, &mut map, None), left);
        assert_eq!(fences.has_room(&map, None).map_err(|refusal| refusal.errno), Err(types::Errno::ENOSPC));
        fences.follow(&Incremental { old_blocklist: map.blocklist.keys().copied().collect(), ..inc }, None);
        assert!(fences.by.is_empty() && fences.counts.is_empty());
    }

    #[test]
    fn clients_and_ranges_have_one_bound_together() {
        for (clients, ranges) in [(MOST, 0), (0, MOST), (MOST - 100, 100), (MOST - 101, 100)] {
            let mut map = OsdMap::default();
            map.blocklist.extend((0..clients).map(|n| (at(n), UTime::ZERO)));
            map.range_blocklist.extend((0..ranges).map(|n| (EntityAddr { kind: AddrType::Cidr, ..at(n) }, UTime::ZERO)));
            assert_eq!(Fences::default().has_room(&map, None).is_ok(), clients + ranges < MOST, "{clients} {ranges}");
        }
    }
}
