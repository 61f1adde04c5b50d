//! The ordered map of an object.

use crate::ops::run::{Exec, Run};
use crate::stats::kb;
use bytes::Bytes;
use denc::{Decode, Encode, Reader};
use messages::ops::{Keys, OmapAssertions, OmapGetKeys, OmapGetVals, OmapKeys, OmapRange, OmapVals, Pairs};
use messages::osd::cmp_op;
use objectstore::{Limit, ObjectChange, Page};
use std::cell::Cell;
use std::ops::Bound;
use types::Errno;

/// The smallest key above all that begin with `prefix`; `None` if there is no such key.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}

fn pairs_bytes(pairs: &[(Bytes, Bytes)]) -> usize {
    pairs.iter().map(|(key, value)| key.len() + value.len()).sum()
}

impl Run<'_> {
    fn parse<T: Decode>(&self, index: usize) -> Exec<T> {
        let most = self.env.entries();
        let left = Cell::new(most);
        let parsed = Reader::within(&self.at(index).input, &left).get();
        self.env.see_entries(most - left.get());
        Ok(parsed?)
    }

    /// Entries behind `after` (an empty key is never listed, as in Ceph) with keys that begin with `prefix`.
    pub(crate) fn omap_list(&self, after: &[u8], prefix: &[u8], max: u64) -> Exec<Page> {
        if !self.before.exists || !self.before.info.omap {
            return Ok(Page::default());
        }
        let end = prefix_end(prefix);
        let from = match prefix > after {
            true => Bound::Included(prefix),
            false => Bound::Excluded(after),
        };
        let to = match (&end, prefix.is_empty()) {
            (Some(end), false) => Bound::Excluded(&end[..]),
            _ => Bound::Unbounded,
        };
        let config = self.env.config;
        let limit = Limit { entries: max.min(config.omap_entries as u64) as usize, bytes: config.omap_bytes };
        if limit.entries == 0 {
            let probe = Limit { entries: 1, bytes: 1 };
            let page = self.env.store.omap_scan(self.env.hold, &self.before.at, (from, to), probe)?;
            return Ok(Page { more: !page.entries.is_empty(), entries: Vec::new() });
        }
        let page = self.env.store.omap_scan(self.env.hold, &self.before.at, (from, to), limit)?;
        self.env.see(pairs_bytes(&page.entries));
        Ok(page)
    }

    /// A vector reads what was there before it: an object that it makes itself is not there yet.
    fn must_hold_omap(&self) -> Exec {
        if !self.before.exists && self.after.info.omap { Err(Errno::ENOENT.into()) } else { Ok(()) }
    }

    pub(super) fn op_omap_keys(&mut self, index: usize) -> Exec<i32> {
        self.must_hold_omap()?;
        let wanted: OmapGetKeys = self.parse(index)?;
        let page = self.omap_list(&wanted.start_after, b"", wanted.max)?;
        let keys = page.entries.into_iter().map(|(key, _)| key).collect();
        self.answer(index, &OmapKeys { keys, more: page.more });
        Ok(0)
    }

    pub(super) fn op_omap_vals(&mut self, index: usize) -> Exec<i32> {
        self.must_hold_omap()?;
        let wanted: OmapGetVals = self.parse(index)?;
        let page = self.omap_list(&wanted.start_after, &wanted.prefix, wanted.max)?;
        self.answer(index, &OmapVals { pairs: page.entries.into_iter().collect(), more: page.more });
        Ok(0)
    }

    fn answer(&mut self, index: usize, output: &impl Encode) {
        let output = output.to_bytes();
        self.count_read(output.len() as u64);
        self.output(index, output);
    }

    pub(crate) fn omap_header(&self) -> Exec<Bytes> {
        if !self.before.exists || !self.before.info.omap {
            return Ok(Bytes::new());
        }
        let header = self.env.store.omap_header(self.env.hold, &self.before.at)?;
        self.env.see(header.len());
        Ok(header)
    }

    pub(super) fn op_omap_header(&mut self, index: usize) -> Exec<i32> {
        let header = self.omap_header()?;
        self.count_read(header.len() as u64);
        self.output(index, header);
        Ok(0)
    }

    pub(crate) fn omap_get(&self, keys: &[Bytes]) -> Exec<Vec<(Bytes, Bytes)>> {
        if !self.before.exists || !self.before.info.omap {
            return Ok(Vec::new());
        }
        let found = self.env.store.omap_get(self.env.hold, &self.before.at, keys)?;
        self.env.see(pairs_bytes(&found));
        Ok(found)
    }

    pub(super) fn op_omap_by_keys(&mut self, index: usize) -> Exec<i32> {
        let keys: Keys = self.parse(index)?;
        let pairs: Pairs = self.omap_get(&keys)?.into_iter().collect();
        self.answer(index, &pairs);
        Ok(0)
    }

    pub(super) fn op_omap_cmp(&mut self, index: usize) -> Exec<i32> {
        self.must_live()?;
        self.must_hold_omap()?;
        let assertions: OmapAssertions = self.parse(index)?;
        let keys: Vec<Bytes> = assertions.keys().cloned().collect();
        let stored: Pairs = self.omap_get(&keys)?.into_iter().collect();
        self.delta.rd += 1;
        for (key, (value, op)) in &assertions {
            let have = stored.get(key).cloned().unwrap_or_default();
            // Here the stored value comes first, unlike in CMPXATTR.
            let holds = match u8::try_from(*op) {
                Ok(cmp_op::EQ) => have == *value,
                Ok(cmp_op::LT) => have < *value,
                Ok(cmp_op::GT) => have > *value,
                _ => return Err(Errno::EINVAL.into()),
            };
            if !holds {
                return Err(Errno::ECANCELED.into());
            }
        }
        Ok(0)
    }

    pub(crate) fn omap_set(&mut self, pairs: Vec<(Bytes, Bytes)>) {
        let bytes = pairs_bytes(&pairs);
        self.create();
        if !pairs.is_empty() {
            self.changes.push(ObjectChange::OmapSet(pairs));
        }
        self.after.info.omap = true;
        self.delta.wr += 1;
        self.delta.wr_kb += kb(bytes as u64);
    }

    pub(super) fn op_omap_set(&mut self, index: usize) -> Exec<i32> {
        let pairs: Pairs = self.parse(index)?;
        self.omap_set(pairs.into_iter().collect());
        Ok(0)
    }

    pub(crate) fn omap_set_header(&mut self, header: Bytes) {
        self.create();
        self.changes.push(ObjectChange::OmapHeader(header));
        self.after.info.omap = true;
        self.delta.wr += 1;
    }

    pub(super) fn op_omap_set_header(&mut self, index: usize) -> Exec<i32> {
        self.omap_set_header(self.input(index));
        Ok(0)
    }

    pub(crate) fn omap_clear(&mut self) -> Exec {
        self.must_live()?;
        if self.after.info.omap {
            self.changes.push(ObjectChange::OmapClear);
            self.after.info.omap = false;
            self.delta.wr += 1;
        }
        Ok(())
    }

    pub(super) fn op_omap_clear(&mut self) -> Exec<i32> {
        self.omap_clear()?;
        Ok(0)
    }

    pub(crate) fn omap_remove(&mut self, keys: Vec<Bytes>) -> Exec {
        self.must_live()?;
        self.touched = true;
        self.changes.push(ObjectChange::OmapRemove(keys));
        self.delta.wr += 1;
        Ok(())
    }

    pub(super) fn op_omap_rm_keys(&mut self, index: usize) -> Exec<i32> {
        self.must_live()?;
        let keys: Keys = self.parse(index)?;
        self.omap_remove(keys)?;
        Ok(0)
    }

    pub(crate) fn omap_remove_range(&mut self, first: Bytes, end: Bytes) -> Exec {
        self.must_live()?;
        self.touched = true;
        if first < end {
            self.changes.push(ObjectChange::OmapRemoveRange(first, end));
        }
        self.delta.wr += 1;
        Ok(())
    }

    pub(super) fn op_omap_rm_range(&mut self, index: usize) -> Exec<i32> {
        self.must_live()?;
        let range: OmapRange = self.parse(index)?;
        self.omap_remove_range(range.first, range.end)?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_where_the_next_begins() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(&[b'a', 0xff]), Some(b"b".to_vec()));
        assert_eq!(prefix_end(&[0xff, 0xff]), None);
        assert_eq!(prefix_end(b""), None);
    }
}
