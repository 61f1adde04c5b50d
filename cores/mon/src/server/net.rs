//! Connections: which messenger each belongs to.

use super::sessions::Side;
use super::{Monitor, Phase, peers};
use msgr::Messenger;
use node::{Input, ListenerId, Now, Output, Outputs};

impl Monitor {
    pub(super) fn network(&mut self, now: Now, input: Input, out: &mut Outputs) {
        let (conn, accepted, closed) = match &input {
            Input::Accepted { listener, conn, .. } => (*conn, Some(*listener), false),
            Input::Connected { conn, .. } | Input::Received { conn, .. } | Input::Sent { conn, .. } => (*conn, None, false),
            Input::Closed { conn, .. } => (*conn, None, true),
            _ => return,
        };
        if let Some(listener) = accepted {
            if self.phase != Phase::Serving {
                return out.push(Output::Close { conn });
            }
            self.conns.insert(conn, if listener == ListenerId(1) { Side::Mgr } else { Side::Mon });
        }
        // Completions of a connection that this side closed still come; their buffers go.
        let Some(side) = self.conns.get(&conn).copied() else { return };
        if closed {
            self.conns.remove(&conn);
        }
        let from = out.0.len();
        self.messenger(side).handle(now, input, out);
        self.follow_conns(from, out);
    }

    /// Knows the connections that the outputs from `from` on open, and forgets those that they close. Each messenger
    /// has numbers of its own for those that it opens.
    pub(super) fn follow_conns(&mut self, from: usize, out: &Outputs) {
        for output in &out.0[from..] {
            match output {
                Output::Connect { conn, .. } => {
                    let side = if conn.0 >= peers::FIRST_CONN { Side::Mon } else { Side::Mgr };
                    self.conns.insert(*conn, side);
                }
                Output::Close { conn } => drop(self.conns.remove(conn)),
                _ => {}
            }
        }
    }

    pub(super) fn messenger(&mut self, side: Side) -> &mut Messenger {
        match side {
            Side::Mon => &mut self.mon,
            Side::Mgr => &mut self.mgr,
        }
    }
}
