//! A client of the monitors: it sets, reads and removes values, one command after the other, and notes what it was told.
//!
//! A key is to the judge what an object is: setting writes all of it, reading reads it, removing deletes it. So several clients' commands
//! are judged as one history, which must be linearizable.

use crate::history::History;
use crate::model::{Action, Outcome};
use crate::rng::Rng;
use node::{Mono, Now};
use objecter::{Driver, Event, Objecter, OpId};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const ENOENT: i32 = -2;

/// What petitioners share with their world.
#[derive(Debug)]
pub struct Petitions {
    /// All that was asked and answered, a key for each object.
    pub history: History,
    /// Commands still to be given, of each; those that only read have none of their own.
    pub left: Vec<usize>,
    /// The first so many only read, as long as others have commands to give.
    readers: usize,
    /// Commands under way.
    pub open: usize,
    /// The first answer that fits no command.
    pub wrong: Option<String>,
}

impl Petitions {
    /// For so many clients, each of which gives so many commands, but for the first `readers`.
    pub fn new(clients: usize, commands: usize, readers: usize) -> Rc<RefCell<Self>> {
        let history = History::default();
        let left = (0..clients).map(|nth| if nth < readers { 0 } else { commands }).collect();
        Rc::new(RefCell::new(Self { history, left, readers, open: 0, wrong: None }))
    }

    /// Returns true if this client has another command to give.
    fn goes_on(&self, nth: usize) -> bool {
        if nth < self.readers { self.left.iter().any(|left| *left > 0) } else { self.left[nth] > 0 }
    }

    /// Returns true if all was asked and answered.
    pub fn is_done(&self) -> bool {
        self.open == 0 && self.left.iter().all(|left| *left == 0)
    }
}

/// A client of the monitors.
pub struct Petitioner {
    shared: Rc<RefCell<Petitions>>,
    nth: usize,
    me: u32,
    keys: u64,
    rng: Rng,
    /// The command under way, and its number in the history.
    open: Option<(OpId, usize)>,
    next: Mono,
    pause: Duration,
    world_time: Rc<Cell<u64>>,
}

impl Petitioner {
    /// The `nth` of them, who gives commands about so many keys with pauses up to `pause`.
    pub fn new(
        shared: Rc<RefCell<Petitions>>,
        nth: usize,
        keys: u64,
        pause: Duration,
        seed: [u8; 32],
        world_time: Rc<Cell<u64>>,
    ) -> Self {
        let me = shared.borrow_mut().history.new_client();
        let rng = Rng::new(u64::from_le_bytes(seed[..8].try_into().expect("eight bytes")));
        Self { shared, nth, me, keys, rng, open: None, next: Mono(0), pause, world_time }
    }

    /// The next command, and what it means.
    fn choose(&mut self, number: usize) -> (String, String, Action) {
        let key = format!("k{}", self.rng.below(self.keys));
        let reads = self.nth < self.shared.borrow().readers;
        match if reads { 0 } else { self.rng.below(8) } {
            0..4 => (json!({ "prefix": "config-key get", "key": key }).to_string(), key, Action::Read),
            4 => (json!({ "prefix": "config-key rm", "key": key }).to_string(), key, Action::Delete),
            _ => {
                let value = format!("[{}.{number}]", self.me);
                let command = json!({ "prefix": "config-key set", "key": key, "val": value });
                (command.to_string(), key, Action::WriteFull(value.into_bytes()))
            }
        }
    }
}

/// Returns what an answer means.
fn outcome(action: &Action, result: i32, status: &str, output: &[u8]) -> Result<Outcome, String> {
    match (action, result) {
        (Action::Read, 0) => Ok(Outcome::Data(output.trim_ascii().to_vec())),
        (Action::Read, ENOENT) => Ok(Outcome::Error(ENOENT)),
        // Removing succeeds in any case, and says whether there was anything.
        (Action::Delete, 0) if status.starts_with("no such key") => Ok(Outcome::Error(ENOENT)),
        (Action::Delete | Action::WriteFull(_), 0) => Ok(Outcome::Done),
        _ => Err(format!("{} is answered with {result}: {status}", action.brief())),
    }
}

impl Driver for Petitioner {
    fn event(&mut self, now: Now, event: Event, _objecter: &mut Objecter) {
        let Event::CommandDone { id, result, status, output } = event else { return };
        let Some((_, number)) = self.open.take_if(|(open, _)| *open == id) else { return };
        self.next = now.mono.plus(Duration::from_nanos(self.rng.below(self.pause.as_nanos() as u64 + 1)));
        let mut shared = self.shared.borrow_mut();
        shared.open -= 1;
        let action = shared.history.entries[number].action.clone();
        match outcome(&action, result, &status, &output.to_vec()) {
            Ok(outcome) => shared.history.end(number, outcome, 0, self.world_time.get()),
            Err(why) => {
                shared.wrong.get_or_insert(why);
            }
        }
    }

    fn turn(&mut self, now: Now, objecter: &mut Objecter) {
        if self.open.is_some() || now.mono < self.next || !self.shared.borrow().goes_on(self.nth) {
            return;
        }
        let left = self.shared.borrow().left[self.nth];
        let (command, key, action) = self.choose(left);
        let mut shared = self.shared.borrow_mut();
        shared.left[self.nth] = left.saturating_sub(1);
        shared.open += 1;
        let number = shared.history.begin(self.me, &key, action, self.world_time.get());
        self.open = Some((objecter.command(command, types::Rope::new()), number));
    }

    fn deadline(&self) -> Mono {
        let idle = self.open.is_some() || !self.shared.borrow().goes_on(self.nth);
        if idle { Mono::NEVER } else { self.next }
    }
}
