//! A grant at monitors and manager: what it is about, and which permissions it gives.

use crate::constraint::Constraint;
use crate::network::Network;
use std::collections::BTreeMap;

/// Permissions as bits.
pub(crate) mod may {
    pub(crate) const READ: u8 = 1;
    pub(crate) const WRITE: u8 = 2;
    pub(crate) const EXEC: u8 = 4;
    pub(crate) const ALL: u8 = READ | WRITE | EXEC;
    /// `*`.
    pub(crate) const ANY: u8 = 0xff;
}

/// Subject of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every service but `config-key`, whose values are secrets.
    Everything,
    /// One service (`mon`, `osd`, `pg`, `auth`, ...).
    Service(String),
    /// One module of the manager, with demands on the command's arguments.
    Module(String, BTreeMap<String, Constraint>),
    /// One command, with demands on its arguments; allows it entirely.
    Command(String, BTreeMap<String, Constraint>),
    /// Name of a profile. Its rights depend on who asks; it is spread out per question. The arguments limit a manager's
    /// profile.
    Profile(String, BTreeMap<String, Constraint>),
}

/// One grant of an entity's caps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) scope: Scope,
    /// Permissions; commands and profiles have none of their own.
    pub(crate) bits: u8,
    pub(crate) network: Option<Network>,
}

impl Grant {
    pub(crate) fn service(name: &str, bits: u8) -> Self {
        Self { scope: Scope::Service(name.into()), bits, network: None }
    }

    pub(crate) fn command(prefix: &str, with: impl IntoIterator<Item = (&'static str, Constraint)>) -> Self {
        let with = with.into_iter().map(|(key, constraint)| (key.to_owned(), constraint)).collect();
        Self { scope: Scope::Command(prefix.into(), with), bits: 0, network: None }
    }

    pub(crate) fn everything(bits: u8) -> Self {
        Self { scope: Scope::Everything, bits, network: None }
    }

    /// Returns true if it gives everything: `allow *`.
    pub(crate) fn is_allow_all(&self) -> bool {
        self.scope == Scope::Everything && self.bits == may::ANY
    }
}
