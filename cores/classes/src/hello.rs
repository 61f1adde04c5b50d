//! Class `hello`: the example of Ceph's documentation; clients use it to test that classes work.

use crate::{Call, Change, Method, Outcome, RD, WR};
use bytes::Bytes;
use types::{Errno, Rope};

pub(crate) const METHODS: &[Method] = &[
    Method { name: "say_hello", flags: RD, run: say_hello },
    Method { name: "record_hello", flags: WR, run: record_hello },
    Method { name: "write_return_data", flags: WR, run: write_return_data },
    Method { name: "writes_dont_return_data", flags: WR, run: write_return_data },
    Method { name: "turn_it_to_11", flags: RD | WR, run: turn_it_to_11 },
    Method { name: "replay", flags: RD, run: replay },
];

/// Longest name that is greeted, in bytes.
const MAX_NAME: usize = 100;
/// Attribute that says who was greeted.
const WHO: &[u8] = b"hello_recorder";

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
    let who = format!("client.{}", call.origin.num);
    call.change(Change::WriteFull(text));
    call.change(Change::SetXattr(Bytes::from_static(WHO), who.into()));
    Ok(Bytes::new())
}

/// A write that returns data: clients see it only if they ask for returns.
fn write_return_data(call: &mut Call<'_>) -> Outcome {
    if call.view.xattr(b"foo")?.is_none() && !call.input.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    call.change(Change::SetXattr(Bytes::from_static(b"foo"), Bytes::from_static(b"bar")));
    Ok(Bytes::from_static(b"you might see this"))
}

/// Capitals, and emphasis.
fn turn_it_to_11(call: &mut Call<'_>) -> Outcome {
    let stat = call.must_exist()?;
    let text = call.view.read(0, stat.size)?.to_vec().to_ascii_uppercase();
    call.change(Change::WriteFull(Rope::from(text)));
    Ok(Bytes::new())
}

/// What was recorded.
fn replay(call: &mut Call<'_>) -> Outcome {
    let stat = call.must_exist()?;
    if stat.size > 1100 {
        return Err(Errno::EIO.into());
    }
    Ok(call.view.read(0, stat.size)?.contiguous())
}
