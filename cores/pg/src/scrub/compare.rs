//! Which copies of an object are right. Values in, values out: what is done about it is in `check`.
//!
//! A copy that could be read beats one that could not. Of those that could, one that fits its own record beats one that contradicts it:
//! the record says the size since level 5, and always whether there is an omap; a head's says the sizes of its clones. Of those that fit,
//! what most hold counts; if as many hold something else, then what has the newer version, and at last what the primary has. An object
//! that some copy has exists.
//!
//! *Doubt.* Copies whose records are equal and of which one holds far more than most do not differ by rot, which checksums find. Something
//! was not written where it should be, and most may lack it. If the record does not tell who is right, such an object is shown beside what
//! holds most, and is not repaired: that would destroy what may be the last whole copy, or bring back what was to go. An operator reads the
//! object where it is whole and writes it again ([damage.md](../../../../docs/operations/damage.md)). The same is true if no copy fits its
//! record.

use super::entry::Entry;
use crate::info::ObjectInfo;
use messages::scrub::{object, shard, snapset};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use types::{CopyId, EVersion, HObject, SnapId};

/// Bytes of a portion of a copy from another object.
const FAR: u64 = 8 << 20;

/// One copy of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<'a> {
    pub(crate) id: CopyId,
    pub(crate) primary: bool,
    /// What it holds; `None`: nothing.
    pub(crate) entry: Option<&'a Entry>,
}

impl<'a> Copy<'a> {
    /// Returns what it holds, if it could be read.
    fn whole(&self) -> Option<&'a Entry> {
        self.entry.filter(|entry| entry.errors == 0)
    }
}

/// What is wrong with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// In what copies that could be read differ: bits of [`object`].
    pub(crate) errors: u64,
    /// Bits of [`shard`] of each copy.
    pub(crate) shards: BTreeMap<CopyId, u64>,
    /// A copy that is right, if one is.
    pub(crate) authority: Option<CopyId>,
    /// Copies that are not, and why.
    pub(crate) wrong: Vec<(CopyId, String)>,
    /// It is not certain who is right: nothing is repaired.
    pub(crate) doubted: bool,
}

impl Verdict {
    /// Bits of [`shard`] of all copies.
    pub(crate) fn union(&self) -> u64 {
        self.shards.values().fold(0, |all, errors| all | errors)
    }

    /// Copies that are not there.
    pub(crate) fn missing(&self) -> usize {
        self.shards.values().filter(|errors| **errors & shard::MISSING != 0).count()
    }

    /// Returns true if only a deep scrub can find what is wrong with this copy.
    pub(crate) fn is_deep(&self, copy: CopyId) -> bool {
        let errors = self.shards.get(&copy).copied().unwrap_or_default();
        errors & shard::DEEP != 0 || errors == 0 && self.errors & object::DEEP != 0
    }
}

/// Returns true if all copies hold the same, and none has an error.
pub(crate) fn agree(copies: &[Copy<'_>]) -> bool {
    let Some(first) = copies.first() else { return true };
    copies.iter().all(|copy| match (first.entry, copy.entry) {
        (Some(one), Some(other)) => one.errors | other.errors == 0 && one.equals(other),
        (one, other) => one.is_none() && other.is_none(),
    })
}

/// Says what is wrong with the copies of an object; `None` if nothing is. `size`: bytes that a clone has by its head's record.
pub(crate) fn judge(copies: &[Copy<'_>], size: Option<u64>) -> Option<Verdict> {
    if agree(copies) {
        return None;
    }
    let most = authority(copies, size);
    let more = most.and_then(|(_, entry)| far_more(copies, entry, size));
    let authority = more.or(most);
    let unfit = most.is_some_and(|(_, entry)| !fits(entry, size));
    let doubted = more.is_some() || unfit;
    let mut verdict = Verdict { authority: authority.map(|(copy, _)| copy), doubted, ..Verdict::default() };
    for copy in copies {
        let (errors, why) = match (copy.entry, authority) {
            (None, _) => (shard::MISSING, "missing".into()),
            (Some(entry), _) if entry.errors != 0 => (entry.errors, own_errors(entry.errors)),
            (Some(entry), Some((copy, right))) => {
                let (errors, of_object, why) = differences(entry, right, copy);
                verdict.errors |= of_object;
                (errors, why)
            }
            // An entry without errors is a candidate itself.
            (Some(_), None) => (0, String::new()),
        };
        verdict.shards.insert(copy.id, errors);
        if !why.is_empty() {
            verdict.wrong.push((copy.id, why));
        }
    }
    Some(verdict)
}

/// Returns true if a copy holds what its record says, as far as that says it.
fn fits(entry: &Entry, size: Option<u64>) -> bool {
    let info = entry.info();
    let sized = info.size.or(size).is_none_or(|size| size == entry.size);
    sized && (info.omap || !entry.has_omap())
}

fn authority<'a>(copies: &[Copy<'a>], size: Option<u64>) -> Option<(CopyId, &'a Entry)> {
    let whole = || copies.iter().filter_map(|copy| Some((copy, copy.whole()?)));
    let rank = |(copy, entry): &(&Copy<'a>, &'a Entry)| {
        let equal = whole().filter(|(_, other)| other.equals(entry));
        let votes = equal.clone().count();
        (
            fits(entry, size),
            votes,
            entry.info().version,
            equal.clone().any(|(copy, _)| copy.primary),
            copy.primary,
            Reverse(copy.id),
        )
    };
    whole().max_by_key(rank).map(|(copy, entry)| (copy.id, entry))
}

/// Returns the copy that holds most, if that is of the same version as `entry` and far more. Far more is what has data, an omap or
/// attributes where `entry` has none, or so much more data as programs before this one collected on the primary alone when they copied an
/// object from another one. A copy that contradicts its record does not count.
fn far_more<'a>(copies: &[Copy<'a>], entry: &Entry, size: Option<u64>) -> Option<(CopyId, &'a Entry)> {
    let data = |other: &Entry| entry.size == 0 && other.size > 0 || entry.size.saturating_add(FAR) <= other.size;
    let omap = |other: &Entry| entry.lacks_omap() && other.has_omap();
    let attrs = |other: &Entry| !entry.has_attrs() && other.has_attrs();
    let more = |other: &Entry| data(other) || omap(other) || attrs(other);
    let others = copies.iter().filter_map(|copy| Some((copy.id, copy.whole()?)));
    let same = others.filter(|(_, other)| other.record == entry.record && fits(other, size));
    same.filter(|(_, other)| more(other))
        .max_by_key(|(copy, other)| (other.size, other.has_omap(), other.has_attrs(), Reverse(*copy)))
}

/// Bytes that a head's record gives a clone.
pub(crate) fn recorded_size(head: &Entry, clone: SnapId) -> Option<u64> {
    head.info().snaps.clones.iter().find(|info| info.id == clone.0).map(|info| info.size)
}

/// Returns what a copy could not read of itself, in Ceph's words.
fn own_errors(errors: u64) -> String {
    let words = [
        (shard::READ_ERROR, "candidate had a read error"),
        (shard::STAT_ERROR, "candidate had a stat error"),
        (shard::INFO_MISSING, "candidate had a missing info key"),
        (shard::INFO_CORRUPTED, "candidate had a corrupt info"),
    ];
    words.iter().filter(|(bit, _)| errors & bit != 0).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
}

/// In what a copy differs from one that is right: bits of the copy, bits of the object, in words.
fn differences(entry: &Entry, right: &Entry, from: CopyId) -> (u64, u64, String) {
    let (mut errors, mut of_object, mut why) = (0, 0, Vec::new());
    let digest = |digest: Option<u32>| digest.map_or_else(|| "none".into(), |digest| format!("{digest:#x}"));
    if entry.data != right.data {
        errors |= shard::DATA_DIGEST_MISMATCH_INFO;
        of_object |= object::DATA_DIGEST_MISMATCH;
        why.push(format!("data_digest {} != data_digest {} from shard {from}", digest(entry.data), digest(right.data)));
    }
    if entry.omap != right.omap {
        errors |= shard::OMAP_DIGEST_MISMATCH_INFO;
        of_object |= object::OMAP_DIGEST_MISMATCH;
        why.push(format!("omap_digest {} != omap_digest {} from shard {from}", digest(entry.omap), digest(right.omap)));
    }
    if entry.size != right.size {
        errors |= shard::SIZE_MISMATCH_INFO | shard::OBJ_SIZE_INFO_MISMATCH;
        of_object |= object::SIZE_MISMATCH;
        why.push(format!("size {} != size {} from shard {from}", entry.size, right.size));
    }
    if entry.record != right.record {
        of_object |= object::INFO_INCONSISTENCY;
        why.push(format!("object info {} != object info {} from shard {from}", entry.info().version, right.info().version));
    }
    if entry.attrs_digest != right.attrs_digest {
        let names = |entry: &Entry| entry.attrs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let other_names = names(entry) != names(right);
        of_object |= if other_names { object::ATTR_NAME_MISMATCH } else { object::ATTR_VALUE_MISMATCH };
        why.push(format!("attr {} mismatch with shard {from}", if other_names { "name" } else { "value" }));
    }
    (errors, of_object, why.join(", "))
}

/// A contradiction between a head and its clones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction {
    /// The head, or the clone that is meant.
    pub(crate) object: HObject,
    /// Bits of [`snapset`].
    pub(crate) errors: u64,
    /// Clones that the head does not name.
    pub(crate) extra: Vec<SnapId>,
    /// Clones that are not there.
    pub(crate) missing: Vec<SnapId>,
}

impl Contradiction {
    fn of(object: HObject, errors: u64) -> Self {
        Self { object, errors, extra: Vec::new(), missing: Vec::new() }
    }
}

/// In what one object's head and clones, as they are right, contradict each other. `entries` are in order: clones, then the head.
pub(crate) fn contradictions(entries: &[&Entry]) -> Vec<Contradiction> {
    let (heads, clones): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| entry.object.is_head());
    let Some(head) = heads.first() else {
        return clones.iter().map(|clone| Contradiction::of(clone.object.clone(), snapset::HEADLESS)).collect();
    };
    let Ok(info) = ObjectInfo::decode(&head.record) else { return Vec::new() };
    let named = |snap: SnapId| info.snaps.clones.iter().find(|clone| clone.id == snap.0);
    let mut found = Vec::new();
    let mut of_head = Contradiction::of(head.object.clone(), 0);
    for clone in &clones {
        match named(clone.object.snap) {
            Some(info) if info.size == clone.size => {}
            Some(_) => found.push(Contradiction::of(clone.object.clone(), snapset::SIZE_MISMATCH)),
            None => of_head.extra.push(clone.object.snap),
        }
    }
    let there = |id: u64| clones.iter().any(|clone| clone.object.snap.0 == id);
    of_head.missing = info.snaps.clones.iter().filter(|clone| !there(clone.id)).map(|clone| SnapId(clone.id)).collect();
    of_head.errors |= if of_head.extra.is_empty() { 0 } else { snapset::EXTRA_CLONES };
    of_head.errors |= if of_head.missing.is_empty() { 0 } else { snapset::CLONE_MISSING };
    if of_head.errors != 0 {
        found.push(of_head);
    }
    found
}

/// The version that clients see of what is right, and the record's own.
pub(crate) fn versions(copies: &[Copy<'_>], authority: Option<CopyId>) -> (u64, EVersion) {
    let right = copies.iter().find(|copy| Some(copy.id) == authority).and_then(|copy| copy.entry);
    right.map_or((0, EVersion::default()), |entry| {
        let info = entry.info();
        (info.user_version, info.version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::{CloneInfo, SnapSet};
    use bytes::Bytes;
    use kernels::SEED;
    use types::{Intervals, Locator, OsdId};

    fn head() -> HObject {
        HObject::head(Bytes::from_static(b"o"), &Locator::pool(1))
    }

    fn entry(version: u64, data: u32) -> Entry {
        let info = ObjectInfo { version: EVersion::new(3, version), user_version: version, omap: true, ..ObjectInfo::default() };
        Entry {
            object: head(),
            size: 10,
            record: info.encode(),
            data: Some(data),
            omap: Some(u32::MAX),
            attrs_digest: 1,
            ..Entry::default()
        }
    }

    fn rotten(errors: u64) -> Entry {
        Entry { errors, data: None, omap: None, ..entry(7, 0) }
    }

    /// Copies on osd.0, which leads, osd.1 and so on.
    fn copies<'a>(entries: &'a [Option<Entry>]) -> Vec<Copy<'a>> {
        let copy = |(at, entry): (usize, &'a Option<Entry>)| Copy {
            id: CopyId::whole(at as OsdId),
            primary: at == 0,
            entry: entry.as_ref(),
        };
        entries.iter().enumerate().map(copy).collect()
    }

    fn judged(entries: &[Option<Entry>]) -> Verdict {
        judge(&copies(entries), None).expect("something is wrong")
    }

    fn wrong(verdict: &Verdict) -> Vec<OsdId> {
        verdict.wrong.iter().map(|(copy, _)| copy.osd).collect()
    }

    fn right(verdict: &Verdict) -> Option<OsdId> {
        verdict.authority.map(|copy| copy.osd)
    }

    #[test]
    fn equal_copies_are_right() {
        assert_eq!(judge(&copies(&[Some(entry(7, 1)), Some(entry(7, 1)), Some(entry(7, 1))]), None), None);
        assert_eq!(judge(&copies(&[None, None]), None), None);
        assert_eq!(judge(&[], None), None);
        assert_eq!(judge(&copies(&[Some(entry(7, 1))]), None), None);
    }

    #[test]
    fn a_copy_that_cannot_be_read_is_wrong_wherever_it_is() {
        for at in 0..3 {
            let mut all = [Some(entry(7, 1)), Some(entry(7, 1)), Some(entry(7, 1))];
            all[at] = Some(rotten(shard::READ_ERROR));
            let verdict = judged(&all);
            assert_eq!(wrong(&verdict), [at as OsdId]);
            assert_eq!((verdict.errors, verdict.union()), (0, shard::READ_ERROR), "the others agree");
            assert!(verdict.is_deep(CopyId::whole(at as OsdId)) && right(&verdict).is_some_and(|osd| osd != at as OsdId));
        }
        let verdict = judged(&[Some(rotten(shard::READ_ERROR)), Some(rotten(shard::READ_ERROR)), Some(entry(7, 1))]);
        assert_eq!((right(&verdict), wrong(&verdict)), (Some(2), vec![0, 1]), "one that can be read beats two that cannot");
    }

    #[test]
    fn nobody_is_right_if_nobody_can_be_read() {
        let verdict = judged(&[Some(rotten(shard::READ_ERROR)), Some(rotten(shard::INFO_CORRUPTED))]);
        assert_eq!((right(&verdict), wrong(&verdict)), (None, vec![0, 1]));
        let verdict = judged(&[Some(rotten(shard::READ_ERROR)), None]);
        assert_eq!((right(&verdict), verdict.missing()), (None, 1));
    }

    #[test]
    fn most_copies_are_right_and_with_as_many_the_newer_or_the_primary_is() {
        let verdict = judged(&[Some(entry(7, 9)), Some(entry(7, 1)), Some(entry(7, 1))]);
        assert_eq!((wrong(&verdict), verdict.errors), (vec![0], object::DATA_DIGEST_MISMATCH));
        assert_eq!(verdict.shards[&CopyId::whole(0)], shard::DATA_DIGEST_MISMATCH_INFO);
        assert_eq!(verdict.shards[&CopyId::whole(1)], 0);
        assert!(verdict.wrong[0].1.contains("data_digest 0x9 != data_digest 0x1 from shard 1"), "{:?}", verdict.wrong);
        let verdict = judged(&[Some(entry(7, 9)), Some(entry(7, 1))]);
        assert_eq!((right(&verdict), wrong(&verdict)), (Some(0), vec![1]));
        let verdict = judged(&[Some(entry(6, 9)), Some(entry(7, 1))]);
        assert_eq!((right(&verdict), wrong(&verdict)), (Some(1), vec![0]));
        assert_eq!(verdict.errors, object::DATA_DIGEST_MISMATCH | object::INFO_INCONSISTENCY);
        let verdict = judged(&[Some(entry(7, 9)), Some(entry(7, 1)), Some(entry(7, 2))]);
        assert_eq!((right(&verdict), wrong(&verdict)), (Some(0), vec![1, 2]), "all differ");
    }

    #[test]
    fn most_copies_are_not_right_if_one_of_the_same_version_holds_far_more() {
        let sized = |size, data| Some(Entry { size, ..entry(7, data) });
        for (whole, short) in [(16 << 20, 0), (16 << 20, 4), (10, 0)] {
            for at in 0..3 {
                let mut all = [sized(short, 1), sized(short, 1), sized(short, 1)];
                all[at] = sized(whole, 2);
                let verdict = judged(&all);
                assert!(verdict.doubted, "{whole} bytes on osd.{at}, {short} elsewhere");
                assert_eq!((right(&verdict), wrong(&verdict).len()), (Some(at as OsdId), 2), "shown beside what holds most");
            }
        }
        // A little more, or an older version, is no doubt.
        let verdict = judged(&[sized(11, 2), sized(10, 1), sized(10, 1)]);
        assert_eq!((right(&verdict), verdict.doubted), (Some(1), false));
        let older = Some(Entry { size: 16 << 20, ..entry(6, 2) });
        let verdict = judged(&[older, sized(0, 1), sized(0, 1)]);
        assert_eq!((right(&verdict), verdict.doubted), (Some(1), false));
        // Most hold it: those that do not are wrong.
        assert_eq!(wrong(&judged(&[sized(0, 1), sized(16 << 20, 2), sized(16 << 20, 2)])), [0]);
    }

    /// An entry of an object with this record.
    fn recorded(info: &ObjectInfo, size: u64, omap: u32, attrs: u32) -> Option<Entry> {
        Some(Entry { size, record: info.encode(), omap: Some(omap), attrs_digest: attrs, ..entry(7, size as u32) })
    }

    #[test]
    fn a_copy_that_lacks_an_omap_or_attributes_is_doubted_as_one_that_lacks_data() {
        let info = ObjectInfo { version: EVersion::new(3, 7), omap: true, ..ObjectInfo::default() };
        for (omap, attrs) in [(5, SEED), (SEED, 5), (5, 5)] {
            for at in 0..3 {
                let mut all = [recorded(&info, 0, SEED, SEED), recorded(&info, 0, SEED, SEED), recorded(&info, 0, SEED, SEED)];
                all[at] = recorded(&info, 0, omap, attrs);
                let verdict = judged(&all);
                assert!(verdict.doubted, "omap {omap}, attributes {attrs} on osd.{at}");
                assert_eq!((right(&verdict), wrong(&verdict).len()), (Some(at as OsdId), 2));
                // Most have it: the one that has not is wrong, and is mended.
                let mut all = [recorded(&info, 0, omap, attrs), recorded(&info, 0, omap, attrs), recorded(&info, 0, omap, attrs)];
                all[at] = recorded(&info, 0, SEED, SEED);
                let verdict = judged(&all);
                assert_eq!((verdict.doubted, wrong(&verdict)), (false, vec![at as OsdId]));
            }
        }
        // What only a deep scrub reads is no doubt of a light one.
        let light = |entry: Option<Entry>| entry.map(|entry| Entry { omap: None, data: None, ..entry });
        let all =
            [light(recorded(&info, 0, 1, SEED)), light(recorded(&info, 0, SEED, SEED)), light(recorded(&info, 0, SEED, SEED))];
        assert_eq!(judge(&copies(&all), None), None);
    }

    #[test]
    fn a_copy_that_contradicts_its_own_record_is_wrong_however_many_do() {
        let sized = |size| ObjectInfo { version: EVersion::new(3, 7), size: Some(size), ..ObjectInfo::default() };
        for (recorded_size, wrong_size) in [(16 << 20, 0), (10, 0), (0, 10), (10, 11)] {
            for at in 0..3 {
                let info = sized(recorded_size);
                let bad = || recorded(&info, wrong_size, SEED, 1);
                let mut all = [bad(), bad(), bad()];
                all[at] = recorded(&info, recorded_size, SEED, 1);
                let verdict = judged(&all);
                assert_eq!((right(&verdict), verdict.doubted), (Some(at as OsdId), false), "{recorded_size}, {wrong_size}");
                assert_eq!(wrong(&verdict).len(), 2);
                let told = shard::SIZE_MISMATCH_INFO | shard::OBJ_SIZE_INFO_MISMATCH;
                assert_eq!(verdict.union() & told, told);
            }
        }
        // No omap by the record: who has one is wrong.
        let info = sized(0);
        let verdict = judged(&[recorded(&info, 0, 5, 1), recorded(&info, 0, 5, 1), recorded(&info, 0, SEED, 1)]);
        assert_eq!((right(&verdict), wrong(&verdict), verdict.doubted), (Some(2), vec![0, 1], false));
        // Nobody fits: nobody is taken for right.
        let info = sized(9);
        let verdict = judged(&[recorded(&info, 8, SEED, 1), recorded(&info, 7, SEED, 1)]);
        assert!(verdict.doubted && verdict.authority.is_some());
        // A clone's size is in its head's record.
        let bare = ObjectInfo { version: EVersion::new(3, 7), ..ObjectInfo::default() };
        let all = [recorded(&bare, 0, SEED, 1), recorded(&bare, 0, SEED, 1), recorded(&bare, 10, SEED, 1)];
        let verdict = judge(&copies(&all), Some(10)).expect("something is wrong");
        assert_eq!((right(&verdict), verdict.doubted, wrong(&verdict)), (Some(2), false, vec![0, 1]));
        let verdict = judge(&copies(&all), Some(0)).expect("something is wrong");
        assert_eq!((right(&verdict), verdict.doubted, wrong(&verdict)), (Some(0), false, vec![2]));
        assert!(judged(&all).doubted, "without a head nobody knows");
    }

    #[test]
    fn an_object_that_some_copy_has_exists() {
        let verdict = judged(&[None, Some(entry(7, 1)), None]);
        assert_eq!((right(&verdict), wrong(&verdict), verdict.missing()), (Some(1), vec![0, 2], 2));
        assert!(!verdict.is_deep(CopyId::whole(0)), "a light scrub finds that, too");
    }

    /// What release 16.2.15 says of objects that were spoilt on one of three OSDs in the same ways is the same, but that it blames no copy
    /// for an omap that differs, if the record has no digest of it.
    #[test]
    fn sizes_omaps_records_and_attributes_are_told_apart() {
        let right = entry(7, 1);
        let attrs = |pairs: &[(&'static str, &'static str)], digest| Entry {
            attrs: pairs.iter().map(|(k, v)| (Bytes::from_static(k.as_bytes()), Bytes::from_static(v.as_bytes()))).collect(),
            attrs_digest: digest,
            ..entry(7, 1)
        };
        let cases = [
            (
                right.clone(),
                Entry { size: 11, ..entry(7, 1) },
                object::SIZE_MISMATCH,
                shard::SIZE_MISMATCH_INFO | shard::OBJ_SIZE_INFO_MISMATCH,
            ),
            (
                Entry { omap: Some(2), ..entry(7, 1) },
                Entry { omap: Some(3), ..entry(7, 1) },
                object::OMAP_DIGEST_MISMATCH,
                shard::OMAP_DIGEST_MISMATCH_INFO,
            ),
            (right, entry(6, 1), object::INFO_INCONSISTENCY, 0),
            (attrs(&[("a", "1")], 1), attrs(&[("a", "2")], 2), object::ATTR_VALUE_MISMATCH, 0),
            (attrs(&[("a", "1")], 1), attrs(&[("b", "1")], 2), object::ATTR_NAME_MISMATCH, 0),
        ];
        for (one, other, of_object, of_shard) in cases {
            let verdict = judged(&[Some(one), Some(other)]);
            assert_eq!((verdict.errors, verdict.shards[&CopyId::whole(1)], wrong(&verdict)), (of_object, of_shard, vec![1]));
        }
    }

    #[test]
    fn a_head_and_its_clones_must_fit() {
        let clone_info = |id, size| CloneInfo { id, snaps: vec![id], size, overlap: Intervals::default() };
        let snaps = SnapSet { seq: 9, clones: vec![clone_info(4, 10), clone_info(9, 10)] };
        let head_entry = Entry { record: ObjectInfo { snaps, ..ObjectInfo::default() }.encode(), ..entry(7, 1) };
        let clone = |id| Entry { object: head().at(SnapId(id)), ..entry(3, 1) };
        let (four, nine, extra) = (clone(4), clone(9), clone(6));
        assert_eq!(contradictions(&[&four, &nine, &head_entry]), []);
        let found = contradictions(&[&four, &extra, &head_entry]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].errors, snapset::CLONE_MISSING | snapset::EXTRA_CLONES);
        assert_eq!((&found[0].missing, &found[0].extra), (&vec![SnapId(9)], &vec![SnapId(6)]));
        let found = contradictions(&[&four, &nine]);
        assert!(found.len() == 2 && found.iter().all(|c| c.errors == snapset::HEADLESS), "{found:?}");
        let short = Entry { size: 5, ..clone(9) };
        let found = contradictions(&[&four, &short, &head_entry]);
        assert_eq!((found[0].errors, &found[0].object), (snapset::SIZE_MISMATCH, &short.object));
        assert_eq!(contradictions(&[]), []);
    }
}
