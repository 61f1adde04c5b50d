//! Class `refcount`: an object that is removed with its last reference.

use crate::{Call, Change, Fail, MOST_REWRITTEN, Method, Outcome, RD, WR};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::refcount::{ATTR, GetOp, PutOp, ReadOp, ReadReply, Refs, SetOp, WILDCARD_TAG};
use types::Errno;

pub(crate) const METHODS: &[Method] = &[
    Method { name: "get", flags: RD | WR, run: get },
    Method { name: "put", flags: RD | WR, run: put },
    Method { name: "set", flags: RD | WR, run: set },
    Method { name: "read", flags: RD, run: read },
];

/// The references; ENOENT without an object. `implicit`: an object without the attribute has one, under the wildcard
/// tag.
fn stored(call: &Call<'_>, implicit: bool) -> Result<Refs, Fail> {
    call.must_exist()?;
    let Some(value) = call.view.xattr(ATTR.as_bytes())? else {
        let mut refs = Refs::default();
        if implicit {
            refs.refs.insert(WILDCARD_TAG.into(), true);
        }
        return Ok(refs);
    };
    Refs::from_bytes(&value).map_err(|_| Fail::Errno(Errno::EIO))
}

fn store(call: &mut Call<'_>, refs: &Refs) {
    call.change(Change::SetXattr(Bytes::from_static(ATTR.as_bytes()), refs.to_bytes()));
}

/// Stores more references than there were: each makes all of them be written anew.
fn store_more(call: &mut Call<'_>, refs: &Refs) -> Outcome {
    let bytes = refs.to_bytes();
    if bytes.len() > MOST_REWRITTEN {
        return Err(Errno::EDQUOT.into());
    }
    call.change(Change::SetXattr(Bytes::from_static(ATTR.as_bytes()), bytes));
    Ok(Bytes::new())
}

fn get(call: &mut Call<'_>) -> Outcome {
    let op: GetOp = call.arg()?;
    let mut refs = stored(call, op.implicit_ref)?;
    refs.refs.insert(op.tag, true);
    store_more(call, &refs)
}

/// Drops a reference once; a repeated drop, or one that was never there, does nothing. The wildcard stands for any.
fn put(call: &mut Call<'_>) -> Outcome {
    let op: PutOp = call.arg()?;
    let mut refs = stored(call, op.implicit_ref)?;
    if refs.refs.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let found = if refs.refs.contains_key(&op.tag) { op.tag.clone() } else { WILDCARD_TAG.into() };
    if !refs.refs.contains_key(&found) || refs.retired.contains(&op.tag) {
        return Ok(Bytes::new());
    }
    refs.refs.remove(&found);
    refs.retired.insert(op.tag);
    if refs.refs.is_empty() {
        call.change(Change::Remove);
    } else {
        store(call, &refs);
    }
    Ok(Bytes::new())
}

fn set(call: &mut Call<'_>) -> Outcome {
    let op: SetOp = call.arg()?;
    if op.refs.is_empty() {
        call.change(Change::Remove);
        return Ok(Bytes::new());
    }
    let refs = Refs { refs: op.refs.into_iter().map(|tag| (tag, true)).collect(), ..Refs::default() };
    store_more(call, &refs)
}

fn read(call: &mut Call<'_>) -> Outcome {
    let op: ReadOp = call.arg()?;
    let refs = stored(call, op.implicit_ref)?.refs.into_keys().collect();
    Ok(ReadReply { refs }.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn the_last_reference_takes_the_object_with_it() {
        let mut bench = Bench::default();
        let set = SetOp { refs: vec![String::new()] };
        assert_eq!(bench.call("refcount", "get", &GetOp::default().to_bytes()), Err(Errno::ENOENT));
        assert!(bench.call("refcount", "set", &set.to_bytes()).is_ok());
        let get = |tag: &str| GetOp { tag: tag.into(), implicit_ref: true }.to_bytes();
        let put = |tag: &str| PutOp { tag: tag.into(), implicit_ref: true }.to_bytes();
        assert!(bench.call("refcount", "get", &get("a")).is_ok());
        let read = bench.call("refcount", "read", &ReadOp { implicit_ref: true }.to_bytes()).expect("read");
        assert_eq!(ReadReply::from_bytes(&read).expect("decodes").refs, ["", "a"]);
        assert!(bench.call("refcount", "put", &put("a")).is_ok());
        assert!(bench.call("refcount", "put", &put("a")).is_ok(), "a repeated drop does nothing");
        assert!(bench.exists());
        assert!(bench.call("refcount", "put", &put("b")).is_ok(), "the wildcard reference is anyone's");
        assert!(!bench.exists());
    }
}
