//! Class `numops`: arithmetic on decimal numbers in the omap.

use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use types::Errno;

pub(crate) const METHODS: &[Method] =
    &[Method { name: "add", flags: RD | WR, run: add }, Method { name: "mul", flags: RD | WR, run: mul }];

/// The number that a text is, as C reads it: blanks before it, nothing after it, none at all is 0. Hexadecimal ones are
/// refused.
fn number(text: &[u8]) -> Option<f64> {
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    match std::str::from_utf8(text).ok()? {
        "" => Some(0.0),
        text => text.trim_ascii_start().parse().ok(),
    }
}

/// Significant digits of a result.
const DIGITS: usize = 10;

/// A number with ten significant digits, without zeros at its end, large and small ones with an exponent: as C++
/// streams print it.
fn text(n: f64) -> String {
    if n == 0.0 || !n.is_finite() {
        return format!("{n}").to_ascii_lowercase();
    }
    let scientific = format!("{:.*e}", DIGITS - 1, n);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS as i32).contains(&exponent) {
        return trim(&format!("{:.*}", (DIGITS as i32 - 1 - exponent) as usize, n));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
}

fn apply(call: &mut Call<'_>, f: fn(f64, f64) -> f64) -> Outcome {
    let (key, operand): (Bytes, Bytes) = call.arg()?;
    let operand = number(&operand).ok_or(Fail::Errno(Errno::EINVAL))?;
    let value = match call.omap(&key) {
        // What is stored there is no number: the client's mistake, but not of this call's arguments.
        Ok(stored) => number(&stored).ok_or(Fail::Errno(Errno::EBADMSG))?,
        Err(Fail::Errno(Errno::ENOENT)) => 0.0,
        Err(fail) => return Err(fail),
    };
    call.change(Change::OmapSet(vec![(key, text(f(value, operand)).into())]));
    Ok(Bytes::new())
}

/// Input: key, number. Adds the number to the value under the key, 0 if there is none.
fn add(call: &mut Call<'_>) -> Outcome {
    apply(call, |a, b| a + b)
}

/// Input: key, number. Multiplies the value under the key, 0 if there is none.
fn mul(call: &mut Call<'_>) -> Outcome {
    apply(call, |a, b| a * b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use denc::Encode;

    #[test]
    fn numbers_add_up() {
        let mut bench = Bench::default();
        let input = |n: &str| (Bytes::from_static(b"k"), Bytes::copy_from_slice(n.as_bytes())).to_bytes();
        assert!(bench.call("numops", "add", &input("10")).is_ok());
        assert!(bench.call("numops", "add", &input("-2.5")).is_ok());
        assert!(bench.call("numops", "mul", &input("4")).is_ok());
        assert_eq!(bench.omap("k"), Some("30".into()));
        assert_eq!(bench.call("numops", "add", &input("x")), Err(Errno::EINVAL));
        assert_eq!(bench.call("numops", "add", &input("1 ")), Err(Errno::EINVAL));
        assert!(bench.call("numops", "add", &input("")).is_ok(), "no number is none");
    }

    #[test]
    fn numbers_are_printed_as_streams_print_them() {
        let cases = [
            (1.0 / 3.0, "0.3333333333"),
            (1e10, "1e+10"),
            (1_234_567_890.0, "1234567890"),
            (-2.5e-7, "-2.5e-07"),
            (0.0001, "0.0001"),
            (9_999_999_999.9, "1e+10"),
            (f64::INFINITY, "inf"),
            (0.0, "0"),
        ];
        for (n, expected) in cases {
            assert_eq!(text(n), expected);
        }
    }
}
