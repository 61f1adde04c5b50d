//! Clients that send what is not understood, are refused, and come back at once.
//!
//! A stock client does not learn from a closed connection why it was closed: it opens another and sends the same again,
//! hundreds of times a second. The first refusal of a client closes its connection at once. Each further one lets the
//! connection stand unread for twice as long before it is closed, so that a client costs a bounded number of handshakes
//! and log lines.

use super::conn::Conn;
use node::{ConnId, Mono};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityAddr, EntityName};

/// Time for which a connection stands at the second refusal, and at most.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(20);
/// After this time without a refusal a client is like any other again. Longer than a connection stands.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Clients that are remembered, and connections that stand, at most: what is above goes the usual way.
const MOST: usize = 1_024;

/// A client process: its name, and the address with the nonce that it keeps over all of its connections.
type Client = (EntityName, EntityAddr);

struct Refusals {
    count: u32,
    last: Mono,
}

/// Entities that were refused, and connections that stand unread because of that.
#[derive(Default)]
pub(super) struct Penalties {
    refused: BTreeMap<Client, Refusals>,
    standing: BTreeMap<(Mono, ConnId), Box<Conn>>,
}

impl Penalties {
    /// Notes that a client is refused; gives how long its connection must stand before it is closed.
    pub(super) fn refused(&mut self, now: Mono, client: Client) -> Duration {
        self.refused.retain(|_, r| now.since(r.last) < FORGOTTEN);
        if self.refused.len() >= MOST && !self.refused.contains_key(&client) {
            return Duration::ZERO;
        }
        let refusals = self.refused.entry(client).or_insert(Refusals { count: 0, last: now });
        let earlier = refusals.count;
        refusals.count += 1;
        let delay = if earlier == 0 { Duration::ZERO } else { FIRST.saturating_mul(1 << (earlier - 1).min(16)).min(LONGEST) };
        refusals.last = now.plus(delay);
        delay
    }

    /// Lets a connection stand until a time. Gives it back if too many do already.
    pub(super) fn stand(&mut self, until: Mono, conn: Box<Conn>) -> Option<Box<Conn>> {
        if self.standing.len() >= MOST {
            return Some(conn);
        }
        self.standing.insert((until, conn.id), conn);
        None
    }

    /// Connections whose time is over.
    pub(super) fn due(&mut self, now: Mono) -> impl Iterator<Item = Box<Conn>> {
        let rest = self.standing.split_off(&(Mono(now.0.saturating_add(1)), ConnId(0)));
        std::mem::replace(&mut self.standing, rest).into_values()
    }

    /// Returns when the next connection's time is over.
    pub(super) fn deadline(&self) -> Mono {
        self.standing.first_key_value().map_or(Mono::NEVER, |((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::EntityType;

    fn client(n: usize) -> Client {
        (EntityName::new(EntityType::Client, n.to_string()), EntityAddr::default())
    }

    fn at(millis: u64) -> Mono {
        Mono(millis * 1_000_000)
    }

    #[test]
    fn a_client_that_returns_waits_twice_as_long_each_time_up_to_a_limit() {
        let mut penalties = Penalties::default();
        let waits: Vec<u128> = (0..12).map(|_| penalties.refused(at(0), client(1)).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 20_000, 20_000, 20_000]);
        assert_eq!(penalties.refused(at(0), client(2)), Duration::ZERO, "others do not wait for it");
    }

    #[test]
    fn a_client_is_forgotten_a_minute_after_its_last_connection_was_closed() {
        let mut penalties = Penalties::default();
        let first: Vec<_> = (0..2).map(|_| penalties.refused(at(0), client(1))).collect();
        assert_eq!(first, [Duration::ZERO, FIRST]);
        assert_eq!(penalties.refused(at(60_050), client(1)).as_millis(), 200);
        assert_eq!(penalties.refused(at(60_250 + 60_000), client(1)), Duration::ZERO);
    }

    #[test]
    fn a_crowd_takes_no_more_memory_than_the_limit() {
        let mut penalties = Penalties::default();
        for n in 0..2 * MOST {
            penalties.refused(at(0), client(n));
        }
        assert_eq!(penalties.refused.len(), MOST);
        assert_eq!(penalties.refused(at(0), client(0)), FIRST, "those that are known wait all the same");
    }
}
