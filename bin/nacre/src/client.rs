//! A client of the cluster's monitors, for commands that this program gives itself.

use anyhow::{Context, Result};
use msgr::auth::{Auth, ClientAuth, Key};
use node::{CallId, Mono, Now};
use objecter::{ClientNode, Config, Driver, Event, Objecter, OpId};
use runtime::{Caller, Setup};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;
use types::{EntityName, Errno, Rope, UTime};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A key is wrong when it was refused so often: a monitor that is a little behind may not know a new one yet.
const REFUSALS: u32 = 4;

/// A client that is connected, or tries to be.
pub(crate) struct Client {
    caller: Caller,
    thread: Option<JoinHandle<()>>,
    monitors: Vec<SocketAddr>,
}

/// What a command was answered with.
pub(crate) struct Reply {
    /// Standard output.
    pub(crate) output: String,
    /// What a person is told.
    pub(crate) status: String,
}

/// Why there is no reply.
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
        let setup = Setup { inbox: Some(inbox), driver: runtime::Choice::Epoll, ..Setup::new() };
        let body = move || drop(runtime::run(Box::new(machine), setup));
        let thread = std::thread::Builder::new().name("client".into()).spawn(body).context("start a thread for a client")?;
        Ok(Self { caller, thread: Some(thread), monitors: monitors.to_vec() })
    }

    /// Gives a command, as JSON.
    pub(crate) fn command(&self, command: &Value) -> Result<Reply, Failure> {
        self.command_within(command, PATIENCE)
    }

    /// The same, for so long.
    pub(crate) fn command_within(&self, command: &Value, patience: Duration) -> Result<Reply, Failure> {
        let Ok(answer) = self.caller.call(command.to_string(), patience) else { return Err(Failure::Silence) };
        let told: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        match (answer.result, told["key"].as_bool()) {
            (0, _) => Ok(Reply { output: text("output"), status: text("status") }),
            (_, Some(false)) => Err(Failure::Key),
            (result, _) => Err(Failure::Refused(-result, text("status"))),
        }
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

/// What the client's machine does: each call is a command, answered when its reply is there.
#[derive(Default)]
struct Commands {
    calls: BTreeMap<OpId, CallId>,
    answers: Vec<(CallId, i32, String)>,
}

impl Driver for Commands {
    fn event(&mut self, _now: Now, event: Event, _objecter: &mut Objecter) {
        if let Event::CommandDone { id, result, status, output } = event
            && let Some(call) = self.calls.remove(&id)
        {
            let output = output.contiguous();
            let text = json!({"status": status, "output": String::from_utf8_lossy(&output)}).to_string();
            self.answers.push((call, result, text));
        }
    }

    fn turn(&mut self, _now: Now, _objecter: &mut Objecter) {}

    fn deadline(&self) -> Mono {
        Mono::NEVER
    }

    fn call(&mut self, _now: Now, call: CallId, command: &str, objecter: &mut Objecter) -> Option<(i32, String)> {
        self.calls.insert(objecter.command(command.to_owned(), Rope::new()), call);
        None
    }

    fn answers(&mut self, refusals: u32) -> Vec<(CallId, i32, String)> {
        if refusals >= REFUSALS {
            let refused = std::mem::take(&mut self.calls).into_values();
            self.answers.extend(refused.map(|call| (call, Errno::EACCES.wire(), json!({"key": false}).to_string())));
        }
        std::mem::take(&mut self.answers)
    }
}
