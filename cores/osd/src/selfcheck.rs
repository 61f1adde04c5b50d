//! What always holds of an OSD between two calls. The simulator asks after every turn; nobody else pays for it.

use crate::Osd;

impl Osd {
    /// Looks at the table of groups, at each group, and at the store. `thorough` is the store's.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub fn self_check(&self, thorough: bool) -> Result<(), String> {
        self.groups.self_check()?;
        self.copies.self_check()?;
        self.check_slots()?;
        self.groups.iter().try_for_each(|(_, pg)| pg.self_check())?;
        self.store.self_check(thorough).map_err(|why| format!("store: {why}"))
    }

    /// Who has slots for recovery knows it, once the groups that were called have been asked.
    fn check_slots(&self) -> Result<(), String> {
        match self.groups.has_called() {
            true => Ok(()),
            false => self.slots.self_check(&self.groups, self.options.max_backfills),
        }
    }

    /// A mistake to be found: what another OSD did not answer before its session broke is never asked again.
    pub fn forget_resends(&mut self) {
        self.copies.objecter.forget_resends();
    }

    /// Every third message of another OSD is heard twice from now on, as if it had been sent twice.
    pub fn hear_twice(&mut self) {
        self.echo = Some(0);
    }

    /// A message of another OSD that is to be heard once more.
    pub(crate) fn echo(&mut self, session: types::SessionId, message: &types::Message) -> Option<types::Message> {
        let count = self.echo.as_mut().filter(|_| self.peers.has(session))?;
        *count += 1;
        count.is_multiple_of(3).then(|| message.clone())
    }

    /// A mistake to be found: own lateness is not taken off what others were silent.
    pub fn accuse_carelessly(&mut self) {
        self.beats.be_careless();
    }

    /// A mistake to be found: a session for heartbeats that broke is never opened again.
    pub fn give_up_beats(&mut self) {
        self.peers.give_up_beats();
    }

    /// A mistake to be found: all groups make it.
    pub fn copies_err(&mut self, mistake: pg::Mistake) {
        self.groups.iter_mut().for_each(|pg| pg.err(mistake));
    }

    /// A mistake to be found: some group forgets which job holds an object.
    pub fn forget_holder(&mut self) {
        let _ = self.groups.iter_mut().any(pg::Pg::forget_holder);
    }
}
