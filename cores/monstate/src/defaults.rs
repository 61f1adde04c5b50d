//! What new pools are by default, as disks and hosts are added.
//!
//! A cluster begins with what protects as much as it can: one copy on one disk, two on two, three on more, no two on
//! the same disk. With hosts, no two on the same host. [`decide`] says what fits; it is asked when OSDs boot, and only
//! ever asks for more. The monitor writes the number of copies to the configuration database (`osd_pool_default_size`),
//! where operators see and change it, and remembers beside it what it wrote ([`MARK`]): as soon as somebody wrote
//! another value, it is theirs. Pools that exist keep their size. See docs/decisions/0022.

use crate::state::State;
use crush::{Map, op};
use maps::{OsdMap, pool_type};
use std::collections::{BTreeMap, BTreeSet};
use types::OsdId;

pub use crate::state::genesis::DEFAULTS_FOLLOW as MARK;

/// The option that says how many copies new pools have.
pub const SIZE: &str = "osd_pool_default_size";
/// More copies than this are nobody's default.
const ENOUGH: u32 = 3;
/// The rule that a cluster begins with.
const RULE: &str = "replicated_rule";

/// Domain that the first rule keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// OSDs, as it was made.
    Osd,
    /// Hosts, as it becomes.
    Host,
    /// Somebody changed it.
    Theirs,
}

/// Facts that the decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Hosts with an OSD that is up and in, below the root of the first rule.
    pub hosts: u32,
    /// OSDs that are up and in; 1 if some of them share a disk.
    pub disks: u32,
    /// Copies of a new pool now.
    pub size: u32,
    /// True if nobody else decided that.
    pub follows: bool,
    /// Copies of the pool with most of them that uses the first rule; 0 without pools.
    pub largest: u32,
    /// Domain that the first rule keeps apart.
    pub domain: Domain,
}

/// Decides how many copies new pools shall have, and what the first rule shall keep apart.
pub fn decide(f: &Facts) -> (u32, Domain) {
    let grown = |places: u32| if f.follows { f.size.max(places.min(ENOUGH)) } else { f.size };
    let (by_disks, by_hosts) = (grown(f.disks), grown(f.hosts));
    match f.domain {
        Domain::Theirs => (f.size, Domain::Theirs),
        Domain::Host => (by_hosts, Domain::Host),
        // Hosts take over when they offer as many places as disks do, and as any pool needs.
        Domain::Osd if f.hosts >= 2 && f.hosts >= by_disks.max(f.largest) => (by_hosts, Domain::Host),
        Domain::Osd => (by_disks, Domain::Osd),
    }
}

/// Returns true if the decision can not change any more: to be asked first, since facts cost a look at all OSDs.
pub fn is_settled(state: &State) -> bool {
    let domain = domain(&state.osdmap.crush);
    let most = set_here(state).is_none_or(|size| size >= ENOUGH);
    !state.keys.contains_key(MARK) || domain == Domain::Theirs || domain == Domain::Host && most
}

/// The number of copies that was set here last, if nobody set another one since.
pub fn set_here(state: &State) -> Option<u32> {
    let mark = state.keys.get(MARK).and_then(|mark| std::str::from_utf8(mark).ok()?.parse::<u32>().ok())?;
    let mut stored = state.config.sections.iter().filter_map(|(section, options)| Some((section, options.get(SIZE)?)));
    let ours = |(section, value): (&String, &String)| section == "global" && value.parse() == Ok(mark);
    let untouched = if mark == 1 { stored.next().is_none() } else { stored.next().is_some_and(ours) && stored.next().is_none() };
    untouched.then_some(mark)
}

/// Collects the facts. `size`: copies of a new pool now.
pub fn facts(state: &State, size: u32) -> Facts {
    let map = &state.osdmap;
    let usable: Vec<OsdId> = map.osds().filter(|osd| map.is_up(*osd) && map.is_in(*osd)).collect();
    let rule = map.crush.rule_id(RULE);
    let uses = |p: &&maps::Pool| rule == Some(i32::from(p.crush_rule));
    Facts {
        hosts: hosts(map, &usable),
        disks: disks(&state.osd_metadata, &usable),
        size,
        follows: set_here(state) == Some(size),
        largest: map.pools.values().filter(uses).map(|p| u32::from(p.size)).max().unwrap_or(0),
        domain: domain(&map.crush),
    }
}

/// Counts the hosts of these OSDs.
fn hosts(map: &OsdMap, osds: &[OsdId]) -> u32 {
    let Some(kind) = map.crush.type_id("host") else { return 0 };
    let Some(root) = map.crush.id_of("default") else { return 0 };
    let at: BTreeSet<i32> = osds.iter().filter_map(|osd| map.crush.ancestor_of_kind(*osd, kind)).collect();
    at.into_iter().filter(|host| map.crush.is_under(*host, root)).count() as u32
}

/// Counts the disks of these OSDs: 1 as soon as two share one, because a rule that keeps OSDs apart may then put copies
/// on the same disk. An OSD that does not say where it is shares with all others.
fn disks(metadata: &BTreeMap<OsdId, BTreeMap<String, String>>, osds: &[OsdId]) -> u32 {
    let of = |osd: &OsdId| {
        let known = metadata.get(osd)?;
        Some((known.get("hostname")?.as_str(), known.get("disk")?.as_str()))
    };
    let distinct: BTreeSet<_> = osds.iter().filter_map(of).collect();
    if distinct.len() == osds.len() { osds.len() as u32 } else { u32::from(!osds.is_empty()) }
}

/// Returns what the first rule keeps apart.
fn domain(map: &Map) -> Domain {
    let Some(rule) = map.rule_id(RULE).and_then(|n| map.rule(n as u32)) else { return Domain::Theirs };
    let steps: Vec<(u32, i32, i32)> = rule.steps.iter().map(|s| (s.op, s.arg1, s.arg2)).collect();
    let root = map.id_of("default").unwrap_or(0);
    let begins = steps.first() == Some(&(op::TAKE, root, 0)) && steps.last() == Some(&(op::EMIT, 0, 0));
    match steps.as_slice() {
        _ if !begins || rule.mask.kind != pool_type::REPLICATED => Domain::Theirs,
        [_, (op::CHOOSE_FIRSTN, 0, 0), _] => Domain::Osd,
        [_, (op::CHOOSELEAF_FIRSTN, 0, kind), _] if map.type_id("host") == Some(*kind) => Domain::Host,
        _ => Domain::Theirs,
    }
}

/// Makes the first rule keep hosts apart. None if there is nothing to change.
pub fn over_hosts(map: &Map) -> Option<Map> {
    let (number, host) = (map.rule_id(RULE)?, map.type_id("host")?);
    let mut map = map.clone();
    let rule = map.rules.get_mut(usize::try_from(number).ok()?)?.as_mut()?;
    let step = rule.steps.iter_mut().find(|s| s.op == op::CHOOSE_FIRSTN)?;
    (step.op, step.arg2) = (op::CHOOSELEAF_FIRSTN, host);
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster that follows, with nothing in it.
    fn fresh(hosts: u32, disks: u32, size: u32) -> Facts {
        Facts { hosts, disks, size, follows: true, largest: 0, domain: Domain::Osd }
    }

    #[test]
    fn one_disk_keeps_one_copy_and_more_disks_keep_more() {
        assert_eq!(decide(&fresh(1, 1, 1)), (1, Domain::Osd));
        assert_eq!(decide(&fresh(1, 2, 1)), (2, Domain::Osd));
        assert_eq!(decide(&fresh(1, 3, 2)), (3, Domain::Osd));
        assert_eq!(decide(&fresh(1, 12, 1)), (3, Domain::Osd));
        assert_eq!(decide(&fresh(1, 1, 3)), (3, Domain::Osd), "disks that are away make it no less");
    }

    #[test]
    fn hosts_are_kept_apart_as_soon_as_there_are_as_many_as_copies() {
        assert_eq!(decide(&fresh(2, 1, 1)), (2, Domain::Host), "two hosts of one disk each with several OSDs");
        assert_eq!(decide(&fresh(2, 4, 3)), (3, Domain::Osd), "three copies need three hosts");
        assert_eq!(decide(&fresh(3, 6, 3)), (3, Domain::Host));
        assert_eq!(decide(&Facts { domain: Domain::Host, ..fresh(3, 6, 2) }), (3, Domain::Host));
        assert_eq!(decide(&Facts { domain: Domain::Host, ..fresh(2, 9, 2) }), (2, Domain::Host), "a third copy had no host");
    }

    #[test]
    fn pools_with_more_copies_than_hosts_keep_their_rule() {
        assert_eq!(decide(&Facts { largest: 3, ..fresh(2, 1, 1) }), (1, Domain::Osd));
        assert_eq!(decide(&Facts { largest: 3, ..fresh(3, 1, 1) }), (3, Domain::Host));
        assert_eq!(decide(&Facts { largest: 4, ..fresh(3, 9, 3) }), (3, Domain::Osd));
    }

    #[test]
    fn what_somebody_else_decided_stays() {
        assert_eq!(decide(&Facts { follows: false, ..fresh(3, 9, 2) }), (2, Domain::Host));
        assert_eq!(decide(&Facts { follows: false, ..fresh(2, 9, 4) }), (4, Domain::Osd));
        assert_eq!(decide(&Facts { domain: Domain::Theirs, ..fresh(3, 9, 1) }), (1, Domain::Theirs));
    }

    #[test]
    fn it_only_ever_asks_for_more_and_is_content_with_what_it_asked_for() {
        for domain in [Domain::Osd, Domain::Host, Domain::Theirs] {
            for n in 0..4 * 6 * 4 * 2 * 5 {
                let (hosts, disks, size, follows, largest) = (n % 4, n / 4 % 6, n / 24 % 4 + 1, n / 96 % 2 == 0, n / 192);
                let facts = Facts { hosts, disks, size, follows, largest, domain };
                let (more, kept) = decide(&facts);
                assert!(more >= size && (follows || more == size), "{facts:?}");
                let after = Facts { size: more, domain: kept, ..facts };
                assert_eq!(decide(&after), (more, kept), "{facts:?}");
            }
        }
    }

    #[test]
    fn osds_that_share_a_disk_count_as_one() {
        let on = |host: &str, disk: &str| BTreeMap::from([("hostname".into(), host.into()), ("disk".into(), disk.into())]);
        let all = BTreeMap::from([(0, on("a", "/x")), (1, on("a", "/y")), (2, on("a", "/y")), (3, on("b", "/y"))]);
        assert_eq!(disks(&all, &[0, 1, 3]), 3);
        assert_eq!(disks(&all, &[0, 1, 2]), 1);
        assert_eq!((disks(&all, &[0, 7, 8]), disks(&all, &[])), (1, 0));
    }
}
