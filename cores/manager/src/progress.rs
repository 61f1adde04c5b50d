//! Events in progress: each with the share that is done, and those that ended lately. Ceph's module `progress` shows
//! the same.
//!
//! Only the manager that follows an event knows of it. Nothing here is durable, and a start forgets it. What goes on is
//! begun anew and told again.

use monstate::state::State;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::UTime;

/// Ended events that are remembered.
const REMEMBERED: usize = 50;
/// Characters of a bar.
const BAR: usize = 28;

/// The option that says whether events are followed.
pub const FOLLOWED: &str = "mgr/progress/enabled";

/// Says whether events are followed.
pub fn is_followed(state: &State) -> bool {
    state.config.get("mgr", FOLLOWED).is_none_or(|value| value != "false")
}

/// News of an event, whose id comes first.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// It began.
    Begun(String, About),
    /// Part of it that is done, from 0 to 1.
    Far(String, f64),
    /// It ended well.
    Done(String),
    /// It ended or never began; and the reason.
    Failed(String, About, String),
}

/// Subject of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// A sentence for people.
    pub message: String,
    /// The same for programs.
    pub refs: Value,
}

#[derive(Clone, Debug)]
struct Event {
    about: About,
    started: UTime,
    share: f64,
}

#[derive(Clone, Debug)]
struct Ended {
    id: String,
    about: About,
    started: UTime,
    finished: UTime,
    failure: Option<String>,
}

/// All events.
#[derive(Clone, Debug, Default)]
pub struct Events {
    off: bool,
    open: BTreeMap<String, Event>,
    ended: VecDeque<Ended>,
}

/// Seconds with their fraction, as Python gives time.
fn seconds(time: UTime) -> f64 {
    time.as_nanos() as f64 / 1e9
}

impl Event {
    fn age(&self, now: UTime) -> Duration {
        Duration::from_nanos(now.as_nanos().saturating_sub(self.started.as_nanos()))
    }

    /// Estimates how long the event may still take, if it goes on as it went.
    fn remaining(&self, now: UTime) -> Option<Duration> {
        (self.share > 0.0).then(|| self.age(now).mul_f64((1.0 - self.share).max(0.0) / self.share))
    }

    fn headline(&self, now: UTime) -> String {
        format!("{} ({})", self.about.message, duration(self.age(now)))
    }

    /// The bar: `[=====.......] (remaining: 5s)`
    fn bar(&self, now: UTime) -> String {
        let full = (self.share.clamp(0.0, 1.0) * BAR as f64) as usize;
        let bar = format!("[{}{}]", "=".repeat(full), ".".repeat(BAR - full));
        match self.remaining(now) {
            Some(time) if full > 0 => format!("{bar} (remaining: {})", duration(time)),
            _ => format!("{bar} "),
        }
    }
}

/// A duration as Ceph says it: `5s`, `3m`, `2h`, the largest unit of which there is one.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3600 => format!("{}m", s / 60),
        s @ 3600..86_400 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

impl Events {
    /// Takes in what happened to an event.
    pub fn take(&mut self, now: UTime, note: Note) {
        if self.off {
            return;
        }
        match note {
            Note::Begun(id, mut about) => {
                // Names of images are in it, which their owners chose.
                about.message = grammar::one_line(&about.message);
                drop(self.open.insert(id, Event { about, started: now, share: 0.0 }));
            }
            Note::Far(id, share) => {
                if let Some(event) = self.open.get_mut(&id) {
                    event.share = share;
                }
            }
            Note::Done(id) => {
                if let Some(Event { about, started, .. }) = self.open.remove(&id) {
                    self.end(Ended { id, about, started, finished: now, failure: None });
                }
            }
            Note::Failed(id, mut about, why) => {
                about.message = grammar::one_line(&about.message);
                let started = self.open.remove(&id).map_or(now, |event| event.started);
                self.end(Ended { id, about, started, finished: now, failure: Some(why) });
            }
        }
    }

    fn end(&mut self, ended: Ended) {
        self.ended.retain(|other| other.id != ended.id);
        self.ended.push_back(ended);
        while self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
    }

    /// Forgets all events.
    pub fn clear(&mut self) {
        self.open.clear();
        self.ended.clear();
    }

    /// Begins or ends following events.
    pub fn follow(&mut self, on: bool) {
        self.off = !on;
        if self.off {
            self.clear();
        }
    }

    /// Says whether an event is going on.
    pub fn has(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// Says whether nothing is going on.
    pub fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }

    /// The events for `progress json`, in Ceph's shape, with the colon in one of its names.
    pub fn to_json(&self, now: UTime) -> Value {
        let open = self.open.iter().map(|(id, event)| {
            json!({
                "duration": format!("({})", duration(event.age(now))),
                "id": id,
                "message": event.about.message,
                "progress": event.share,
                "refs": event.about.refs,
                "started_at": seconds(event.started),
                "time_remaining": event.remaining(now).map(|time| time.as_secs()),
            })
        });
        let ended = self.ended.iter().map(|ended| {
            let mut value = json!({
                "add_to_ceph_s:": true,
                "finished_at": seconds(ended.finished),
                "id": ended.id,
                "message": ended.about.message,
                "refs": ended.about.refs,
                "started_at": seconds(ended.started),
            });
            if let Some(why) = &ended.failure {
                value["failed"] = json!(true);
                value["failure_message"] = json!(why);
            }
            value
        });
        json!({"completed": ended.collect::<Vec<_>>(), "events": open.collect::<Vec<_>>()})
    }

    /// The events for `status -f json`.
    pub fn of_status(&self, now: UTime) -> Value {
        let event = |event: &Event| {
            let message = format!("{}\n      {}", event.headline(now), event.bar(now));
            json!({"message": message, "progress": event.share, "add_to_ceph_s": true})
        };
        self.open.iter().map(|(id, e)| (id.clone(), event(e))).collect::<serde_json::Map<_, _>>().into()
    }

    /// The events for `status`: two lines for each.
    pub fn lines(&self, now: UTime) -> String {
        self.open.values().map(|e| format!("    {}\n      {}\n", e.headline(now), e.bar(now))).collect()
    }

    /// Returns true if there is no event, open or ended.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.ended.is_empty()
    }

    /// The events for `progress`.
    pub fn text(&self, now: UTime) -> String {
        let open = self.open.values().map(|event| format!("{}\n    {}\n", event.headline(now), event.bar(now)));
        let ended = self.ended.iter().map(|ended| {
            let how = if ended.failure.is_some() { "Failed" } else { "Complete" };
            // As in Ceph, the age counts from the beginning.
            let age = Duration::from_nanos(now.as_nanos().saturating_sub(ended.started.as_nanos()));
            format!("[{how}]: {} ({})\n    [{}] \n", ended.about.message, duration(age), "=".repeat(BAR))
        });
        open.chain(ended).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sec: u32) -> UTime {
        UTime { sec, nsec: 0 }
    }

    fn about(message: &str) -> About {
        About { message: message.into(), refs: json!({"origin": "test"}) }
    }

    #[test]
    fn events_begin_go_on_and_end() {
        let mut events = Events::default();
        assert!(events.is_idle());
        events.take(at(10), Note::Begun("a".into(), about("Removing x")));
        events.take(at(12), Note::Far("a".into(), 0.25));
        assert_eq!(events.text(at(20)), "Removing x (10s)\n    [=======.....................] (remaining: 30s)\n");
        assert_eq!(events.lines(at(20)), "    Removing x (10s)\n      [=======.....................] (remaining: 30s)\n");
        assert_eq!(events.to_json(at(20))["events"][0]["time_remaining"], 30);
        assert!(events.of_status(at(20))["a"]["message"].as_str().is_some_and(|m| m.starts_with("Removing x (10s)\n")));
        events.take(at(80), Note::Done("a".into()));
        assert!(events.is_quiet());
        assert_eq!(events.text(at(100)), format!("[Complete]: Removing x (1m)\n    [{}] \n", "=".repeat(BAR)));
    }

    #[test]
    fn what_is_cancelled_before_it_began_failed_all_the_same() {
        let mut events = Events::default();
        events.take(at(5), Note::Failed("b".into(), about("Flattening y"), "Operation canceled".into()));
        let json = events.to_json(at(6));
        assert_eq!(
            (&json["completed"][0]["failed"], &json["completed"][0]["failure_message"]),
            (&json!(true), &json!("Operation canceled"))
        );
        events.take(at(7), Note::Done("never begun".into()));
        assert_eq!(events.ended.len(), 1);
    }

    #[test]
    fn only_the_latest_are_remembered_and_nothing_when_switched_off() {
        let mut events = Events::default();
        for n in 0..REMEMBERED + 5 {
            events.take(at(1), Note::Failed(n.to_string(), about("z"), "no".into()));
        }
        assert_eq!((events.ended.len(), events.ended[0].id.as_str()), (REMEMBERED, "5"));
        events.follow(false);
        events.take(at(2), Note::Begun("a".into(), about("x")));
        assert!(events.is_quiet() && events.ended.is_empty());
    }
}
