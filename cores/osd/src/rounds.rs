//! How much of what clients sent is executed in one round.
//!
//! Replies leave at the end of a round. A client with many requests in flight sends them together, so one round can have all
//! of them. If it answers all, OSD and client take turns: one sleeps while the other works. So a round ends after a few
//! messages that made something to send. The client works on these replies while the OSD goes on with the rest.
//!
//! Each round costs a send. The client works longer on a reply than the OSD does. So each round that leaves messages over
//! allows the next one twice as many answers, and the client still has work. If nothing is left, the next round is small
//! again. What is left stays in the messenger, in order, and counts against its limits.
//!
//! A request may have the OSD look at much for little (a checksum). So a round also ends after [`COST`] bytes, however few messages
//! that were: beats and what others want come in between.
//!
//! `docs/performance/reads.md` has the measurements.

/// Messages that make something to send, in the first round. It takes an OSD some 60 µs to answer so many small reads.
const FIRST: usize = 6;
/// Most of them in any round.
const MOST: usize = 64;
/// Bytes that operations of one round may look at. Their checksums take some 60 ms.
const COST: u64 = 256 << 20;

/// Bounds of this round, and what it did.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// Messages that may make something to send in this round.
    limit: usize,
    /// Those that did.
    done: usize,
    /// Bytes that operations looked at.
    cost: u64,
    /// True if messages were left to the next round.
    rest: bool,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { limit: FIRST, done: 0, cost: 0, rest: false }
    }
}

impl Rounds {
    /// Returns true if the next message may be taken. `any`: there is one.
    pub(crate) fn goes_on(&mut self, any: bool) -> bool {
        let full = self.done >= self.limit || self.cost >= COST;
        self.rest |= full && any;
        !full && any
    }

    /// A message made something to send.
    pub(crate) fn note(&mut self) {
        self.done += 1;
    }

    /// Operations looked at so many bytes.
    pub(crate) fn cost(&mut self, bytes: u64) {
        self.cost += bytes;
    }

    /// The round ends.
    pub(crate) fn end(&mut self) {
        let limit = if self.rest { (2 * self.limit).min(MOST) } else { FIRST };
        *self = Self { limit, done: 0, cost: 0, rest: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the rounds that answer so many messages, all of which are there.
    fn sizes(rounds: &mut Rounds, mut messages: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        while messages > 0 {
            let before = messages;
            while rounds.goes_on(messages > 0) {
                rounds.note();
                messages -= 1;
            }
            rounds.end();
            sizes.push(before - messages);
        }
        sizes
    }

    #[test]
    fn rounds_grow_while_something_is_left() {
        let mut rounds = Rounds::default();
        assert_eq!(sizes(&mut rounds, 5), [5]);
        assert_eq!(sizes(&mut rounds, FIRST), [FIRST]);
        assert_eq!(sizes(&mut rounds, 16), [6, 10]);
        assert_eq!(sizes(&mut rounds, 16), [6, 10], "and begin small again");
        assert_eq!(sizes(&mut rounds, 300), [6, 12, 24, 48, 64, 64, 64, 18]);
    }

    #[test]
    fn costly_messages_end_a_round_before_it_is_full() {
        let mut rounds = Rounds::default();
        for _ in 0..2 {
            let mut taken = 0;
            while rounds.goes_on(true) {
                rounds.cost(COST / 2);
                rounds.note();
                taken += 1;
            }
            rounds.end();
            assert_eq!(taken, 2);
        }
    }

    #[test]
    fn what_makes_nothing_to_send_is_not_limited() {
        let mut rounds = Rounds::default();
        assert!((0..1000).all(|_| rounds.goes_on(true)));
        assert!(!rounds.goes_on(false));
    }
}
