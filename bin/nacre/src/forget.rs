//! `nacre forget`: an OSD that left the cluster leaves DIR, too; a host that is gone for ever leaves the cluster.

use crate::cli::Forget;
use crate::state::{Lock, State};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Runs `nacre forget`; gives the exit code.
pub(crate) fn forget(args: &Forget) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    match args.what.trim_start_matches("osd.").parse() {
        Ok(id) => forget_osd(&dir, id, args.yes_i_really_mean_it),
        Err(_) => crate::hosts::forget(&dir, &args.what, args.yes_i_really_mean_it, args.data_is_lost),
    }
}

/// Drops an OSD from DIR.
fn forget_osd(dir: &Path, id: u32, sure: bool) -> Result<u8> {
    let mut state = State::load(dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    let _lock = Lock::take(&dir.join("lock"), &dir.display().to_string())?;
    Lock::check(&dir.join("mon/lock"), &format!("the monitor of {}", dir.display()))?;
    let Some(at) = state.osds.iter().position(|o| o.id == id) else {
        bail!("the cluster in {} has no osd.{}", dir.display(), id);
    };
    let folder = state.osds[at].folder(dir);
    Lock::check(&folder.join("lock"), &format!("osd.{}", id))?;
    if state.osds.len() == 1 {
        bail!("osd.{} is the only one", id);
    }
    if !sure {
        bail!("this deletes the data of osd.{} for ever; if you mean it, add --yes-i-really-mean-it", id);
    }
    let osd = state.osds.remove(at);
    state.save(dir)?;
    std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    match &osd.disk {
        None => println!("osd.{} is gone", osd.id),
        Some(disk) => println!("osd.{} is gone; {} still holds its data and can be cleared", osd.id, disk.display()),
    }
    Ok(0)
}
