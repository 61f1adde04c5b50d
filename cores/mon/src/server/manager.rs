//! The manager's client in the machine: its number, tickets, maps; what it asks for and finds.

use super::Monitor;
use crate::commands::Ask;
use crate::context::{Env, MGR_GID};
use crate::manager::Found;
use msgr::auth::{Acceptor, EntityKey, Key};
use node::{Mono, Now, Outputs};
use serde_json::json;
use std::collections::BTreeMap;
use types::{EntityName, EntityType, OsdId};

impl Monitor {
    /// Takes in what commands ask of the manager.
    pub(super) fn take_asks(&mut self, now: Now, asks: Vec<Ask>) {
        for ask in asks {
            match ask {
                Ask::Look(spec) => {
                    self.soft.images.look(now.mono, spec);
                    self.tick_manager(now);
                }
            }
        }
    }

    /// What time makes necessary for the manager.
    pub(super) fn tick_manager(&mut self, now: Now) {
        self.identify_manager(now);
        let wanted = self.soft.images.tick(now.mono);
        if wanted.tell {
            self.instruct_osds(&json!({"prefix": "count images"}).to_string());
        }
        if !wanted.names.is_empty() {
            self.manager.look_up(wanted.names);
        }
    }

    /// Sees to it that the manager's client is somebody: a number that no client has, and a ticket that OSDs take.
    fn identify_manager(&mut self, now: Now) {
        if self.manager.id == 0
            && let Acceptor::Mon(mon) = &mut self.mon.auth_mut().acceptor
            && let Ok(id) = mon.global_ids.take()
        {
            self.manager.id = id;
            self.mgr.auth_mut().client.global_id = id;
        }
        let id = self.manager.id;
        let lacks = !self.mgr.auth().client.ready_for(EntityType::Osd) || now.mono >= self.manager.ticket_due;
        if id == 0 || !self.env.cephx() || !lacks {
            return;
        }
        // The key stands for nothing: no proof is made with it.
        let caps = BTreeMap::from([("osd".to_string(), "allow *".to_string())]);
        let entity = EntityKey { key: Key::new(now.wall, [0; 16]), caps };
        if let Some(ticket) = self.mon.hand_out(now, &manager_name(&self.env), &entity, id, EntityType::Osd) {
            self.manager.ticket_due = self.mgr.auth_mut().client.hold(now.mono, ticket);
        }
    }

    /// Tells all OSDs that are connected.
    fn instruct_osds(&mut self, instruction: &str) {
        let sessions: Vec<(OsdId, _)> = self.soft.osds.iter().filter_map(|(osd, o)| Some((*osd, o.session?))).collect();
        for (_, session) in sessions {
            self.mon.send(session, messages::internal::OsdInstruct { json: instruction.into() }.encode());
        }
    }

    /// The manager's client gets the newest durable map.
    pub(super) fn map_for_manager(&mut self) {
        self.manager.objecter.set_map(self.applied.osdmap.clone());
    }

    /// Takes in what the manager's client found.
    pub(super) fn manager_events(&mut self, now: Now) -> bool {
        let mut progress = false;
        while let Some(found) = self.manager.poll() {
            progress = true;
            match found {
                Found::Names(images, names) => self.soft.images.named(now.mono, images, names.as_ref()),
            }
        }
        progress
    }

    /// Ends a round of the manager's client. It asks nobody before it is somebody.
    pub(super) fn turn_manager(&mut self, now: Now, out: &mut Outputs) {
        if self.manager.id != 0 {
            self.manager.objecter.turn(now, &mut self.mgr, out);
        }
    }

    /// When [`Monitor::turn_manager`] must be called.
    pub(super) fn manager_deadline(&self) -> Mono {
        if self.manager.id == 0 { Mono::NEVER } else { self.manager.objecter.deadline() }
    }
}

/// The manager's name.
pub(super) fn manager_name(env: &Env) -> EntityName {
    EntityName::new(EntityType::Mgr, env.config.mgr_name.clone())
}

// Numbers of clients are above the manager's own.
const _: () = assert!(MGR_GID > 0);
