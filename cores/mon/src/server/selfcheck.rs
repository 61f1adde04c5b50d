//! What always holds of a monitor between two calls. The simulator asks after every turn; nobody else pays for it.

use super::{Monitor, Phase};
use std::sync::Arc;

/// Refuses with a sentence unless `$holds`.
macro_rules! holds {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}

impl Monitor {
    /// A mistake to be found: requests that were done are done again when they come again.
    pub fn forget_answers(&mut self) {
        self.forgetful = true;
    }

    /// Not more than so many changes of maps are kept from now on (and up to a step more), whoever needs them: as if there had been more
    /// than the monitors keep.
    pub fn keep_maps(&mut self, most: u32) {
        self.few_maps = Some(most);
    }

    /// A mistake to be found: the log makes it. To be called before every turn.
    pub fn log_errs(&mut self, mistake: quorum::Mistake) {
        self.replica.log.err(Some(mistake));
    }

    /// The term in which it leads; 0 if it does not.
    pub fn reign(&self) -> u64 {
        if self.leader.reigns() { self.replica.log.term() } else { 0 }
    }

    /// The epoch of the newest durable OSD map, the newest term of the log, and how far it is committed.
    pub fn progress(&self) -> (types::Epoch, u64, u64) {
        (self.replica.applied.osdmap.epoch, self.replica.log.term(), self.replica.log.committed())
    }

    /// A mistake to be found: the level is raised while older programs run.
    pub fn raise_hastily(&mut self) {
        self.leader.soft.level.hasty = true;
    }

    /// Looks at what the monitor knows of its state twice.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub fn self_check(&self) -> Result<(), String> {
        if !matches!(self.phase, Phase::Serving | Phase::Stopping) {
            return Ok(());
        }
        self.check_states()?;
        holds!(self.mon.unsendable() == 0, "{} messages were too long for other daemons", self.mon.unsendable());
        let indexes: Vec<_> = self.leader.waiting.iter().map(|(index, _)| *index).collect();
        let behind = indexes.first().is_none_or(|first| *first > self.replica.applied.index);
        holds!(behind && indexes.is_sorted(), "entries {indexes:?} are waited for, {} is applied", self.replica.applied.index);
        let last = self.leader.ahead.back().map_or(self.replica.applied.index, |(index, _)| *index);
        holds!(indexes.last().is_none_or(|index| *index <= last), "entries {indexes:?} are waited for, {last} was proposed last");
        let (told, epoch) = (self.published.osdmap(), u64::from(self.replica.applied.osdmap.epoch));
        holds!(told <= epoch, "subscribers were told of map {told}, {epoch} is durable");
        Ok(())
    }

    /// States that are not durable follow the one that is; each has the history of its own map. Entries between that name the log's members
    /// change no state.
    fn check_states(&self) -> Result<(), String> {
        let (mut index, mut epoch) = (self.replica.applied.index, self.replica.applied.osdmap.epoch);
        let states = self.leader.ahead.iter().map(|(index, state)| (*index, state));
        for (at, state) in std::iter::once((index, &self.replica.applied)).chain(states) {
            holds!(state.index == at, "the state of entry {} is filed under {at}", state.index);
            holds!(at > index || Arc::ptr_eq(state, &self.replica.applied), "entry {at} follows {index}");
            holds!((epoch..=epoch + 1).contains(&state.osdmap.epoch), "map {} follows {epoch}", state.osdmap.epoch);
            let newest = state.history.last();
            holds!(newest == state.osdmap.epoch, "the history ends with map {newest}, the state has {}", state.osdmap.epoch);
            holds!(state.history.is_whole(), "maps are missing between {} and {newest}", state.history.first());
            (index, epoch) = (at, state.osdmap.epoch);
        }
        Ok(())
    }
}
