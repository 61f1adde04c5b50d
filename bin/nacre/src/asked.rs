//! OSDs that run for a moment, to be asked what they know.

use crate::cli::Common;
use crate::daemon;
use crate::events::Event;
use crate::log::Logs;
use crate::memory::Watch;
use crate::osds::{Memory, Place};
use crate::process::{POLL, Process};
use crate::state::State;
use anyhow::{Result, bail};
use runtime::process::Signals;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time that OSDs may take to tell their newest map: they read their journals first.
const ASKED: Duration = Duration::from_secs(60);

/// The newest OSD map of each OSD of this host that can be asked: epoch, and bytes in hexadecimal. The OSDs run for a
/// moment, without a monitor and reachable for nobody.
pub(crate) fn newest_maps(dir: &Path, state: &State, signals: Signals) -> Result<BTreeMap<i32, (u32, String)>> {
    let logs = Logs::of(dir, None, state.log_file.as_deref())?;
    let mut process = Process::new(dir, logs, signals)?;
    let mut found = BTreeMap::new();
    process.run(|process| {
        let bind = IpAddr::from([127, 0, 0, 1]);
        let made: Vec<_> = state.osds.iter().filter(|osd| osd.made).collect();
        let mut watch = Watch::new(None, process.log.clone());
        let memory = Memory { first: watch.begin(made.len()), ceiling: None };
        let auth = state.auth(None);
        let (monitors, neighbours) = (Vec::new(), BTreeMap::new());
        let (fsid, location, cluster_bind) = (state.fsid()?, state.location.clone(), None);
        let place = Place { dir, fsid, monitors, auth, bind, cluster_bind, location, memory, neighbours };
        for osd in made {
            match place.prepare(osd) {
                Ok(prepared) => process.start_osds(vec![prepared], &Common::default())?,
                Err(e) => eprintln!("osd.{} is not asked: {e:#}", osd.id),
            }
        }
        let end = Instant::now() + ASKED;
        while found.len() < process.roster().daemons().len() && Instant::now() < end {
            match process.events.recv_timeout(POLL) {
                Ok(Event::Signal(_)) => bail!("told to stop"),
                Ok(Event::Ended(name, ended)) => {
                    eprintln!("{} cannot be asked: {}", name, ended.sentence(&name));
                    process.forget(&name);
                }
                _ => {}
            }
            for (name, osd) in process.roster().daemons() {
                let id: Option<i32> = name.strip_prefix("osd.").and_then(|id| id.parse().ok());
                let Some(id) = id.filter(|id| !found.contains_key(id)) else { continue };
                let Some(told) = daemon::ask(&osd, r#"{"prefix":"newest_osdmap"}"#, Duration::from_millis(500)) else { continue };
                if let (Some(epoch), Some(map)) = (told["epoch"].as_u64(), told["full"].as_str()) {
                    found.insert(id, (u32::try_from(epoch).unwrap_or(u32::MAX), map.to_owned()));
                }
            }
        }
        Ok(())
    })?;
    Ok(found)
}
