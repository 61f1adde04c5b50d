//! What a session may ask for: each command against the rights of who gives it.
//!
//! - *A command to the monitors* needs what its row says of the monitors' rights.
//! - *A command to the manager* about images needs the manager's rights. The manager takes the monitors' commands too: it is the same
//!   process. What only looks at OSDs and placement groups is the manager's business, as in Ceph. All else needs the monitors' rights of
//!   the same entity as well, so that nobody gets past those by asking at another door.
//! - *A command to the daemon itself* (`ceph tell`) needs `rwx` of `mon`, at the manager `allow *`, as in Ceph, and what its row says.
//! - *A command that makes a key or gives one out* needs `rx` of `auth`, or `rwx`, or a grant for that command by name. `osd new` makes the
//!   key of an OSD when secrets come with it.
//!
//! Rights are those of the place where the session is: an address is the socket's, not the one that the peer names.
//! `rights/table.txt` shows which rights let which command through; a test compares it.

use caps::{MgrCaps, MonCaps};
use grammar::{Asker, Refusal};
use manager::desk::May;
use moncommands::{self as commands, Parsed};
use std::collections::BTreeMap;
use std::net::IpAddr;
use types::{EntityName, Errno};

#[cfg(test)]
mod tests;

/// Rights of a session.
#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// At the monitor.
    Mon(MonCaps),
    /// At the manager, and what the same entity may do at the monitors.
    Mgr(MgrCaps, MonCaps),
}

impl Rights {
    /// Reads rights of somebody at the monitor; `None`: everything. Text that is no capability allows nothing.
    pub(crate) fn at_monitor(caps: Option<&str>, from: Option<IpAddr>) -> Self {
        Self::Mon(caps.map_or_else(MonCaps::allow_all, |text| mon_caps(text, from)))
    }

    /// Reads rights of somebody at the manager: those of its ticket, and those at the monitors.
    pub(crate) fn at_manager(caps: Option<&str>, mon: Option<&str>, from: Option<IpAddr>) -> Self {
        let own = caps.map_or_else(MgrCaps::allow_all, |text| {
            let caps = MgrCaps::parse(text).unwrap_or_default();
            from.map_or_else(|| caps.clone(), |ip| caps.seen_from(ip))
        });
        Self::Mgr(own, mon.map_or_else(MonCaps::allow_all, |text| mon_caps(text, from)))
    }

    /// Returns true if a service of the monitors may be read or written.
    pub(crate) fn allows(&self, service: &str, read: bool, write: bool) -> bool {
        match self {
            Self::Mon(caps) => caps.allows(service, read, write, false),
            Self::Mgr(..) => false,
        }
    }

    /// Returns true if somebody may do everything at the monitors.
    pub(crate) fn may_do_all(&self) -> bool {
        match self {
            Self::Mon(caps) | Self::Mgr(_, caps) => caps.allows("mon", true, true, true),
        }
    }

    /// Returns true if somebody may let clients in again that were shut out.
    pub(crate) fn may_lift_fences(&self) -> bool {
        match self {
            Self::Mon(caps) | Self::Mgr(_, caps) => caps.allows("osd", true, true, false),
        }
    }

    /// Returns true if somebody may say what only OSDs say. As in Ceph, that needs the right to execute, which no
    /// user's `rw` has.
    pub(crate) fn may_be_an_osd(&self) -> bool {
        match self {
            Self::Mon(caps) => caps.allows("osd", true, true, true),
            Self::Mgr(..) => false,
        }
    }

    /// Returns true if somebody who is called a monitor may say what monitors say to each other. The key that they
    /// share may, whatever its rights are; an entity `mon.NAME` that somebody made needs all rights to monitors, as in
    /// Ceph.
    pub(crate) fn may_be_a_monitor(&self) -> bool {
        match self {
            Self::Mon(caps) => caps.allows("mon", true, true, true),
            Self::Mgr(..) => false,
        }
    }

    /// Returns true if somebody may show itself as a service's daemon: who has any right at the manager, a gateway (it
    /// may write at the monitors), a mirror (it may read what peers are).
    pub(crate) fn may_serve(&self, name: &EntityName) -> bool {
        let Self::Mgr(own, mon) = self else { return false };
        let peers = BTreeMap::from([("key".to_owned(), "rbd/mirror/peer/".to_owned())]);
        own.is_anybody()
            || mon.allows("mon", false, true, false)
            || mon.allows_command(name, "config-key", "r", "config-key get", &peers)
    }

    /// Returns true if they let this command through. `told`: it is for the daemon itself; `secrets`: something came
    /// with it.
    fn let_through(&self, parsed: &Parsed, name: &EntityName, told: bool, secrets: bool) -> bool {
        match self {
            Self::Mon(caps) => {
                let here = !told || at_monitors(caps, parsed, name, "mon", "rwx");
                here && own_needs(caps, parsed, name, secrets)
            }
            Self::Mgr(own, mon) => {
                let here = if told { own.is_allow_all() } else { allowed_at_manager(own, parsed, name) };
                here && (is_managers(parsed) || own_needs(mon, parsed, name, secrets))
            }
        }
    }
}

fn mon_caps(text: &str, from: Option<IpAddr>) -> MonCaps {
    let caps = MonCaps::parse(text).unwrap_or_default();
    from.map_or_else(|| caps.clone(), |ip| caps.seen_from(ip))
}

fn at_monitors(caps: &MonCaps, parsed: &Parsed, name: &EntityName, module: &str, perm: &str) -> bool {
    caps.allows_command(name, module, perm, &parsed.command.signature.prefix, &parsed.args.texts())
}

/// Returns what a command's row says, and what comes with the command.
fn own_needs(caps: &MonCaps, parsed: &Parsed, name: &EntityName, secrets: bool) -> bool {
    let row = parsed.command.row;
    let makes_key = secrets && matches!(parsed.command.signature.prefix.as_str(), "osd new" | "osd create");
    at_monitors(caps, parsed, name, row.module, row.perm) && (!makes_key || at_monitors(caps, parsed, name, "auth", "rwx"))
}

/// Returns true if a command is one that the manager alone decides about. Who posts reports of crashes may do nothing
/// else, and at the monitors only read (`profile crash`).
fn is_managers(parsed: &Parsed) -> bool {
    let (row, prefix) = (parsed.command.row, parsed.command.signature.prefix.as_str());
    prefix.starts_with("rbd ") || prefix == "crash post" || row.perm == "r" && matches!(row.module, "mgr" | "pg" | "osd")
}

/// Says whether somebody may give a command; `None` as rights: the own process, which may.
pub(crate) fn allowed(parsed: &Parsed, asker: &Asker, rights: Option<&Rights>, told: bool, secrets: bool) -> Result<(), Refusal> {
    // What exists is no secret, and without it nobody could type anything.
    if parsed.command.signature.prefix == "get_command_descriptions" {
        return Ok(());
    }
    if rights.is_none_or(|rights| rights.let_through(parsed, &asker.name, told, secrets)) {
        return Ok(());
    }
    let why = match rights {
        Some(Rights::Mgr(..)) => "access denied: does your client key have mgr caps that allow it?",
        _ => "access denied",
    };
    Err(Refusal::new(Errno::EACCES, why))
}

/// The name of Ceph's module for images, which rights may name.
const MODULE: &str = "rbd_support";

/// Returns where somebody may have done what a command is for.
pub(crate) fn may_in(parsed: &Parsed, asker: Asker, rights: Option<&Rights>) -> May {
    let perm = parsed.command.row.perm;
    match rights.cloned() {
        Some(Rights::Mgr(caps, _)) => Box::new(move |pool, nspace| {
            let place = [("pool", pool), ("namespace", nspace)].map(|(name, value)| (name.to_owned(), value.to_owned()));
            caps.allows_module(&asker.name, MODULE, perm, &place.into())
        }),
        // The monitor's own rules let the command through.
        Some(Rights::Mon(_)) | None => Box::new(|_, _| true),
    }
}

/// Commands on images may also be allowed by rights to Ceph's module for them, for single pools and namespaces. What lists tasks and
/// schedules of all pools is answered to whoever may ask in any pool; tasks that others may see are left out. Figures of all pools, and schedules
/// for all of them, need rights to all.
fn allowed_at_manager(caps: &MgrCaps, parsed: &Parsed, name: &EntityName) -> bool {
    let (row, prefix, args) = (parsed.command.row, &parsed.command.signature.prefix, parsed.args.texts());
    if !prefix.starts_with("rbd ") {
        return caps.allows_command(name, row.module, "", row.perm, prefix, &args);
    }
    let place = commands::place_of_images(&parsed.args);
    // New tasks are refused where they are taken, which says for which pool.
    let everywhere =
        prefix.starts_with("rbd task add ") || place.is_empty() && row.perm == "r" && !prefix.starts_with("rbd perf ");
    caps.allows_command(name, row.module, MODULE, row.perm, prefix, &args)
        && (everywhere || caps.allows_module(name, MODULE, row.perm, &place))
}
