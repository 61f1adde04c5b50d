//! Class `hello`: the example of Ceph's documentation; clients use it to test that classes work.

use crate::{Call, Change, Filter, Method, Outcome, PROMOTE, RD, WR};
use bytes::Bytes;
use types::{Errno, Rope};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "say_hello", flags: RD, run: say_hello },
    Method { name: "record_hello", flags: WR | PROMOTE, run: record_hello },
    Method { name: "write_return_data", flags: WR, run: write_return_data },
    Method { name: "writes_dont_return_data", flags: WR, run: write_return_data },
    Method { name: "write_too_much_return_data", flags: WR, run: write_too_much_return_data },
    Method { name: "turn_it_to_11", flags: RD | WR | PROMOTE, run: turn_it_to_11 },
    Method { name: "replay", flags: RD, run: replay },
    // Two that do what they did not announce.
    Method { name: "bad_reader", flags: WR, run: |_| Err(Errno::EIO.into()) },
    Method { name: "bad_writer", flags: RD, run: |_| Err(Errno::EIO.into()) },
];

/// The example of a filter: objects whose attribute has the given value.
pub(crate) const FILTERS: &[Filter] = &[Filter { name: "hello", matches: |value, given| value == given }];

/// Longest name that is greeted, in bytes.
const MAX_NAME: usize = 100;
/// Attributes that say who did it.
const RECORDER: &[u8] = b"said_by";
const AMPLIFIER: &[u8] = b"amplified_by";

/// Name and address of the caller, as Ceph prints instances.
fn who(call: &Call<'_>) -> Bytes {
    let kind = types::EntityType::from_wire(call.origin.kind.into()).map_or("unknown", types::EntityType::name);
    format!("{kind}.{} {}", call.origin.num, call.origin.addr).into()
}

fn greeting(name: &[u8]) -> Bytes {
    let name = if name.is_empty() { &b"world"[..] } else { name };
    [b"Hello, ", name, b"!"].concat().into()
}

/// Greets who the input names, or the world.
fn say_hello(call: &mut Call<'_>) -> Outcome {
    if call.input.len() > MAX_NAME {
        return Err(Errno::EINVAL.into());
    }
    Ok(greeting(&call.input))
}

/// Writes a greeting into an object that does not exist yet, and who asked for it.
fn record_hello(call: &mut Call<'_>) -> Outcome {
    if call.input.len() > MAX_NAME {
        return Err(Errno::EINVAL.into());
    }
    if call.exists()? {
        return Err(Errno::EEXIST.into());
    }
    let text = Rope::from(greeting(&call.input));
    let who = who(call);
    call.change(Change::WriteFull(text));
    call.change(Change::SetXattr(Bytes::from_static(RECORDER), who));
    Ok(Bytes::new())
}

/// A write that returns data and a number: clients see them only if they ask for returns, or if it fails.
fn write_return_data(call: &mut Call<'_>) -> Outcome {
    if !call.input.is_empty() {
        call.excuse = Bytes::from_static(b"too much input data!");
        return Err(Errno::EINVAL.into());
    }
    call.change(Change::SetXattr(Bytes::from_static(b"foo"), Bytes::from_static(b"bar")));
    call.result = 42;
    Ok(Bytes::from_static(b"you might see this"))
}

/// Returns more than a write may.
fn write_too_much_return_data(call: &mut Call<'_>) -> Outcome {
    call.change(Change::SetXattr(Bytes::from_static(b"foo"), Bytes::from_static(b"bar")));
    call.result = 42;
    Ok("you should not see this because it is toooooo long. ".repeat(10).into())
}

/// Capitals, and emphasis.
fn turn_it_to_11(call: &mut Call<'_>) -> Outcome {
    if !call.input.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let size = call.view.stat()?.map_or(0, |stat| stat.size);
    let text = call.view.read(0, size)?.to_vec().to_ascii_uppercase();
    let who = who(call);
    call.change(Change::WriteFull(Rope::from(text)));
    call.change(Change::SetXattr(Bytes::from_static(AMPLIFIER), who));
    Ok(Bytes::new())
}

/// Returns what was recorded.
fn replay(call: &mut Call<'_>) -> Outcome {
    let stat = call.must_exist()?;
    if stat.size > 1100 {
        return Err(Errno::EIO.into());
    }
    Ok(call.view.read(0, stat.size)?.contiguous())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn greetings_are_recorded_once_and_amplified() {
        let mut bench = Bench::default();
        assert_eq!(bench.call("hello", "say_hello", b""), Ok("Hello, world!".into()));
        assert!(bench.call("hello", "record_hello", b"me").is_ok());
        assert_eq!(bench.call("hello", "record_hello", b"me"), Err(Errno::EEXIST));
        assert_eq!(bench.call("hello", "turn_it_to_11", b"louder"), Err(Errno::EINVAL));
        assert!(bench.call("hello", "turn_it_to_11", b"").is_ok());
        assert_eq!(bench.call("hello", "replay", b""), Ok("HELLO, ME!".into()));
        assert_eq!(bench.call("hello", "say_hello", &[b'x'; 101]), Err(Errno::EINVAL));
        assert_eq!(bench.call("hello", "write_return_data", b"x"), Err(Errno::EINVAL));
    }
}
