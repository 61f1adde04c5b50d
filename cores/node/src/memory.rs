//! How a machine and its driver agree on memory.

/// Memory that a machine may take: all that its process has for it, caches and what is under way included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShare {
    /// Bytes.
    pub bytes: u64,
    /// Reason why it is not more.
    pub bound: MemoryBound,
}

/// Bound of a machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBound {
    /// It wants no more.
    Wish,
    /// The host has no more for it.
    Host,
    /// The control group that the process is in has no more for it.
    Group,
}

impl MemoryBound {
    /// In one word, as the source of an option's value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wish => "default",
            Self::Host => "host",
            Self::Group => "cgroup",
        }
    }
}

/// Memory that a machine would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryWish {
    /// Bytes at most.
    pub most: u64,
    /// It takes that much, whatever there is.
    pub fixed: bool,
}

impl MemoryWish {
    /// Least memory of an OSD, in bytes, whatever is asked for: what it takes with caches of nearly nothing and one
    /// large request.
    pub const LEAST: u64 = 64 << 20;
    /// Most memory of an OSD that nobody told anything, in bytes: the default of `osd_memory_target` in Ceph.
    pub const MOST: u64 = 4 << 30;
}
