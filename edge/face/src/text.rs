//! The text format 0.0.4 of Prometheus.
//!
//! All samples of a family stand together below one line of its type, or else a scraper refuses them. So a family's
//! samples are kept until all are there.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The content type. Prometheus 3 refuses what it cannot tell by it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, but for a start from zero.
    Counter,
    /// It is what it is now.
    Gauge,
    /// Nothing is said; so Ceph does where labels are what counts.
    Untyped,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Untyped => "untyped",
        }
    }
}

/// A family's head, and its samples as they are written.
struct Family {
    kind: Kind,
    help: &'static str,
    samples: String,
}

/// Families with their samples.
#[derive(Default)]
pub struct Text(BTreeMap<String, Family>);

impl Text {
    /// Adds a sample. The name is made of letters, digits and `_`: what is something else becomes `_`. What is no
    /// number is left out.
    pub fn put(&mut self, name: &str, kind: Kind, help: &'static str, labels: &[(&str, &str)], value: impl Into<f64>) {
        let value = value.into();
        if !value.is_finite() {
            return;
        }
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let family = self.0.entry(name.clone()).or_insert_with(|| Family { kind, help, samples: String::new() });
        let out = &mut family.samples;
        out.push_str(&name);
        for (at, (label, value)) in labels.iter().enumerate() {
            out.push_str(if at == 0 { "{" } else { "," });
            out.push_str(label);
            out.push_str("=\"");
            escape(value, out);
            out.push('"');
        }
        if !labels.is_empty() {
            out.push('}');
        }
        // Whole numbers as such: 1e15 bytes are exact, and people read them.
        let written =
            if value.fract() == 0.0 && value.abs() < 9e15 { writeln!(out, " {value:.0}") } else { writeln!(out, " {value}") };
        written.expect("a text takes all");
    }

    /// The number of families.
    pub fn families(&self) -> usize {
        self.0.len()
    }

    /// The whole text.
    pub fn render(&self) -> String {
        let mut out = String::with_capacity(self.0.values().map(|f| f.samples.len() + f.help.len() + 128).sum());
        for (name, family) in &self.0 {
            writeln!(out, "# HELP {name} {}\n# TYPE {name} {}", family.help, family.kind.word()).expect("a text takes all");
            out.push_str(&family.samples);
        }
        out
    }
}

/// Writes a label's value: backslash, quotation mark and line feed are escaped, other control characters are replaced.
fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_family_stand_together_and_labels_are_escaped() {
        let mut text = Text::default();
        text.put("b_total", Kind::Counter, "Bees.", &[("pool", "a\"b\\c\nd<e>\r"), ("n", "1")], 3.0);
        text.put("a-b.c", Kind::Gauge, "Apes.", &[], 0.25);
        text.put("b_total", Kind::Counter, "Bees.", &[("pool", "x"), ("n", "2")], 1e15);
        text.put("never", Kind::Gauge, "Nothing.", &[], f64::NAN);
        assert_eq!(
            text.render(),
            "# HELP a_b_c Apes.\n# TYPE a_b_c gauge\na_b_c 0.25\n\
             # HELP b_total Bees.\n# TYPE b_total counter\n\
             b_total{pool=\"a\\\"b\\\\c\\nd<e>\u{fffd}\",n=\"1\"} 3\nb_total{pool=\"x\",n=\"2\"} 1000000000000000\n"
        );
        assert_eq!(text.families(), 2);
    }
}
