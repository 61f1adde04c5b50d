//! Amounts as people read them.

/// Writes `value` with the largest fitting one of `units`, which are powers of `base`, in about four significant
/// characters: no fraction for whole multiples, otherwise as many digits (at most two) as fit seven characters with the
/// unit.
fn scaled(value: u64, base: u64, units: &[&str]) -> String {
    let (mut whole, mut index, mut scale) = (value, 0, 1u64);
    while whole >= base && index + 1 < units.len() {
        whole /= base;
        index += 1;
        scale *= base;
    }
    let unit = units[index];
    if index == 0 || value.is_multiple_of(scale) {
        return format!("{whole}{unit}");
    }
    let digits = |n: usize| format!("{:.n$}{unit}", value as f64 / scale as f64);
    [2, 1].into_iter().map(digits).find(|s| s.len() <= 7).unwrap_or_else(|| digits(0))
}

/// Writes bytes: `290 MiB`
pub fn bytes(n: u64) -> String {
    scaled(n, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// Writes a count: `4.13k`
pub fn si(n: u64) -> String {
    scaled(n, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

/// Writes a span of seconds in the coarsest fitting unit: `6m`, `47s`, `3d`.
pub fn span(secs: u64) -> String {
    const UNITS: [(u64, u64, &str); 6] = [
        (120, 1, "s"),
        (7200, 60, "m"),
        (48 * 3600, 3600, "h"),
        (14 * 86_400, 86_400, "d"),
        (12 * 7 * 86_400, 7 * 86_400, "w"),
        (2 * 365 * 86_400, 30 * 86_400, "M"),
    ];
    for (below, unit, name) in UNITS {
        if secs < below {
            return format!("{}{name}", secs / unit);
        }
    }
    format!("{}y", secs / (365 * 86_400))
}

/// Writes a number as a C++ stream prints a double: six significant digits, no trailing zeros.
pub fn number(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let exponent = x.abs().log10().floor() as i32;
    if !(-5..6).contains(&exponent) {
        let text = format!("{x:.5e}");
        let (mantissa, exp) = text.split_once('e').unwrap_or((&text, "0"));
        let exp: i32 = exp.parse().unwrap_or(0);
        let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
        return format!("{mantissa}e{}{:02}", if exp < 0 { '-' } else { '+' }, exp.abs());
    }
    let digits = (5 - exponent).max(0) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// The power of its base for which a unit's letter stands.
fn power(letter: u8) -> Option<u32> {
    b"KMGTPE".iter().position(|l| *l == letter || letter == b'k' && *l == b'K').map(|at| at as u32 + 1)
}

/// Parses `10K`, `1Gi`, `5M`, `100`: an amount with a binary (`i` or, for bytes, plain) or decimal suffix.
pub fn parse(text: &str, binary: bool) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let suffix = suffix.trim().trim_end_matches('B');
    let (letter, base) = match suffix.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, 1024u64),
        _ => (suffix, if binary { 1024 } else { 1000 }),
    };
    let power = match letter.as_bytes() {
        [] => 0,
        [letter] => power(*letter)?,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(base.checked_pow(power)?)
}

/// Parses a quota: `10K`, `5M`, `100` as decimal, or for bytes as binary, where `1Gi` and `1GB` are good, too.
///
/// # Errors
/// What is wrong with it, in the words that administrators know.
pub fn quota(text: &str, binary: bool) -> Result<u64, String> {
    let (cast, read) = if binary { ("strict_iecstrtoll", "strict_iecstrtoll") } else { ("strict_si_cast", "strict_sistrtoll") };
    if text.starts_with('-') {
        return Err(format!("{read}: value should not be negative"));
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let power = match (unit.as_bytes(), binary) {
        ([_, _, _, ..], true) => return Err(format!("{read}: illegal prefix (length > 2)")),
        ([], _) | ([b'B'], true) => Some(0),
        ([letter], _) | ([letter, b'i' | b'B'], true) => power(*letter),
        _ => None,
    };
    let Some(power) = power else {
        return Err(format!("{cast}: unit prefix not recognized"));
    };
    let base = if binary { 1024u64 } else { 1000 };
    let value = number.parse().ok().and_then(|n: u64| n.checked_mul(base.pow(power))).filter(|n| *n <= i64::MAX as u64);
    value.ok_or_else(|| format!("The option value '{text}' seems to be invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_as_recorded() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(304_300_032), "290 MiB");
        assert_eq!(bytes(21_474_836_480), "20 GiB");
        assert_eq!(bytes(1_677_721), "1.6 MiB");
        assert_eq!(si(1000), "1k");
        assert_eq!(si(4130), "4.13k");
        assert_eq!(span(360), "6m");
        assert_eq!(span(47), "47s");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(1.0), "1");
        assert_eq!(number(1234567.0), "1.23457e+06");
        assert_eq!(number(0.949999988079071), "0.95");
    }

    #[test]
    fn amounts_are_read() {
        assert_eq!(parse("10K", true), Some(10_240));
        assert_eq!(parse("10k", false), Some(10_000));
        assert_eq!(parse("1Gi", false), Some(1 << 30));
        assert_eq!(parse("7", false), Some(7));
        assert_eq!(parse("7x", false), None);
        assert_eq!(parse("", false), None);
        assert_eq!(parse("99999999999E", false), None);
    }

    #[test]
    fn quotas_are_refused_as_recorded() {
        assert_eq!(quota("10K", true), Ok(10_240));
        assert_eq!(quota("10K", false), Ok(10_000));
        assert_eq!(quota("1Gi", true), Ok(1 << 30));
        assert_eq!(quota("7", false), Ok(7));
        for text in ["1Gi", "1.5", "none", "7x"] {
            assert_eq!(quota(text, false), Err("strict_si_cast: unit prefix not recognized".into()), "{text}");
        }
        assert_eq!(quota("1.5", true), Err("strict_iecstrtoll: unit prefix not recognized".into()));
        assert_eq!(quota("none", true), Err("strict_iecstrtoll: illegal prefix (length > 2)".into()));
        assert_eq!(quota("-1", true), Err("strict_iecstrtoll: value should not be negative".into()));
        for text in ["", "99999999999E", "18446744073709551616"] {
            assert_eq!(quota(text, false), Err(format!("The option value '{text}' seems to be invalid")));
        }
    }
}
