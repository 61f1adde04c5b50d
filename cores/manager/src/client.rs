//! The manager's client: it looks images up, and does the work on them that was ordered.
//!
//! # A client inside
//!
//! The manager reads and changes objects as any client does, through an [`objecter::Objecter`] on the manager's
//! messenger. It has no way around the OSDs: placement, order, resends and guards are those of clients. Only where it
//! gets things from differs:
//!
//! - *maps* come from the monitor's own durable state, not over a session;
//! - *its number* (global id) comes from the range that the monitor gives to clients. It is new at each start, because
//!   what an earlier start sent must not be taken for something sent again;
//! - *tickets* come from the monitor's keys in memory. Proving to itself who it is would prove nothing. It is
//!   `mgr.NAME`, and may do everything.
//!
//! It connects to an OSD only when there is something to ask.
//!
//! # Work on images
//!
//! [`crate::desk`] takes orders, and the crate [`images`] does the work. Operations on objects go through the client above.
//! Numbers of snapshots, and the blocklist for dead clients, are changes of the OSD map: the monitor around it proposes
//! them as for anybody else. [`crate::progress`] shows how far the work is.
//!
//! # Figures by image
//!
//! [`crate::figures`] has them. `rbd perf image stats` and `counters` say who looks at what (a [`crate::figures::Spec`]). While
//! somebody looks, OSDs are told to count: `count images` counts for a minute and is told again every 15 s, so that
//! OSDs that boot hear of it. OSDs send differences with their reports, and the manager sums them. Nothing of it is
//! durable: counters begin when somebody looks, as in Ceph.
//!
//! OSDs know images by id. The names are in the omap of `rbd_directory` in the image's pool and namespace, under
//! `id_ID`. Only the ids that were seen are looked up, and again after a while, because images are renamed. An image
//! without a name there (in the trash, or removed) is not shown.

use crate::desk::{Desk, Ended, May, Order};
use crate::figures::Image;
use ::images::JobId;
use ::images::{Answer, Request, RequestId, Works};
use bytes::Bytes;
use denc::{Decode, Encode};
use maps::OsdMap;
use messages::code::{self, flags};
use messages::ops::{NotifyReplies, Pairs};
use messages::osd::{Op, OpArgs, OsdOpReply};
use msgr::Messenger;
use node::{Mono, Now, Outputs};
use objecter::{Event, Objecter, OpId, OpRequest, WatchId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use types::{EntityAddr, EntityName, Errno, Locator, PoolId, Rope, UTime};

/// Most ids in one request for names.
const NAMES: usize = 256;
/// Seconds that watchers of an image's header have to answer, as in librbd.
const NOTIFY_SECONDS: u32 = 5;
/// Most notifications at a watch that are kept for a step that may listen.
const MOST_HEARD: usize = 64;

/// Reason why an operation was asked.
enum Asked {
    /// For the names of these images, all of one pool and namespace.
    Names(Vec<Image>),
    /// For a step of a job that wants the reply.
    Step(RequestId),
    /// For a step of a job that only wants to know that it is done.
    Done(RequestId),
    /// For a step of a job that wants to know what watchers say.
    Told(RequestId),
}

/// Wish of jobs about the cluster's maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A number for a new snapshot in a pool.
    NewSnap(PoolId),
    /// The end of a snapshot's number.
    FreeSnap(PoolId, u64),
    /// A client on the blocklist, so that it cannot reach OSDs any more, and for whom.
    Fence(EntityAddr, Option<EntityName>),
}

/// Findings of the manager's client.
pub enum Found {
    /// Names of these images; none for those without a name. `None`: they could not be looked up now.
    Names(Vec<Image>, Option<BTreeMap<String, String>>),
}

/// The manager's client, and what it was asked for.
pub struct Manager {
    /// Its operations on objects.
    pub objecter: Objecter,
    /// Its number among clients (global id); 0 until the monitor has one to give.
    pub id: u64,
    /// Time when its ticket for OSDs should be replaced.
    pub ticket_due: Mono,
    asked: BTreeMap<OpId, Asked>,
    /// Jobs on images.
    works: Works<Ended>,
    /// Orders that were given.
    pub desk: Desk,
    /// Watches that are not confirmed yet, and the steps that wait for them.
    watches: BTreeMap<WatchId, RequestId>,
    /// Steps that wait for a time.
    sleeps: BTreeSet<(Mono, RequestId)>,
    /// Those of them that end sooner when somebody notifies at a watch.
    listeners: BTreeMap<WatchId, (Mono, RequestId)>,
    /// Notifications that nobody listened to yet, by watch.
    heard: BTreeMap<WatchId, VecDeque<Bytes>>,
}

impl Manager {
    /// Makes a manager with nothing to do. `seed` is secret and never used twice.
    pub fn new(seed: [u8; 16]) -> Self {
        let config = objecter::Config { max_ops: 64, ..objecter::Config::default() };
        let works = Works::new(seed);
        Self {
            objecter: Objecter::new(config),
            id: 0,
            ticket_due: Mono(0),
            asked: BTreeMap::new(),
            desk: Desk::new(works.io()),
            works,
            watches: BTreeMap::new(),
            sleeps: BTreeSet::new(),
            listeners: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }

    /// Takes in a new map.
    pub fn set_map(&mut self, map: &Arc<OsdMap>) {
        self.objecter.set_map(map.clone());
        self.works.set_map(map.clone());
    }

    /// Takes an order of an entity, or, without a name, of whoever may do everything. [`Manager::poll_ended`] gives its end.
    pub fn order(&mut self, order: Order, may: May, who: Option<EntityName>) -> JobId {
        let desk = self.desk.clone();
        self.works.start(async move { Some(desk.carry_out(order, may, who).await) })
    }

    /// Brings in what became of a [`Wish`].
    pub fn granted(&mut self, id: RequestId, answer: Answer) {
        self.works.answer(id, answer);
    }

    /// Continues the jobs. Gives what they want of the maps.
    pub fn work(&mut self, now: Now) -> Vec<(RequestId, Wish)> {
        while let Some((at, id)) = self.sleeps.first().copied().filter(|(at, _)| *at <= now.mono) {
            self.sleeps.remove(&(at, id));
            self.works.answer(id, Answer::Done);
        }
        let mut wishes = Vec::new();
        loop {
            for job in self.desk.take_jobs() {
                self.works.start(job);
            }
            self.works.run(now.wall);
            let mut any = false;
            while let Some((id, request)) = self.works.poll_request() {
                any = true;
                wishes.extend(self.carry_out(now, id, request).map(|wish| (id, wish)));
            }
            if !any {
                return wishes;
            }
        }
    }

    fn carry_out(&mut self, now: Now, id: RequestId, request: Request) -> Option<Wish> {
        match request {
            Request::Op(op) => {
                let op = self.objecter.submit(op);
                self.asked.insert(op, Asked::Step(id));
            }
            Request::Watch(locator, oid) => {
                let watch = self.objecter.watch(locator, oid, 0);
                self.watches.insert(watch, id);
            }
            Request::Unwatch(watch) => {
                self.listeners.remove(&watch);
                self.heard.remove(&watch);
                match self.objecter.unwatch(watch) {
                    Some(op) => drop(self.asked.insert(op, Asked::Done(id))),
                    None => self.works.answer(id, Answer::Done),
                }
            }
            Request::Notify(locator, oid, payload) => {
                let op = self.objecter.notify(locator, oid, &payload, NOTIFY_SECONDS);
                self.asked.insert(op, Asked::Told(id));
            }
            Request::Sleep(until) => drop(self.sleeps.insert((moment(now, until), id))),
            Request::Listen(watch, until) => match self.heard.get_mut(&watch).and_then(VecDeque::pop_front) {
                Some(payload) => self.works.answer(id, Answer::Heard(payload)),
                None => {
                    let entry = (moment(now, until), id);
                    self.sleeps.insert(entry);
                    self.listeners.insert(watch, entry);
                }
            },
            Request::NewSnap(pool) => return Some(Wish::NewSnap(pool)),
            Request::FreeSnap(pool, snap) => return Some(Wish::FreeSnap(pool, snap)),
            Request::Fence(addr, who) => return Some(Wish::Fence(addr, who)),
        }
        None
    }

    /// Says whether there are jobs.
    pub fn is_working(&self) -> bool {
        !self.works.is_empty()
    }

    /// Gives the next order that ended.
    pub fn poll_ended(&mut self) -> Option<(JobId, Ended)> {
        self.works.poll_done()
    }

    /// Returns when [`Manager::work`] must be called at the latest.
    pub fn deadline(&self) -> Mono {
        self.sleeps.first().map_or(Mono::NEVER, |(at, _)| *at)
    }

    /// Asks for the names of images.
    pub fn look_up(&mut self, mut images: Vec<Image>) {
        images.sort();
        let together = |a: &Image, b: &Image| a.pool == b.pool && a.nspace == b.nspace;
        for group in images.chunk_by(together).flat_map(|same| same.chunks(NAMES)) {
            let keys: Vec<Bytes> = group.iter().map(|image| Bytes::from(format!("id_{}", image.id))).collect();
            let op = Op { input: keys.to_bytes(), ..Op::new(code::OMAPGETVALSBYKEYS, OpArgs::None) };
            let id = self.objecter.submit(read(group[0].pool, &group[0].nspace, "rbd_directory", op));
            self.asked.insert(id, Asked::Names(group.to_vec()));
        }
    }

    /// Takes one of the messenger's events, if it is about a session with an OSD. Else gives it back.
    pub fn handle(&mut self, now: Now, event: msgr::Event, mgr: &mut Messenger, out: &mut Outputs) -> Option<msgr::Event> {
        self.objecter.handle(now, event, mgr, out)
    }

    /// Takes in a notification at a watch.
    fn hear(&mut self, watch: WatchId, payload: Bytes) {
        if let Some(entry) = self.listeners.remove(&watch)
            && self.sleeps.remove(&entry)
        {
            return self.works.answer(entry.1, Answer::Heard(payload));
        }
        let heard = self.heard.entry(watch).or_default();
        heard.push_back(payload);
        // The last ones say how it ended.
        if heard.len() > MOST_HEARD {
            heard.pop_front();
        }
    }

    /// Gives the next thing that was found out.
    pub fn poll(&mut self) -> Option<Found> {
        while let Some(event) = self.objecter.poll_event() {
            match event {
                Event::Done { id, result } => match self.asked.remove(&id) {
                    Some(Asked::Names(images)) => {
                        return Some(Found::Names(images, result.ok().and_then(|reply| names(&reply))));
                    }
                    Some(Asked::Step(step)) => self.works.answer(step, Answer::Op(result)),
                    Some(Asked::Done(step)) => self.works.answer(step, Answer::Done),
                    Some(Asked::Told(step)) => self.works.answer(step, Answer::Told(Vec::new())),
                    None => {}
                },
                Event::Watching { watch } => {
                    if let Some(step) = self.watches.remove(&watch) {
                        self.works.answer(step, Answer::Watching(watch));
                    }
                }
                Event::WatchLost { watch, result } => {
                    if let Some(step) = self.watches.remove(&watch) {
                        self.works.answer(step, Answer::Failed(Errno(-result)));
                    }
                }
                // The reply tells the notifier that this client lives.
                Event::WatchNotify { watch, notify } => {
                    self.objecter.notify_ack(watch, notify.notify_id, &Bytes::new());
                    self.hear(watch, notify.payload);
                }
                Event::NotifyDone { id, replies, .. } => {
                    if let Some(Asked::Told(step)) = self.asked.remove(&id) {
                        self.works.answer(step, Answer::Told(said(&replies)));
                    }
                }
                Event::CommandDone { .. } | Event::PoolOpDone { .. } | Event::Map { .. } | Event::Config(_) => {}
                // For OSDs.
                Event::Here { .. } => {}
            }
        }
        None
    }
}

/// Returns what watchers said to a notification; nothing if that cannot be read.
fn said(replies: &Rope) -> Vec<Bytes> {
    let replies = NotifyReplies::from_bytes(&replies.contiguous()).unwrap_or_default();
    replies.replies.into_iter().map(|(_, reply)| reply).collect()
}

/// Converts a time of the wall's clock to the monotonic one.
fn moment(now: Now, at: UTime) -> Mono {
    now.mono.plus(Duration::from_nanos(at.as_nanos().saturating_sub(now.wall.as_nanos())))
}

/// Makes a request that reads an object.
fn read(pool: PoolId, nspace: &str, object: &str, op: Op) -> OpRequest {
    let locator = Locator { nspace: Bytes::copy_from_slice(nspace.as_bytes()), ..Locator::pool(pool) };
    OpRequest {
        locator,
        oid: Bytes::copy_from_slice(object.as_bytes()),
        ops: vec![op],
        flags: flags::READ,
        ..OpRequest::default()
    }
}

/// Reads names by id out of a reply about `rbd_directory`. None if that did not succeed.
fn names(reply: &OsdOpReply) -> Option<BTreeMap<String, String>> {
    if reply.result == types::Errno::ENOENT.wire() {
        return Some(BTreeMap::new());
    }
    let output = reply.ops.first().filter(|_| reply.result >= 0)?.output.contiguous();
    let pairs = Pairs::from_bytes(&output).ok()?;
    let name = |(key, value): (&Bytes, &Bytes)| {
        let id = std::str::from_utf8(key).ok()?.strip_prefix("id_")?;
        Some((id.to_owned(), String::from_bytes(value).ok()?))
    };
    Some(pairs.iter().filter_map(name).collect())
}
