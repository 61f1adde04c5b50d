//! The way of a proposal: what is changed, and what is sent when that is durable.

use super::Monitor;
use super::sessions::Outgoing;
use bytes::Bytes;
use denc::Encode;
use maps::Incremental;
use messages::mon::{CommandReply, MgrCommandReply, MonCommandAck, PoolOpReply, log_level};
use monstate::state::{Answered, Change, Proposal};
use node::{Level, Now, Output, Outputs};
use std::sync::Arc;
use types::{Errno, Message, Rope};

/// Bytes of an entry of the log. It goes to other monitors in the front of a message, which may have 16 MiB; a longer one would be sent for ever,
/// and nothing behind it.
const ENTRY: usize = 12 << 20;

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
            planner::initial_placement::place(&base.osdmap, &mut inc);
            manager::stepping::inherit(&base.osdmap, &mut inc);
            planner::orders::release(&base.osdmap, &mut inc);
            planner::temps::clean(&base.osdmap, &mut inc);
            self.leader.soft.fences.follow(&inc, None);
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
                    out.log(Level::Error, "mon", format!("an OSD map increment does not fit its base and is dropped: {why}"));
                    return self.failed(after, &why.to_string(), out);
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
        let bytes: Bytes = proposal.to_bytes();
        let length = bytes.len();
        if length > ENTRY {
            out.log(Level::Error, "mon", format!("a change of {length} bytes is not made: {ENTRY} are the most"));
            return self.failed(after, "it is too large", out);
        }
        let Ok(index) = self.replica.log.propose(bytes) else {
            return self.not_proposed(now, after, out);
        };
        self.count_proposal(length);
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

    /// Nothing is changed, by a mistake of this program: who would have been told that it is done hears of an error.
    fn failed(&mut self, after: Vec<Outgoing>, why: &str, out: &mut Outputs) {
        let text = format!("nothing was changed, by a mistake of the monitor: {why}");
        for outgoing in after {
            match outgoing {
                Outgoing::Message(side, session, message) => {
                    if let Some(message) = refused(&message, &text) {
                        self.send_when_durable(Outgoing::Message(side, session, message), out);
                    }
                }
                Outgoing::Answer(call, ..) => out.push(Output::Answer { call, result: Errno::EIO.wire(), text: text.clone() }),
                Outgoing::Instruct(..) => {}
                Outgoing::Granted(id, _) => self.granted(id, Err(Errno::EIO)),
            }
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

/// The answer to the same request that tells of an error; `None` if the message answers no request.
fn refused(message: &Message, why: &str) -> Option<Message> {
    let (result, status) = (Errno::EIO.wire(), why.to_owned());
    let mut refused = match message.kind {
        MonCommandAck::KIND => {
            let ack = MonCommandAck::decode(message).ok()?;
            MonCommandAck { result, status, output: Rope::new(), ..ack }.encode()
        }
        CommandReply::KIND => CommandReply { result, status, output: Rope::new() }.encode(),
        MgrCommandReply::KIND => MgrCommandReply { result, status, output: Rope::new() }.encode(),
        PoolOpReply::KIND => PoolOpReply { result, data: None, ..PoolOpReply::decode(message).ok()? }.encode(),
        _ => return None,
    };
    refused.tid = message.tid;
    Some(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::CallId;

    #[test]
    fn an_increment_that_does_not_fit_is_no_success() {
        let mut monitor = Monitor::new(crate::server::seats::tests::config(), [1; 32]);
        let (mut out, now) = (Outputs::default(), Now::default());
        let base = monitor.newest().clone();
        let far = Incremental::new(base.osdmap.epoch + 5, base.fsid, now.wall);
        let key = Change::Key { key: "k".into(), value: Some(Bytes::new()) };
        let after = vec![Outgoing::Answer(CallId(1), 0, "done".into())];
        monitor.propose(now, vec![key], Some(far), after, &mut out);
        let results: Vec<i32> =
            out.0.iter().filter_map(|o| if let Output::Answer { result, .. } = o { Some(*result) } else { None }).collect();
        assert_eq!(results, [Errno::EIO.wire()]);
        assert!(monitor.leader.ahead.is_empty(), "nothing of it is changed");
    }

    #[test]
    fn answers_to_requests_become_errors() {
        let mut ack = MonCommandAck {
            version: 3,
            cmd: vec!["c".into()],
            output: Rope::from(Bytes::from_static(b"x")),
            ..Default::default()
        }
        .encode();
        ack.tid = 9;
        let refused = refused(&ack, "why").unwrap();
        let read = MonCommandAck::decode(&refused).unwrap();
        assert_eq!(
            (refused.tid, read.result, read.status.as_str(), read.cmd, read.output.len()),
            (9, -5, "why", vec!["c".to_owned()], 0)
        );
    }
}
