//! Commands that one administrator gives one after another, while monitors die and are cut off: what is answered must be as if there were
//! one monitor, and each command must be done once.
//!
//! Values are set and read. A read sees the last value that was set, whichever monitor answers. Numbers of snapshots are asked for: one
//! that is given and that nobody hears of shows at the end, as the pool's counter then is ahead of the answers.

use crate::cluster::Cluster;
use crate::workload::MAKE_SNAP;
use std::time::Duration;

/// Pause between two commands, at most.
const PAUSE: Duration = Duration::from_millis(300);
/// The key whose value is set.
const KEY: &str = "decrees";

/// What the administrator does.
#[derive(Debug, Default)]
pub(crate) struct Decrees {
    /// The command under way, and the value that it sets, if it does.
    open: Option<(String, Option<u64>)>,
    /// The last value whose setting was answered.
    value: u64,
    asked: u64,
    snaps: u64,
    next: Duration,
    /// The monitor that is being replaced.
    pub(crate) replacement: Option<crate::reigns::Replacement>,
    /// Commands that were answered.
    pub(crate) answered: u64,
    /// The first thing that cannot be.
    pub(crate) wrong: Option<String>,
}

/// Each client waits for each answer, so no history is too wild to judge.
fn decided(undecided: u64) -> Result<(), String> {
    if undecided == 0 { Ok(()) } else { Err(format!("commands: the histories of {undecided} keys could not be judged")) }
}

impl Cluster {
    /// Looks whether the last command was answered; gives the next one, unless `last`.
    pub(crate) fn decree(&mut self, last: bool) {
        if self.plan.mons < 2 {
            return;
        }
        if let Some((command, sets)) = self.decrees.open.take() {
            let at = self.admin_shared.borrow().answers.iter().position(|(asked, ..)| *asked == command);
            match at {
                None => return self.decrees.open = Some((command, sets)),
                Some(at) => {
                    let (_, result, status, output) = self.admin_shared.borrow_mut().answers.remove(at);
                    self.judge(&command, sets, result, &status, &output);
                }
            }
            self.decrees.next = self.world.now() + Duration::from_nanos(self.rng.below(PAUSE.as_nanos() as u64));
        }
        if !last && self.world.now() >= self.decrees.next {
            self.give();
        }
    }

    fn give(&mut self) {
        self.decrees.asked += 1;
        let n = self.decrees.asked;
        // The number makes each text another one; the monitors ignore what they do not know.
        let (command, sets) = match self.rng.below(3) {
            0 => (serde_json::json!({"prefix": "config-key get", "key": KEY, "number": n}).to_string(), None),
            1 => (format!("{MAKE_SNAP}{} {n}", self.plan.habits.pool), None),
            _ => (serde_json::json!({"prefix": "config-key set", "key": KEY, "val": n.to_string()}).to_string(), Some(n)),
        };
        self.tell(&command);
        self.decrees.open = Some((command, sets));
    }

    /// Nothing goes wrong any more: all clients of the monitors are answered, and what they were told fits one order.
    fn end_petitions(&mut self) -> Result<(), String> {
        let petitions = self.petitions.clone();
        petitions.borrow_mut().left.fill(0);
        if !self.world.run_while(Duration::from_secs(60), |_| petitions.borrow().open > 0) {
            return Err(format!("a minute after the faults, {} commands of clients are not answered", petitions.borrow().open));
        }
        let petitions = petitions.borrow();
        match &petitions.wrong {
            Some(wrong) => Err(wrong.clone()),
            None => petitions.history.check().map_err(|why| format!("commands: {why}")).and_then(decided),
        }
    }

    fn judge(&mut self, command: &str, sets: Option<u64>, result: i32, status: &str, output: &[u8]) {
        let decrees = &mut self.decrees;
        decrees.answered += 1;
        let wrong = if result != 0 && !(command.contains("config-key get") && decrees.value == 0) {
            Some(format!("{command} is answered with {result}: {status}"))
        } else if let Some(n) = sets {
            decrees.value = n;
            None
        } else if command.starts_with(MAKE_SNAP) {
            decrees.snaps += 1;
            None
        } else {
            let found = std::str::from_utf8(output).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            (found != decrees.value).then(|| format!("{} was set and answered, then {found} is read", decrees.value))
        };
        decrees.wrong = decrees.wrong.take().or(wrong);
    }

    /// Nothing goes wrong any more: the last command is answered, all monitors vote, and nothing was done twice.
    pub(crate) fn end_decrees(&mut self) -> Result<(), String> {
        let end = self.world.now() + Duration::from_secs(60);
        while (self.decrees.open.is_some() || self.replaces_monitor()) && self.world.now() < end {
            self.world.run_for(Duration::from_millis(20));
            self.decree(true);
        }
        if let Some((command, _)) = &self.decrees.open {
            return Err(format!("a minute after the faults, {command} is not answered"));
        }
        if self.replaces_monitor() {
            return Err("a minute after the faults, the removal of a monitor is not answered".into());
        }
        if let Some(wrong) = &self.decrees.wrong {
            return Err(wrong.clone());
        }
        self.end_petitions()?;
        let mons = self.plan.mons;
        self.wait_until("all monitors vote", Duration::from_secs(60), |s| {
            s["quorum_names"].as_array().map(Vec::len) == Some(mons)
        })?;
        let output = self.command_ok(r#"{"prefix":"osd dump","format":"json"}"#)?;
        let dump: serde_json::Value = serde_json::from_slice(&output).map_err(|e| format!("the map is not JSON: {e}"))?;
        let pool = &self.plan.habits.pool;
        let found = dump["pools"].as_array().and_then(|all| all.iter().find(|p| p["pool_name"] == **pool));
        // The first number of a pool is 1.
        let given = found.and_then(|p| p["snap_seq"].as_u64()).unwrap_or(0);
        if given.saturating_sub(self.decrees.snaps) > 1 {
            return Err(format!("{} snapshots were asked for, the pool gave numbers up to {given}", self.decrees.snaps));
        }
        Ok(())
    }
}
