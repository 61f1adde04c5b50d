//! What a class is: its methods, and its filters of listings.

use crate::{Call, Outcome};

/// The method reads.
pub const RD: u8 = 1;
/// The method writes.
pub const WR: u8 = 2;

/// The object is fetched from a slower pool before the method runs. There is none here, so it means nothing.
pub const PROMOTE: u8 = 8;

/// Bytes of a value to which callers add without end, and which is written anew each time.
pub const MOST_REWRITTEN: usize = 1 << 20;

/// A method of a class.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// [`RD`], [`WR`], [`PROMOTE`] in any union.
    pub flags: u8,
    /// Function that carries it out.
    pub run: fn(&mut Call<'_>) -> Outcome,
}

impl Method {
    /// Returns true if it reads.
    pub fn reads(&self) -> bool {
        self.flags & RD != 0
    }

    /// Returns true if it writes.
    pub fn writes(&self) -> bool {
        self.flags & WR != 0
    }
}

/// A class's filter of object listings: it is asked of each object that has the attribute that the client named.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Its name; clients write it behind the class's and a point.
    pub name: &'static str,
    /// True if an object belongs into the listing, from its attribute's value and what the client gave.
    pub matches: fn(value: &[u8], given: &[u8]) -> bool,
}

/// A class: a name and its methods, one module each.
pub struct Class {
    /// Its name.
    pub name: &'static str,
    /// Its methods, one table for each of its modules.
    pub methods: &'static [&'static [Method]],
    /// Its filters of listings.
    pub filters: &'static [Filter],
}
