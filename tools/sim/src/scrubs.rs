//! Whether scrubs find what is wrong with a copy, and nothing else, and whether repairs mend it.

use crate::cluster::{Cluster, StoreKind};
use crate::reference::Meaning;
use crate::rng::Rng;
use crate::world::Crash;
use bytes::Bytes;
use objectstore::{Hold, ObjectChange, ObjectChanges, View};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
            let empty = content.stat(Hold(0), &object).is_ok_and(|stat| stat.is_none_or(|stat| stat.size == 0));
            if self.change_silently(&object, spoil_one(rng, empty)) {
                spoilt.push(object);
            }
        }
        spoilt
    }

    fn change_silently(&mut self, object: &ObjectId, change: ObjectChange) -> bool {
        let Some(last) = self.last_mut() else { return false };
        last.objects.push(ObjectChanges { object: object.clone(), changes: vec![change] });
        true
    }
}

/// An object without data gets none: which of two copies of one version lacks something, or has too much, a repair does not decide if one
/// of them holds nothing.
fn spoil_one(rng: &mut Rng, empty: bool) -> ObjectChange {
    let rot = Bytes::from_static(b"this is rot");
    match rng.below(5) {
        0 => ObjectChange::Remove,
        1 => ObjectChange::SetXattr(Bytes::from_static(b"rot"), rot),
        2 | 3 if empty => ObjectChange::OmapSet(vec![(Bytes::from_static(b"rot"), rot)]),
        _ if empty => ObjectChange::SetXattr(Bytes::from_static(b"rot"), rot),
        2 => ObjectChange::OmapSet(vec![(Bytes::from_static(b"rot"), rot)]),
        _ => ObjectChange::Write(0, rot.into()),
    }
}

impl Cluster {
    fn json(&mut self, command: &Value) -> Result<Value, String> {
        let output = self.command_ok(&command.to_string())?;
        serde_json::from_slice(&output).map_err(|e| format!("{command} is not answered with JSON: {e}"))
    }

    /// When each group was scrubbed deeply.
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

    /// Where the stores cannot be looked at, the OSDs compare the copies: a scrub finds nothing.
    pub(crate) fn scrub_the_untrusted(&mut self) -> Result<(), String> {
        if self.plan.store == StoreKind::Reference { Ok(()) } else { self.scrub_finds_nothing() }
    }

    /// A copy is spoilt while its OSD is down. A deep scrub finds that, and a repair brings what the others have.
    pub(crate) fn spoil_and_mend(&mut self) -> Result<usize, String> {
        let nth = self.rng.index(self.osds.len());
        let host = self.osds[nth];
        self.world.crash(host, Crash::Process);
        let spoilt = self.meanings[nth].borrow_mut().spoil(&mut self.rng);
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
