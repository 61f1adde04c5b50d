//! Reads the recorded conversations and the encoded samples that the workspace keeps for tests.

#![allow(dead_code, unreachable_pub)]

use maps::UpActing;
use std::collections::BTreeMap;
use types::PgId;

/// Samples of encoded structures: type → (hash of the sample, bytes).
pub fn samples() -> BTreeMap<String, Vec<(String, Vec<u8>)>> {
    let mut by_type: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (path, bytes) in recordings::archive("ceph-objects-16.2.0.tar.xz", |_| true) {
        let mut parts = path.rsplit('/');
        let (Some(hash), Some(kind)) = (parts.next(), parts.next()) else { continue };
        by_type.entry(kind.to_owned()).or_default().push((hash.to_owned(), bytes));
    }
    by_type
}

/// The front of every message of the kinds `kinds` in all recordings, as (recording, kind, front).
pub fn recorded_messages(kinds: &[u16]) -> Vec<(String, u16, Vec<u8>)> {
    let mut found = Vec::new();
    for (name, bytes) in recordings::recordings() {
        let messages = recordings::parse(&bytes).messages.into_iter().map(|seen| seen.message);
        found.extend(messages.filter(|m| kinds.contains(&m.kind)).map(|m| (name.clone(), m.kind, m.front.to_vec())));
    }
    assert!(!found.is_empty(), "no such messages in the recordings");
    found
}

/// Reads a line of `osdmaptool --test-map-pgs-dump-all`: `1.0 raw ([0,1], p0) up ([0,1], p0) acting ([0,1], p0)`.
pub fn placed_line(line: &str) -> (PgId, (Vec<i32>, UpActing)) {
    let (pg, rest) = line.split_once(" raw ").expect("a raw set");
    let mut sets = rest.split("([").skip(1).map(|s| {
        let (list, primary) = s.split_once("], p").expect("a set");
        let list = list.split(',').filter(|s| !s.is_empty()).map(osd).collect::<Vec<_>>();
        let (primary, _) = primary.split_once(')').expect("a primary");
        (list, osd(primary))
    });
    let mut next = || sets.next().expect("three sets");
    let ((raw, _), (up, up_primary), (acting, acting_primary)) = (next(), next(), next());
    (pg.parse().expect("a group"), (raw, UpActing { up, up_primary, acting, acting_primary }))
}

fn osd(s: &str) -> i32 {
    if s == "NONE" { crush::NONE } else { s.parse().expect("an OSD") }
}
