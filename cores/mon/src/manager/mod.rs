//! The manager's duties that need more than the monitor's own state: what clients do to block images, and work on images.
//!
//! # A client inside
//!
//! The manager reads (and changes) objects as any client does, through an [`objecter::Objecter`] on the manager's messenger. It is
//! not a way around the OSDs: placement, order, resends and guards are those of clients. What differs is where it gets things from:
//!
//! - *maps* from the monitor's own durable state, not over a session;
//! - *a number of its own* (global id) out of the range that the monitor gives to clients, taken anew at each start: what an earlier start
//!   sent must not be taken for something sent again;
//! - *tickets* from the monitor's keys, in memory: to prove to itself who it is would prove nothing. It is `mgr.NAME`, and may do everything.
//!
//! It connects to an OSD only when there is something to ask.
//!
//! # Figures by image
//!
//! [`images`] has the figures. `rbd perf image stats` and `counters` say who looks at what (a [`images::Spec`]); while somebody does, OSDs
//! are told to count (`count images`, good for a minute, told again every 15 s, so that OSDs that boot hear of it, too), send
//! differences with their reports, and these are summed here. Nothing of it is durable: counters begin when somebody looks, as in Ceph.
//!
//! OSDs know images by id. Names stand in the omap of `rbd_directory` of the image's pool and namespace, under `id_ID`; just the ids
//! that were seen are looked up, and again after a while, as images are renamed. An image without a name there (in the trash, or
//! removed) is not shown.

pub(crate) mod images;

use bytes::Bytes;
use denc::{Decode, Encode};
use images::Image;
use messages::code::{self, flags};
use messages::ops::Pairs;
use messages::osd::{Op, OpArgs, OsdOpReply};
use msgr::Messenger;
use node::{Mono, Now, Outputs};
use objecter::{Event, Objecter, OpId, OpRequest};
use std::collections::BTreeMap;
use types::{Locator, PoolId};

/// Ids that one request asks the names of.
const NAMES: usize = 256;

/// Why something was asked.
enum Asked {
    /// Names of these images, all of one pool and namespace.
    Names(Vec<Image>),
}

/// What the manager's client found out.
pub(crate) enum Found {
    /// Names of images; `None` for those that have none. `Err` if they could not be looked up now.
    Names(Vec<Image>, Option<BTreeMap<String, String>>),
}

/// The client, and what it was asked for.
pub(crate) struct Manager {
    pub(crate) objecter: Objecter,
    /// Its number among clients; 0 until the monitor has one to give.
    pub(crate) id: u64,
    /// When its ticket for OSDs should be replaced.
    pub(crate) ticket_due: Mono,
    asked: BTreeMap<OpId, Asked>,
}

impl Default for Manager {
    fn default() -> Self {
        let config = objecter::Config { max_ops: 64, ..objecter::Config::default() };
        Self { objecter: Objecter::new(config), id: 0, ticket_due: Mono(0), asked: BTreeMap::new() }
    }
}

impl Manager {
    /// Asks for the names of images.
    pub(crate) fn look_up(&mut self, mut images: Vec<Image>) {
        images.sort();
        let together = |a: &Image, b: &Image| a.pool == b.pool && a.nspace == b.nspace;
        for group in images.chunk_by(together).flat_map(|same| same.chunks(NAMES)) {
            let keys: Vec<Bytes> = group.iter().map(|image| Bytes::from(format!("id_{}", image.id))).collect();
            let op = Op { code: code::OMAPGETVALSBYKEYS, flags: 0, args: OpArgs::None, input: keys.to_bytes() };
            let id = self.objecter.submit(read(group[0].pool, &group[0].nspace, "rbd_directory", op));
            self.asked.insert(id, Asked::Names(group.to_vec()));
        }
    }

    /// Takes one of the messenger's events, if it is about a session with an OSD; else gives it back.
    pub(crate) fn handle(&mut self, now: Now, event: msgr::Event, mgr: &mut Messenger, out: &mut Outputs) -> Option<msgr::Event> {
        self.objecter.handle(now, event, mgr, out)
    }

    /// The next thing that was found out.
    pub(crate) fn poll(&mut self) -> Option<Found> {
        while let Some(event) = self.objecter.poll_event() {
            let Event::Done { id, result } = event else { continue };
            match self.asked.remove(&id) {
                Some(Asked::Names(images)) => return Some(Found::Names(images, result.ok().and_then(|reply| names(&reply)))),
                None => continue,
            }
        }
        None
    }
}

/// A request that reads an object.
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

/// Names by id out of a look into `rbd_directory`; nothing if that did not succeed.
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
