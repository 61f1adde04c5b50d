//! A client that sends commands to the monitor when it is called, and keeps the answers.

use crate::history::History;
use messages::mon::{PoolOp, pool_op};
use node::{Mono, Now};
use objecter::{Driver, Event, Objecter, OpId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The command that makes a snapshot which clients keep themselves: followed by the pool's name.
pub const MAKE_SNAP: &str = "make-own-snap ";
/// The command that removes one: followed by the pool's name and the snapshot's number.
pub const REMOVE_SNAP: &str = "remove-own-snap ";

/// An administrator.
#[derive(Debug, Default)]
pub struct Admin {
    waiting: Rc<RefCell<AdminShared>>,
}

/// What an [`Admin`] shares with its world.
#[derive(Debug, Default)]
pub struct AdminShared {
    /// To be sent: JSON, or [`MAKE_SNAP`] and [`REMOVE_SNAP`].
    pub commands: Vec<String>,
    /// What goes with a command, as the content of a file.
    pub inputs: BTreeMap<String, types::Rope>,
    /// Under way.
    pub open: BTreeMap<OpId, String>,
    /// Command, result, status, output.
    pub answers: Vec<(String, i32, String, Vec<u8>)>,
    /// Place where new snapshots are noted.
    pub history: Rc<RefCell<History>>,
}

impl Admin {
    /// An administrator.
    pub fn new(waiting: Rc<RefCell<AdminShared>>) -> Self {
        // What an earlier life had asked is asked again.
        let unanswered = std::mem::take(&mut waiting.borrow_mut().open);
        waiting.borrow_mut().commands.extend(unanswered.into_values());
        Self { waiting }
    }
}

/// A pool operation from its words; `None` while the pool is not known.
fn own_snap(words: &str, objecter: &Objecter) -> Option<PoolOp> {
    let (make, rest) = match words.strip_prefix(MAKE_SNAP) {
        Some(rest) => (true, rest),
        None => (false, words.strip_prefix(REMOVE_SNAP)?),
    };
    let mut words = rest.split(' ');
    let (name, snap) = (words.next()?, words.next().and_then(|n| n.parse().ok()).unwrap_or(0));
    let (pool, _) = objecter.map()?.pool_name.iter().find(|(_, n)| **n == name)?;
    let op = if make { pool_op::CREATE_UNMANAGED_SNAP } else { pool_op::DELETE_UNMANAGED_SNAP };
    Some(PoolOp { pool: *pool as u32, op, snapid: snap, ..PoolOp::default() })
}

impl Driver for Admin {
    fn event(&mut self, _now: Now, event: Event, _objecter: &mut Objecter) {
        let mut shared = self.waiting.borrow_mut();
        match event {
            Event::CommandDone { id, result, status, output } => {
                if let Some(command) = shared.open.remove(&id) {
                    shared.answers.push((command, result, status, output.to_vec()));
                }
            }
            Event::PoolOpDone { id, result, data } => {
                let Some(command) = shared.open.remove(&id) else { return };
                if let (0, true) = (result, command.starts_with(MAKE_SNAP)) {
                    let snap = data.as_ref().and_then(|data| denc::Reader::new(data).u64().ok()).unwrap_or(0);
                    let mut history = shared.history.borrow_mut();
                    history.own_snaps.0 = history.own_snaps.0.max(snap);
                    history.own_snaps.1.push(snap);
                    history.own_snaps.1.sort_unstable();
                }
                shared.answers.push((command, result, String::new(), Vec::new()));
            }
            _ => {}
        }
    }

    fn turn(&mut self, _now: Now, objecter: &mut Objecter) {
        let mut shared = self.waiting.borrow_mut();
        for command in std::mem::take(&mut shared.commands) {
            let id = if command.starts_with('{') {
                let input = shared.inputs.get(&command).cloned().unwrap_or_default();
                objecter.command(command.clone(), input)
            } else if let Some(op) = own_snap(&command, objecter) {
                objecter.pool_op(op)
            } else {
                objecter.want_newer_map();
                shared.commands.push(command);
                continue;
            };
            shared.open.insert(id, command);
        }
    }

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }

    fn call(&mut self, _now: Now, command: &str, _objecter: &mut Objecter) -> (i32, String) {
        self.waiting.borrow_mut().commands.push(command.into());
        (0, String::new())
    }
}
