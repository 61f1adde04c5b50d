//! What stays registered at an OSD: watches, and notifications that wait for their answers.

use crate::state::{Kind, Linger, Owner};
use crate::target::Target;
use crate::{Event, NotifyEvent, Objecter, OpId, OpRequest, WatchId};
use bytes::Bytes;
use denc::Encode;
use messages::code::{self, watch_event, watch_op};
use messages::osd::{Op, OpArgs, OsdOpReply, WatchNotify, flags};
use node::{Mono, Now};
use std::time::Duration;
use types::{Errno, Locator, OsdId, Rope};

/// Interval at which a watch is told to be alive, and newer maps are looked for while a notification waits, as stock clients
/// do.
const PING_EVERY: Duration = Duration::from_secs(5);

impl Objecter {
    /// Watches an object. `timeout` in seconds, 0 for the OSD's default: so long without a word from us, and the OSD
    /// gives the watch up. Ends with [`Event::WatchLost`] or [`Objecter::unwatch`].
    pub fn watch(&mut self, locator: Locator, oid: Bytes, timeout: u32) -> WatchId {
        let kind = Kind::Watch { timeout, generation: 0, registered: false };
        WatchId(self.linger(kind, locator, oid))
    }

    /// Ends a watch; gives the operation that tells the OSD so. `None` if there is no such watch.
    pub fn unwatch(&mut self, watch: WatchId) -> Option<OpId> {
        let linger = self.lingers.remove(&watch.0)?;
        if let Some(tid) = linger.op {
            self.remove(tid);
        }
        let args = OpArgs::Watch { cookie: watch.0, version: 0, op: watch_op::UNWATCH, generation: 0, timeout: 0 };
        let ops = vec![Op::new(code::WATCH, args)];
        let (locator, oid) = (linger.locator, linger.oid);
        Some(self.submit(OpRequest { locator, oid, ops, flags: flags::WRITE, ..OpRequest::default() }))
    }

    /// Tells all watchers of an object something, and waits for them up to `timeout` seconds. Ends with
    /// [`Event::NotifyDone`].
    pub fn notify(&mut self, locator: Locator, oid: Bytes, payload: &Bytes, timeout: u32) -> OpId {
        let mut input = Vec::new();
        1u32.encode(&mut input);
        timeout.encode(&mut input);
        payload.encode(&mut input);
        let id = OpId(self.next_tid);
        self.linger(Kind::Notify { id, input: input.into() }, locator, oid);
        id
    }

    /// Answers a notification. Gives the operation that carries the answer, `None` if the watch is gone.
    pub fn notify_ack(&mut self, watch: WatchId, notify_id: u64, reply: &Bytes) -> Option<OpId> {
        let linger = self.lingers.get(&watch.0)?;
        let mut input = Vec::new();
        notify_id.encode(&mut input);
        watch.0.encode(&mut input);
        reply.encode(&mut input);
        let op = Op { input: input.into(), ..Op::new(code::NOTIFY_ACK, OpArgs::Notify { cookie: 0 }) };
        let (locator, oid) = (linger.locator.clone(), linger.oid.clone());
        Some(self.submit(OpRequest { locator, oid, ops: vec![op], flags: flags::READ, ..OpRequest::default() }))
    }

    fn linger(&mut self, kind: Kind, locator: Locator, oid: Bytes) -> u64 {
        let cookie = self.next_tid;
        self.next_tid += 1;
        self.lingers.insert(cookie, Linger { kind, locator, oid, op: None, at: None, due: Mono(0) });
        self.wake = Mono(0);
        cookie
    }

    /// Registers and pings what is due.
    pub(crate) fn turn_lingers(&mut self, now: Now) {
        let mut due = Vec::new();
        for (cookie, linger) in &mut self.lingers {
            if linger.op.is_some() {
                continue;
            }
            if linger.due <= now.mono && linger.waits_to_complete() {
                // Its group may have changed hands, and nobody tells who has nothing to ask.
                self.monitor.link.want_newer_map();
                linger.due = now.mono.plus(PING_EVERY);
            }
            match linger.due <= now.mono {
                true => due.push((*cookie, linger.request(*cookie))),
                false => self.wake = self.wake.min(linger.due),
            }
        }
        for (cookie, request) in due {
            let tid = self.submit_for(request, Owner::Linger(cookie));
            if let Some(linger) = self.lingers.get_mut(&cookie) {
                linger.op = Some(tid);
            }
        }
    }

    /// An OSD where something may be registered, or its session, is gone.
    pub(crate) fn lingers_lost(&mut self, osd_is: impl Fn(OsdId) -> bool) {
        self.interrupt(|linger, op_osd| linger.at.as_ref().is_some_and(|(osd, _)| osd_is(*osd)) || op_osd.is_some_and(&osd_is));
    }

    /// Groups changed hands. A registration under way is sent again by itself.
    pub(crate) fn lingers_moved(&mut self, moved: impl Fn(&Target) -> bool) {
        self.interrupt(|linger, _| linger.at.as_ref().is_some_and(|(_, target)| moved(target)));
    }

    /// Registers those anew that are hit, under a new transaction id: an answer out of the log of executed operations
    /// would not bring the registration back.
    fn interrupt(&mut self, hit: impl Fn(&Linger, Option<OsdId>) -> bool) {
        let mut dropped = Vec::new();
        for linger in self.lingers.values_mut() {
            let op_osd = linger.op.and_then(|tid| self.ops.get(&tid)).and_then(|op| op.osd);
            if !hit(linger, op_osd) {
                continue;
            }
            dropped.extend(linger.op.take());
            linger.at = None;
            linger.due = Mono(0);
            self.wake = Mono(0);
            if let Kind::Watch { generation, .. } = &mut linger.kind {
                *generation += 1;
            }
        }
        for tid in dropped {
            self.remove(tid);
        }
    }

    /// The OSD answered a registration or a ping.
    pub(crate) fn linger_replied(&mut self, now: Now, cookie: u64, tid: u64, osd: OsdId, reply: &OsdOpReply) {
        let Some(linger) = self.lingers.get_mut(&cookie).filter(|l| l.op == Some(tid)) else { return };
        linger.op = None;
        let known = linger.at.is_some();
        if reply.result < 0 {
            self.end_linger(cookie, reply.result, Rope::new());
            return;
        }
        let request = linger.request(cookie);
        if let Some(target) = self.map.as_ref().and_then(|map| Target::of(map, &request)) {
            linger.at = Some((osd, target));
        }
        linger.due = now.mono.plus(PING_EVERY);
        self.wake = self.wake.min(linger.due);
        // The completion of a notification comes as an event.
        if let Kind::Watch { registered, .. } = &mut linger.kind {
            *registered = true;
            if !known {
                self.events.push_back(Event::Watching { watch: WatchId(cookie) });
            }
        }
    }

    /// It ends, a watch as lost, a notification as done.
    pub(crate) fn end_linger(&mut self, cookie: u64, result: i32, replies: Rope) {
        let Some(linger) = self.lingers.remove(&cookie) else { return };
        if let Some(tid) = linger.op {
            self.remove(tid);
        }
        self.events.push_back(match linger.kind {
            Kind::Watch { .. } => Event::WatchLost { watch: WatchId(cookie), result },
            Kind::Notify { id, .. } => Event::NotifyDone { id, result, replies },
        });
    }

    /// An OSD tells a watcher or a notifier something.
    pub(crate) fn watch_event(&mut self, event: WatchNotify) {
        let Some(linger) = self.lingers.get(&event.cookie) else { return };
        match (event.event, &linger.kind) {
            (watch_event::NOTIFY, Kind::Watch { .. }) => {
                let (notify_id, notifier, payload) = (event.notify_id, event.notifier, event.payload);
                let notify = NotifyEvent { notify_id, notifier, payload };
                self.events.push_back(Event::WatchNotify { watch: WatchId(event.cookie), notify });
            }
            (watch_event::NOTIFY_COMPLETE, Kind::Notify { .. }) => {
                self.end_linger(event.cookie, event.return_code, event.replies);
            }
            (watch_event::DISCONNECT, Kind::Watch { .. }) => {
                self.end_linger(event.cookie, Errno::ENOTCONN.wire(), Rope::new());
            }
            _ => {}
        }
    }
}
