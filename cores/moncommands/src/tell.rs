//! Commands that go to a monitor or the manager itself (`ceph tell`, and calls of the own process): a few about the
//! daemon, and all that the cluster understands.

use super::describe::descriptions;
use super::{Command, Cx, Row, mon, row, status, table};
use counters::Readings;
use grammar::{Args, Outcome, Refusal, Reply, refuse};
use monstate::context::commit;
use monstate::effective;
use monstate::options::{self, normalize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;
use types::PgState;

const MON: &[Row] = &[
    row("version", "show the version", "mon", "r", status::version),
    row("help", "list the commands", "mon", "r", help),
    row("get_command_descriptions", "list the commands, for clients", "mon", "r", mon_descriptions),
    row("mon_status", "show the state of this monitor", "mon", "r", |cx, _| Ok(cx.structure("mon_status", &mon::mon_status(cx)))),
    row("sessions", "list sessions of this monitor", "mon", "r", mon::sessions),
    row("config get <var:String>", "show an option", "mon", "r", get),
    row("config set <var:String> <val:String n=N>", "set an option of this daemon until it is set again", "mon", "rw", set),
    row("config unset <var:String>", "unset an option of this daemon", "mon", "rw", unset),
    row("config show", "show all options that differ from their defaults", "mon", "r", show),
    row("config diff", "show all options that differ from their defaults, and these", "mon", "r", diff),
    row("config help <var:String req=false>", "explain an option", "mon", "r", explain),
    row("git_version", "show the version of the program", "mon", "r", git_version),
    row("perf dump", "show counters", "mon", "r", perf),
    row("perfcounters_dump", "show counters, as older tools ask for them", "mon", "r", perf),
    row("perf schema", "show what the counters are", "mon", "r", perf_schema),
    row("perf reset <var:String>", "count from zero again: all, or a section", "mon", "rw", perf_reset),
    row("log flush", "write what the log keeps back (nothing: lines are written at once)", "mon", "r", log_flush),
    row(
        "injectargs <injected_args:String n=N>",
        "set options in the form --name=value, --name value, --flag or --no-flag",
        "mon",
        "rw",
        inject,
    ),
    row("ops", "list operations in flight", "mon", "r", no_ops),
    row("dump_historic_ops", "list recent operations", "mon", "r", no_ops),
    row("dump_historic_slow_ops", "list recent slow operations", "mon", "r", no_ops),
    row("ready", "answer when the monitor serves", "mon", "r", |_, _| Ok(Reply::data("ready\n"))),
    row("perfcounters_schema", "show what the counters are, as older tools ask for it", "mon", "r", perf_schema),
    row("counter dump", "show counters with labels, as exporters of release 18.2 ask for them", "mon", "r", counter_dump),
    row("counter schema", "show what the counters with labels are", "mon", "r", counter_schema),
    row("perf histogram dump", "show distributions: a monitor has none", "mon", "r", no_histograms),
    row("perf histogram schema", "show what the distributions are: a monitor has none", "mon", "r", no_histograms),
    row("config diff get <var:String>", "show an option if it differs from its default", "mon", "r", diff_get),
    row("log dump", "write the last lines of the log (none are kept: they are written at once)", "mon", "r", log_flush),
    row("dump_mempools", "show what is held in memory, by Ceph's names", "mon", "r", mempools),
    row("smart <devid:String req=false>", "show what disks tell of their health (nothing is collected)", "mon", "r", |cx, _| {
        Ok(cx.structure("smart", &json!({})))
    }),
    no(
        "heap <heapcmd:Choices strings=dump|start_profiler|stop_profiler|release|get_release_rate|set_release_rate|stats> <value:String req=false>",
        HEAP,
    ),
    no("connection scores dump", SCORES),
    no("connection scores reset", SCORES),
    no("add_bootstrap_peer_hint <addr:EntityAddr>", HINTS),
    no("add_bootstrap_peer_hintv <addrv:String>", HINTS),
    no("log reopen", REOPEN),
];

const HEAP: &str = "this program does not use tcmalloc";
const SCORES: &str = "monitors elect whoever has the newest log; how they reach each other is not scored";
const HINTS: &str = "a monitor knows the others from its own store and from `nacre join`";
const REOPEN: &str = "the process opens its log files anew when it gets SIGHUP";

/// A command of Ceph's daemon that is refused, and why.
const fn no(sig: &'static str, why: &'static str) -> Row {
    Row { sig, help: "not part of this daemon; it says why", module: "mon", perm: "rw", run: super::Run::Refuse(why) }
}

const MGR: &[Row] = &[
    row("version", "show the version", "mgr", "r", status::version),
    row("help", "list the commands", "mgr", "r", help),
    row("get_command_descriptions", "list the commands, for clients", "mgr", "r", mgr_descriptions),
    row("config get <var:String>", "show an option", "mgr", "r", get),
    row("config show", "show all options that differ from their defaults", "mgr", "r", show),
    row("git_version", "show the version of the program", "mgr", "r", git_version),
    row("perf dump", "show counters", "mgr", "r", perf),
    row("perfcounters_dump", "show counters, as older tools ask for them", "mgr", "r", perf),
    row("perf schema", "show what the counters are", "mgr", "r", perf_schema),
    row("counter dump", "show counters with labels, as exporters of release 18.2 ask for them", "mgr", "r", counter_dump),
    row("counter schema", "show what the counters with labels are", "mgr", "r", counter_schema),
    row("perf histogram dump", "show distributions: a manager has none", "mgr", "r", no_histograms),
    row("perf histogram schema", "show what the distributions are: a manager has none", "mgr", "r", no_histograms),
    row("config diff", "show all options that differ from their defaults, and these", "mgr", "r", diff),
    row("config diff get <var:String>", "show an option if it differs from its default", "mgr", "r", diff_get),
    row("config help <var:String req=false>", "explain an option", "mgr", "r", explain),
    row("log flush", "write what the log keeps back (nothing: lines are written at once)", "mgr", "r", log_flush),
    row("log dump", "write the last lines of the log (none are kept: they are written at once)", "mgr", "r", log_flush),
    row("dump_mempools", "show what is held in memory, by Ceph's names", "mgr", "r", mempools),
    row("mgr_status", "show whether the manager works", "mgr", "r", |cx, _| {
        Ok(cx.structure("mgr_status", &json!({"mgrmap_epoch": cx.state.mgrmap.epoch, "initialized": true})))
    }),
    no("log reopen", REOPEN),
    no("objecter_requests", "requests to OSDs are not listed; `progress` shows what the manager works on"),
    no("dump_cache", CEPHFS),
    no("mds_requests", CEPHFS),
    no("mds_sessions", CEPHFS),
    no("kick_stale_sessions", CEPHFS),
    no("dump_osd_network <value:Int range=0 req=false>", "each OSD shows its own: `ceph tell osd.N dump_osd_network`"),
    no("injectargs <injected_args:String n=N>", SET),
    no("config set <var:String> <val:String n=N>", SET),
    no("config unset <var:String>", SET),
];

const CEPHFS: &str = "there are no file systems in this cluster";
const SET: &str = "a manager has no options of its own process: use `ceph config set mgr`";

fn with_cluster(own: &'static [Row]) -> Vec<Command> {
    own.iter().chain(table().iter().map(|c| c.row)).map(Command::new).collect()
}

/// The commands to the monitor itself.
pub fn mon_table() -> &'static [Command] {
    static TABLE: OnceLock<Vec<Command>> = OnceLock::new();
    TABLE.get_or_init(|| with_cluster(MON))
}

/// The commands to the manager itself.
pub fn mgr_table() -> &'static [Command] {
    static TABLE: OnceLock<Vec<Command>> = OnceLock::new();
    TABLE.get_or_init(|| with_cluster(MGR))
}

/// The descriptions for the admin socket: the monitor's own commands, and all of the cluster's that it has no own one
/// for.
pub fn socket_descriptions() -> String {
    let own: BTreeSet<&str> = MON.iter().map(|row| row.sig.split(" <").next().unwrap_or(row.sig)).collect();
    let rest = table().iter().filter(|c| !own.contains(c.signature.prefix.as_str()));
    let all: Vec<Command> = MON.iter().chain(rest.map(|c| c.row)).map(Command::new).collect();
    descriptions(&all)
}

fn mon_descriptions(_: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(Reply::data(descriptions(&mon_table()[..MON.len()])))
}

fn mgr_descriptions(_: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(Reply::data(descriptions(&mgr_table()[..MGR.len()])))
}

fn help(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let all: Map<String, Value> = mon_table().iter().map(|c| (c.signature.prefix.clone(), json!(c.row.help))).collect();
    Ok(cx.structure("help", &Value::Object(all)))
}

fn get(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = normalize(args.str("var"));
    if options::find(&name).is_none() {
        refuse!(ENOENT, "'{name}' is not an option of this daemon");
    }
    let value = effective::of_monitor(cx.state, cx.env, &name);
    Ok(cx.structure("config_get", &json!({name: value})))
}

/// Sets or removes an option of this daemon in the database, so that it outlasts the daemon.
fn store(cx: &mut Cx<'_>, name: &str, value: Option<String>) -> Outcome {
    let Some(opt) = options::find(name) else { refuse!(ENOENT, "'{name}' is not an option of this daemon") };
    let value = match value.map(|v| opt.check(&v)).transpose() {
        Ok(value) => value,
        Err(wrong) => return Err(Refusal::new(wrong.errno, format!("error setting '{name}': {}", wrong.why))),
    };
    let shown = value.clone().unwrap_or_else(|| opt.default.to_string());
    let section = cx.env.name().to_string();
    if cx.state.config.get(&section, name) != value.as_ref() {
        let set = vec![(section, name.to_string(), value)];
        cx.changes.push(monstate::state::Change::Config { by: cx.asker.name.to_string(), set });
    }
    Ok(cx.structure("config_set", &json!({"success": format!("{name} = '{shown}' ")})))
}

fn set(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    store(cx, &normalize(args.str("var")), Some(args.list("val").join(" ")))
}

fn unset(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    store(cx, &normalize(args.str("var")), None)
}

fn inject(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let words = args.list("injected_args").iter().flat_map(|a| a.split_whitespace());
    let pairs = match settings::injected(words) {
        Ok(pairs) => pairs,
        Err(why) => refuse!(EINVAL, "{why}"),
    };
    let mut reply = Ok(Reply::default());
    for (name, value) in pairs {
        reply = store(cx, &name, Some(value.clone())).map_err(|refusal| Refusal {
            text: format!("Parse error setting {name} to '{value}' using injectargs.\n{}", refusal.text),
            ..refusal
        });
        if reply.is_err() {
            break;
        }
    }
    reply
}

fn show(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let differs = |o: &&options::Opt| effective::of_monitor(cx.state, cx.env, o.name) != o.default;
    let all: Map<String, Value> = options::all()
        .iter()
        .filter(differs)
        .map(|o| (o.name.to_string(), json!(effective::of_monitor(cx.state, cx.env, o.name))))
        .collect();
    Ok(cx.structure("config_show", &Value::Object(all)))
}

fn explain(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let named = args.opt("var").map(normalize);
    let all: Vec<Value> = options::all()
        .iter()
        .filter(|o| named.as_ref().is_none_or(|n| n == o.name))
        .map(|o| json!({"name": o.name, "type": o.kind.name(), "level": o.level, "desc": o.help, "default": o.default}))
        .collect();
    if all.is_empty() {
        refuse!(ENOENT, "'{}' is not an option of this daemon", args.str("var"));
    }
    Ok(cx.structure("options", &json!(all)))
}

fn git_version(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(cx.structure("git_version", &json!({"git_version": commit(&cx.env.config.metadata())})))
}

fn log_flush(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(cx.structure("log", &json!({})))
}

fn perf(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = dump(cx);
    Ok(cx.structure("perf", &value))
}

fn counter_dump(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = grammar::labelled(&dump(cx));
    Ok(cx.structure("counter_dump", &value))
}

fn counter_schema(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = grammar::labelled(&counters::schema(counters::mon::SECTIONS));
    Ok(cx.structure("counter_schema", &value))
}

fn perf_schema(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let value = counters::schema(counters::mon::SECTIONS);
    Ok(cx.structure("perf_schema", &value))
}

fn no_histograms(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let sections: Map<String, Value> =
        counters::mon::SECTIONS.iter().map(|section| (section.name.to_owned(), json!({}))).collect();
    Ok(cx.structure("perf_histogram", &Value::Object(sections)))
}

/// An option that differs from its default: both values.
fn difference(cx: &Cx<'_>, opt: &options::Opt) -> Option<(String, Value)> {
    let value = effective::of_monitor(cx.state, cx.env, opt.name);
    (value != opt.default).then(|| (opt.name.to_owned(), json!({"default": opt.default, "final": value})))
}

fn diff(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let told: Map<String, Value> = options::all().iter().filter_map(|opt| difference(cx, opt)).collect();
    Ok(cx.structure("config_diff", &json!({"diff": told})))
}

fn diff_get(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = normalize(args.str("var"));
    let Some(opt) = options::find(&name) else { refuse!(ENOENT, "'{name}' is not an option of this daemon") };
    let told: Map<String, Value> = difference(cx, &opt).into_iter().collect();
    Ok(cx.structure("config_diff_get", &json!({"diff": told})))
}

/// Returns what a monitor counts of its memory: the maps, and the last snapshot of its state.
fn mempools(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let pools = [("osdmap", cx.state.osdmap.osds().count() as u64, 0), ("pgmap", cx.soft.pgs.len() as u64, 0)];
    let mut by_pool: Map<String, Value> =
        pools.iter().map(|(name, items, bytes)| ((*name).to_owned(), json!({"items": items, "bytes": bytes}))).collect();
    by_pool.insert("buffer_anon".into(), json!({"items": 1, "bytes": cx.env.snapshot_bytes}));
    let items: u64 = pools.iter().map(|(_, items, _)| items).sum::<u64>() + 1;
    let value = json!({"mempool": {"by_pool": by_pool, "total": {"items": items, "bytes": cx.env.snapshot_bytes}}});
    Ok(cx.structure("dump_mempools", &value))
}

/// Does nothing: all counters of a monitor are levels, which have nothing to forget.
fn perf_reset(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("var");
    if name != "all" && dump(cx).get(name).is_none() {
        refuse!(EINVAL, "there is nothing to reset that is called '{name}'");
    }
    Ok(cx.structure("perf_reset", &json!({"success": format!("perf reset {name}")})))
}

/// All that monitor and manager count, as `perf dump` shows it.
fn dump(cx: &Cx<'_>) -> Value {
    let (mut mon, mut log, mut turns) = (Readings::default(), Readings::default(), Readings::default());
    mon.put_all([("num_sessions", cx.soft.connected.len()), ("election_call", 0), ("election_win", 1)]);
    log.put_all([("entries", cx.state.index), ("snapshot_bytes", cx.env.snapshot_bytes)]);
    let wakes = &cx.env.wakes;
    turns.put_all([
        ("idle_rounds", wakes.idle),
        ("vain_rounds", wakes.vain),
        ("held_rounds", wakes.held),
        ("long_calls", wakes.long),
        ("long_calls_us", wakes.long_us),
    ]);
    let readings = [
        (counters::mon::CLUSTER, cluster(cx)),
        (counters::mon::MON, mon),
        (counters::mon::LOG, log),
        (counters::mon::REACTOR, turns),
    ];
    readings.iter().map(|(section, readings)| (section.name.to_owned(), section.dump(readings))).collect::<Map<_, _>>().into()
}

/// Returns values of section `cluster`.
fn cluster(cx: &Cx<'_>) -> Readings {
    let map = &cx.state.osdmap;
    let (exist, up, inside) = map.osd_counts();
    let space = cx.soft.total_space(cx.state);
    let sum = cx.soft.total();
    let states = cx.soft.pg_states(cx.state);
    let with = |bits: &[PgState]| -> u64 {
        states.iter().filter(|(state, _)| bits.iter().all(|bit| state.has(*bit))).map(|(_, n)| n).sum()
    };
    let mut out = Readings::default();
    out.put_all([("num_mon", 1u64), ("num_mon_quorum", 1)]);
    out.put("num_osd", exist);
    out.put("num_osd_up", up);
    out.put("num_osd_in", inside);
    out.put("osd_epoch", map.epoch);
    out.put("osd_bytes", space.total);
    out.put("osd_bytes_used", space.total.saturating_sub(space.available));
    out.put("osd_bytes_avail", space.available);
    out.put("num_pool", map.pools.len());
    out.put("num_pg", manager::soft::all_pgs(cx.state).count());
    out.put("num_pg_active_clean", with(&[PgState::ACTIVE, PgState::CLEAN]));
    out.put("num_pg_active", with(&[PgState::ACTIVE]));
    out.put("num_pg_peering", with(&[PgState::PEERING]));
    out.put_all([
        ("num_object", sum.num_objects),
        ("num_bytes", sum.num_bytes),
        ("num_object_degraded", sum.num_objects_degraded),
        ("num_object_misplaced", sum.num_objects_misplaced),
        ("num_object_unfound", sum.num_objects_unfound),
    ]);
    out
}

fn no_ops(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(cx.structure("ops", &json!({"ops": [], "num_ops": 0})))
}
