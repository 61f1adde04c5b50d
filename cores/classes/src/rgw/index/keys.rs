//! Keys of the index in the omap.

use crate::keys::key;
use bytes::Bytes;
use messages::class::rgw::index::{DirEntry, ObjKey};

/// The byte with which the sections begin that are no names.
pub(super) const SECTIONS: u8 = 0x80;
/// A key before all sections, and behind all names that stand before them.
pub(super) const BEGIN: &[u8] = b"\x80";
/// A key behind all sections, and before all names that stand behind them.
pub(super) const END: &[u8] = b"\x809999_";
/// Section of the log.
pub(super) const LOG: &[u8] = b"\x800_";
/// Section of versions.
pub(super) const INSTANCE: &[u8] = b"\x801000_";
/// Section of heads.
pub(super) const OLH: &[u8] = b"\x801001_";

/// Key of a version.
pub(super) fn instance(of: &ObjKey) -> Bytes {
    [INSTANCE, &of.name, b"\0i", &of.instance].concat().into()
}

/// Key of a delete marker without an instance.
pub(super) fn null_marker(name: &[u8]) -> Bytes {
    [INSTANCE, name, b"\0i\0d"].concat().into()
}

/// Key of a head.
pub(super) fn olh(name: &[u8]) -> Bytes {
    key(OLH, name)
}

/// Key under which an operation looks first.
pub(super) fn first(of: &ObjKey) -> Bytes {
    if of.instance.is_empty() { of.name.clone() } else { instance(of) }
}

/// A number as text that sorts the earlier the larger the number is. The first digit says how many follow, so that
/// small numbers stay short; numbers of 33 bits and more take a sign with them, as Ceph writes them.
fn descending(number: u64) -> String {
    match number {
        0..0x10 => format!("9{:02}", 0xf - number),
        0x10..0x100 => format!("8{:03}", 0xff - number),
        0x100..0x1000 => format!("7{:04}", 0xfff - number),
        0x1000..0x1_0000 => format!("6{:05}", 0xffff - number),
        0x1_0000..0x1_0000_0000 => format!("5{:010}", 0xffff_ffff - number),
        _ => format!("4{:020}", number.wrapping_neg().cast_signed()),
    }
}

/// Key under which a listing finds a version.
pub(super) fn listed(entry: &DirEntry) -> Bytes {
    let epoch = descending(entry.versioned_epoch);
    [&entry.key.name[..], b"\0v", epoch.as_bytes(), b"\0i", &entry.key.instance].concat().into()
}

/// A key behind all versions of `name`, and before every other name.
pub(super) fn after_versions(name: &[u8]) -> Bytes {
    key(name, b"\x01")
}

/// The name in a key that a listing finds; none if the key is neither a name nor a version's. An epoch of 33 bits and
/// more is none that can be read, as in Ceph.
pub(super) fn listed_name(key: &Bytes) -> Option<Bytes> {
    let Some(end) = key.iter().position(|byte| *byte == 0) else { return Some(key.clone()) };
    let rest = &key[end + 1..];
    if rest.is_empty() {
        return None;
    }
    for field in rest.split(|byte| *byte == 0) {
        if let Some((b'v', epoch)) = field.split_first() {
            let epoch = std::str::from_utf8(epoch).ok()?.trim_ascii_start();
            epoch.parse::<i64>().ok()?;
        }
    }
    Some(key.slice(..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_epochs_sort_first() {
        let epochs = [0, 1, 0xf, 0x10, 0xff, 0x100, 0xfff, 0x1000, 0xffff, 0x1_0000, 0xffff_ffff];
        let keys: Vec<_> = epochs.iter().map(|epoch| descending(*epoch)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] > pair[1]), "{keys:?}");
        assert_eq!(keys[3..5], ["8239", "8000"]);
        assert_eq!(descending(1 << 32), "4-0000000004294967296");
    }

    #[test]
    fn a_name_is_read_from_what_a_listing_finds() {
        let name = |key: &'static [u8]| listed_name(&Bytes::from_static(key));
        assert_eq!(name(b"a"), Some("a".into()));
        assert_eq!(name(b"a\0v913\0ixyz"), Some("a".into()));
        assert_eq!(name(b"a\0"), None);
        assert_eq!(name(b"a\0v\0i"), None);
        assert_eq!(name(b"a\0v4-0000000004294967296\0i"), None);
    }
}
