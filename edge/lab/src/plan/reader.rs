//! Reads an experiment file by the schema. What is wrong is told with file, line, key and the nearest valid word.

use super::expand::{self, Listed};
use super::schema::{self, Key, Kind, Table};
use super::{Experiment, Point, Rule, Scalar};
use anyhow::{Result, anyhow, bail};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads a file; `quick` puts the values of the tables `quick` in place.
///
/// # Errors
/// It cannot be read, or something in it is wrong: file, line, key and the nearest valid word are named.
pub fn read(path: &Path, quick: bool) -> Result<Experiment> {
    let text = std::fs::read_to_string(path).map_err(|e| anyhow!("{}: {e}", path.display()))?;
    parse(&text, &path.display().to_string(), quick)
}

/// Reads a text that `name` names in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, name: &str, quick: bool) -> Result<Experiment> {
    let file = File { text, name, quick };
    let root = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(1, |s| file.line(&s));
        anyhow!("{name}:{at}: {}", e.message())
    })?;
    file.experiment(root.get_ref())
}

struct File<'a> {
    text: &'a str,
    name: &'a str,
    quick: bool,
}

type Entry<'t, 'i> = (&'t str, Range<usize>, &'t Spanned<DeValue<'i>>);

impl File<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        self.text.as_bytes()[..span.start.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }

    fn wrong(&self, span: &Range<usize>, what: &str) -> anyhow::Error {
        anyhow!("{}:{}: {what}", self.name, self.line(span))
    }

    fn experiment(&self, root: &DeTable<'_>) -> Result<Experiment> {
        let mut e = Experiment::default();
        let names: Vec<&str> = schema::TABLES.iter().map(|t| t.name).chain(["include", "exclude"]).collect();
        for (name, span, value) in entries(root) {
            match name {
                "experiment" => e.settings = self.single(&schema::EXPERIMENT, value)?,
                "monitor" => e.monitor = self.single(&schema::MONITOR, value)?,
                "tuning" => e.tuning = self.single(&schema::TUNING, value)?,
                "report" => e.report = self.single(&schema::REPORT, value)?,
                "cluster" => e.clusters = self.points(&schema::CLUSTER, value)?,
                "workload" => e.workloads = self.points(&schema::WORKLOAD, value)?,
                "disk" => {
                    e.disks = self.points(&schema::DISK, value)?.into_iter().map(|p| (p.text("name"), p)).collect();
                }
                "include" => e.include = self.rules("include", value)?,
                "exclude" => e.exclude = self.rules("exclude", value)?,
                other => return Err(self.wrong(&span, &format!("table '{other}' is not known{}", nearest(other, &names)))),
            }
        }
        self.whole(&e, root)?;
        Ok(e)
    }

    /// Returns what several tables must agree on.
    fn whole(&self, e: &Experiment, root: &DeTable<'_>) -> Result<()> {
        for (table, empty) in
            [("experiment", e.settings.0.is_empty()), ("cluster", e.clusters.is_empty()), ("workload", e.workloads.is_empty())]
        {
            if empty {
                bail!("{}: there is no table '{table}'", self.name);
            }
        }
        let disks: Vec<&str> = e.disks.keys().map(String::as_str).collect();
        for (cluster, key) in e.clusters.iter().flat_map(|c| [(c, "disk"), (c, "journal")]) {
            if let Some(disk) = cluster.given(key).filter(|d| !disks.contains(&d.as_str())) {
                let at = self.text.find(&format!("\"{disk}\"")).unwrap_or(0);
                return Err(
                    self.wrong(&(at..at), &format!("{key} '{disk}' is not the name of a [[disk]]{}", nearest(&disk, &disks)))
                );
            }
        }
        let names: Vec<String> = e.clusters.iter().map(|c| c.text("name")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let on = e.workloads.iter().filter_map(|w| w.given("on"));
        for name in on.flat_map(|on| on.split(',').map(|n| n.trim().to_owned()).collect::<Vec<_>>()) {
            if !names.contains(&name.as_str()) {
                let at = self.text.find(&name).unwrap_or(0);
                return Err(self.wrong(&(at..at), &format!("on: there is no cluster '{name}'{}", nearest(&name, &names))));
            }
        }
        let _ = root;
        Ok(())
    }

    fn single(&self, table: &Table, value: &Spanned<DeValue<'_>>) -> Result<Point> {
        let DeValue::Table(content) = value.get_ref() else {
            return Err(self.wrong(&value.span(), &format!("'{}' is a table: [{}]", table.name, table.name)));
        };
        let listed = self.listed(table, content, &value.span())?;
        if let Some((key, _)) = listed.iter().find(|(_, values)| values.len() > 1) {
            return Err(self.wrong(&value.span(), &format!("key '{key}' of [{}] takes one value, not a list", table.name)));
        }
        Ok(expand::points(&listed).into_iter().next().unwrap_or_default())
    }

    fn points(&self, table: &Table, value: &Spanned<DeValue<'_>>) -> Result<Vec<Point>> {
        let mut all = Vec::new();
        for (content, span) in self.tables(table.name, value)? {
            all.extend(expand::points(&self.listed(table, content, &span)?));
        }
        Ok(all)
    }

    fn tables<'t, 'i>(&self, name: &str, value: &'t Spanned<DeValue<'i>>) -> Result<Vec<(&'t DeTable<'i>, Range<usize>)>> {
        let wrong = |span: Range<usize>| self.wrong(&span, &format!("'{name}' is a list of tables: [[{name}]]"));
        let DeValue::Array(array) = value.get_ref() else { return Err(wrong(value.span())) };
        let one = |v: &'t Spanned<DeValue<'i>>| match v.get_ref() {
            DeValue::Table(table) => Ok((table, v.span())),
            _ => Err(wrong(v.span())),
        };
        array.iter().map(one).collect()
    }

    /// The keys of a table with their values, in the file's order, those of `quick` in place of the others if that is
    /// wanted.
    fn listed(&self, table: &Table, content: &DeTable<'_>, span: &Range<usize>) -> Result<Listed> {
        let mut listed: Listed = Vec::new();
        for (name, at, value) in entries(content) {
            if name == "quick" {
                continue;
            }
            listed.push((name.to_owned(), self.values(table, name, &at, value)?));
        }
        if let Some((_, at, value)) = entries(content).into_iter().find(|e| e.0 == "quick") {
            let DeValue::Table(quick) = value.get_ref() else { return Err(self.wrong(&at, "'quick' is a table")) };
            for (name, at, value) in entries(quick) {
                let values = self.values(table, name, &at, value)?;
                if self.quick {
                    match listed.iter_mut().find(|(n, _)| n == name) {
                        Some(entry) => entry.1 = values,
                        None => listed.push((name.to_owned(), values)),
                    }
                }
            }
        }
        match table.required.iter().find(|r| !listed.iter().any(|(n, _)| n == *r)) {
            Some(missing) => Err(self.wrong(span, &format!("[{}] needs the key '{missing}'", table.name))),
            None => Ok(listed),
        }
    }

    fn values(&self, table: &Table, name: &str, at: &Range<usize>, value: &Spanned<DeValue<'_>>) -> Result<Vec<Scalar>> {
        let Some(key) = table.keys.iter().find(|k| k.name == name) else {
            let names: Vec<&str> = table.keys.iter().map(|k| k.name).collect();
            return Err(self.wrong(at, &format!("key '{name}' of [{}] is not known{}", table.name, nearest(name, &names))));
        };
        match value.get_ref() {
            DeValue::Array(array) if array.is_empty() => Err(self.wrong(at, &format!("key '{name}': the list is empty"))),
            DeValue::Array(array) => array.iter().map(|v| self.scalar(key, v)).collect(),
            _ => Ok(vec![self.scalar(key, value)?]),
        }
    }

    fn scalar(&self, key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Scalar> {
        let found = plain(value.get_ref());
        let wrong = |what: String| Err(self.wrong(&value.span(), &format!("key '{}': {what}", key.name)));
        match (key.kind, found) {
            (Kind::Text, Some(Scalar::Text(t))) => Ok(Scalar::Text(t)),
            (Kind::Bool, Some(Scalar::Bool(b))) => Ok(Scalar::Bool(b)),
            (Kind::Int(low, high), Some(Scalar::Int(n))) if (low..=high).contains(&n) => Ok(Scalar::Int(n)),
            (Kind::Int(low, high), _) => wrong(format!("a whole number from {low} to {high} is wanted")),
            (Kind::Real(low), Some(Scalar::Int(n))) if n as f64 >= low => Ok(Scalar::Real(n as f64)),
            (Kind::Real(low), Some(Scalar::Real(x))) if x >= low => Ok(Scalar::Real(x)),
            (Kind::Real(low), _) => wrong(format!("a number that is not below {low} is wanted")),
            (Kind::Bytes, Some(Scalar::Int(n))) if n >= 0 => Ok(Scalar::Int(n)),
            (Kind::Bytes, Some(Scalar::Text(t))) => match bytes(&t) {
                Some(n) => Ok(Scalar::Int(n)),
                None => wrong(format!("'{t}' is not a number of bytes, as 4096, \"4K\" or \"1G\"")),
            },
            (Kind::Bytes, _) => wrong("a number of bytes is wanted, as 4096, \"4K\" or \"1G\"".into()),
            (Kind::Word(words), Some(Scalar::Text(t))) if words.contains(&t.as_str()) => Ok(Scalar::Text(t)),
            (Kind::Word(words), Some(Scalar::Text(t))) => {
                wrong(format!("'{t}' is not one of {}{}", words.join(", "), nearest(&t, words)))
            }
            (Kind::Word(words), _) => wrong(format!("one of {} is wanted, in quotes", words.join(", "))),
            (Kind::Text, _) => wrong("text in quotes is wanted".into()),
            (Kind::Bool, _) => wrong("true or false is wanted".into()),
        }
    }

    fn rules(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<Rule>> {
        let known: Vec<&Key> = schema::CLUSTER.keys.iter().chain(schema::WORKLOAD.keys).collect();
        let names: Vec<&str> = known.iter().map(|k| k.name).collect();
        let mut rules = Vec::new();
        for (content, _) in self.tables(name, value)? {
            let mut rule = Rule::new();
            for (key, at, value) in entries(content) {
                // `name` and `kind` are keys of both; each may be meant.
                let found: Vec<&&Key> = known.iter().filter(|k| k.name == key).collect();
                if found.is_empty() {
                    return Err(self.wrong(&at, &format!("key '{key}' of [[{name}]] is not known{}", nearest(key, &names))));
                }
                let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
                    DeValue::Array(array) => array.iter().collect(),
                    _ => vec![value],
                };
                let read = |item| {
                    let mut tries = found.iter().map(|k| self.scalar(k, item));
                    tries.next().map(|first| tries.fold(first, |a, b| if a.is_ok() { a } else { b }))
                };
                rule.insert(key.to_owned(), items.into_iter().filter_map(read).collect::<Result<Vec<_>>>()?);
            }
            rules.push(rule);
        }
        Ok(rules)
    }
}

/// Entries in the order of the file.
fn entries<'t, 'i>(table: &'t DeTable<'i>) -> Vec<Entry<'t, 'i>> {
    let mut all: Vec<Entry<'t, 'i>> = table.iter().map(|(k, v)| (k.get_ref().as_ref(), k.span(), v)).collect();
    all.sort_by_key(|e| e.1.start);
    all
}

fn plain(value: &DeValue<'_>) -> Option<Scalar> {
    Some(match value {
        DeValue::String(t) => Scalar::Text(t.to_string()),
        DeValue::Integer(n) => Scalar::Int(i64::from_str_radix(n.as_str(), n.radix()).ok()?),
        DeValue::Float(x) => Scalar::Real(x.as_str().parse().ok().filter(|x: &f64| x.is_finite())?),
        DeValue::Boolean(b) => Scalar::Bool(*b),
        _ => return None,
    })
}

/// `4096`, `4K`, `1.5G`, `256MiB`: multiples are of 1024.
pub(crate) fn bytes(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit);
    let shift = ["", "k", "m", "g", "t"].iter().position(|u| *u == unit)? * 10;
    let value = number.parse::<f64>().ok()? * (1u64 << shift) as f64;
    (value < 9e18).then_some(value as i64)
}

/// ` (did you mean 'x'?)`, or nothing if no word is near.
pub(crate) fn nearest(word: &str, words: &[&str]) -> String {
    let best = words.iter().map(|w| (strsim::jaro_winkler(word, w), w)).max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((near, w)) if near > 0.7 => format!("; did you mean '{w}'?"),
        _ => format!("; known are {}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[experiment]\nname = 'x'\nrepeats = 5\nquick = { repeats = 2 }\n\
        [[disk]]\nname = 'd'\nkind = 'loop'\n\
        [[cluster]]\nname = 'a'\nkind = 'ceph'\nfs = ['xfs', 'ext4']\nstore = ['filestore', 'bluestore']\ndisk = 'd'\n\
        [[workload]]\nkind = 'rados'\nmode = ['write', 'rand']\nsize = ['4K', 131072]\ndepth = [1, 16]\n\
        [[exclude]]\nfs = 'ext4'\nsize = ['4K']\n";

    fn refused(text: &str) -> String {
        parse(text, "x.toml", false).unwrap_err().to_string()
    }

    #[test]
    fn lists_are_multiplied_out() {
        let e = parse(GOOD, "x.toml", false).unwrap();
        assert_eq!((e.clusters.len(), e.workloads.len(), e.repeats()), (4, 8, 5));
        assert_eq!(e.clusters[1].text("store"), "bluestore");
        assert_eq!(e.workloads[2].int("size", 0), 131_072);
        let wanted = e.clusters.iter().flat_map(|c| e.workloads.iter().map(move |w| (c, w))).filter(|(c, w)| e.wants(c, w));
        assert_eq!(wanted.count(), 2 * 8 + 2 * 4);
        assert_eq!(parse(GOOD, "x.toml", true).unwrap().repeats(), 2);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_the_nearest_word() {
        for (right, wrong, says) in [
            ("repeats = 5", "repeets = 5", "x.toml:3: key 'repeets' of [experiment] is not known; did you mean 'repeats'?"),
            ("repeats = 5", "repeats = 0", "x.toml:3: key 'repeats': a whole number from 1 to 1000 is wanted"),
            (
                "kind = 'ceph'",
                "kind = 'cephh'",
                "x.toml:10: key 'kind': 'cephh' is not one of nacre, ceph, existing, none; did you mean 'ceph'?",
            ),
            ("'4K', 131072", "'4Q', 131072", "x.toml:17: key 'size': '4Q' is not a number of bytes, as 4096, \"4K\" or \"1G\""),
            ("disk = 'd'", "disk = 'dd'", "disk 'dd' is not the name of a [[disk]]; did you mean 'd'?"),
            ("[[workload]]", "[[worklaod]]", "x.toml:14: table 'worklaod' is not known; did you mean 'workload'?"),
            ("[[workload]]", "[workload]", "x.toml:14: 'workload' is a list of tables: [[workload]]"),
            ("name = 'a'\n", "", "x.toml:8: [cluster] needs the key 'name'"),
            ("fs = 'ext4'", "fss = 'ext4'", "key 'fss' of [[exclude]] is not known; did you mean 'fs'?"),
            ("quick = { repeats = 2 }", "quick = { repeat = 2 }", "x.toml:4: key 'repeat' of [experiment] is not known"),
            ("depth = [1, 16]", "depth = []", "x.toml:18: key 'depth': the list is empty"),
            ("depth = [1, 16]", "depth = [1,", "x.toml:"),
        ] {
            assert!(GOOD.contains(right), "{right}");
            let said = refused(&GOOD.replacen(right, wrong, 1));
            assert!(said.contains(says), "{wrong}: {said}");
        }
        assert_eq!(refused("[experiment]\nname = 'x'\n"), "x.toml: there is no table 'cluster'");
    }

    #[test]
    fn sizes_are_bytes() {
        for (text, value) in
            [("0", Some(0)), ("4K", Some(4096)), ("1.5G", Some(3 << 29)), ("256MiB", Some(256 << 20)), ("x", None)]
        {
            assert_eq!(bytes(text), value, "{text}");
        }
    }
}
