//! Structured answers: one value, given out as JSON or XML.

use crate::pretty;
use serde_json::Value;

/// The format that the asker wants to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    #[default]
    Plain,
    /// JSON on one line.
    Json,
    /// JSON, indented by four.
    JsonPretty,
    /// XML on one line.
    Xml,
    /// XML, indented by four.
    XmlPretty,
}

impl Format {
    /// Parses the command's `format`. Ceph answers one that it does not know as if none had been asked for.
    pub fn parse(name: &str) -> Self {
        match name {
            "json" => Self::Json,
            "xml" => Self::Xml,
            "xml-pretty" => Self::XmlPretty,
            "json-pretty" => Self::JsonPretty,
            _ => Self::Plain,
        }
    }

    /// Says whether the asker wants a structure.
    pub fn is_structured(self) -> bool {
        self != Self::Plain
    }

    /// Writes a value. `Plain` gives indented JSON, for commands without a text of their own. `root`: name of the
    /// outermost XML element.
    pub fn render(self, root: &str, value: &Value) -> String {
        match self {
            Self::Json => value.to_string(),
            Self::Plain | Self::JsonPretty => pretty(value) + "\n",
            Self::Xml | Self::XmlPretty => {
                let mut out = String::new();
                xml(&mut out, root, value, (self == Self::XmlPretty).then_some(0));
                out
            }
        }
    }
}

fn xml(out: &mut String, name: &str, value: &Value, depth: Option<usize>) {
    let pad = " ".repeat(4 * depth.unwrap_or(0));
    let end = if depth.is_some() { "\n" } else { "" };
    let tag: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' }).collect();
    match value {
        Value::Object(fields) => {
            out.push_str(&format!("{pad}<{tag}>{end}"));
            fields.iter().for_each(|(k, v)| xml(out, k, v, depth.map(|d| d + 1)));
            out.push_str(&format!("{pad}</{tag}>{end}"));
        }
        Value::Array(items) => {
            out.push_str(&format!("{pad}<{tag}>{end}"));
            let item = tag.strip_suffix('s').filter(|t| !t.is_empty()).unwrap_or("item");
            items.iter().for_each(|v| xml(out, item, v, depth.map(|d| d + 1)));
            out.push_str(&format!("{pad}</{tag}>{end}"));
        }
        Value::String(text) => out.push_str(&format!("{pad}<{tag}>{}</{tag}>{end}", escape(text))),
        Value::Null => out.push_str(&format!("{pad}<{tag}></{tag}>{end}")),
        other => out.push_str(&format!("{pad}<{tag}>{other}</{tag}>{end}")),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn structures_as_text() {
        let v = json!({"a": 1, "list": [1, "<x>"], "none": []});
        assert_eq!(Format::Json.render("r", &v), r#"{"a":1,"list":[1,"<x>"],"none":[]}"#);
        assert_eq!(
            Format::Plain.render("r", &v),
            "{\n    \"a\": 1,\n    \"list\": [\n        1,\n        \"<x>\"\n    ],\n    \"none\": []\n}\n"
        );
        assert_eq!(Format::Xml.render("r", &v), "<r><a>1</a><list><item>1</item><item>&lt;x&gt;</item></list><none></none></r>");
        assert_eq!(Format::parse("json-pretty"), Format::JsonPretty);
        for text in ["", "plain", "pretty", "yaml", "JSON"] {
            assert_eq!(Format::parse(text), Format::Plain, "{text}");
        }
    }
}
