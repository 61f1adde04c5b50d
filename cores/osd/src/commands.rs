//! Commands to an OSD: `ceph tell osd.N ...`, `ceph pg N query`, and the process's own admin calls.

use crate::Osd;
use crate::bench::{Asker, Bench, Limits};
use crate::config::{OPTIONS, OptionRow};
use crate::memory::TARGET;
use crate::ops::Op;
use crate::perf;
use crate::{mempools, refused};
use counters::Readings;
use grammar::{Args, Format, Signature, Wrong, pretty};
use msgr::auth::Revoked;
use node::Now;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;
use types::{Errno, SpgId, UTime};

/// An answer of a command's handler.
pub(crate) struct Answer {
    result: i32,
    /// A sentence for people.
    status: String,
    output: Output,
}

/// Output of a command.
enum Output {
    Text(String),
    /// Laid out in the format that was asked for.
    Structure(Value),
}

/// An answer as it is sent.
pub(crate) struct Told {
    /// 0, or a negative error number.
    pub(crate) result: i32,
    /// A sentence for people.
    pub(crate) status: String,
    /// Text for standard output.
    pub(crate) output: String,
}

impl Answer {
    pub(crate) fn json(value: Value) -> Self {
        Self { result: 0, status: String::new(), output: Output::Structure(value) }
    }

    fn text(output: impl Into<String>) -> Self {
        Self { result: 0, status: String::new(), output: Output::Text(output.into()) }
    }

    /// A sentence for people, and no output.
    pub(crate) fn said(status: impl Into<String>) -> Self {
        Self { status: status.into(), ..Self::text("") }
    }

    pub(crate) fn error(errno: Errno, status: impl Into<String>) -> Self {
        Self { result: errno.wire(), status: status.into(), ..Self::text("") }
    }

    /// Lays the output out in the format that was asked for; a single value, as text, is the same in each.
    fn in_format(self, format: Format, prefix: &str) -> Told {
        let output = match self.output {
            Output::Text(text) => text,
            Output::Structure(value @ (Value::Object(_) | Value::Array(_))) => format.render(&prefix.replace(' ', "_"), &value),
            Output::Structure(value) => pretty(&value) + "\n",
        };
        Told { result: self.result, status: self.status, output }
    }
}

/// Without a format: indented JSON.
impl From<Answer> for Told {
    fn from(answer: Answer) -> Self {
        answer.in_format(Format::Plain, "")
    }
}

type Handler = fn(&mut Osd, Now, &Args) -> Answer;

struct Row {
    /// Words and arguments, in the notation of [`Signature::parse`].
    signature: &'static str,
    help: &'static str,
    handler: Handler,
}

const ROWS: &[Row] = &[
    Row { signature: "version", help: "release that this OSD presents itself as", handler: version },
    Row { signature: "status", help: "state of this OSD", handler: status },
    Row { signature: "git_version", help: "version of the program", handler: git_version },
    Row { signature: "help", help: "list the commands", handler: help },
    Row {
        signature: "perf dump <logger:String req=false> <counter:String req=false>",
        help: "counters, latencies, and where the time of operations goes",
        handler: perf_dump,
    },
    Row {
        signature: "perf schema <logger:String req=false> <counter:String req=false>",
        help: "what the counters of `perf dump` are",
        handler: perf_schema,
    },
    Row {
        signature: "perfcounters_dump <logger:String req=false> <counter:String req=false>",
        help: "`perf dump`, as older tools ask for it",
        handler: perf_dump,
    },
    Row {
        signature: "perfcounters_schema <logger:String req=false> <counter:String req=false>",
        help: "`perf schema`, as older tools ask for it",
        handler: perf_schema,
    },
    Row {
        signature: "perf histogram schema",
        help: "what the distributions of `perf histogram dump` are",
        handler: histogram_schema,
    },
    Row {
        signature: "counter dump",
        help: "`perf dump` with labels, as exporters of release 18.2 ask for it",
        handler: counter_dump,
    },
    Row {
        signature: "counter schema",
        help: "`perf schema` with labels, as exporters of release 18.2 ask for it",
        handler: counter_schema,
    },
    Row { signature: "perf histogram dump", help: "distributions of latencies and of their stages", handler: perf_histogram },
    Row { signature: "dump_store", help: "all that the store counts, with its distributions", handler: dump_store },
    Row { signature: "perf reset <var:String>", help: "count from zero again: all, osd or stages", handler: perf_reset },
    Row {
        signature: "log flush",
        help: "write what the log keeps back (nothing: lines are written at once)",
        handler: |_, _, _| Answer::json(json!({})),
    },
    Row {
        signature: "log dump",
        help: "write the last lines of the log (none are kept: they are written at once)",
        handler: |_, _, _| Answer::json(json!({})),
    },
    Row {
        signature: "cluster_log <level:Choices strings=error> <message:String n=N>",
        help: "write a line to the cluster's log",
        handler: cluster_log,
    },
    Row { signature: "config get <var:String>", help: "value of an option", handler: config_get },
    Row { signature: "config show", help: "all options and their values", handler: config_show },
    Row { signature: "config diff", help: "options that differ from their defaults", handler: config_diff },
    Row { signature: "config diff get <var:String>", help: "the same for one option", handler: config_diff_get },
    Row {
        signature: "config set <var:String> <val:String n=N>",
        help: "set an option until the next restart",
        handler: config_set,
    },
    Row { signature: "config unset <var:String>", help: "undo `config set`", handler: config_unset },
    Row {
        signature: "injectargs <injected_args:String n=N>",
        help: "set options until the next restart, in the form --name=value, --name value, --flag or --no-flag",
        handler: inject,
    },
    Row { signature: "config help <var:String req=false>", help: "what options mean", handler: config_help },
    Row { signature: "dump_ops_in_flight", help: "operations that are not answered yet", handler: ops_in_flight },
    Row { signature: "ops", help: "operations that are not answered yet", handler: ops_in_flight },
    Row { signature: "dump_blocked_ops", help: "operations older than osd_op_complaint_time", handler: blocked_ops },
    Row {
        signature: "dump_historic_ops",
        help: "the slowest operations of the last ten minutes, with their stages",
        handler: |osd, now, _| Answer::json(osd.ops.history.json(now, osd.options.history, false)),
    },
    Row {
        signature: "dump_historic_ops_by_duration",
        help: "the same, slowest first",
        handler: |osd, now, _| Answer::json(osd.ops.history.json(now, osd.options.history, true)),
    },
    Row {
        signature: "dump_historic_slow_ops",
        help: "the latest operations that took osd_op_complaint_time or longer",
        handler: |osd, now, _| Answer::json(osd.ops.history.slow_json(now, osd.options.history, osd.options.complaint)),
    },
    Row { signature: "dump_blocklist", help: "clients that are shut out, and until when", handler: dump_blocklist },
    Row {
        signature: "dump_osd_network <value:Int req=false>",
        help: "round-trip times of heartbeats to other OSDs that took at least so many milliseconds",
        handler: dump_osd_network,
    },
    Row { signature: "dump_watchers", help: "number of watches of each placement group", handler: dump_watchers },
    Row { signature: "list_devices", help: "the disk below this OSD", handler: list_devices },
    Row {
        signature: "smart <devid:String req=false>",
        help: "what the disk tells of its health (nothing is collected)",
        handler: |_, _, _| Answer::json(json!({})),
    },
    Row { signature: "dump_mempools", help: "what is held in memory, by Ceph's names", handler: dump_mempools },
    Row { signature: "dump_objectstore_kv_stats", help: "what the store's index counted", handler: dump_index },
    Row { signature: "get_mapped_pools", help: "numbers of the pools that this OSD holds groups of", handler: get_mapped_pools },
    Row {
        signature: "flush_journal",
        help: "begin to write what is in the journal only to its place; what was acknowledged is safe before",
        handler: |osd, _, _| {
            osd.store.compact();
            Answer::text("")
        },
    },
    Row { signature: "flush_store_cache", help: "`cache drop`, as older tools ask for it", handler: cache_drop },
    Row {
        signature: "send_beacon",
        help: "report to the monitor now",
        handler: |osd, _, _| {
            osd.reporter.hurry();
            Answer::text("")
        },
    },
    Row { signature: "flush_pg_stats", help: "report statistics to the monitor now", handler: flush_pg_stats },
    Row {
        signature: "count images",
        help: "report reads and writes by block image to the manager for a minute; it asks for this itself",
        handler: count_images,
    },
    Row {
        signature: "end sessions <entities:String>",
        help: "end sessions whose rights have ended; the monitors ask for this themselves",
        handler: end_sessions,
    },
    Row {
        signature: "cache drop",
        help: "forget what is cached, so that the next reads come from the disk",
        handler: cache_drop,
    },
    Row {
        signature: "compact",
        help: "begin to write what changed since the last checkpoint into the index on disk",
        handler: compact,
    },
    Row { signature: "cache status", help: "bytes that are cached", handler: cache_status },
    Row { signature: "get_latest_osdmap", help: "ask the monitor for newer maps", handler: get_latest_osdmap },
    Row {
        signature: "newest_osdmap",
        help: "the newest OSD map that this OSD has, in hexadecimal; `nacre mon rebuild` makes a monitor of it",
        handler: newest_osdmap,
    },
    Row { signature: "pg <pgid:Pgid> <cmd:Choices strings=query>", help: "state of a placement group", handler: pg_query },
    // `ceph tell PGID ...` adds the group itself, after it read the other arguments by this table.
    Row { signature: "query <pgid:Pgid req=false>", help: "state of a placement group", handler: pg_query },
    Row {
        signature: "pg <pgid:Pgid> <cmd:Choices strings=list_unfound> <offset:String req=false>",
        help: "objects of a placement group that no OSD has, from one on",
        handler: crate::unfound::list,
    },
    Row {
        signature: "list_unfound <offset:String req=false> <pgid:Pgid req=false>",
        help: "objects of a placement group that no OSD has, from one on",
        handler: crate::unfound::list,
    },
    Row {
        signature: "pg <pgid:Pgid> <cmd:Choices strings=mark_unfound_lost> <mulcmd:Choices strings=revert|delete>",
        help: "give up objects that no OSD has: let an older version count again, or remove them",
        handler: crate::unfound::mark_lost,
    },
    Row {
        signature: "mark_unfound_lost <mulcmd:Choices strings=revert|delete> <pgid:Pgid req=false>",
        help: "give up objects that no OSD has: let an older version count again, or remove them",
        handler: crate::unfound::mark_lost,
    },
    Row {
        signature: "pg <pgid:Pgid> <cmd:Choices strings=scrub|deep_scrub|deep-scrub|repair>",
        help: "scrub a placement group, or repair it",
        handler: pg_scrub,
    },
    Row { signature: "dump_scrubs", help: "when the groups that this OSD leads are scrubbed next", handler: dump_scrubs },
    Row {
        signature: "dump_scrub_reservations",
        help: "how many groups that this OSD leads are scrubbed now, and how many may be",
        handler: dump_scrub_reservations,
    },
    Row {
        signature: "dump_recovery_reservations",
        help: "which groups have slots for recovery of this OSD, and which wait",
        handler: dump_recovery_reservations,
    },
    Row {
        signature: "scrub <pgid:Pgid req=false>",
        help: "compare and verify objects' metadata, of one group or of all",
        handler: scrub,
    },
    Row {
        signature: "deep_scrub <pgid:Pgid req=false>",
        help: "read and verify all data, of one group or of all",
        handler: deep_scrub,
    },
    Row {
        signature: "repair <pgid:Pgid req=false>",
        help: "read and verify all data, and take from other copies what cannot be read",
        handler: repair,
    },
    Row {
        signature: "force-recovery <pgid:Pgid>",
        help: "recover a group before others",
        handler: |osd, now, args| force(osd, now, args, false, true),
    },
    Row {
        signature: "force-backfill <pgid:Pgid>",
        help: "backfill a group before others",
        handler: |osd, now, args| force(osd, now, args, true, true),
    },
    Row {
        signature: "cancel-force-recovery <pgid:Pgid>",
        help: "recover a group in its turn",
        handler: |osd, now, args| force(osd, now, args, false, false),
    },
    Row {
        signature: "cancel-force-backfill <pgid:Pgid>",
        help: "backfill a group in its turn",
        handler: |osd, now, args| force(osd, now, args, true, false),
    },
    Row {
        signature: "bench <count:Int req=false> <size:Int req=false> <object_size:Int req=false> <object_num:Int req=false>",
        help: "write count bytes in writes of size to the store, and tell how long it took (1 GiB in writes of 4 MiB by default)",
        handler: |_, _, _| Answer::error(Errno::EINVAL, "bench runs only as a command from a client"),
    },
];

/// Way of a command.
pub(crate) enum Dispatch {
    /// Answer now.
    Now(Told),
    /// A bench: the answer comes when it ends.
    Bench(Bench),
}

impl Dispatch {
    fn now(answer: Answer) -> Self {
        Dispatch::Now(answer.into())
    }
}

/// Runs a command given as JSON text. `asker` is who wants the answer, if it can come later.
pub(crate) fn run(osd: &mut Osd, now: Now, json: &str, asker: Option<Asker>) -> Dispatch {
    let Ok(Value::Object(given)) = serde_json::from_str::<Value>(json) else {
        return Dispatch::now(Answer::error(Errno::EINVAL, "the command is not a JSON object"));
    };
    let prefix = given.get("prefix").and_then(Value::as_str).unwrap_or_default();
    if prefix == "get_command_descriptions" {
        return Dispatch::now(Answer::text(descriptions()));
    }
    let (command, args) = match find_command(prefix, &given) {
        Ok(found) => found,
        Err(Some(Wrong(why))) => return Dispatch::now(Answer::error(Errno::EINVAL, why)),
        Err(None) => {
            return Dispatch::now(Answer::error(Errno::EINVAL, format!("osd.{} has no command '{prefix}'", osd.config.whoami)));
        }
    };
    if let (Some(asker), "bench") = (asker, prefix) {
        return bench(osd, now, &args, asker);
    }
    let format = Format::parse(given.get("format").and_then(Value::as_str).unwrap_or_default());
    Dispatch::Now(match command.run {
        Run::Do(handler) => handler(osd, now, &args).in_format(format, prefix),
        Run::Refuse(why) => Answer::error(Errno::EOPNOTSUPP, format!("'{prefix}' is not supported: {why}")).into(),
    })
}

/// A command by its words, and its arguments. Several rows have the words `pg`: what they do to the group is an
/// argument. The error is that of the row whose words fit best; `None`: no row has these words.
fn find_command(prefix: &str, given: &Map<String, Value>) -> Result<(&'static Command, Args), Option<Wrong>> {
    let mut wrong = None;
    for command in table().iter().filter(|command| command.signature.prefix == prefix) {
        match command.signature.check(given) {
            Ok(args) => return Ok((command, args)),
            Err(why) => {
                let meant = command
                    .signature
                    .params
                    .iter()
                    .any(|p| p.name == "cmd" && p.choices.iter().any(|c| given.get("cmd") == Some(&json!(c))));
                if wrong.is_none() || meant {
                    wrong = Some(why);
                }
            }
        }
    }
    Err(wrong)
}

/// Function that carries a command out.
#[derive(Clone, Copy)]
enum Run {
    Do(Handler),
    /// It is refused, for this reason.
    Refuse(&'static str),
}

/// A command with its signature read.
struct Command {
    signature: Signature,
    help: &'static str,
    run: Run,
}

/// All commands, with those that are refused.
fn table() -> &'static [Command] {
    static TABLE: OnceLock<Vec<Command>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let served = ROWS.iter().map(|row| Command {
            signature: Signature::parse(row.signature),
            help: row.help,
            run: Run::Do(row.handler),
        });
        let refused = refused::ROWS.iter().map(|row| Command {
            signature: Signature::parse(row.signature),
            help: "not part of this OSD; it says why",
            run: Run::Refuse(row.why),
        });
        served.chain(refused).collect()
    })
}

/// All rows in the form that the `ceph` command parses its command line with.
fn descriptions() -> String {
    let mut all = Map::new();
    for (i, command) in table().iter().enumerate() {
        let about =
            json!({ "sig": command.signature.describe(), "help": command.help, "module": "osd", "perm": "rw", "flags": 0 });
        all.insert(format!("cmd{i:03}"), about);
    }
    Value::Object(all).to_string()
}

fn version(_: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(json!({ "version": "16.2.15", "release": "pacific", "release_type": "stable" }))
}

fn status(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(json!({
        "cluster_fsid": osd.config.fsid.to_string(),
        "osd_fsid": types::Fsid(osd.config.uuid).to_string(),
        "whoami": osd.config.whoami,
        "state": osd.phase_name(),
        "newest_map": osd.maps.epoch(),
        "num_pgs": osd.groups.len(),
    }))
}

fn git_version(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(json!({ "git_version": osd.config.metadata.get(types::Levels::COMMIT) }))
}

fn help(_: &mut Osd, _: Now, _: &Args) -> Answer {
    let all: std::collections::BTreeMap<String, Value> =
        table().iter().map(|command| (command.signature.prefix.clone(), json!(command.help))).collect();
    Answer::json(json!(all))
}

/// All that this OSD counts, as `perf dump` shows it.
fn dump(osd: &Osd, now: Now) -> Value {
    let counted = osd.store.counted();
    let mut memory = counted.as_ref().map_or_else(Readings::default, |counted| perf::memory_readings(&counted.memory));
    memory.put("target", osd.memory.in_force);
    let readings = [
        (counters::osd::OSD, osd_readings(osd, now)),
        (counters::osd::STAGES, osd.perf.stage_readings(&osd.ops.sub_ops)),
        (counters::osd::PACE, osd.pace.readings()),
        (counters::osd::REACTOR, turn_readings(osd)),
        (counters::osd::PG, pg_readings(osd)),
        (
            counters::osd::STORE,
            counted.as_ref().map_or_else(Readings::default, |counted| perf::store_readings(&counted.counters)),
        ),
        (counters::osd::MEMORY, memory),
    ];
    readings.iter().map(|(section, readings)| (section.name.to_owned(), section.dump(readings))).collect::<Map<_, _>>().into()
}

/// Returns values of section `osd`.
fn osd_readings(osd: &Osd, now: Now) -> Readings {
    let (map, me, space) = (osd.maps.current(), osd.config.whoami, osd.store.space());
    let groups = osd.groups.len();
    let led = osd.groups.iter().filter(|(id, _)| map.placed(id.pg).acting_primary == me).count();
    let mut out = osd.perf.readings(now.mono, osd.ops.in_progress(), &osd.ops.sub_ops);
    out.put_all([
        ("numpg", groups as u64),
        ("numpg_primary", led as u64),
        ("numpg_replica", (groups - led) as u64),
        ("recovery_ops", osd.pace.objects_begun()),
        ("images_left_out", osd.images.left_out()),
        ("stat_bytes", space.total),
        ("stat_bytes_used", space.total.saturating_sub(space.available)),
        ("stat_bytes_avail", space.available),
    ]);
    out
}

/// Returns values of section `reactor`.
fn turn_readings(osd: &Osd) -> Readings {
    let mut out = Readings::default();
    out.put_all([
        ("idle_rounds", osd.wakes.idle),
        ("vain_rounds", osd.wakes.vain),
        ("held_rounds", osd.wakes.held),
        ("long_calls", osd.wakes.long),
        ("long_calls_us", osd.wakes.long_us),
    ]);
    out
}

/// Returns values of section `pg`.
fn pg_readings(osd: &Osd) -> Readings {
    let log = osd.groups.log_size();
    let (epochs, map_bytes) = osd.maps.held();
    let mut out = Readings::default();
    out.put_all([
        ("pgs", osd.groups.len()),
        ("log_entries", log.entries),
        ("log_dups", log.dups),
        ("log_bytes", log.bytes),
        ("map_epochs", epochs),
        ("map_bytes", map_bytes),
    ]);
    out
}

/// All that the store counts, with words and distributions.
fn dump_store(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(perf::dump_store(osd.store.kind(), osd.store.counted().as_ref()))
}

fn perf_dump(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    let all = dump(osd, now);
    Answer::json(perf::select(all, args.opt("logger"), args.opt("counter")))
}

fn counter_dump(osd: &mut Osd, now: Now, _: &Args) -> Answer {
    Answer::json(grammar::labelled(&dump(osd, now)))
}

fn counter_schema(_: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(grammar::labelled(&counters::schema(counters::osd::SECTIONS)))
}

fn perf_schema(_: &mut Osd, _: Now, args: &Args) -> Answer {
    let schema = counters::schema(counters::osd::SECTIONS);
    Answer::json(perf::select(schema, args.opt("logger"), args.opt("counter")))
}

fn histogram_schema(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(perf::histogram_schema(&osd.perf.histograms(&osd.ops.sub_ops)))
}

fn dump_mempools(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(mempools::describe(osd))
}

/// The counters of the store that are about its index, which is what a database of keys is in Ceph.
fn dump_index(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let mut counters = perf::dump_store(osd.store.kind(), osd.store.counted().as_ref());
    let names = ["commits", "journal_groups", "journal_bytes", "index_bytes", "checkpoints", "page_hits", "page_misses"];
    Answer::json(names.iter().map(|name| ((*name).to_owned(), counters[*name].take())).collect::<Map<_, _>>().into())
}

fn get_mapped_pools(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let pools: BTreeSet<i64> = osd.groups.iter().map(|(id, _)| id.pg.pool).collect();
    Answer::json(json!(pools))
}

fn cluster_log(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    osd.cluster_log(now, pg::ClusterLevel::Error, args.list("message").join(" "));
    Answer::text("")
}

fn perf_histogram(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(osd.perf.histograms(&osd.ops.sub_ops))
}

/// The store's counters belong to the store's life and go on.
fn perf_reset(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    match args.str("var") {
        name @ ("all" | "osd" | "stages") => {
            osd.perf.reset();
            osd.ops.sub_ops.reset();
            Answer::json(json!({ "success": format!("perf reset {name}") }))
        }
        name => Answer::error(Errno::EINVAL, format!("there is nothing to reset that is called '{name}': all, osd or stages")),
    }
}

/// Returns what an option is now: of memory, what is in force rather than what was asked for.
fn value_of(osd: &Osd, name: &str) -> Option<String> {
    if name == TARGET {
        return Some(osd.memory.in_force.to_string());
    }
    osd.options.get(name).map(str::to_owned)
}

fn config_get(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    let name = settings::normalize(args.str("var"));
    match value_of(osd, &name) {
        Some(value) if name == TARGET => Answer::json(json!({ name.as_str(): value, "source": osd.memory.source })),
        Some(value) => Answer::json(json!({ name.as_str(): value })),
        None => Answer::error(Errno::ENOENT, format!("osd.{} has no option '{name}'", osd.config.whoami)),
    }
}

/// Names of all options: those that are heeded here, and those that are only kept.
fn option_names() -> BTreeSet<&'static str> {
    OPTIONS.iter().map(|row| row.name).chain(settings::all().iter().map(|s| s.name)).collect()
}

fn config_show(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let all: Map<String, Value> = option_names().iter().map(|name| ((*name).to_owned(), json!(value_of(osd, name)))).collect();
    Answer::json(Value::Object(all))
}

/// Returns where the value of an option comes from, if it is not the default.
fn sources(osd: &Osd, name: &str) -> Option<Value> {
    let (value, default) = (value_of(osd, name)?, crate::config::default_of(name)?);
    let (mon, own) = (osd.central_options.get(name), osd.local_options.get(name));
    let mut told = json!({ "default": default });
    for (source, given) in [("mon", mon), ("override", own)] {
        if let Some(given) = given {
            told[source] = json!(given);
        }
    }
    told["final"] = json!(value);
    (value != default || mon.is_some() || own.is_some()).then_some(told)
}

fn config_diff(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let changed = option_names().into_iter().filter_map(|name| Some((name.to_owned(), sources(osd, name)?)));
    Answer::json(json!({ "diff": changed.collect::<Map<String, Value>>() }))
}

fn config_diff_get(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    let name = settings::normalize(args.str("var"));
    if value_of(osd, &name).is_none() {
        return Answer::error(Errno::ENOENT, format!("osd.{} has no option '{name}'", osd.config.whoami));
    }
    let told: Map<String, Value> = sources(osd, &name).map(|told| (name, told)).into_iter().collect();
    Answer::json(json!({ "diff": told }))
}

fn config_set(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    let name = settings::normalize(args.str("var"));
    match set_option(osd, &name, args.list("val").join(" ")) {
        Ok(said) => Answer::json(json!({ "success": said })),
        Err(refusal) => refusal,
    }
}

/// The form in which a value is kept, or why it is refused. What is heeded here is checked when it is applied.
fn kept_form(osd: &Osd, name: &str, value: String) -> Result<String, Answer> {
    let heeded = OPTIONS.iter().any(|row| row.name == name);
    let refused = |w: settings::Wrong| Answer::error(w.errno, format!("error setting '{name}' to '{value}': {}", w.why));
    match settings::find(name) {
        Some(s) if !heeded || s.kind == settings::Kind::Level => s.check(&value).map_err(refused),
        Some(s) => s.bound(value.trim()).map_err(refused).map(|()| value.clone()),
        None if !heeded => Err(Answer::error(Errno::ENOENT, format!("osd.{} has no option '{name}'", osd.config.whoami))),
        _ => Ok(value),
    }
}

/// Sets an option until the next restart; what it is now, in words (nothing for one that is only kept), or why not.
fn set_option(osd: &mut Osd, name: &str, value: String) -> Result<String, Answer> {
    let value = kept_form(osd, name, value)?;
    let before = osd.local_options.insert(name.to_owned(), value);
    if osd.apply_options().iter().any(|bad| bad == name) {
        match before {
            Some(before) => osd.local_options.insert(name.to_owned(), before),
            None => osd.local_options.remove(name),
        };
        osd.apply_options();
        return Err(Answer::error(Errno::EINVAL, format!("the value does not fit option '{name}'")));
    }
    osd.reporter.hurry();
    let heeded = OPTIONS.iter().any(|row| row.name == name);
    Ok(if heeded { format!("{name} = '{}' ", osd.options.get(name).unwrap_or_default()) } else { String::new() })
}

/// Sets all that is given, or nothing: what was set before an option that is refused is taken back.
fn inject(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    let given = args.list("injected_args").iter().flat_map(|words| words.split_whitespace());
    let pairs = match settings::injected(given) {
        Ok(pairs) if !pairs.is_empty() => pairs,
        Ok(_) => return Answer::error(Errno::EINVAL, "there is nothing to set: --name=value is wanted"),
        Err(why) => return Answer::error(Errno::EINVAL, why),
    };
    let before = osd.local_options.clone();
    let mut said = String::new();
    for (name, value) in pairs {
        match set_option(osd, &name, value.clone()) {
            Ok(text) => said += &text,
            Err(mut refusal) => {
                osd.local_options = before;
                osd.apply_options();
                refusal.status = format!("Parse error setting {name} to '{value}' using injectargs.\n{}", refusal.status);
                return refusal;
            }
        }
    }
    Answer::json(json!({ "success": said }))
}

fn config_unset(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    let name = settings::normalize(args.str("var"));
    if osd.options.get(&name).is_none() {
        return Answer::error(Errno::EINVAL, format!("osd.{} has no option '{name}'", osd.config.whoami));
    }
    if osd.local_options.remove(&name).is_some() {
        osd.apply_options();
        osd.reporter.hurry();
    }
    Answer::json(json!({ "success": "" }))
}

fn config_help(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    let row = |row: &OptionRow| json!({ "name": row.name, "default": row.default, "desc": row.about });
    let Some(name) = args.opt("var").map(settings::normalize) else {
        return Answer::json(OPTIONS.iter().map(row).collect());
    };
    let kept =
        |s: &settings::Setting| json!({ "name": s.name, "type": s.kind.name(), "default": s.default, "desc": "not heeded here" });
    let told = OPTIONS.iter().find(|row| row.name == name).map(row).or_else(|| settings::find(&name).map(kept));
    match told {
        Some(told) => Answer::json(told),
        None => Answer::error(Errno::ENOENT, format!("osd.{} has no option '{name}'", osd.config.whoami)),
    }
}

/// Operations that are not answered and older than that, oldest first.
fn in_flight(osd: &Osd, now: Now, older: Duration) -> Vec<Value> {
    let mut ops: Vec<&Op> = osd.ops.under_way().filter(|op| now.mono.since(op.received) >= older).collect();
    ops.sort_by_key(|op| op.received);
    ops.into_iter().map(|op| op.json(now)).collect()
}

fn ops_in_flight(osd: &mut Osd, now: Now, _: &Args) -> Answer {
    let ops = in_flight(osd, now, Duration::ZERO);
    Answer::json(json!({ "ops": ops, "num_ops": ops.len() }))
}

fn blocked_ops(osd: &mut Osd, now: Now, _: &Args) -> Answer {
    let complaint = osd.options.complaint;
    let ops = in_flight(osd, now, complaint);
    Answer::json(json!({ "ops": ops, "complaint_time": complaint.as_secs_f64(), "num_blocked_ops": ops.len() }))
}

fn dump_blocklist(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let map = osd.maps.current();
    let entries: Vec<Value> = map
        .blocklist
        .iter()
        .chain(&map.range_blocklist)
        .map(|(addr, until)| json!({ "addr": addr.legacy_str(), "until": until.iso() }))
        .collect();
    Answer::json(json!(entries))
}

fn dump_osd_network(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    let threshold = args.int("value").unwrap_or_else(|| osd.options.slow_ping());
    Answer::json(osd.beats.describe(now, osd.config.whoami, threshold.max(0)))
}

fn dump_watchers(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let counts: Vec<Value> = osd
        .groups
        .iter()
        .map(|(id, pg)| (id, pg.query().watches))
        .filter(|(_, watches)| *watches > 0)
        .map(|(id, watches)| json!({ "pg": id.to_string(), "watches": watches }))
        .collect();
    Answer::json(json!(counts))
}

fn list_devices(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let device = osd.config.metadata.get("backing").cloned().unwrap_or_default();
    Answer::json(json!([{ "device": device }]))
}

/// Takes the whole list of those whose rights have ended: entity, when (nanoseconds since 1970), rights now.
fn end_sessions(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    let Ok(Value::Array(list)) = serde_json::from_str(args.str("entities")) else {
        return Answer::error(Errno::EINVAL, "the entities are not a list");
    };
    let one = |entry: &Value| {
        let name = entry["entity"].as_str()?.parse().ok()?;
        let before = UTime::from_nanos(entry["before"].as_u64()?);
        Some((name, Revoked { before, caps: entry["caps"].as_str().map(str::to_owned) }))
    };
    match list.iter().map(one).collect() {
        Some(revoked) => Answer::said(format!("{} sessions ended", osd.take_revoked(revoked))),
        None => Answer::error(Errno::EINVAL, "an entity of the list is not understood"),
    }
}

fn count_images(osd: &mut Osd, now: Now, _: &Args) -> Answer {
    osd.images.want(now.mono);
    Answer::json(json!({}))
}

fn cache_drop(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    osd.store.drop_caches();
    Answer::text(String::new())
}

fn compact(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let said = if osd.store.compact() { "a checkpoint begins" } else { "nothing changed since the last checkpoint" };
    Answer::json(json!({ "success": said }))
}

fn cache_status(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(json!({ "object_store": osd.store.cached() }))
}

fn flush_pg_stats(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    osd.reporter.restart();
    Answer::text(format!("{}\n", osd.maps.epoch()))
}

fn get_latest_osdmap(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    osd.mon.subscribe(&mut osd.msgr);
    Answer::text("")
}

fn newest_osdmap(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    match osd.maps.epoch() {
        0 => Answer::error(Errno::EAGAIN, "this OSD has no OSD map yet"),
        epoch => {
            let full: String = osd.maps.newest().iter().map(|byte| format!("{byte:02x}")).collect();
            Answer::json(json!({ "epoch": epoch, "full": full }))
        }
    }
}

pub(crate) fn find_pg(osd: &Osd, args: &Args) -> Result<SpgId, Answer> {
    let Some(name) = args.opt("pgid") else { return Err(Answer::error(Errno::EINVAL, "no pgid specified")) };
    let id: SpgId = name.parse().map_err(|_| Answer::error(Errno::EINVAL, format!("'{name}' is not a placement group")))?;
    let Some(id) = held(osd, id) else {
        return Err(Answer::error(Errno::ENOENT, format!("osd.{} does not hold pg {id}", osd.config.whoami)));
    };
    Ok(id)
}

/// Returns the group that an id means.
fn held(osd: &Osd, id: SpgId) -> Option<SpgId> {
    let map = osd.maps.current();
    let led = SpgId { shard: map.leading_shard(id.pg), ..id };
    let leads = map.placed(id.pg).acting_primary == osd.config.whoami;
    meant(id, Some(led).filter(|_| leads), osd.groups.ids_from(id))
}

/// Returns which of the groups `here` an id means: itself, and if it names no shard of a group that has shards, the one
/// that is led here (`led`), or the lowest. They are in order, from that id on.
fn meant(id: SpgId, led: Option<SpgId>, here: impl Iterator<Item = SpgId>) -> Option<SpgId> {
    let mut of_group = here.take_while(|group| group.pg == id.pg);
    let first = of_group.next()?;
    if first == id || !id.shard.is_none() {
        return Some(first).filter(|group| *group == id);
    }
    Some(of_group.find(|group| Some(*group) == led).unwrap_or(first))
}

fn pg_query(osd: &mut Osd, _: Now, args: &Args) -> Answer {
    match find_pg(osd, args) {
        Ok(id) => Answer::json(crate::query::describe(osd, id)),
        Err(answer) => answer,
    }
}

/// Calls the group that the command names, or all groups. Gives how many.
fn on_groups(osd: &mut Osd, now: Now, args: &Args, f: impl Fn(&mut pg::Pg, &mut pg::Ctx<'_>)) -> Result<usize, Answer> {
    let ids = match args.opt("pgid") {
        None => osd.groups.ids(),
        Some(_) => vec![find_pg(osd, args)?],
    };
    ids.iter().for_each(|id| osd.call_group(now, *id, &f));
    Ok(ids.len())
}

fn told(groups: Result<usize, Answer>, what: &str) -> Answer {
    groups.map_or_else(|answer| answer, |n| Answer::text(format!("{what} {n} placement groups\n")))
}

/// Returns why the group that the command names cannot be scrubbed, if it cannot.
fn why_no_scrub(osd: &Osd, args: &Args) -> Option<Answer> {
    args.opt("pgid")?;
    let id = find_pg(osd, args).ok()?;
    let group = osd.groups.find(&id).and_then(|slot| osd.groups.get(slot))?;
    group.why_no_scrub().map(|why| Answer::error(Errno::EOPNOTSUPP, format!("pg {id}: {why}")))
}

fn scrub(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    if let Some(refusal) = why_no_scrub(osd, args) {
        return refusal;
    }
    told(on_groups(osd, now, args, |pg, ctx| pg.start_scrub(ctx, false)), "scrubbing")
}

fn deep_scrub(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    if let Some(refusal) = why_no_scrub(osd, args) {
        return refusal;
    }
    told(on_groups(osd, now, args, |pg, ctx| pg.start_scrub(ctx, true)), "scrubbing")
}

fn repair(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    if let Some(refusal) = why_no_scrub(osd, args) {
        return refusal;
    }
    told(on_groups(osd, now, args, pg::Pg::start_repair), "repairing")
}

fn pg_scrub(osd: &mut Osd, now: Now, args: &Args) -> Answer {
    match args.str("cmd") {
        "scrub" => scrub(osd, now, args),
        "repair" => repair(osd, now, args),
        _ => deep_scrub(osd, now, args),
    }
}

fn dump_scrubs(osd: &mut Osd, now: Now, _: &Args) -> Answer {
    Answer::json(osd.planned_scrubs(now))
}

fn dump_scrub_reservations(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    let busy = osd.groups.iter().filter(|(_, pg)| pg.scrub_state().is_some_and(|state| state.busy)).count();
    Answer::json(json!({ "scrubs_local": busy, "osd_max_scrubs": osd.options.scrubs.most }))
}

fn dump_recovery_reservations(osd: &mut Osd, _: Now, _: &Args) -> Answer {
    Answer::json(osd.slots.json(&osd.groups, osd.options.max_backfills))
}

/// Lets groups recover or backfill before others, or in their turn again.
fn force(osd: &mut Osd, now: Now, args: &Args, backfill: bool, first: bool) -> Answer {
    told(on_groups(osd, now, args, |pg, ctx| pg.force(ctx, backfill, first)), "told")
}

fn bench(osd: &Osd, now: Now, args: &Args, asker: Asker) -> Dispatch {
    let number = |name, default| args.int(name).and_then(|n| u64::try_from(n).ok()).unwrap_or(default);
    let (total, size) = (number("count", 1 << 30), number("size", 4 << 20));
    let option = |name| osd.options.get(name).and_then(|text| text.parse().ok()).unwrap_or_default();
    let limits = Limits {
        block: option("osd_bench_max_block_size"),
        seconds: option("osd_bench_duration"),
        small_iops: option("osd_bench_small_size_max_iops"),
        large_rate: option("osd_bench_large_size_max_throughput"),
    };
    match Bench::new(asker, now, limits, (total, size), (number("object_size", 0), number("object_num", 0))) {
        Ok(bench) => Dispatch::Bench(bench),
        Err(why) => Dispatch::now(Answer::error(Errno::EINVAL, why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_come_in_the_format_that_was_asked_for() {
        let told = |format| Answer::json(json!({ "a": 1 })).in_format(Format::parse(format), "perf dump").output;
        assert_eq!(told(""), told("json-pretty"));
        assert_eq!((told("json"), told("xml")), ("{\"a\":1}".to_owned(), "<perf_dump><a>1</a></perf_dump>".to_owned()));
        assert_eq!(Answer::text("16").in_format(Format::Xml, "x").output, "16", "text stays as it is");
    }

    #[test]
    fn an_id_without_a_shard_means_the_one_that_is_led() {
        let id = |text: &str| text.parse::<SpgId>().expect("an id");
        let here = std::collections::BTreeSet::from(["1.0", "1.1s0", "1.1s2", "1.1s4", "1.2s3"].map(id));
        let meant = |text: &str, led: Option<&str>| super::meant(id(text), led.map(id), here.range(id(text)..).copied());
        assert_eq!(meant("1.0", Some("1.0")), Some(id("1.0")));
        assert_eq!(meant("1.1", Some("1.1s2")), Some(id("1.1s2")));
        assert_eq!(meant("1.1", Some("1.1s0")), Some(id("1.1s0")));
        // None is led here, or the one that is to be is not here yet.
        assert_eq!((meant("1.1", None), meant("1.1", Some("1.1s3"))), (Some(id("1.1s0")), Some(id("1.1s0"))));
        assert_eq!(meant("1.1s4", Some("1.1s0")), Some(id("1.1s4")), "a shard that is named is that one");
        assert_eq!((meant("1.1s1", Some("1.1s0")), meant("1.3", None), meant("1.2s4", None)), (None, None, None));
    }

    #[test]
    fn every_row_describes_itself_in_the_form_that_clients_parse() {
        let Value::Object(all) = serde_json::from_str(&descriptions()).unwrap() else { panic!("an object") };
        assert_eq!(all.len(), ROWS.len() + refused::ROWS.len());
        for (command, described) in table().iter().zip(all.values()) {
            assert!(!command.help.is_empty() && described["sig"].is_array(), "{}", command.signature.prefix);
        }
        let served: BTreeSet<String> = ROWS.iter().map(|row| Signature::parse(row.signature).prefix).collect();
        let both = refused::ROWS.iter().filter(|row| served.contains(&Signature::parse(row.signature).prefix));
        assert_eq!(both.count(), 0, "a command is served or refused");
        let sig = |words: &str| {
            table().iter().find(|command| command.signature.prefix == words).map(|command| command.signature.describe()).unwrap()
        };
        assert_eq!(sig("bench")[1], json!({ "name": "count", "type": "CephInt", "req": false }));
        assert_eq!(sig("config set")[3], json!({ "name": "val", "type": "CephString", "n": "N" }));
        assert_eq!(sig("pg")[2]["strings"], json!("query"));
    }
}
