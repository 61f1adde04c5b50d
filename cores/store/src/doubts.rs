//! What a checkpoint could not read, and when it tries again.

use node::Mono;

/// Why the store takes no writes.
#[derive(Debug)]
struct Impaired {
    /// The reason, as a sentence for people.
    why: String,
    /// Time when the checkpoint tries once more.
    again: Mono,
}

/// What a checkpoint could not read.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// A page of the index seems damaged.
    impaired: Option<Impaired>,
    /// Data in the journal seemed damaged: it is read again after this time.
    rests_until: Option<Mono>,
    /// A page of the index seems damaged, and a transaction that was taken on needs it.
    stuck: Option<Impaired>,
}

impl Doubts {
    /// The reason why the store takes no writes, if it takes none.
    pub(crate) fn impairment(&self) -> Option<&str> {
        self.impaired.as_ref().or(self.stuck.as_ref()).map(|i| &*i.why)
    }

    /// A page is damaged. True if that was not known.
    pub(crate) fn impair(&mut self, why: &str, again: Mono) -> bool {
        let new = self.impairment() != Some(why);
        self.impaired = Some(Impaired { why: why.to_owned(), again });
        new
    }

    /// A transaction needs a page that is damaged. True if that was not known.
    pub(crate) fn stick(&mut self, why: &str, again: Mono) -> bool {
        let new = self.stuck.as_ref().is_none_or(|stuck| stuck.why != why);
        self.stuck = Some(Impaired { why: why.to_owned(), again });
        new
    }

    /// No transaction needs a damaged page any more. True if one did.
    pub(crate) fn unstick(&mut self) -> bool {
        self.stuck.take().is_some()
    }

    /// They are being tried again: until the next verdict there is nothing to wait for.
    pub(crate) fn look_again(&mut self) {
        if let Some(stuck) = &mut self.stuck {
            stuck.again = Mono::NEVER;
        }
    }

    /// Returns when transactions that need a damaged page are tried again, if there are any.
    pub(crate) fn unsticks_at(&self) -> Option<Mono> {
        self.stuck.as_ref().map(|stuck| stuck.again)
    }

    /// A checkpoint ended well. True if a page had seemed damaged.
    pub(crate) fn cure(&mut self) -> bool {
        self.impaired.take().is_some()
    }

    /// Data in the journal is to be read again at this time.
    pub(crate) fn rest(&mut self, until: Mono) {
        self.rests_until = Some(until);
    }

    /// The checkpoint goes on.
    pub(crate) fn rested(&mut self) {
        self.rests_until = None;
    }

    /// Returns true if something could not be read. Records stay in the journal then.
    pub(crate) fn hamper(&self) -> bool {
        self.impaired.is_some() || self.stuck.is_some() || self.rests_until.is_some()
    }

    /// Returns when the checkpoint tries again, if it waits for that.
    pub(crate) fn rest_ends(&self, now: Mono) -> Option<Mono> {
        self.impaired.as_ref().map(|i| i.again).max(self.rests_until).filter(|at| *at > now)
    }
}
