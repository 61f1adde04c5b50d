//! `nacre explain`: why is it slow, not clean, full? Monitors answer; where no majority of them answers, this host says what it sees.

use crate::admin;
use crate::cli::Explain;
use crate::client::{Client, Failure};
use crate::conf::Conf;
use crate::image;
use crate::token::administrator;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Time that monitors may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that a monitor's port may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// Runs `nacre explain`; gives the exit code: 0 with an answer, 3 without a majority of the monitors.
pub(crate) fn explain(args: &Explain) -> Result<u8> {
    let dir = std::path::absolute(&args.dir).with_context(|| args.dir.display().to_string())?;
    if args.about.as_deref() == Some("image") {
        let name = args.which.as_deref().context("nacre explain image: say which, as POOL/IMAGE or POOL/NAMESPACE/IMAGE")?;
        return image::explain(&dir, name, args.json);
    }
    let client = administrator(&dir)?;
    let format = if args.json { "json-pretty" } else { "plain" };
    let mut command = json!({"prefix": "nacre explain", "format": format});
    for (name, value) in [("about", &args.about), ("which", &args.which)] {
        if let Some(value) = value {
            command[name] = json!(value);
        }
    }
    match client.command_within(&command, PATIENCE) {
        Ok(reply) => {
            println!("{}", reply.output.trim_end());
            Ok(0)
        }
        Err(Failure::Silence) => {
            println!("{}", without_majority(&dir, &client)?.trim_end());
            Ok(3)
        }
        Err(failure) => Err(failure.sentence(&client)),
    }
}

/// Tells what this host knows when monitors do not agree: which of their ports answer, and what its own monitor says of itself.
fn without_majority(dir: &Path, _client: &Client) -> Result<String> {
    let mons = Conf::load(dir)?.mons;
    let heard: Vec<(SocketAddr, Result<(), String>)> = std::thread::scope(|scope| {
        let asked: Vec<_> = mons.iter().map(|at| (*at, scope.spawn(move || knock(*at)))).collect();
        asked.into_iter().map(|(at, asked)| (at, asked.join().unwrap_or_else(|_| Err("could not be tried".into())))).collect()
    });
    let there = heard.iter().filter(|(_, answer)| answer.is_ok()).count();
    let needed = mons.len() / 2 + 1;
    let mut out = format!(
        "No majority of the monitors answers: {there} of {} can be reached from here, {needed} are needed. Clients that are connected go on; \
         nothing can be changed.\n",
        mons.len()
    );
    let mut head = "because";
    let mut line = |text: String| {
        out.push_str(&format!("  {head:<9} {text}\n"));
        head = "";
    };
    for (at, answer) in &heard {
        match answer {
            Ok(()) => line(format!("the monitor at {at} takes connections")),
            Err(why) => line(format!("the monitor at {at}: {why}")),
        }
    }
    for (name, status) in own_monitors(dir) {
        let state = status["state"].as_str().unwrap_or("unknown");
        let outside = status["outside_quorum"].as_array().map_or(0, Vec::len);
        line(format!(
            "mon.{name} of this host is in state {state} in term {}; it hears {outside} others outside a quorum",
            status["election_epoch"]
        ));
    }
    let helps = if there < needed {
        "start the hosts whose monitors do not answer, or mend the network to them. Only if they are lost for good: nacre mon rescue"
    } else {
        "they are reached from here, and do not agree: do they reach each other? Their logs (DIR/*.log, journalctl -u nacre) say whom they miss"
    };
    out.push_str(&format!("  {:<9} {helps}\n", "helps"));
    Ok(out)
}

/// Tries to connect; the error is a sentence.
fn knock(at: SocketAddr) -> Result<(), String> {
    match TcpStream::connect_timeout(&at, CONNECT) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => Err("its host is up, and no monitor runs there".into()),
        Err(e) if e.kind() == std::io::ErrorKind::TimedOut => {
            Err("nothing answers: its host is down, or cannot be reached".into())
        }
        Err(e) => Err(e.to_string()),
    }
}

/// Returns what the monitors say of themselves whose sockets lie in this folder.
fn own_monitors(dir: &Path) -> Vec<(String, Value)> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = files.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_prefix("mon.")?.strip_suffix(".asok")?.to_owned();
        let told = admin::ask(&path, r#"{"prefix":"mon_status"}"#).ok()?;
        Some((name, serde_json::from_str(&told).ok()?))
    });
    named.collect()
}
