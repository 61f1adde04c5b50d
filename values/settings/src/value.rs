//! Types of options, and their values.

use std::net::{IpAddr, SocketAddr};
use types::{Errno, Fsid};

/// Type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Str,
    /// A level of the log and one of the memory behind it, each 0 to 99: `N` or `N/M`.
    Level,
    /// A whole number from 0 up.
    Uint,
    /// A whole number.
    Int,
    /// Bytes, perhaps with a suffix.
    Size,
    /// A number.
    Float,
    /// True or false.
    Bool,
    /// Seconds.
    Secs,
    /// Milliseconds.
    Millisecs,
    /// A cluster's id.
    Uuid,
    /// An address.
    Addr,
    /// Addresses of one place.
    Addrs,
}

/// Reason why a value is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// `EINVAL` or `ERANGE`, as Ceph answers.
    pub errno: Errno,
    /// In words.
    pub why: String,
}

fn wrong(value: &str, what: &str) -> Wrong {
    Wrong { errno: Errno::EINVAL, why: format!("'{value}' is not {what}") }
}

const NAMES: &[(&str, Kind)] = &[
    ("str", Kind::Str),
    ("level", Kind::Level),
    ("uint", Kind::Uint),
    ("int", Kind::Int),
    ("size", Kind::Size),
    ("float", Kind::Float),
    ("bool", Kind::Bool),
    ("secs", Kind::Secs),
    ("millisecs", Kind::Millisecs),
    ("uuid", Kind::Uuid),
    ("addr", Kind::Addr),
    ("addrvec", Kind::Addrs),
];

impl Kind {
    /// The type that the table calls so.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
    }

    /// As `config help` names it.
    pub fn name(self) -> &'static str {
        let name = NAMES.iter().find(|(_, kind)| *kind == self && *kind != Kind::Level);
        name.map_or("str", |(name, _)| name)
    }

    /// Checks a value and gives the form in which it is stored.
    ///
    /// # Errors
    /// The value is not of this type.
    pub fn check(self, value: &str) -> Result<String, Wrong> {
        let value = value.trim();
        let number = |what: &str, found: Option<i64>| found.map(|n| n.to_string()).ok_or_else(|| wrong(value, what));
        match self {
            Kind::Str => Ok(value.to_owned()),
            Kind::Level => level(value),
            Kind::Uint => number("a whole number from 0 up", amount(value, 1000).filter(|n| *n >= 0)),
            Kind::Int => number("a whole number", amount(value, 1000)),
            Kind::Size => number("an amount of bytes", amount(value, 1024).filter(|n| *n >= 0)),
            Kind::Secs => number("a number of seconds", amount(value.trim_end_matches(['s', ' ']), 1000).filter(|n| *n >= 0)),
            Kind::Millisecs => number("a number of milliseconds", amount(value, 1000).filter(|n| *n >= 0)),
            Kind::Float => float(value),
            Kind::Bool => flag(value),
            Kind::Uuid => value.parse::<Fsid>().map(|f| f.to_string()).map_err(|_| wrong(value, "a UUID")),
            Kind::Addr | Kind::Addrs if value.split(',').all(address) => Ok(value.to_owned()),
            Kind::Addr | Kind::Addrs => Err(wrong(value, "an address")),
        }
    }
}

fn level(value: &str) -> Result<String, Wrong> {
    let both: Option<Vec<i64>> = value.split('/').map(|part| part.parse().ok()).collect();
    let (log, memory) = match both.as_deref() {
        Some([one]) => (*one, *one),
        Some([log, memory]) => (*log, *memory),
        _ => {
            let why = "value must take the form N or N/M, where N and M are integers".into();
            return Err(Wrong { errno: Errno::EINVAL, why });
        }
    };
    if ![log, memory].iter().all(|n| (0..=99).contains(n)) {
        return Err(Wrong { errno: Errno::ERANGE, why: "value must be in range [0, 99]".into() });
    }
    Ok(format!("{log}/{memory}"))
}

/// Reads `10K`, `1Gi`, `5M`, `-3`: a whole number, perhaps with a suffix. `base` is what a plain suffix counts by.
fn amount(text: &str, base: i64) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let suffix = suffix.trim().trim_end_matches('B');
    let (letter, base) = match suffix.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, 1024),
        _ => (suffix, base),
    };
    let power = match letter.as_bytes() {
        [] => 0,
        [letter] => "KMGTPE".find(char::from(letter.to_ascii_uppercase()))? + 1,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(base.checked_pow(power as u32)?)?.checked_mul(sign)
}

fn float(value: &str) -> Result<String, Wrong> {
    match value.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(format!("{x:.6}")),
        _ => Err(wrong(value, "a number")),
    }
}

/// True and false in words, or as numbers, of which all but 0 are true.
fn flag(value: &str) -> Result<String, Wrong> {
    let truth = match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        other => other.parse::<i64>().ok().map(|n| n != 0),
    };
    truth.map(|t| t.to_string()).ok_or_else(|| wrong(value, "true or false"))
}

/// An address as `v2:127.0.0.1:3300/0`, or a part of it; nothing stands for none.
fn address(text: &str) -> bool {
    let kinds = ["v1:", "v2:", "any:", "cidr:", "[v1:", "[v2:"];
    let text = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    let (place, nonce) = text.split_once('/').unwrap_or((text, "0"));
    let nonce = nonce.trim_end_matches(']');
    let is_place = place.parse::<SocketAddr>().is_ok() || place.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    place.is_empty() || is_place && nonce.parse::<u32>().is_ok()
}

/// Returns whether a number is inside of bounds, of which an empty one is none.
pub(crate) fn within(value: &str, min: &str, max: &str) -> Result<(), Wrong> {
    let Ok(x) = value.parse::<f64>() else { return Ok(()) };
    let (low, high) = (min.parse::<f64>(), max.parse::<f64>());
    let refused = |why| Err(Wrong { errno: Errno::EINVAL, why });
    match (low, high) {
        (Ok(low), Ok(high)) if x < low || x > high => refused(format!("{value} is outside of {min} to {max}")),
        (Ok(low), _) if x < low => refused(format!("{value} is below {min}, which is the least")),
        (_, Ok(high)) if x > high => refused(format!("{value} is above {max}, which is the most")),
        _ => Ok(()),
    }
}

/// Returns whether a value is one of the permitted ones, of which none means all.
pub(crate) fn permitted(value: &str, choices: &str) -> Result<(), Wrong> {
    if choices.is_empty() || choices.split(' ').any(|choice| choice == value) {
        return Ok(());
    }
    Err(wrong(value, &format!("one of: {}", choices.replace(' ', ", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_suffixes() {
        assert_eq!(amount("10K", 1024), Some(10_240));
        assert_eq!(amount("10k", 1000), Some(10_000));
        assert_eq!(amount("1Gi", 1000), Some(1 << 30));
        assert_eq!(amount("-7", 1000), Some(-7));
        for bad in ["", "7x", "99999999999E", "--1", "1KK"] {
            assert_eq!(amount(bad, 1000), None, "{bad}");
        }
    }

    #[test]
    fn addresses_are_told_from_words() {
        for good in
            ["", "127.0.0.1", "v2:127.0.0.1:3300/0", "[v2:127.0.0.1:3300/0", "v1:127.0.0.1:6789/0]", "[::1]:6789", "10.0.0.0/8"]
        {
            assert!(address(good), "{good}");
        }
        assert!(!address("foo") && !address("v9:127.0.0.1"));
    }

    #[test]
    fn bounds_and_choices_are_kept() {
        assert!(within("5", "1", "").is_ok() && within("0", "1", "").is_err() && within("9", "", "8").is_err());
        assert!(within("9", "1", "8").is_err() && within("text", "1", "8").is_ok());
        assert!(permitted("a", "").is_ok() && permitted("a", "a b").is_ok() && permitted("c", "a b").is_err());
    }
}
