//! A whole client as a machine.

use crate::{Config, Event, Objecter};
use msgr::Messenger;
use msgr::auth::Auth;
use node::{Input, Mail, MailId, Mono, Node, Now, Output, Outputs};

/// Work of a client with its objecter.
pub trait Driver {
    /// Something happened.
    fn event(&mut self, now: Now, event: Event, objecter: &mut Objecter);

    /// Ends a round: submits what is to be done now.
    fn turn(&mut self, now: Now, objecter: &mut Objecter);

    /// Returns when `turn` must be called at the latest.
    fn deadline(&self) -> Mono;

    /// Carries out a command that the process gives as text; returns a result and a text.
    fn call(&mut self, _now: Now, _command: &str, _objecter: &mut Objecter) -> (i32, String) {
        (types::Errno::EINVAL.wire(), "this client takes no commands".into())
    }

    /// Takes something that another machine or thread of the process sent.
    fn mail(&mut self, _now: Now, _from: MailId, _mail: Mail, _objecter: &mut Objecter) {}

    /// Gives what is to be sent within the process: to whom, and what. `refusals`: how often in a row the monitors
    /// refused the client's key.
    fn outgoing(&mut self, _refusals: u32) -> Vec<(MailId, Mail)> {
        Vec::new()
    }
}

/// A machine made of a messenger, an objecter, and a driver that uses it.
pub struct ClientNode<D> {
    messenger: Messenger,
    objecter: Objecter,
    driver: D,
    stopping: bool,
}

impl<D: Driver> ClientNode<D> {
    /// A client that connects at its first turn. `seed` is secret and never used twice.
    pub fn new(messenger: msgr::Config, auth: Auth, config: Config, seed: [u8; 32], driver: D) -> Self {
        let messenger = Messenger::new(messenger, auth, seed);
        Self { messenger, objecter: Objecter::new(config), driver, stopping: false }
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The objecter.
    pub fn objecter(&self) -> &Objecter {
        &self.objecter
    }

    fn events(&mut self, now: Now, out: &mut Outputs) {
        while let Some(event) = self.messenger.poll_event() {
            let give_back = match &event {
                msgr::Event::Message { session, bytes, .. } => Some((*session, *bytes)),
                _ => None,
            };
            self.objecter.handle(now, event, &mut self.messenger, out);
            if let Some((session, bytes)) = give_back {
                self.messenger.done(session, bytes);
            }
        }
        while let Some(event) = self.objecter.poll_event() {
            self.driver.event(now, event, &mut self.objecter);
        }
    }

    /// Takes what came, goes on with it, sends.
    fn round(&mut self, now: Now, out: &mut Outputs) {
        self.events(now, out);
        self.driver.turn(now, &mut self.objecter);
        self.objecter.turn(now, &mut self.messenger, out);
        // Verdicts that need no message, as of a pool that does not exist.
        self.events(now, out);
        for (to, mail) in self.driver.outgoing(self.messenger.auth().client.refusals()) {
            out.push(Output::Mail { to, mail });
        }
        self.messenger.turn(now, out);
    }
}

impl<D: Driver> Node for ClientNode<D> {
    fn handle(&mut self, now: Now, input: Input, out: &mut Outputs) {
        match input {
            Input::Call { call, command } => {
                let (result, text) = self.driver.call(now, &command, &mut self.objecter);
                out.push(Output::Answer { call, result, text });
            }
            Input::Mail { from, mail } => self.driver.mail(now, from, mail, &mut self.objecter),
            Input::Stop => self.stopping = true,
            Input::Disk(_) => {}
            net => self.messenger.handle(now, net, out),
        }
    }

    fn turn(&mut self, now: Now, out: &mut Outputs) {
        if self.stopping {
            // Nothing of a client outlives it.
            out.push(Output::Stopped);
            return;
        }
        self.round(now, out);
        // The end of a round meets deadlines. What comes of that, as the loss of a peer that does not answer, is known in this turn:
        // nothing else would wake this client.
        while self.messenger.has_event() {
            self.round(now, out);
        }
    }

    fn deadline(&self) -> Mono {
        self.messenger.deadline().min(self.objecter.deadline()).min(self.driver.deadline())
    }
}
