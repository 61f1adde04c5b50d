//! In how large pieces things go.

/// In how large pieces things go that do not fit into one. Ours. Whoever has other sizes understands these, so they are no format.
///
/// The simulator makes them tiny: its objects are small, and each way in which a large object goes must be gone there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Most bytes of data, or of omap, in one portion of a copy from another object.
    pub portion: u32,
    /// Most bytes of data in one piece of an object that goes to a copy.
    pub piece: u64,
    /// Most bytes of omap in one piece of it.
    pub piece_omap: usize,
    /// Bytes that may wait in the stream to a copy before further objects go to it.
    pub window: usize,
    /// Objects that are compared at a time with those of a copy that is filled.
    pub batch: usize,
    /// Objects that a copy lists at a time for that.
    pub scan: usize,
    /// Bytes under way to a copy that does not serve, from which on clients wait for it. More than `window`, so what fills a copy does not
    /// reach this by itself.
    pub ahead: usize,
    /// The same in bodies.
    pub ahead_bodies: usize,
    /// Bytes of letters in one message to another OSD. A letter that is longer goes in parts of that size.
    pub message: usize,
    /// Objects in one question for what is unfound.
    pub question: usize,
    /// Changes that a copy which does not lead lists until it knows that all copies have them.
    pub listed: usize,
    /// Heads and clones that a scrub compares at a time.
    pub chunk: usize,
    /// Most objects in one answer to a scrub.
    pub answer_objects: usize,
    /// Bytes of records and attributes after which an answer to a scrub ends early.
    pub answer: usize,
    /// Bytes of data, or of omap, that a scrub reads at a time.
    pub stride: u64,
}

impl Sizes {
    /// Those of the simulator: objects of some thousand bytes and of some omap keys have several pieces.
    pub const TINY: Self = Self {
        portion: 4_000,
        piece: 6_000,
        piece_omap: 48,
        window: 24_000,
        batch: 4,
        scan: 6,
        ahead: 200_000,
        ahead_bodies: 24,
        message: 16_000,
        question: 3,
        listed: 12,
        chunk: 6,
        answer_objects: 5,
        answer: 1_000,
        stride: 5_000,
    };
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            portion: 8 << 20,
            piece: 4 << 20,
            piece_omap: 1 << 20,
            window: 16 << 20,
            batch: 64,
            scan: 512,
            ahead: 32 << 20,
            ahead_bodies: 4096,
            // The messenger takes fronts of 16 MiB.
            message: 12 << 20,
            question: 256,
            listed: 256,
            chunk: 64,
            answer_objects: 256,
            answer: 1 << 20,
            stride: 1 << 20,
        }
    }
}
