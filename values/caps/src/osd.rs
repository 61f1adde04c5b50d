//! What an entity may do to objects.

use crate::network::Network;
use crate::scan::Scan;
use crate::{CapsError, scan};
use std::fmt;
use std::net::IpAddr;

/// Permissions as bits.
mod may {
    pub(super) const READ: u8 = 1;
    pub(super) const WRITE: u8 = 2;
    pub(super) const CLASS_READ: u8 = 4;
    pub(super) const CLASS_WRITE: u8 = 8;
    pub(super) const EXEC: u8 = CLASS_READ | CLASS_WRITE;
    /// `*`: all of them, and commands to the daemon.
    pub(super) const ANY: u8 = 0xff;
}

/// Needs of a request, to be held against caps.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsdNeed<'a> {
    /// Pool.
    pub pool_name: &'a str,
    /// The pool's application metadata: application, key, value. An application without keys is listed once, with both
    /// empty.
    pub pool_application: &'a [(&'a str, &'a str, &'a str)],
    /// Namespace.
    pub namespace: &'a [u8],
    /// Object name; empty for operations on a placement group.
    pub object: &'a [u8],
    /// True if it reads, class methods aside.
    pub read: bool,
    /// True if it writes, class methods aside.
    pub write: bool,
    /// True if it calls methods that read. Only looked at if `classes` is empty.
    pub class_read: bool,
    /// True if it calls methods that write. Only looked at if `classes` is empty.
    pub class_write: bool,
    /// The methods called: class, method, whether it reads, whether it writes.
    pub classes: &'a [(&'a str, &'a str, bool, bool)],
}

/// Objects that a grant is about. Empty fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Match {
    pool: String,
    namespace: Option<String>,
    object_prefix: String,
    tag: Option<Tag>,
}

/// A pool's application, and a key and value of its metadata; `*` for any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tag {
    application: String,
    key: String,
    value: String,
}

/// Rights that a grant gives there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spec {
    Permissions(u8),
    /// A class, and one method of it or all.
    Class(String, Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    at: Match,
    spec: Spec,
}

/// Contents of one `allow` or `profile`: a profile stands for several grants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Clause {
    grants: Vec<Grant>,
    network: Option<Network>,
}

/// An entity's capabilities at OSDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdCaps {
    clauses: Vec<Clause>,
}

impl OsdCaps {
    /// Reads caps from their text. An unknown profile is no error; it allows nothing.
    ///
    /// # Errors
    /// The text does not follow the grammar; says where and what was expected.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let mut scan = Scan::new(text);
        parse_caps(&mut scan).ok_or_else(|| scan.error())
    }

    /// All permissions everywhere: `allow *`.
    pub fn allow_all() -> Self {
        let all = Grant { at: Match::default(), spec: Spec::Permissions(may::ANY) };
        Self { clauses: vec![Clause { grants: vec![all], network: None }] }
    }

    /// The caps that hold for a peer at `addr`: grants for other networks are left out, the others lose their limit.
    pub fn seen_from(&self, addr: IpAddr) -> Self {
        let here = self.clauses.iter().filter(|c| c.network.as_ref().is_none_or(|n| n.contains(addr)));
        Self { clauses: here.map(|c| Clause { grants: c.grants.clone(), network: None }).collect() }
    }

    /// Returns true if these caps allow everything, commands to the OSD itself included.
    pub fn is_allow_all(&self) -> bool {
        self.grants().any(Grant::is_allow_all)
    }

    /// Returns true if these caps allow what a request needs. One grant must cover its reads and writes; class calls
    /// may be covered by several.
    pub fn allows(&self, need: &OsdNeed<'_>) -> bool {
        // One bit per class call; requests with more than 64 calls need one grant that covers them all.
        let mut covered = 0u64;
        self.grants().any(|grant| grant.allows(need, &mut covered))
    }

    /// Returns true if there is a right to write anything in `pool`, or in all pools: who has it may number snapshots
    /// there. Grants for one application's pools do not count. Whether they hold for where somebody is must be asked
    /// before ([`OsdCaps::seen_from`]).
    pub fn may_write_in(&self, pool: Option<&str>) -> bool {
        self.clauses.iter().flat_map(|c| &c.grants).any(|grant| grant.may_write_in(pool))
    }

    fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.clauses.iter().filter(|c| c.network.is_none()).flat_map(|c| &c.grants)
    }
}

impl Grant {
    fn is_allow_all(&self) -> bool {
        self.spec == Spec::Permissions(may::ANY) && self.at == Match::default()
    }

    fn may_write_in(&self, pool: Option<&str>) -> bool {
        let writes = matches!(self.spec, Spec::Permissions(bits) if bits & may::WRITE != 0);
        let there = !self.at.pool.is_empty() && pool == Some(&self.at.pool[..]);
        writes && (there || self.at == Match::default())
    }

    fn allows(&self, need: &OsdNeed<'_>, covered: &mut u64) -> bool {
        if !self.at.matches(need) {
            return false;
        }
        let have = match self.spec {
            Spec::Permissions(bits) => bits,
            Spec::Class(..) => 0,
        };
        if (need.read && have & may::READ == 0) || (need.write && have & may::WRITE == 0) {
            return false;
        }
        if need.classes.is_empty() {
            return (!need.class_read || have & may::CLASS_READ != 0) && (!need.class_write || have & may::CLASS_WRITE != 0);
        }
        let mut all = true;
        for (i, call) in need.classes.iter().enumerate() {
            let bit = if i < 64 { 1 << i } else { 0 };
            if self.allows_call(call, have) {
                *covered |= bit;
            } else {
                all &= *covered & bit != 0;
            }
        }
        all
    }

    fn allows_call(&self, (class, method, reads, writes): &(&str, &str, bool, bool), have: u8) -> bool {
        match &self.spec {
            Spec::Class(c, m) => c == class && m.as_ref().is_none_or(|m| m == method),
            Spec::Permissions(_) => (!reads || have & may::CLASS_READ != 0) && (!writes || have & may::CLASS_WRITE != 0),
        }
    }
}

impl Match {
    fn matches(&self, need: &OsdNeed<'_>) -> bool {
        (self.pool.is_empty() || self.pool == need.pool_name)
            && self.namespace.as_ref().is_none_or(|ns| namespace_matches(ns.as_bytes(), need.namespace))
            && self.tag.as_ref().is_none_or(|tag| tag.matches(need.pool_application))
            && need.object.starts_with(self.object_prefix.as_bytes())
    }
}

fn namespace_matches(pattern: &[u8], namespace: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(prefix) => namespace.starts_with(prefix) || namespace == pattern,
        None => namespace == pattern,
    }
}

impl Tag {
    fn matches(&self, metadata: &[(&str, &str, &str)]) -> bool {
        metadata.iter().any(|(application, key, value)| {
            let key_matches = self.key == "*" || (self.key == *key && !key.is_empty());
            *application == self.application && key_matches && (self.value == "*" || self.value == *value)
        })
    }
}

// --- the grammar ---

/// Clauses with `,` or `;` between them. White space at the ends may contain line breaks, between clauses it may not.
fn parse_caps(s: &mut Scan<'_>) -> Option<OsdCaps> {
    s.maybe_spaces();
    let mut clauses = vec![parse_clause(s)?];
    while s.lit(",").or_else(|| s.lit(";")).is_some() {
        clauses.push(parse_clause(s)?);
    }
    s.maybe_spaces();
    s.done().then_some(OsdCaps { clauses })
}

/// `allow` with permissions and match in either order, or a profile.
fn parse_clause(s: &mut scan::Scan<'_>) -> Option<Clause> {
    s.maybe_blanks();
    let clause = s
        .attempt(|s| {
            s.lit("allow")?;
            let spec = parse_spec(s)?;
            let at = parse_match(s)?;
            at_grammar_end(s, vec![Grant { at, spec }])
        })
        .or_else(|| {
            s.attempt(|s| {
                s.lit("allow")?;
                let at = parse_match(s)?;
                let spec = parse_spec(s)?;
                at_grammar_end(s, vec![Grant { at, spec }])
            })
        })
        .or_else(|| {
            s.attempt(|s| {
                let grants = parse_profile(s)?;
                at_grammar_end(s, grants)
            })
        })?;
    s.maybe_blanks();
    Some(clause)
}

/// The optional network after a clause.
fn at_grammar_end(s: &mut Scan<'_>, grants: Vec<Grant>) -> Option<Clause> {
    let network = s.network()?;
    Some(Clause { grants, network })
}

/// ` *`, ` rwx class-read class-write` or ` class NAME [METHOD]`.
fn parse_spec(s: &mut Scan<'_>) -> Option<Spec> {
    if s.attempt(|s| s.spaces().and_then(|()| wildcard(s))).is_some() {
        return Some(Spec::Permissions(may::ANY));
    }
    if let Some(bits) = parse_permissions(s) {
        return Some(Spec::Permissions(bits));
    }
    s.attempt(|s| {
        s.spaced("class")?;
        s.spaces()?;
        let class = s.word("a class")?;
        let method = s.attempt(|s| s.spaces().and_then(|()| s.word("a method")));
        Some(Spec::Class(class, method))
    })
}

fn wildcard(s: &mut Scan<'_>) -> Option<()> {
    s.lit("*").or_else(|| s.lit("all"))
}

/// Some of `r`, `w`, `x` in this order, and then some of `class-read`, `class-write` in this order.
fn parse_permissions(s: &mut Scan<'_>) -> Option<u8> {
    let letters = s.attempt(|s| {
        s.spaces()?;
        let mut bits = 0;
        for (letter, bit) in [("r", may::READ), ("w", may::WRITE), ("x", may::EXEC)] {
            if s.lit(letter).is_some() {
                bits |= bit;
            }
        }
        (bits != 0).then_some(bits)
    });
    let mut bits = letters.unwrap_or(0);
    for (word, bit) in [("class-read", may::CLASS_READ), ("class-write", may::CLASS_WRITE)] {
        if s.spaced(word).is_some() {
            bits |= bit;
        }
    }
    (bits != 0).then_some(bits)
}

/// ` [namespace=N] tag APP KEY=VALUE` or ` [pool=P] [namespace=N] [object_prefix X]`; may be nothing.
fn parse_match(s: &mut Scan<'_>) -> Option<Match> {
    let tagged = s.attempt(|s| {
        let namespace = parse_namespace(s);
        let tag = Some(parse_tag(s)?);
        Some(Match { namespace, tag, ..Match::default() })
    });
    if tagged.is_some() {
        return tagged;
    }
    let pool = s.keyed("pool", "a pool").unwrap_or_default();
    let namespace = parse_namespace(s);
    let object_prefix = s.attempt(|s| {
        s.spaced("object_prefix")?;
        s.spaces()?;
        s.word("an object prefix")
    });
    Some(Match { pool, namespace, object_prefix: object_prefix.unwrap_or_default(), tag: None })
}

/// ` namespace=N`, with `*` at its end for all that begin so. May be empty in quotes: the default namespace.
fn parse_namespace(s: &mut Scan<'_>) -> Option<String> {
    s.attempt(|s| {
        s.spaced("namespace")?;
        s.equals_or_spaces()?;
        let mut name = s.word_or_empty("a namespace")?;
        if s.lit("*").is_some() {
            name.push('*');
        }
        Some(name)
    })
}

fn parse_tag(s: &mut Scan<'_>) -> Option<Tag> {
    s.attempt(|s| {
        s.spaced("tag")?;
        s.spaces()?;
        let application = s.word("an application")?;
        s.spaces()?;
        let key = wildcard_or_word(s, "a key")?;
        s.maybe_spaces();
        s.lit("=")?;
        s.maybe_spaces();
        let value = wildcard_or_word(s, "a value")?;
        Some(Tag { application, key, value })
    })
}

fn wildcard_or_word(s: &mut Scan<'_>, what: &'static str) -> Option<String> {
    if wildcard(s).is_some() { Some("*".into()) } else { s.word(what) }
}

/// `profile NAME [pool=P] [namespace=N]`.
fn parse_profile(s: &mut Scan<'_>) -> Option<Vec<Grant>> {
    s.lit("profile")?;
    s.equals_or_spaces()?;
    let name = s.word("a profile")?;
    let pool = s.keyed("pool", "a pool").unwrap_or_default();
    let namespace = parse_namespace(s);
    Some(expand_profile(&name, Match { pool, namespace, ..Match::default() }))
}

/// Returns what a profile allows in the pool and namespace that it is limited to.
fn expand_profile(name: &str, at: Match) -> Vec<Grant> {
    let object = |prefix: &str, at: Match| Match { object_prefix: prefix.into(), ..at };
    let grant = |at: Match, bits: u8| Grant { at, spec: Spec::Permissions(bits) };
    let method = |at: Match, name: &str| Grant { at, spec: Spec::Class("rbd".into(), Some(name.into())) };
    // A pool's image settings stand in its default namespace, whatever namespace the profile is limited to.
    let settings = Match { namespace: Some(String::new()), ..object("rbd_info", at.clone()) };
    match name {
        "read-only" => vec![grant(at, may::READ)],
        "read-write" => vec![grant(at, may::READ | may::WRITE)],
        "rbd" => vec![
            // Clones have parents in other pools: what may be asked there without further permission.
            grant(object("rbd_info", Match::default()), may::READ),
            grant(object("rbd_children", Match::default()), may::CLASS_READ),
            grant(object("rbd_mirroring", Match::default()), may::CLASS_READ),
            method(settings, "metadata_list"),
            grant(at, may::READ | may::WRITE | may::EXEC),
        ],
        "rbd-read-only" => vec![
            method(settings, "metadata_list"),
            grant(at.clone(), may::READ | may::CLASS_READ),
            // A clone that is opened registers with its parent.
            method(object("rbd_header.", at.clone()), "child_attach"),
            method(object("rbd_header.", at), "child_detach"),
        ],
        _ => Vec::new(),
    }
}

impl fmt::Display for OsdCaps {
    /// For logs; not text that parses back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} clauses", self.clauses.len())
    }
}
