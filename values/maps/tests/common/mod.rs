//! Reads the recorded conversations and the encoded samples that the workspace keeps for tests.

#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;

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
