//! Whether scrubs find what is wrong with a copy, and nothing else, and whether repairs mend it.

use crate::cluster::{Cluster, StoreKind};
use crate::reference::Meaning;
use crate::rng::Rng;
use crate::world::Crash;
use bytes::Bytes;
use objectstore::memory::MemStore;
use objectstore::{Hold, Limit, ObjectChange, ObjectChanges, View};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;
use types::ObjectId;

/// Until all groups are scrubbed.
const SCRUBBED: Duration = Duration::from_secs(120);
/// An order that is not followed by then is given again: who should have may not have been there.
const ORDER_AGAIN: Duration = Duration::from_secs(10);
/// Until what is wrong is mended.
const MENDED: Duration = Duration::from_secs(120);
/// Objects of one copy that are spoilt at most.
const SPOILT: usize = 4;
/// What health says of copies that are wrong.
const CODES: [&str; 2] = ["OSD_SCRUB_ERRORS", "PG_DAMAGED"];

impl Meaning {
    /// Some objects are not any more what was written, and the store does not know it. Gives which.
    pub(crate) fn spoil(&mut self, rng: &mut Rng) -> Vec<ObjectId> {
        let content = self.content();
        let mut objects: Vec<ObjectId> = content.objects().filter(|object| object.pool >= 0).cloned().collect();
        let mut spoilt = Vec::new();
        while !objects.is_empty() && spoilt.len() < SPOILT {
            let object = objects.swap_remove(rng.index(objects.len()));
            if let Some(change) = spoil_one(rng, &content, &object)
                && self.change_silently(&object, change)
            {
                spoilt.push(object);
            }
        }
        spoilt
    }

    /// Some objects lose data, as if a change of theirs had not been carried out: the record says what they should have. Gives which, with
    /// their names alone, since another store may lack the same of them.
    pub(crate) fn cut_short(&mut self, rng: &mut Rng) -> Vec<ObjectId> {
        let content = self.content();
        let has_data = |object: &&ObjectId| content.stat(Hold(0), object).is_ok_and(|stat| stat.is_some_and(|s| s.size > 0));
        let mut objects: Vec<ObjectId> = content.objects().filter(|object| object.pool >= 0).filter(has_data).cloned().collect();
        let mut cut = Vec::new();
        while !objects.is_empty() && cut.len() < SPOILT {
            let object = objects.swap_remove(rng.index(objects.len()));
            if self.cut(&object) {
                cut.push(object);
            }
        }
        cut
    }

    /// This object has no data any more, if it is here. False if not.
    pub(crate) fn cut(&mut self, object: &ObjectId) -> bool {
        let here = self.content().stat(Hold(0), object).is_ok_and(|stat| stat.is_some());
        here && self.change_silently(object, ObjectChange::Truncate(0))
    }

    fn change_silently(&mut self, object: &ObjectId, change: ObjectChange) -> bool {
        let Some(last) = self.last_mut() else { return false };
        last.objects.push(ObjectChanges { object: object.clone(), changes: vec![change] });
        true
    }
}

/// A change that a repair can take back. An object without attributes gets none, and one without an omap that may have one by its record
/// gets none: which of two copies of one version lacks it, or has too much, a repair does not decide.
fn spoil_one(rng: &mut Rng, store: &MemStore, object: &ObjectId) -> Option<ObjectChange> {
    let name = Bytes::from_static(b"rot");
    let rot = Bytes::from_static(b"this is rot");
    let limit = Limit { entries: 1, bytes: usize::MAX };
    let stat = store.stat(Hold(0), object).ok()??;
    let attrs = !store.xattrs(Hold(0), object).ok()?.is_empty();
    let keys = !store.omap_scan(Hold(0), object, (Bound::Unbounded, Bound::Unbounded), limit).ok()?.entries.is_empty();
    let header = !store.omap_header(Hold(0), object).ok()?.is_empty();
    let omap = keys || header;
    let told = omap || osd::omap_in(&stat.info) == Some(false);
    Some(match rng.below(7) {
        0 => ObjectChange::Remove,
        1 if attrs => ObjectChange::SetXattr(name, rot),
        2 if attrs => ObjectChange::ClearXattrs,
        3 if told => ObjectChange::OmapSet(vec![(name, rot)]),
        4 if omap => ObjectChange::OmapClear,
        5 if stat.size > 0 => ObjectChange::Truncate(0),
        _ => ObjectChange::Write(0, rot.into()),
    })
}

impl Cluster {
    fn json(&mut self, command: &Value) -> Result<Value, String> {
        let output = self.command_ok(&command.to_string())?;
        serde_json::from_slice(&output).map_err(|e| format!("{command} is not answered with JSON: {e}"))
    }

    /// Returns when each group was scrubbed deeply.
    fn scrubbed(&mut self) -> Result<BTreeMap<String, String>, String> {
        let answer = self.json(&json!({ "prefix": "pg ls", "format": "json" }))?;
        let groups = answer["pg_stats"].as_array().ok_or_else(|| format!("pg ls answers {answer}"))?;
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        Ok(groups.iter().map(|g| (text(&g["pgid"]), text(&g["last_deep_scrub_stamp"]))).collect())
    }

    /// Codes of health that say that copies are wrong.
    fn damage(&mut self) -> Result<BTreeSet<String>, String> {
        let answer = self.json(&json!({ "prefix": "health", "detail": "detail", "format": "json" }))?;
        let checks = answer["checks"].as_object().ok_or_else(|| format!("health answers {answer}"))?;
        Ok(checks.keys().filter(|code| CODES.contains(&code.as_str())).cloned().collect())
    }

    /// Orders a deep scrub or a repair of every group, and waits until it is done.
    fn scrub_all(&mut self, what: &str) -> Result<(), String> {
        let before = self.scrubbed()?;
        let end = self.world.now() + SCRUBBED;
        let mut order = self.world.now();
        loop {
            let now = self.scrubbed()?;
            let due: Vec<&String> = before.iter().filter(|(pg, at)| now.get(*pg) == Some(at)).map(|(pg, _)| pg).collect();
            if due.is_empty() {
                return Ok(());
            }
            if self.world.now() > end {
                return Err(format!("{what} does not end: {due:?} were scrubbed last at {before:?}"));
            }
            if self.world.now() >= order {
                order = self.world.now() + ORDER_AGAIN;
                let due: Vec<String> = due.into_iter().cloned().collect();
                due.iter().for_each(|pg| self.tell(&json!({ "prefix": format!("pg {what}"), "pgid": pg }).to_string()));
            }
            self.world.run_for(Duration::from_millis(500));
        }
    }

    /// All copies are equal, so a scrub finds nothing.
    pub(crate) fn scrub_finds_nothing(&mut self) -> Result<(), String> {
        self.scrub_all("deep-scrub")?;
        let said = self.json(&json!({ "prefix": "log last", "num": 10_000, "channel": "cluster", "format": "json" }))?;
        let lines = said.as_array().map_or(&[][..], |lines| lines).iter();
        let found = lines
            .filter_map(|line| line["message"].as_str())
            .find(|text| text.contains(" shard ") || text.contains(" soid "))
            .map(str::to_owned);
        match (self.damage()?, found) {
            (damage, None) if damage.is_empty() => Ok(()),
            found => Err(format!("a scrub has found damage where there is none: {found:?}")),
        }
    }

    /// Scrubs where the stores cannot be looked at: the OSDs compare the copies, and must find nothing.
    pub(crate) fn scrub_the_untrusted(&mut self) -> Result<(), String> {
        if self.plan.store == StoreKind::Reference { Ok(()) } else { self.scrub_finds_nothing() }
    }

    /// A copy is spoilt while its OSD is down. A deep scrub finds that, and a repair brings what the others have.
    pub(crate) fn spoil_and_mend(&mut self) -> Result<usize, String> {
        let nth = self.rng.index(self.osds.len());
        let host = self.osds[nth];
        self.world.crash(host, Crash::Process);
        // Two copies of three may lack the same: their records say that they do.
        let other = self.rng.one_in(3).then(|| (nth + 1) % self.osds.len());
        let spoilt = match other {
            None => self.meanings[nth].borrow_mut().spoil(&mut self.rng),
            Some(other) => {
                self.world.crash(self.osds[other], Crash::Process);
                let cut = self.meanings[nth].borrow_mut().cut_short(&mut self.rng);
                cut.iter().for_each(|object| _ = self.meanings[other].borrow_mut().cut(object));
                self.start(self.osds[other]);
                cut
            }
        };
        self.start(host);
        self.wait_clean()?;
        if spoilt.is_empty() {
            return Ok(0);
        }
        self.scrub_all("deep-scrub")?;
        // The report of a scrub before the crash may have come late and been taken for this one. Not twice.
        if self.damage()?.is_empty() {
            self.scrub_all("deep-scrub")?;
        }
        if self.damage()?.is_empty() {
            return Err(format!("a scrub does not find that osd.{nth} holds something else of {spoilt:?}"));
        }
        self.scrub_all("repair")?;
        let end = self.world.now() + MENDED;
        while !self.damage()?.is_empty() {
            if self.world.now() > end {
                return Err(format!("a repair does not mend {spoilt:?} on osd.{nth}"));
            }
            self.world.run_for(Duration::from_secs(1));
        }
        self.wait_clean()?;
        self.check_copies()?;
        Ok(spoilt.len())
    }
}
