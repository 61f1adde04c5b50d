//! The mailbox: requests from other threads of the process to a machine, and the answers.

use crate::compute::Computer;
use crate::sys::EventFd;
use node::{CallId, Input, Mail, MailId, MemoryShare, MemoryWish, Token};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most requests that may wait. Beyond that callers are told that the daemon is busy.
const MOST_WAITING: usize = 1024;

/// The answer of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0, or a negative error number.
    pub result: i32,
    /// Text or JSON.
    pub text: String,
}

/// Reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// Too many requests wait already.
    Busy,
    /// The daemon has ended.
    Stopped,
    /// The daemon did not answer in time.
    TimedOut,
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CallError::Busy => "the daemon has too many requests waiting",
            CallError::Stopped => "the daemon has ended",
            CallError::TimedOut => "the daemon did not answer in time",
        })
    }
}

impl std::error::Error for CallError {}

enum Posted {
    Call {
        command: String,
        reply: SyncSender<Answer>,
    },
    Mail {
        from: MailId,
        mail: Mail,
    },
    /// The result of work; none if the work panicked.
    Computed {
        token: Token,
        queue: u32,
        result: Option<Mail>,
    },
    Stop,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Posted>,
    /// Number of waiting requests that are calls.
    calls: usize,
    /// The newest share of memory, if the machine was not told yet.
    memory: Option<MemoryShare>,
    /// Last word of the machine about the memory that it wants.
    wish: Option<MemoryWish>,
    /// True if the driver has ended. Nobody will look any more.
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Arc<EventFd>,
}

impl Shared {
    /// Locks the queue. A thread that panicked while it held the lock cannot have left it half changed.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves what is never refused, and wakes the machine once. What is sent to a machine that has ended is lost: then
    /// it returns false.
    fn leave(&self, posted: impl IntoIterator<Item = Posted>) -> bool {
        let mut queue = self.queue();
        if queue.closed {
            return false;
        }
        queue.waiting.extend(posted);
        drop(queue);
        self.wake.raise();
        true
    }

    fn post(&self, posted: Posted) -> Result<(), CallError> {
        let mut queue = self.queue();
        if queue.closed {
            return Err(CallError::Stopped);
        }
        if queue.calls >= MOST_WAITING {
            return Err(CallError::Busy);
        }
        queue.calls += 1;
        queue.waiting.push_back(posted);
        drop(queue);
        self.wake.raise();
        Ok(())
    }
}

/// The end for other threads. Clones lead to the same machine.
#[derive(Clone)]
pub struct Caller(Arc<Shared>);

/// The end for the driver. It goes into [`crate::Setup`].
pub struct Inbox {
    shared: Arc<Shared>,
    open: HashMap<CallId, SyncSender<Answer>>,
    next: u64,
}

/// Makes the two ends of a mailbox.
///
/// # Errors
/// The system gives no more descriptors.
pub fn mailbox() -> io::Result<(Caller, Inbox)> {
    let shared = Arc::new(Shared { queue: Mutex::default(), wake: Arc::new(EventFd::new()?) });
    Ok((Caller(shared.clone()), Inbox { shared, open: HashMap::new(), next: 1 }))
}

impl Caller {
    /// Sends `command` (JSON) as an [`Input::Call`] and waits for the answer.
    ///
    /// # Errors
    /// There is no answer: see [`CallError`].
    pub fn call(&self, command: impl Into<String>, timeout: Duration) -> Result<Answer, CallError> {
        let answer = self.begin(command)?;
        answer.recv_timeout(timeout).map_err(|e| match e {
            RecvTimeoutError::Timeout => CallError::TimedOut,
            RecvTimeoutError::Disconnected => CallError::Stopped,
        })
    }

    /// Sends `command` and gives the channel of the answer. The channel is cut if the daemon ends before.
    ///
    /// # Errors
    /// [`CallError::Busy`], [`CallError::Stopped`]
    pub fn begin(&self, command: impl Into<String>) -> Result<Receiver<Answer>, CallError> {
        let (reply, answer) = sync_channel(1);
        self.0.post(Posted::Call { command: command.into(), reply })?;
        Ok(answer)
    }

    /// Sends [`Input::Memory`]. It replaces a share that the machine has not taken yet.
    ///
    /// # Errors
    /// [`CallError::Stopped`]
    pub fn give_memory(&self, share: MemoryShare) -> Result<(), CallError> {
        let mut queue = self.0.queue();
        if queue.closed {
            return Err(CallError::Stopped);
        }
        queue.memory = Some(share);
        drop(queue);
        self.0.wake.raise();
        Ok(())
    }

    /// Gives what the machine said last about the memory that it wants, if it said anything.
    pub fn memory_wish(&self) -> Option<MemoryWish> {
        self.0.queue().wish
    }

    /// Sends [`Input::Stop`]. A machine that has ended is stopped already.
    pub fn stop(&self) {
        self.0.leave([Posted::Stop]);
    }
}

/// The place where threads that work for a machine leave their results.
#[derive(Clone)]
pub(crate) struct Poster(Arc<Shared>);

impl Poster {
    /// Leaves a result; none if the work panicked.
    pub(crate) fn computed(&self, token: Token, queue: u32, result: Option<Mail>) {
        self.0.leave([Posted::Computed { token, queue, result }]);
    }
}

/// Whoever gets mail.
#[derive(Clone)]
enum Receives {
    Machine(Caller),
    Thread(Sender<(MailId, Mail)>),
}

/// The machines of a process that can send each other mail, and threads that are no machines. Clones are the same
/// office.
#[derive(Clone, Default)]
pub struct PostOffice(Arc<Mutex<Addresses>>);

#[derive(Default)]
struct Addresses {
    all: BTreeMap<MailId, Receives>,
    /// Number of addresses that threads were given so far.
    given: u32,
}

impl PostOffice {
    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a machine: from now on mail to `id` goes to the other end of `caller`.
    pub fn register(&self, id: MailId, caller: &Caller) {
        self.addresses().all.insert(id, Receives::Machine(caller.clone()));
    }

    /// Gives a thread that is no machine an address. They are given from above, as machines are numbered from below,
    /// and none twice before all were given: so an answer that comes late does not come to another one.
    pub fn outside(&self) -> Outside {
        let (sender, received) = channel();
        let mut addresses = self.addresses();
        let id = loop {
            addresses.given = addresses.given.wrapping_add(1);
            let id = MailId(0u32.wrapping_sub(addresses.given));
            if !addresses.all.contains_key(&id) {
                break id;
            }
        };
        addresses.all.insert(id, Receives::Thread(sender));
        drop(addresses);
        Outside { id, office: self.clone(), received }
    }

    /// Delivers what `from` sent to one receiver, in order. A machine is woken once. Returns false if nobody takes it.
    pub(crate) fn deliver(&self, from: MailId, to: MailId, mail: impl IntoIterator<Item = Mail>) -> bool {
        let receiver = self.addresses().all.get(&to).cloned();
        match receiver {
            None => false,
            Some(Receives::Machine(Caller(shared))) => shared.leave(mail.into_iter().map(|mail| Posted::Mail { from, mail })),
            Some(Receives::Thread(sender)) => mail.into_iter().all(|mail| sender.send((from, mail)).is_ok()),
        }
    }
}

/// The address of a thread that is no machine, for mail to machines and their answers. What comes after this was
/// dropped is lost. Who asks more than once from one address names each question, or an answer that came too late is
/// taken for the next.
pub struct Outside {
    id: MailId,
    office: PostOffice,
    received: Receiver<(MailId, Mail)>,
}

impl Outside {
    /// The address, to which answers go.
    pub fn id(&self) -> MailId {
        self.id
    }

    /// Sends something: machines get it as [`Input::Mail`]. A machine that ends before it has looked loses it.
    ///
    /// # Errors
    /// [`CallError::Stopped`]: nobody has this address.
    pub fn send(&self, to: MailId, mail: Mail) -> Result<(), CallError> {
        if self.office.deliver(self.id, to, [mail]) { Ok(()) } else { Err(CallError::Stopped) }
    }

    /// Waits for what somebody sends here: who, and what.
    ///
    /// # Errors
    /// [`CallError::TimedOut`]
    pub fn receive(&self, timeout: Duration) -> Result<(MailId, Mail), CallError> {
        self.received.recv_timeout(timeout).map_err(|_| CallError::TimedOut)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.office.addresses().all.remove(&self.id);
    }
}

impl Inbox {
    /// The event that is raised when something was posted. The driver clears it and then looks.
    pub(crate) fn wake(&self) -> Arc<EventFd> {
        self.shared.wake.clone()
    }

    /// The place where threads leave results for this machine.
    pub(crate) fn poster(&self) -> Poster {
        Poster(self.shared.clone())
    }

    /// Appends what waits to `inputs`.
    ///
    /// # Errors
    /// Work for the machine panicked.
    pub(crate) fn drain(&mut self, computer: &mut Computer, inputs: &mut Vec<Input>) -> Result<(), String> {
        let mut queue = self.shared.queue();
        queue.calls = 0;
        inputs.extend(queue.memory.take().map(Input::Memory));
        for posted in queue.waiting.drain(..) {
            match posted {
                Posted::Stop => inputs.push(Input::Stop),
                Posted::Mail { from, mail } => inputs.push(Input::Mail { from, mail }),
                Posted::Computed { token, queue, result } => {
                    computer.back(queue);
                    let result = result.ok_or_else(|| format!("long work panicked (number {})", token.0))?;
                    inputs.push(Input::Computed { token, result });
                }
                Posted::Call { command, reply } => {
                    let call = CallId(self.next);
                    self.next += 1;
                    self.open.insert(call, reply);
                    inputs.push(Input::Call { call, command });
                }
            }
        }
        Ok(())
    }

    /// Keeps the memory that the machine wants, for whoever shares memory out.
    pub(crate) fn wish(&mut self, wish: MemoryWish) {
        self.shared.queue().wish = Some(wish);
    }

    /// Takes no more. Who waits for an answer is told that the machine has ended.
    pub(crate) fn close(&mut self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        queue.waiting.clear();
        self.open.clear();
    }

    /// Passes an answer on. The caller may have given up meanwhile.
    pub(crate) fn answer(&mut self, call: CallId, result: i32, text: String) {
        if let Some(reply) = self.open.remove(&call) {
            let _ = reply.try_send(Answer { result, text });
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}
