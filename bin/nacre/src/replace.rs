//! `nacre replace`: a new disk takes the number of an OSD that was destroyed.
//!
//! The old disk is not touched, and what is on it does not come back: the new one has an identity of its own, and the
//! monitors take only that from now on.
//!
//! *Order.* First all is looked at: the OSD is destroyed in the map, the new disk is empty. Then DIR gets the new
//! identity, then the cluster (`osd new`), then DIR the new key. Cut off in between it is run again: it finds the new
//! identity in DIR, and goes on with it. The store itself is made at the next start.

use crate::cli::{Disk, Replace};
use crate::client::Client;
use crate::plan::{self, Content};
use crate::state::{OsdState, State};
use crate::{join, token, wipe};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Runs `nacre replace`; gives the exit code.
pub(crate) fn replace(args: &Replace) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    let mut state = State::load(&dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    let Some(old) = state.osds.iter().find(|o| o.id == args.id).cloned() else {
        bail!("the cluster in {} has no osd.{}", dir.display(), args.id);
    };
    let new = successor(&state, &old, args.disk.as_ref(), &dir)?;
    let admin = token::administrator(&dir)?;
    is_destroyed(&admin, &new)?;
    if new.disk.is_none() && new.uuid()? != old.uuid()? {
        clear(&old, &dir, args.yes_i_really_mean_it)?;
    }
    let cleared = if args.wipe { wipe::plan_one(&state, &new, &dir)? } else { Vec::new() };
    let content = plan::usable_after(&new, &dir, &cleared).with_context(|| format!("osd.{}", new.id))?;
    if content != Content::Empty && new.uuid()? != old.uuid()? {
        bail!("{} is not empty", new.block(&dir).display());
    }

    // From here on, things change.
    wipe::clear(&cleared)?;
    let mut osd = new.clone();
    state.change(&dir, |state| state.osds.iter_mut().filter(|o| o.id == new.id).for_each(|o| *o = new.clone()))?;
    join::number_osd(&dir, &mut osd, Some(new.id), &admin)?;
    println!("osd.{} will be made anew on {}: start it, or the host's process", new.id, new.block(&dir).display());
    Ok(0)
}

/// The OSD with its new disk: as it was written by a run that was cut off, or one with a new identity.
fn successor(state: &State, old: &OsdState, disk: Option<&Disk>, dir: &Path) -> Result<OsdState> {
    let (path, journal) = match disk {
        None => (old.disk.clone(), old.journal.clone()),
        Some(disk) => {
            let path = plan::resolve(&disk.path, true).with_context(|| format!("--disk {}", disk.path.display()))?;
            let journal = disk.journal.as_ref().map(|journal| plan::resolve(journal, false)).transpose()?;
            (Some(path), journal)
        }
    };
    let others = || state.osds.iter().filter(|o| o.id != old.id);
    let taken = |place: &PathBuf| {
        others().any(|o| plan::same_disk(&o.block(dir), place) || plan::same_disks(o.journal.as_ref(), Some(place)))
    };
    if let Some(place) = path.iter().chain(&journal).find(|place| taken(place)) {
        bail!("{} belongs to another OSD of this host", place.display());
    }
    if path.is_some() && plan::same_disks(path.as_ref(), journal.as_ref()) {
        bail!("{} is given twice", path.unwrap_or_default().display());
    }
    if !old.made && (&old.disk, &old.journal) == (&path, &journal) {
        return Ok(old.clone());
    }
    OsdState::new(old.id, old.size, path, journal)
}

/// Refuses an OSD whose data was not given up.
fn is_destroyed(admin: &Client, new: &OsdState) -> Result<()> {
    let id = new.id;
    let reply = admin.run(&json!({"prefix": "osd dump", "format": "json"}))?;
    let map: Value = serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")?;
    let Some(osd) = map["osds"].as_array().and_then(|all| all.iter().find(|o| o["osd"] == id)) else {
        bail!("the cluster has no osd.{id} any more: `nacre forget --dir DIR {id}`, then `nacre up --dir DIR --disk NEW`");
    };
    let destroyed = osd["state"].as_array().is_some_and(|state| state.contains(&json!("destroyed")));
    if !destroyed && osd["uuid"] != types::Fsid(new.uuid()?).to_string() {
        bail!(
            "osd.{id} is not destroyed: its data still counts. Stop it, then `ceph osd destroy {id} --yes-i-really-mean-it`; \
             `ceph osd safe-to-destroy {id}` says whether it is needed"
        );
    }
    Ok(())
}

/// Removes the file of an OSD that lives in DIR.
fn clear(old: &OsdState, dir: &Path, sure: bool) -> Result<()> {
    let block = old.block(dir);
    if old.disk.is_some() || !block.exists() {
        return Ok(());
    }
    if !sure {
        bail!("this deletes {}; if you mean it, add --yes-i-really-mean-it", block.display());
    }
    std::fs::remove_file(&block).with_context(|| format!("remove {}", block.display()))
}
