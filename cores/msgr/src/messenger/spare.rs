//! Room for small messages when large ones have taken what clients have together.
//!
//! What clients send counts from its announcement on, and who announces much and then says nothing, or little at a time, keeps that room.
//! Messages of others would wait for as long as he likes. So each entity has a little room beside it:
//!
//! | who | may have, beyond the common limit |
//! |---|---|
//! | one entity | an eighth of the limit |
//! | all clients together | a quarter |

use std::collections::BTreeMap;
use types::{EntityName, SessionId};

/// An entity has one part in so many of the common limit.
const OF_ENTITY: usize = 8;
/// All have one part in so many.
const OF_ALL: usize = 4;

/// Bytes that were let in beside the common limit, and not given back.
#[derive(Default)]
pub(super) struct Spare {
    all: usize,
    by_name: BTreeMap<EntityName, usize>,
    by_session: BTreeMap<SessionId, (EntityName, usize)>,
}

impl Spare {
    /// Takes room for a message; false if there is none.
    pub(super) fn take(&mut self, limit: usize, session: SessionId, name: &EntityName, bytes: usize) -> bool {
        let own = self.by_name.get(name).copied().unwrap_or(0);
        if own + bytes > limit / OF_ENTITY || self.all + bytes > limit / OF_ALL {
            return false;
        }
        self.all += bytes;
        *self.by_name.entry(name.clone()).or_default() += bytes;
        self.by_session.entry(session).or_insert_with(|| (name.clone(), 0)).1 += bytes;
        true
    }

    /// Gives bytes of a session back; returns how many of them were not let in here.
    pub(super) fn give_back(&mut self, session: SessionId, bytes: usize) -> usize {
        let Some((name, held)) = self.by_session.get_mut(&session) else { return bytes };
        let (name, back) = (name.clone(), bytes.min(*held));
        *held -= back;
        if *held == 0 {
            self.by_session.remove(&session);
        }
        self.all -= back;
        let left = self.by_name.get_mut(&name).map_or(0, |own| {
            *own -= back;
            *own
        });
        if left == 0 {
            self.by_name.remove(&name);
        }
        bytes - back
    }

    /// All bytes that are not given back.
    pub(super) fn held(&self) -> usize {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::EntityType;

    #[test]
    fn each_entity_has_a_little_and_gives_it_back() {
        let name = |id: &str| EntityName::new(EntityType::Client, id);
        let mut spare = Spare::default();
        assert!(spare.take(800, SessionId(1), &name("a"), 60) && spare.take(800, SessionId(2), &name("a"), 40));
        assert!(!spare.take(800, SessionId(1), &name("a"), 1), "its share");
        assert!(spare.take(800, SessionId(3), &name("b"), 100));
        assert!(!spare.take(800, SessionId(4), &name("e"), 1), "that of all");
        assert_eq!((spare.give_back(SessionId(1), 100), spare.held()), (40, 140));
        assert_eq!(spare.give_back(SessionId(9), 5), 5);
        assert!(spare.take(800, SessionId(4), &name("e"), 60));
        for (session, bytes) in [(2, 40), (3, 100), (4, 60)] {
            spare.give_back(SessionId(session), bytes);
        }
        assert!(spare.held() == 0 && spare.by_session.is_empty() && spare.by_name.is_empty());
    }
}
