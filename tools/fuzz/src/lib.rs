//! Enemies of everything that sees bytes from outside: a *target* takes any bytes and must end with a value or an
//! error, without a panic, in bounded time and memory. The same targets are driven by a deterministic mutator (`make
//! fuzz`, in CI) and by libFuzzer (`make fuzz-long`). Inputs that once did harm are kept in `regressions/` and replayed
//! by the tests.

#![forbid(unsafe_code)]

mod mutate;
mod targets;

pub use mutate::{Dice, mutate};
pub use targets::all;

use peak_alloc::PeakAlloc;
use std::time::Duration;

/// Counts what is allocated.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Something that takes bytes from outside.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Takes one input; a panic is a finding.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Bytes that one run may take, whatever its input: most targets only decode, some drive a whole machine.
    pub slack: usize,
}

/// Bytes of memory that one byte of input may cost: a packed list of small numbers becomes maps of them.
const PER_BYTE: usize = 64;
/// Processor time that one input may take, in any build.
const LONGEST: Duration = Duration::from_secs(5);

/// Runs one input; the error says which bound it broke. Panics are the caller's.
///
/// # Errors
/// Too much memory or time.
pub fn judge(target: &Target, input: &[u8]) -> Result<(), String> {
    let (before, begin) = (MEMORY.current_usage(), runtime::process::thread_cpu());
    MEMORY.reset_peak_usage();
    (target.run)(input);
    let peak = MEMORY.peak_usage().saturating_sub(before);
    let took = runtime::process::thread_cpu().saturating_sub(begin);
    let allowed = input.len() * PER_BYTE + target.slack;
    if peak > allowed {
        return Err(format!("{peak} bytes of memory for an input of {}; {allowed} are allowed", input.len()));
    }
    if took > LONGEST {
        return Err(format!("{took:?} of processor time for an input of {} bytes", input.len()));
    }
    Ok(())
}
