//! What the store counted, as values for the table of counters, and all of it with words for `dump_store`.

use crate::backend::Counted;
use counters::Readings;
use counters::osd::{MEMORY, STORE};
use serde_json::{Map, Value, json};
use store::{Counters, Memory};

/// Returns values of section `store`.
pub(crate) fn store_readings(c: &Counters) -> Readings {
    let mut out = Readings::default();
    out.put_all([
        ("commits", c.commits),
        ("journal_groups", c.groups),
        ("journal_bytes", c.journal_bytes),
        ("direct_bytes", c.direct_bytes),
        ("moved_bytes", c.moved_bytes),
        ("ahead_bytes", c.ahead_bytes),
        ("index_bytes", c.index_bytes),
        ("checkpoints", c.checkpoints),
        ("data_hits", c.data_hits),
        ("data_misses", c.data_misses),
        ("page_hits", c.page_hits),
        ("page_misses", c.page_misses),
        ("objects_found", c.objects_found),
        ("objects_read", c.objects_read),
        ("damaged", c.damaged),
        ("stalled", c.stalled),
    ]);
    out
}

/// Returns values of section `store_memory` but for `target`, which is the OSD's.
pub(crate) fn memory_readings(m: &Memory) -> Readings {
    let mut out = Readings::default();
    out.put_all([
        ("blocks", m.blocks),
        ("pages", m.pages),
        ("records", m.records),
        ("delta", m.delta),
        ("maps", m.maps),
        ("onodes", m.onodes),
        ("ranges", m.ranges),
        // Of this OSD's thread: for requests and answers, but nobody else will have them meanwhile.
        ("buffers", node::buffers_kept()),
    ]);
    out
}

/// `dump_store`: all that a store of this kind tells.
pub(crate) fn dump(kind: &str, counted: Option<&Counted>) -> Value {
    let mut out = Map::new();
    out.insert("kind".to_owned(), json!(kind));
    let Some(Counted { counters, memory }) = counted else { return out.into() };
    if let Value::Object(counters) = STORE.dump(&store_readings(counters)) {
        out.extend(counters);
    }
    let defrag = &counters.defrag;
    out.insert(
        "defragmentation".to_owned(),
        json!({
            "walks": defrag.walks,
            "parts_looked_at": defrag.looked,
            "parts_moved": defrag.parts,
            "bytes_moved": defrag.bytes,
            "runs_before": defrag.runs,
            "parts_changed": defrag.changed,
            "parts_damaged": defrag.damaged,
            "pause_factor": defrag.yields,
        }),
    );
    out.insert("commit_latency_us_log2".to_owned(), json!(counters.commit_latency));
    out.insert("memory".to_owned(), MEMORY.dump(&memory_readings(memory)));
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_store_has_a_value() {
        let store = store_readings(&Counters::default());
        let mut memory = memory_readings(&Memory::default());
        memory.put("target", 1u64);
        assert_eq!((store.strangers(&STORE), memory.strangers(&MEMORY)), (Vec::new(), Vec::new()));
        for (section, readings) in [(STORE, store), (MEMORY, memory)] {
            assert_eq!(section.dump(&readings).as_object().map(Map::len), Some(section.counters.len()), "{}", section.name);
        }
    }
}
