//! Reports: what came out, as a page, as Markdown and as files for other programs.
//!
//! [`data`] gathers records into cells; [`conclude`] draws sentences from them by rule; [`svg`] draws; [`charts`]
//! arranges several clusters, [`loads`] the loads of one; [`html`] and [`text`] write.

pub mod charts;
pub mod conclude;
pub mod data;
pub mod html;
pub mod loads;
pub mod sections;
pub mod svg;
pub mod text;

use crate::results::Store;
use anyhow::{Context, Result};
use std::path::Path;

/// Writes the page, and beside it the same as Markdown, CSV and JSON.
///
/// # Errors
/// Results cannot be read, or files cannot be written.
pub fn write(results: &Path, out: &Path) -> Result<Vec<String>> {
    let store = Store::open(results)?;
    let data = data::Data::load(&store)?;
    let raw = relative(results, out);
    let stem = out.file_stem().map(|s| s.to_string_lossy().into_owned());
    let files = [
        ("html", html::page(&data, &raw, stem.as_deref())),
        ("md", text::markdown(&data)),
        ("csv", text::csv(&data)),
        ("json", text::json(&data)?),
    ];
    let mut written = Vec::new();
    for (ending, content) in files {
        let path = if ending == "html" { out.to_owned() } else { out.with_extension(ending) };
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        written.push(path.display().to_string());
    }
    Ok(written)
}

/// The results' folder as a link of the page: relative if the page lies beside or above it.
fn relative(results: &Path, out: &Path) -> String {
    let real = std::fs::canonicalize(results).unwrap_or_else(|_| results.to_owned());
    let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    match real.strip_prefix(&folder) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".into(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => real.display().to_string(),
    }
}
