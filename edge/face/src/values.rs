//! Values of a picture, and numbers as people read them. What is not told counts as nothing.

use serde_json::Value;

/// A number, or a truth as 1 or 0; 0 for all else.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_bool().map(|b| f64::from(u8::from(b)))).unwrap_or(0.0)
}

/// A text; an empty one for all else.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The elements of a list; none for all else.
pub(crate) fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a number in the largest of the units in which it is at least 1, each of which is `step` of the one before: a digit behind the
/// point below 100, `between` between number and unit.
pub(crate) fn scaled(mut n: f64, step: f64, units: &[&str], between: &str) -> String {
    let mut unit = 0;
    while n >= step && unit + 1 < units.len() {
        n /= step;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && n < 100.0);
    format!("{n:.digits$}{between}{}", units[unit]).trim_end().to_owned()
}
