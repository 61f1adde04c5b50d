//! The way of a proposal: what is changed, and what is sent when that is durable.

use super::Monitor;
use super::sessions::Outgoing;
use denc::Encode;
use maps::Incremental;
use messages::mon::log_level;
use monstate::state::{Answered, Change, Proposal};
use node::{Level, Now, Outputs};
use std::sync::Arc;

impl Monitor {
    /// Proposes changes. What is in `after` is sent when they are committed.
    pub(super) fn propose(
        &mut self,
        now: Now,
        mut changes: Vec<Change>,
        osdmap: Option<Incremental>,
        after: Vec<Outgoing>,
        out: &mut Outputs,
    ) {
        let (base, mut made) = (self.newest().clone(), None);
        if let Some(mut inc) = osdmap {
            planner::newborn::place(&base.osdmap, &mut inc);
            manager::stepping::inherit(&base.osdmap, &mut inc);
            planner::temps::clean(&base.osdmap, &mut inc);
            match inc.seal(&base.osdmap) {
                Ok(sealed) => {
                    let (exist, up, inside) = sealed.map.osd_counts();
                    let epoch = sealed.map.epoch;
                    self.line(now, log_level::DEBUG, format!("osdmap e{epoch}: {exist} total, {up} up, {inside} in"));
                    changes.insert(0, Change::OsdMap(sealed.incremental.clone()));
                    changes.extend(self.map_floor(&base));
                    made = Some(sealed);
                }
                Err(why) => {
                    out.log(Level::Error, "mon", format!("an OSD map increment does not fit its base and is dropped: {why}"))
                }
            }
        }
        if self.env.cephx() {
            changes.extend(super::revoke::notes(&base, &changes, now.wall));
        }
        if !self.leader.lines.is_empty() {
            changes.push(Change::Log(std::mem::take(&mut self.leader.lines)));
        }
        changes.extend(self.done_with(&after));
        let proposal = Proposal { stamp: now.wall, changes };
        let Ok(index) = self.replica.log.propose(proposal.to_bytes()) else {
            return self.not_proposed(now, after, out);
        };
        match base.apply_made(index, &proposal, made) {
            Ok(next) => self.leader.ahead.push_back((index, Arc::new(next))),
            Err(why) => {
                // Nothing was told to anyone yet, but the entry is in the log: going on would mean states that differ.
                self.fatal(format!("a proposal made here cannot be applied: {why}"), out);
            }
        }
        if !after.is_empty() {
            self.leader.waiting.push_back((index, after));
        }
    }

    /// The note that the request in hand is done, for a leader that is asked again.
    pub(super) fn done_with(&self, after: &[Outgoing]) -> Option<Change> {
        let key = self.asking?;
        let answer = after.iter().find_map(|o| if let Outgoing::Message(_, _, m) = o { Some(m) } else { None })?;
        Some(Change::Done { key, answer: Answered::of(answer) })
    }

    /// Sends something now, or when all that was proposed before is durable.
    pub(super) fn send_when_durable(&mut self, outgoing: Outgoing, out: &mut Outputs) {
        match self.leader.ahead.back().map(|(index, _)| *index) {
            None => self.send_out(outgoing, out),
            Some(index) => self.leader.waiting.push_back((index, vec![outgoing])),
        }
    }
}
