//! The compact encoding of the group's own records: variable-length numbers, because most are small.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use bytes::Bytes;
use denc::{DecodeError, Reader, Result};
use maps::Interval;
use types::OsdId;

/// Writes records.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Seven bits a byte, lowest first.
    pub(crate) fn num(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push((n & 0x7f) as u8 | 0x80);
            n >>= 7;
        }
        self.0.push((n & 0x7f) as u8);
    }

    /// A signed number: small magnitudes stay small.
    pub(crate) fn int(&mut self, n: i64) {
        self.num((n << 1 ^ n >> 63).cast_unsigned());
    }

    /// Length and bytes.
    pub(crate) fn bytes(&mut self, b: &[u8]) {
        self.num(b.len() as u64);
        self.0.extend_from_slice(b);
    }

    /// A structure in its own encoding.
    pub(crate) fn denc(&mut self, value: &impl denc::Encode) {
        value.encode(&mut self.0);
    }

    /// A count and then each item by `put`.
    pub(crate) fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut put: impl FnMut(&mut Self, T)) {
        self.num(items.len() as u64);
        for item in items {
            put(self, item);
        }
    }

    pub(crate) fn finish(self) -> Bytes {
        self.0.into()
    }
}

/// Reads records.
pub(crate) struct Parser<'a>(pub(crate) Reader<'a>);

impl<'a> Parser<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(Reader::new(bytes))
    }

    /// Reads a number; nearly all have one byte.
    #[inline]
    pub(crate) fn num(&mut self) -> Result<u64> {
        let byte = self.0.u8()?;
        if byte < 0x80 { Ok(byte.into()) } else { self.long_num(byte) }
    }

    /// Reads the rest of a number that begins with a byte which others follow.
    fn long_num(&mut self, first: u8) -> Result<u64> {
        let mut n = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.0.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(DecodeError::Invalid("variable-length number"))
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        let n = self.num()?;
        Ok((n >> 1 ^ (n & 1).wrapping_neg()).cast_signed())
    }

    pub(crate) fn num32(&mut self) -> Result<u32> {
        u32::try_from(self.num()?).map_err(|_| DecodeError::Invalid("32-bit number"))
    }

    pub(crate) fn int32(&mut self) -> Result<i32> {
        i32::try_from(self.int()?).map_err(|_| DecodeError::Invalid("32-bit number"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.num()?;
        self.0.take(usize::try_from(n).map_err(|_| DecodeError::Invalid("length"))?)
    }

    pub(crate) fn shared(&mut self) -> Result<Bytes> {
        Ok(Bytes::copy_from_slice(self.bytes()?))
    }

    pub(crate) fn denc<T: denc::Decode>(&mut self) -> Result<T> {
        self.0.get()
    }

    /// A count of items, each of at least one byte, and then each by `get`.
    pub(crate) fn list<T>(&mut self, mut get: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let n = self.num()?;
        if n > self.0.remaining() as u64 {
            return Err(DecodeError::CountTooLarge { count: n, have: self.0.remaining() });
        }
        (0..n).map(|_| get(self)).collect()
    }
}

/// Puts an interval.
pub(crate) fn put_interval(w: &mut Writer, i: &Interval) {
    put_osds(w, &i.up);
    put_osds(w, &i.acting);
    w.int(i.up_primary.into());
    w.int(i.primary.into());
    for n in [i.size, i.min_size, i.pg_num, i.pg_num_pending, i.force_resend] {
        w.num(n.into());
    }
}

/// Reads [`put_interval`].
pub(crate) fn get_interval(r: &mut Parser<'_>) -> Result<Interval> {
    let (up, acting, up_primary, primary) = (get_osds(r)?, get_osds(r)?, r.int32()?, r.int32()?);
    let (size, min_size, pg_num, pg_num_pending) = (r.num32()?, r.num32()?, r.num32()?, r.num32()?);
    Ok(Interval { up, up_primary, acting, primary, size, min_size, pg_num, pg_num_pending, force_resend: r.num32()? })
}

/// Puts OSDs, with holes among them.
pub(crate) fn put_osds(w: &mut Writer, osds: &[OsdId]) {
    w.list(osds.iter(), |w, osd| w.int((*osd).into()));
}

/// Reads [`put_osds`].
pub(crate) fn get_osds(r: &mut Parser<'_>) -> Result<Vec<OsdId>> {
    r.list(Parser::int32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), i64::MAX as u64, u64::MAX - 1, u64::MAX];
        let mut w = Writer::default();
        for n in numbers {
            w.num(n);
            w.int(n as i64);
        }
        let bytes = w.finish();
        let mut r = Parser::new(&bytes);
        for n in numbers {
            assert_eq!((r.num(), r.int()), (Ok(n), Ok(n as i64)));
        }
        assert!(r.0.is_empty());
    }

    #[test]
    fn overlong_numbers_are_refused() {
        assert!(Parser::new(&[0xff; 10]).num().is_err());
        assert!(Parser::new(&[0x80, 0x80]).num().is_err());
        assert!(Parser::new(&[200, 1]).list(Parser::num).is_err());
    }
}
