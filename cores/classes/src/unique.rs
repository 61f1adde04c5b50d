//! Names that nobody else has. They need not be secret, and there is no chance in here: the clock, the object's name
//! and the caller are mixed.

use crate::Call;

/// An endless row of numbers that differs from object to object and from time to time.
fn words(call: &Call<'_>) -> impl FnMut() -> u64 {
    let mut x = call.now.as_nanos() ^ u64::from(types::hash::rjenkins(&call.object)) << 32 ^ call.origin.num as u64;
    move || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The lower bits of such a row have short periods.
        x ^ x >> 32
    }
}

/// `len` letters and digits.
pub(crate) fn tag(call: &Call<'_>, len: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut next = words(call);
    (0..len).map(|_| LETTERS[(next() >> 58) as usize] as char).collect()
}

/// A UUID in its usual writing, of the version that is said to be random.
pub(crate) fn uuid(call: &Call<'_>) -> String {
    let mut next = words(call);
    let (a, b) = (next() & !0xf000 | 0x4000, next() & !(3 << 62) | 2 << 62);
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48, b & 0xffff_ffff_ffff)
}

/// A number.
pub(crate) fn number(call: &Call<'_>) -> u64 {
    words(call)()
}
