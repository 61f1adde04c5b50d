//! What always holds of an OSD between two calls. The simulator asks after every turn; nobody else pays for it.

use crate::Osd;

impl Osd {
    /// Looks at the table of groups, at each group, and at the store. `thorough` is the store's.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub fn self_check(&self, thorough: bool) -> Result<(), String> {
        self.groups.self_check()?;
        self.groups.iter().try_for_each(|(_, pg)| pg.self_check())?;
        self.store.self_check(thorough).map_err(|why| format!("store: {why}"))
    }

    /// A mistake to be found: some group forgets which job holds an object.
    pub fn forget_holder(&mut self) {
        let _ = self.groups.iter_mut().any(pg::Pg::forget_holder);
    }
}
