//! The process of a host, for commands at that host: it starts and stops one OSD while all others go on.
//!
//! `nacre disk` writes down what shall be (`nacre.toml`), and then asks the process through DIR/nacre.sock, in the protocol of admin sockets.
//! Whoever may write in DIR may do so. Commands are answered one after the other, on a thread of their own: it opens an OSD's port and disks,
//! and hands them to the process, which never waits for that.
//!
//! | command | answer |
//! |---|---|
//! | `{"prefix": "start", "id": N}` | `serves`, or `starts` if it does not serve yet; at once if it runs already |
//! | `{"prefix": "stop", "id": N}` | `stopped`, when it has let go of its disks; also if it did not run |

use crate::admin::{self, ERROR, Sockets};
use crate::cli::{Auth, Common};
use crate::conf::Conf;
use crate::daemon;
use crate::events::{Event, Wanted};
use crate::log::Log;
use crate::memory::Watch;
use crate::osds::{Memory, Place};
use crate::process::{Process, Roster};
use crate::state::{Lock, State};
use anyhow::{Context, Result, bail};
use node::Level;
use runtime::{CallError, Caller};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The name of the socket in DIR.
pub(crate) const SOCKET: &str = "nacre.sock";
/// Most time until an OSD that was started serves.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks whether it does.
const LOOK: Duration = Duration::from_millis(100);
/// Most time that the process may take to answer: a large disk is told that nothing on it is wanted, before its store is made.
const ANSWER: Duration = Duration::from_secs(1800);

/// Means to run the OSDs of this process.
pub(crate) struct Manner {
    pub(crate) dir: PathBuf,
    pub(crate) bind: IpAddr,
    pub(crate) cluster_bind: Option<IpAddr>,
    pub(crate) auth: Auth,
    /// Ceiling of memory for each OSD, in bytes, if it was given.
    pub(crate) ceiling: Option<u64>,
    pub(crate) common: Common,
}

/// Answers commands from now on.
pub(crate) fn open(process: &Process, manner: Manner) -> Result<Sockets> {
    let dir = manner.dir.clone();
    let control = Control { manner, roster: process.roster(), log: process.log.clone(), events: process.sender.clone() };
    Sockets::one(&dir, SOCKET, move |command| match control.answer(&command) {
        Ok(told) => format!("{told}\n"),
        Err(e) => format!("{ERROR}{e:#}\n"),
    })
}

struct Control {
    manner: Manner,
    roster: Roster,
    log: Log,
    events: Sender<Event>,
}

const ENDS: &str = "the host's process is ending";

impl Control {
    fn answer(&self, command: &str) -> Result<&'static str> {
        let command: Value = serde_json::from_str(command).context("the command is no JSON")?;
        let id = command["id"].as_u64().and_then(|id| u32::try_from(id).ok()).context("'id' is missing, the number of an OSD");
        match command["prefix"].as_str() {
            Some("start") => self.start(id?),
            Some("stop") => self.stop(id?),
            _ => bail!("there is no such command; there are: start, stop"),
        }
    }

    fn running(&self, id: u32) -> Option<Caller> {
        let name = format!("osd.{id}");
        self.roster.daemons().into_iter().find(|(one, _)| *one == name).map(|(_, caller)| caller)
    }

    fn stop(&self, id: u32) -> Result<&'static str> {
        let (told, ended) = channel();
        self.events.send(Event::Wanted(Wanted::Stop(format!("osd.{id}"), told))).ok().context(ENDS)?;
        ended.recv().ok().context(ENDS)?;
        Ok("stopped")
    }

    fn start(&self, id: u32) -> Result<&'static str> {
        let caller = match self.running(id) {
            Some(caller) => caller,
            None => self.begin(id)?,
        };
        match self.await_service(id, caller)?.recv_timeout(PATIENCE) {
            Ok(()) => Ok("serves"),
            Err(RecvTimeoutError::Timeout) => Ok("starts"),
            Err(RecvTimeoutError::Disconnected) => bail!("osd.{id} has ended: its log says why"),
        }
    }

    /// Opens an OSD's port and disks, and lets the process run it.
    fn begin(&self, id: u32) -> Result<Caller> {
        let Manner { dir, bind, cluster_bind, auth, ceiling, common } = &self.manner;
        let state = State::load(dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
        let osd = state.osds.iter().find(|osd| osd.id == id).with_context(|| format!("this host has no osd.{id}"))?;
        if osd.held {
            bail!("osd.{id} is being added, replaced or removed");
        }
        let monitors = Conf::load(dir)?.mons.into_iter().map(crate::monitors::at).collect();
        let others = self.roster.daemons().iter().filter(|(name, _)| name.starts_with("osd.")).count();
        let first = Watch::new(*ceiling, self.log.clone()).begin(others + 1);
        let place = Place {
            dir,
            fsid: state.fsid()?,
            monitors,
            auth: *auth,
            bind: *bind,
            cluster_bind: *cluster_bind,
            location: state.location.clone(),
            memory: Memory { first, ceiling: *ceiling },
            // The process knows them when it starts it.
            neighbours: BTreeMap::new(),
        };
        crate::state::make_folder(&osd.folder(dir))?;
        let prepared = Box::new(place.prepare(osd)?);
        let (told, started) = channel();
        self.events.send(Event::Wanted(Wanted::Start(prepared, common.clone(), told))).ok().context(ENDS)?;
        started.recv().ok().context(ENDS)?.map_err(|why| anyhow::anyhow!(why))
    }

    /// Notes that an OSD's store is made once it serves, however long that takes; then tells it. From then on a store that is missing is a loss.
    fn await_service(&self, id: u32, caller: Caller) -> Result<Receiver<()>> {
        let (told, served) = channel();
        let (dir, log) = (self.manner.dir.clone(), self.log.clone());
        let wait = move || loop {
            match caller.call(r#"{"prefix":"status"}"#, PATIENCE) {
                Err(CallError::Stopped) => return,
                Ok(answer) if daemon::is_active(&answer.text) => {
                    if let Err(e) = note_made(&dir, id) {
                        log.say(Level::Error, format!("osd.{id} serves, and that cannot be written down: {e:#}"));
                    }
                    // Who asked may have gone.
                    let _ = told.send(());
                    return;
                }
                _ => std::thread::sleep(LOOK),
            }
        };
        std::thread::Builder::new().name(format!("osd.{id} begins")).spawn(wait).context("start a thread")?;
        Ok(served)
    }
}

fn note_made(dir: &Path, id: u32) -> Result<()> {
    let mut state = State::load(dir)?.with_context(|| format!("{} holds no cluster", dir.display()))?;
    state.change(dir, |state| state.osds.iter_mut().filter(|osd| osd.id == id && !osd.held).for_each(|osd| osd.made = true))
}

/// Runner of the OSDs of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// One process, which starts and stops each of them.
    Runs,
    /// Nobody, or a process for each OSD (`nacre osd`).
    DoesNot,
}

/// Finds who runs the OSDs of DIR.
pub(crate) fn host(dir: &Path) -> Host {
    if Lock::holder(&dir.join("lock")).is_some() { Host::Runs } else { Host::DoesNot }
}

/// Gives a command to the process of a host: what it answers.
pub(crate) fn ask(dir: &Path, what: &str, id: u32) -> Result<String> {
    let told = admin::ask_within(&dir.join(SOCKET), &json!({"prefix": what, "id": id}).to_string(), ANSWER)?;
    match told.strip_prefix(ERROR) {
        Some(why) => bail!("{}", why.trim()),
        None => Ok(told.trim().to_owned()),
    }
}
