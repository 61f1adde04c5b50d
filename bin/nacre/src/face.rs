//! What this host shows over HTTP: metrics.
//!
//! *Who is asked.* Daemons of this process, by their mailboxes, when somebody asks: `perf dump` of OSDs, `mon_status` of monitors. The
//! monitor that leads makes the picture of the cluster (`nacre picture`); so the host that runs it tells the cluster's families, and no
//! other host does. Nobody asks through the network, and nobody needs a key.
//!
//! *Without a majority* there is no leader. The host that ran the last one goes on to tell the last picture, with its age, until it hears of
//! another leader.
//!
//! *What it costs.* However many ask, the daemons are asked once a second at most, and the leader once in a hundred times as long as the
//! picture took.

use crate::host;
use crate::log::Log;
use crate::process::{Process, Roster};
use anyhow::Result;
use face::metrics::{self, Picture, Told};
use face::text::{CONTENT_TYPE, Text};
use httpd::{Asked, Bytes, Limits, Reply, Running, Server, Site};
use node::Level;
use runtime::Caller;
use serde_json::Value;
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The port of metrics that Prometheus' files of others name.
pub(crate) const METRICS_PORT: u16 = 9283;
/// How long a text is told again.
const TEXT_KEPT: Duration = Duration::from_secs(1);
/// How long a picture is told again: as many times as it took, at least and at most so long.
const PICTURE_KEPT: (u32, Duration, Duration) = (100, Duration::from_secs(2), Duration::from_secs(30));
/// How long a daemon may take to answer, and all of them.
const PATIENCE: Duration = Duration::from_secs(2);
const ALL_PATIENCE: Duration = Duration::from_secs(4);
/// How long the leader may take.
const PICTURE_PATIENCE: Duration = Duration::from_secs(8);

/// Serves metrics at `ip` and `port` from now on. A port that is taken is told, and no reason to stop: none is given then.
pub(crate) fn serve(process: &Process, ip: IpAddr, port: u16) -> Option<Running> {
    let log = process.log.clone();
    let start = || -> Result<Running> {
        let listener = TcpListener::bind((ip, port))?;
        let site = Front(Arc::new(Metrics { roster: process.roster(), host: host::name(), held: Mutex::default() }));
        Ok(Server { listeners: vec![listener], limits: Limits::default(), site }.start("metrics")?)
    };
    match start() {
        Ok(running) => Some(running),
        Err(e) => {
            warn(&log, &format!("metrics are not served at {ip} port {port}: {e}; --metrics-port chooses another port, 0 none"));
            None
        }
    }
}

fn warn(log: &Log, text: &str) {
    eprintln!("nacre: {text}");
    log.say(Level::Warn, text);
}

/// The site of metrics.
struct Metrics {
    roster: Roster,
    host: String,
    held: Mutex<Held>,
}

/// What was told lately.
#[derive(Default)]
struct Held {
    text: Option<(Instant, Bytes)>,
    /// The newest picture that a monitor of this process made, while no other is known to lead.
    picture: Option<Made>,
}

/// A picture.
struct Made {
    value: Value,
    at: Instant,
    took: Duration,
}

impl Made {
    fn is_fresh(&self) -> bool {
        let (times, least, most) = PICTURE_KEPT;
        self.at.elapsed() < (self.took * times).clamp(least, most)
    }
}

/// The site, as its server has it.
#[derive(Clone)]
struct Front(Arc<Metrics>);

impl Site for Front {
    async fn answer(&self, asked: Asked) -> Reply {
        if !asked.looks() {
            return Reply::text(405, "only GET and HEAD are served here").with("allow", "GET, HEAD");
        }
        match asked.path() {
            "/metrics" => {
                let site = self.0.clone();
                match httpd::blocking(move || site.text()).await {
                    Some(text) => Reply::new(200, CONTENT_TYPE, text),
                    None => Reply::text(500, "the metrics cannot be written: the log of this process says why"),
                }
            }
            "/" => Reply::new(200, "text/html; charset=utf-8", FRONT),
            _ => Reply::text(404, "there is nothing here; /metrics has the metrics"),
        }
    }
}

const FRONT: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>nacre: metrics</title>\
    <p><a href=\"/metrics\">Metrics</a> of this host, for Prometheus.";

impl Metrics {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text, made at most once in [`TEXT_KEPT`]. Who comes while it is made waits for it.
    fn text(&self) -> Bytes {
        let mut held = self.held();
        if let Some((_, text)) = held.text.as_ref().filter(|(at, _)| at.elapsed() < TEXT_KEPT) {
            return text.clone();
        }
        let text = Bytes::from(self.gather(&mut held));
        held.text = Some((Instant::now(), text.clone()));
        text
    }

    fn gather(&self, held: &mut Held) -> String {
        let begin = Instant::now();
        let mut out = Text::default();
        let daemons = self.roster.daemons();
        let mut told = Vec::new();
        for (name, caller) in &daemons {
            let left = ALL_PATIENCE.saturating_sub(begin.elapsed()).clamp(Duration::from_millis(20), PATIENCE);
            let command = if name.starts_with("mon.") { r#"{"prefix":"mon_status"}"# } else { r#"{"prefix":"perf dump"}"# };
            told.push(Told { name: name.clone(), answer: ask(caller, command, left) });
        }
        metrics::daemons(&mut out, &self.host, env!("CARGO_PKG_VERSION"), &told);
        let agree = self.follow(&daemons, &told, held);
        if let Some(made) = &held.picture {
            let picture = Picture { value: &made.value, age: made.at.elapsed(), took: made.took, agree };
            metrics::cluster(&mut out, &picture);
        }
        let help = "Time that the last text took, all daemons asked";
        out.put("nacre_metrics_seconds", face::text::Kind::Gauge, help, &[], begin.elapsed().as_secs_f64());
        out.render()
    }

    /// Sees to it that the picture is this host's to tell, and new enough. Says whether monitors agree.
    fn follow(&self, daemons: &[(String, Caller)], told: &[Told], held: &mut Held) -> bool {
        let in_state = |wanted: &str| {
            told.iter().position(|t| t.name.starts_with("mon.") && t.answer.as_ref().is_some_and(|a| a["state"] == wanted))
        };
        if let Some(leader) = in_state("leader") {
            if held.picture.as_ref().is_none_or(|made| !made.is_fresh()) {
                let begin = Instant::now();
                if let Some(value) = ask(&daemons[leader].1, r#"{"prefix":"nacre picture","format":"json"}"#, PICTURE_PATIENCE) {
                    held.picture = Some(Made { value, at: Instant::now(), took: begin.elapsed() });
                }
            }
            return true;
        }
        if in_state("peon").is_some() {
            // Another host's monitor leads: its host tells.
            held.picture = None;
        }
        false
    }
}

fn ask(caller: &Caller, command: &str, patience: Duration) -> Option<Value> {
    let answer = caller.call(command, patience).ok()?;
    (answer.result == 0).then(|| serde_json::from_str(&answer.text).ok())?
}
