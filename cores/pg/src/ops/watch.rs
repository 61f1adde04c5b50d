//! Watches and notifications, as far as the object is concerned. Who is connected and who answered is in `crate::watch`.

use crate::info::{Holder, WatchInfo};
use crate::ops::run::{Exec, Run, Side};
use denc::{Encode, Reader};
use messages::EntityNum;
use messages::ops;
use messages::osd::{OpArgs, code::watch_op};
use types::Errno;

/// Watches of one object. Each new one writes all of them anew, with the object's record. A block image has one watch for each client
/// that has it open for writing, a gateway's object one for each gateway.
const OF_OBJECT: usize = 1_024;
/// Watches of one client on one object. Stock clients have one or two.
const OF_CLIENT: usize = 64;
/// Watches of one client in one group: a host's kernel has one for each image that it maps.
const IN_GROUP: usize = 4_096;

/// Bytes of what one notification says. Block images and gateways say less than a hundredth of it.
const NOTICE: usize = 4 << 20;
/// The same, times the watches that it goes to.
const TO_ALL: usize = 64 << 20;
/// Notifications of one client in one group that are not over.
const OPEN: usize = 256;
/// Bytes of them, and of all clients' in one group: what they say, and what was answered. The OSD has a bound for all groups, too.
const OPEN_BYTES: usize = 16 << 20;
const ALL_BYTES: usize = 64 << 20;
/// Bytes of one watcher's answer.
const REPLY: usize = 1 << 20;
/// Longest that answers are waited for, in seconds. Stock clients wait for 5 to 30.
const PATIENCE: u32 = 600;

impl Run<'_> {
    /// Returns whether one more notification may be sent around. It is held until all have answered or its time is
    /// over, which the client chooses: without a bound, small requests would fill the memory.
    fn may_notify(&self, said: usize) -> Exec {
        let watches = self.env.watches.count(&self.before.at);
        if said > NOTICE || said * watches > TO_ALL {
            return Err(Errno::EMSGSIZE.into());
        }
        let others =
            self.sides.iter().filter_map(|side| if let Side::Notify { payload, .. } = side { Some(payload.len()) } else { None });
        let (count, bytes) = others.fold((0, said), |(count, bytes), other| (count + 1, bytes + other));
        let (mine, all) = self.env.watches.open(self.holder().1 as u64);
        let full = mine.0 + count >= OPEN || mine.1 + bytes > OPEN_BYTES || all + bytes > ALL_BYTES;
        if full { Err(Errno::EDQUOT.into()) } else { Ok(()) }
    }

    /// Returns whether one more watch of `holder` may be added. Ceph has no bound; without one a single client makes
    /// each change of the object as slow as it likes.
    fn may_watch(&self, holder: Holder) -> Exec {
        let watchers = &self.after.info.watchers;
        let full = watchers.len() >= OF_OBJECT
            || watchers.iter().filter(|watch| watch.holder == holder).count() >= OF_CLIENT
            || self.env.watches.held_by(holder) >= IN_GROUP;
        if full { Err(Errno::EDQUOT.into()) } else { Ok(()) }
    }

    pub(super) fn op_watch(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::Watch { cookie, op, timeout, .. } = self.at(index).args else { return Err(Errno::EINVAL.into()) };
        self.must_live()?;
        let holder = self.holder();
        let found = self.after.info.watch(cookie, holder);
        let timeout = if timeout == 0 { self.env.config.watch_timeout.as_secs() as u32 } else { timeout };
        let watch = WatchInfo { cookie, holder, timeout, addr: self.op.peer.addr };
        match (op, found) {
            (watch_op::WATCH | watch_op::LEGACY_WATCH, found) => {
                if let Err(at) = found {
                    self.may_watch(holder)?;
                    self.after.info.watchers.insert(at, watch.clone());
                    self.touched = true;
                }
                self.sides.push(Side::Connect(watch));
            }
            (watch_op::RECONNECT, Ok(_)) => self.sides.push(Side::Connect(watch)),
            (watch_op::PING, Ok(_)) => {
                if !self.env.watches.is_connected(&self.before.at, cookie, holder) {
                    return Err(Errno::ETIMEDOUT.into());
                }
                self.sides.push(Side::Ping { cookie });
            }
            (watch_op::RECONNECT | watch_op::PING, Err(_)) => return Err(Errno::ENOTCONN.into()),
            (watch_op::UNWATCH, found) => {
                if let Ok(at) = found {
                    self.after.info.watchers.remove(at);
                    self.touched = true;
                    self.sides.push(Side::Disconnect { cookie, holder, tell: false });
                }
            }
            _ => return Err(Errno::EINVAL.into()),
        }
        Ok(0)
    }

    pub(super) fn op_notify(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::Notify { cookie } = self.at(index).args else { return Err(Errno::EINVAL.into()) };
        let input = self.input(index);
        // What does not decode counts as nothing said.
        let wanted: ops::Notify = Reader::new(&input).get().unwrap_or_default();
        let default = self.env.config.notify_timeout.as_secs() as u32;
        let timeout = if wanted.timeout == 0 { default } else { wanted.timeout.min(PATIENCE) };
        self.may_notify(wanted.payload.len())?;
        let id = self.env.notify_id + self.notifies;
        self.notifies += 1;
        let version = self.after.info.user_version;
        self.sides.push(Side::Notify { id, cookie, timeout, payload: wanted.payload, version });
        self.output(index, id.to_bytes());
        Ok(0)
    }

    pub(super) fn op_notify_ack(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::Notify { cookie } = self.at(index).args else { return Err(Errno::EINVAL.into()) };
        let input = self.input(index);
        // Very old clients send no input; the argument is then the notify's number.
        let ack = match Reader::new(&input).get::<ops::NotifyAck>() {
            Ok(ack) => ack,
            Err(_) => ops::NotifyAck { notify_id: cookie, ..Default::default() },
        };
        if ack.reply.len() > REPLY {
            return Err(Errno::EMSGSIZE.into());
        }
        self.sides.push(Side::Ack { id: ack.notify_id, cookie: ack.cookie, reply: ack.reply });
        Ok(0)
    }

    pub(super) fn op_list_watchers(&mut self, index: usize) -> Exec<i32> {
        let entries = self.after.info.watchers.iter().map(|watch| ops::WatchItem {
            name: EntityNum { kind: watch.holder.0, num: watch.holder.1 },
            cookie: watch.cookie,
            timeout: watch.timeout,
            addr: watch.addr,
        });
        let list = ops::WatchList { entries: entries.collect() };
        self.delta.rd += 1;
        self.output(index, list.to_bytes());
        Ok(0)
    }
}
