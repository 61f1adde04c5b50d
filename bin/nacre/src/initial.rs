//! The first keys of a cluster: of its daemons, and of the administrator.

use crate::keys;
use crate::monitors;
use crate::state::{self, State};
use anyhow::Result;
use std::path::Path;
use types::EntityName;

/// Rights of the administrator.
pub(crate) const ADMIN_CAPS: &[(&str, &str)] = &[("mds", "allow *"), ("mgr", "allow *"), ("mon", "allow *"), ("osd", "allow *")];
/// Rights of monitors.
pub(crate) const MON_CAPS: &[(&str, &str)] = &[("mon", "allow *")];
const MGR_CAPS: &[(&str, &str)] = &[("mds", "allow *"), ("mon", "allow profile mgr"), ("osd", "allow *")];
/// Rights of OSDs.
pub(crate) const OSD_CAPS: &[(&str, &str)] = &[("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")];

/// Keys of all daemons and of the administrator, from their keyrings; those that are missing are made, unless the
/// monitor has others already: a keyring with an invented key would only look as if it were the lost one.
pub(crate) fn initial_keys(dir: &Path, state: &State) -> Result<Vec<mon::InitialKey>> {
    let mut all = vec![
        (dir.join("mon/keyring"), "mon.".to_owned(), MON_CAPS),
        (dir.join("mon/mgr.keyring"), format!("mgr.{}", monitors::FIRST_MGR), MGR_CAPS),
    ];
    let admin = dir.join("keyring");
    match state.osds.iter().any(|o| o.made) && !admin.exists() {
        true => eprintln!("warning: {}", lost_key(&admin, dir, "client.admin")),
        false => {
            if let Some(line) = std::fs::read_to_string(&admin).ok().and_then(|text| keys::malformed(&text)) {
                eprintln!(
                    "warning: line {line} of {} is neither a section nor `name = value`, so Ceph's clients refuse the whole file (Malformed \
                     input): remove the line",
                    admin.display()
                );
            }
            all.push((admin, "client.admin".to_owned(), ADMIN_CAPS));
        }
    }
    for osd in &state.osds {
        let keyring = osd.folder(dir).join("keyring");
        if !osd.made {
            state::make_folder(&osd.folder(dir))?;
        } else if !keyring.exists() {
            continue;
        }
        all.push((keyring, format!("osd.{}", osd.id), OSD_CAPS));
    }
    let made = all.into_iter().map(|(path, name, caps)| {
        let key = keys::load_or_make(&path, &name, caps)?;
        let caps = caps.iter().map(|(service, cap)| ((*service).to_owned(), (*cap).to_owned())).collect();
        let name: EntityName = name.parse().map_err(|_| anyhow::anyhow!("'{name}' is not a name"))?;
        Ok(mon::InitialKey { name, key, caps })
    });
    made.collect()
}

/// Returns what to do about a keyring that is gone although the monitor knows its key.
pub(crate) fn lost_key(path: &Path, dir: &Path, entity: &str) -> String {
    format!(
        "{} is gone, which held the key of {entity}. Put it back, or get it from the monitor (`nacre mon` runs it alone): \
         (umask 077; ceph -c {}/ceph.conf -n mon. -k {}/mon/keyring auth get {entity} -o {})",
        path.display(),
        dir.display(),
        dir.display(),
        path.display()
    )
}
