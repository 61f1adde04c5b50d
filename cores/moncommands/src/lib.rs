//! Commands: what users can ask of the monitor and the manager.
//!
//! Each command is one row of a table: signature, help, module and permission (for capabilities), handler. Each family
//! of commands has a file. [`parse`], and the descriptions that clients download, see all rows together.
//!
//! A handler reads the state, and replies or refuses. It adds its changes to its [`Cx`]. When it does not refuse, the
//! changes become one proposal, and the reply is given when that is durable. A handler knows no sessions and no log: who
//! calls it does ([`Parsed::run`]).

#![forbid(unsafe_code)]

mod absent;
mod auth;
mod autoscale;
mod balancer;
mod config;
mod crash;
mod crush;
mod crush_rules;
mod describe;
mod df;
mod erasure;
mod force;
mod health;
mod hosts;
mod join;
mod level;
mod log;
mod marks;
mod mgr;
mod mon;
mod mon_admin;
mod orch;
mod orch_hosts;
mod osd;
mod osd_admin;
mod osd_df;
mod osd_dump;
mod osd_secrets;
mod osd_spare;
mod osd_state;
mod pg;
mod pg_dump;
mod picture;
mod pool;
mod pool_set;
mod rbd;
mod refused;
mod report;
mod shared;
mod status;
mod tell;
mod tier;

pub use describe::reference;
pub use join::ended as ended_tokens;
pub use level::raised as level_raised;
pub use mon::ping;
pub use rbd::place_of_images;
pub use tell::{mgr_table, mon_table, socket_descriptions};

use bytes::Bytes;
use grammar::{Args, Asker, Format, Outcome, Refusal, Reply, Signature, refuse};
use manager::balancer::{Plan, Round};
use manager::desk::Order;
use manager::duties::Duties;
use manager::figures::Spec;
use manager::soft::Soft;
use maps::Incremental;
use messages::mon::LogEntry;
use monstate::context::Env;
use monstate::state::{Change, State};
use node::Now;
use serde_json::Value;
use std::sync::OnceLock;
use types::{Errno, OsdId};

/// Surroundings of a handler.
pub struct Cx<'a> {
    /// The cluster's state, with all proposals applied that were made before.
    pub state: &'a State,
    /// Reports of daemons.
    pub soft: &'a Soft,
    /// Memory of the manager.
    pub duties: &'a Duties,
    /// This monitor.
    pub env: &'a Env,
    /// The time.
    pub now: Now,
    /// 16 unpredictable bytes for a new key; new for every command.
    pub chance: [u8; 16],
    /// The format of the answer.
    pub format: Format,
    /// The bytes of the input file.
    pub input: Bytes,
    /// The one who asks.
    pub asker: &'a Asker,
    /// The changes that the command makes.
    pub changes: Vec<Change>,
    /// The changes that the command makes in the OSD map.
    pub osdmap: Option<Incremental>,
    /// Lines for the cluster log in the monitor's name: level and text.
    pub log: Vec<(u16, String)>,
    /// Orders for OSDs, to be sent when the changes are durable.
    pub instruct: Vec<(OsdId, Value)>,
    /// Lines for the cluster log in the asker's own name.
    pub entries: Vec<LogEntry>,
    /// Requests of the command to the manager.
    pub asks: Vec<Ask>,
}

/// Request of a command to the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Somebody looks at the figures of these images.
    Look(Spec),
    /// Somebody sees the figures of all images.
    See,
    /// Forgets what was in progress.
    ForgetProgress,
    /// Another monitor shall lead.
    HandOver,
    /// The balancer made a round for somebody.
    NoteRound(Round),
    /// Somebody made a plan.
    KeepPlan(String, Plan),
    /// A plan is not wanted any more.
    DropPlan(String),
}

impl Cx<'_> {
    /// Gives the next increment of the OSD map, for the handler to fill.
    pub(crate) fn inc(&mut self) -> &mut Incremental {
        let map = &self.state.osdmap;
        self.osdmap.get_or_insert_with(|| Incremental::new(map.epoch + 1, map.fsid, self.now.wall))
    }

    /// Makes a reply of a structure in the format that was asked for, or of this text.
    pub(crate) fn show(&self, root: &str, value: Value, text: impl FnOnce() -> String) -> Reply {
        if self.format.is_structured() { self.structure(root, &value) } else { Reply::data(grammar::printable(&text())) }
    }

    /// Makes a reply of a structure in the format that was asked for; indented JSON if none was.
    pub(crate) fn structure(&self, root: &str, value: &Value) -> Reply {
        Reply::data(self.format.render(root, value))
    }

    /// Says whether the command changes anything durable.
    pub fn writes(&self) -> bool {
        !self.changes.is_empty() || self.osdmap.is_some() || !self.entries.is_empty()
    }

    /// Gives an existing OSD that an argument names, or refuses.
    pub(crate) fn existing_osd(&self, args: &Args, name: &str) -> Result<OsdId, Refusal> {
        let osd = args.osd(name)?;
        if !self.state.osdmap.exists(osd) {
            refuse!(ENOENT, "osd.{osd} does not exist");
        }
        Ok(osd)
    }

    /// Gives an existing pool that an argument names, or refuses.
    pub(crate) fn existing_pool(&self, args: &Args, name: &str) -> Result<types::PoolId, Refusal> {
        let pool = args.str(name);
        match self.state.pool_id(pool) {
            Some(id) => Ok(id),
            None => refuse!(ENOENT, "unrecognized pool '{pool}'"),
        }
    }
}

/// Function that carries a command out.
#[derive(Clone, Copy)]
pub enum Run {
    /// A handler.
    Do(fn(&mut Cx<'_>, &Args) -> Outcome),
    /// An order to the manager. Its end is the answer.
    Order(fn(&Args) -> Order),
    /// Nothing: the command is known, and the sentence says why it is refused.
    Refuse(&'static str),
    /// Nothing: the command is one of a module of Ceph that is not part of this manager.
    Absent(&'static str),
}

/// One command.
pub struct Row {
    /// Its words and arguments, in the notation of [`Signature::parse`].
    pub sig: &'static str,
    /// Its purpose, in one line.
    pub help: &'static str,
    /// Its module, for capabilities.
    pub module: &'static str,
    /// The permission that it needs: `r`, `rw`, `rx`, `rwx`.
    pub perm: &'static str,
    /// Function that carries it out.
    pub run: Run,
}

/// Makes a row with a handler: signature, help, module, permission, handler.
pub(crate) const fn row(
    sig: &'static str,
    help: &'static str,
    module: &'static str,
    perm: &'static str,
    run: fn(&mut Cx<'_>, &Args) -> Outcome,
) -> Row {
    Row { sig, help, module, perm, run: Run::Do(run) }
}

/// A row with its parsed signature.
pub struct Command {
    /// The row.
    pub row: &'static Row,
    /// Its signature.
    pub signature: Signature,
}

impl Command {
    fn new(row: &'static Row) -> Self {
        Self { row, signature: Signature::parse(row.sig) }
    }
}

/// Gives every command of monitor and manager.
pub fn table() -> &'static [Command] {
    static TABLE: OnceLock<Vec<Command>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let families: [&[Row]; 38] = [
            status::ROWS,
            df::ROWS,
            health::ROWS,
            osd::ROWS,
            osd_state::ROWS,
            osd_admin::ROWS,
            erasure::ROWS,
            osd_dump::ROWS,
            osd_df::ROWS,
            osd_spare::ROWS,
            force::ROWS,
            pool::ROWS,
            pool_set::ROWS,
            autoscale::ROWS,
            tier::ROWS,
            crush::ROWS,
            crush_rules::ROWS,
            pg::ROWS,
            pg_dump::ROWS,
            auth::ROWS,
            config::ROWS,
            crash::ROWS,
            log::ROWS,
            mgr::ROWS,
            balancer::ROWS,
            mon::ROWS,
            mon_admin::ROWS,
            join::ROWS,
            level::ROWS,
            hosts::ROWS,
            orch::ROWS,
            orch_hosts::ROWS,
            rbd::ROWS,
            report::ROWS,
            picture::ROWS,
            describe::ROWS,
            refused::ROWS,
            absent::ROWS,
        ];
        families.into_iter().flatten().map(Command::new).collect()
    })
}

/// A command with its arguments, ready to run.
pub struct Parsed {
    /// The command.
    pub command: &'static Command,
    /// Its arguments.
    pub args: Args,
    /// The format of the answer.
    pub format: Format,
}

impl Parsed {
    /// Says whether the command is meant to change something.
    pub fn writes(&self) -> bool {
        self.command.row.perm.contains('w')
    }

    /// Carries the command out.
    pub fn run(&self, cx: &mut Cx<'_>) -> Outcome {
        match self.command.row.run {
            Run::Do(handler) => handler(cx, &self.args),
            Run::Order(_) => Err(Refusal::new(Errno::EINVAL, "an order to the manager is not a look at the state")),
            Run::Absent(module) => {
                let words = &self.command.signature.prefix;
                // As Ceph begins, and not as it goes on: nothing here can be turned on.
                refuse!(
                    EOPNOTSUPP,
                    "Module '{module}' is not enabled/loaded (required by command '{words}'): it is not part of this manager"
                )
            }
            Run::Refuse(why) => {
                Err(Refusal::new(Errno::EOPNOTSUPP, format!("'{}' is not supported: {why}", self.command.signature.prefix)))
            }
        }
    }
}

/// Beginning of the refusal of an unknown command at a monitor.
const UNKNOWN: &str = "command not known: ";

/// Gives the refusal of an unknown command as the manager words it: libraries tell by these words that a command is not there.
pub fn as_manager(refusal: Refusal) -> Refusal {
    match refusal.text.strip_prefix(UNKNOWN) {
        Some(command) => Refusal { text: format!("No handler found for {command}"), ..refusal },
        None => refusal,
    }
}

/// Parses a command: one JSON object. Bare words are none. What follows the object is ignored, as in Ceph: librbd
/// closes some of its commands with a quotation mark too many.
pub fn parse(table: &'static [Command], text: &str) -> Result<Parsed, Refusal> {
    let text = text.trim();
    let object = match serde_json::Deserializer::from_str(text).into_iter::<Value>().next() {
        Some(Ok(Value::Object(object))) => object,
        Some(Ok(_)) => refuse!(EINVAL, "a command must be a JSON object with a 'prefix'"),
        _ => refuse!(EINVAL, "command is not valid JSON"),
    };
    let Some(Value::String(prefix)) = object.get("prefix") else { refuse!(EINVAL, "command has no 'prefix'") };
    let format = Format::parse(object.get("format").and_then(Value::as_str).unwrap_or_default());
    let mut refusal = None;
    let ours = std::ptr::eq(table, self::table());
    for command in table.iter().filter(|c| c.signature.prefix == *prefix) {
        // What is told to a daemon itself is read strictly: the same words may be a command of the cluster besides.
        let looks = ours && !command.row.perm.contains('w');
        let checked = if looks { command.signature.check_loosely(&object) } else { command.signature.check(&object) };
        match checked {
            Ok(args) => return Ok(Parsed { command, args, format }),
            Err(why) => refusal = Some(why),
        }
    }
    match refusal {
        Some(why) => Err(why.into()),
        None => refuse!(EINVAL, "{UNKNOWN}'{prefix}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

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
            Kind::EntityAddr | Kind::IPAddr => json!("10.0.0.1:0/1"),
            Kind::UUID => json!("c9b6a0b4-0e3a-4e49-9a45-1c2d3e4f5a6b"),
            // A class of letters, as "[range]": any of them will do.
            _ => json!(p.goodchars.as_ref().map_or("x", |class| &class[1..2])),
        };
        if p.many { json!([one]) } else { one }
    }

    #[test]
    fn every_row_has_a_signature_a_help_and_takes_what_it_describes() {
        for command in table().iter().chain(mon_table()).chain(mgr_table()) {
            let (row, sig) = (command.row, &command.signature);
            assert!(!sig.prefix.is_empty() && !row.help.is_empty() && !row.help.ends_with('.'), "{}", row.sig);
            assert!(["r", "rw", "rx", "rwx", "w"].contains(&row.perm), "{}", row.sig);
            let mut full = serde_json::Map::from_iter([("prefix".to_string(), json!(sig.prefix))]);
            full.extend(sig.params.iter().map(|p| (p.name.clone(), sample(p))));
            assert!(sig.check(&full).is_ok(), "{}: {:?}", row.sig, sig.check(&full));
            let first = table().iter().find(|c| c.signature.prefix == sig.prefix && c.signature.check(&full).is_ok());
            let own = table().iter().any(|c| std::ptr::eq(c.row, row));
            assert!(!own || first.is_some_and(|c| std::ptr::eq(c.row, row)), "{}: a row above takes its arguments", row.sig);
            full.insert("no_such_argument".into(), json!(1));
            assert!(sig.check(&full).is_ok(), "{}: unknown names are ignored", row.sig);
            full.remove("no_such_argument");
            for p in sig.params.iter().filter(|p| !p.optional && p.kind != grammar::Kind::Bool) {
                let mut less = full.clone();
                less.remove(&p.name);
                let refusal = sig.check(&less).unwrap_err();
                assert!(refusal.0.contains(&p.name), "{}", row.sig);
            }
        }
    }

    #[test]
    fn rows_with_the_same_words_differ_in_their_arguments() {
        let mut seen: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for command in table() {
            let same = seen.entry(&command.signature.prefix).or_default();
            assert!(!same.contains(&command.signature.describe()), "{} twice", command.row.sig);
            same.push(command.signature.describe());
        }
        for (words, rows) in seen {
            assert!(rows.len() == 1 || words == "osd crush set", "{words} has {} rows", rows.len());
        }
    }

    #[test]
    fn what_follows_a_command_is_ignored() {
        let parsed = parse(table(), "\n{\"prefix\": \"fsid\", \"format\": \"json\"}\"").ok().unwrap();
        assert_eq!((parsed.command.signature.prefix.as_str(), parsed.format), ("fsid", Format::Json));
        assert!(parse(table(), "fsid").is_err() && parse(table(), "").is_err(), "bare words");
        assert!(parse(table(), "{\"prefix\": ").is_err());
    }

    #[test]
    fn descriptions_are_what_clients_parse() {
        let all: BTreeMap<String, Value> = serde_json::from_str(&describe::descriptions(table())).unwrap();
        assert_eq!(all.len(), table().len());
        for entry in all.values() {
            assert!(entry["sig"].as_array().is_some_and(|s| !s.is_empty()));
            let of_manager = entry["sig"][0] == "rbd" || entry["sig"] == json!(["crash", "post"]);
            let flags = if of_manager { describe::TO_MANAGER } else { 0 };
            assert_eq!(entry["flags"], flags, "what is asked of images is asked of the manager: {entry}");
        }
    }
}
