//! A log that several voters agree on: Raft, as a machine without IO.
//!
//! A [`Node`] takes messages, the time and what became durable. It gives what is to be written, sent and applied
//! ([`Ready`]). It owns no disk, no socket, no clock; chance comes from a seed. One voter alone is the smallest case:
//! it leads from the start, waits for no timer, and commits what is durable on its own disk.
//!
//! | file | what it has |
//! |---|---|
//! | `types` | entries, terms, members, what is saved |
//! | `message` | what voters say to each other, as bytes |
//! | `log` | the entries in memory |
//! | `memory` | what members remember of each other |
//! | `reign` | what only a leader has |
//! | `machine` | what the machine knows, what it gives to its owner |
//! | `turn` | the owner's side: its beginning, time, messages, what is to be done |
//! | `disk` | one write at a time, snapshots |
//! | `election` | terms, votes, the beginning and the end of a reign |
//! | `follower` | what a leader says |
//! | `marks` | what they do with that memory: stores that were set back, states that differ |
//! | `leader` | copies to peers, commits, reads, members |
//! | `catchup` | the leader's state for peers that lack too much |
//!
//! Files further down use those further up. `election`, `follower`, `marks`, `leader` and `catchup` act on the one
//! machine.
//!
//! # Rules
//!
//! 1. *A term has one leader.* A voter votes once in a term. No message leaves before the term and the vote that it was
//!    made under are durable; a candidate's own vote counts only then.
//! 2. *An entry counts where it is durable.* A follower acknowledges entries, and a leader counts itself, when they are
//!    on disk.
//! 3. *A leader commits by counting only entries of its own term*; older ones are committed with them. So a reign
//!    begins with a blank entry, and is announced when that one is applied.
//! 4. *What contradicts the leader is cut*, on disk too, unless it was committed: that is corruption, and the node
//!    stops.
//! 5. *Members change one at a time*, as an entry that counts from the moment it is appended. A learner gets everything
//!    and decides nothing.
//! 6. *Nobody disturbs a reign that works*: before a term is raised, a majority must say that it hears no leader
//!    either. A leader that hears no majority for an election's time ends its reign.
//! 7. *A read waits for a round of beats* that a majority answers, not for a clock.
//! 8. *A store that was set back takes no part*: who starts asks what others remember of it before it votes or
//!    acknowledges.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![forbid(unsafe_code)]

mod catchup;
mod disk;
mod election;
mod follower;
mod leader;
mod log;
mod machine;
mod marks;
mod memory;
mod message;
mod reign;
#[cfg(test)]
mod tests;
mod turn;
mod types;

pub use leader::{NotChanged, NotLeader};
#[cfg(feature = "sim")]
pub use machine::Mistake;
pub use machine::{Install, News, Node, Ready, Write};
pub use message::{Body, Message, Piece, Refused, Tail, Verdict};
pub use types::{Base, Config, Entry, Hard, Index, Kind, Mark, Marks, Membership, Position, ReadId, Saved, Term, VoterId};
