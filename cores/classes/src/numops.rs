//! Class `numops`: arithmetic on decimal numbers in the omap.

use crate::{Call, Change, Fail, Method, Outcome, RD, WR};
use bytes::Bytes;
use types::Errno;

pub(crate) const METHODS: &[Method] =
    &[Method { name: "add", flags: RD | WR, run: add }, Method { name: "mul", flags: RD | WR, run: mul }];

/// The number in a text that must be one, from its first to its last byte (blanks around it aside).
fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok().filter(|n: &f64| n.is_finite())
}

/// The shortest text for a number with up to 17 significant digits, as C's `%.17g`-like streams print it.
fn text(n: f64) -> String {
    format!("{n}")
}

fn apply(call: &mut Call<'_>, start: f64, f: fn(f64, f64) -> f64) -> Outcome {
    let (key, operand): (Bytes, Bytes) = call.arg()?;
    let operand = number(&operand).ok_or(Fail::Errno(Errno::EINVAL))?;
    let value = match call.omap(&key) {
        // What is stored there is no number: the client's mistake, but not of this call's arguments.
        Ok(stored) => number(&stored).ok_or(Fail::Errno(Errno::EBADMSG))?,
        Err(Fail::Errno(Errno::ENOENT)) => start,
        Err(fail) => return Err(fail),
    };
    let result = f(value, operand);
    if !result.is_finite() {
        return Err(Errno::EOVERFLOW.into());
    }
    call.change(Change::OmapSet(vec![(key, text(result).into())]));
    Ok(Bytes::new())
}

/// Input: key, number. Adds the number to the value under the key, 0 if there is none.
fn add(call: &mut Call<'_>) -> Outcome {
    apply(call, 0.0, |a, b| a + b)
}

/// Input: key, number. Multiplies the value under the key, 0 if there is none.
fn mul(call: &mut Call<'_>) -> Outcome {
    apply(call, 0.0, |a, b| a * b)
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
    }
}
