//! What the monitors keep in versions, and others follow: maps, options, the cluster log. One row for each kind.
//!
//! A new kind is a new row of [`KINDS`]: `Monitor::publish` looks for rows that changed, and asks them what subscribers
//! lack; questions for versions (`MonGetVersion`) are answered from the rows, too.

use super::rights::Rights;
use messages::mon::{ConfigMsg, LogEntry, LogMsg, MgrMapMsg, MonGetVersion, MonGetVersionReply, MonMapMsg, OsdMapMsg};
use monstate::state::{State, place_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{EntityName, Message};

/// Bytes of maps that one message carries at most.
const MAP_BYTES: usize = 4 << 20;
/// Maps that one message carries at most.
const MAPS: usize = 100;
/// Lines of the cluster log that a new subscriber is given at once at most.
const LOG_LINES: usize = 1_000;

/// Messages, and the version that the receiver lacks then.
type Sent = (Vec<Message>, u64);

/// Tells states of one kind apart: subscribers are told when it is another one.
pub(super) type Stamp = (u64, u64);

/// A kind of what is kept in versions.
struct Kind {
    /// By what names clients subscribe to it; by none: nobody follows it.
    topics: &'static [&'static str],
    /// By what names clients ask for its versions.
    asked: &'static [&'static str],
    /// Parts of the cluster that a follower must be allowed to read. As in Ceph everybody has the monitors' map and his
    /// own options, since nobody could do anything without.
    readers: &'static [&'static str],
    /// Its newest and its oldest version.
    versions: fn(&State) -> (u64, u64),
    /// Stamp that must change for subscribers to be told.
    stamp: fn(&State) -> Stamp,
    /// Returns what a subscriber lacks.
    messages: fn(&State, &mut Subscriber<'_>, &mut Made) -> Sent,
}

/// All kinds.
const KINDS: &[Kind] = &[
    Kind {
        topics: &["osdmap"],
        asked: &["osdmap"],
        readers: &["mon", "osd"],
        versions: |state| (state.history.last().into(), state.history.first().into()),
        stamp: |state| (state.osdmap.epoch.into(), 0),
        messages: |state, to, made| made.osd_maps(state, to.start),
    },
    Kind {
        topics: &["monmap"],
        asked: &["monmap"],
        readers: &[],
        versions: |state| (state.monmap.epoch.into(), 1),
        stamp: |state| (state.monmap.epoch.into(), 0),
        messages: |state, to, _| to.newer(state.monmap.epoch, || MonMapMsg { monmap: state.monmap_bytes.clone() }.encode()),
    },
    Kind {
        topics: &["mgrmap"],
        asked: &["mgrmap"],
        readers: &["mon"],
        versions: |state| (state.mgrmap.epoch.into(), 1),
        stamp: |state| (state.mgrmap.epoch.into(), 0),
        messages: |state, to, _| to.newer(state.mgrmap.epoch, || MgrMapMsg { map: state.mgrmap_bytes.clone() }.encode()),
    },
    Kind {
        topics: &["config"],
        asked: &["config"],
        readers: &[],
        versions: |state| (state.config.version, 0),
        // Options may hold for a place in the CRUSH map, or a device class.
        stamp: |state| (state.config.version, u64::from(state.osdmap.crush_version.cast_unsigned())),
        messages: |state, to, _| options(state, to),
    },
    Kind {
        topics: &["log", "log-debug", "log-info", "log-sec", "log-warn", "log-error"],
        asked: &["logm"],
        readers: &["mon"],
        versions: |state| (state.log_version, 0),
        stamp: |state| (state.log_version, 0),
        messages: |state, to, _| log_lines(state, to),
    },
    // Keys are asked for in other ways.
    Kind { asked: &["auth"], versions: |state| (state.auth.version, 0), ..UNFOLLOWED },
    // There are no file systems.
    Kind { asked: &["fsmap", "mdsmap"], versions: |_| (1, 1), ..UNFOLLOWED },
];

/// A kind of which only the version is asked for.
const UNFOLLOWED: Kind = Kind {
    topics: &[],
    asked: &[],
    readers: &[],
    versions: |_| (0, 0),
    stamp: |_| (0, 0),
    messages: |_, to, _| (Vec::new(), to.start),
};

/// Name that can be subscribed to: a constant of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Topic {
    name: &'static str,
    /// Place of its kind in the table.
    kind: usize,
}

impl Topic {
    /// The maps of OSDs and pools.
    pub(super) const OSDMAP: Self = Self { name: "osdmap", kind: 0 };
    /// The map of the monitors.
    pub(super) const MONMAP: Self = Self { name: "monmap", kind: 1 };

    /// Finds one. Kinds that do not exist here (file systems, keys) have none.
    pub(super) fn find(name: &str) -> Option<Self> {
        let named =
            |(at, kind): (usize, &Kind)| kind.topics.iter().find(|topic| **topic == name).map(|name| Self { name, kind: at });
        KINDS.iter().enumerate().find_map(named)
    }

    fn row(self) -> &'static Kind {
        &KINDS[self.kind]
    }

    /// Returns true if somebody with these rights may follow it.
    pub(super) fn may_follow(self, rights: &Rights) -> bool {
        self.row().readers.iter().all(|part| rights.allows(part, true, false))
    }

    /// Returns true if a session follows one of the two at a time. It follows the cluster log at one level: librados
    /// asks for the next without giving up the last.
    pub(super) fn replaces(self, other: Self) -> bool {
        self.kind == other.kind
    }

    /// Returns what a subscriber lacks, and the version that it lacks then.
    pub(super) fn messages(self, state: &State, to: &mut Subscriber<'_>, made: &mut Made) -> Sent {
        (self.row().messages)(state, to, made)
    }
}

/// Stamps that subscribers were told last, of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Published([Stamp; KINDS.len()]);

impl Published {
    /// Returns the stamps of a state.
    pub(super) fn of(state: &State) -> Self {
        Self(std::array::from_fn(|at| (KINDS[at].stamp)(state)))
    }

    /// Returns true if the two differ in the kind of a topic.
    pub(super) fn differs(&self, other: &Self, topic: Topic) -> bool {
        self.0[topic.kind] != other.0[topic.kind]
    }

    /// Returns the epoch of the OSD map.
    pub(super) fn osdmap(&self) -> u64 {
        self.0[Topic::OSDMAP.kind].0
    }
}

/// Session that follows something, and what it has.
pub(super) struct Subscriber<'a> {
    /// By which name of the kind.
    pub(super) topic: Topic,
    /// Who.
    pub(super) entity: &'a EntityName,
    /// Host where it runs, as it says.
    pub(super) host: &'a str,
    /// Options as they were sent last.
    pub(super) config: &'a mut Option<BTreeMap<String, String>>,
    /// First version that it lacks.
    pub(super) start: u64,
    /// True if it just subscribed.
    pub(super) first: bool,
}

impl Subscriber<'_> {
    /// The newest version, to who lacks it.
    fn newer(&self, epoch: u32, message: impl FnOnce() -> Message) -> Sent {
        if self.start <= u64::from(epoch) { (vec![message()], u64::from(epoch) + 1) } else { (Vec::new(), self.start) }
    }
}

/// Messages with OSD maps, by the epoch that the receiver lacks first, and what comes next. A map goes to all OSDs at
/// once.
#[derive(Default)]
pub(super) struct Made(BTreeMap<u64, Sent>);

impl Made {
    /// Returns the OSD maps from `start` on, and what comes next.
    pub(super) fn osd_maps(&mut self, state: &State, start: u64) -> Sent {
        self.0.entry(start).or_insert_with(|| osd_maps(state, start)).clone()
    }
}

/// Answers which version there is.
pub(super) fn version(state: &State, ask: &MonGetVersion) -> MonGetVersionReply {
    let kind = KINDS.iter().find(|kind| kind.asked.contains(&ask.what.as_str()));
    let (version, oldest) = kind.map_or((0, 0), |kind| (kind.versions)(state));
    MonGetVersionReply { handle: ask.handle, version, oldest }
}

/// Maps from `start` on, and what comes next: the current full map for 0; increments for an epoch that is kept; else
/// the oldest full map and all that follow.
pub(super) fn osd_maps(state: &State, start: u64) -> Sent {
    let (first, last) = (state.history.first(), state.history.last());
    if start > u64::from(last) {
        return (Vec::new(), start);
    }
    let blank = OsdMapMsg { fsid: state.fsid, oldest: first, newest: last, ..OsdMapMsg::default() };
    let mut message = blank.clone();
    let mut epoch = start as u32;
    let mut bytes = 0;
    if start == 0 || start <= u64::from(first) {
        epoch = if start == 0 { last } else { first };
        if let Some(full) = state.history.full(epoch) {
            bytes += full.len();
            message.full.insert(epoch, full);
        }
        epoch += 1;
    }
    let mut messages = Vec::new();
    for epoch in epoch..=last {
        let Some(inc) = state.history.incremental(epoch) else { continue };
        if bytes + inc.len() > MAP_BYTES || message.incremental.len() >= MAPS {
            messages.push(std::mem::replace(&mut message, blank.clone()).encode());
            bytes = 0;
        }
        bytes += inc.len();
        message.incremental.insert(epoch, inc.clone());
    }
    messages.push(message.encode());
    (messages, u64::from(last) + 1)
}

/// An entity's options, if they changed.
fn options(state: &State, to: &mut Subscriber<'_>) -> Sent {
    let place = place_of(state, &to.entity.kind, &to.entity.id, to.host);
    let options = state.config.for_entity(to.entity, &place);
    let config: BTreeMap<String, String> = options.into_iter().map(|(name, (_, value))| (name, value)).collect();
    if !to.first && to.config.as_ref() == Some(&config) {
        return (Vec::new(), to.start);
    }
    *to.config = Some(config.clone());
    (vec![ConfigMsg { config }.encode()], to.start)
}

/// Lines of at least the wanted level, of all channels: clients choose (`ceph -w`, `ceph -W audit`). And the version
/// after them. A new subscriber from 0 gets none of the past but the last line of the cluster's own channel, to know
/// that it is subscribed: audits may have come after it.
fn log_lines(state: &State, to: &Subscriber<'_>) -> Sent {
    let (start, first) = (to.start, to.first);
    let level = match to.topic.name.trim_start_matches("log").trim_start_matches('-') {
        "debug" => 0,
        "sec" => 2,
        "warn" => 3,
        "error" => 4,
        _ => 1,
    };
    let version = state.log_version;
    let newcomer = start == 0 && first;
    if !newcomer && start > version {
        return (Vec::new(), start);
    }
    let (within, most) = if newcomer {
        (usize::MAX, 1)
    } else {
        let fresh = (version + 1 - start.max(1)).min(LOG_LINES as u64) as usize;
        (fresh, fresh)
    };
    let wanted = |e: &&Arc<LogEntry>| e.level >= level && (!newcomer || e.channel == "cluster");
    let lines: Vec<LogEntry> = state.log.iter().rev().take(within).filter(wanted).take(most).map(|e| (**e).clone()).collect();
    let next = version + 1;
    if lines.is_empty() {
        return (Vec::new(), next);
    }
    (vec![LogMsg { version, fsid: state.fsid, entries: lines.into_iter().rev().collect() }.encode()], next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_once_and_a_topic_finds_its_row() {
        let topics: Vec<&str> = KINDS.iter().flat_map(|kind| kind.topics).copied().collect();
        let asked: Vec<&str> = KINDS.iter().flat_map(|kind| kind.asked).copied().collect();
        for names in [&topics, &asked] {
            assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{names:?}");
        }
        for name in topics {
            assert!(Topic::find(name).is_some_and(|topic| topic.row().topics.contains(&name)), "{name}");
        }
        assert_eq!((Topic::find("osdmap"), Topic::find("monmap")), (Some(Topic::OSDMAP), Some(Topic::MONMAP)));
        assert_eq!((Topic::find("mdsmap"), Topic::find("auth")), (None, None));
    }
}
