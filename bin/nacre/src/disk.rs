//! `nacre disk`: one disk of a host is added, replaced or removed, while all other OSDs of the host go on.
//!
//! *Who owns what.* `nacre.toml` says which OSDs the host has; this writes it. The host's process has the list of what runs; it is asked to
//! start and to stop one OSD ([`crate::control`]). The monitors have the number, the key and the map.
//!
//! *An OSD that is held* (`held` in `nacre.toml`) is in the middle of one of these commands. No start runs it. What was interrupted goes on when the
//! same command is run again: each step looks at what is already done.
//!
//! | add | if it ends here |
//! |---|---|
//! | 1. the disk is looked at: it is there, empty, large enough, nobody's | nothing has changed |
//! | 2. `nacre.toml` gets the OSD with a new identity, held, without a number | the next start says so |
//! | 3. the monitors give a number for that identity, and a key | the same: the identity keeps its number |
//! | 4. with `--wipe`, the disk is cleared | the same |
//! | 5. it is not held any more | the next start runs it; the same command asks the process to |
//! | 6. the process makes the store and starts it | the same |
//!
//! | replace | if it ends here |
//! |---|---|
//! | 1. the new disk is looked at; the monitors say whether the data can go elsewhere | nothing has changed |
//! | 2. the OSD is taken out; its data moves | `ceph osd in N` takes it back |
//! | 3. it is held, and stopped | it is not started; its data is elsewhere |
//! | 4. `ceph osd destroy N` | the same |
//! | 5. `nacre.toml` gets the new identity and the new disk, held | the same |
//! | 6. to the end as from step 3 of add, with its number | as there |
//!
//! | rm | if it ends here |
//! |---|---|
//! | 1. the monitors say whether the data can go elsewhere | nothing has changed |
//! | 2. the OSD is taken out; its data moves | `ceph osd in N` takes it back |
//! | 3. it is held, and stopped | it is not started; its data is elsewhere |
//! | 4. `ceph osd purge N` | the same |
//! | 5. `nacre.toml` forgets it, then its folder is removed | the next `rm` removes the folder |
//!
//! *With --force* step 2 does not wait. What only this OSD has is given up only if that is said, too (`--data-is-lost`).

use crate::cli::{Disk, DiskAdd, DiskCommand, DiskLs, DiskReplace, DiskRm};
use crate::client::{Client, Failure};
use crate::control::{self, Host};
use crate::leave::{in_words, span_left};
use crate::plan;
use crate::state::{Lock, OsdState, State};
use crate::token::administrator;
use crate::{join, wipe};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use types::{Errno, Fsid};

/// Held by the command that changes something, in DIR.
pub(crate) const LOCK: &str = "disk.lock";
/// The first number of OSDs that have none from the cluster yet: above all that it gives.
const UNNUMBERED: u32 = 1 << 24;
/// Time between two looks at how far the data is, and between two lines that say it.
const LOOK: Duration = Duration::from_secs(1);
const SAY: Duration = Duration::from_secs(5);
/// Most time that monitors may take to know that an OSD is down, or all of what they are asked.
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs `nacre disk`; gives the exit code.
pub(crate) fn disk(command: &DiskCommand) -> Result<u8> {
    match command {
        DiskCommand::Ls(args) => ls(args),
        DiskCommand::Add(args) => add(args),
        DiskCommand::Replace(args) => replace(args),
        DiskCommand::Rm(args) => rm(args),
    }
}

fn load(dir: &Path) -> Result<(PathBuf, State)> {
    let dir = std::path::absolute(dir).with_context(|| dir.display().to_string())?;
    let state = State::load(&dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    Ok((dir, state))
}

/// Takes the lock for a change, and looks at the state as it is then.
fn begin(dir: &Path) -> Result<(Lock, State)> {
    let lock = Lock::take(&dir.join(LOCK), &format!("{} (by another `nacre disk`)", dir.display()))?;
    let (_, state) = load(dir)?;
    Ok((lock, state))
}

fn find(state: &State, id: u32) -> Option<&OsdState> {
    state.osds.iter().find(|osd| osd.id == id)
}

fn named<'a>(state: &'a State, dir: &Path, id: u32) -> Result<&'a OsdState> {
    let all = || state.osds.iter().map(|osd| osd.id.to_string()).collect::<Vec<_>>().join(", ");
    find(state, id).with_context(|| format!("the host of {} has no osd.{id}; it has: {}", dir.display(), all()))
}

/// Changes what `nacre.toml` says of one OSD, which its identity names.
fn change(state: &mut State, dir: &Path, uuid: [u8; 16], change: impl Fn(&mut OsdState)) -> Result<()> {
    state.change(dir, |state| state.osds.iter_mut().filter(|osd| osd.uuid().ok() == Some(uuid)).for_each(change))
}

fn ls(args: &DiskLs) -> Result<u8> {
    let (dir, state) = load(&args.dir)?;
    for osd in &state.osds {
        let what = match (osd.held, osd.made) {
            (false, true) => "",
            (false, false) => "  not made yet",
            (true, true) => "  being replaced or removed: `nacre disk replace` or `rm` goes on",
            (true, false) => "  being added or replaced: `nacre disk add` or `replace` goes on",
        };
        let name = name_of(osd);
        let journal = osd.journal.as_ref().map_or(String::new(), |journal| format!(",journal={}", journal.display()));
        println!("{name:<12} {}{journal}{what}", osd.block(&dir).display());
    }
    Ok(0)
}

fn name_of(osd: &OsdState) -> String {
    if osd.id >= UNNUMBERED { "a new OSD".to_owned() } else { format!("osd.{}", osd.id) }
}

/// Returns the path of a new disk: it must be there, and belong to no other OSD of the host.
fn places(state: &State, dir: &Path, disk: &Disk, own: Option<[u8; 16]>) -> Result<(PathBuf, Option<PathBuf>)> {
    let there = |path: &Path, folder: bool| -> Result<PathBuf> {
        if !path.exists() {
            bail!("{} does not exist. (A file for an OSD is made with `truncate -s 64G FILE`.)", path.display());
        }
        plan::resolve(path, folder).with_context(|| path.display().to_string())
    };
    let block = there(&disk.path, true)?;
    let journal = disk.journal.as_ref().map(|journal| there(journal, false)).transpose()?;
    if plan::same_disks(Some(&block), journal.as_ref()) {
        bail!("{} is given twice", block.display());
    }
    for place in std::iter::once(&block).chain(&journal) {
        let has = |osd: &&OsdState| {
            plan::same_disk(&osd.block(dir), place)
                || plan::same_disks(osd.journal.as_ref(), Some(place)) && osd.journal.is_some()
        };
        if let Some(osd) = state.osds.iter().filter(|osd| own.is_none() || osd.uuid().ok() != own).find(has) {
            bail!("{} belongs to {} of this host", place.display(), name_of(osd));
        }
    }
    Ok((block, journal))
}

/// Says whether a disk can be made an OSD of; gives what must be cleared before. Changes nothing.
fn check_new(state: &State, osd: &OsdState, dir: &Path, clear: bool) -> Result<Vec<PathBuf>> {
    let place = osd.block(dir);
    for disk in std::iter::once(&place).chain(&osd.journal) {
        wipe::free(disk)?;
    }
    let cleared = if clear { wipe::plan_one(state, osd, dir)? } else { Vec::new() };
    plan::usable_after(osd, dir, &cleared)?;
    Ok(cleared)
}

fn add(args: &DiskAdd) -> Result<u8> {
    let (dir, _) = load(&args.dir)?;
    let (_lock, mut state) = begin(&dir)?;
    let begun = state.osds.iter().find(|osd| !osd.made && is_on(osd, &args.disk)).cloned();
    if let Some(osd) = begun.as_ref().filter(|osd| !osd.held) {
        return start(&dir, osd);
    }
    let (block, journal) = places(&state, &dir, &args.disk, begun.as_ref().and_then(|osd| osd.uuid().ok()))?;
    let osd = match begun {
        Some(osd) => osd,
        None => {
            let size = plan::length(&block).unwrap_or(plan::DEFAULT_SIZE);
            let id = (UNNUMBERED..).find(|id| find(&state, *id).is_none()).context("there is no number left")?;
            OsdState::new(id, size, Some(block), journal)?.held()
        }
    };
    let cleared = check_new(&state, &osd, &dir, args.wipe)?;
    let admin = administrator(&dir)?;
    all_are_known(&admin, &state)?;
    if find(&state, osd.id).is_none() {
        state.change(&dir, |state| state.osds.push(osd.clone()))?;
    }
    let wanted = (osd.id < UNNUMBERED).then_some(osd.id);
    number_and_start(&mut state, &dir, &admin, &osd, wanted, &cleared)
}

/// Returns true if an OSD is on this disk.
fn is_on(osd: &OsdState, disk: &Disk) -> bool {
    let same = |path: &PathBuf| plan::resolve(&disk.path, true).is_ok_and(|given| plan::same_disk(path, &given));
    osd.disk.as_ref().is_some_and(same)
}

/// Takes the last steps of an OSD that is new in `nacre.toml`: its number and key, its disk, its start.
fn number_and_start(
    state: &mut State,
    dir: &Path,
    admin: &Client,
    osd: &OsdState,
    wanted: Option<u32>,
    cleared: &[PathBuf],
) -> Result<u8> {
    let mut osd = osd.clone();
    join::number_osd(dir, &mut osd, wanted, admin)?;
    let uuid = osd.uuid()?;
    change(state, dir, uuid, |entry| entry.id = osd.id)?;
    wipe::clear(cleared)?;
    change(state, dir, uuid, |entry| entry.held = false)?;
    start(dir, &osd)
}

/// Has the process start an OSD that is not held any more, if it does not run it already.
fn start(dir: &Path, osd: &OsdState) -> Result<u8> {
    let place = osd.block(dir).display().to_string();
    match control::host(dir) {
        Host::DoesNot => println!("osd.{} on {place} is ready: start the host's process, or `nacre osd --id {}`", osd.id, osd.id),
        Host::Runs => match control::ask(dir, "start", osd.id)?.as_str() {
            "serves" => println!("osd.{} on {place} serves; `ceph -s` shows how it is filled", osd.id),
            _ => {
                println!("osd.{} on {place} is started, and does not serve yet: its log and `ceph health detail` say why", osd.id)
            }
        },
    }
    Ok(0)
}

/// Refuses a host of whose OSDs the cluster does not know one: its number could be given to the new disk.
fn all_are_known(admin: &Client, state: &State) -> Result<()> {
    let map = map(admin)?;
    for osd in state.osds.iter().filter(|osd| !osd.held) {
        if entry(&map, osd.id).is_none() {
            bail!(
                "the cluster has no osd.{0}, and this host has: wait until it runs, or remove it here with `nacre disk rm {0}`",
                osd.id
            );
        }
    }
    Ok(())
}

fn map(admin: &Client) -> Result<Value> {
    let reply = admin.run(&json!({"prefix": "osd dump", "format": "json"}))?;
    serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")
}

fn entry(map: &Value, id: u32) -> Option<&Value> {
    map["osds"].as_array()?.iter().find(|osd| osd["osd"] == id)
}

/// State of an OSD of this host in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Its number is none, or another store's.
    Not,
    /// Its data was given up, its number is kept.
    Destroyed,
    /// It counts.
    Counts,
}

fn known(map: &Value, osd: &OsdState) -> Result<Known> {
    let Some(entry) = entry(map, osd.id) else { return Ok(Known::Not) };
    let destroyed = entry["state"].as_array().is_some_and(|state| state.contains(&json!("destroyed")));
    Ok(match entry["uuid"] == Fsid(osd.uuid()?).to_string() {
        true => Known::Counts,
        false if destroyed => Known::Destroyed,
        false => Known::Not,
    })
}

/// Ways in which an OSD goes.
#[derive(Clone, Copy)]
struct How {
    /// It is not waited for until its data is elsewhere.
    force: bool,
    /// Gives up what only this OSD has.
    data_is_lost: bool,
}

fn replace(args: &DiskReplace) -> Result<u8> {
    let (dir, state) = load(&args.dir)?;
    let old = named(&state, &dir, args.id)?.clone();
    if !old.held && !old.made && args.disk.as_ref().is_none_or(|disk| is_on(&old, disk)) {
        return start(&dir, &old);
    }
    let admin = administrator(&dir)?;
    if let Host::DoesNot = control::host(&dir) {
        Lock::check(&old.folder(&dir).join("lock"), &format!("osd.{}", old.id))?;
    }
    // All is looked at before anything changes.
    let new = successor(&state, &old, args.disk.as_ref(), &dir)?;
    let goes_on = new.uuid()? == old.uuid()?;
    if new.disk.is_some() && !goes_on {
        is_another(&old, &new, &dir)?;
        check_new(&state, &new, &dir, args.wipe)?;
    }
    let how = How { force: args.force || !old.made, data_is_lost: args.data_is_lost || !old.made };
    let knows = known(&map(&admin)?, &old)?;
    if knows == Known::Not && (old.made || !old.held) {
        bail!("the cluster has no osd.{0} of this identity any more: `nacre disk rm {0}`, then `nacre disk add`", old.id);
    }
    let goes = knows == Known::Counts && !goes_on;
    if goes {
        drain(&admin, old.id, how)?;
    }
    let (_lock, mut state) = begin(&dir)?;
    let old = named(&state, &dir, args.id)?.clone();
    if !goes_on {
        hold_and_stop(&mut state, &dir, &old)?;
    }
    if goes {
        end(&admin, "osd destroy", old.id, how)?;
    }
    let new = if goes_on { old.clone() } else { new.held() };
    if new.disk.is_none() && !goes_on {
        remove_file(&old.block(&dir))?;
    }
    let cleared = check_new(&state, &new, &dir, args.wipe)?;
    let uuid = old.uuid()?;
    change(&mut state, &dir, uuid, |entry| *entry = new.clone())?;
    number_and_start(&mut state, &dir, &admin, &new, Some(new.id), &cleared)
}

/// Refuses a new disk that is the old one. One that cannot be read is that, too.
fn is_another(old: &OsdState, new: &OsdState, dir: &Path) -> Result<()> {
    let place = new.block(dir);
    if plan::same_disk(&old.block(dir), &place) && plan::holds_store_of(&place, old).unwrap_or(true) {
        bail!(
            "{} is still the old disk of osd.{}: put the new one there first, or name it: `nacre disk replace {} PATH`",
            place.display(),
            old.id,
            old.id
        );
    }
    Ok(())
}

/// The OSD with its new disk: as an interrupted run wrote it, or one with a new identity.
fn successor(state: &State, old: &OsdState, disk: Option<&Disk>, dir: &Path) -> Result<OsdState> {
    let (path, journal) = match disk {
        None => (old.disk.clone(), old.journal.clone()),
        Some(disk) => {
            let (block, journal) = places(state, dir, disk, Some(old.uuid()?))?;
            (Some(block), journal)
        }
    };
    if old.held && !old.made && plan::same_disks(old.disk.as_ref(), path.as_ref()) {
        return Ok(old.clone());
    }
    let size = path.as_deref().and_then(plan::length).unwrap_or(if disk.is_some() { plan::DEFAULT_SIZE } else { old.size });
    OsdState::new(old.id, size, path, journal)
}

fn rm(args: &DiskRm) -> Result<u8> {
    let (dir, state) = load(&args.dir)?;
    let how = How { force: args.force, data_is_lost: args.data_is_lost };
    let Some(osd) = find(&state, args.id).cloned() else {
        // An earlier run got so far.
        let folder = dir.join(format!("osd.{}", args.id));
        if folder.is_dir() {
            remove_folder(&folder)?;
            println!("osd.{} is removed", args.id);
            return Ok(0);
        }
        return named(&state, &dir, args.id).map(|_| 0);
    };
    if control::host(&dir) == Host::DoesNot {
        Lock::check(&osd.folder(&dir).join("lock"), &format!("osd.{}", osd.id))?;
    }
    let admin = administrator(&dir)?;
    let counts = known(&map(&admin)?, &osd)?;
    if counts == Known::Counts {
        drain(&admin, osd.id, how)?;
    }
    let (_lock, mut state) = begin(&dir)?;
    let osd = named(&state, &dir, args.id)?.clone();
    hold_and_stop(&mut state, &dir, &osd)?;
    if counts != Known::Not {
        end(&admin, "osd purge", osd.id, how)?;
    }
    let uuid = osd.uuid()?;
    state.change(&dir, |state| state.osds.retain(|osd| osd.uuid().ok() != Some(uuid)))?;
    if osd.folder(&dir).is_dir() {
        remove_folder(&osd.folder(&dir))?;
    }
    match &osd.disk {
        None => println!("osd.{} is removed", osd.id),
        Some(disk) => println!("osd.{} is removed; {} still holds its data and can be cleared", osd.id, disk.display()),
    }
    Ok(0)
}

/// From here on no start runs it; the process that does stops it, and nothing else.
fn hold_and_stop(state: &mut State, dir: &Path, osd: &OsdState) -> Result<()> {
    change(state, dir, osd.uuid()?, |entry| entry.held = true)?;
    match control::host(dir) {
        Host::Runs => control::ask(dir, "stop", osd.id).map(drop),
        Host::DoesNot => Ok(()),
    }
}

fn remove_folder(folder: &Path) -> Result<()> {
    std::fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))
}

fn remove_file(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.with_context(|| format!("remove {}", file.display())),
    }
}

fn drain_status(admin: &Client, id: u32) -> Result<Value> {
    let reply = admin.run(&json!({"prefix": "nacre osd drain-status", "id": id.to_string(), "format": "json"}))?;
    serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")
}

fn words<'a>(status: &'a Value, name: &str) -> &'a str {
    status[name].as_str().unwrap_or_default().trim()
}

/// Waits until an OSD can be spared; or says at once why not, if it will never be.
fn drain(admin: &Client, id: u32, how: How) -> Result<()> {
    let begin = Instant::now();
    let mut status = drain_status(admin, id)?;
    while status["unknown"] == true && begin.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
        status = drain_status(admin, id)?;
    }
    if status["safe"] == true {
        return Ok(());
    }
    if how.force {
        if status["lost"] == true && !how.data_is_lost {
            bail!(
                "{}. What only osd.{id} has would be lost for ever. If that is meant, add --data-is-lost",
                words(&status, "risk")
            );
        }
        return Ok(());
    }
    let cannot = words(&status, "cannot");
    if !cannot.is_empty() {
        bail!(
            "osd.{id} cannot give its data away: {cannot}. Or, if each group has other copies: --force, and its groups have a copy less until others \
             are filled"
        );
    }
    if status["up"] == false {
        // Nothing comes from a disk that is dead; what it had must be elsewhere by now, or come from others.
        println!("osd.{id} does not run: waiting until all it had is copied from others. If it never is: --force");
    }
    if status["in"] == true {
        admin.run(&json!({"prefix": "osd out", "ids": [id.to_string()]}))?;
        println!(
            "out: osd.{id}; its data moves to others. Interrupted, this goes on when it is run again; `ceph osd in {id}` takes it back"
        );
    }
    wait(admin, id)
}

fn wait(admin: &Client, id: u32) -> Result<()> {
    let (begin, mut said, mut most) = (Instant::now(), None::<Instant>, (0, 0));
    loop {
        let status = drain_status(admin, id)?;
        if status["safe"] == true {
            println!("no data depends on osd.{id} any more");
            return Ok(());
        }
        let (bytes, groups) = (status["bytes"].as_u64().unwrap_or(0), status["pgs"].as_u64().unwrap_or(0));
        most = (bytes.max(most.0), groups.max(most.1));
        if said.is_none_or(|at| at.elapsed() >= SAY) {
            said = Some(Instant::now());
            let why = if groups == 0 { format!(" ({})", words(&status, "why")) } else { String::new() };
            println!(
                "left: {groups} placement groups, {} objects, {}; {}{why}",
                status["objects"],
                in_words(bytes),
                span_left(most, (bytes, groups), begin.elapsed())
            );
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends an OSD at the monitors. For a moment they may still believe that it runs, or not know that all is well without it.
fn end(admin: &Client, command: &str, id: u32, how: How) -> Result<()> {
    let begin = Instant::now();
    loop {
        match admin.command(&json!({"prefix": command, "id": id, "yes_i_really_mean_it": how.force})) {
            Ok(_) => return Ok(()),
            Err(Failure::Refused(errno, _))
                if [Errno::EBUSY, Errno::EAGAIN].iter().any(|e| e.0 == errno) && begin.elapsed() < PATIENCE =>
            {
                std::thread::sleep(LOOK / 4);
            }
            Err(failure) => {
                let why = failure.sentence(admin);
                return Err(why).with_context(|| format!("{command} {id}; osd.{id} is stopped. Run this again to go on"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Fsid;

    #[test]
    fn what_the_map_knows_of_an_osd_is_told_by_its_identity() {
        let osd = OsdState::new(3, 1 << 30, None, None).unwrap();
        let uuid = Fsid(osd.uuid().unwrap()).to_string();
        let map = |uuid: &str, state: &[&str]| json!({"osds": [{"osd": 1, "uuid": "x", "state": []}, {"osd": 3, "uuid": uuid, "state": state}]});
        assert_eq!(known(&map(&uuid, &["exists", "up"]), &osd).unwrap(), Known::Counts);
        let none = Fsid::default().to_string();
        assert_eq!(known(&map(&none, &["exists", "destroyed"]), &osd).unwrap(), Known::Destroyed);
        assert_eq!(known(&map(&none, &["exists", "new"]), &osd).unwrap(), Known::Not, "the number is another disk's");
        assert_eq!(known(&json!({"osds": []}), &osd).unwrap(), Known::Not);
    }

    #[test]
    fn a_new_disk_is_there_and_nobodys() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().canonicalize().unwrap();
        let file = |name: &str| {
            let path = dir.join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let disk = |path: &Path, journal: Option<&Path>| Disk { path: path.into(), journal: journal.map(Into::into) };
        let mut state = State::new().unwrap();
        let (old, journal, new) = (file("old"), file("journal"), file("new"));
        state.osds.push(OsdState::new(0, 1 << 30, Some(old.clone()), Some(journal.clone())).unwrap());
        state.osds.push(OsdState::new(1, 1 << 30, None, None).unwrap());
        let found = |disk: &Disk, own| places(&state, &dir, disk, own).map_err(|e| e.to_string());
        assert_eq!(found(&disk(&new, None), None), Ok((new.clone(), None)));
        assert!(found(&disk(&dir.join("mistyped"), None), None).unwrap_err().contains("does not exist"));
        for taken in [disk(&old, None), disk(&journal, None), disk(&new, Some(&journal)), disk(&new, Some(&old))] {
            assert!(found(&taken, None).unwrap_err().contains("belongs to osd.0"), "{taken:?}");
        }
        assert!(found(&disk(&new, Some(&new)), None).unwrap_err().contains("twice"));
        let own = state.osds[0].uuid().ok();
        assert_eq!(found(&disk(&old, Some(&journal)), own), Ok((old.clone(), Some(journal))), "what is its own it may keep");
        // A run that was interrupted goes on with what it wrote; another disk is another identity.
        let begun = OsdState::new(0, 1 << 30, Some(new.clone()), None).unwrap().held();
        assert_eq!(successor(&state, &begun, Some(&disk(&new, None)), &dir).unwrap(), begun);
        let other = successor(&state, &begun, Some(&disk(&file("other"), None)), &dir).unwrap();
        assert!(other.uuid().unwrap() != begun.uuid().unwrap() && other.id == 0);
    }
}
