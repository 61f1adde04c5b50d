//! A cluster whose daemons get newer programs one after the other, while things go wrong.
//!
//! All begin with programs of the first level. Each restart gives one daemon the program of today; some go back before all have it. The
//! level is raised by itself then. A program of the first level is simulated by today's one, which says so and, as the older one did, stops
//! at what it does not know (`pg::Sealed::level`): the run fails if somebody sends it that.

use crate::cluster::Cluster;
use crate::fault::Nemesis;
use crate::world::{Crash, HostId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::Levels;

/// Which levels the program of each host runs; of those that are not named: the newest.
pub(crate) type Programs = Rc<RefCell<BTreeMap<String, Levels>>>;

/// Seconds after which the leader raises the level.
pub(crate) const RAISED_AFTER: u64 = 4;
/// Faults go on for so long after a restart, at most.
const BETWEEN: Duration = Duration::from_secs(6);
/// And for so long after the last one.
const AFTER: Duration = Duration::from_secs(25);

impl Cluster {
    /// Gives a host's program these levels, from its next start on; it is restarted now.
    fn install(&mut self, host: HostId, levels: Levels) {
        if let Some(programs) = &self.plan.programs {
            programs.borrow_mut().insert(self.world.name(host).to_owned(), levels);
        }
        if self.world.is_up(host) {
            self.world.crash(host, Crash::Process);
        }
        self.start(host);
    }

    /// Gives all daemons the program of today, one after the other, while things go wrong.
    pub(crate) fn upgrade(&mut self, nemesis: &mut Nemesis) -> Result<(), String> {
        let mut left: Vec<HostId> = self.mons.iter().chain(&self.osds).copied().collect();
        let mut done: Vec<HostId> = Vec::new();
        while !left.is_empty() {
            self.rage_a_while(nemesis, BETWEEN);
            // While one is left the level cannot be raised, so going back is possible.
            if !done.is_empty() && self.rng.one_in(4) {
                let host = done.remove(self.rng.below(done.len() as u64) as usize);
                self.install(host, Levels::UNSAID);
                left.push(host);
                continue;
            }
            if left.len() == 1 {
                self.level_is(1)?;
            }
            let host = left.remove(self.rng.below(left.len() as u64) as usize);
            self.install(host, Levels::OWN);
            done.push(host);
            nemesis.count += 1;
        }
        nemesis.rage(self, AFTER);
        Ok(())
    }

    fn rage_a_while(&mut self, nemesis: &mut Nemesis, most: Duration) {
        let pause = self.rng.below(most.as_nanos() as u64);
        nemesis.rage(self, Duration::from_nanos(pause));
    }

    /// Nothing goes wrong any more: the level is raised by itself.
    pub(crate) fn wait_level(&mut self) -> Result<(), String> {
        let newest = Levels::OWN.newest.0;
        for _ in 0..60 {
            if self.level()? == u64::from(newest) {
                return Ok(());
            }
            self.world.run_for(Duration::from_secs(1));
        }
        let output = self.command_ok(r#"{"prefix":"nacre level"}"#)?;
        Err(format!("the level is not raised to {newest} by itself: {}", String::from_utf8_lossy(&output)))
    }

    fn level_is(&mut self, wanted: u64) -> Result<(), String> {
        // An answer may take until a monitor that died comes back.
        match self.command(r#"{"prefix":"nacre level","format":"json"}"#) {
            Ok((0, _, output)) if level_in(&output)? != wanted => {
                Err(format!("the level is not {wanted} while an older program runs"))
            }
            _ => Ok(()),
        }
    }

    fn level(&mut self) -> Result<u64, String> {
        let output = self.command_ok(r#"{"prefix":"nacre level","format":"json"}"#)?;
        level_in(&output)
    }
}

fn level_in(output: &[u8]) -> Result<u64, String> {
    let told: serde_json::Value = serde_json::from_slice(output).map_err(|e| format!("the level is not JSON: {e}"))?;
    told["level"].as_u64().ok_or_else(|| format!("no level in {told}"))
}
