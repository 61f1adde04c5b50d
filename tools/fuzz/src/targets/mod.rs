//! The targets.

mod disk;
mod machines;
mod values;
mod wire;

use crate::Target;

/// All of them.
pub fn all() -> Vec<Target> {
    [values::targets(), wire::targets(), disk::targets(), machines::targets()].into_iter().flatten().collect()
}

/// What a plain decoder may take beyond its input's share: 1 MiB.
const PLAIN: usize = 1 << 20;
/// What a machine takes to be made and run, in bytes.
const MACHINE: usize = 48 << 20;

/// Samples of the kinds `wanted` out of the archive of encoded structures.
fn samples(wanted: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let kind = |path: &str| path.rsplit('/').nth(1).unwrap_or_default().to_owned();
    let files = recordings::archive("ceph-objects-16.2.0.tar.xz", |path| wanted(&kind(&path.to_string_lossy())));
    files.into_iter().map(|(_, bytes)| bytes).collect()
}
