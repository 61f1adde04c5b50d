//! What a new user is told before a cluster starts or when it serves: things that are allowed, and perhaps not meant.

use crate::state::State;
use std::fs::File;
use std::path::Path;

/// Bytes of a file system below which an OSD in a file on it counts as short of room.
const SHORT: u64 = 1 << 30;

/// Returns bytes as people write them, as `64 GiB`; with one digit behind the point if they are no whole number.
pub(crate) fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (n.max(1).ilog2() / 10) as usize;
    let size = 1u64 << (10 * unit);
    if n.is_multiple_of(size) {
        format!("{} {}", n / size, units[unit])
    } else {
        format!("{:.1} {}", n as f64 / size as f64, units[unit])
    }
}

/// Names the disks that were given and are not there: files are about to be made in their places.
pub(crate) fn new_files(state: &State) {
    for osd in state.osds.iter().filter(|osd| !osd.made && !osd.held) {
        if let Some(path) = osd.disk.as_ref().filter(|path| !path.exists()) {
            eprintln!(
                "nacre: {} is not there: a file is made for osd.{} that grows up to {}. If the name is a mistake in a new cluster, stop the \
                 cluster and remove its folder",
                path.display(),
                osd.id,
                bytes(osd.size)
            );
        }
    }
}

/// Names the OSDs that are not started because somebody adds, replaces or removes them, and was interrupted.
pub(crate) fn held(state: &State) {
    for osd in state.osds.iter().filter(|osd| osd.held) {
        let name = if osd.made { format!("osd.{}", osd.id) } else { "an OSD that is being added or replaced".to_owned() };
        let place = osd.disk.as_ref().map_or(String::new(), |disk| format!(" on {}", disk.display()));
        eprintln!(
            "nacre: {name}{place} is not started: run the command again that was interrupted (`nacre disk ls` shows which)"
        );
    }
}

/// Warns of OSDs in files whose file system has little room left: clients would wait as soon as it has none.
pub(crate) fn room(state: &State, dir: &Path) {
    let short = state.osds.iter().filter_map(|osd| {
        let file = File::open(osd.block(dir)).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
        let free = runtime::process::host_free(&file).ok()?;
        (free < SHORT).then(|| (format!("osd.{}", osd.id), free))
    });
    let (names, free): (Vec<_>, Vec<_>) = short.unzip();
    if let Some(least) = free.into_iter().min() {
        eprintln!(
            "nacre: warning: the file system of {} has {} left. OSDs are full when it has none, and writes wait then: give it room, another folder \
             (--dir), or disks (--disk)",
            names.join(", "),
            bytes(least)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_shown_in_the_largest_unit() {
        let shown = [0, 1, 1023, 1024, 1536, 64 << 30, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "1 B", "1023 B", "1 KiB", "1.5 KiB", "64 GiB", "16.0 EiB"]);
    }
}
