//! Which classes and methods there are.

use crate::{Call, Outcome, hello, journal, lock, log, numops, rbd, refcount, timeindex, user, version};
use types::Errno;

/// The method reads.
pub const RD: u8 = 1;
/// The method writes.
pub const WR: u8 = 2;

/// The object is fetched from a slower pool before the method runs. There is none here, so it means nothing.
pub const PROMOTE: u8 = 8;

/// A method of a class.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// [`RD`], [`WR`], [`PROMOTE`] in any union.
    pub flags: u8,
    /// What it does.
    pub run: fn(&mut Call<'_>) -> Outcome,
}

impl Method {
    /// Whether it reads.
    pub fn reads(&self) -> bool {
        self.flags & RD != 0
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        self.flags & WR != 0
    }
}

/// A class's filter of object listings: it is asked of each object that has the attribute that the client named.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// Its name; clients write it behind the class's and a point.
    pub name: &'static str,
    /// Whether an object belongs into the listing, from its attribute's value and what the client gave.
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

/// All classes.
static CLASSES: &[Class] = &[
    Class { name: "hello", methods: &[hello::METHODS], filters: hello::FILTERS },
    Class { name: "journal", methods: &[journal::METHODS], filters: &[] },
    Class { name: "lock", methods: &[lock::METHODS], filters: &[] },
    Class { name: "log", methods: &[log::METHODS], filters: &[] },
    Class { name: "numops", methods: &[numops::METHODS], filters: &[] },
    Class { name: "rbd", methods: rbd::METHODS, filters: &[] },
    Class { name: "refcount", methods: &[refcount::METHODS], filters: &[] },
    Class { name: "timeindex", methods: &[timeindex::METHODS], filters: &[] },
    Class { name: "user", methods: &[user::METHODS], filters: &[] },
    Class { name: "version", methods: &[version::METHODS], filters: &[] },
];

/// All methods, as pairs of class and method.
pub fn all() -> impl Iterator<Item = (&'static Class, &'static Method)> {
    CLASSES.iter().flat_map(|class| class.methods.iter().copied().flatten().map(move |method| (class, method)))
}

/// Finds a filter of object listings. An unknown class is EPERM as for methods, an unknown filter of it EINVAL.
pub fn find_filter(class: &[u8], filter: &[u8]) -> Result<&'static Filter, Errno> {
    let class = CLASSES.iter().find(|c| c.name.as_bytes() == class).ok_or(Errno::EPERM)?;
    class.filters.iter().find(|f| f.name.as_bytes() == filter).ok_or(Errno::EINVAL)
}

/// What a class and method name lead to.
pub enum Lookup {
    /// A method.
    Found(&'static Method),
    /// No such class. Ceph answers EPERM: the class is not in its list of those that may be loaded.
    UnknownClass,
    /// The class has no such method: EOPNOTSUPP.
    UnknownMethod,
}

/// Finds a method.
pub fn find(class: &[u8], method: &[u8]) -> Lookup {
    let Some(class) = CLASSES.iter().find(|c| c.name.as_bytes() == class) else { return Lookup::UnknownClass };
    match class.methods.iter().copied().flatten().find(|m| m.name.as_bytes() == method) {
        Some(method) => Lookup::Found(method),
        None => Lookup::UnknownMethod,
    }
}
