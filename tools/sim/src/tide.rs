//! Disks that fill up and are emptied while next to nothing goes wrong: who waits for room must hear of it, whoever can go on
//! does.

use crate::cluster::Cluster;
use crate::model::{Action, Outcome};
use crate::workload::Shared;
use crate::world::{Crash, HostId};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Until clients that ask for nothing but space have all of it.
const FLOOD: Duration = Duration::from_secs(60);
/// Until what a full cluster can do is done: reads, deletions.
const STAND: Duration = Duration::from_secs(20);
/// Until everybody who waited for room was answered, once room is made. What goes on by itself only after many seconds, or
/// when the next connection breaks, is too late.
const EBB: Duration = Duration::from_secs(30);
/// Until the map shows the room that there is.
const CLEAR: Duration = Duration::from_secs(15);
/// Until a store has given back what was removed, and its OSD has told.
const RECLAIM: Duration = Duration::from_secs(12);
/// Bytes of an OSD that may be used for what its groups remember of operations, and for the index of nothing.
const REMEMBERED: u64 = 1 << 20;

const EIO: i32 = -5;
const ENOSPC: i32 = -28;

/// How full the monitor says that everything is.
#[derive(Debug, PartialEq, Eq)]
struct Marks {
    /// States of OSDs and flags of the pool: `full`, `backfillfull`, `nearfull`.
    map: BTreeSet<String>,
    /// Health checks that are about space.
    health: BTreeSet<String>,
}

impl Cluster {
    fn show(&mut self, prefix: &str) -> Result<Value, String> {
        let output = self.command_ok(&serde_json::json!({ "prefix": prefix, "format": "json" }).to_string())?;
        serde_json::from_slice(&output).map_err(|e| format!("{prefix} is not JSON: {e}"))
    }

    fn marks(&mut self) -> Result<Marks, String> {
        let (dump, health) = (self.show("osd dump")?, self.show("health")?);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let states = list(&dump["osds"]).into_iter().flat_map(|osd| list(&osd["state"])).map(|state| word(&state));
        let pools = list(&dump["pools"]).into_iter().flat_map(|pool| {
            let names = word(&pool["flags_names"]);
            names.split(',').map(str::to_owned).collect::<Vec<_>>()
        });
        let map = states.chain(pools).filter(|name| name.ends_with("full")).collect();
        let checks = health["checks"].as_object().cloned().unwrap_or_default();
        Ok(Marks { map, health: checks.into_iter().map(|(code, _)| code).filter(|code| code.ends_with("FULL")).collect() })
    }

    fn wait_marks(&mut self, what: &str, limit: Duration, wanted: impl Fn(&Marks) -> bool) -> Result<(), String> {
        let end = self.world.now() + limit;
        loop {
            let marks = self.marks()?;
            if wanted(&marks) {
                return Ok(());
            }
            if self.world.now() > end {
                return Err(format!("not within {} s: {what}; the monitor says {marks:?}", limit.as_secs()));
            }
            self.world.run_for(Duration::from_millis(100));
        }
    }

    /// Bytes that are used, as the monitor has it.
    pub(crate) fn used(&mut self) -> Result<u64, String> {
        let df = self.show("df")?;
        df["stats"]["total_used_bytes"].as_u64().ok_or(format!("df tells no used bytes: {df}"))
    }

    fn fillers(&self) -> Vec<(HostId, Rc<RefCell<Shared>>)> {
        self.clients[..self.plan.clients].to_vec()
    }

    /// Whether room may be made.
    fn let_room_be_made(&mut self, may: bool) {
        for nth in self.plan.clients..self.clients.len() {
            let (host, shared) = self.clients[nth].clone();
            shared.borrow_mut().holds_back = !may;
            self.world.call(host, "");
        }
    }

    /// Nobody makes room any more.
    pub(crate) fn end_tides(&mut self) -> Result<(), String> {
        self.let_room_be_made(false);
        self.wait_clients(STAND)
    }

    /// Some disks are slow: writes wait in OSDs while maps come, and maps come late.
    fn slow_disks(&mut self) {
        for host in [self.mon].into_iter().chain(self.osds.clone()) {
            if self.rng.one_in(2) {
                let slower = self.rng.magnitude(1, 500);
                self.world.disk(host, 0).faults.slower = slower;
            }
        }
    }

    /// An OSD starts anew while it fills up: operations wait for what it reads, and a map may overtake them.
    fn forget_caches(&mut self) {
        if self.rng.one_in(2) {
            let osd = *self.rng.pick(&self.osds);
            let wait = self.rng.magnitude(1_000_000, 1_000_000_000);
            self.world.run_for(Duration::from_nanos(wait));
            self.world.crash(osd, Crash::Process);
            self.world.start(osd);
        }
    }

    /// Clients fill the disks until the monitor says so, and nobody makes room.
    fn flood(&mut self) -> Result<(), String> {
        self.let_room_be_made(false);
        self.slow_disks();
        for (host, shared) in self.fillers() {
            shared.borrow_mut().left = usize::MAX / 2;
            self.world.call(host, "");
        }
        self.forget_caches();
        let told =
            |marks: &Marks| marks.map.contains("full") && marks.health.contains("OSD_FULL") && marks.health.contains("POOL_FULL");
        self.wait_marks("the monitor calls the full cluster full", FLOOD, told)?;
        // By now everybody waits for room, or soon does.
        let stands = self.rng.magnitude(1_000_000, 3_000_000_000);
        self.world.run_for(Duration::from_nanos(stands));
        self.fillers().iter().for_each(|(_, shared)| shared.borrow_mut().left = 0);
        Ok(())
    }

    /// A full cluster reads and deletes.
    fn stand(&mut self) -> Result<(), String> {
        let objects = self.plan.habits.objects;
        let reads = (0..objects).map(|n| (n, Action::Read));
        let gone: Vec<u64> = (0..3).map(|_| self.rng.below(objects)).collect();
        let script = reads.chain(gone.into_iter().map(|n| (n, Action::Delete)));
        self.ask(script.map(|(n, action)| (format!("o{n}"), action, None)).collect());
        let (_, shared) = self.speaker();
        match self.world.run_while(STAND, |_| !shared.borrow().is_done()) {
            true => Ok(()),
            false => Err(format!(
                "a full cluster does not read and delete: {} s later, {} operations are under way and {} to come",
                STAND.as_secs(),
                shared.borrow().open,
                shared.borrow().script.len()
            )),
        }
    }

    /// Room is made; whoever waited goes on, and the monitor takes back what it said.
    fn ebb(&mut self) -> Result<(), String> {
        [self.mon].into_iter().chain(self.osds.clone()).for_each(|host| self.world.mend_disks(host));
        self.let_room_be_made(true);
        let fillers = self.fillers();
        let waits = || fillers.iter().any(|(_, shared)| shared.borrow().open > 0);
        if !self.world.run_while(EBB, |_| waits()) {
            let open: Vec<usize> = fillers.iter().map(|(_, shared)| shared.borrow().open).collect();
            return Err(format!(
                "operations hang: {} s after others began to make room, clients still wait for {open:?}; the monitor says {:?}",
                EBB.as_secs(),
                self.marks()?
            ));
        }
        self.wait_marks("the monitor knows that there is room", CLEAR, |marks| !marks.map.contains("full"))
    }

    /// The disks fill up and are emptied, while nothing goes wrong.
    pub(crate) fn tide(&mut self) -> Result<(), String> {
        self.flood()?;
        self.stand()?;
        self.ebb()
    }

    /// After everything was deleted: the monitor knows, and as much is free as at first.
    pub(crate) fn check_drained(&mut self, used_at_first: u64) -> Result<(), String> {
        let none = |marks: &Marks| marks.map.is_empty() && marks.health.is_empty();
        self.wait_marks("nothing is full any more", CLEAR, none)?;
        self.world.run_for(RECLAIM);
        let (used, most) = (self.used()?, used_at_first + REMEMBERED * self.plan.osds as u64);
        match used <= most {
            true => Ok(()),
            false => Err(format!("space leaks: everything was deleted, and of {used_at_first} used bytes there are {used}")),
        }
    }

    /// A full cluster refuses deletions no more than it breaks disks.
    pub(crate) fn check_refusals(&self) -> Result<(), String> {
        let history = self.history.borrow();
        let told = history.entries.iter().filter_map(|entry| match entry.outcome {
            Some(Outcome::Error(errno)) => Some((entry, errno)),
            _ => None,
        });
        let refused = |action: &Action, errno| errno == EIO || errno == ENOSPC && (*action == Action::Delete || action.is_read());
        match told.clone().find(|(entry, errno)| refused(&entry.action, *errno)) {
            Some((entry, errno)) => Err(format!("object {}: {} is refused with {errno}", entry.object, entry.action.brief())),
            None => Ok(()),
        }
    }
}
