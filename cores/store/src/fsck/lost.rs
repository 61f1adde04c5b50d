//! Finds what a journal holds behind a hole: groups that are whole but cannot be replayed, because one before them is
//! gone.

use super::{BlockRead, Report, Severity};
use crate::block::BLOCK;
use crate::index::delta::Delta;
use crate::index::keys;
use crate::journal::group::{self, Header};
use crate::store::Store;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Most objects that are named.
const NAMED: usize = 50;

/// Reports the whole groups behind the last one that replay reached, and the objects that they change.
pub(super) fn report(disks: &mut dyn BlockRead, store: &Store, report: &mut Report) {
    let groups = groups(disks, store);
    let Some((newest, _)) = groups.last_key_value() else { return };
    let (mut records, mut objects) = (0, BTreeSet::new());
    for (header, bytes) in groups.values() {
        for record in group::parse(header, bytes).into_iter().flatten() {
            records += 1;
            let mut delta = Delta::default();
            if delta.apply(&record.body, |_| ()).is_ok() {
                let names = delta.keys.iter().filter(|(key, _)| key.first() == Some(&keys::NAME));
                objects.extend(names.filter_map(|(key, _)| keys::object(key)).map(|o| o.to_string()));
            }
        }
    }
    let more = objects.len().saturating_sub(NAMED);
    let named: Vec<String> = objects.into_iter().take(NAMED).collect();
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    report.find(
        Severity::Fatal,
        format!("journal, groups {} to {newest}", store.journal.lsn() + 1),
        format!(
            "would be lost without the damaged group: {} whole groups with {records} transactions, which change: {}{others}; and what the damaged group held",
            groups.len(),
            if named.is_empty() { "no objects".into() } else { named.join(", ") }
        ),
    );
}

/// Finds the whole groups with a number behind the last one that was replayed.
fn groups(disks: &mut dyn BlockRead, store: &Store) -> BTreeMap<u64, (Header, Bytes)> {
    let device = store.ring_device();
    let limit = store.sb.ring_len.min((disks.len(device) / BLOCK as u64).saturating_sub(store.sb.ring_start));
    let mut out = BTreeMap::new();
    let mut at = 0;
    while at < limit {
        let mut head = vec![0; BLOCK];
        let read = disks.read(device, (store.sb.ring_start + at) * BLOCK as u64, &mut head);
        let header = read.ok().and_then(|()| Header::parse(&head, &store.sb.uuid)).filter(|h| h.lsn > store.journal.lsn());
        let Some(header) = header.filter(|h| at + h.blocks() <= limit) else {
            at += 1;
            continue;
        };
        let mut bytes = vec![0; header.blocks() as usize * BLOCK];
        let whole = disks.read(device, (store.sb.ring_start + at) * BLOCK as u64, &mut bytes).is_ok();
        let bytes = Bytes::from(bytes);
        if whole && group::parse(&header, &bytes).is_some() {
            at += header.blocks();
            out.insert(header.lsn, (header, bytes));
        } else {
            at += 1;
        }
    }
    out
}
