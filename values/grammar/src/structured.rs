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
                xml(&mut out, "", root, value, (self == Self::XmlPretty).then_some(0));
                out
            }
        }
    }
}

/// Writes an element. `parent`: the name of the element around it.
fn xml(out: &mut String, parent: &str, name: &str, value: &Value, depth: Option<usize>) {
    let pad = " ".repeat(4 * depth.unwrap_or(0));
    let end = if depth.is_some() { "\n" } else { "" };
    let tag: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' }).collect();
    match value {
        Value::Object(fields) => {
            out.push_str(&format!("{pad}<{tag}>{end}"));
            fields.iter().for_each(|(k, v)| xml(out, &tag, k, v, depth.map(|d| d + 1)));
            out.push_str(&format!("{pad}</{tag}>{end}"));
        }
        Value::Array(items) => {
            out.push_str(&format!("{pad}<{tag}>{end}"));
            items.iter().for_each(|v| xml(out, &tag, item_name(parent, &tag, v), v, depth.map(|d| d + 1)));
            out.push_str(&format!("{pad}</{tag}>{end}"));
        }
        Value::String(text) => out.push_str(&format!("{pad}<{tag}>{}</{tag}>{end}", escape(text))),
        Value::Null => out.push_str(&format!("{pad}<{tag}></{tag}>{end}")),
        other => out.push_str(&format!("{pad}<{tag}>{other}</{tag}>{end}")),
    }
}

/// Names of the elements of a list, by the list's name, where Ceph calls them otherwise than the list without its `s`.
const ITEMS: [(&str, &str); 30] = [
    ("acting", "osd"),
    ("active_clients", "client"),
    ("addrvec", "addr"),
    ("always_on_modules", "module"),
    ("auth", "auth_entities"),
    ("auth_dump", "auth_entities"),
    ("bad_become_inactive", "pg"),
    ("blocklist", "entry"),
    ("children", "child"),
    ("crush_classes", "class"),
    ("detail", "detail_item"),
    ("disabled_modules", "module"),
    ("enabled_modules", "module"),
    ("erasure-code-profiles", "profile"),
    ("flags_set", "flag"),
    ("mgr_metadata", "mgr"),
    ("mon_metadata", "mon"),
    ("num_pg_by_state", "state"),
    ("optional", "bit_flag"),
    ("osd_device_classes", "osd_device_class"),
    ("osd_metadata", "osd"),
    ("osd_perf_infos", "osd"),
    ("osd_xinfo", "xinfo"),
    ("persistent", "bit_flag"),
    ("pool_snaps", "pool_snap_info"),
    ("quorum_mon", "bit_flag"),
    ("required", "bit_flag"),
    ("supported", "bit_flag"),
    ("tail", "entry"),
    ("up", "osd"),
];

/// The name of an element of a list, as in Ceph 16.
fn item_name<'a>(parent: &'a str, list: &'a str, item: &Value) -> &'a str {
    const DAEMONS: [&str; 5] = ["mon", "mgr", "osd", "mds", "client"];
    match (parent, list) {
        ("osd_map", "up" | "acting") => "osd",
        ("pg_map", "up") => "up_osd",
        ("pg_map", "acting") => "acting_osd",
        ("tree" | "df" | "crush_tree", "nodes" | "stray") => "item",
        ("features", kind) if DAEMONS.contains(&kind) => "group",
        (_, "quorum" | "quorum_names") => "mon",
        // `node ls`: the daemons of a host.
        (kind, _) if DAEMONS.contains(&kind) && !item.is_object() => kind,
        ("" | "osdmap", "osds") if item.get("osd").is_some() && item.get("uuid").is_some() => "osd_info",
        ("", "pool_stats") => "pool",
        ("osd_info", "state") => "state",
        ("osd_status", _) => "osd",
        ("always_on_modules", _) => "module",
        ("", "pools") if !item.is_object() => "pool_name",
        ("", "rules") if !item.is_object() => "name",
        ("", "config") if item.get("source").is_some() => "value",
        ("", "config") | ("option", "flags") => "option",
        _ => match ITEMS.iter().find(|(name, _)| *name == list) {
            Some((_, item)) => item,
            None => list.strip_suffix('s').filter(|t| !t.is_empty()).unwrap_or("item"),
        },
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
        // Names of elements, as Ceph's answers have them.
        for (root, value, xml) in [
            (
                "tree",
                json!({"nodes": [{"children": [1]}]}),
                "<tree><nodes><item><children><child>1</child></children></item></nodes></tree>",
            ),
            (
                "auth",
                json!({"auth_dump": [{"entity": "osd.0"}]}),
                "<auth><auth_dump><auth_entities><entity>osd.0</entity></auth_entities></auth_dump></auth>",
            ),
            ("auth", json!([{"key": "k"}]), "<auth><auth_entities><key>k</key></auth_entities></auth>"),
            (
                "quorum_status",
                json!({"quorum": [0], "quorum_names": ["a"]}),
                "<quorum_status><quorum><mon>0</mon></quorum><quorum_names><mon>a</mon></quorum_names></quorum_status>",
            ),
            ("features", json!({"osd": [{"num": 3}]}), "<features><osd><group><num>3</num></group></osd></features>"),
            ("rules", json!(["r"]), "<rules><name>r</name></rules>"),
            (
                "rules",
                json!([{"steps": [{"op": "emit"}]}]),
                "<rules><rule><steps><step><op>emit</op></step></steps></rule></rules>",
            ),
            ("pools", json!(["p"]), "<pools><pool_name>p</pool_name></pools>"),
            ("pools", json!([{"poolnum": 1}]), "<pools><pool><poolnum>1</poolnum></pool></pools>"),
            (
                "nodes",
                json!({"mgr": {"vm": ["x"]}, "osd": {"vm": [0]}}),
                "<nodes><mgr><vm><mgr>x</mgr></vm></mgr><osd><vm><osd>0</osd></vm></osd></nodes>",
            ),
            ("mon", json!({"vm": ["a"]}), "<mon><vm><mon>a</mon></vm></mon>"),
            (
                "pg_map",
                json!({"up": [1], "acting": [2]}),
                "<pg_map><up><up_osd>1</up_osd></up><acting><acting_osd>2</acting_osd></acting></pg_map>",
            ),
            (
                "pg_info",
                json!({"pg_stats": [{"up": [1]}]}),
                "<pg_info><pg_stats><pg_stat><up><osd>1</osd></up></pg_stat></pg_stats></pg_info>",
            ),
            (
                "tail",
                json!([{"addrs": {"addrvec": [{"nonce": 0}]}}]),
                "<tail><entry><addrs><addrvec><addr><nonce>0</nonce></addr></addrvec></addrs></entry></tail>",
            ),
            ("osd_info", json!({"state": ["up"]}), "<osd_info><state><state>up</state></state></osd_info>"),
            (
                "osdmap",
                json!({"osds": [{"osd": 0, "uuid": "u"}]}),
                "<osdmap><osds><osd_info><osd>0</osd><uuid>u</uuid></osd_info></osds></osdmap>",
            ),
            ("osd_status", json!({"active": [1]}), "<osd_status><active><osd>1</osd></active></osd_status>"),
            (
                "pg_summary",
                json!({"num_pg_by_state": [{"num": 1}]}),
                "<pg_summary><num_pg_by_state><state><num>1</num></state></num_pg_by_state></pg_summary>",
            ),
            ("pool_stats", json!([{"pool_id": 1}]), "<pool_stats><pool><pool_id>1</pool_id></pool></pool_stats>"),
            (
                "health",
                json!({"detail": [{"message": "m"}]}),
                "<health><detail><detail_item><message>m</message></detail_item></detail></health>",
            ),
            ("config", json!([{"section": "osd"}]), "<config><option><section>osd</section></option></config>"),
            ("config", json!([{"source": "mon"}]), "<config><value><source>mon</source></value></config>"),
        ] {
            assert_eq!(Format::Xml.render(root, &value), xml);
        }
        assert_eq!(Format::parse("json-pretty"), Format::JsonPretty);
        for text in ["", "plain", "pretty", "yaml", "JSON"] {
            assert_eq!(Format::parse(text), Format::Plain, "{text}");
        }
    }
}
