//! Numbers as Ceph reads them in profiles, with its complaints.

/// Reads as C's `strtoll` with base 10 does, of the whole text.
fn whole(text: &str) -> Result<i64, String> {
    let rest = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Expected option value to be integer, got '{text}'"));
    }
    rest.parse().map_err(|_| seems_invalid(text))
}

fn seems_invalid(text: &str) -> String {
    format!("The option value '{text}' seems to be invalid")
}

/// A whole number of 32 bits.
pub(crate) fn int(text: &str) -> Result<i32, String> {
    whole(text).and_then(|n| i32::try_from(n).map_err(|_| seems_invalid(text)))
}

/// Bytes, perhaps with a suffix: `B`, or `K`, `M` … `E` for powers of 1024, and any one character behind it.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let complaint = |what: &str| Err(format!("strict_iecstrtoll: {what}"));
    if text.is_empty() {
        return complaint("value not specified");
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '+').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let mut shift = 0;
    if let Some(first) = unit.bytes().next() {
        if unit.ends_with('i') && first == b'B' {
            return complaint("illegal prefix \"Bi\"");
        }
        if unit.len() > 2 {
            return complaint("illegal prefix (length > 2)");
        }
        shift = match first {
            b'K' => 10,
            b'M' => 20,
            b'G' => 30,
            b'T' => 40,
            b'P' => 50,
            b'E' => 60,
            b'B' => 0,
            _ => return complaint("unit prefix not recognized"),
        };
    }
    let number = whole(number)?;
    match u64::try_from(number) {
        Err(_) => complaint("value should not be negative"),
        Ok(n) if n > u64::MAX >> shift => complaint("value seems to be too large"),
        Ok(n) => Ok(n << shift),
    }
}
