//! The group's keys and records as an enemy would write them. Only for `tools/fuzz`.

use crate::entry::{LogEntry, decode_page, encode_page};
use crate::history::History;
use crate::info::ObjectInfo;
use crate::letter::{Letter, Sealed, samples};
use crate::meta::{self, Info};
use bytes::Bytes;

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

/// A letter of another copy: two bytes say how long its fixed part is. What opens must open to the same again.
pub fn letter(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (front, data) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    let sealed = Sealed { front: Bytes::copy_from_slice(front), data: data.to_vec().into() };
    if let Ok((envelope, letter)) = Letter::open(&sealed) {
        let again = letter.seal(&envelope);
        assert_eq!(Letter::open(&again), Ok((envelope, letter)));
    }
}

/// Letters to begin with.
pub fn letters() -> Vec<Vec<u8>> {
    let sealed = samples::all().into_iter().map(|letter| letter.seal(&samples::envelope()));
    let bytes = |s: Sealed| [&(s.front.len() as u16).to_le_bytes()[..], &s.front, &s.data.contiguous()].concat();
    sealed.map(bytes).collect()
}
