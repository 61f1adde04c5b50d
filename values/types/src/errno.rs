//! The error numbers that travel on the wire. Ceph sends Linux's numbers, negated.

use std::fmt;

/// A positive Linux error number. The wire carries its negation ([`Errno::wire`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $value:literal $text:literal;)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Errno = Errno($value);)*

            /// The symbolic name, if it is one that this cluster sends.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }

            /// Returns what it means, in words.
            pub fn text(self) -> &'static str {
                match self.0 { $($value => $text,)* _ => "unknown error" }
            }
        }
    };
}

errnos! {
    EPERM = 1 "operation not permitted";
    ENOENT = 2 "no such object";
    EIO = 5 "input/output error";
    ENXIO = 6 "no such device or address";
    E2BIG = 7 "argument list too long";
    ENOEXEC = 8 "the image lacks a feature";
    EBADF = 9 "does not belong together";
    EAGAIN = 11 "try again";
    ENOMEM = 12 "out of memory";
    EACCES = 13 "permission denied";
    EFAULT = 14 "nothing was done";
    EBUSY = 16 "resource busy";
    EEXIST = 17 "already exists";
    EXDEV = 18 "crosses namespaces";
    ENOTDIR = 20 "not a directory";
    EINVAL = 22 "invalid argument";
    EFBIG = 27 "too large";
    ENOSPC = 28 "no space left";
    EROFS = 30 "read-only";
    EMLINK = 31 "too many links";
    EDOM = 33 "argument out of domain";
    ERANGE = 34 "out of range";
    ENAMETOOLONG = 36 "name too long";
    ENOSYS = 38 "not known here";
    ENOTEMPTY = 39 "not empty";
    ENODATA = 61 "no such attribute";
    EOVERFLOW = 75 "value too large";
    EBADMSG = 74 "bad message";
    EOPNOTSUPP = 95 "not supported";
    EMSGSIZE = 90 "message too long";
    ENOTCONN = 107 "not connected";
    ESHUTDOWN = 108 "blocklisted";
    ETIMEDOUT = 110 "timed out";
    EALREADY = 114 "done already";
    ESTALE = 116 "stale";
    EDQUOT = 122 "quota exceeded";
    ECANCELED = 125 "cancelled: a comparison did not hold";
}

impl Errno {
    /// The number as a result on the wire: negative.
    pub const fn wire(self) -> i32 {
        -self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} ({})", self.text())
    }
}

impl std::error::Error for Errno {}
