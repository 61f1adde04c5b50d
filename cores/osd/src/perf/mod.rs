//! Counters of the path of an operation, where its time goes, and the slowest operations. Cheap and always on.

mod history;
mod latency;
mod stages;
mod text;

pub(crate) use history::{Finished, History};
pub(crate) use latency::Latency;
pub(crate) use stages::{Moments, Readings, Times};
pub(crate) use text::{schema, select};

use crate::images::{Images, Share};
use crate::sessions::Held;
use node::{Mono, Now};
use std::time::Duration;

/// Answers whose round did not end: beyond that a driver does not tell when rounds end.
const MOST_ANSWERED: usize = 4096;

/// What kind of an operation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// Sent as both.
    ReadWrite,
}

/// All kinds, with what Ceph's counters call them and what ours do.
pub(crate) const KINDS: [(Kind, &str, &str); 3] =
    [(Kind::Read, "op_r", "read"), (Kind::Write, "op_w", "write"), (Kind::ReadWrite, "op_rw", "read_write")];

/// An operation that was answered in this round.
pub(crate) struct Answered {
    pub(crate) held: Held,
    pub(crate) client: u64,
    pub(crate) tid: u64,
    pub(crate) executed: Mono,
    pub(crate) answered: Mono,
    pub(crate) bytes_out: usize,
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
    /// Rounds in which nothing was received from clients, because the store was congested.
    pub(crate) rounds_held: u64,
    /// Operations that had to wait until earlier answers to their session had left.
    pub(crate) answers_held: u64,
    /// Writes since the last report, for `osd perf`.
    pub(crate) recent_writes: Latency,
    kinds: [PerKind; 3],
    pub(crate) history: History,
    readings: Readings,
    answered: Vec<Answered>,
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

    /// An operation was answered. It is counted when the round's sends were handed over.
    pub(crate) fn answered(&mut self, answered: Answered) {
        self.answered.push(answered);
    }

    /// Whether the driver should have told the end of a round long ago.
    pub(crate) fn overdue(&self) -> bool {
        self.answered.len() >= MOST_ANSWERED
    }

    /// A round's sends were handed over. Operations on images count in `images`, up to this moment: a read from memory is
    /// answered in the round in which it came, and would last no time otherwise.
    pub(crate) fn sent(&mut self, now: Now, keep: usize, complaint: Duration, images: &mut Images) {
        self.note(now.mono);
        let mut answered = std::mem::take(&mut self.answered);
        for mut op in answered.drain(..) {
            if let Some(image) = op.held.image.take() {
                images.count(*image, share(&op, now));
            }
            self.finished(now, op, keep, complaint);
        }
        self.answered = answered;
    }

    fn finished(&mut self, now: Now, op: Answered, keep: usize, complaint: Duration) {
        let Answered { held, client, tid, executed, answered, bytes_out } = op;
        let moments = Moments { received: held.received, executed, answered, sent: now.mono };
        let (stages, total) = (moments.stages(&self.readings), now.mono.since(held.received));
        let journaled = held.kind != Kind::Read;
        let kind = &mut self.kinds[held.kind as usize];
        kind.bytes_in += held.payload as u64;
        kind.bytes_out += bytes_out as u64;
        kind.times.record(total, &stages, journaled);
        if journaled {
            self.recent_writes.record(total);
        }
        if self.history.wants(total, now.mono) {
            let name = messages::code::name(held.code).unwrap_or("op");
            let description = format!("osd_op(client.{client}.0:{tid} {} [{name}])", held.object.escape_ascii());
            let client = format!("client.{client}");
            let finished = Finished { description, client, tid, moments, stages, ended: now.wall };
            self.history.remember(finished, now.mono, keep, complaint);
        }
    }

    /// Counts from zero again (`perf reset`).
    pub(crate) fn reset(&mut self) {
        (self.dropped, self.denied, self.maps_shared, self.rounds, self.answers_held) = (0, 0, 0, 0, 0);
        self.kinds = Default::default();
    }
}

/// What an operation did to its image.
fn share(op: &Answered, now: Now) -> Share {
    Share {
        write: op.held.kind != Kind::Read,
        read: op.held.kind != Kind::Write,
        bytes_in: op.held.payload as u64,
        bytes_out: op.bytes_out as u64,
        latency: now.mono.since(op.held.received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::UTime;

    fn now(mono: u64) -> Now {
        Now { mono: Mono(mono), wall: UTime::from_nanos(1 << 60) }
    }

    fn op(kind: Kind, received: u64, answered: u64) -> Answered {
        let received = Mono(received);
        let object = Bytes::from_static(b"o");
        let held = Held { bytes: 5000, owes: 0, payload: 4096, received, kind, object, code: 0x2201, image: None };
        Answered { held, client: 4, tid: 9, executed: received, answered: Mono(answered), bytes_out: 10 }
    }

    #[test]
    fn stages_add_up_to_latencies_and_counters_follow_ceph() {
        let mut perf = Perf::default();
        [1000, 4000, 9000].into_iter().for_each(|t| perf.note(Mono(t)));
        perf.answered(op(Kind::Read, 1000, 1000));
        perf.sent(now(9000), 20, Duration::from_secs(30), &mut Images::default());
        [10_000, 16_000, 300_000].into_iter().for_each(|t| perf.note(Mono(t)));
        perf.answered(op(Kind::Write, 10_000, 300_000));
        perf.sent(now(310_000), 20, Duration::from_secs(30), &mut Images::default());

        let v = perf.json(Mono(1_000_000), 2);
        assert_eq!((&v["op"], &v["op_r"], &v["op_w"], &v["op_wip"]), (&2.into(), &1.into(), &1.into(), &2.into()));
        assert_eq!(v["op_r_latency"]["sum"], 8e-6);
        assert_eq!(v["op_w_latency"]["sum"], 3e-4);
        assert_eq!(v["op_w_in_bytes"], 4096);
        let stages = perf.stages_json();
        assert_eq!(stages["write"]["journaling"]["sum"], 284e-6);
        assert_eq!(stages["read"]["executing"]["sum"], 3e-6);
        assert_eq!(stages["read"]["journaling"]["avgcount"], 0);
        assert_eq!(perf.history.json(now(400_000), 20, false)["ops"].as_array().map(Vec::len), Some(2));

        perf.reset();
        assert_eq!(perf.json(Mono(1_000_000), 0)["op_latency"]["avgcount"], 0);
    }

    #[test]
    fn a_read_that_is_answered_in_its_round_lasts_until_the_round_ends() {
        let read = op(Kind::Read, 1000, 1000);
        let share = share(&read, now(9000));
        assert_eq!((share.read, share.write, share.bytes_out), (true, false, 10));
        assert_eq!(share.latency, Duration::from_nanos(8000));
    }
}
