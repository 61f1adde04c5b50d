//! The grammar of commands, for monitors and OSDs alike: signatures, the arguments that come with a command, checked against them, and
//! answers: a [`Reply`] or a [`Refusal`], and their layout as tables, amounts, JSON and XML, as Ceph's clients and their users' scripts
//! expect them.
//!
//! A table of commands is a list of rows with a signature as text; [`Signature::parse`] has the notation. Clients download the
//! [descriptions](Signature::describe) and read their command lines by them.

#![forbid(unsafe_code)]

mod answer;
mod printable;
mod structured;
mod table;
pub mod units;

pub use answer::{Asker, Outcome, Refusal, Reply};
pub use printable::{is_printable, one_line, printable};
pub use structured::Format;
pub use table::{Align, Table};
/// The error numbers of [`refuse!`].
pub use types::Errno;

use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{EntityAddr, Fsid, PgId};

/// A command's arguments do not fit its signature: what is wrong, as a sentence. Its error number is `EINVAL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

/// JSON indented by four blanks, as Ceph's formatter lays it out; without a line end.
pub fn pretty(value: &Value) -> String {
    let mut out = Vec::new();
    let mut writer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"    "));
    serde::Serialize::serialize(value, &mut writer).expect("a value can be written to memory");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Sections of counters as `counter dump` and `counter schema` of release 18.2 lay them out: a list for each section, with a set of
/// labels in each of its entries. Here each section has one entry, without labels.
pub fn labelled(sections: &Value) -> Value {
    let one = |counters: &Value| json!([{"labels": {}, "counters": counters}]);
    sections
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, counters)| (name.clone(), one(counters)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Form of an argument. The names are those of the types as clients know them.
#[allow(clippy::upper_case_acronyms, reason = "clients spell it so")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text, perhaps of certain characters only.
    String,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A flag that is given or not.
    Bool,
    /// One of a few words.
    Choices,
    /// A pool's name.
    Poolname,
    /// `osd.3` or `3`.
    OsdName,
    /// `1.2f`
    Pgid,
    /// `IP[:port][/nonce]`
    EntityAddr,
    /// An IP address.
    IPAddr,
    /// 32 hex digits with dashes.
    UUID,
    /// `osd.3`, `mon.a`, `client.admin`
    Name,
    /// An object's name.
    Objectname,
}

impl Kind {
    fn parse(name: &str) -> Kind {
        match name {
            "String" => Kind::String,
            "Int" => Kind::Int,
            "Float" => Kind::Float,
            "Bool" => Kind::Bool,
            "Choices" => Kind::Choices,
            "Poolname" => Kind::Poolname,
            "OsdName" => Kind::OsdName,
            "Pgid" => Kind::Pgid,
            "EntityAddr" => Kind::EntityAddr,
            "IPAddr" => Kind::IPAddr,
            "UUID" => Kind::UUID,
            "Name" => Kind::Name,
            "Objectname" => Kind::Objectname,
            other => unreachable!("argument type {other} in the command table"),
        }
    }
}

/// One argument of a signature.
#[derive(Clone, Debug)]
pub struct Param {
    /// Key in the command's JSON.
    pub name: String,
    /// Type.
    pub kind: Kind,
    /// True if it may be left out.
    pub optional: bool,
    /// True if it is a list.
    pub many: bool,
    /// Allowed words.
    pub choices: Vec<String>,
    /// Least and greatest value, as written.
    pub range: Option<String>,
    /// Allowed characters, as a class: `[A-Za-z0-9-_.]`.
    pub goodchars: Option<String>,
}

/// A command's words and arguments.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The words, joined by blanks.
    pub prefix: String,
    /// The arguments, in the order in which they are typed.
    pub params: Vec<Param>,
}

impl Signature {
    /// Reads the table's notation: words, then `<name:Type attribute=value …>` for each argument. The table is part of
    /// the program, so a mistake in it is a panic (and a test reads every row).
    pub fn parse(text: &str) -> Self {
        let (words, mut rest) = text.split_at(text.find('<').unwrap_or(text.len()));
        let mut params = Vec::new();
        while let Some((inner, after)) = rest.strip_prefix('<').and_then(|r| r.split_once('>')) {
            params.push(Self::param(inner));
            rest = after.trim_start();
        }
        assert!(rest.is_empty(), "signature {text}");
        Self { prefix: words.trim().to_string(), params }
    }

    fn param(text: &str) -> Param {
        let mut parts = text.split(' ');
        let (name, kind) = parts.next().and_then(|head| head.split_once(':')).expect("an argument has a name and a type");
        let mut param = Param {
            name: name.to_string(),
            kind: Kind::parse(kind),
            optional: false,
            many: false,
            choices: Vec::new(),
            range: None,
            goodchars: None,
        };
        for part in parts {
            match part.split_once('=').unwrap_or((part, "")) {
                ("req", "false") => param.optional = true,
                ("n", "N") => param.many = true,
                ("strings", list) => param.choices = list.split('|').map(String::from).collect(),
                ("range", range) => param.range = Some(range.to_string()),
                ("goodchars", set) => param.goodchars = Some(set.to_string()),
                _ => unreachable!("attribute {part} of {text}"),
            }
        }
        param
    }

    /// The signature as clients read it.
    pub fn describe(&self) -> Value {
        let mut sig: Vec<Value> = self.prefix.split(' ').map(|w| json!(w)).collect();
        for p in &self.params {
            let mut arg = serde_json::Map::new();
            arg.insert("name".into(), json!(p.name));
            arg.insert("type".into(), json!(format!("Ceph{:?}", p.kind)));
            if p.many {
                arg.insert("n".into(), json!("N"));
            }
            if !p.choices.is_empty() {
                arg.insert("strings".into(), json!(p.choices.join("|")));
            }
            if let Some(range) = &p.range {
                arg.insert("range".into(), json!(range));
            }
            if let Some(set) = &p.goodchars {
                arg.insert("goodchars".into(), json!(set));
            }
            if p.optional {
                arg.insert("req".into(), json!(false));
            }
            sig.push(Value::Object(arg));
        }
        Value::Array(sig)
    }

    /// The signature for people: optional arguments in brackets, lists with dots.
    pub fn usage(&self) -> String {
        let mut out = self.prefix.clone();
        for p in &self.params {
            // A bar would end a cell of a table.
            let name = if p.choices.is_empty() || p.choices.len() > 8 { p.name.clone() } else { p.choices.join("/") };
            let dots = if p.many { "..." } else { "" };
            let flag = p.kind == Kind::Bool;
            match (flag, p.optional) {
                (true, _) => out.push_str(&format!(" [--{}]", p.name.replace('_', "-"))),
                (false, true) => out.push_str(&format!(" [{name}{dots}]")),
                (false, false) => out.push_str(&format!(" <{name}{dots}>")),
            }
        }
        out
    }

    /// Checks a command's JSON object. `Err` says which argument is missing or does not fit. Names that this command does not have are ignored, as by Ceph: the `ceph` tool never sends any,
    /// programs do.
    pub fn check(&self, command: &serde_json::Map<String, Value>) -> Result<Args, Wrong> {
        self.check_as(command, false)
    }

    /// Checks a command's JSON object as Ceph's daemons check what only looks: a text that is missing is an empty one, and a word that an
    /// optional choice does not have counts as none, but for one in a list. (The `ceph` tool checks both before it sends anything; libraries do not.)
    pub fn check_loosely(&self, command: &serde_json::Map<String, Value>) -> Result<Args, Wrong> {
        self.check_as(command, true)
    }

    fn check_as(&self, command: &serde_json::Map<String, Value>, loose: bool) -> Result<Args, Wrong> {
        let mut args = Args::default();
        for p in &self.params {
            let text = matches!(p.kind, Kind::String | Kind::Poolname | Kind::Objectname) && !p.many;
            match command.get(&p.name) {
                None | Some(Value::Null) if loose && text && !p.optional => {
                    args.0.insert(p.name.clone(), Arg::Str(String::new()));
                }
                Some(value) if loose && p.optional && p.kind == Kind::Choices && !p.many && p.take(value).is_err() => {}
                None | Some(Value::Null) if p.optional || p.kind == Kind::Bool => {}
                // An empty choice is none.
                Some(Value::String(text)) if text.is_empty() && p.optional && p.kind == Kind::Choices => {}
                None | Some(Value::Null) => {
                    return Err(Wrong(format!("'{}' needs the argument '{}'", self.prefix, p.name)));
                }
                Some(value) => {
                    args.0.insert(p.name.clone(), p.take(value)?);
                }
            }
        }
        Ok(args)
    }
}

/// A checked argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Text of any kind.
    Str(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A flag.
    Bool(bool),
    /// A list of texts.
    List(Vec<String>),
}

impl Param {
    fn wrong(&self, why: impl std::fmt::Display) -> Wrong {
        Wrong(format!("argument '{}': {why}", self.name))
    }

    fn take(&self, value: &Value) -> Result<Arg, Wrong> {
        if !self.many {
            return self.take_one(value);
        }
        let one = |v: &Value| match self.take_one(v)? {
            Arg::Str(text) => Ok(text),
            Arg::Int(n) => Ok(n.to_string()),
            Arg::Float(x) => Ok(x.to_string()),
            other => Err(self.wrong(format!("{other:?} cannot be in a list"))),
        };
        // Ceph takes a list for nothing else, and one of texts has texts only. (A list of OSDs has numbers there; we take `osd.3`, too.)
        let numbers = matches!(self.kind, Kind::Int | Kind::Float | Kind::OsdName);
        match value {
            Value::Array(items) if numbers || items.iter().all(Value::is_string) => {
                Ok(Arg::List(items.iter().map(one).collect::<Result<_, _>>()?))
            }
            _ => Err(Wrong(format!("bad or missing field '{}'", self.name))),
        }
    }

    fn take_one(&self, value: &Value) -> Result<Arg, Wrong> {
        let text = match value {
            Value::String(s) => s.clone(),
            Value::Number(n) => n.to_string(),
            Value::Bool(b) => b.to_string(),
            other => return Err(self.wrong(format!("{other} is not a plain value"))),
        };
        match self.kind {
            Kind::Int => {
                let n: i64 = text.trim().parse().map_err(|_| self.wrong(format!("'{text}' is not a whole number")))?;
                self.in_range(n as f64, &text)?;
                Ok(Arg::Int(n))
            }
            Kind::Float => {
                let x: f64 = text.trim().parse().map_err(|_| self.wrong(format!("'{text}' is not a number")))?;
                if !x.is_finite() {
                    return Err(self.wrong(format!("'{text}' is not a number")));
                }
                self.in_range(x, &text)?;
                Ok(Arg::Float(x))
            }
            Kind::Bool => self.flag(&text),
            _ => self.check_text(&text).map(|()| Arg::Str(text)),
        }
    }

    /// Older clients send a flag as the word that was typed: `--yes-i-really-mean-it`.
    fn flag(&self, text: &str) -> Result<Arg, Wrong> {
        match text {
            "true" | "True" | "yes" | "1" => Ok(Arg::Bool(true)),
            "false" | "False" | "no" | "0" | "" => Ok(Arg::Bool(false)),
            word if word.trim_start_matches('-').replace('-', "_") == self.name => Ok(Arg::Bool(true)),
            _ => Err(self.wrong(format!("'{text}' is neither true nor false"))),
        }
    }

    fn in_range(&self, x: f64, text: &str) -> Result<(), Wrong> {
        let Some(range) = &self.range else { return Ok(()) };
        let mut bounds = range.split('|').map(|b| b.parse::<f64>().unwrap_or(0.0));
        let low = bounds.next().unwrap_or(f64::MIN);
        let high = bounds.next().unwrap_or(f64::MAX);
        if x < low || x > high {
            return Err(self.wrong(format!("{text} is outside of {}", range.replace('|', "..."))));
        }
        Ok(())
    }

    fn check_text(&self, text: &str) -> Result<(), Wrong> {
        let ok = match self.kind {
            Kind::Choices => self.choices.iter().any(|c| c == text || c.trim_start_matches("--") == text),
            Kind::OsdName => parse_osd(text).is_some() || matches!(text, "any" | "all" | "*"),
            Kind::Pgid => text.parse::<PgId>().is_ok(),
            Kind::UUID => text.parse::<Fsid>().is_ok(),
            Kind::EntityAddr | Kind::IPAddr => parse_addr(text).is_some() || text.contains('/'),
            _ => true,
        };
        if !ok {
            return Err(match self.kind {
                Kind::Choices => self.wrong(format!("'{text}' is none of {}", self.choices.join(", "))),
                kind => self.wrong(format!("'{text}' is not a {kind:?}")),
            });
        }
        let good = |c: char| self.goodchars.as_ref().is_none_or(|set| in_class(set, c));
        match text.chars().find(|c| !good(*c)) {
            Some(c) => Err(self.wrong(format!("invalid character '{c}' in '{text}'"))),
            None => Ok(()),
        }
    }
}

/// Returns true if `c` is in a class like `[A-Za-z0-9-_.]`.
fn in_class(class: &str, c: char) -> bool {
    let set: Vec<char> = class.trim_start_matches('[').trim_end_matches(']').chars().collect();
    let mut i = 0;
    while i < set.len() {
        if i + 2 < set.len() && set[i + 1] == '-' && set[i].is_ascii_alphanumeric() && set[i + 2].is_ascii_alphanumeric() {
            if (set[i]..=set[i + 2]).contains(&c) {
                return true;
            }
            i += 3;
        } else {
            if set[i] == c {
                return true;
            }
            i += 1;
        }
    }
    false
}

/// `osd.3` or `3`.
pub fn parse_osd(text: &str) -> Option<i32> {
    text.strip_prefix("osd.").unwrap_or(text).parse().ok().filter(|n| *n >= 0)
}

/// `IP[:port][/nonce]`, with or without a leading protocol.
pub fn parse_addr(text: &str) -> Option<EntityAddr> {
    let (kind, text) = match text.split_once(':') {
        Some(("v1", rest)) => (types::AddrType::Legacy, rest),
        Some(("v2", rest)) => (types::AddrType::Msgr2, rest),
        Some(("any", rest)) => (types::AddrType::Any, rest),
        Some(("cidr", rest)) => (types::AddrType::Cidr, rest),
        _ => (types::AddrType::Any, text),
    };
    let (place, nonce) = text.split_once('/').unwrap_or((text, "0"));
    let nonce = nonce.parse().ok()?;
    let addr = match place.parse::<std::net::SocketAddr>() {
        Ok(addr) => addr,
        Err(_) => std::net::SocketAddr::new(place.trim_matches(['[', ']']).parse().ok()?, 0),
    };
    Some(EntityAddr { kind, nonce, addr: Some(addr) })
}

/// The arguments of one command.
#[derive(Clone, Debug, Default)]
pub struct Args(pub BTreeMap<String, Arg>);

impl Args {
    /// A text; empty if it was not given.
    pub fn str(&self, name: &str) -> &str {
        self.opt(name).unwrap_or_default()
    }

    /// A text, if it was given.
    pub fn opt(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(Arg::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// A whole number, if it was given.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.0.get(name) {
            Some(Arg::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// A number, if it was given.
    pub fn float(&self, name: &str) -> Option<f64> {
        match self.0.get(name) {
            Some(Arg::Float(x)) => Some(*x),
            _ => None,
        }
    }

    /// Returns true if a flag was given.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Arg::Bool(true)))
    }

    /// A list; empty if it was not given.
    pub fn list(&self, name: &str) -> &[String] {
        match self.0.get(name) {
            Some(Arg::List(items)) => items,
            _ => &[],
        }
    }

    /// An OSD's number out of an argument that was checked to be one.
    pub fn osd(&self, name: &str) -> Result<i32, Wrong> {
        let text = self.str(name);
        parse_osd(text).ok_or_else(|| Wrong(format!("'{text}' names no osd")))
    }

    /// As texts, for the capability check. The list `caps` of services and rights in turn becomes one text for each service, `caps_mon`
    /// and the like, as grants name them in Ceph. If a service comes twice, the last one counts, as for who carries the command out.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let text = |arg: &Arg| match arg {
            Arg::Str(s) => s.clone(),
            Arg::Int(n) => n.to_string(),
            Arg::Float(x) => x.to_string(),
            Arg::Bool(b) => b.to_string(),
            Arg::List(items) => items.join(" "),
        };
        let mut texts = BTreeMap::new();
        for (name, arg) in &self.0 {
            match arg {
                Arg::List(items) if name == "caps" && items.len().is_multiple_of(2) => {
                    texts.extend(items.chunks(2).map(|pair| (format!("caps_{}", pair[0]), pair[1].clone())));
                }
                arg => drop(texts.insert(name.clone(), text(arg))),
            }
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sig: &str, command: Value) -> Result<Args, String> {
        Signature::parse(sig).check(command.as_object().unwrap()).map_err(|wrong| wrong.0)
    }

    const CREATE: &str = "pool make <pool:Poolname> <n:Int range=0|9 req=false> <mode:Choices strings=a|b req=false> <ids:String n=N goodchars=[A-Za-z0-9-_] req=false> <sure:Bool req=false>";

    #[test]
    fn arguments_are_checked_by_the_signature() {
        let args =
            check(CREATE, json!({"prefix": "pool make", "pool": "p", "n": "7", "ids": ["x-1"], "sure": "--sure"})).unwrap();
        assert_eq!((args.str("pool"), args.int("n"), args.list("ids").len(), args.flag("sure")), ("p", Some(7), 1, true));
        assert_eq!(check(CREATE, json!({})).unwrap_err(), "'pool make' needs the argument 'pool'");
        assert_eq!(check(CREATE, json!({"pool": "p", "n": 10})).unwrap_err(), "argument 'n': 10 is outside of 0...9");
        assert_eq!(check(CREATE, json!({"pool": "p", "mode": "c"})).unwrap_err(), "argument 'mode': 'c' is none of a, b");
        assert_eq!(
            check(CREATE, json!({"pool": "p", "ids": ["a b"]})).unwrap_err(),
            "argument 'ids': invalid character ' ' in 'a b'"
        );
        let args = check(CREATE, json!({"pool": "p", "what": 1, "mode": ""})).unwrap();
        assert_eq!((args.str("pool"), args.opt("mode")), ("p", None));
        assert!(check(CREATE, json!({"pool": {"a": 1}})).is_err());
    }

    /// As recorded from ceph-mon and ceph-mgr 16.2.15.
    #[test]
    fn a_list_is_given_as_a_list() {
        let ids = |ids: Value| check("osd out <ids:String n=N req=false>", json!({ "ids": ids }));
        for wrong in [json!("0"), json!(0), json!([0]), json!(["0", 1]), json!([true]), json!({})] {
            assert_eq!(ids(wrong.clone()).unwrap_err(), "bad or missing field 'ids'", "{wrong}");
        }
        assert_eq!(ids(json!(["0", "osd.1"])).unwrap().list("ids"), ["0", "osd.1"]);
        assert!(ids(json!([])).unwrap().list("ids").is_empty());
        let osds = |id: Value| check("osd pg-temp <pgid:Pgid> <id:OsdName n=N>", json!({ "pgid": "1.0", "id": id }));
        assert_eq!(osds(json!([3])).unwrap().list("id"), ["3"]);
        assert_eq!(osds(json!("3")).unwrap_err(), "bad or missing field 'id'");
    }

    #[test]
    fn rights_are_texts_by_service() {
        let args = |caps: Value| check("auth x <e:String> <caps:String n=N req=false>", json!({"e": "client.a", "caps": caps}));
        let texts = |caps| args(caps).unwrap().texts().into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(";");
        assert_eq!(texts(json!(["mon", "allow r", "osd", "allow rwx"])), "caps_mon=allow r;caps_osd=allow rwx;e=client.a");
        assert_eq!(texts(json!(["mon", "allow r", "mon", "allow *"])), "caps_mon=allow *;e=client.a");
        assert_eq!(texts(json!(["mon", "allow r", "osd"])), "caps=mon allow r osd;e=client.a");
    }

    #[test]
    fn addresses_and_osds() {
        assert_eq!(parse_addr("10.1.1.1:0/123").unwrap().legacy_str(), "10.1.1.1:0/123");
        assert_eq!(parse_addr("10.1.1.1").unwrap().legacy_str(), "10.1.1.1:0/0");
        assert_eq!(parse_addr("v1:[::1]:5/2").unwrap().legacy_str(), "[::1]:5/2");
        assert_eq!(parse_addr("nowhere"), None);
        assert_eq!((parse_osd("osd.3"), parse_osd("4"), parse_osd("-1")), (Some(3), Some(4), None));
    }

    #[test]
    fn a_signature_is_described_as_clients_read_it() {
        let v = Signature::parse("osd out <ids:String n=N>").describe();
        assert_eq!(v, json!(["osd", "out", {"name": "ids", "type": "CephString", "n": "N"}]));
    }
}
