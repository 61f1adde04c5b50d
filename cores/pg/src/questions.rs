//! Open questions: what a copy has asked of other copies and has no answer to. One table for each part that a copy plays.
//!
//! *Data and owner.* [`Questions`] belongs to the primary from the moment when peering makes it, or to the copy that follows
//! one. It ends with the interval. A row says whom, what about ([`Subject`]), the message itself, and when it was sent last.
//! A copy has at most one open question about one subject to each other copy; a new one takes the place of the old one.
//!
//! | event | what happens |
//! |---|---|
//! | [`Questions::ask`] | the message is sent, and the row stands |
//! | [`Questions::answered`] | the row goes; the owner looks first whether the answer fits ([`Questions::asked`]) |
//! | the session to the copy was broken, or there is another map | [`Questions::repeat`]: the same message is sent again |
//! | nothing is heard for as long as [`Subject::patience`] says | [`Questions::turn`]: the same |
//! | nobody wants the answer any more | [`Questions::withdraw`] |
//!
//! Whoever is asked twice answers twice, so an answer without a row is dropped.
//!
//! *What is not here.* Changes of the group are no questions: their stream keeps them, with their numbers, until they are
//! durable ([`crate::primary::members::Stream`]). What a copy was asked and has answered it says again when the session
//! was broken (`Replica::promise_again`). Monitors are asked by effects.

use crate::api::Ctx;
use crate::core::Core;
use crate::letter::Letter;
use node::Mono;
use objectstore::Hold;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{CopyId, HObject};

/// Subject of a question. The order is that in which questions are repeated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// Summary of what a copy holds of the group.
    Holdings,
    /// Its log.
    Log,
    /// It is to take up the log that counts.
    Activation,
    /// Parts of its shard, by the question's number.
    Shard(u64),
    /// A piece of an object, or what changed in it.
    Object(HObject),
    /// Versions of objects in a range, for a copy that is filled.
    Range,
    /// Objects that no member has.
    Lost,
    /// A slot for objects that it gets, or that one is given back. A slot that was lent may be taken back, and that word may
    /// be lost: the question stays open as long as the slot is kept.
    Slot,
    /// Objects that it holds in a range, for a scrub.
    Survey,
    /// It is to remove what it has of the group. Nobody answers that.
    Removal,
    /// Up to which version changes are durable at all members.
    Settled,
}

impl Subject {
    /// Returns after which time without an answer the question is repeated; `None`: only when a session was broken.
    fn patience(&self) -> Option<Duration> {
        match self {
            // Clients' reads are sent back meanwhile.
            Self::Settled => Some(Duration::from_secs(1)),
            // Nothing is served meanwhile.
            Self::Holdings | Self::Log | Self::Activation => Some(Duration::from_secs(2)),
            Self::Object(_) | Self::Range | Self::Lost | Self::Slot | Self::Survey => Some(Duration::from_secs(5)),
            Self::Shard(_) | Self::Removal => None,
        }
    }
}

/// A question without an answer.
pub(crate) struct Open {
    /// The message that asks.
    pub(crate) letter: Letter,
    /// The job that waits for the answer, if one does.
    pub(crate) job: Option<Hold>,
    /// Time when it was sent last.
    sent: Mono,
}

/// All questions of a copy that are open. See the module's text.
#[derive(Default)]
pub(crate) struct Questions {
    open: BTreeMap<(CopyId, Subject), Open>,
    /// Time when the first may have to be repeated: never later than that, perhaps earlier.
    next: Option<Mono>,
}

impl Questions {
    /// Asks a copy.
    pub(crate) fn ask(&mut self, core: &Core, ctx: &mut Ctx<'_>, to: CopyId, subject: Subject, letter: Letter) {
        self.put(core, ctx, to, subject, letter, None);
    }

    /// Asks a copy for a job, which waits for the answer.
    pub(crate) fn ask_for(&mut self, core: &Core, ctx: &mut Ctx<'_>, job: Hold, to: CopyId, subject: Subject, letter: Letter) {
        self.put(core, ctx, to, subject, letter, Some(job));
    }

    fn put(&mut self, core: &Core, ctx: &mut Ctx<'_>, to: CopyId, subject: Subject, letter: Letter, job: Option<Hold>) {
        core.tell(ctx, to, &letter);
        let sent = ctx.now.mono;
        self.note(sent, &subject);
        let before = self.open.insert((to, subject), Open { letter, job, sent });
        let waits = before.and_then(|before| before.job).filter(|waits| Some(*waits) != job);
        debug_assert!(waits.is_none(), "{waits:?} waits for an answer to a question that {job:?} asks anew");
    }

    /// A question was sent: it is repeated in its time.
    fn note(&mut self, sent: Mono, subject: &Subject) {
        if let Some(patience) = subject.patience() {
            let at = sent.plus(patience);
            self.next = Some(self.next.map_or(at, |next| next.min(at)));
        }
    }

    /// Returns the message by which a copy was asked about something, if it has not answered.
    pub(crate) fn asked(&self, of: CopyId, subject: Subject) -> Option<&Letter> {
        self.open.get(&(of, subject)).map(|open| &open.letter)
    }

    /// Returns true if a copy was asked about something and has not answered.
    pub(crate) fn is_open(&self, of: CopyId, subject: Subject) -> bool {
        self.asked(of, subject).is_some()
    }

    /// Takes the question that a copy has answered; `None` if it was not asked, or has answered before.
    pub(crate) fn answered(&mut self, from: CopyId, subject: Subject) -> Option<Open> {
        self.open.remove(&(from, subject))
    }

    /// Sends again what was asked and is not answered, as far as it is `meant`.
    pub(crate) fn repeat(&mut self, core: &Core, ctx: &mut Ctx<'_>, meant: impl Fn(CopyId, &Subject) -> bool) {
        self.resend(core, ctx, |to, subject, _| meant(to, subject));
    }

    fn resend(&mut self, core: &Core, ctx: &mut Ctx<'_>, meant: impl Fn(CopyId, &Subject, &Open) -> bool) {
        let now = ctx.now.mono;
        for ((to, subject), open) in &mut self.open {
            if meant(*to, subject, open) {
                open.sent = now;
                core.tell(ctx, *to, &open.letter);
            }
        }
    }

    /// Repeats what was not answered for too long.
    pub(crate) fn turn(&mut self, core: &Core, ctx: &mut Ctx<'_>) {
        let now = ctx.now.mono;
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        let due = |subject: &Subject, open: &Open| subject.patience().is_some_and(|patience| open.sent.plus(patience) <= now);
        self.resend(core, ctx, |_, subject, open| due(subject, open));
        let times = self.open.iter().filter_map(|((_, subject), open)| Some(open.sent.plus(subject.patience()?)));
        self.next = times.min();
    }

    /// Returns when [`Questions::turn`] must be called at the latest.
    pub(crate) fn deadline(&self) -> Mono {
        self.next.unwrap_or(Mono::NEVER)
    }

    /// Drops questions whose answers nobody wants any more.
    pub(crate) fn withdraw(&mut self, unwanted: impl Fn(CopyId, &Subject) -> bool) {
        self.open.retain(|(to, subject), _| !unwanted(*to, subject));
    }

    /// Returns all open questions: to whom, and about what.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (CopyId, &Subject, &Open)> {
        self.open.iter().map(|((to, subject), open)| (*to, subject, open))
    }
}
