//! Usage figures of a group, kept as deltas in the transactions that change them.
//!
//! They have two layouts. The second one has [`Stats::large_omaps`] at its end. It is used for figures in which that is not zero; and it
//! stays zero below the level of [`types::Feature::LargeOmaps`], so a program that knows only the first layout never sees the second one.
//! The layout is not told by the figures: it is the first number of the record that they are in.

use crate::codec::{Parser, Writer};
use denc::{DecodeError, Result};

/// The layout without large omaps.
const FIRST: u64 = 1;
/// The one with them.
const WITH_LARGE_OMAPS: u64 = 2;

/// Declares the figures with everything that goes over all of them.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident),* ; $(#[$late_doc:meta])* $late:ident) => {
        /// Figures of a group, or changes of them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Stats {
            $($(#[$doc])* pub(crate) $name: i64,)*
            $(#[$late_doc])* pub(crate) $late: i64,
        }

        impl Stats {
            /// Adds `delta`. A sum below zero would be a mistake of ours; it shows in the next scrub, not in a wrap.
            pub(crate) fn add(&mut self, delta: &Stats) {
                $(self.$name += delta.$name;)*
                self.$late += delta.$late;
            }

            /// Takes `delta` away again.
            pub(crate) fn subtract(&mut self, delta: &Stats) {
                $(self.$name -= delta.$name;)*
                self.$late -= delta.$late;
            }

            /// The layout that they need: the first number of a record that has them.
            pub(crate) fn layout(&self) -> u64 {
                if self.$late == 0 { FIRST } else { WITH_LARGE_OMAPS }
            }

            /// Writes them in [`Stats::layout`].
            pub(crate) fn encode(&self, w: &mut Writer) {
                $(w.int(self.$name);)*
                if self.layout() == WITH_LARGE_OMAPS {
                    w.int(self.$late);
                }
            }

            /// Reads them in a layout that [`get_layout`] read.
            pub(crate) fn decode(r: &mut Parser<'_>, layout: u64) -> Result<Self> {
                Ok(Self {
                    $($name: r.int()?,)*
                    $late: if layout == WITH_LARGE_OMAPS { r.int()? } else { 0 },
                })
            }

            /// Each figure divided by `n`, rounded down.
            pub(crate) fn divided(&self, n: i64) -> Self {
                Self { $($name: self.$name / n,)* $late: self.$late / n }
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
    deep_errors;
    /// Objects whose omap is larger than the options allow, as the last deep scrub counted them.
    large_omaps
}

/// The layout of figures that a record has, from its start.
///
/// # Errors
/// A layout of a newer program.
pub(crate) fn get_layout(r: &mut Parser<'_>) -> Result<u64> {
    known_layout(r.num()?)
}

/// Refuses the number of a layout that is not known.
pub(crate) fn known_layout(layout: u64) -> Result<u64> {
    match layout {
        known @ (FIRST | WITH_LARGE_OMAPS) => Ok(known),
        _ => Err(DecodeError::Invalid("layout of a record with figures")),
    }
}

/// KiB of an operation's length, rounded up.
pub(crate) fn kb(bytes: u64) -> i64 {
    bytes.div_ceil(1024) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(stats: &Stats) -> Vec<u8> {
        let mut w = Writer::default();
        w.num(stats.layout());
        stats.encode(&mut w);
        w.0
    }

    #[test]
    fn figures_come_back_in_the_layout_that_they_need() {
        let plain = Stats { bytes: 3, deep_errors: -1, ..Stats::default() };
        assert_eq!(record(&plain), [1, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let large = Stats { large_omaps: 2, ..plain };
        assert_eq!(record(&large), [2, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4]);
        let fewer = Stats { large_omaps: -2, ..plain };
        for stats in [plain, large, fewer] {
            let bytes = record(&stats);
            let mut r = Parser::new(&bytes);
            let layout = get_layout(&mut r).expect("a known layout");
            assert_eq!(Stats::decode(&mut r, layout), Ok(stats));
            assert!(r.0.is_empty());
        }
        assert!(get_layout(&mut Parser::new(&[3])).is_err());
    }

    #[test]
    fn large_omaps_are_added_and_divided_as_the_others_are() {
        let mut stats = Stats { large_omaps: 5, ..Stats::default() };
        stats.add(&Stats { large_omaps: 2, ..Stats::default() });
        stats.subtract(&Stats { large_omaps: 1, ..Stats::default() });
        assert_eq!((stats.large_omaps, stats.divided(4).large_omaps), (6, 1));
    }
}
