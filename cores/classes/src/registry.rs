//! Which classes and methods there are.

use crate::{
    Class, Filter, Method, cmpomap, fifo, hello, journal, lock, log, numops, otp, queue, rbd, refcount, rgw, rgw_gc, timeindex,
    two_phase, user, version,
};
use types::Errno;

/// All classes.
static CLASSES: &[Class] = &[
    Class { name: "2pc_queue", methods: &[two_phase::METHODS], filters: &[] },
    Class { name: "cmpomap", methods: &[cmpomap::METHODS], filters: &[] },
    Class { name: "fifo", methods: &[fifo::METHODS], filters: &[] },
    Class { name: "hello", methods: &[hello::METHODS], filters: hello::FILTERS },
    Class { name: "journal", methods: &[journal::METHODS], filters: &[] },
    Class { name: "lock", methods: &[lock::METHODS], filters: &[] },
    Class { name: "log", methods: &[log::METHODS], filters: &[] },
    Class { name: "numops", methods: &[numops::METHODS], filters: &[] },
    Class { name: "otp", methods: &[otp::METHODS], filters: &[] },
    Class { name: "queue", methods: &[queue::METHODS], filters: &[] },
    Class { name: "rbd", methods: rbd::METHODS, filters: &[] },
    Class { name: "refcount", methods: &[refcount::METHODS], filters: &[] },
    Class { name: "rgw", methods: rgw::METHODS, filters: &[] },
    Class { name: "rgw_gc", methods: &[rgw_gc::METHODS], filters: &[] },
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

/// Result of looking a class and a method up.
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
