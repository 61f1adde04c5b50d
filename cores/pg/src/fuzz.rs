//! The group's keys and records as an enemy would write them. Only for `tools/fuzz`.

use crate::entry::{LogEntry, decode_page, encode_page};
use crate::history::History;
use crate::info::ObjectInfo;
use crate::meta::{self, Info};

/// A stored record, as everything that it could be: what decodes must encode and decode to the same again.
pub fn stored(bytes: &[u8]) {
    if let Ok(info) = Info::decode(bytes) {
        let again = info.encode();
        assert_eq!(Info::decode(&again).map(|i| i.encode()), Ok(again));
    }
    if let Ok(history) = History::decode(bytes) {
        let again = history.encode();
        assert_eq!(History::decode(&again).map(|h| h.encode()), Ok(again));
    }
    if let Ok(entry) = LogEntry::decode(bytes, 7) {
        let again = entry.encode();
        assert_eq!(LogEntry::decode(&again, 7).map(|e| e.encode()), Ok(again));
    }
    if let Ok(page) = decode_page(bytes) {
        let again = encode_page(&page.iter().collect::<Vec<_>>());
        assert!(decode_page(&again).is_ok());
    }
    if let Ok(info) = ObjectInfo::decode(bytes) {
        let again = info.encode();
        assert_eq!(ObjectInfo::decode(&again).map(|i| i.encode()), Ok(again));
    }
    let _ = (meta::parse_snap_key(bytes, 7), meta::parse_watched_key(bytes, 7));
}

/// Records to begin with.
pub fn seeds() -> Vec<Vec<u8>> {
    let all = [Info::default().encode(), History::default().encode(), encode_page(&[]), ObjectInfo::default().encode()];
    all.map(|bytes| bytes.to_vec()).into()
}
