//! What an entity may ask of monitors and the manager.

use crate::CapsError;
use crate::constraint::Constraint;
use crate::grant::{Grant, Scope, may};
use crate::profile;
use crate::scan::Scan;
use std::collections::BTreeMap;
use std::net::IpAddr;
use types::EntityName;

/// A question: a command, or a service as a whole.
struct Question<'a> {
    kind: Kind,
    entity: &'a EntityName,
    /// Service that the command belongs to; for the manager's commands the module that runs them.
    service: &'a str,
    module: &'a str,
    prefix: &'a str,
    args: &'a BTreeMap<String, String>,
}

/// Daemon whose caps these are: grammar and profiles differ a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mon,
    Mgr,
}

impl Question<'_> {
    /// The permissions that `grant` gives for this question.
    fn granted(&self, grant: &Grant) -> u8 {
        match &grant.scope {
            Scope::Everything if self.service == "config-key" => 0,
            Scope::Everything => grant.bits,
            Scope::Service(name) => {
                if name == self.service {
                    grant.bits
                } else {
                    0
                }
            }
            // A module checks its arguments itself, when it has found out what a command is about.
            Scope::Module(name, with) => {
                if name == self.module && (!self.prefix.is_empty() || self.args_hold(with)) {
                    grant.bits
                } else {
                    0
                }
            }
            Scope::Command(prefix, with) => {
                if prefix == self.prefix && self.args_hold(with) {
                    may::ALL
                } else {
                    0
                }
            }
            Scope::Profile(name, with) => {
                let grants = match self.kind {
                    Kind::Mon => profile::mon(name, self.entity),
                    Kind::Mgr => profile::mgr(name, with),
                };
                grants.iter().fold(0, |bits, grant| bits | self.granted(grant))
            }
        }
    }

    /// Returns true if each demand holds for its argument.
    fn args_hold(&self, with: &BTreeMap<String, Constraint>) -> bool {
        with.iter().all(|(key, constraint)| constraint.holds(self.args.get(key).map(String::as_str)))
    }

    /// Returns true if `grants` together give `bits`.
    fn allowed(&self, grants: &[Grant], bits: u8) -> bool {
        let mut have = 0;
        grants.iter().filter(|g| g.network.is_none()).any(|grant| {
            have |= self.granted(grant);
            grant.is_allow_all() || have & bits == bits
        })
    }
}

/// The letters of a command's permission as bits.
fn bits(perm: &str) -> u8 {
    let bit = |letter, bit| if perm.contains(letter) { bit } else { 0 };
    bit('r', may::READ) | bit('w', may::WRITE) | bit('x', may::EXEC)
}

fn narrowed(grants: &[Grant], addr: IpAddr) -> Vec<Grant> {
    let here = grants.iter().filter(|g| g.network.as_ref().is_none_or(|n| n.contains(addr)));
    here.map(|g| Grant { network: None, ..g.clone() }).collect()
}

/// An entity's capabilities at the monitors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonCaps {
    grants: Vec<Grant>,
}

impl MonCaps {
    /// Reads caps from their text. An unknown profile is no error; it allows nothing.
    ///
    /// # Errors
    /// The text does not follow the grammar; says where and what was expected.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        Ok(Self { grants: parse(text, Kind::Mon)? })
    }

    /// All permissions: `allow *`.
    pub fn allow_all() -> Self {
        Self { grants: vec![Grant::everything(may::ANY)] }
    }

    /// The caps that hold for a peer at `addr`: grants for other networks are left out, the others lose their limit.
    pub fn seen_from(&self, addr: IpAddr) -> Self {
        Self { grants: narrowed(&self.grants, addr) }
    }

    /// Returns true if these caps allow everything.
    pub fn is_allow_all(&self) -> bool {
        self.grants.iter().any(|g| g.network.is_none() && g.is_allow_all())
    }

    /// Returns true if `entity` may run a command: `module` and `perm` (`r`, `w`, `rw`, `rwx`, `x`) are those of the
    /// command's description, `args` its arguments as text.
    pub fn allows_command(
        &self,
        entity: &EntityName,
        module: &str,
        perm: &str,
        prefix: &str,
        args: &BTreeMap<String, String>,
    ) -> bool {
        let question = Question { kind: Kind::Mon, entity, service: module, module: "", prefix, args };
        question.allowed(&self.grants, bits(perm))
    }

    /// Returns true if a service may be read, written, executed: for subscriptions and messages that are no commands.
    pub fn allows(&self, service: &str, read: bool, write: bool, exec: bool) -> bool {
        let nobody = EntityName::default();
        let args = BTreeMap::new();
        let question = Question { kind: Kind::Mon, entity: &nobody, service, module: "", prefix: "", args: &args };
        let bit = |wanted, bit| if wanted { bit } else { 0 };
        question.allowed(&self.grants, bit(read, may::READ) | bit(write, may::WRITE) | bit(exec, may::EXEC))
    }
}

/// An entity's capabilities at the manager. Like the monitors', with grants for one of its modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrCaps {
    grants: Vec<Grant>,
}

impl MgrCaps {
    /// Reads caps from their text.
    ///
    /// # Errors
    /// The text does not follow the grammar; says where and what was expected.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        Ok(Self { grants: parse(text, Kind::Mgr)? })
    }

    /// All permissions: `allow *`.
    pub fn allow_all() -> Self {
        Self { grants: vec![Grant::everything(may::ANY)] }
    }

    /// The caps that hold for a peer at `addr`: grants for other networks are left out, the others lose their limit.
    pub fn seen_from(&self, addr: IpAddr) -> Self {
        Self { grants: narrowed(&self.grants, addr) }
    }

    /// Returns true if these caps allow everything.
    pub fn is_allow_all(&self) -> bool {
        self.grants.iter().any(|g| g.network.is_none() && g.is_allow_all())
    }

    /// Returns true if a service may be read, written, executed: for messages that are no commands.
    pub fn allows(&self, service: &str, read: bool, write: bool, exec: bool) -> bool {
        let (nobody, args) = (EntityName::default(), BTreeMap::new());
        let question = Question { kind: Kind::Mgr, entity: &nobody, service, module: "", prefix: "", args: &args };
        let bit = |wanted, bit| if wanted { bit } else { 0 };
        question.allowed(&self.grants, bit(read, may::READ) | bit(write, may::WRITE) | bit(exec, may::EXEC))
    }

    /// Returns true if any grant holds here, whatever it is for.
    pub fn is_anybody(&self) -> bool {
        self.grants.iter().any(|g| g.network.is_none())
    }

    /// Returns true if `entity` may run a command. `service` and `perm` are those of the command's description;
    /// `module` is the manager's module that runs it, empty for built-in commands.
    pub fn allows_command(
        &self,
        entity: &EntityName,
        service: &str,
        module: &str,
        perm: &str,
        prefix: &str,
        args: &BTreeMap<String, String>,
    ) -> bool {
        let question = Question { kind: Kind::Mgr, entity, service, module, prefix, args };
        question.allowed(&self.grants, bits(perm))
    }

    /// Returns true if `entity` may have module `module` act on what `args` name (`pool`, `namespace`). To be asked by
    /// the module once a command's own arguments are understood, in addition to [`MgrCaps::allows_command`].
    pub fn allows_module(&self, entity: &EntityName, module: &str, perm: &str, args: &BTreeMap<String, String>) -> bool {
        let question = Question { kind: Kind::Mgr, entity, service: "", module, prefix: "", args };
        question.allowed(&self.grants, bits(perm))
    }
}

// --- the grammar ---

fn parse(text: &str, kind: Kind) -> Result<Vec<Grant>, CapsError> {
    let mut scan = Scan::new(text);
    parse_grants(&mut scan, kind).ok_or_else(|| scan.error())
}

fn parse_grants(s: &mut Scan<'_>, kind: Kind) -> Option<Vec<Grant>> {
    let mut grants = vec![parse_grant(s, kind)?];
    while s.lit(",").or_else(|| s.lit(";")).is_some() {
        grants.push(parse_grant(s, kind)?);
    }
    s.done().then_some(grants)
}

fn parse_grant(s: &mut Scan<'_>, kind: Kind) -> Option<Grant> {
    s.maybe_spaces();
    let grant = s
        .attempt(|s| parse_everything(s, kind))
        .or_else(|| s.attempt(|s| parse_profile(s, kind)))
        .or_else(|| s.attempt(parse_service))
        .or_else(|| if kind == Kind::Mgr { s.attempt(parse_module) } else { None })
        .or_else(|| s.attempt(|s| parse_command(s, kind)))?;
    s.maybe_spaces();
    Some(grant)
}

/// `allow rwx [network N] [fsname F]`. The file system's name limits nothing here: there are no file systems.
fn parse_everything(s: &mut Scan<'_>, kind: Kind) -> Option<Grant> {
    s.lit("allow")?;
    s.spaces()?;
    let bits = parse_permissions(s)?;
    let network = s.network()?;
    if kind == Kind::Mon && s.spaced("fsname").is_some() {
        s.equals_or_spaces()?;
        s.run("a file system's name", |c| c.is_ascii_alphanumeric() || "_.-".contains(c))?;
    }
    Some(Grant { scope: Scope::Everything, bits, network })
}

/// `[allow] profile NAME [with ...] [network N]`; only the manager's profiles take arguments.
fn parse_profile(s: &mut Scan<'_>, kind: Kind) -> Option<Grant> {
    s.attempt(|s| s.lit("allow").and_then(|()| s.spaces()));
    s.lit("profile")?;
    s.equals_or_spaces()?;
    let name = s.word("a profile")?;
    let mut with = BTreeMap::new();
    if kind == Kind::Mgr {
        while let Some((key, value)) = s.attempt(|s| s.spaces().and_then(|()| parse_demand(s, kind))) {
            with.insert(key, value);
        }
        if !profile::mgr_accepts(&name, &with) {
            return s.reject("a profile that the manager knows, with pool and namespace at most");
        }
    }
    let network = s.network()?;
    Some(Grant { scope: Scope::Profile(name, with), bits: 0, network })
}

/// `allow service NAME rwx [network N]`.
fn parse_service(s: &mut Scan<'_>) -> Option<Grant> {
    s.lit("allow")?;
    let name = s.keyed("service", "a service")?;
    s.spaces()?;
    let bits = parse_permissions(s)?;
    let network = s.network()?;
    Some(Grant { scope: Scope::Service(name), bits, network })
}

/// `allow module NAME [with K=V ...] rwx [network N]`.
fn parse_module(s: &mut Scan<'_>) -> Option<Grant> {
    let kind = Kind::Mgr;
    s.lit("allow")?;
    let name = s.keyed("module", "a module")?;
    let with = parse_with(s, kind)?;
    s.spaces()?;
    let bits = parse_permissions(s)?;
    let network = s.network()?;
    Some(Grant { scope: Scope::Module(name, with), bits, network })
}

/// `allow command NAME [with K=V ...] [network N]`.
fn parse_command(s: &mut Scan<'_>, kind: Kind) -> Option<Grant> {
    s.lit("allow")?;
    let prefix = s.keyed("command", "a command")?;
    let with = parse_with(s, kind)?;
    let network = s.network()?;
    Some(Grant { scope: Scope::Command(prefix, with), bits: 0, network })
}

/// ` with K=V K2 prefix V2 K3 regex V3`, or nothing. A demand that was begun must be whole.
fn parse_with(s: &mut Scan<'_>, kind: Kind) -> Option<BTreeMap<String, Constraint>> {
    let mut with = BTreeMap::new();
    if s.spaced("with").is_some() {
        s.spaces()?;
        let (key, value) = parse_demand(s, kind)?;
        with.insert(key, value);
        while let Some((key, value)) = s.attempt(|s| s.spaces().and_then(|()| parse_demand(s, kind))) {
            with.insert(key, value);
        }
    }
    Some(with)
}

fn parse_demand(s: &mut Scan<'_>, kind: Kind) -> Option<(String, Constraint)> {
    let key = s.word("an argument's name")?;
    let equals = s.attempt(|s| {
        // Only the manager's grammar has space around the sign.
        if kind == Kind::Mgr {
            s.maybe_spaces();
        }
        s.lit("=")?;
        if kind == Kind::Mgr {
            s.maybe_spaces();
        }
        s.word("a value")
    });
    if let Some(value) = equals {
        return Some((key, Constraint::Equal(value)));
    }
    s.spaces()?;
    if s.lit("prefix").is_some() {
        s.spaces()?;
        return Some((key, Constraint::Prefix(s.word("a prefix")?)));
    }
    s.lit("regex")?;
    s.spaces()?;
    let pattern = s.attempt(|s| Constraint::pattern(&s.word("a regular expression")?))?;
    Some((key, pattern))
}

/// `*`, `all`, or some of `r`, `w`, `x` in this order.
fn parse_permissions(s: &mut Scan<'_>) -> Option<u8> {
    if s.lit("*").or_else(|| s.lit("all")).is_some() {
        return Some(may::ANY);
    }
    let mut bits = 0;
    for (letter, bit) in [("r", may::READ), ("w", may::WRITE), ("x", may::EXEC)] {
        if s.lit(letter).is_some() {
            bits |= bit;
        }
    }
    (bits != 0).then_some(bits)
}
