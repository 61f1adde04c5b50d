//! Every command against every profile, and rights narrower than that.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the table is a file")]

use super::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

fn may(caps: &str, command: &str) -> bool {
    let name: EntityName = "client.x".parse().expect("a name");
    let parsed = commands::parse(commands::table(), command).ok().unwrap();
    allowed_at_manager(&MgrCaps::parse(caps).expect("capabilities"), &parsed, &name)
}

#[test]
fn figures_of_images_may_be_allowed_for_a_pool_or_namespace() {
    let stats = |spec: &str| format!(r#"{{"prefix":"rbd perf image stats","pool_spec":"{spec}"}}"#);
    let all = r#"{"prefix":"rbd perf image stats"}"#;
    for caps in ["allow *", "allow r", "profile rbd", "profile rbd-read-only"] {
        assert!(may(caps, all) && may(caps, &stats("p")), "{caps}");
    }
    assert!(may("profile rbd pool=p", &stats("p")) && may("profile rbd pool=p", &stats("p/n")));
    assert!(!may("profile rbd pool=p", &stats("q")) && !may("profile rbd pool=p", all));
    assert!(may("profile rbd pool=p namespace=n", &stats("p/n")) && !may("profile rbd pool=p namespace=n", &stats("p")));
}

#[test]
fn lists_of_all_pools_may_be_asked_with_rights_to_one() {
    for list in ["rbd task list", "rbd trash purge schedule list", "rbd mirror snapshot schedule status"] {
        let list = format!(r#"{{"prefix":"{list}"}}"#);
        assert!(may("profile rbd pool=p", &list) && may("profile rbd-read-only pool=p", &list), "{list}");
        assert!(!may("profile crash", &list), "{list}");
    }
    let schedules = r#"{"prefix":"rbd trash purge schedule list","level_spec":"q/"}"#;
    assert!(!may("profile rbd pool=p", schedules) && may("profile rbd pool=q", schedules));
}

/// Who asks, and with which rights: at the monitors, and at the manager.
const WHO: &[(&str, &str, &str)] = &[
    ("client.x", "allow *", "allow *"),
    ("client.x", "allow rwx", "allow rwx"),
    ("client.x", "allow rw", "allow rw"),
    ("client.x", "allow r", "allow r"),
    ("client.x", "profile read-write", "profile read-write"),
    ("client.x", "profile read-only", "profile read-only"),
    ("client.x", "profile simple-rados-client", "profile crash"),
    ("client.x", "profile simple-rados-client-with-blocklist", ""),
    ("client.x", "profile rbd", "profile rbd"),
    ("client.x", "profile rbd-mirror", "profile rbd pool=p"),
    ("client.x", "profile rbd-mirror-peer", "profile rbd-read-only"),
    ("client.x", "profile fs-client", ""),
    ("client.x", "profile cephfs-mirror", ""),
    ("client.x", "profile crash", "profile crash"),
    ("client.x", "profile role-definer", ""),
    ("mon.x", "profile mon", ""),
    ("osd.0", "profile osd", "profile osd"),
    ("mds.x", "profile mds", "profile mds"),
    ("mgr.x", "profile mgr", "allow *"),
    ("client.x", "profile bootstrap-osd", ""),
    ("client.x", "profile bootstrap-mds", ""),
    ("client.x", "profile bootstrap-mgr", ""),
    ("client.x", "profile bootstrap-rgw", ""),
    ("client.x", "profile bootstrap-rbd", ""),
    ("client.x", "profile bootstrap-rbd-mirror", ""),
    ("client.join.1", "allow command \"nacre join\"", ""),
    ("client.x", "allow service mon rw", "allow service mon rw"),
    ("client.x", "allow service osd rwx", "allow service osd rwx"),
    ("client.x", "allow service auth r", "allow service auth rwx"),
    ("client.x", "allow service auth rx", ""),
    ("client.x", "allow service config-key r", "allow service config-key rw"),
    ("client.x", "allow service config rw", "allow service config rw"),
    ("client.x", "allow r", "allow *"),
    ("client.x", "allow * network 10.9.0.0/16", "allow * network 10.9.0.0/16"),
    ("client.x", "allow command \"zzz\"", "allow command \"zzz\""),
];

/// Commands that give out a key or a secret, or make a key, or change what one may do. `rights.rs` of the monitor's
/// tests looks for others in what commands answer.
const KEYS: &[&str] = &[
    "auth add",
    "auth caps",
    "auth export",
    "auth get",
    "auth get-key",
    "auth get-or-create",
    "auth get-or-create-key",
    "auth import",
    "auth list",
    "auth ls",
    "auth print-key",
    "auth print_key",
    "auth rm",
    "auth del",
    "nacre token",
    "nacre join",
    "osd new+secrets",
    "osd create+secrets",
];
/// Grants by the name of a command that give out a key, and whom the rights in [`WHO`] name.
const NAMED: &[(&str, &str)] = &[
    ("auth get-or-create", "profile bootstrap-"),
    ("osd new+secrets", "profile bootstrap-osd"),
    ("nacre join", "allow command \"nacre join\""),
    ("auth caps", "profile mgr"),
    ("auth rm", "profile mgr"),
    ("auth get-or-create", "profile mgr"),
];

/// A value that a parameter takes.
fn sample(p: &grammar::Param) -> Value {
    use grammar::Kind;
    let low = p.range.as_ref().and_then(|r| r.split('|').next().and_then(|x| x.parse::<f64>().ok())).unwrap_or(0.0);
    let one = match p.kind {
        Kind::Int => json!(low as i64),
        Kind::Float => json!(low),
        Kind::Bool => json!(true),
        Kind::Choices => json!(p.choices[0]),
        Kind::OsdName => json!("osd.0"),
        Kind::Pgid => json!("1.0"),
        Kind::EntityAddr | Kind::IPAddr => json!("10.0.0.1"),
        Kind::UUID => json!("c9b6a0b4-0e3a-4e49-9a45-1c2d3e4f5a6b"),
        _ => json!(p.goodchars.as_ref().map_or("x", |class| &class[1..2])),
    };
    if p.many { json!([one]) } else { one }
}

/// Arguments for which grants by a command's name are made, by the command. The key that ends with a blank is for all
/// that begin so.
fn special(prefix: &str) -> Vec<Value> {
    static ALL: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("special.json")).expect("JSON"));
    let of = |key: &str| ALL.get(key).and_then(Value::as_array).cloned();
    of(prefix).or_else(|| prefix.starts_with("config-key ").then(|| of("config-key ")).flatten()).unwrap_or_default()
}

fn parsed(command: &'static commands::Command, args: Value) -> Option<Parsed> {
    let Value::Object(mut args) = args else { return None };
    args.insert("prefix".into(), json!(command.signature.prefix));
    let args = command.signature.check(&args).ok()?;
    Some(Parsed { command, args, format: grammar::Format::Json })
}

/// Returns whether a command may be given: `+` with any arguments, `a` with some, `.` never.
fn mark(rights: &Rights, name: &EntityName, command: &'static commands::Command, told: bool, secrets: bool) -> char {
    let sig = &command.signature;
    let some = |optional: bool| {
        let params = sig.params.iter().filter(|p| optional || !p.optional);
        Value::Object(params.map(|p| (p.name.clone(), sample(p))).collect())
    };
    let may = |args: Value| parsed(command, args).is_some_and(|p| rights.let_through(&p, name, told, secrets));
    match (may(some(true)), may(some(false))) {
        (true, true) => '+',
        (false, false) if !special(&sig.prefix).into_iter().any(may) => '.',
        _ => 'a',
    }
}

/// The page: each command at each place, with a sign for each of [`WHO`].
fn page() -> String {
    let mut out = String::from(
        "# Which rights let which commands through. Each column is an entity with its rights at the monitors and at the manager.\n\
         # +: with any arguments; a: with some arguments; .: never. Written by NACRE_WRITE_DOCS=1 cargo test -p mon --lib rights\n#\n",
    );
    for (n, (name, mon, mgr)) in WHO.iter().enumerate() {
        out += &format!("# {:>2}  {name:<14} mon '{mon}' mgr '{mgr}'\n", n + 1);
    }
    let all: Vec<(EntityName, Rights, Rights)> = WHO
        .iter()
        .map(|(name, mon, mgr)| {
            let name = name.parse().expect("a name");
            let from = Some(IpAddr::from([127, 0, 0, 1]));
            (name, Rights::at_monitor(Some(mon), from), Rights::at_manager(Some(mgr), Some(mon), from))
        })
        .collect();
    let places: [(&str, bool, bool, &[commands::Command]); 4] = [
        ("to the monitors", true, false, commands::table()),
        ("to the manager", false, false, commands::table()),
        ("to a monitor itself (tell)", true, true, commands::mon_table()),
        ("to the manager itself (tell)", false, true, commands::mgr_table()),
    ];
    for (place, at_mon, told, table) in places {
        out += &format!("\n## {place}\n");
        for command in table {
            let (row, prefix) = (command.row, &command.signature.prefix);
            if prefix == "get_command_descriptions" {
                continue;
            }
            let brings = matches!(prefix.as_str(), "osd new" | "osd create");
            for secrets in if brings { &[false, true][..] } else { &[false] } {
                let words = if *secrets { format!("{prefix}+secrets") } else { prefix.clone() };
                let sign = |(name, mon, mgr): &(EntityName, Rights, Rights)| {
                    mark(if at_mon { mon } else { mgr }, name, command, told, *secrets)
                };
                let signs: String = all.iter().map(sign).collect();
                out += &format!("{signs}  {:<10} {:<3} {words}\n", row.module, row.perm);
            }
        }
    }
    out
}

#[test]
fn the_table_of_rights_is_what_reviewers_have_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/rights/table.txt");
    let page = page();
    if std::env::var_os("NACRE_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).expect("the table can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let changed: Vec<_> = page.lines().filter(|line| !found.lines().any(|old| old == *line)).collect();
    assert!(
        found == page,
        "rights are others than before; look at each of these, then write the table anew:\n{}",
        changed.join("\n")
    );
}

/// What the table says of keys, whatever stands in it.
#[test]
fn no_key_without_rights_to_keys() {
    let page = page();
    let mut found = std::collections::BTreeSet::new();
    for line in page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (signs, rest) = line.split_at(WHO.len());
        let words = rest.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        let secret = words.starts_with("config-key ") && !words.ends_with("exists");
        if !KEYS.contains(&words.as_str()) && !secret {
            continue;
        }
        found.insert(words.clone());
        for ((name, mon, _), sign) in WHO.iter().zip(signs.chars()).filter(|(_, sign)| *sign != '.') {
            // From outside of its network, a right is none.
            let caps = MonCaps::parse(mon).expect("capabilities").seen_from(IpAddr::from([127, 0, 0, 1]));
            let service = if secret { "config-key" } else { "auth" };
            let keys = caps.allows(service, true, false, service == "auth");
            let named = NAMED.iter().any(|(command, text)| *command == words && mon.starts_with(text));
            assert!(keys || named || secret && sign == 'a', "{name} with mon '{mon}' may say '{words}':\n{line}");
        }
    }
    assert!(KEYS.iter().all(|words| found.contains(*words)), "all are commands: {found:?}");
}

/// A file of the repository, from the crate's folder.
fn file(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

/// Signs of each command at each place. `words`: where in a line the command begins.
fn signs(page: &str, words: usize) -> BTreeMap<(String, String), String> {
    let (mut place, mut all) = (String::new(), BTreeMap::new());
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            place = name.to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            let parts: Vec<&str> = line.split_whitespace().collect();
            all.insert((place.clone(), parts[words..].join(" ")), parts[0].to_owned());
        }
    }
    all
}

/// Commands to the manager that may be given to the monitors as well. Ceph's monitors pass them on without the rights
/// of who asks, so that the manager refuses even those who have all.
const PASSED_ON: &[&str] = &["rbd perf image counters", "rbd perf image stats"];

/// Daemons of Ceph that are none of ours: nobody here has such a key but who was given one.
const DAEMONS: &[&str] = &["profile mon", "profile mgr"];

/// What a real cluster lets through was found by `tools/conformance/foreign/record_rights.py`. Which commands fewer may
/// give here, and why, stands in the documents.
#[test]
fn nobody_may_do_more_than_at_a_real_cluster() {
    let real = file("src/server/rights/ceph-16.2.15.txt");
    let docs = file("../../docs/compatibility.md");
    let section =
        docs.split("## Which commands fewer may give").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let mut reasons: BTreeMap<&str, &str> = BTreeMap::new();
    let theirs = signs(&real, 1);
    for (command, why) in rows {
        // `mds *` stands for all that begin so.
        let begins = command.strip_suffix('*');
        let all = theirs.keys().map(|(_, words)| words.as_str()).filter(|words| begins.is_some_and(|b| words.starts_with(b)));
        reasons.extend(all.chain(begins.is_none().then_some(command)).map(|words| (words, why)));
    }
    assert!(reasons.values().all(|why| why.len() > 20), "{reasons:?}");
    let heads = |page: &str| page.lines().filter(|l| l.contains(" mon '")).map(str::to_owned).collect::<Vec<_>>();
    let page = page();
    assert_eq!(heads(&real), heads(&page), "the recording is of other entities: make it anew");
    let ours = signs(&page, 3);
    let asked: usize = theirs.values().map(|signs| signs.chars().filter(|sign| *sign != '?').count()).sum();
    assert!(asked > 15_000, "{asked} answers of a real cluster");
    let (mut laxer, mut stricter, mut excused) = (Vec::new(), Vec::new(), std::collections::BTreeSet::new());
    for (command, found) in &theirs {
        let Some(mine) = ours.get(command) else { panic!("{command:?} is a command of ours no more: make the recording anew") };
        let size = |sign: char| ".a+".find(sign).expect("a sign");
        for (n, (own, real)) in mine.chars().zip(found.chars()).enumerate().filter(|(_, (_, real))| *real != '?') {
            let at = |of: &BTreeMap<(String, String), String>, place: &str| {
                of.get(&(place.to_owned(), command.1.clone())).and_then(|signs| signs.chars().nth(n)).unwrap_or('.')
            };
            // The key has the right, at the manager: Ceph's monitors pass these on without it.
            let has_it = WHO[n].2 == "allow *" || at(&theirs, "to the manager") == own;
            let other_door = command.0 == "to the monitors" && PASSED_ON.contains(&command.1.as_str()) && has_it;
            // Who may only read at the monitors does not do more by way of the manager.
            let doors = command.0.contains("manager") && (WHO[n].1, WHO[n].2) == ("allow r", "allow *");
            let both_doors = doors && size(at(&ours, "to the monitors")) < size(real);
            match size(own).cmp(&size(real)) {
                std::cmp::Ordering::Greater if other_door => {}
                std::cmp::Ordering::Greater => laxer.push((command, n + 1, own, real)),
                std::cmp::Ordering::Less if DAEMONS.contains(&WHO[n].1) => {}
                std::cmp::Ordering::Less if reasons.contains_key(command.1.as_str()) => drop(excused.insert(command.1.as_str())),
                std::cmp::Ordering::Less if both_doors => {}
                std::cmp::Ordering::Less => stricter.push((command, n + 1, own, real)),
                std::cmp::Ordering::Equal => {}
            }
        }
    }
    assert!(laxer.is_empty(), "more is let through than by Ceph (command, entity, ours, Ceph's): {laxer:#?}");
    assert!(stricter.is_empty(), "less is let through, and nobody says why: {stricter:#?}");
    let idle: Vec<_> = reasons.iter().filter(|(words, _)| !excused.contains(*words)).collect();
    // Of those that one row is about, one is enough.
    let idle: Vec<_> =
        idle.into_iter().filter(|(_, why)| !reasons.iter().any(|(w, y)| y == *why && excused.contains(w))).collect();
    assert!(idle.is_empty(), "these are no different: {idle:?}");
}
