//! The manager's client in the machine: its number, tickets, maps; what it asks for and finds.

use super::Monitor;
use super::sessions::{Outgoing, Side};
use caps::MonCaps;
use grammar::Refusal;
use images::{Answer, RequestId};
use manager::client::{Found, Wish};
use manager::progress;
use maps::Incremental;
use messages::mon::log_level;
use moncommands::Ask;
use monstate::context::{Env, MGR_GID};
use monstate::state::State;
use monstate::{effective, pools};
use msgr::auth::{Acceptor, EntityKey, Key};
use node::{Mono, Now, Outputs};
use serde_json::json;
use std::collections::BTreeMap;
use types::{AddrType, EntityAddr, EntityName, EntityType, Errno, OsdId};

/// Returns true if a daemon has this address now: an OSD that is there, or the manager that works.
fn is_daemon(state: &State, addr: &EntityAddr) -> bool {
    let map = &state.osdmap;
    let osds = map.osds().flat_map(|osd| [map.osd_addr(osd), map.osd_cluster_addr(osd)]).flatten().flat_map(|addrs| &addrs.0);
    let same = |other: &EntityAddr| (other.addr, other.nonce) == (addr.addr, addr.nonce);
    osds.chain(&state.mgrmap.active_addrs.0).any(same)
}

/// Returns true if an entity has the rights now to lift fences, too.
fn governs_osds(state: &State, name: &EntityName) -> bool {
    let caps = state.auth.get(name).and_then(|entity| MonCaps::parse(entity.caps.get("mon")?).ok());
    caps.is_some_and(|caps| caps.allows("osd", true, true, false))
}

impl Monitor {
    /// Takes in what commands ask of the manager.
    pub(super) fn take_asks(&mut self, now: Now, asks: Vec<Ask>) {
        for ask in asks {
            match ask {
                Ask::Look(spec) => {
                    self.leader.duties.images.look(now.mono, spec);
                    self.tick_manager(now);
                }
                Ask::See => {
                    self.leader.duties.images.see(now.mono);
                    self.tick_manager(now);
                }
                Ask::ForgetProgress => self.leader.duties.progress.clear(),
                Ask::HandOver => self.leader.hands_over = true,
                Ask::NoteRound(round) => self.leader.duties.balancer.note(now.wall, &round),
                Ask::KeepPlan(name, plan) => drop(self.leader.duties.balancer.plans.insert(name, plan)),
                Ask::DropPlan(name) => drop(self.leader.duties.balancer.plans.remove(&name)),
            }
        }
    }

    /// Does what time makes necessary for the manager.
    pub(super) fn tick_manager(&mut self, now: Now) {
        self.identify_manager(now);
        let wanted = self.leader.duties.images.tick(now.mono);
        if wanted.tell {
            self.instruct_osds(&json!({"prefix": "count images"}).to_string());
        }
        if !wanted.names.is_empty() {
            self.leader.manager.look_up(wanted.names);
        }
    }

    /// Sees to it that the manager's client is somebody: a number that no client has, and a ticket that OSDs take.
    fn identify_manager(&mut self, now: Now) {
        if self.leader.manager.id == 0
            && let Acceptor::Mon(mon) = &mut self.mon.auth_mut().acceptor
            && let Ok(id) = mon.global_ids.take()
        {
            self.leader.manager.id = id;
            self.mgr.auth_mut().client.global_id = id;
        }
        let id = self.leader.manager.id;
        let lacks = self.mgr.auth().client.lacks(EntityType::Osd) || now.mono >= self.leader.manager.ticket_due;
        if id == 0 || !self.env.cephx() || !lacks {
            return;
        }
        // The key stands for nothing: no proof is made with it.
        let caps = BTreeMap::from([("osd".to_string(), "allow *".to_string())]);
        let entity = EntityKey { key: Key::new(now.wall, [0; 16]), caps };
        if let Some(ticket) = self.mon.hand_out(now, &manager_name(&self.env), &entity, id, EntityType::Osd) {
            self.leader.manager.ticket_due = self.mgr.auth_mut().client.hold(now.mono, ticket);
        }
    }

    /// Tells all OSDs that are connected.
    fn instruct_osds(&mut self, instruction: &str) {
        let sessions: Vec<(OsdId, _)> = self.leader.soft.osds.iter().filter_map(|(osd, o)| Some((*osd, o.session?))).collect();
        for (_, session) in sessions {
            self.tell(Side::Mon, session, messages::internal::OsdInstruct { json: instruction.into() }.encode());
        }
    }

    /// The manager's client gets the newest durable map.
    pub(super) fn map_for_manager(&mut self) {
        self.leader.manager.set_map(&self.replica.applied.osdmap);
    }

    /// The manager takes up what was ordered before this start.
    pub(super) fn begin_manager(&mut self) {
        self.leader.manager.desk.see(&self.replica.applied);
        self.leader.manager.desk.begin();
    }

    /// Takes in what the manager's client found, and continues the work on images.
    pub(super) fn manager_events(&mut self, now: Now, out: &mut Outputs) -> bool {
        let mut news = self.manager_found(now);
        if self.leader.manager.is_working() {
            self.leader.manager.desk.see(self.newest());
            let on = progress::is_followed(self.newest());
            self.leader.duties.progress.follow(on);
        }
        for (id, wish) in self.leader.manager.work(now) {
            news = true;
            self.grant(now, id, &wish, out);
        }
        for note in self.leader.manager.desk.take_notes() {
            self.leader.duties.progress.take(now.wall, note);
        }
        for (level, text) in self.leader.manager.desk.take_log() {
            out.log(level, "mgr", text);
        }
        while let Some((job, ended)) = self.leader.manager.poll_ended() {
            news = true;
            self.ended(now, job, ended, out);
        }
        news
    }

    /// Proposes what the work on images needs of the maps; the answer comes when that is durable.
    fn grant(&mut self, now: Now, id: RequestId, wish: &Wish, out: &mut Outputs) {
        let state = self.newest().clone();
        let mut inc = Incremental::new(state.osdmap.epoch + 1, state.fsid, now.wall);
        let before = inc.clone();
        let pools = pools::Ctx { state: &state, env: &self.env, now };
        let result = match wish {
            Wish::NewSnap(pool) => pools.make_unmanaged_snap(&mut inc, *pool).map(Some),
            Wish::FreeSnap(pool, snap) => pools.remove_unmanaged_snap(&mut inc, *pool, *snap).map(|()| None),
            Wish::Fence(addr, who) => {
                let who = who.as_ref().filter(|name| !governs_osds(&state, name));
                let addr = EntityAddr { kind: AddrType::Any, ..*addr };
                let secs = effective::monitor_number(&state, &self.env, "mon_osd_blocklist_default_expire");
                if state.osdmap.blocklist.contains_key(&addr) {
                    Ok(None)
                } else if is_daemon(&state, &addr) {
                    Err(Refusal::new(Errno::EPERM, "the lock of an image names a daemon of the cluster"))
                } else if let Err(refusal) = self.leader.soft.fences.has_room(&state.osdmap, who) {
                    Err(refusal)
                } else {
                    inc.new_blocklist.insert(addr, pools::after(now.wall, secs));
                    self.leader.soft.fences.follow(&inc, who);
                    self.line(
                        now,
                        log_level::INFO,
                        format!("client at {} died with the lock of an image: it is blocklisted", addr.legacy_str()),
                    );
                    Ok(None)
                }
            }
        };
        let result = result.map_err(|refusal| refusal.errno);
        if result.is_ok() && inc != before {
            self.propose(now, Vec::new(), Some(inc), vec![Outgoing::Granted(id, result)], out);
        } else {
            self.granted(id, result);
        }
    }

    /// Takes what became of a wish.
    pub(super) fn granted(&mut self, id: RequestId, result: Result<Option<u64>, Errno>) {
        let answer = match result {
            Ok(Some(snap)) => Answer::Snap(snap),
            Ok(None) => Answer::Done,
            Err(errno) => Answer::Failed(errno),
        };
        self.leader.manager.granted(id, answer);
    }

    fn manager_found(&mut self, now: Now) -> bool {
        let mut progress = false;
        while let Some(found) = self.leader.manager.poll() {
            progress = true;
            match found {
                Found::Names(images, names) => self.leader.duties.images.named(now.mono, images, names.as_ref()),
            }
        }
        progress
    }

    /// Ends a round of the manager's client. It asks nobody before it is somebody.
    pub(super) fn turn_manager(&mut self, now: Now, out: &mut Outputs) {
        if self.leader.manager.id != 0 {
            self.leader.manager.objecter.turn(now, &mut self.mgr, out);
        }
    }

    /// Returns when [`Monitor::turn_manager`] must be called.
    pub(super) fn manager_deadline(&self) -> Mono {
        if self.leader.manager.id == 0 {
            Mono::NEVER
        } else {
            self.leader.manager.objecter.deadline().min(self.leader.manager.deadline())
        }
    }
}

/// The manager's name.
pub(super) fn manager_name(env: &Env) -> EntityName {
    EntityName::new(EntityType::Mgr, env.config.mgr_name.clone())
}

// Numbers of clients are above the manager's own.
const _: () = assert!(MGR_GID > 0);

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EntityAddrVec, UTime};

    #[test]
    fn no_lock_fences_a_daemon_that_lives() {
        let mut state = monstate::state::genesis::state(&crate::Config::bare(types::Fsid([1; 16]), "a"), UTime::ZERO);
        let at = |port: u16, nonce| EntityAddr { kind: AddrType::Any, nonce, addr: Some(([10, 0, 0, 1], port).into()) };
        let map = std::sync::Arc::make_mut(&mut state.osdmap);
        map.set_max_osd(1);
        map.osd_state[0] = maps::state::EXISTS | maps::state::UP;
        map.client_addrs[0] = EntityAddrVec(vec![EntityAddr { kind: AddrType::Msgr2, ..at(6800, 5) }]);
        map.cluster_addrs[0] = EntityAddrVec(vec![EntityAddr { kind: AddrType::Msgr2, ..at(6801, 5) }]);
        std::sync::Arc::make_mut(&mut state.mgrmap).active_addrs = EntityAddrVec(vec![at(6803, 9)]);
        for (addr, daemon) in [
            (at(6800, 5), true),
            (at(6801, 5), true),
            (at(6803, 9), true),
            (at(6803, 8), false), // The manager of before.
            (at(0, 5), false),
        ] {
            assert_eq!(is_daemon(&state, &addr), daemon, "{addr}");
        }
    }
}
