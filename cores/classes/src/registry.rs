//! Which classes and methods there are.

use crate::{Call, Outcome, hello, journal, lock, log, numops, rbd, refcount, timeindex, user, version};

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

/// A class: a name and its methods, one module each.
pub struct Class {
    /// Its name.
    pub name: &'static str,
    /// Its methods, one table for each of its modules.
    pub methods: &'static [&'static [Method]],
}

/// All classes.
static CLASSES: &[Class] = &[
    Class { name: "hello", methods: &[hello::METHODS] },
    Class { name: "journal", methods: &[journal::METHODS] },
    Class { name: "lock", methods: &[lock::METHODS] },
    Class { name: "log", methods: &[log::METHODS] },
    Class { name: "numops", methods: &[numops::METHODS] },
    Class { name: "rbd", methods: rbd::METHODS },
    Class { name: "refcount", methods: &[refcount::METHODS] },
    Class { name: "timeindex", methods: &[timeindex::METHODS] },
    Class { name: "user", methods: &[user::METHODS] },
    Class { name: "version", methods: &[version::METHODS] },
];

/// All methods, as pairs of class and method.
pub fn all() -> impl Iterator<Item = (&'static Class, &'static Method)> {
    CLASSES.iter().flat_map(|class| class.methods.iter().copied().flatten().map(move |method| (class, method)))
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
