//! A client that reads images' headers for a command of this program, as any client would.

use crate::cli::Auth;
use crate::conf::Conf;
use crate::keys;
use anyhow::{Context, Result, bail};
use images::work::{Answer, Io, Request, RequestId, Works};
use msgr::auth::{Auth as Proof, ClientAuth, Key};
use node::{Mono, Now};
use objecter::{ClientNode, Config, Driver, Event, Objecter, OpId};
use runtime::Setup;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use types::{EntityName, Errno, UTime};

/// A job, once there is a way to the cluster.
type Job<T> = Box<dyn FnOnce(Io) -> Pin<Box<dyn Future<Output = T>>> + Send>;

/// Runs a job that reads objects, with the administrator's rights, for so long at most.
pub(crate) fn read<T: Send + 'static>(dir: &Path, patience: Duration, job: Job<T>) -> Result<T> {
    let conf = Conf::load(dir)?;
    let name: EntityName = "client.admin".parse().map_err(|_| anyhow::anyhow!("client.admin is no name"))?;
    let proof = match conf.auth {
        Auth::None => ClientAuth::none(name.clone()),
        Auth::Cephx => ClientAuth::cephx(name.clone(), Key::new(UTime::ZERO, keys::load(&dir.join("keyring"), "client.admin")?)),
    };
    let messenger = msgr::Config::client(name, u32::from_le_bytes(keys::random()?));
    let config = Config { monitors: conf.mons.iter().map(|a| crate::monitors::at(*a)).collect(), ..Config::default() };
    let (seed, secret) = (keys::random()?, keys::random()?);
    let (caller, inbox) = runtime::mailbox().context("make a mailbox")?;
    let (done, ended) = channel();
    let setup = Setup { inbox: Some(inbox), driver: runtime::Choice::Epoll, ..Setup::new() };
    // Jobs stay on the thread on which they began.
    let body = move || {
        let reading = Reading { works: Works::new(secret), asked: BTreeMap::new(), job: Some(job), done };
        drop(runtime::run(Box::new(ClientNode::new(messenger, Proof::client(proof), config, seed, reading)), setup));
    };
    let thread = std::thread::Builder::new().name("client.read".into()).spawn(body).context("start a thread for a client")?;
    let told = ended.recv_timeout(patience);
    caller.stop();
    let _ = thread.join();
    match told {
        Ok(told) => Ok(told),
        Err(_) => bail!("the cluster does not answer within {} s: nacre explain --dir {}", patience.as_secs(), dir.display()),
    }
}

/// Work of the client's machine.
struct Reading<T> {
    works: Works<T>,
    asked: BTreeMap<OpId, RequestId>,
    /// The job, until there is a map.
    job: Option<Job<T>>,
    done: Sender<T>,
}

impl<T: 'static> Driver for Reading<T> {
    fn event(&mut self, _now: Now, event: Event, _objecter: &mut Objecter) {
        if let Event::Done { id, result } = event
            && let Some(step) = self.asked.remove(&id)
        {
            self.works.answer(step, Answer::Op(result));
        }
    }

    fn turn(&mut self, now: Now, objecter: &mut Objecter) {
        let Some(map) = objecter.map() else { return };
        self.works.set_map(map.clone());
        if let Some(job) = self.job.take() {
            let job = job(self.works.io());
            self.works.start(job);
        }
        loop {
            self.works.run(now.wall);
            let mut any = false;
            while let Some((step, request)) = self.works.poll_request() {
                any = true;
                match request {
                    Request::Op(op) => drop(self.asked.insert(objecter.submit(op), step)),
                    // Whoever reads needs nothing else.
                    _ => self.works.answer(step, Answer::Failed(Errno::EOPNOTSUPP)),
                }
            }
            if !any {
                break;
            }
        }
        while let Some((_, told)) = self.works.poll_done() {
            // Nobody waits any more if that took too long.
            let _ = self.done.send(told);
        }
    }

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }
}
