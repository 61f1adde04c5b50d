//! Class `version`: a counter and a tag in an attribute, for optimistic concurrency.

use crate::{Call, Change, Fail, Method, Outcome, RD, WR, unique};
use bytes::Bytes;
use denc::{Decode, Encode};
use messages::class::version::{ATTR, CheckOp, Condition, IncOp, ObjVersion, ReadReply, SetOp, cond};
use types::Errno;

pub(crate) const METHODS: &[Method] = &[
    Method { name: "set", flags: RD | WR, run: set },
    Method { name: "inc", flags: RD | WR, run: inc },
    Method { name: "inc_conds", flags: RD | WR, run: inc_conds },
    Method { name: "read", flags: RD, run: read },
    Method { name: "check_conds", flags: RD, run: check_conds },
];

/// Length of a tag that is made when none was given.
const TAG_LEN: usize = 24;

fn stored(call: &Call<'_>) -> Result<Option<ObjVersion>, Fail> {
    let Some(value) = call.view.xattr(ATTR.as_bytes())? else { return Ok(None) };
    ObjVersion::from_bytes(&value).map(Some).map_err(|_| Fail::Errno(Errno::EIO))
}

fn store(call: &mut Call<'_>, version: &ObjVersion) {
    call.change(Change::SetXattr(Bytes::from_static(ATTR.as_bytes()), version.to_bytes()));
}

/// The stored version, or a new one with a fresh tag.
fn current(call: &Call<'_>) -> Result<ObjVersion, Fail> {
    Ok(match stored(call)? {
        Some(version) => version,
        None => ObjVersion { ver: 0, tag: unique::tag(call, TAG_LEN) },
    })
}

/// ECANCELED if a condition on the version does not hold.
fn check(version: &ObjVersion, conditions: &[Condition]) -> Result<(), Fail> {
    for Condition { ver, cond } in conditions {
        let holds = match *cond {
            cond::EQ => version == ver,
            cond::GT => version.ver > ver.ver,
            cond::GE => version.ver >= ver.ver,
            cond::LT => version.ver < ver.ver,
            cond::LE => version.ver <= ver.ver,
            cond::TAG_EQ => version.tag == ver.tag,
            cond::TAG_NE => version.tag != ver.tag,
            // Conditions that are not known here hold, as in Ceph.
            _ => true,
        };
        if !holds {
            return Err(Errno::ECANCELED.into());
        }
    }
    Ok(())
}

fn set(call: &mut Call<'_>) -> Outcome {
    let op: SetOp = call.arg()?;
    store(call, &op.objv);
    Ok(Bytes::new())
}

fn inc(call: &mut Call<'_>) -> Outcome {
    call.arg::<IncOp>()?;
    let mut version = current(call)?;
    version.ver += 1;
    store(call, &version);
    Ok(Bytes::new())
}

fn inc_conds(call: &mut Call<'_>) -> Outcome {
    let op: IncOp = call.arg()?;
    let mut version = current(call)?;
    check(&version, &op.conds)?;
    version.ver += 1;
    store(call, &version);
    Ok(Bytes::new())
}

fn read(call: &mut Call<'_>) -> Outcome {
    let objv = stored(call)?.unwrap_or_default();
    Ok(ReadReply { objv }.to_bytes())
}

fn check_conds(call: &mut Call<'_>) -> Outcome {
    let op: CheckOp = call.arg()?;
    let version = stored(call)?.unwrap_or_default();
    check(&version, &op.conds)?;
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn value(bench: &mut Bench) -> ObjVersion {
        let bytes = bench.call("version", "read", b"").expect("read");
        ReadReply::from_bytes(&bytes).expect("decodes").objv
    }

    #[test]
    fn conditions_guard_the_count() {
        let mut bench = Bench::default();
        let plain = IncOp::default().to_bytes();
        assert!(bench.call("version", "inc", &plain).is_ok());
        let first = value(&mut bench);
        assert_eq!((first.ver, first.tag.len()), (1, TAG_LEN));
        let guarded = |ver: u64, cond| {
            let conds = vec![Condition { ver: ObjVersion { ver, tag: first.tag.clone() }, cond }];
            IncOp { conds, ..IncOp::default() }.to_bytes()
        };
        assert_eq!(bench.call("version", "inc_conds", &guarded(2, cond::EQ)), Err(Errno::ECANCELED));
        assert!(bench.call("version", "inc_conds", &guarded(1, cond::EQ)).is_ok());
        assert_eq!(value(&mut bench), ObjVersion { ver: 2, tag: first.tag.clone() });
        assert_eq!(bench.call("version", "check_conds", &guarded(2, cond::GT)), Err(Errno::ECANCELED));
        assert!(bench.call("version", "check_conds", &guarded(2, cond::GE)).is_ok());
        assert!(bench.call("version", "check_conds", &guarded(2, 99)).is_ok());
        let set = SetOp { objv: ObjVersion { ver: 9, tag: "t".into() } };
        assert!(bench.call("version", "set", &set.to_bytes()).is_ok());
        assert_eq!(value(&mut bench), set.objv);
    }
}
