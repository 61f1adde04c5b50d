//! What an objecter knows: operations under way, what is registered at OSDs, what OSDs and monitors were asked.
//!
//! The other rooms act on it: `objecter` on operations, `linger` on watches and notifications, `session` on what is
//! said with OSDs, `monitor` on what is said with monitors.

use crate::lines::{Lines, Pause};
use crate::monlink::{LinkConfig, MonLink};
use crate::target::{Target, object_of};
use crate::{Config, Event, OpId, OpRequest, SnapContext};
use bytes::Bytes;
use maps::OsdMap;
use messages::code::{self, watch_op};
use messages::mon::PoolOp;
use messages::osd::{Op, OpArgs, flags};
use node::Mono;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::{Epoch, Fsid, HObject, Locator, OsdId, PgId, Rope, SessionId, SnapId, UTime};

/// The client's core. See the crate's text.
pub struct Objecter {
    pub(crate) config: Config,
    pub(crate) map: Option<Arc<OsdMap>>,
    pub(crate) ops: BTreeMap<u64, OpState>,
    /// Operations that wait here.
    pub(crate) unsent: BTreeSet<u64>,
    pub(crate) next_tid: u64,
    /// Number of operations that were sent and not answered, and their bytes of payload.
    pub(crate) in_flight: (usize, u64),
    pub(crate) osds: BTreeMap<OsdId, OsdSession>,
    pub(crate) sessions: Sessions,
    pub(crate) lingers: BTreeMap<u64, Linger>,
    pub(crate) monitor: MonSession,
    pub(crate) events: VecDeque<Event>,
    pub(crate) wake: Mono,
    /// True if something changed that may let a waiting operation go.
    pub(crate) pump: bool,
    /// True if a new map may have made sessions useless.
    pub(crate) sessions_stale: bool,
}

impl Objecter {
    /// An objecter that knows nothing yet.
    pub fn new(config: Config) -> Self {
        let monitor = MonSession::new(&config);
        Self {
            map: None,
            ops: BTreeMap::new(),
            unsent: BTreeSet::new(),
            next_tid: 1,
            in_flight: (0, 0),
            osds: BTreeMap::new(),
            sessions: Sessions::Own(Lines::new(Pause::of(config.retry_after))),
            lingers: BTreeMap::new(),
            monitor,
            events: VecDeque::new(),
            wake: Mono(0),
            pump: false,
            sessions_stale: false,
            config,
        }
    }

    /// An objecter inside the OSD `whoami`, which brings the maps ([`Objecter::set_map`]) and the sessions with other
    /// OSDs ([`Objecter::take_wanted`]), hands over what comes on them ([`Objecter::message`]), and carries out itself
    /// what is for it ([`Event::Here`]). How much is under way is not bounded here: who asks is.
    pub fn embedded(whoami: OsdId) -> Self {
        let config = Config { max_ops: usize::MAX, max_bytes: u64::MAX, ..Config::default() };
        Self { sessions: Sessions::Given(Given::new(whoami)), wake: Mono::NEVER, ..Self::new(config) }
    }
}

/// An operation that has not ended.
#[derive(Debug)]
pub(crate) struct OpState {
    pub(crate) request: OpRequest,
    /// Place where it went last.
    pub(crate) target: Target,
    /// To whom it was sent and not answered; `None` while it waits here.
    pub(crate) osd: Option<OsdId>,
    /// To whom it was sent last, also if it waits here to be sent again.
    pub(crate) last: Option<OsdId>,
    /// Number of times that it was sent.
    pub(crate) attempts: i32,
    /// Bytes of payload.
    pub(crate) bytes: u64,
    /// Of what this operation is a part.
    pub(crate) owner: Owner,
}

/// Flags of reads that any member may answer.
pub(crate) const ASIDE: u32 = flags::BALANCE_READS | flags::LOCALIZE_READS;

impl OpState {
    /// Returns true if any member may answer it. Members with shards have a part of an object each, so their primary is
    /// asked.
    pub(crate) fn is_aside(&self) -> bool {
        self.request.flags & ASIDE != 0 && self.request.flags & flags::WRITE == 0 && self.target.shard.is_none()
    }

    /// To whom it goes next: the primary, or any member. Where a client is, is not known here: one that wants a near
    /// member gets always the same.
    pub(crate) fn recipient(&self, tid: u64) -> OsdId {
        let interval = &self.target.interval;
        let members: Vec<OsdId> = if self.is_aside() { interval.members().collect() } else { Vec::new() };
        if self.request.flags & flags::LOCALIZE_READS != 0 && self.is_aside() {
            return members.into_iter().min().unwrap_or(interval.primary);
        }
        let turn = tid.wrapping_add(u64::from(self.attempts.unsigned_abs()));
        match members.len() as u64 {
            0 => interval.primary,
            n => members[(turn % n) as usize],
        }
    }
}

/// The one who wants to know how an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Caller,
    /// (Re)registration or ping of a watch or notification.
    Linger(u64),
}

/// Kind of a registration at an OSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Watch { timeout: u32, generation: u32, registered: bool },
    Notify { id: OpId, input: Bytes },
}

/// A watch or a notification under way.
#[derive(Debug)]
pub(crate) struct Linger {
    pub(crate) kind: Kind,
    pub(crate) locator: Locator,
    pub(crate) oid: Bytes,
    /// The operation that registers it, or pings, while it is under way.
    pub(crate) op: Option<u64>,
    /// Place where it is registered.
    pub(crate) at: Option<(OsdId, Target)>,
    /// Time to register (0), to ping, or to look for newer maps next.
    pub(crate) due: Mono,
}

impl Linger {
    /// A notification that its OSD has: its completion comes as an event.
    pub(crate) fn waits_to_complete(&self) -> bool {
        matches!(self.kind, Kind::Notify { .. }) && self.at.is_some()
    }

    /// The operation that registers it now, registers it again or pings.
    pub(crate) fn request(&self, cookie: u64) -> OpRequest {
        let watch = |op, generation, timeout| Op::new(code::WATCH, OpArgs::Watch { cookie, version: 0, op, generation, timeout });
        let (op, flags) = match &self.kind {
            Kind::Watch { timeout, registered: false, .. } => (watch(watch_op::WATCH, 0, *timeout), flags::WRITE),
            Kind::Watch { timeout, generation, .. } if self.at.is_none() => {
                (watch(watch_op::RECONNECT, *generation, *timeout), flags::WRITE)
            }
            Kind::Watch { timeout, generation, .. } => (watch(watch_op::PING, *generation, *timeout), flags::READ),
            Kind::Notify { input, .. } => {
                let op = Op { input: input.clone(), ..Op::new(code::NOTIFY, OpArgs::Notify { cookie }) };
                (op, flags::READ)
            }
        };
        OpRequest {
            locator: self.locator.clone(),
            oid: self.oid.clone(),
            ops: vec![op],
            snapc: SnapContext::default(),
            snapid: SnapId::HEAD,
            flags,
            mtime: UTime::ZERO,
            pg: None,
        }
    }
}

/// Objects of a group that an OSD wants held back.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) pg: PgId,
    pub(crate) begin: HObject,
    pub(crate) end: HObject,
}

/// Backoffs of an OSD, on the session that stands.
#[derive(Debug, Default)]
pub(crate) struct OsdSession {
    pub(crate) held: BTreeMap<u64, Held>,
}

/// Source of sessions with OSDs.
#[derive(Debug)]
pub(crate) enum Sessions {
    /// The objecter opens them.
    Own(Lines<OsdId>),
    /// The OSD in which the objecter is embedded brings them.
    Given(Given),
}

/// Sessions that somebody else opens.
#[derive(Debug)]
pub(crate) struct Given {
    /// The OSD that is not reached by a session, as it is this one.
    pub(crate) whoami: OsdId,
    pub(crate) sessions: BTreeMap<OsdId, SessionId>,
    pub(crate) wanted: BTreeSet<OsdId>,
}

impl Given {
    pub(crate) fn new(whoami: OsdId) -> Self {
        Self { whoami, sessions: BTreeMap::new(), wanted: BTreeSet::new() }
    }

    /// Returns true if an operation may be under way to this OSD.
    #[cfg(feature = "sim")]
    pub(crate) fn reaches(&self, osd: OsdId) -> bool {
        osd == self.whoami || self.sessions.contains_key(&osd)
    }
}

impl OsdSession {
    /// Returns true if the OSD asked to hold this request back.
    pub(crate) fn holds(&self, pg: PgId, request: &OpRequest) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let object = object_of(request);
        self.held.values().any(|h| h.pg == pg && (h.begin == object || h.begin <= object && object < h.end))
    }
}

/// Reason why a version was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VersionWanted {
    /// To know whether our OSD map is the newest.
    NewestMap,
}

/// A command under way to the monitors.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) cmd: Vec<String>,
    pub(crate) input: Rope,
    pub(crate) sent: bool,
}

/// Wishes to the monitors, beside the maps.
#[derive(Debug)]
pub(crate) struct MonSession {
    pub(crate) link: MonLink,
    pub(crate) fsid: Option<Fsid>,
    pub(crate) commands: BTreeMap<u64, Command>,
    /// Pool operations under way; the second says whether it was sent.
    pub(crate) pool_ops: BTreeMap<u64, (PoolOp, bool)>,
    /// Handles of version requests under way; the second says whether it was sent.
    pub(crate) versions: BTreeMap<u64, (VersionWanted, bool)>,
    /// Newest OSD map that a monitor named.
    pub(crate) newest: Option<Epoch>,
}

impl MonSession {
    pub(crate) fn new(config: &Config) -> Self {
        let pause = Pause::of(config.retry_after);
        let (monitors, hostname, follow) = (config.monitors.clone(), config.hostname.clone(), config.follow_maps);
        Self {
            link: MonLink::new(LinkConfig { monitors, hostname, pause, follow }),
            fsid: config.fsid,
            commands: BTreeMap::new(),
            pool_ops: BTreeMap::new(),
            versions: BTreeMap::new(),
            newest: None,
        }
    }

    pub(crate) fn want_version(&mut self, what: VersionWanted) {
        if !self.versions.values().any(|(w, _)| *w == what) {
            let handle = self.versions.last_key_value().map_or(1, |(h, _)| h + 1);
            self.versions.insert(handle, (what, false));
        }
    }

    /// Returns true if a monitor said that there is nothing newer, or there is no monitor to ask.
    pub(crate) fn knows_no_newer(&self, epoch: Epoch) -> bool {
        self.link.has_nobody() || self.newest.is_some_and(|newest| newest <= epoch)
    }
}
