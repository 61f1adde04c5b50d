//! Pool operations of librados: the same changes as the commands make, asked for by a message.

use super::Monitor;
use super::rights::Rights;
use super::sessions::{Outgoing, Side};
use bytes::Bytes;
use caps::OsdCaps;
use denc::Encode;
use grammar::Refusal;
use maps::Incremental;
use messages::mon::{PoolOp, PoolOpReply, pool_op};
use monstate::pools;
use node::{Now, Outputs};
use types::{Errno, PoolId, SessionId};

/// Result of an operation: data of the answer.
type Done = Result<Option<Bytes>, Refusal>;

impl Monitor {
    /// A pool operation.
    pub(super) fn pool_op(&mut self, now: Now, session: SessionId, tid: u64, ask: PoolOp, out: &mut Outputs) {
        let state = self.newest().clone();
        let mut inc = Incremental::new(state.osdmap.epoch + 1, state.fsid, now.wall);
        let before = inc.clone();
        let done = if ask.fsid != state.fsid {
            Err(Refusal::new(Errno::EINVAL, "another cluster's id"))
        } else if !self.may_pool_op(session, &ask) {
            Err(Refusal::new(Errno::EPERM, "access denied"))
        } else {
            operate(&pools::Ctx { state: &state, env: &self.env, now }, &mut inc, &ask)
        };
        let changed = inc != before;
        let no_room = if changed && done.is_ok() { self.no_room(&[], Some(&inc)) } else { None };
        let done = no_room.map_or(done, Err);
        let (result, data) = match done {
            Ok(data) => (0, data),
            Err(refusal) => (refusal.errno.wire(), None),
        };
        let changed = changed && result == 0;
        let epoch = state.osdmap.epoch + u32::from(changed);
        let reply = PoolOpReply { version: u64::from(epoch), fsid: state.fsid, result, epoch, data };
        let mut message = reply.encode();
        message.tid = tid;
        let after = vec![Outgoing::Message(Side::Mon, session, message)];
        if changed {
            self.propose(now, Vec::new(), Some(inc), after, out);
        } else {
            self.tell_found(now, after, out);
        }
    }

    /// Pool changes need the right to write OSD state. Numbers of snapshots that clients keep themselves are also given
    /// to those who may write in the pool: what they do with them they do there.
    fn may_pool_op(&self, session: SessionId, ask: &PoolOp) -> bool {
        match ask.op {
            pool_op::CREATE_UNMANAGED_SNAP | pool_op::DELETE_UNMANAGED_SNAP => self.may_number_snaps(session, ask.pool.into()),
            _ => self.may(session, "osd", false, true),
        }
    }

    fn may_number_snaps(&self, session: SessionId, pool: PoolId) -> bool {
        let Some(entry) = self.sessions.0.get(&(Side::Mon, session)) else { return false };
        let state = self.newest();
        let pool = state.osdmap.pool_name.get(&pool);
        let args = pool.map(|name| ("poolname".to_string(), name.clone())).into_iter().collect();
        let named = match &entry.rights {
            Rights::Mon(caps) => caps.allows_command(&entry.peer.name, "osd", "w", "osd pool op unmanaged-snap", &args),
            Rights::Mgr(..) => false,
        };
        let osd_caps = || state.auth.get(&entry.peer.name)?.caps.get("osd").and_then(|text| OsdCaps::parse(text).ok());
        let here = |caps: OsdCaps| entry.peer.ip.map_or_else(|| caps.clone(), |ip| caps.seen_from(ip));
        named || osd_caps().is_some_and(|caps| here(caps).may_write_in(pool.map(String::as_str)))
    }
}

fn operate(pools: &pools::Ctx<'_>, inc: &mut Incremental, ask: &PoolOp) -> Done {
    let pool = i64::from(ask.pool);
    if ask.op != pool_op::CREATE && !pools.state.osdmap.pools.contains_key(&pool) {
        grammar::refuse!(ENOENT, "there is no pool {pool}");
    }
    match ask.op {
        pool_op::CREATE => {
            let rule = u32::try_from(ask.crush_rule).ok();
            let wanted = pools::Wanted { name: ask.name.clone(), rule, ..pools::Wanted::default() };
            pools.create(inc, &wanted).map(|_| None)
        }
        pool_op::DELETE => pools.delete(inc, pool).map(|()| None),
        pool_op::CREATE_SNAP => pools.make_snap(inc, pool, &ask.name).map(|_| None),
        pool_op::DELETE_SNAP => pools.remove_snap(inc, pool, &ask.name).map(|_| None),
        pool_op::CREATE_UNMANAGED_SNAP => pools.make_unmanaged_snap(inc, pool).map(|id| Some(id.to_bytes())),
        pool_op::DELETE_UNMANAGED_SNAP => pools.remove_unmanaged_snap(inc, pool, ask.snapid).map(|()| None),
        other => grammar::refuse!(EINVAL, "unknown pool operation {other}"),
    }
}
