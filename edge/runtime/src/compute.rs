//! Does the work that a machine puts out: short work at once, long work on threads.

use crate::mailbox::Poster;
use node::{Compute, Input};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Nanoseconds of work that the reactor does itself at most. A hand-over to another thread and back costs about as
/// much.
const AT_ONCE: u64 = 50_000;
/// Most threads. Each queue keeps to one of them, so its work is done in order.
const THREADS: usize = 4;

struct Worker {
    work: Sender<Compute>,
    thread: JoinHandle<()>,
}

/// The threads of one machine, and what they have to do.
pub(crate) struct Computer {
    poster: Poster,
    workers: Vec<Worker>,
    /// Number of pieces of work of each queue that are with a thread. Until they are back, short work of the queue goes
    /// the same way.
    away: BTreeMap<u32, usize>,
}

impl Computer {
    pub(crate) fn new(poster: Poster) -> Self {
        Self { poster, workers: Vec::new(), away: BTreeMap::new() }
    }

    /// Does the work at once and tells the result, or gives it to a thread.
    pub(crate) fn take(&mut self, compute: Compute, inputs: &mut Vec<Input>) -> Result<(), String> {
        if compute.nanos <= AT_ONCE && !self.away.contains_key(&compute.queue) {
            let Compute { token, work, .. } = compute;
            inputs.push(Input::Computed { token, result: work() });
            return Ok(());
        }
        *self.away.entry(compute.queue).or_default() += 1;
        let sent = self.worker(compute.queue)?.work.send(compute);
        sent.map_err(|_| "a thread for long work has ended".to_owned())
    }

    /// Notes that a result of this queue has come back.
    pub(crate) fn back(&mut self, queue: u32) {
        if let Some(n) = self.away.get_mut(&queue) {
            *n -= 1;
            if *n == 0 {
                self.away.remove(&queue);
            }
        }
    }

    /// Gives the thread of a queue. Threads begin when they are needed.
    fn worker(&mut self, queue: u32) -> Result<&Worker, String> {
        let most = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let at = queue as usize % most;
        while self.workers.len() <= at {
            let poster = self.poster.clone();
            let (work, todo) = channel::<Compute>();
            let run = move || todo.iter().for_each(|compute| carry_out(compute, &poster));
            let thread = std::thread::Builder::new().name("compute".into()).spawn(run);
            self.workers.push(Worker { work, thread: thread.map_err(|e| format!("no thread for long work: {e}"))? });
        }
        Ok(&self.workers[at])
    }
}

/// Does one piece of work on a thread. A panic ends the machine, not this thread alone.
fn carry_out(compute: Compute, poster: &Poster) {
    let Compute { token, queue, work, .. } = compute;
    poster.computed(token, queue, catch_unwind(AssertUnwindSafe(work)).ok());
}

impl Drop for Computer {
    /// Waits for the work under way. Its results go nowhere.
    fn drop(&mut self) {
        for Worker { work, thread } in self.workers.drain(..) {
            drop(work);
            let _ = thread.join();
        }
    }
}
