//! What always holds of an objecter between two calls, and mistakes to be found. For the simulator.

use crate::Objecter;
use crate::state::Sessions;

impl Objecter {
    /// Looks at the operations under way.
    ///
    /// # Errors
    /// A sentence that says what does not hold.
    pub fn self_check(&self) -> Result<(), String> {
        let mut sent = 0;
        for (tid, op) in &self.ops {
            if op.osd.is_some() == self.waits(*tid) {
                return Err(format!("operation {tid} is sent to {:?}, and waits: {}", op.osd, self.waits(*tid)));
            }
            let Some(osd) = op.osd else { continue };
            sent += 1;
            if let Sessions::Given(given) = &self.sessions
                && !given.reaches(osd)
            {
                return Err(format!("operation {tid} is under way to osd.{osd}, but there is no session with it"));
            }
        }
        if sent == self.sent() { Ok(()) } else { Err(format!("{sent} operations are under way, {} are counted", self.sent())) }
    }
}
