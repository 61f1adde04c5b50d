//! What a real cluster printed: `NAME.cmd`, `NAME.out`, `NAME.err`, `NAME.rc` of each recorded command.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// One recorded command.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The command line; `DIR` stands for a scratch folder.
    pub command: String,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Exit code.
    pub code: i32,
}

/// All recordings by name, from the archive in `tests/data`.
pub fn load(archive: &Path) -> Result<BTreeMap<String, Recording>> {
    let file = std::fs::File::open(archive).with_context(|| format!("recordings {}", archive.display()))?;
    let mut recordings: BTreeMap<String, Recording> = BTreeMap::new();
    for entry in tar::Archive::new(liblzma::read::XzDecoder::new(file)).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let (Some(name), Some(kind)) = (path.file_stem().and_then(|s| s.to_str()), path.extension().and_then(|s| s.to_str()))
        else {
            continue;
        };
        if kind == "cap" {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let recording = recordings.entry(name.to_owned()).or_default();
        match kind {
            "cmd" => recording.command = text.trim().to_owned(),
            "out" => recording.out = text,
            "err" => recording.err = text,
            // `rc=CODE SECONDS`
            "rc" => recording.code = text.trim_start_matches("rc=").split(' ').next().unwrap_or("0").parse().unwrap_or(-1),
            _ => {}
        }
    }
    Ok(recordings)
}
