//! Counters of the path of an operation, and where its time goes. Cheap and always on.

mod latency;
mod stages;
mod store;
mod text;

pub(crate) use latency::{Latency, average};
pub(crate) use stages::{Moments, Readings, STAGES, Times};
pub(crate) use store::{dump as dump_store, memory_readings, store_readings};
pub(crate) use text::{histogram_schema, select};

use crate::Osd;
use crate::images::Share;
use crate::ops::{Finished, Op};
use messages::osd::{OsdOp, flags};
use node::{Mono, Now};
use std::time::Duration;

/// What kind of an operation it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Read,
    Write,
    /// Sent as both.
    ReadWrite,
}

/// All kinds, with what Ceph's counters call them and what ours do.
pub(crate) const KINDS: [(Kind, &str, &str); 3] =
    [(Kind::Read, "op_r", "read"), (Kind::Write, "op_w", "write"), (Kind::ReadWrite, "op_rw", "read_write")];

impl Kind {
    /// Returns what the client sent it as.
    pub(crate) fn of(op: &OsdOp) -> Self {
        match (op.may_write(), op.flags & flags::READ != 0) {
            (false, _) => Kind::Read,
            (true, false) => Kind::Write,
            (true, true) => Kind::ReadWrite,
        }
    }
}

/// Counters of one kind.
#[derive(Default)]
pub(crate) struct PerKind {
    bytes_in: u64,
    bytes_out: u64,
    times: Times,
}

/// All counters.
#[derive(Default)]
pub(crate) struct Perf {
    pub(crate) dropped: u64,
    pub(crate) denied: u64,
    pub(crate) maps_shared: u64,
    pub(crate) rounds: u64,
    /// Letters to other copies.
    pub(crate) letters: u64,
    /// Requests to the monitors to be marked up.
    pub(crate) boots: u64,
    /// Rounds in which nothing was received from clients, because the store was congested.
    pub(crate) rounds_held: u64,
    /// Operations that had to wait until earlier answers to their session had left.
    pub(crate) answers_held: u64,
    /// Writes since the last report, for `osd perf`.
    pub(crate) recent_writes: Latency,
    kinds: [PerKind; 3],
    readings: Readings,
    started: Mono,
}

impl Perf {
    pub(crate) fn new(now: Mono) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// The clock was read.
    pub(crate) fn note(&mut self, now: Mono) {
        self.readings.note(now);
    }

    /// The answer of an operation was handed over. Gives how long each stage took.
    fn finished(&mut self, now: Now, op: &Op) -> [Duration; STAGES.len()] {
        let moments = Moments {
            received: op.received,
            executed: op.executed,
            durable: op.durable(),
            answered: op.answered,
            sent: now.mono,
        };
        let (stages, total) = (moments.stages(&self.readings), now.mono.since(op.received));
        let journaled = op.request.kind != Kind::Read;
        let kind = &mut self.kinds[op.request.kind as usize];
        kind.bytes_in += op.payload as u64;
        kind.bytes_out += op.bytes_out as u64;
        kind.times.record(total, &stages, journaled);
        if journaled {
            self.recent_writes.record(total);
        }
        stages
    }

    /// Counts from zero again (`perf reset`).
    pub(crate) fn reset(&mut self) {
        (self.dropped, self.denied, self.maps_shared, self.rounds, self.answers_held) = (0, 0, 0, 0, 0);
        self.kinds = Default::default();
    }
}

impl Osd {
    /// A round's sends were handed over: what was answered in it is over. It counts up to this moment: a read from
    /// memory is answered in the round in which it came, and would last no time otherwise.
    pub(crate) fn answers_left(&mut self, now: Now) {
        self.perf.note(now.mono);
        let answered = self.ops.take_answered();
        for key in &answered {
            let op = self.ops.at(*key);
            if let Some(image) = op.image.take() {
                self.images.count(now.mono, image, share(op, now));
            }
            let (stages, took) = (self.perf.finished(now, op), now.mono.since(op.received));
            if crate::pace::tells(op) {
                self.pace.answered(now.mono, took);
            }
            if self.ops.history.wants(took, now.mono) {
                let finished = Finished::new(self.ops.at(*key), stages, now);
                self.ops.history.remember(finished, now.mono, self.options.history, self.options.complaint);
            }
            self.ops.end(*key);
        }
        self.ops.reuse(answered);
    }
}

/// Returns what an operation did to its image.
fn share(op: &Op, now: Now) -> Share {
    Share {
        write: op.request.kind != Kind::Read,
        read: op.request.kind != Kind::Write,
        bytes_in: op.payload as u64,
        bytes_out: op.bytes_out as u64,
        latency: now.mono.since(op.received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Request, SubOps};
    use types::UTime;

    fn now(mono: u64) -> Now {
        Now { mono: Mono(mono), wall: UTime::from_nanos(1 << 60) }
    }

    fn op(kind: Kind, received: u64, committed: u64, answered: u64) -> Op {
        let [received, committed, answered] = [received, committed, answered].map(Mono);
        let request = Request { kind, ..Request::default() };
        Op { request, payload: 4096, bytes_out: 10, received, executed: received, committed, answered, ..Op::default() }
    }

    #[test]
    fn stages_add_up_to_latencies_and_counters_follow_ceph() {
        let mut perf = Perf::default();
        [1000, 4000, 9000].into_iter().for_each(|t| perf.note(Mono(t)));
        perf.finished(now(9000), &op(Kind::Read, 1000, 0, 1000));
        [10_000, 16_000, 200_000, 300_000, 310_000].into_iter().for_each(|t| perf.note(Mono(t)));
        perf.finished(now(310_000), &op(Kind::Write, 10_000, 200_000, 300_000));

        let told = |perf: &Perf, n| counters::osd::OSD.dump(&perf.readings(Mono(1_000_000), n, &SubOps::default()));
        let v = told(&perf, 2);
        assert_eq!((&v["op"], &v["op_r"], &v["op_w"], &v["op_wip"]), (&2.into(), &1.into(), &1.into(), &2.into()));
        assert_eq!(v["op_r_latency"]["sum"], 8e-6);
        assert_eq!(v["op_w_latency"]["sum"], 3e-4);
        assert_eq!(v["op_w_in_bytes"], 4096);
        let stages = counters::osd::STAGES.dump(&perf.stage_readings(&SubOps::default()));
        assert_eq!(stages["write_journaling"]["sum"], 184e-6);
        assert_eq!(stages["write_copying"]["sum"], 1e-4);
        assert_eq!(stages["read_executing"]["sum"], 3e-6);
        assert_eq!(stages["read_journaling"]["avgcount"], 0);

        perf.reset();
        assert_eq!(told(&perf, 0)["op_latency"]["avgcount"], 0);
    }

    #[test]
    fn a_read_that_is_answered_in_its_round_lasts_until_the_round_ends() {
        let read = op(Kind::Read, 1000, 0, 1000);
        let share = share(&read, now(9000));
        assert_eq!((share.read, share.write, share.bytes_out), (true, false, 10));
        assert_eq!(share.latency, Duration::from_nanos(8000));
    }
}
