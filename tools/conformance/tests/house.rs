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

/// Every file and folder of the repository, from its root, made things aside.
fn tracked(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if matches!(name.as_str(), "target" | ".git" | "__pycache__") {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            tracked(&entry.path(), &format!("{path}/"), found);
        }
        found.insert(path);
    }
}

/// README.md, CONTRIBUTING.md and all below docs/, with their texts.
fn documents(all: &BTreeSet<String>) -> Vec<(&String, String)> {
    let ours = |path: &&String| path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'));
    all.iter().filter(ours).map(|path| (path, std::fs::read_to_string(root().join(path)).unwrap())).collect()
}

/// How names begin that are not of this repository: of the machine, of what is made, of Ceph's source.
const ELSEWHERE: [&str; 7] = ["/", "..", "target/", "qa/", "cephtool/", "test_rados.py", "test_rbd.py"];

/// Words in back ticks that look like a path of this repository: a slash or an ending of ours, no placeholder, not
/// somebody else's.
fn named_paths(text: &str) -> Vec<&str> {
    let ours = |word: &&str| {
        let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./*".contains(&b));
        let placeholder = word.split('/').any(|part| part.len() > 1 && part.bytes().all(|b| !b.is_ascii_lowercase()));
        let elsewhere = ELSEWHERE.iter().any(|start| word.starts_with(start));
        let ending = [".rs", ".py", ".sh"].iter().any(|ending| word.len() > ending.len() && word.ends_with(ending));
        plain && !placeholder && !elsewhere && (word.contains('/') || ending)
    };
    let lines = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    lines.map(|word| word.split(':').next().unwrap_or(word)).filter(ours).collect()
}

/// Returns true if `named` is a path from the root, or the end of one (`pg/src/ops/` for `cores/pg/src/ops`). A `*` in
/// the last part stands for any.
fn exists(named: &str, all: &BTreeSet<String>) -> bool {
    let named = named.trim_end_matches('/');
    let named = match named.rsplit_once('/') {
        Some((folder, last)) if last.contains('*') => folder,
        _ => named,
    };
    all.iter().any(|path| path == named || path.strip_suffix(named).is_some_and(|rest| rest.ends_with('/')))
}

#[test]
fn every_path_that_the_documents_name_exists() {
    let mut all = BTreeSet::new();
    tracked(&root(), "", &mut all);
    let documents = documents(&all);
    let named: Vec<_> =
        documents.iter().flat_map(|(file, text)| named_paths(text).into_iter().map(move |path| (file, path))).collect();
    assert!(named.len() > 50, "{named:?}");
    let lost: Vec<_> = named.into_iter().filter(|(_, path)| !exists(path, &all)).collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn every_link_of_the_documents_leads_to_a_file() {
    let mut all = BTreeSet::new();
    tracked(&root(), "", &mut all);
    for (file, text) in documents(&all) {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let folder = root().join(file).parent().unwrap().to_owned();
            assert!(target.contains("://") || folder.join(target).exists(), "{file} links to {target}");
        }
    }
}

/// The name by which a link finds a heading: small letters, digits and dashes.
fn anchor(heading: &str) -> String {
    let plain = heading.trim().to_lowercase();
    plain.chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Names of all headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#'))).collect()
}

#[test]
fn every_link_to_a_section_leads_to_a_heading() {
    let mut all = BTreeSet::new();
    tracked(&root(), "", &mut all);
    let documents = documents(&all);
    let mut seen = 0;
    for (file, text) in &documents {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()?.split_once('#'));
        for (target, section) in
            links.filter(|(target, _)| !target.contains("://") && (target.is_empty() || target.ends_with(".md")))
        {
            let page = if target.is_empty() { root().join(file) } else { root().join(file).parent().unwrap().join(target) };
            let page = std::fs::read_to_string(page).unwrap();
            assert!(anchors(&page).contains(section), "{file} links to {target}#{section}");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen} links");
    assert_eq!(anchor(" `nacre fsck`, and what's next"), "nacre-fsck-and-whats-next");
}

/// Codes of health checks in a source file: its texts of capitals with an underscore.
fn health_codes(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let code = |word: &&str| word.contains('_') && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let words = text.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
    words.filter(code).filter(|word| !word.starts_with("HEALTH_") && !word.starts_with('_')).map(str::to_owned).collect()
}

/// Files that make health checks.
const HEALTH_FILES: [&str; 6] = [
    "cores/manager/src/health.rs",
    "cores/manager/src/health/groups.rs",
    "cores/manager/src/health/levels.rs",
    "cores/manager/src/health/scrubs.rs",
    "cores/manager/src/health/sizes.rs",
    "cores/osd/src/life.rs",
];

#[test]
fn every_health_code_has_an_entry_for_operators() {
    let codes: Vec<String> = HEALTH_FILES.into_iter().flat_map(health_codes).collect();
    assert!(codes.len() > 15, "{codes:?}");
    let page = std::fs::read_to_string(root().join("docs/operations/health.md")).unwrap();
    let entries: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let lost: Vec<_> = codes.iter().filter(|code| !entries.contains(code.as_str())).collect();
    assert!(lost.is_empty(), "{lost:?}");
    // Metrics tell each code before it is raised.
    let listed = health_codes("cores/manager/src/health/codes.rs");
    let made = |code: &&String| code.as_str() != "OSD_HOST_DOWN" && code.as_str() != "OSD_ROOT_DOWN";
    let unlisted: Vec<_> = codes.iter().filter(|code| !listed.contains(code)).collect();
    assert!(unlisted.is_empty(), "cores/manager/src/health/codes.rs lacks {unlisted:?}");
    let without_entry: Vec<_> = listed.iter().filter(made).filter(|code| !entries.contains(code.as_str())).collect();
    assert!(without_entry.is_empty(), "{without_entry:?}");
}

/// Files (with the modules below them) whose numbers come from peers and disks.
const DECODERS: [&str; 20] = [
    "values/caps/src/lib.rs",
    "values/denc/src/lib.rs",
    "values/maps/src/lib.rs",
    "values/messages/src/lib.rs",
    "values/types/src/lib.rs",
    "cores/monlog/src/disk/mod.rs",
    "cores/msgr/src/frame/mod.rs",
    "cores/pg/src/body.rs",
    "cores/pg/src/codec.rs",
    "cores/pg/src/entry.rs",
    "cores/pg/src/history.rs",
    "cores/pg/src/info.rs",
    "cores/pg/src/letter.rs",
    "cores/pg/src/meta.rs",
    "cores/store/src/block.rs",
    "cores/store/src/checked.rs",
    "cores/store/src/index/mod.rs",
    "cores/store/src/journal/mod.rs",
    "cores/store/src/onode.rs",
    "cores/store/src/superblock.rs",
];

/// The list only grows.
#[test]
fn decoders_do_not_narrow_numbers_silently() {
    for file in DECODERS {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        for lint in ["cast_possible_truncation", "cast_possible_wrap", "cast_sign_loss"] {
            let head = text.lines().find(|line| line.starts_with("#![") && line.contains("warn("));
            assert!(head.is_some_and(|line| line.contains(lint)), "{file} does not turn {lint} on");
        }
    }
}

#[test]
fn values_are_held_to_the_bans_of_the_cores() {
    let bans = |folder: &str| std::fs::read_to_string(root().join(folder).join("clippy.toml")).unwrap();
    assert_eq!(bans("values"), bans("cores"));
}

/// Crates whose rooms (the modules below `lib.rs`, or those of the one folder beside it) still lean on each other in a
/// circle. The list only gets shorter.
const CIRCLES: [&str; 1] = ["osd"];

/// The code of a source file: without comments, and without the tests at its end.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// The first names of what follows `start` in a piece of code: one, or those of a list in braces.
fn names_after<'a>(code: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let word = |text: &'a str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
    code.split(start).skip(1).flat_map(move |rest| match rest.strip_prefix('{') {
        Some(list) => top_level_items(list).into_iter().map(|item| word(item.trim_start())).collect(),
        None => vec![word(rest)],
    })
}

/// Items of a list in braces, split at the commas that are in no inner braces. `list` begins behind the opening brace.
fn top_level_items(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut items) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(&list[from..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    items
}

/// Names that `lib.rs` passes on (`pub use room::Name`), and the rooms that they are from.
fn passed_on(library: &str) -> BTreeMap<String, String> {
    let code = code_of(library);
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next()?.split_once("::"));
    uses.flat_map(|(room, rest)| {
        let names = match rest.strip_prefix('{') {
            Some(list) => top_level_items(list),
            None => vec![rest],
        };
        let last = |name: &str| name.trim().rsplit("::").next().unwrap_or_default().to_owned();
        let names = names.into_iter().map(last).filter(|name| !name.is_empty());
        names.map(|name| (name, room.to_owned())).collect::<Vec<_>>()
    })
    .collect()
}

/// Returns where the rooms of a crate are, and how their names begin: below `src`, or in the one folder that all of
/// the crate is in.
fn rooms(src: &Path) -> (PathBuf, String) {
    let entries: Vec<PathBuf> = std::fs::read_dir(src).unwrap().map(|entry| entry.unwrap().path()).collect();
    let folders: Vec<&PathBuf> = entries.iter().filter(|path| path.is_dir()).collect();
    match folders[..] {
        // Beside it: `lib.rs`, and what is for fuzzing.
        [folder] if entries.len() <= 3 => {
            let name = folder.file_name().unwrap().to_str().unwrap();
            (folder.clone(), format!("crate::{name}::"))
        }
        _ => (src.to_owned(), "crate::".to_owned()),
    }
}

/// Returns which rooms of a crate each of its rooms uses.
fn arrows(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let (src, start) = &rooms(src);
    let root = ["lib.rs", "mod.rs"].into_iter().map(|name| src.join(name)).find(|path| path.exists()).unwrap();
    let passed_on = passed_on(&std::fs::read_to_string(root).unwrap());
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    visit(src, &mut |path, text| {
        let relative = path.strip_prefix(src).unwrap();
        let room = relative.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if matches!(room.as_str(), "lib" | "main" | "mod") || path.ends_with("tests.rs") {
            return;
        }
        let code = code_of(text);
        let used = arrows.entry(room.clone()).or_default();
        used.extend(names_after(&code, start).map(str::to_owned));
        if relative.components().count() == 1 {
            used.extend(names_after(&code, "super::").map(str::to_owned));
        }
        let through: Vec<String> = used.iter().filter_map(|name| passed_on.get(name)).cloned().collect();
        used.extend(through);
        used.remove(&room);
    });
    let rooms: BTreeSet<String> = arrows.keys().cloned().collect();
    arrows.values_mut().for_each(|used| used.retain(|name| rooms.contains(name)));
    arrows
}

/// The rooms that lead back to themselves.
fn in_circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let returns = |room: &&String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*room]);
        while let Some(at) = next.pop() {
            next.extend(arrows.get(at).into_iter().flatten().filter(|used| seen.insert((*used).clone())));
        }
        seen.contains(*room)
    };
    arrows.keys().filter(returns).cloned().collect()
}

#[test]
fn rooms_of_a_crate_lean_on_each_other_in_one_direction() {
    for (name, (folder, _)) in manifests().iter().filter(|(_, (folder, _))| matches!(folder.as_str(), "values" | "cores")) {
        let circle = in_circles(&arrows(&root().join(folder).join(name).join("src")));
        if CIRCLES.contains(&name.as_str()) {
            assert!(!circle.is_empty(), "{name} has no circle any more: take it from the list");
        } else {
            assert!(circle.is_empty(), "{folder}/{name} has a circle: {circle:?}");
        }
    }
}

/// The room of `pg` that knows how a pool keeps an object, and the file that writes an interval's fields down.
const ROOM_OF_REDUNDANCY: [&str; 2] = ["scheme/", "codec.rs"];

/// Returns the first place of a piece of code where it asks for the type of a pool or for the size of its redundancy, or
/// takes what is not negative for an OSD: CRUSH's hole is not negative. What members there are, an interval tells.
fn asks_for_redundancy(code: &str) -> Option<&'static str> {
    let kind = ["is_erasure", "pool_type", ".type_", "erasure_code_profile", "Scheme::Copies"];
    let size = [".min_size", "interval.size", "pool.size", "Interval { size"];
    let osd = ["osd >= 0", "osd < 0", "primary >= 0", "primary < 0"];
    kind.into_iter().chain(size).chain(osd).find(|word| code.contains(word))
}

#[test]
fn one_room_knows_how_a_pool_keeps_an_object() {
    let src = root().join("cores/pg/src");
    assert!(ROOM_OF_REDUNDANCY.iter().all(|room| src.join(room).exists()), "a room has another name");
    assert_eq!(asks_for_redundancy("let few = members < interval.size;"), Some("interval.size"));
    assert_eq!(asks_for_redundancy("let few = !interval.is_full();"), None);
    let mut wrong = Vec::new();
    visit(&src, &mut |path, text| {
        let name = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
        let room = ROOM_OF_REDUNDANCY.iter().any(|room| name.starts_with(room));
        wrong.extend(asks_for_redundancy(&code_of(text)).filter(|_| !room).map(|word| format!("{name} says {word}")));
    });
    assert!(wrong.is_empty(), "ask cores/pg/src/scheme, or the interval: {wrong:#?}");
}

/// Types whose methods lie in several files and call each other through `self`: crate, type, and how many such calls go
/// from one file to another at most. Imports do not show them. A type that is not listed may have [`FEW`]. The numbers
/// only fall.
const CALLS: [(&str, &str, usize); 9] = [
    ("crush", "Map", 110),
    ("mon", "Monitor", 275),
    ("msgr", "Messenger", 60),
    ("osd", "Osd", 160),
    ("pg", "Pg", 48),
    ("pg", "Primary", 160),
    ("pg", "Run", 115),
    ("quorum", "Node", 195),
    ("store", "Store", 110),
];
/// Calls from one file to another that a type may have without being listed.
const FEW: usize = 40;

/// Types of a piece of code that have methods in it, each with the text of one `impl`.
fn implementations(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("impl") || line.ends_with('}') {
            continue;
        }
        let mut head = line.to_owned();
        while !head.contains('{') {
            let Some(line) = lines.next() else { return found };
            head = format!("{head} {line}");
        }
        let head = head.split('{').next().unwrap_or_default();
        let of = head.rsplit(" for ").next().unwrap_or_default();
        // Without the parameters of the `impl` itself, and of the type.
        let of = of.strip_prefix("impl<").and_then(|rest| rest.split_once("> ")).map_or(of, |(_, rest)| rest);
        let name = of.trim_start_matches("impl").trim().split('<').next().unwrap_or_default();
        let name = name.rsplit("::").next().unwrap_or_default().trim().to_owned();
        let body = lines.by_ref().take_while(|line| *line != "}").collect::<Vec<_>>().join("\n");
        found.push((name, body));
    }
    found
}

/// Methods that an `impl` has.
fn methods(body: &str) -> impl Iterator<Item = &str> {
    let own = body.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
    own.filter_map(|line| line.split_once("fn ")?.1.split(['(', '<']).next())
}

/// Methods that an `impl` calls on `self`.
fn calls_on_self(body: &str) -> Vec<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let called = |(at, _): (usize, &str)| {
        let before = body[..at].chars().next_back();
        let rest = body[at + 4..].trim_start().strip_prefix('.')?.trim_start();
        let end = rest.find(|c| !word(c))?;
        (!before.is_some_and(word) && rest[end..].starts_with('(')).then_some(&rest[..end])
    };
    body.match_indices("self").filter_map(called).collect()
}

/// Calls on `self` from one file to another, by type.
fn calls_across_files(src: &Path) -> BTreeMap<String, usize> {
    let mut files: Vec<(PathBuf, String, String)> = Vec::new();
    visit(src, &mut |path, text| {
        let all = implementations(&code_of(text));
        files.extend(all.into_iter().map(|(name, body)| (path.to_owned(), name, body)));
    });
    let mut homes: BTreeMap<(&str, &str), BTreeSet<&Path>> = BTreeMap::new();
    for (path, name, body) in &files {
        methods(body).for_each(|method| _ = homes.entry((name, method)).or_default().insert(path));
    }
    let mut calls = BTreeMap::new();
    for (path, name, body) in &files {
        let elsewhere = |method: &&str| homes.get(&(name.as_str(), *method)).is_some_and(|at| !at.contains(path.as_path()));
        *calls.entry(name.clone()).or_default() += calls_on_self(body).into_iter().filter(elsewhere).count();
    }
    calls
}

#[test]
fn files_call_each_other_through_self_no_more_than_they_did() {
    let mut wrong = Vec::new();
    for (name, (folder, _)) in manifests().iter().filter(|(_, (folder, _))| matches!(folder.as_str(), "values" | "cores")) {
        for (of, calls) in calls_across_files(&root().join(folder).join(name).join("src")) {
            let listed = CALLS.iter().find(|(crate_, type_, _)| crate_ == name && *type_ == of).map(|(.., most)| *most);
            if calls > listed.unwrap_or(FEW) {
                wrong.push(format!("{folder}/{name}: {calls} calls through the self of {of} go between files, they were fewer"));
            }
            if listed.is_some_and(|most| calls * 10 < most * 9) {
                wrong.push(format!("{folder}/{name}: only {calls} calls of {of} by now: lower the number in the list"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Doc comments of product code that begin with a question word, at most. The number only falls.
const QUESTIONS: usize = 260;

/// Returns how many doc comments of a text begin with a question word: inline tests are left out.
fn questions(text: &str) -> usize {
    let asks = |line: &str| {
        let word = line.trim_start_matches('/').trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
        let words = ["whether", "what", "who", "whom", "whose", "which", "when", "where", "why", "how"];
        words.contains(&word.to_ascii_lowercase().as_str())
    };
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let lines: Vec<&str> = std::iter::once("").chain(product.lines().map(str::trim_start)).collect();
    let begins = |pair: &&[&str]| pair[1].starts_with("///") && !pair[0].starts_with("///") && asks(pair[1]);
    lines.windows(2).filter(begins).count()
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    let mut found = 0;
    for top in ["values", "cores", "edge", "bin"] {
        visit(&root().join(top), &mut |path, text| {
            let aside = ["tests", "benches", "fuzz", "tests.rs"];
            if !path.iter().any(|part| aside.iter().any(|aside| part == *aside)) {
                found += questions(text);
            }
        });
    }
    assert!(
        found <= QUESTIONS,
        "{found} doc comments begin with a question word: a function's begins with a verb, a field's with a noun"
    );
    assert!(found * 10 >= QUESTIONS * 9, "only {found} doc comments begin with a question word by now: lower the number");
}

#[test]
fn questions_are_counted_in_doc_comments_of_products_alone() {
    let text = "/// What it is.\n/// Who asks.\nfn a() {}\n    /// Whatever.\n    // How?\n    /// how much\n    b: u8,\n#[cfg(test)]\nmod tests {\n/// Why.\n}\n";
    assert_eq!(questions(text), 2);
}

#[test]
fn calls_through_self_are_read_from_code() {
    let code = "impl A {\n    fn b(&self) {\n        self.c();\n        self\n            .d(itself.e(), self.f);\n    }\n}\n\
                impl<'a, T: X> Y for A<'a, T> {\n    pub(crate) fn c(&self) {}\n}\n";
    let found = implementations(code);
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["A", "A"]);
    assert_eq!(methods(&found[0].1).chain(methods(&found[1].1)).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(calls_on_self(&found[0].1), ["c", "d"]);
}

#[test]
fn arrows_are_read_from_code_and_not_from_comments_and_tests() {
    let code =
        code_of("use crate::{a::{B, C}, d, self::E};\n// crate::f\nlet x = super::g::h;\n#[cfg(test)]\nmod tests { crate::i }");
    assert_eq!(names_after(&code, "crate::").collect::<Vec<_>>(), ["a", "d", "self"]);
    assert_eq!(names_after(&code, "super::").collect::<Vec<_>>(), ["g"]);
    let passed_on = passed_on("mod a;\npub use a::{B, c::D};\npub(crate) use e::F;\nuse bytes::Bytes;");
    assert_eq!(["B", "D", "F"].map(|name| passed_on[name].as_str()), ["a", "a", "e"]);
    let arrow = |from: &str, to: &[&str]| (from.to_owned(), to.iter().map(|t| (*t).to_owned()).collect());
    let house = BTreeMap::from([arrow("a", &["b"]), arrow("b", &["c"]), arrow("c", &["b"]), arrow("d", &["a"])]);
    assert_eq!(in_circles(&house), ["b", "c"]);
}
