//! What we depend on is held to `deny.toml`, without a network: licences, crates that are there twice, sources, crates
//! that nobody uses.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn rules() -> toml::Table {
    read(&root().join("deny.toml")).parse().unwrap()
}

fn texts<'a>(list: &'a toml::Value, key: Option<&str>) -> BTreeSet<&'a str> {
    let one = |value: &'a toml::Value| key.map_or(value, |key| &value[key]).as_str().unwrap();
    list.as_array().unwrap().iter().map(one).collect()
}

/// All packages that are built on Linux.
fn packages() -> Vec<Value> {
    let text = cargo(&["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let all: Value = serde_json::from_str(&text).unwrap();
    let (built, packages) = (built(), all["packages"].as_array().unwrap().iter());
    let key = |package: &Value| (package["name"].as_str().unwrap().to_owned(), package["version"].as_str().unwrap().to_owned());
    packages.filter(|package| built.contains(&key(package))).cloned().collect()
}

/// Returns what cargo says.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Names and versions of what is built. `cargo metadata` also has optional crates that no feature turns on.
fn built() -> BTreeSet<(String, String)> {
    let tree = cargo(&["tree", "--workspace", "--locked", "--offline", "--prefix=none", "--target=x86_64-unknown-linux-gnu"]);
    let line = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    };
    tree.lines().filter_map(line).collect()
}

/// Returns true if one can keep to an SPDX expression with these licences: `OR`, `AND`, brackets around a choice, and
/// `/` as an old `OR`.
fn allowed(expression: &str, licences: &BTreeSet<&str>) -> bool {
    let one = |text: &str| licences.contains(text.trim());
    let choice = |text: &str| text.trim().trim_matches(['(', ')']).split(" OR ").flat_map(|part| part.split('/')).any(one);
    if expression.contains('(') {
        expression.split(" AND ").all(choice)
    } else {
        expression.split(" OR ").any(|text| text.split(" AND ").all(choice))
    }
}

#[test]
fn licences_are_among_those_that_we_take() {
    let rules = rules();
    let licences = texts(&rules["licenses"]["allow"], None);
    for package in packages() {
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(allowed(licence, &licences), "{} {}: {licence:?}", package["name"], package["version"]);
    }
    assert!(allowed("MIT/GPL-3.0", &licences) && allowed("(MIT OR GPL-3.0) AND ISC", &licences));
    assert!(!allowed("MIT AND GPL-3.0", &licences) && !allowed("", &licences) && !allowed("(MIT OR ISC) AND GPL-3.0", &licences));
}

#[test]
fn no_crate_is_there_twice_but_those_that_are_listed() {
    let rules = rules();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages() {
        let text = |key: &str| package[key].as_str().unwrap().to_owned();
        versions.entry(text("name")).or_default().push(text("version"));
    }
    let listed: BTreeMap<&str, &str> =
        texts(&rules["bans"]["skip"], Some("crate")).into_iter().filter_map(|name| name.split_once('@')).collect();
    for (name, versions) in &versions {
        let skipped = |version: &&String| listed.get(name.as_str()).is_some_and(|old| version.starts_with(&format!("{old}.")));
        assert!(versions.len() - versions.iter().filter(skipped).count() <= 1, "{name}: {versions:?}");
    }
    for name in listed.keys() {
        assert!(
            versions.get(*name).is_some_and(|versions| versions.len() > 1),
            "{name} is there once only: take it off the list"
        );
    }
    for rule in rules["bans"]["deny"].as_array().unwrap() {
        let name = rule["crate"].as_str().unwrap();
        assert!(rule.get("wrappers").is_some() || !versions.contains_key(name), "{name} is not wanted");
    }
}

#[test]
fn crates_that_are_wanted_at_one_place_are_at_no_other() {
    let (rules, packages) = (rules(), packages());
    let mut looked = 0;
    for rule in rules["bans"]["deny"].as_array().unwrap() {
        let Some(allowed) = rule.get("wrappers") else { continue };
        let (name, allowed) = (rule["crate"].as_str().unwrap(), texts(allowed, None));
        for package in &packages {
            let user = package["name"].as_str().unwrap();
            let mut dependencies = package["dependencies"].as_array().unwrap().iter();
            // Optional ones that no feature turns on are named, too: whoever is built with it would show it in the tree.
            let uses = dependencies.any(|d| d["name"] == name && d["optional"] == false && d["kind"].is_null());
            assert!(!uses || allowed.contains(user), "{user} depends on {name}");
            looked += usize::from(uses);
        }
    }
    assert!(looked > 0, "nobody depends on tokio: the rule is not needed");
}

#[test]
fn all_crates_come_from_the_registry() {
    for package in packages() {
        let source = package["source"].as_str().unwrap_or("registry+ours");
        assert!(source.starts_with("registry+"), "{} comes from {source}", package["name"]);
    }
}

fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text.push_str(&read(&path));
        }
    }
}

/// Names under `[section]` of a manifest.
fn names(manifest: &toml::Table, section: &str) -> BTreeSet<String> {
    manifest.get(section).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys).cloned().collect()
}

#[test]
fn every_dependency_is_used_where_it_is_named() {
    let workspace: toml::Table = read(&root().join("Cargo.toml")).parse().unwrap();
    let mut idle = Vec::new();
    let mut unused = names(workspace["workspace"].as_table().unwrap(), "dependencies");
    for folder in ["values", "cores", "edge", "tools", "bin"] {
        for member in
            std::fs::read_dir(root().join(folder)).unwrap().map(|e| e.unwrap().path()).filter(|p| p.join("Cargo.toml").exists())
        {
            let manifest: toml::Table = read(&member.join("Cargo.toml")).parse().unwrap();
            let mut product = String::new();
            sources(&member.join("src"), &mut product);
            let mut all = product.clone();
            ["tests", "benches", "examples"].iter().for_each(|part| sources(&member.join(part), &mut all));
            for (section, text) in [("dependencies", &product), ("dev-dependencies", &all)] {
                for name in names(&manifest, section) {
                    let word = name.replace('-', "_");
                    if !text.contains(&format!("{word}::"))
                        && !text.contains(&format!("use {word};"))
                        && !text.contains(&format!("use {word} as _;"))
                    {
                        idle.push((member.clone(), name.clone()));
                    }
                    unused.remove(&name);
                }
            }
        }
    }
    assert!(idle.is_empty(), "named and not used: {idle:#?}");
    assert!(unused.is_empty(), "no crate of ours depends on {unused:?}");
}
