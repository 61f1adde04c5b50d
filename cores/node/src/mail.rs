//! Values between machines of one process, and work that is done elsewhere.

use crate::Token;
use std::any::Any;
use std::fmt;

/// A machine's address within its process; agreed when machines are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailId(pub u32);

/// Value that is sent: any value that both sides know, for the receiver to `downcast`. Buffers in it ([`crate::Buf`]) stay
/// with the receiver's thread when they are dropped there, so payload that goes one way only should be shared bytes.
///
/// Mail comes at most once, and what one machine sends to another comes in the order of sending. What is sent to a
/// machine that does not run is lost without a word, as on a connection that broke: who needs an answer asks again.
/// Nothing but the sender's own bound limits how much is under way.
pub type Mail = Box<dyn Any + Send>;

/// Work that needs nothing but a processor: coding, compression, checksums of much data.
pub struct Compute {
    /// Names it in [`crate::Input::Computed`].
    pub token: Token,
    /// Results of one queue come in the order in which its work was put out; those of different queues in any.
    pub queue: u32,
    /// Time that it will take, nanoseconds, roughly. Short work is done at once, on the machine's own thread.
    pub nanos: u64,
    /// The work. It may depend on nothing but what it brings with it.
    pub work: Box<dyn FnOnce() -> Mail + Send>,
}

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compute").field("token", &self.token).field("queue", &self.queue).field("nanos", &self.nanos).finish()
    }
}
