//! What an operation vector does, before anything is executed.

use crate::api::Needs;
use classes::Lookup;
use messages::osd::{OpArgs, OsdOp, code, code::watch_op};
use types::Errno;

/// Returns what `op` reads, writes and calls. Message flags have no say in it.
///
/// # Errors
/// EINVAL for an empty vector or arguments that do not fit their operation, EPERM for an unknown class, EOPNOTSUPP for
/// an unknown method: to be answered without execution.
pub fn needs(op: &OsdOp) -> Result<Needs, Errno> {
    let mut needs = Needs::default();
    if op.ops.is_empty() {
        return Err(Errno::EINVAL);
    }
    for single in &op.ops {
        if code::is_pg_op(single.code) {
            needs.group = true;
        }
        if single.code == code::CALL {
            call_needs(single, &mut needs)?;
            continue;
        }
        let ping = matches!(single.args, OpArgs::Watch { op: watch_op::PING, .. }) && single.code == code::WATCH;
        // A ping changes nothing, but it has the code of what does.
        needs.write |= code::writes(single.code) && !ping;
        needs.read |= code::reads(single.code) || code::of_cache(single.code) || ping;
    }
    // A vector is about the group or about an object, not both.
    if needs.group && !op.ops.iter().all(|o| code::is_pg_op(o.code)) {
        return Err(Errno::EINVAL);
    }
    if !(needs.read || needs.write || needs.class_read || needs.class_write) {
        return Err(Errno::EINVAL);
    }
    Ok(needs)
}

fn call_needs(op: &messages::osd::Op, needs: &mut Needs) -> Result<(), Errno> {
    let call = op.class_call().map_err(|_| Errno::EINVAL)?;
    match classes::find(call.class, call.method) {
        Lookup::UnknownClass => Err(Errno::EPERM),
        Lookup::UnknownMethod => Err(Errno::EOPNOTSUPP),
        Lookup::Found(method) => {
            needs.class_read |= method.reads();
            needs.class_write |= method.writes();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            needs.classes.push((text(call.class), text(call.method), method.reads(), method.writes()));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::osd::Op;

    fn vector(ops: Vec<Op>) -> Result<Needs, Errno> {
        needs(&OsdOp { ops, ..OsdOp::default() })
    }

    #[test]
    fn codes_and_methods_decide() {
        let read = vector(vec![Op::new(code::STAT, OpArgs::None)]).expect("valid");
        assert!(read.read && !read.modifies());
        let call = vector(vec![Op::call("lock", "get_info", b"")]).expect("valid");
        assert!(call.class_read && !call.read && !call.modifies());
        let lock = vector(vec![Op::call("lock", "lock", b""), Op::new(code::STAT, OpArgs::None)]).expect("valid");
        assert!(lock.class_write && lock.read && lock.modifies() && !lock.write);
        assert_eq!(vector(vec![Op::call("nosuch", "x", b"")]), Err(Errno::EPERM));
        assert_eq!(vector(vec![Op::call("lock", "x", b"")]), Err(Errno::EOPNOTSUPP));
        assert_eq!(vector(vec![]), Err(Errno::EINVAL));
        let ping = OpArgs::Watch { cookie: 1, version: 0, op: watch_op::PING, generation: 0, timeout: 0 };
        assert!(!vector(vec![Op::new(code::WATCH, ping)]).expect("valid").modifies());
        let mixed = vec![Op::new(code::PGNLS, OpArgs::List { count: 1, start_epoch: 0 }), Op::new(code::STAT, OpArgs::None)];
        assert_eq!(vector(mixed), Err(Errno::EINVAL));
    }
}
