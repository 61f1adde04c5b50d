//! Rights that have ended: the monitors say whose, and the sessions that were opened with older tickets end. New ones
//! with such tickets are refused by the messenger ([`msgr::auth::ServiceAuth`]). Operations that were begun are carried
//! out; their answers go nowhere.

use crate::Osd;
use msgr::auth::{Acceptor, Revoked};
use node::{Level, Now, Outputs};
use std::collections::BTreeMap;
use types::{EntityName, SessionId};

impl Osd {
    /// Takes the whole list up. Gives how many sessions end.
    pub(crate) fn take_revoked(&mut self, revoked: BTreeMap<EntityName, Revoked>) -> usize {
        let Acceptor::Service(service) = &mut self.msgr.auth_mut().acceptor else { return 0 };
        service.revoked = revoked;
        let Acceptor::Service(service) = &self.msgr.auth().acceptor else { return 0 };
        let over = |id: &SessionId| {
            self.msgr.peer(*id).is_some_and(|peer| service.has_ended(&peer.name, peer.ticket, peer.caps.as_deref()))
        };
        self.ending = self.sessions.ids().filter(over).collect();
        self.ending.len()
    }

    /// Ends the sessions that were found.
    pub(crate) fn end_sessions(&mut self, now: Now, why: &str, out: &mut Outputs) {
        for session in std::mem::take(&mut self.ending) {
            if let Some(peer) = self.msgr.peer(session) {
                let text = format!("session with {} at {} ended: {why}", peer.name, peer.addr);
                out.log(Level::Info, "osd", text);
                self.msgr.close(session);
                self.session_ended(now, session, out);
            }
        }
    }
}
