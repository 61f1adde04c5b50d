//! The targets under libFuzzer, which looks for inputs that reach new code. `NACRE_FUZZ_TARGET` names the target.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("NACRE_FUZZ_TARGET").unwrap_or_default();
    let found = fuzz::all().into_iter().find(|t| t.name == name);
    found.unwrap_or_else(|| panic!("NACRE_FUZZ_TARGET: there is no target '{name}'"))
});

fuzz_target!(|input: &[u8]| {
    if let Err(why) = fuzz::judge(&TARGET, input) {
        panic!("{why}");
    }
});
