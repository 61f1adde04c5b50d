//! JSON in the shape that Ceph's manager writes, so that stored values can be read and shown ones compared byte by
//! byte.

use grammar::pretty;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
use std::io::{Result, Write};

/// The layout `{"a": 1, "b": [1, 2]}`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        out.write_all(b": ")
    }
}

/// JSON on one line.
pub(super) fn line(value: &Value) -> String {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, Spaced)).expect("a vector takes all");
    String::from_utf8(out).expect("JSON is text")
}

/// JSON that is indented, with names in order.
pub(super) fn indented(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    pretty(&sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn shapes() {
        let value = json!({"b": [1, {"d": null, "c": "x"}], "a": []});
        assert_eq!(line(&value), r#"{"b": [1, {"d": null, "c": "x"}], "a": []}"#);
        assert_eq!(
            indented(&value),
            "{\n    \"a\": [],\n    \"b\": [\n        1,\n        {\n            \"c\": \"x\",\n            \"d\": null\n        }\n    ]\n}"
        );
    }
}
