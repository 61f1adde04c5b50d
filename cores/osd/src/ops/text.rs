//! Operations as `dump_ops_in_flight` and its relatives show them: in the shape of Ceph 16's JSON, with what Ceph's does not have
//! beside it. All text is made here, when somebody asks.

use super::record::{CopyState, Op, Place, Wait};
use crate::perf::STAGES;
use node::{Mono, Now};
use pg::Step;
use serde_json::{Map, Value, json};
use std::time::Duration;
use types::{EntityType, ReqId, UTime};

/// The wall clock at a moment that was, as of `now`.
fn wall(now: Now, at: Mono) -> UTime {
    let before = u64::try_from(now.mono.since(at).as_nanos()).unwrap_or(u64::MAX);
    UTime::from_nanos(now.wall.as_nanos().saturating_sub(before))
}

impl Wait {
    /// As an event, in Ceph's words where it has some.
    fn event(self) -> &'static str {
        match self {
            Wait::ForMap => "wait for new map",
            Wait::ForGroup => "waiting for the placement group",
            Wait::ForRoom => "waiting for earlier answers to leave",
            Wait::InGroup(Step::WaitsForActive) => "waiting for peered",
            Wait::InGroup(Step::WaitsForObject) => "waiting for rw locks",
            Wait::InGroup(Step::WaitsForRecovery) => "waiting for degraded object",
            Wait::InGroup(Step::WaitsForData) => "waiting for data",
            Wait::InGroup(Step::WaitsForLease) => "waiting for readable",
            Wait::InGroup(Step::Submitted | Step::Committed) => "started",
        }
    }
}

impl Op {
    /// `osd_op(client.4123.0:7 1.0 name [write,setxattr] e12)`.
    pub(crate) fn describe(&self) -> String {
        let request = &self.request;
        let (kind, num) = self.peer.as_ref().map_or((EntityType::Client, 0), |peer| (peer.kind, peer.global_id));
        let id = ReqId { kind: kind as u8, num: num as i64, tid: self.tid, inc: 0 };
        let names = request.codes.iter().take(request.vector).map(|code| messages::code::name(*code).unwrap_or("op"));
        let mut names: Vec<&str> = names.collect();
        if request.vector > names.len() {
            names.push("...");
        }
        format!("osd_op({id} {} {} [{}] e{})", request.pg, request.object.escape_ascii(), names.join(","), request.epoch)
    }

    /// The moments that are known, in the order of time.
    fn events(&self, sent: Option<Mono>) -> Vec<(Mono, String)> {
        let mut events = vec![(self.received, "initiated".to_owned())];
        events.extend(self.waits.iter().map(|(at, wait)| (at, wait.event().to_owned())));
        let mut put = |at: Mono, what: String| {
            if at > Mono(0) {
                events.push((at, what));
            }
        };
        put(self.reached, "reached_pg".into());
        put(self.executed, "started".into());
        put(self.submitted, "submitted to the journal".into());
        let copies: Vec<String> = self.copies.all().iter().map(|state| state.copy.to_string()).collect();
        if !copies.is_empty() {
            put(self.submitted, format!("waiting for subops from {}", copies.join(",")));
        }
        for state in self.copies.all() {
            put(state.came.unwrap_or(Mono(0)), format!("sub_op_commit_rec from osd.{}", state.copy));
        }
        put(self.committed, "op_commit".into());
        put(self.answered, "commit_sent".into());
        put(sent.unwrap_or(Mono(0)), "done".into());
        // Stable: what happened at the same moment stays in this order.
        events.sort_by_key(|(at, _)| *at);
        events
    }

    /// Returns how far it is, in Ceph's words.
    fn flag_point(&self) -> &'static str {
        let last_wait = self.waits.iter().last().map(|(at, _)| at);
        let waits_for_copies = self.copies.all().iter().any(|copy| copy.came.is_none());
        match self.place {
            Place::Answered => "commit sent; apply or cleanup",
            Place::Waiting => "delayed",
            Place::InGroup(_) if self.submitted > Mono(0) && last_wait.is_none_or(|at| at <= self.submitted) => {
                if waits_for_copies {
                    "waiting for sub ops"
                } else {
                    "started"
                }
            }
            Place::InGroup(_) if last_wait.is_some_and(|at| at >= self.reached) => "delayed",
            Place::InGroup(_) => "reached pg",
        }
    }

    /// The copy that was waited for longest, and where its time went; what is left of it passed on the way there and back.
    fn longest(&self) -> Option<Value> {
        let (CopyState { copy, time, .. }, came) = self.copies.slowest()?;
        let took = came.since(self.submitted);
        let mut told = json!({ "osd": copy.osd, "duration": took.as_secs_f64() });
        if let Some(time) = time {
            let (queue, journal) = (Duration::from_micros(time.queue.into()), Duration::from_micros(time.journal.into()));
            told["network"] = json!(took.saturating_sub(queue + journal).as_secs_f64());
            told["queue"] = json!(queue.as_secs_f64());
            told["journal"] = json!(journal.as_secs_f64());
        }
        Some(told)
    }

    fn data(&self, now: Now, flag_point: &str, sent: Option<Mono>) -> Value {
        let mut before = self.received;
        let events = self.events(sent).into_iter().map(|(at, event)| {
            let duration = at.since(std::mem::replace(&mut before, at));
            json!({ "event": event, "time": wall(now, at).iso(), "duration": duration.as_secs_f64() })
        });
        let events: Vec<Value> = events.collect();
        let mut client = Map::new();
        if let Some(peer) = &self.peer {
            client.insert("client".into(), json!(format!("{}.{}", peer.kind.name(), peer.global_id)));
            client.insert("client_addr".into(), json!(peer.addr.to_string()));
        }
        client.insert("tid".into(), json!(self.tid));
        let mut data = json!({ "flag_point": flag_point, "client_info": client, "events": events });
        if let Some(longest) = self.longest() {
            data["waited_longest_for"] = longest;
        }
        data
    }

    /// One that is not answered.
    pub(crate) fn json(&self, now: Now) -> Value {
        let age = now.mono.since(self.received).as_secs_f64();
        json!({
            "description": self.describe(),
            "initiated_at": wall(now, self.received).iso(),
            "age": age,
            "duration": age,
            "type_data": self.data(now, self.flag_point(), None),
        })
    }

    /// One that is over since `ended`, and where its time went.
    pub(crate) fn finished_json(&self, now: Mono, ended: Now, stages: &[Duration; STAGES.len()]) -> Value {
        let mut data = self.data(ended, "commit sent; apply or cleanup", Some(ended.mono));
        let stages = STAGES.iter().zip(stages).map(|(name, took)| ((*name).to_owned(), json!(took.as_secs_f64())));
        data["stages"] = Value::Object(stages.collect());
        json!({
            "description": self.describe(),
            "initiated_at": wall(ended, self.received).iso(),
            "age": now.since(self.received).as_secs_f64(),
            "duration": ended.mono.since(self.received).as_secs_f64(),
            "type_data": data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrival, OpTable};
    use super::*;
    use crate::ops::record::Request;
    use crate::perf::Kind;
    use bytes::Bytes;
    use pg::{CopyTime, Peer, Recorder};
    use std::sync::Arc;
    use types::{CopyId, EntityAddr, EntityName, PgId, SessionId, SpgId};

    const MS: u64 = 1_000_000;

    fn request() -> Request {
        let (pg, object) = (SpgId::whole(PgId::new(1, 5)), Bytes::from_static(b"na\xffme"));
        let codes = [messages::osd::code::WRITE, messages::osd::code::SETXATTR, 0, 0];
        Request { kind: Kind::Write, pg, epoch: 12, object, codes, vector: 2 }
    }

    fn peer() -> Arc<Peer> {
        let name = EntityName::new(EntityType::Client, "admin");
        Arc::new(Peer { name, kind: EntityType::Client, global_id: 4123, addr: EntityAddr::default() })
    }

    fn texts(data: &Value) -> Vec<String> {
        let events = data["events"].as_array().expect("events");
        events.iter().map(|e| e["event"].as_str().expect("text").to_owned()).collect()
    }

    #[test]
    fn a_write_with_copies_tells_whom_it_waited_for_and_why() {
        let mut table = OpTable::default();
        let key = table.begin(Arrival {
            session: SessionId(1),
            tid: 7,
            received: Mono(10 * MS),
            request: request(),
            ..Arrival::default()
        });
        table.at(key).wait(Mono(11 * MS), Wait::ForMap);
        table.at(key).reach(Mono(12 * MS), 3, &peer());
        table.step(key, Mono(13 * MS), Step::WaitsForObject);
        let now = Now { mono: Mono(60 * MS), wall: UTime::from_nanos(1 << 60) };
        assert_eq!(table.at(key).json(now)["type_data"]["flag_point"], "delayed");
        table.step(key, Mono(20 * MS), Step::Submitted);
        table.shipped(key, CopyId::whole(1));
        table.shipped(key, CopyId::whole(2));
        table.step(key, Mono(22 * MS), Step::Committed);
        table.promised(key, Mono(50 * MS), CopyId::whole(2), Some(CopyTime { queue: 4_000, journal: 25_000 }));
        assert_eq!(table.at(key).json(now)["type_data"]["flag_point"], "waiting for sub ops");
        table.promised(key, Mono(23 * MS), CopyId::whole(1), Some(CopyTime { queue: 0, journal: 1_000 }));
        table.answer(key, Mono(20 * MS), Mono(50 * MS), 0);

        let stages = [Duration::ZERO; STAGES.len()];
        let shown = table.at(key).finished_json(Mono(90 * MS), now, &stages);
        assert_eq!(shown["description"], "osd_op(client.4123.0:7 1.5 na\\xffme [write,setxattr] e12)");
        assert_eq!((&shown["age"], &shown["duration"]), (&json!(0.08), &json!(0.05)));
        let data = &shown["type_data"];
        let client = &data["client_info"];
        assert_eq!((&client["client"], &client["tid"]), (&json!("client.4123"), &json!(7)));
        assert_eq!(
            texts(data),
            [
                "initiated",
                "wait for new map",
                "reached_pg",
                "waiting for rw locks",
                "started",
                "submitted to the journal",
                "waiting for subops from 1,2",
                "op_commit",
                "sub_op_commit_rec from osd.1",
                "sub_op_commit_rec from osd.2",
                "commit_sent",
                "done"
            ]
        );
        let sum: f64 = data["events"].as_array().expect("events").iter().map(|e| e["duration"].as_f64().expect("number")).sum();
        assert!((sum - 0.05).abs() < 1e-9, "{sum}");
        let longest = json!({ "osd": 2, "duration": 0.03, "network": 0.001, "queue": 0.004, "journal": 0.025 });
        assert_eq!(data["waited_longest_for"], longest);
        assert_eq!(data["stages"]["copying"], json!(0.0));
    }

    #[test]
    fn one_that_waits_outside_of_groups_is_told_before_its_client_is_known() {
        let mut table = OpTable::default();
        let request = Request { vector: 9, codes: [messages::osd::code::STAT; 4], ..request() };
        let key = table.begin(Arrival { tid: 7, received: Mono(10 * MS), request, ..Arrival::default() });
        table.at(key).wait(Mono(10 * MS), Wait::ForGroup);
        let now = Now { mono: Mono(41 * MS), wall: UTime::from_nanos(1 << 60) };
        let shown = table.at(key).json(now);
        assert_eq!(shown["description"], "osd_op(client.0.0:7 1.5 na\\xffme [stat,stat,stat,stat,...] e12)");
        assert_eq!(shown["type_data"]["flag_point"], "delayed");
        assert_eq!(shown["type_data"]["client_info"], json!({ "tid": 7 }));
        assert_eq!(texts(&shown["type_data"]), ["initiated", "waiting for the placement group"]);
        assert_eq!(shown["age"], json!(0.031));
    }
}
