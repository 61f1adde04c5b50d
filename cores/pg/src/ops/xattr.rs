//! Extended attributes.

use crate::ops::run::{Exec, Run};
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::osd::{OpArgs, cmp_mode, cmp_op};
use objectstore::ObjectChange;
use std::cmp::Ordering;
use types::Errno;

/// Returns whether `given` stands to `stored` as `op` says. EINVAL for operators that do not exist.
pub(super) fn holds(op: u8, order: Ordering) -> Exec<bool> {
    Ok(match op {
        cmp_op::EQ => order.is_eq(),
        cmp_op::NE => order.is_ne(),
        cmp_op::GT => order.is_gt(),
        cmp_op::GTE => order.is_ge(),
        cmp_op::LT => order.is_lt(),
        cmp_op::LTE => order.is_le(),
        _ => return Err(Errno::EINVAL.into()),
    })
}

/// The number that a text begins with, as C's `atoll` reads it: blanks, a sign, digits; 0 if there are none.
fn leading_number(text: &[u8]) -> u64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let number = digits.iter().take_while(|b| b.is_ascii_digit());
    let value = number.fold(0i64, |n, b| n.saturating_mul(10).saturating_add(i64::from(b - b'0')));
    (if negative { -value } else { value }) as u64
}

impl Run<'_> {
    /// An attribute as it was before the vector.
    pub(crate) fn xattr(&self, name: &[u8]) -> Exec<Option<Bytes>> {
        if !self.before.exists {
            return Ok(None);
        }
        let value = self.env.store.xattr(self.env.hold, &self.before.at, name)?;
        self.env.see(value.as_ref().map_or(0, Bytes::len));
        Ok(value)
    }

    pub(super) fn op_get_xattr(&mut self, index: usize) -> Exec<i32> {
        let (name, _) = self.at(index).name_value()?;
        let value = self.xattr(&name)?;
        self.count_read(value.as_ref().map_or(0, |v| v.len() as u64));
        let Some(value) = value else { return Err(if self.before.exists { Errno::ENODATA } else { Errno::ENOENT }.into()) };
        if let OpArgs::Xattr { value_len, .. } = &mut self.results[index].args {
            *value_len = value.len() as u32;
        }
        self.output(index, value);
        Ok(0)
    }

    pub(super) fn op_get_xattrs(&mut self, index: usize) -> Exec<i32> {
        if !self.before.exists {
            return Err(Errno::ENOENT.into());
        }
        let all = self.env.store.xattrs(self.env.hold, &self.before.at)?;
        let output = all.to_bytes();
        self.count_read(output.len() as u64);
        self.output(index, output);
        Ok(0)
    }

    pub(super) fn op_cmp_xattr(&mut self, index: usize) -> Exec<i32> {
        let OpArgs::Xattr { cmp_op, cmp_mode: mode, .. } = self.at(index).args else { return Err(Errno::EINVAL.into()) };
        let (name, given) = self.at(index).name_value()?;
        if !self.before.exists {
            return Err(Errno::ENOENT.into());
        }
        let stored = self.xattr(&name)?.unwrap_or_default();
        self.count_read(stored.len() as u64);
        let order = match mode {
            cmp_mode::STRING => given.cmp(&stored),
            cmp_mode::U64 => Reader::new(&given).u64()?.cmp(&leading_number(&stored)),
            _ => return Err(Errno::EINVAL.into()),
        };
        // True is 1 here, not 0; it shows in the result of a vector that ends so.
        if holds(cmp_op, order)? { Ok(1) } else { Err(Errno::ECANCELED.into()) }
    }

    pub(crate) fn set_xattr(&mut self, name: Bytes, value: Bytes) -> Exec {
        if value.len() > self.env.config.max_xattr {
            return Err(Errno::EFBIG.into());
        }
        if name.len() > self.env.config.max_xattr_name {
            return Err(Errno::ENAMETOOLONG.into());
        }
        self.create();
        self.changes.push(ObjectChange::SetXattr(name, value));
        self.delta.wr += 1;
        Ok(())
    }

    pub(super) fn op_set_xattr(&mut self, index: usize) -> Exec<i32> {
        let (name, value) = self.at(index).name_value()?;
        self.set_xattr(name, value)?;
        Ok(0)
    }

    pub(crate) fn remove_xattr(&mut self, name: Bytes) -> Exec {
        self.must_live()?;
        self.changes.push(ObjectChange::RemoveXattr(name));
        self.delta.wr += 1;
        Ok(())
    }

    pub(super) fn op_rm_xattr(&mut self, index: usize) -> Exec<i32> {
        let (name, _) = self.at(index).name_value()?;
        self.remove_xattr(name)?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let cases: [(&[u8], u64); 6] =
            [(b"", 0), (b" 12x", 12), (b"x", 0), (b"-3", (-3i64) as u64), (b"+7", 7), (b"99999999999999999999", i64::MAX as u64)];
        for (text, number) in cases {
            assert_eq!(leading_number(text), number, "{}", text.escape_ascii());
        }
    }
}
