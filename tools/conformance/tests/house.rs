//! The documents about the house agree with the house.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Crates with the crates of this workspace that they depend on (tests' own dependencies aside).
fn manifests() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut crates: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for folder in ["values", "cores", "edge", "tools", "bin"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
            let Ok(manifest) = std::fs::read_to_string(entry.path().join("Cargo.toml")) else { continue };
            let name = entry.file_name().into_string().unwrap();
            let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
            let section = dependencies.split("\n[").next().unwrap_or_default();
            let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_owned);
            crates.insert(name, (folder.to_owned(), names.collect()));
        }
    }
    let ours: BTreeSet<String> = crates.keys().cloned().collect();
    for (_, dependencies) in crates.values_mut() {
        dependencies.retain(|d| ours.contains(d));
    }
    crates
}

/// Rows of the table of rooms: path → last column.
fn table() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].trim_matches('`').to_owned(), cells[2].to_owned())
    })
    .collect()
}

#[test]
fn the_table_of_rooms_names_every_crate_and_what_it_depends_on() {
    let (crates, table) = (manifests(), table());
    let paths: BTreeSet<String> = crates.iter().map(|(name, (folder, _))| format!("{folder}/{name}")).collect();
    assert_eq!(paths, table.keys().cloned().collect(), "crates and rows");
    for (name, (folder, dependencies)) in &crates {
        if !matches!(folder.as_str(), "values" | "cores") {
            continue;
        }
        let listed: BTreeSet<String> = table[&format!("{folder}/{name}")].split_whitespace().map(str::to_owned).collect();
        assert_eq!(&listed, dependencies, "what {folder}/{name} depends on");
    }
}

#[test]
fn values_know_only_values_and_cores_only_cores_and_values() {
    let crates = manifests();
    let allowed: BTreeMap<&str, &[&str]> = [("values", &["values"][..]), ("cores", &["values", "cores"])].into();
    for (name, (folder, dependencies)) in &crates {
        let Some(allowed) = allowed.get(folder.as_str()) else { continue };
        for dependency in dependencies {
            let (its_folder, _) = &crates[dependency];
            assert!(allowed.contains(&its_folder.as_str()), "{folder}/{name} depends on {its_folder}/{dependency}");
        }
    }
}

#[test]
fn unsafe_code_lives_in_the_runtime_and_the_kernels_only() {
    let mut offenders = Vec::new();
    for (name, (folder, _)) in manifests() {
        if !matches!(name.as_str(), "runtime" | "kernels") {
            visit(&root().join(&folder).join(&name).join("src"), &mut |path, text| {
                if text
                    .lines()
                    .any(|line| line.contains("unsafe {") || line.contains("unsafe fn") || line.contains("unsafe impl"))
                {
                    offenders.push(path.to_owned());
                }
            });
        }
    }
    assert!(offenders.is_empty(), "{offenders:?}");
}

fn visit(folder: &Path, f: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            visit(&path, f);
        } else if path.extension().is_some_and(|e| e == "rs") {
            f(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
