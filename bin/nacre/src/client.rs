//! A client of the cluster's monitors, for commands that this program gives itself.

use anyhow::{Context, Result};
use msgr::auth::{Auth, ClientAuth, Key};
use node::{Mail, MailId, Mono, Now};
use objecter::{ClientNode, Config, Driver, Event, Objecter, OpId};
use runtime::{Caller, PostOffice, Setup};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;
use types::{EntityName, Rope, UTime};

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A key is wrong when it was refused so often: a monitor that is a little behind may not know a new one yet.
const REFUSALS: u32 = 4;

/// The address of the client's machine among those that have to do with it.
const MACHINE: MailId = MailId(0);

/// A client that is connected, or tries to be.
pub(crate) struct Client {
    caller: Caller,
    office: PostOffice,
    thread: Option<JoinHandle<()>>,
    monitors: Vec<SocketAddr>,
}

/// Answer to a command.
pub(crate) struct Reply {
    /// Standard output.
    pub(crate) output: String,
    /// Text for a person.
    pub(crate) status: String,
}

/// Reason why there is no reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The monitors do not take the key.
    Key,
    /// The command was refused: error number (positive) and sentence.
    Refused(i32, String),
    /// Nobody answers.
    Silence,
}

impl Failure {
    /// As a sentence.
    pub(crate) fn sentence(self, client: &Client) -> anyhow::Error {
        match self {
            Failure::Key => anyhow::anyhow!("the monitors do not take the key of this host's administrator"),
            Failure::Refused(_, why) => anyhow::anyhow!("{why}"),
            Failure::Silence => anyhow::anyhow!("{}", client.silence()),
        }
    }
}

impl Client {
    /// A client of this name; without a key, it just says it.
    pub(crate) fn new(name: &str, key: Option<[u8; 16]>, monitors: &[SocketAddr]) -> Result<Self> {
        let name: EntityName = name.parse().map_err(|_| anyhow::anyhow!("'{name}' is not a name"))?;
        let auth = match key {
            Some(key) => ClientAuth::cephx(name.clone(), Key::new(UTime::ZERO, key)),
            None => ClientAuth::none(name.clone()),
        };
        let messenger = msgr::Config::client(name, u32::from_le_bytes(crate::keys::random()?));
        let config = Config { monitors: monitors.iter().map(|a| crate::monitors::at(*a)).collect(), ..Config::default() };
        let machine = ClientNode::new(messenger, Auth::client(auth), config, crate::keys::random()?, Commands::default());
        let (caller, inbox) = runtime::mailbox().context("make a mailbox")?;
        let office = PostOffice::default();
        office.register(MACHINE, &caller);
        let post = Some((MACHINE, office.clone()));
        let setup = Setup { inbox: Some(inbox), driver: runtime::Choice::Epoll, post, ..Setup::new() };
        let body = move || drop(runtime::run(Box::new(machine), setup));
        let thread = std::thread::Builder::new().name("client".into()).spawn(body).context("start a thread for a client")?;
        Ok(Self { caller, office, thread: Some(thread), monitors: monitors.to_vec() })
    }

    /// Gives a command, as JSON.
    pub(crate) fn command(&self, command: &Value) -> Result<Reply, Failure> {
        self.command_within(command, PATIENCE)
    }

    /// The same, for so long.
    pub(crate) fn command_within(&self, command: &Value, patience: Duration) -> Result<Reply, Failure> {
        self.command_with(command, Vec::new(), patience)
    }

    /// The same with bytes that the command takes in.
    pub(crate) fn command_with(&self, command: &Value, input: Vec<u8>, patience: Duration) -> Result<Reply, Failure> {
        // An address for each question: there is one answer to it.
        let outside = self.office.outside();
        outside.send(MACHINE, Box::new(Ask(command.to_string(), input))).map_err(|_| Failure::Silence)?;
        let (_, told) = outside.receive(patience).map_err(|_| Failure::Silence)?;
        told.downcast::<Told>().map_or(Err(Failure::Silence), |told| told.0)
    }

    /// The same; every failure is a sentence.
    pub(crate) fn run(&self, command: &Value) -> Result<Reply> {
        self.command(command).map_err(|failure| failure.sentence(self))
    }

    /// Returns what is said when nobody answers.
    pub(crate) fn silence(&self) -> String {
        let all: Vec<String> = self.monitors.iter().map(ToString::to_string).collect();
        format!(
            "no monitor answers at {} ({} s): is the cluster running, and can this host reach it?",
            all.join(", "),
            PATIENCE.as_secs()
        )
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.caller.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A command, as JSON, and what it takes in: mail to the client's machine.
struct Ask(String, Vec<u8>);

/// Answer to a command: mail to who asked.
struct Told(Result<Reply, Failure>);

/// Work of the client's machine: it gives each command that comes to the monitors, and sends the reply back when it
/// is there.
#[derive(Default)]
struct Commands {
    asked: BTreeMap<OpId, MailId>,
    answers: Vec<(MailId, Mail)>,
}

impl Commands {
    fn answer(&mut self, to: MailId, how: Result<Reply, Failure>) {
        self.answers.push((to, Box::new(Told(how))));
    }
}

impl Driver for Commands {
    fn event(&mut self, _now: Now, event: Event, _objecter: &mut Objecter) {
        if let Event::CommandDone { id, result, status, output } = event
            && let Some(asker) = self.asked.remove(&id)
        {
            let output = String::from_utf8_lossy(&output.contiguous()).into_owned();
            let done = if result == 0 { Ok(Reply { output, status }) } else { Err(Failure::Refused(-result, status)) };
            self.answer(asker, done);
        }
    }

    fn turn(&mut self, _now: Now, _objecter: &mut Objecter) {}

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }

    fn mail(&mut self, _now: Now, from: MailId, mail: Mail, objecter: &mut Objecter) {
        if let Ok(ask) = mail.downcast::<Ask>() {
            self.asked.insert(objecter.command(ask.0, Rope::from(ask.1)), from);
        }
    }

    fn outgoing(&mut self, refusals: u32) -> Vec<(MailId, Mail)> {
        if refusals >= REFUSALS {
            let refused = std::mem::take(&mut self.asked).into_values();
            refused.for_each(|asker| self.answer(asker, Err(Failure::Key)));
        }
        std::mem::take(&mut self.answers)
    }
}
