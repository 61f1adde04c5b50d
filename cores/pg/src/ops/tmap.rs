//! The trivial map: keys and values, sorted, kept in the object's data. It is what the omap replaced; block images of the
//! first format still have their directory in one.

use super::Extent;
use crate::ops::run::{Env, Exec, Run};
use bytes::Bytes;
use denc::{Encode, Reader};
use messages::ops::Pairs;
use messages::osd::OpArgs;
use std::cell::Cell;
use types::{Errno, Rope};

/// Steps of an update.
mod step {
    /// Replace the header.
    pub(super) const HEADER: u8 = b'h';
    /// Set a key.
    pub(super) const SET: u8 = b's';
    /// Set a key that must be new.
    pub(super) const CREATE: u8 = b'c';
    /// Remove a key that must be there.
    pub(super) const REMOVE: u8 = b'r';
    /// Remove a key if it is there.
    pub(super) const REMOVE_ANY: u8 = b'R';
}

/// Of TMAP2OMAP: an empty object is no error.
const NULL_OK: u8 = 1;

/// What an object's data say as a trivial map.
#[derive(Debug, Default, PartialEq, Eq)]
struct Map {
    header: Bytes,
    pairs: Pairs,
}

impl Map {
    /// An object without data is an empty map.
    fn parse(env: &Env<'_>, data: &Bytes) -> Exec<Self> {
        if data.is_empty() {
            return Ok(Self::default());
        }
        let most = env.entries();
        let left = Cell::new(most);
        let mut r = Reader::within(data, &left);
        let map = Self { header: r.get()?, pairs: r.get()? };
        env.see_entries(most - left.get());
        Ok(map)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.header.encode(&mut out);
        self.pairs.encode(&mut out);
        out
    }

    /// Does the steps of an update, one after the other.
    fn update(&mut self, env: &Env<'_>, steps: &Bytes) -> Exec {
        let mut r = Reader::new(steps);
        while r.remaining() > 0 {
            env.see_entries(1);
            if env.entries() == 0 {
                return Err(Errno::EMSGSIZE.into());
            }
            match r.get::<u8>()? {
                step::HEADER => self.header = r.get()?,
                step::SET => drop(self.pairs.insert(r.get()?, r.get()?)),
                step::CREATE => {
                    let (key, value) = (r.get::<Bytes>()?, r.get()?);
                    if self.pairs.insert(key, value).is_some() {
                        return Err(Errno::EEXIST.into());
                    }
                }
                step::REMOVE => drop(self.pairs.remove(&r.get::<Bytes>()?).ok_or(Errno::ENOENT)?),
                step::REMOVE_ANY => drop(self.pairs.remove(&r.get::<Bytes>()?)),
                _ => return Err(Errno::EINVAL.into()),
            }
        }
        Ok(())
    }
}

impl Run<'_> {
    fn whole(&mut self) -> Exec<Rope> {
        self.read_extent(Extent { offset: 0, length: 0, truncate_size: 0, truncate_seq: 0 })
    }

    pub(super) fn op_tmap_get(&mut self, index: usize) -> Exec<i32> {
        let data = self.whole()?;
        self.output(index, data);
        Ok(0)
    }

    pub(super) fn op_tmap_put(&mut self, index: usize) -> Exec<i32> {
        // An input without even a header is refused, though data without one are an empty map.
        let input = self.input(index);
        Reader::new(&input).get::<Bytes>()?;
        let map = Map::parse(self.env, &input)?;
        self.write_full(map.to_bytes().into())?;
        Ok(0)
    }

    pub(super) fn op_tmap_update(&mut self, index: usize) -> Exec<i32> {
        let steps = self.input(index);
        if steps.is_empty() {
            return Ok(0);
        }
        let mut map = Map::parse(self.env, &self.whole()?.contiguous())?;
        map.update(self.env, &steps)?;
        self.write_full(map.to_bytes().into())?;
        Ok(0)
    }

    pub(super) fn op_tmap_to_omap(&mut self, index: usize) -> Exec<i32> {
        // Arguments of zeros only are none.
        let flags = if let OpArgs::Raw(args) = self.at(index).args { args[0] } else { 0 };
        if self.after.size == 0 {
            return if flags & NULL_OK != 0 { Ok(0) } else { Err(Errno::ENODATA.into()) };
        }
        let map = Map::parse(self.env, &self.whole()?.contiguous())?;
        self.truncate(0)?;
        self.omap_set_header(map.header);
        self.omap_set(map.pairs.into_iter().collect());
        Ok(0)
    }
}
