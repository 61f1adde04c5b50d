//! Commands on the configuration database, and `config-key`.

use super::{Cx, Row, row};
use bytes::Bytes;
use grammar::{Args, Outcome, Refusal, Reply, Table, refuse};
use manager::desk::Kind;
use messages::internal::OptionInForce;
use monstate::options::{self, Opt, normalize};
use monstate::state::Change;
use monstate::state::configdb::{Section, Step};
use monstate::state::place_of;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityName, EntityType, Errno, OsdId};

pub(super) const ROWS: &[Row] = &[
    row("config set <who:String> <name:String> <value:String> <force:Bool req=false>", "set an option", "config", "rw", set),
    row("config rm <who:String> <name:String>", "unset an option", "config", "rw", rm),
    row("config get <who:String> <key:String req=false>", "show an option of an entity, or all", "config", "r", get),
    row("config dump", "show all options that are set", "mon", "r", dump),
    row("config help <key:String>", "explain an option", "config", "r", help),
    row("config ls", "list the options", "config", "r", ls),
    row("config assimilate-conf", "take options from a configuration file", "config", "rw", assimilate),
    row("config log <num:Int req=false>", "show who changed which options", "config", "r", log),
    row("config reset <num:Int range=0>", "undo changes of options down to a version", "config", "rw", reset),
    row("config generate-minimal-conf", "make a configuration file for clients", "config", "r", minimal),
    row("config show <who:String> <key:String req=false>", "show what an entity goes by", "mgr", "r", show),
    row("config show-with-defaults <who:String>", "show what an entity goes by, defaults included", "mgr", "r", show_all),
    row("config-key get <key:String>", "show a stored value", "config-key", "r", key_get),
    row("config-key set <key:String> <val:String req=false>", "store a value", "config-key", "rw", key_set),
    row("config-key put <key:String> <val:String req=false>", "store a value", "config-key", "rw", key_set),
    row("config-key rm <key:String>", "remove a stored value", "config-key", "rw", key_rm),
    row("config-key del <key:String>", "remove a stored value", "config-key", "rw", key_rm),
    row("config-key exists <key:String>", "check for a stored value", "config-key", "r", key_exists),
    row("config-key ls", "list the names of stored values", "config-key", "r", key_ls),
    row("config-key list", "list the names of stored values", "config-key", "r", key_ls),
    row("config-key dump <key:String req=false>", "show stored values", "config-key", "r", key_dump),
];

fn section(text: &str) -> Result<Section, Refusal> {
    match Section::parse(text) {
        Some(section) => Ok(section),
        None => refuse!(EINVAL, "unrecognized config target '{text}'"),
    }
}

fn option(name: &str) -> Result<Opt, Refusal> {
    match options::find(name) {
        Some(opt) => Ok(opt),
        None => refuse!(EINVAL, "unrecognized config option '{name}'"),
    }
}

fn not_fixed(name: &str) -> Result<(), Refusal> {
    if options::is_fixed(name) {
        refuse!(EINVAL, "{name} is special and cannot be stored by the mon");
    }
    Ok(())
}

/// Options by which clients decide how they show who they are.
const WAYS_IN: [&str; 4] = ["auth_supported", "auth_client_required", "auth_cluster_required", "auth_service_required"];

/// Returns true if clients that get this option come in still. They read it with the configuration, the administrator's as well, and there would
/// be no easy way back.
fn lets_clients_in(cx: &Cx<'_>, name: &str, value: &str) -> bool {
    !WAYS_IN.contains(&name) || value.split([',', ';', ' ']).any(|way| way.trim() == way_in(cx))
}

/// Returns how clients of this cluster show who they are.
fn way_in(cx: &Cx<'_>) -> &'static str {
    if cx.env.cephx() { "cephx" } else { "none" }
}

fn set(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (section, name) = (section(args.str("who"))?, normalize(args.str("name")));
    let value = if name.starts_with("mgr/") || args.flag("force") && options::find(&name).is_none() {
        args.str("value").to_string()
    } else {
        let opt = option(&name)?;
        not_fixed(&name)?;
        opt.check(args.str("value")).map_err(|w| Refusal::new(w.errno, format!("error parsing value: {}", w.why)))?
    };
    if !lets_clients_in(cx, &name, &value) {
        let way = way_in(cx);
        refuse!(
            EINVAL,
            "no client would get in any more, the administrator's neither: this cluster takes '{way}', and {name} must have it"
        );
    }
    let status = options::lacks(&name, &section.text()).map(|(what, why)| format!("{name} is kept and has {what}: {why}"));
    if cx.state.config.get(&section.text(), &name) != Some(&value) {
        cx.changes.push(Change::Config { by: cx.asker.name.to_string(), set: vec![(section.text(), name, Some(value))] });
    }
    Ok(Reply::status(status.unwrap_or_default()))
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (section, name) = (section(args.str("who"))?, normalize(args.str("name")));
    if cx.state.config.get(&section.text(), &name).is_some() {
        cx.changes.push(Change::Config { by: cx.asker.name.to_string(), set: vec![(section.text(), name, None)] });
    }
    Ok(Reply::default())
}

/// Parses an entity; a kind alone counts as an entity without a name.
fn entity(who: &str) -> Result<EntityName, Refusal> {
    let full = if who.contains('.') { who.to_string() } else { format!("{who}.") };
    match full.parse() {
        Ok(name) => Ok(name),
        Err(_) if who == "global" => Ok(EntityName::new(EntityType::Client, "")),
        Err(_) => refuse!(EINVAL, "unrecognized entity '{who}'"),
    }
}

struct Line {
    section: String,
    mask: String,
    name: String,
    value: String,
}

impl Line {
    fn new(section: &str, name: &str, value: &str) -> Self {
        let (who, mask) = section.split_once('/').unwrap_or((section, ""));
        Self { section: who.into(), mask: mask.into(), name: name.into(), value: value.into() }
    }

    fn level(&self) -> &'static str {
        options::find(&self.name).map_or("unknown", |o| o.level)
    }

    fn read_only(&self) -> bool {
        options::find(&self.name).is_none_or(|o| !o.live)
    }

    /// The parts of the mask: `device_class`, or `location_type` and `location_value`.
    fn mask_fields(&self) -> Map<String, Value> {
        match self.mask.split_once(':') {
            None => Map::new(),
            Some(("class", class)) => Map::from_iter([("device_class".into(), json!(class))]),
            Some((kind, place)) => {
                Map::from_iter([("location_type".into(), json!(kind)), ("location_value".into(), json!(place))])
            }
        }
    }

    fn dump(&self) -> Value {
        let mut value = json!({
            "section": self.section, "name": self.name, "value": self.value, "level": self.level(),
            "can_update_at_runtime": !self.read_only(), "mask": self.mask,
        });
        if let Some(fields) = value.as_object_mut() {
            fields.extend(self.mask_fields());
        }
        value
    }

    /// The order of sections in `config dump`: everybody, then each kind with its entities below it.
    fn order(&self) -> (usize, String, String, String) {
        let kind = self.section.split('.').next().unwrap_or_default();
        let rank = ["global", "mon", "mgr", "osd", "mds", "client"].iter().position(|k| *k == kind).unwrap_or(6);
        (rank, self.section.clone(), self.name.clone(), self.mask.clone())
    }
}

fn table(lines: &[Line]) -> String {
    let mut t = Table::simple(&["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]);
    for l in lines {
        let indent = match l.section.as_str() {
            "global" => 0,
            who if who.contains('.') => 4,
            _ => 2,
        };
        let read_only = if l.read_only() { "*" } else { " " };
        t.row(vec![
            " ".repeat(indent) + &l.section,
            l.mask.clone(),
            l.level().into(),
            l.name.clone(),
            l.value.clone(),
            read_only.into(),
        ]);
    }
    t.render()
}

fn dump(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let mut lines: Vec<Line> =
        cx.state.config.sections.iter().flat_map(|(s, options)| options.iter().map(|(n, v)| Line::new(s, n, v))).collect();
    lines.sort_by_key(Line::order);
    let value = lines.iter().map(Line::dump).collect();
    Ok(cx.show("config", value, || table(&lines)))
}

fn get(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = entity(args.str("who"))?;
    let host =
        cx.state.osd_metadata.get(&name.id.parse().unwrap_or(-1)).and_then(|m| m.get("hostname")).cloned().unwrap_or_default();
    let options = cx.state.config.for_entity(&name, &place_of(cx.state, &name.kind, &name.id, &host));
    if let Some(key) = args.opt("key") {
        let key = normalize(key);
        // What nobody has set, and the OSD has found by itself.
        let found = in_force(cx, &name).iter().find(|o| o.name == key && o.source != "override").map(|o| &o.value);
        let value = match options.get(&key).map(|(_, value)| value).or(found) {
            Some(value) => value.clone(),
            None if Kind::of_option(&key).is_some() => String::new(),
            None if key != "fsid" && options::is_fixed(&key) => return not_fixed(&key).map(|()| Reply::default()),
            None if key.starts_with("mgr/") => refuse!(ENOENT, "{key} is not set"),
            None => match options::find(&key) {
                Some(opt) if opt.name == "fsid" => cx.state.fsid.to_string(),
                Some(opt) => {
                    cx.env.config.options.iter().find(|(n, _)| normalize(n) == key).map_or(opt.default, |(_, v)| v).to_string()
                }
                None => refuse!(ENOENT, "unrecognized key '{key}'"),
            },
        };
        // As it is, in whatever format: as JSON a number is a number then.
        return Ok(Reply::data(format!("{value}\n")));
    }
    let lines: Vec<Line> = options.iter().map(|(n, (s, v))| Line::new(s, n, v)).collect();
    let value: Map<String, Value> = lines
        .iter()
        .map(|l| {
            (
                l.name.clone(),
                json!({"value": l.value, "section": l.section, "mask": l.mask_fields(), "can_update_at_runtime": !l.read_only()}),
            )
        })
        .collect();
    Ok(cx.show("config", Value::Object(value), || {
        let mut t = Table::simple(&["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]);
        for l in &lines {
            let read_only = if l.read_only() { "*" } else { " " };
            t.row(vec![l.section.clone(), l.mask.clone(), l.level().into(), l.name.clone(), l.value.clone(), read_only.into()]);
        }
        t.render()
    }))
}

fn help(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = normalize(args.str("key"));
    let Some(opt) = options::find(&name) else { refuse!(ENOENT, "configuration option '{name}' not recognized") };
    let (min, max) = settings::find(&name).map_or(("", ""), settings::Setting::bounds);
    let choices: Vec<&str> = settings::find(&name).map_or("", |s| s.choices).split_whitespace().collect();
    let services: Vec<&str> = Some(opt.service).filter(|s| !s.is_empty()).into_iter().collect();
    let note = match settings::effect_at(&name, "global") {
        settings::Effect::None(why) => format!("kept and without effect here: {why}"),
        settings::Effect::Partly(why) => format!("kept and with a part of its effect here: {why}"),
        settings::Effect::Used | settings::Effect::Clients => String::new(),
    };
    // A number is one, as in Ceph; what only looks like one, as "1G", stays text.
    let default = match opt.kind.name() {
        "int" | "uint" | "size" | "secs" | "float" => serde_json::from_str(opt.default).unwrap_or(json!(opt.default)),
        "bool" => json!(opt.default == "true"),
        _ => json!(opt.default),
    };
    let mut value = json!({
        "name": opt.name, "type": opt.kind.name(), "level": opt.level, "desc": opt.help, "long_desc": note, "default": default,
        "daemon_default": "", "tags": [], "services": services, "see_also": [],
    });
    if !choices.is_empty() {
        value["enum_values"] = json!(choices);
    }
    for (name, field) in [
        ("min", json!(min)),
        ("max", json!(max)),
        ("can_update_at_runtime", json!(opt.live)),
        ("flags", if opt.live { json!(["runtime"]) } else { json!([]) }),
    ] {
        value[name] = field;
    }
    Ok(cx.show("option", value, || {
        let mut text = format!("{} - {}\n  ({}, {})\n", opt.name, opt.help, opt.kind.name(), opt.level);
        text += &format!("  Default: {}\n", opt.default);
        if !choices.is_empty() {
            text += &format!("  Possible values:  {}\n", choices.join(" "));
        }
        text += &format!("  Can update at runtime: {}\n", opt.live);
        if !opt.service.is_empty() {
            text += &format!("  Services: [{}]\n", opt.service);
        }
        if !note.is_empty() {
            text += &format!("  Effect: {note}\n");
        }
        text
    }))
}

fn ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let names: Vec<&str> = options::all().iter().map(|o| o.name).collect();
    Ok(cx.show("options", json!(names), || names.iter().map(|n| format!("{n}\n")).collect()))
}

fn assimilate(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let sections = settings::file::read(&cx.input).map_err(|why| Refusal::new(Errno::EINVAL, why.to_string()))?;
    let (mut set, mut kept, mut silent) = (Vec::new(), String::new(), Vec::new());
    for (who, values) in sections {
        let section = Section::parse(&who).map(|s| s.text());
        let mut left = String::new();
        for (name, value) in values.into_iter().filter(|(name, _)| !name.is_empty()) {
            let known =
                options::find(&name).filter(|o| o.name == name && !options::is_fixed(&name) && !options::only_at_birth(&name));
            let checked = known.and_then(|o| o.check(&value).ok());
            match (&section, checked) {
                // What is stored stands; another value stays in the file, so that somebody looks at it.
                (Some(section), Some(good))
                    if lets_clients_in(cx, &name, &good)
                        && cx.state.config.get(section, &name).is_none_or(|old| *old == good) =>
                {
                    silent.extend(options::lacks(&name, section).map(|_| name.clone()));
                    set.push((section.clone(), name, Some(good)));
                }
                _ => left.push_str(&format!("\t{name} = {value}\n")),
            }
        }
        if !left.is_empty() {
            kept.push_str(&format!("\n[{who}]\n{left}"));
        }
    }
    set.retain(|(section, name, value)| cx.state.config.get(section, name) != value.as_ref());
    if !set.is_empty() {
        cx.changes.push(Change::Config { by: cx.asker.name.to_string(), set });
    }
    let status = match silent.is_empty() {
        true => String::new(),
        false => format!("kept and without effect here, or with a part of it: {}", silent.join(", ")),
    };
    Ok(Reply::data(kept).with_status(status))
}

fn step_lines(step: &Step) -> String {
    let mut out = format!("--- {} --- {} --- {} ---\n", step.version, step.stamp.iso(), step.by);
    for item in &step.items {
        for (sign, value) in [('-', &item.before), ('+', &item.after)] {
            if !value.is_empty() {
                out.push_str(&format!("{sign} {}/{} = {value}\n", item.section, item.name));
            }
        }
    }
    out
}

fn log(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let n = args.int("num").unwrap_or(10).clamp(0, 1000) as usize;
    let steps: Vec<&Step> = cx.state.config.steps.0.iter().rev().take(n).collect();
    let value = steps
        .iter()
        .map(|s| {
            let changes: Vec<Value> = s
                .items
                .iter()
                .map(|i| {
                    let mut change = json!({"name": format!("{}/{}", i.section, i.name)});
                    // What was not set before, or is not set now, has no value.
                    for (key, value) in [("previous_value", &i.before), ("new_value", &i.after)] {
                        if !value.is_empty() {
                            change[key] = json!(value);
                        }
                    }
                    change
                })
                .collect();
            json!({"version": s.version, "timestamp": s.stamp.iso(), "name": s.by, "changes": changes})
        })
        .collect();
    Ok(cx.show("changesets", value, || steps.iter().map(|s| step_lines(s)).collect()))
}

fn reset(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let to = args.int("num").unwrap_or(0) as u64;
    let db = &cx.state.config;
    if to > db.version {
        refuse!(EINVAL, "config reset: version {to} does not exist; the newest is {}", db.version);
    }
    let oldest = db.steps.0.front().map_or(db.version, |s| s.version - 1);
    if to < oldest {
        refuse!(EINVAL, "config reset: changes before version {oldest} are not remembered");
    }
    let mut set: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
    for item in db.steps.0.iter().rev().filter(|s| s.version > to).flat_map(|s| s.items.iter().rev()) {
        let value = (!item.before.is_empty()).then(|| item.before.clone());
        set.insert((item.section.clone(), item.name.clone()), value);
    }
    if !set.is_empty() {
        let set = set.into_iter().map(|((s, n), v)| (s, n, v)).collect();
        cx.changes.push(Change::Config { by: cx.asker.name.to_string(), set });
    }
    Ok(Reply::default())
}

fn minimal(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let addrs: Vec<String> = cx.state.monmap.by_rank().map(|m| m.public_addrs.to_string()).collect();
    let text = format!(
        "# minimal ceph.conf for {}\n[global]\n\tfsid = {}\n\tmon_host = {}\n",
        cx.state.fsid,
        cx.state.fsid,
        addrs.join(" ")
    );
    Ok(Reply::data(text))
}

/// The options that an OSD reports itself: what it found, and what others told it. Empty while it is down.
fn in_force<'a>(cx: &'a Cx<'_>, name: &EntityName) -> &'a [OptionInForce] {
    let osd = name.id.parse().ok().filter(|osd| name.kind == types::EntityType::Osd && cx.state.osdmap.is_up(*osd));
    let report = osd.and_then(|osd| cx.soft.osds.get(&osd)).and_then(|soft| soft.report.as_ref());
    report.map_or(&[], |report| &report.options[..report.options.len().min(MOST_IN_FORCE)])
}

/// Most options that an OSD may report.
const MOST_IN_FORCE: usize = 256;

/// An option as it counts for an entity: its source, and what it stands above.
struct Shown {
    value: String,
    source: String,
    overrides: Vec<(String, String)>,
}

/// Gives the options of an entity, from the weakest source to the strongest: defaults if they are wanted, configuration
/// file, database, what somebody set at an OSD itself.
fn effective(cx: &Cx<'_>, name: &EntityName, defaults: bool) -> BTreeMap<String, Shown> {
    let osd = name.id.parse::<OsdId>().ok().filter(|_| name.kind == EntityType::Osd);
    let host = osd.and_then(|id| cx.state.osd_metadata.get(&id)?.get("hostname").cloned()).unwrap_or_default();
    let stored = cx.state.config.for_entity(name, &place_of(cx.state, &name.kind, &name.id, &host));
    let mut rows: BTreeMap<String, Shown> = BTreeMap::new();
    let mut lay = |name: String, value: String, source: &str| {
        let below = rows.remove(&name);
        let mut overrides = below.as_ref().map(|b| b.overrides.clone()).unwrap_or_default();
        overrides.splice(0..0, below.filter(|b| b.source != "default" && b.source != source).map(|b| (b.source, b.value)));
        rows.insert(name, Shown { value, source: source.to_owned(), overrides });
    };
    if defaults {
        options::all().iter().for_each(|o| lay(o.name.into(), o.default.into(), "default"));
    }
    cx.env.config.options.iter().for_each(|(n, v)| lay(normalize(n), v.clone(), "file"));
    stored.into_iter().for_each(|(n, (_, v))| lay(n, v, "mon"));
    in_force(cx, name).iter().for_each(|o| lay(o.name.clone(), o.value.clone(), &o.source));
    rows
}

/// Parses a daemon's name. A daemon that does not exist is refused.
fn daemon(cx: &Cx<'_>, who: &str) -> Result<EntityName, Refusal> {
    let Ok(name) = who.parse::<EntityName>() else {
        if who.contains('.') {
            refuse!(ENOENT, "no config state for daemon {who}");
        }
        refuse!(EINVAL, "invalid daemon name: use <type>.<id>")
    };
    let there = match name.kind {
        EntityType::Osd => name.id.parse().is_ok_and(|id| cx.state.osdmap.exists(id)),
        EntityType::Mon => name == cx.env.name(),
        _ => true,
    };
    if !there {
        refuse!(ENOENT, "no config state for daemon {who}");
    }
    Ok(name)
}

fn shown_line(who: &str, name: &str, row: &Shown) -> Value {
    let mut line = json!({"name": name, "value": row.value, "source": row.source});
    if !row.overrides.is_empty() {
        line["overrides"] = row.overrides.iter().map(|(source, value)| json!({"source": source, "value": value})).collect();
    }
    match settings::effect_at(name, who) {
        settings::Effect::None(why) => line["without_effect"] = json!(why),
        // A daemon that goes by it does so wholly.
        settings::Effect::Partly(_) | settings::Effect::Used | settings::Effect::Clients => {}
    }
    line
}

/// Returns what `config show` says of an option that is kept, and by which that daemon does not go.
fn ignored(who: &str, name: &str) -> String {
    match settings::effect_at(name, who) {
        settings::Effect::None(_) => "no effect here".into(),
        // A daemon that goes by it does so wholly.
        settings::Effect::Partly(_) | settings::Effect::Used | settings::Effect::Clients => String::new(),
    }
}

fn shown(cx: &mut Cx<'_>, args: &Args, defaults: bool) -> Outcome {
    let name = daemon(cx, args.str("who"))?;
    if let Some(key) = args.opt("key") {
        let rows = effective(cx, &name, true);
        let Some(row) = rows.get(&normalize(key)) else { refuse!(ENOENT, "unrecognized key '{key}'") };
        return Ok(Reply::data(format!("{}\n", row.value)));
    }
    let rows = effective(cx, &name, defaults);
    let value = rows.iter().map(|(n, row)| shown_line(args.str("who"), n, row)).collect();
    Ok(cx.show("config", value, || {
        let mut t = Table::simple(&["NAME", "VALUE", "SOURCE", "OVERRIDES", "IGNORES"]);
        for (name, row) in &rows {
            let below: Vec<String> = row.overrides.iter().map(|(source, value)| format!("{source}[{value}]")).collect();
            t.row(vec![name.clone(), row.value.clone(), row.source.clone(), below.join(" "), ignored(args.str("who"), name)]);
        }
        t.render()
    }))
}

fn show(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    shown(cx, args, false)
}

fn show_all(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    shown(cx, args, true)
}

/// Most bytes of a stored value, as in Ceph.
const MOST_BYTES: usize = 64 << 10;
/// Most bytes that all stored values take together, with their names: a quarter of what a monitor's store has for the state. Ceph has no
/// such bound.
const MOST_IN_ALL: u64 = 64 << 20;
/// Most bytes of a stored value's name. Ceph has no bound of its own.
const MOST_OF_NAME: usize = 4096;

fn key_get(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let key = args.str("key");
    match cx.state.keys.get(key) {
        Some(value) => Ok(Reply::data(value.clone())),
        None => refuse!(ENOENT, "error obtaining '{key}': (2) No such file or directory"),
    }
}

fn key_set(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let key = args.str("key").to_string();
    let value: Bytes = match args.opt("val") {
        Some(text) => text.to_string().into(),
        None => cx.input.clone(),
    };
    if key.len() > MOST_OF_NAME {
        refuse!(EINVAL, "the name of a stored value may have at most {MOST_OF_NAME} bytes");
    }
    if value.len() > MOST_BYTES {
        refuse!(EFBIG, "a stored value may have at most {MOST_BYTES} bytes");
    }
    let most = MOST_IN_ALL.min(if cx.env.area_bytes == 0 { u64::MAX } else { cx.env.area_bytes / 4 });
    let size = |key: &str, value: &Bytes| (key.len() + value.len()) as u64;
    let others: u64 = cx.state.keys.iter().filter(|(k, _)| **k != key).map(|(k, v)| size(k, v)).sum();
    let smaller = cx.state.keys.get(&key).is_some_and(|old| old.len() >= value.len());
    if others + size(&key, &value) > most && !smaller {
        refuse!(ENOSPC, "stored values may take {most} bytes in all; `config-key rm` makes room");
    }
    let told = format!("set {key}");
    cx.changes.push(Change::Key { key, value: Some(value) });
    Ok(Reply::status(told))
}

fn key_rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let key = args.str("key").to_string();
    if !cx.state.keys.contains_key(&key) {
        return Ok(Reply::status(format!("no such key '{key}'")));
    }
    let told = format!("key deleted: {key}");
    cx.changes.push(Change::Key { key, value: None });
    Ok(Reply::status(told))
}

fn key_exists(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let key = args.str("key");
    if cx.state.keys.contains_key(key) {
        return Ok(Reply::status(format!("key '{key}' exists")));
    }
    refuse!(ENOENT, "key '{key}' doesn't exist")
}

fn key_ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = cx.state.keys.keys().map(|k| json!(k)).collect();
    Ok(cx.structure("keys", &value))
}

fn key_dump(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let prefix = args.str("key");
    let shown = |v: &Bytes| match std::str::from_utf8(v) {
        Ok(text) => text.to_string(),
        Err(_) => format!("<<< binary blob of length {} >>>", v.len()),
    };
    let all: Map<String, Value> =
        cx.state.keys.iter().filter(|(k, _)| k.starts_with(prefix)).map(|(k, v)| (k.clone(), shown(v).into())).collect();
    Ok(cx.structure("config-key store", &Value::Object(all)))
}
