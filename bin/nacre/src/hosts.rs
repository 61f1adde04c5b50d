//! `nacre host ls`, and `nacre forget HOST`: hosts of the cluster, as its monitors know them.

use crate::cli::HostLs;
use crate::token::administrator;
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;

/// Runs `nacre host ls`; gives the exit code.
pub(crate) fn ls(args: &HostLs) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    let format = if args.json { "json-pretty" } else { "plain" };
    let reply = administrator(&dir)?.run(&json!({"prefix": "nacre host ls", "format": format}))?;
    println!("{}", reply.output.trim_end());
    Ok(0)
}

/// Removes a host that is gone for ever; gives the exit code.
pub(crate) fn forget(dir: &Path, host: &str, sure: bool, lost: bool) -> Result<u8> {
    let ask = json!({"prefix": "nacre host rm", "host": host, "yes_i_really_mean_it": sure, "data_is_lost": lost});
    let reply = administrator(dir)?.run(&ask)?;
    println!("{}", reply.status);
    Ok(0)
}
