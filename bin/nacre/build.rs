//! Tells the program the commit that it is built of, as `NACRE_COMMIT`: 40 hexadecimal digits.
//!
//! Who builds may say it (`NACRE_COMMIT` in the environment). Else git says it. Without git it is forty zeros: tools
//! read the digits out of version texts, so there must be some.

use std::process::Command;

/// What stands for a commit that nobody knows.
const UNKNOWN: &str = "0000000000000000000000000000000000000000";

fn git(what: &[&str]) -> Option<String> {
    let out = Command::new("git").args(what).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}

fn is_commit(text: &str) -> bool {
    text.len() == UNKNOWN.len() && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The commit of the repository in which this file is. A repository around an unpacked archive says nothing of it, so
/// the file must be known there.
fn commit() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    git(&["rev-parse", "HEAD"])
}

fn main() {
    println!("cargo::rerun-if-env-changed=NACRE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // A commit changes the one, a change of the branch the other.
    for name in ["logs/HEAD", "HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| std::path::Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let said = std::env::var("NACRE_COMMIT").ok();
    let commit = said.or_else(commit).filter(|text| is_commit(text)).unwrap_or_else(|| UNKNOWN.to_owned());
    println!("cargo::rustc-env=NACRE_COMMIT={commit}");
}
