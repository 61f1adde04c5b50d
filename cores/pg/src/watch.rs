//! Who watches what, who was told what, who answered. The watches themselves are stored with their objects; here is
//! what lives only as long as the daemon: connections, deadlines, notifications under way.

use crate::info::{Holder, WatchInfo};
use bytes::Bytes;
use denc::Encode;
use messages::ops::NotifyReplies;
use messages::osd::{WatchNotify, code::watch_event};
use node::Mono;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Errno, HObject, Message, SessionId};

/// Bytes of answers that one notification collects. Those beyond count as empty.
const REPLIES: usize = 16 << 20;
/// Bytes that a notification takes beside what it says.
const BESIDE: usize = 256;

/// A watch: object, cookie, holder.
pub(crate) type Key = (HObject, u64, Holder);

#[derive(Debug)]
struct Watch {
    info: WatchInfo,
    /// The holder's session, as long as that stands.
    session: Option<SessionId>,
    /// Time when it dies without another sign of life.
    deadline: Mono,
    /// Its removal is under way.
    dying: bool,
}

#[derive(Debug)]
struct Notify {
    head: HObject,
    /// The notifier, its cookie and global id.
    session: SessionId,
    cookie: u64,
    notifier: u64,
    payload: Bytes,
    version: u64,
    deadline: Mono,
    /// Watches that have not answered.
    waiting: BTreeSet<(u64, Holder)>,
    replies: Vec<((u64, u64), Bytes)>,
    /// Bytes of them.
    replied: usize,
}

impl Notify {
    /// Bytes that it takes in memory, about.
    fn bytes(&self) -> usize {
        BESIDE + self.payload.len() + self.replied + self.waiting.len() * 32
    }
}

/// Messages that [`Watches`] wants sent.
pub(crate) type Sends = Vec<(SessionId, Message)>;

/// All watches of a group.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    all: BTreeMap<Key, Watch>,
    /// Number of them that each holder has.
    held: BTreeMap<Holder, usize>,
    deadlines: BTreeSet<(Mono, Key)>,
    notifies: BTreeMap<u64, Notify>,
    /// Of each notifier: how many are not over, and bytes that they take.
    open: BTreeMap<u64, (usize, usize)>,
    /// Bytes that all of them take.
    open_bytes: usize,
}

fn event(kind: u8, cookie: u64, id: u64) -> WatchNotify {
    WatchNotify { event: kind, cookie, notify_id: id, ..WatchNotify::default() }
}

impl Watches {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns how many watches a holder has in this group.
    pub(crate) fn held_by(&self, holder: Holder) -> usize {
        self.held.get(&holder).copied().unwrap_or(0)
    }

    /// Returns how many watches an object has.
    pub(crate) fn count(&self, head: &HObject) -> usize {
        self.of(head).count()
    }

    /// A client's notifications that are not over, with their bytes; bytes of all clients'.
    pub(crate) fn open(&self, notifier: u64) -> ((usize, usize), usize) {
        (self.open.get(&notifier).copied().unwrap_or_default(), self.open_bytes)
    }

    /// Counts a notification that takes other bytes than `before`; 0: it was not there, or is there no more.
    fn account(&mut self, notifier: u64, before: usize, after: usize) {
        let (count, bytes) = self.open.entry(notifier).or_default();
        *count = *count + usize::from(before == 0) - usize::from(after == 0);
        *bytes = *bytes + after - before;
        if *count == 0 {
            self.open.remove(&notifier);
        }
        self.open_bytes = self.open_bytes + after - before;
    }

    /// Forgets a notification.
    fn forget(&mut self, id: u64) -> Option<Notify> {
        let notify = self.notifies.remove(&id)?;
        self.account(notify.notifier, notify.bytes(), 0);
        Some(notify)
    }

    fn of(&self, head: &HObject) -> impl Iterator<Item = (&Key, &Watch)> {
        let first = (head.clone(), 0, (0, i64::MIN));
        self.all.range(first..).take_while(move |(key, _)| key.0 == *head)
    }

    pub(crate) fn is_connected(&self, head: &HObject, cookie: u64, holder: Holder) -> bool {
        self.all.get(&(head.clone(), cookie, holder)).is_some_and(|w| w.session.is_some())
    }

    fn set_deadline(&mut self, key: &Key, deadline: Mono) {
        if let Some(watch) = self.all.get_mut(key) {
            self.deadlines.remove(&(watch.deadline, key.clone()));
            watch.deadline = deadline;
            self.deadlines.insert((deadline, key.clone()));
        }
    }

    /// Takes on a watch as it is stored, without a connection: it has its full timeout to come back.
    pub(crate) fn arm(&mut self, now: Mono, head: &HObject, info: WatchInfo) {
        let key = (head.clone(), info.cookie, info.holder);
        let deadline = now.plus(Duration::from_secs(info.timeout.into()));
        let watch = Watch { info: info.clone(), session: None, deadline: Mono::NEVER, dying: false };
        if self.all.contains_key(&key) {
            return;
        }
        *self.held.entry(info.holder).or_default() += 1;
        self.all.insert(key.clone(), watch);
        self.set_deadline(&key, deadline);
    }

    /// The holder's session is there. What it has not answered yet is said again.
    pub(crate) fn connect(&mut self, now: Mono, head: &HObject, info: &WatchInfo, session: SessionId, out: &mut Sends) {
        self.arm(now, head, info.clone());
        let key = (head.clone(), info.cookie, info.holder);
        if let Some(watch) = self.all.get_mut(&key) {
            watch.session = Some(session);
            watch.dying = false;
            watch.info = info.clone();
        }
        self.set_deadline(&key, now.plus(Duration::from_secs(info.timeout.into())));
        let open = self.notifies.iter().filter(|(_, n)| n.head == *head && n.waiting.contains(&(info.cookie, info.holder)));
        out.extend(open.map(|(id, n)| (session, told(*id, n, info.cookie))));
    }

    /// A sign of life.
    pub(crate) fn ping(&mut self, now: Mono, head: &HObject, cookie: u64, holder: Holder) {
        let key = (head.clone(), cookie, holder);
        if let Some(watch) = self.all.get(&key) {
            let timeout = Duration::from_secs(watch.info.timeout.into());
            self.set_deadline(&key, now.plus(timeout));
        }
    }

    /// The watch is over. With `tell`, a connected holder hears of it.
    pub(crate) fn remove(&mut self, head: &HObject, cookie: u64, holder: Holder, tell: bool, out: &mut Sends) {
        let key = (head.clone(), cookie, holder);
        let Some(watch) = self.all.remove(&key) else { return };
        if let Entry::Occupied(mut held) = self.held.entry(holder) {
            *held.get_mut() -= 1;
            if *held.get() == 0 {
                held.remove();
            }
        }
        self.deadlines.remove(&(watch.deadline, key));
        if let (true, Some(session)) = (tell, watch.session) {
            out.push((session, event(watch_event::DISCONNECT, cookie, 0).encode()));
        }
        let waited: Vec<u64> = self.notifies.iter().filter(|(_, n)| n.head == *head).map(|(id, _)| *id).collect();
        for id in waited {
            if let Some(notify) = self.notifies.get_mut(&id) {
                let before = notify.bytes();
                notify.waiting.remove(&(cookie, holder));
                let (notifier, after) = (notify.notifier, notify.bytes());
                self.account(notifier, before, after);
            }
            self.finish_if_answered(id, out);
        }
    }

    /// Watches whose time is over. Their removal must be carried out, or they must be connected again.
    pub(crate) fn expired(&mut self, now: Mono) -> Vec<Key> {
        let mut keys = Vec::new();
        while let Some((deadline, _)) = self.deadlines.first() {
            if *deadline > now {
                break;
            }
            let Some((_, key)) = self.deadlines.pop_first() else { break };
            if let Some(watch) = self.all.get_mut(&key).filter(|w| !w.dying) {
                watch.dying = true;
                keys.push(key);
            }
        }
        keys
    }

    /// Watches whose holder `fenced` names; they are marked as over.
    pub(crate) fn fence(&mut self, fenced: impl Fn(&WatchInfo) -> bool) -> Vec<Key> {
        let mut keys = Vec::new();
        for (key, watch) in self.all.iter_mut().filter(|(_, w)| !w.dying && fenced(&w.info)) {
            watch.dying = true;
            keys.push(key.clone());
        }
        keys
    }

    /// Returns true if the removal of a watch that expired is still wanted.
    pub(crate) fn is_dying(&self, head: &HObject, cookie: u64, holder: Holder) -> bool {
        self.all.get(&(head.clone(), cookie, holder)).is_none_or(|w| w.dying)
    }

    /// The session is gone: its watches wait for their holder to come back, its notifications end unheard.
    pub(crate) fn session_closed(&mut self, now: Mono, session: SessionId) {
        let keys: Vec<Key> = self.all.iter().filter(|(_, w)| w.session == Some(session)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let Some(watch) = self.all.get_mut(&key) else { continue };
            watch.session = None;
            let deadline = now.plus(Duration::from_secs(watch.info.timeout.into()));
            if !watch.dying {
                self.set_deadline(&key, deadline);
            }
        }
        let unheard: Vec<u64> = self.notifies.iter().filter(|(_, n)| n.session == session).map(|(id, _)| *id).collect();
        unheard.into_iter().for_each(|id| drop(self.forget(id)));
    }

    /// Tells all watchers of an object.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn notify(
        &mut self,
        now: Mono,
        head: &HObject,
        id: u64,
        cookie: u64,
        from: (SessionId, u64),
        timeout: u32,
        payload: Bytes,
        version: u64,
        out: &mut Sends,
    ) {
        let deadline = now.plus(Duration::from_secs(timeout.into()));
        let waiting = self.of(head).map(|(key, _)| (key.1, key.2)).collect();
        let (session, notifier) = from;
        let head = head.clone();
        let notify =
            Notify { head, session, cookie, notifier, payload, version, deadline, waiting, replies: Vec::new(), replied: 0 };
        for (key, watch) in self.of(&notify.head) {
            if let Some(session) = watch.session {
                out.push((session, told(id, &notify, key.1)));
            }
        }
        self.account(notify.notifier, 0, notify.bytes());
        self.notifies.insert(id, notify);
        self.finish_if_answered(id, out);
    }

    /// An answer. Cookie 0 stands for all watches of the holder.
    pub(crate) fn ack(&mut self, holder: Holder, id: u64, cookie: u64, reply: &Bytes, out: &mut Sends) {
        let Some(notify) = self.notifies.get_mut(&id) else { return };
        let answered: Vec<(u64, Holder)> =
            notify.waiting.iter().filter(|(c, h)| *h == holder && (cookie == 0 || *c == cookie)).copied().collect();
        let before = notify.bytes();
        for watch in answered {
            notify.waiting.remove(&watch);
            let reply = if notify.replied + reply.len() <= REPLIES { reply.clone() } else { Bytes::new() };
            notify.replied += reply.len() + BESIDE;
            notify.replies.push(((holder.1 as u64, watch.0), reply));
        }
        let (notifier, after) = (notify.notifier, notify.bytes());
        self.account(notifier, before, after);
        self.finish_if_answered(id, out);
    }

    fn finish_if_answered(&mut self, id: u64, out: &mut Sends) {
        if self.notifies.get(&id).is_some_and(|n| n.waiting.is_empty()) {
            self.finish(id, 0, out);
        }
    }

    fn finish(&mut self, id: u64, result: i32, out: &mut Sends) {
        let Some(mut notify) = self.forget(id) else { return };
        notify.replies.sort();
        let timed_out = notify.waiting.iter().map(|(cookie, holder)| (holder.1 as u64, *cookie)).collect();
        let replies = NotifyReplies { replies: notify.replies, timed_out }.to_bytes().into();
        let done = WatchNotify {
            version: notify.version,
            return_code: result,
            notifier: notify.notifier,
            replies,
            ..event(watch_event::NOTIFY_COMPLETE, notify.cookie, id)
        };
        out.push((notify.session, done.encode()));
    }

    /// Ends notifications whose time is over.
    pub(crate) fn time_out(&mut self, now: Mono, out: &mut Sends) {
        let late: Vec<u64> = self.notifies.iter().filter(|(_, n)| n.deadline <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.finish(id, Errno::ETIMEDOUT.wire(), out);
        }
    }

    pub(crate) fn deadline(&self) -> Mono {
        let watch = self.deadlines.first().map_or(Mono::NEVER, |(deadline, _)| *deadline);
        self.notifies.values().map(|n| n.deadline).min().unwrap_or(Mono::NEVER).min(watch)
    }
}

/// The message that tells a watcher.
fn told(id: u64, notify: &Notify, cookie: u64) -> Message {
    let payload = notify.payload.clone();
    WatchNotify { payload, version: notify.version, notifier: notify.notifier, ..event(watch_event::NOTIFY, cookie, id) }.encode()
}
