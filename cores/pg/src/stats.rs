//! Usage figures of a group, kept as deltas in the transactions that change them.

use crate::codec::{Parser, Writer};
use denc::Result;

/// Declares the figures with everything that goes over all of them.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Figures of a group, or changes of them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Stats {
            $($(#[$doc])* pub(crate) $name: i64,)*
        }

        impl Stats {
            /// Adds `delta`. A sum below zero would be a mistake of ours; it shows in the next scrub, not in a wrap.
            pub(crate) fn add(&mut self, delta: &Stats) {
                $(self.$name += delta.$name;)*
            }

            /// Takes `delta` away again.
            pub(crate) fn subtract(&mut self, delta: &Stats) {
                $(self.$name -= delta.$name;)*
            }

            pub(crate) fn encode(&self, w: &mut Writer) {
                $(w.int(self.$name);)*
            }

            pub(crate) fn decode(r: &mut Parser<'_>) -> Result<Self> {
                Ok(Self { $($name: r.int()?),* })
            }

            /// Each figure divided by `n`, rounded down.
            pub(crate) fn divided(&self, n: i64) -> Self {
                Self { $($name: self.$name / n),* }
            }
        }
    };
}

figures! {
    /// Bytes of all objects; what clones share with their neighbours counts once.
    bytes,
    /// Heads and clones.
    objects,
    /// Clones only.
    clones,
    /// Heads that are deleted and kept for their clones.
    whiteouts,
    /// Objects with an omap.
    omap_objects,
    /// Bytes of omap keys and values, as the last deep scrub counted them.
    omap_bytes,
    /// Omap keys, as the last deep scrub counted them.
    omap_keys,
    /// Read operations.
    rd,
    /// KiB read.
    rd_kb,
    /// Write operations.
    wr,
    /// KiB written.
    wr_kb,
    /// Unreadable metadata that the last scrub found.
    shallow_errors,
    /// Unreadable data that the last deep scrub found.
    deep_errors,
}

/// KiB of an operation's length, rounded up.
pub(crate) fn kb(bytes: u64) -> i64 {
    bytes.div_ceil(1024) as i64
}
