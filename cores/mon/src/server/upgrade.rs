//! What the first leader of this release does to a cluster of an older one.

use super::Monitor;
use bytes::Bytes;
use maps::{Incremental, flags};
use messages::mon::log_level;
use monstate::state::genesis::ONE_COPY_MOVES;
use monstate::state::{Change, State};
use node::{Now, Outputs};

impl Monitor {
    /// Before, groups of one copy stayed where they were, whatever the map said. Now their primaries would move them
    /// home, all at once and unasked: in a cluster that has such groups, that waits for a person.
    pub(super) fn let_one_copy_move(&mut self, now: Now, out: &mut Outputs) {
        let state = self.newest().clone();
        if state.keys.contains_key(ONE_COPY_MOVES) {
            return;
        }
        let mark = Change::Key { key: ONE_COPY_MOVES.into(), value: Some(Bytes::from_static(b"1")) };
        let stays = staying(&state);
        let mut inc = None;
        if stays > 0 {
            let mut step = Incremental::new(state.osdmap.epoch + 1, state.fsid, now.wall);
            step.new_flags = (state.osdmap.flags | flags::NOREBALANCE).cast_signed();
            inc = Some(step);
            let text =
                format!("{stays} groups of one copy are not where the map places them; 'ceph osd unset norebalance' moves them");
            self.line(now, log_level::WARN, text);
        }
        self.propose(now, vec![mark], inc, Vec::new(), out);
    }
}

/// Returns how many groups of one copy an entry of the map keeps away from where they belong.
fn staying(state: &State) -> usize {
    state.osdmap.pg_temp.keys().filter(|pg| state.osdmap.pool(pg.pool).is_some_and(|p| p.size == 1)).count()
}
