//! Commands that go to a monitor or the manager itself (`ceph tell`, and calls of the own process): a few about the
//! daemon, and all that the cluster understands.

use super::describe::descriptions;
use super::{Command, Cx, Row, mon, row, status, table};
use grammar::{Args, Outcome, Refusal, Reply, refuse};
use monstate::context::commit;
use monstate::effective;
use monstate::options::{self, normalize};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;

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
    row("config diff", "show all options that differ from their defaults", "mon", "r", show),
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
];

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
];

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

/// The descriptions for the admin socket: the monitor's own commands, and all of the cluster's that it has no own one for.
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
    let value = counters(cx);
    Ok(cx.structure("perf", &value))
}

/// Describes each counter as `PERFCOUNTER_U64`: a level.
fn perf_schema(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let mut value = counters(cx);
    for (name, counter) in value.as_object_mut().into_iter().flatten().flat_map(|(_, s)| s.as_object_mut()).flatten() {
        let units = if name.contains("bytes") { "bytes" } else { "none" };
        *counter = json!({
            "type": 2, "metric_type": "gauge", "value_type": "integer", "description": "", "nick": "", "priority": 0, "units": units,
        });
    }
    Ok(cx.structure("perf_schema", &value))
}

/// Does nothing: all counters of a monitor are levels, which have nothing to forget.
fn perf_reset(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("var");
    if name != "all" && counters(cx).get(name).is_none() {
        refuse!(EINVAL, "there is nothing to reset that is called '{name}'");
    }
    Ok(cx.structure("perf_reset", &json!({"success": format!("perf reset {name}")})))
}

fn counters(cx: &Cx<'_>) -> Value {
    let map = &cx.state.osdmap;
    let (exist, up, inside) = map.osd_counts();
    let space = cx.soft.total_space(cx.state);
    let sum = cx.soft.total();
    json!({
        "cluster": {
            "num_mon": 1, "num_mon_quorum": 1, "num_osd": exist, "num_osd_up": up, "num_osd_in": inside, "osd_epoch": map.epoch,
            "osd_bytes": space.total, "osd_bytes_used": space.total.saturating_sub(space.available), "osd_bytes_avail": space.available,
            "num_pool": map.pools.len(), "num_pg": manager::soft::all_pgs(cx.state).count(), "num_object": sum.num_objects, "num_bytes": sum.num_bytes,
        },
        "mon": {"num_sessions": cx.soft.connected.len(), "election_call": 0, "election_win": 1},
        "log": {"entries": cx.state.index, "snapshot_bytes": cx.env.snapshot_bytes},
        "reactor": {
            "idle_rounds": cx.env.wakes.idle, "vain_rounds": cx.env.wakes.vain, "held_rounds": cx.env.wakes.held,
            "long_calls": cx.env.wakes.long, "long_calls_us": cx.env.wakes.long_us,
        },
    })
}

fn no_ops(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    Ok(cx.structure("ops", &json!({"ops": [], "num_ops": 0})))
}
