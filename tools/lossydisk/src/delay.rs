//! Things that happen later: a disk takes its time, so that a power cut finds writes on their way.

use crate::rng::Rng;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs after a random time, each after its own, on one thread.
#[derive(Debug)]
pub(crate) struct Delay {
    most: Duration,
    rng: std::sync::Mutex<Rng>,
    sender: std::sync::Mutex<Sender<(Instant, JobBox)>>,
}

struct JobBox(Job);

impl std::fmt::Debug for JobBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl Delay {
    /// Jobs wait up to `most`; not at all if that is zero.
    pub(crate) fn new(most: Duration, seed: u64) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        std::thread::Builder::new().name("delay".into()).spawn(move || run(&receiver))?;
        Ok(Self { most, rng: Rng::new(seed).into(), sender: sender.into() })
    }

    /// Runs `job` after a while.
    pub(crate) fn later(&self, job: impl FnOnce() + Send + 'static) {
        if self.most.is_zero() {
            return job();
        }
        let wait = self.rng.lock().expect("no user of the lock panics").below(self.most.as_nanos() as u64 + 1);
        let at = Instant::now() + Duration::from_nanos(wait);
        let sent = self.sender.lock().expect("no user of the lock panics").send((at, JobBox(Box::new(job))));
        // The thread ends only with this sender.
        assert!(sent.is_ok(), "the thread of delays is gone");
    }
}

fn run(receiver: &Receiver<(Instant, JobBox)>) {
    let mut waiting: BTreeMap<Reverse<(Instant, u64)>, Job> = BTreeMap::new();
    let mut count = 0;
    loop {
        let next = waiting.last_key_value().map(|(Reverse((at, _)), _)| *at);
        let got = match next {
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => receiver.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match got {
            Ok((at, JobBox(job))) => {
                count += 1;
                waiting.insert(Reverse((at, count)), job);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return waiting.into_iter().rev().for_each(|(_, job)| job()),
        }
        let now = Instant::now();
        while let Some(entry) = waiting.last_entry()
            && entry.key().0.0 <= now
        {
            entry.remove()();
        }
    }
}
