//! What the last scrubs of this interval found, as clients list it. It is the primary's, and gone with the interval.

use super::compare::{Contradiction, Copy, Verdict, versions};
use super::entry::Entry;
use crate::info::{CLEAN, WHITEOUT};
use bytes::Bytes;
use denc::Encode;
use messages::ops::{Pairs, ScrubObject};
use messages::scrub::{At, INFO_ATTR, InconsistentObject, InconsistentSnapset, Info, Name, Shard, info_flag, shard};
use std::collections::BTreeMap;
use types::HObject;

/// Objects that are kept at most; what is found beyond is counted only.
const MOST: usize = 4096;
/// Findings in one page at most.
const PAGE: u64 = 1000;

/// An object that is not all right.
#[derive(Clone, Debug)]
struct Found {
    value: InconsistentObject,
    /// Only a deep scrub can find it, so a light one does not take it back.
    deep: bool,
}

/// All that was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    objects: BTreeMap<HObject, Found>,
    snapsets: BTreeMap<HObject, InconsistentSnapset>,
}

impl Findings {
    /// Returns what a new scrub begins with: what it cannot find itself of `last` time's.
    pub(crate) fn begin(last: Option<&Self>, deep: bool) -> Self {
        let mut findings = Self::default();
        if let Some(last) = last.filter(|_| !deep) {
            let kept = last.objects.iter().filter(|(_, found)| found.deep);
            findings.objects = kept.map(|(object, found)| (object.clone(), found.clone())).collect();
        }
        findings
    }

    pub(crate) fn add(&mut self, object: &HObject, copies: &[Copy<'_>], verdict: &Verdict) {
        if self.objects.len() >= MOST && !self.objects.contains_key(object) {
            return;
        }
        let shards: BTreeMap<At, Shard> = copies
            .iter()
            .map(|copy| (At { osd: copy.id.osd, shard: copy.id.shard.0 }, describe(object, copy, verdict)))
            .collect();
        let value = InconsistentObject {
            errors: verdict.errors,
            object: Name::from(object),
            version: versions(copies, verdict.authority).0,
            shards,
            union: verdict.union(),
        };
        let deep = verdict.wrong.iter().all(|(copy, _)| verdict.is_deep(*copy));
        self.objects.insert(object.clone(), Found { value, deep });
    }

    pub(crate) fn contradicts(&mut self, found: &Contradiction) {
        if self.snapsets.len() >= MOST {
            return;
        }
        let Contradiction { object, errors, extra, missing } = found;
        let (clones, missing, list) = (extra.clone(), missing.clone(), Bytes::new());
        let value = InconsistentSnapset { errors: *errors, object: Name::from(object), clones, missing, list };
        self.snapsets.insert(object.clone(), value);
    }

    /// Returns how many objects are not all right.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Findings behind an object, encoded, in order.
    pub(crate) fn page(&self, snapsets: bool, after: &ScrubObject, max: u64) -> Vec<Bytes> {
        match snapsets {
            true => page(self.snapsets.iter().map(|(object, found)| (object, found as &dyn Encode)), after, max),
            false => page(self.objects.iter().map(|(object, found)| (object, &found.value as &dyn Encode)), after, max),
        }
    }
}

fn page<'a>(all: impl Iterator<Item = (&'a HObject, &'a dyn Encode)> + Clone, after: &ScrubObject, max: u64) -> Vec<Bytes> {
    let is_last = |object: &HObject| object.name == after.name && object.nspace == after.nspace && object.snap == after.snap;
    let skip = match after.name.is_empty() {
        true => 0,
        // One that was taken back since is none to go on behind: the list ends.
        false => all.clone().position(|(object, _)| is_last(object)).map_or(usize::MAX, |at| at + 1),
    };
    let encoded = |(_, found): (&HObject, &dyn Encode)| {
        let mut out = Vec::new();
        found.encode(&mut out);
        Bytes::from(out)
    };
    all.skip(skip).take(max.min(PAGE) as usize).map(encoded).collect()
}

/// A copy as clients are shown it.
fn describe(object: &HObject, copy: &Copy<'_>, verdict: &Verdict) -> Shard {
    let errors = verdict.shards.get(&copy.id).copied().unwrap_or_default();
    let Some(entry) = copy.entry else { return Shard { errors, primary: copy.primary, ..Shard::default() } };
    Shard {
        errors,
        primary: copy.primary,
        attrs: attributes(object, entry),
        size: entry.size,
        omap_digest: entry.omap,
        data_digest: entry.data,
        selected: verdict.authority == Some(copy.id),
    }
}

fn attributes(object: &HObject, entry: &Entry) -> Pairs {
    let own = |(name, value): &(Bytes, Bytes)| ([b"_", &name[..]].concat().into(), value.clone());
    let mut attrs: Pairs = entry.attrs.iter().map(own).collect();
    match entry.errors & (shard::INFO_MISSING | shard::INFO_CORRUPTED) {
        0 => attrs.insert(Bytes::from_static(INFO_ATTR), record(object, entry).to_bytes()),
        shard::INFO_MISSING => None,
        _ => attrs.insert(Bytes::from_static(INFO_ATTR), entry.record.clone()),
    };
    attrs
}

fn record(object: &HObject, entry: &Entry) -> Info {
    let info = entry.info();
    let flags = [
        (info.flags & WHITEOUT != 0, info_flag::WHITEOUT),
        (info.flags & CLEAN == 0, info_flag::DIRTY),
        (info.omap, info_flag::OMAP),
        (entry.data.is_some(), info_flag::DATA_DIGEST),
        (entry.omap.is_some(), info_flag::OMAP_DIGEST),
    ];
    Info {
        object: object.clone(),
        version: info.version,
        user_version: info.user_version,
        size: entry.size,
        mtime: info.mtime,
        truncate_seq: info.truncate_seq,
        truncate_size: info.truncate_size,
        flags: flags.iter().filter(|(there, _)| *there).fold(0, |all, (_, bit)| all | bit),
        data_digest: entry.data.unwrap_or(u32::MAX),
        omap_digest: entry.omap.unwrap_or(u32::MAX),
        hint: info.hint.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::compare::judge;
    use denc::Decode;
    use types::{CopyId, Locator};

    fn object(name: &'static str) -> HObject {
        HObject::head(Bytes::from_static(name.as_bytes()), &Locator::pool(1))
    }

    fn found(names: &[&'static str], errors: u64) -> Findings {
        let mut findings = Findings::default();
        for name in names {
            let right = Entry { object: object(name), record: crate::info::ObjectInfo::default().encode(), ..Entry::default() };
            let wrong = Entry { errors, ..right.clone() };
            let copies = [
                Copy { id: CopyId::whole(0), primary: true, entry: Some(&right) },
                Copy { id: CopyId::whole(1), primary: false, entry: Some(&wrong) },
                Copy { id: CopyId::whole(2), primary: false, entry: None },
            ];
            findings.add(&object(name), &copies, &judge(&copies, None).expect("wrong"));
        }
        findings
    }

    #[test]
    fn findings_are_listed_in_pages() {
        let findings = found(&["a", "b", "c"], shard::READ_ERROR);
        let mut after = ScrubObject::default();
        let mut names = Vec::new();
        loop {
            let page = findings.page(false, &after, 2);
            for bytes in &page {
                let value = InconsistentObject::from_bytes(bytes).expect("a finding");
                assert_eq!(value.union, shard::READ_ERROR | shard::MISSING);
                assert!(value.shards[&At::whole(0)].selected && value.shards[&At::whole(0)].attrs.contains_key(INFO_ATTR));
                let Name { name, nspace, snap, .. } = value.object;
                after = ScrubObject { name: name.clone(), nspace, snap };
                names.push(name);
            }
            if page.len() < 2 {
                break;
            }
        }
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(findings.page(true, &ScrubObject::default(), 10).is_empty());
        let foreign = ScrubObject { name: "zzz".into(), ..ScrubObject::default() };
        assert!(findings.page(false, &foreign, 10).is_empty());
    }

    #[test]
    fn a_light_scrub_does_not_take_back_what_it_cannot_find() {
        let mut deep = Findings::default();
        let right = Entry { object: object("a"), ..Entry::default() };
        let wrong = Entry { errors: shard::READ_ERROR, ..right.clone() };
        let copies = [
            Copy { id: CopyId::whole(0), primary: true, entry: Some(&right) },
            Copy { id: CopyId::whole(1), primary: false, entry: Some(&wrong) },
        ];
        deep.add(&object("a"), &copies, &judge(&copies, None).expect("wrong"));
        assert_eq!(Findings::begin(Some(&deep), false).len(), 1);
        assert_eq!(Findings::begin(Some(&deep), true).len(), 0);
        assert_eq!(Findings::begin(Some(&found(&["a"], shard::STAT_ERROR)), false).len(), 0);
        assert_eq!(Findings::begin(None, false).len(), 0);
    }
}
