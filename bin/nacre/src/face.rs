//! What this host shows over HTTP: metrics to everybody, a page to those who are at this host or who are let in.
//!
//! *Who is asked.* Daemons of this process, by their mailboxes, when somebody asks: `perf dump` of OSDs, `mon_status`
//! of monitors. The monitor that leads makes the picture of the cluster (`nacre picture`); so the host that runs it
//! tells the cluster's families, and no other host does. The page of a host whose monitor does not lead asks the
//! monitors, as this host's administrator.
//!
//! *Without a majority* there is no leader. The host that ran the last one goes on to tell the last picture, with its
//! age, until it hears of another leader.
//!
//! *Who sees the page.* It names images, hosts and what happened. Without TLS only requests from this host are answered. A page of
//! elsewhere that a browser on this host shows gets nothing either: the name by which it asks must be an address, `localhost` or this
//! host's. From elsewhere people come through TLS and past the guard ([`Guard`]): a cookie that this host gave. There is no line that
//! tells browsers to use TLS for ever: metrics stand on the same name without it.
//!
//! *What it costs.* However many ask, the daemons are asked once a second at most, and the leader once in a hundred
//! times as long as the picture took.

use crate::client::Client;
use crate::guard::{Entered, Guard, With};
use crate::host;
use crate::identity;
use crate::log::Log;
use crate::process::{Process, Roster};
use crate::service::{Kind, Service};
use crate::token;
use face::login::{Digest, PASSWORD_BYTES, give, is_from_here, taken};
use face::metrics::{self, Picture, Told};
use face::page::{self, Slow, View};
use face::text::{CONTENT_TYPE, Text};
use httpd::{Asked, Bytes, Frames, Identity, Limits, Listener, Reply, Running, Sent, Server, Site};
use node::Level;
use runtime::Caller;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The port of metrics that Prometheus' files of others name.
pub(crate) const METRICS_PORT: u16 = 9283;
/// The port of the page for other hosts, as that of Ceph's dashboard.
pub(crate) const PAGE_PORT: u16 = 8443;
/// Time for which a text is told again.
const TEXT_KEPT: Duration = Duration::from_secs(1);
/// Time for which a picture is told again: as many times as it took, at least and at most so long.
const PICTURE_KEPT: (u32, Duration, Duration) = (100, Duration::from_secs(1), Duration::from_secs(30));
/// Time that a daemon may take to answer, and all of them.
const PATIENCE: Duration = Duration::from_secs(2);
const ALL_PATIENCE: Duration = Duration::from_secs(4);
/// Time that the leader may take.
const PICTURE_PATIENCE: Duration = Duration::from_secs(8);
/// Interval at which a page that is open gets what changed.
const EVERY: Duration = Duration::from_secs(2);
/// Pages that are open at a time and get what changes.
const VIEWERS: usize = 32;
/// Slow operations of this host that are shown.
const SLOW: usize = 10;

/// Listens at `ip` and `port`. A port that is taken is told, and no reason to stop.
pub(crate) fn listen(ip: IpAddr, port: u16, log: &Log) -> Option<TcpListener> {
    let refused =
        |e| warn(log, &format!("metrics are not served at {ip} port {port}: {e}; --metrics-port chooses another port, 0 none"));
    TcpListener::bind((ip, port)).map_err(refused).ok()
}

/// The same for the page of those who come from elsewhere.
pub(crate) fn listen_for_page(ip: IpAddr, port: u16, log: &Log) -> Option<TcpListener> {
    let refused = |e| {
        warn(
            log,
            &format!("the page is not served to other hosts at {ip} port {port}: {e}; --page-port chooses another port, 0 none"),
        );
    };
    TcpListener::bind((ip, port)).map_err(refused).ok()
}

/// Returns where this host's services are, for `ceph mgr services`, while its monitor leads.
pub(crate) fn services(door: Option<&TcpListener>, page: Option<&TcpListener>) -> BTreeMap<String, String> {
    let at = |door: Option<&TcpListener>| door.and_then(|door| door.local_addr().ok()).map(host::reached);
    let prometheus = at(door).map(|at| ("prometheus".to_owned(), format!("http://{at}/")));
    let dashboard = at(page).map(|at| ("dashboard".to_owned(), format!("https://{at}/")));
    prometheus.into_iter().chain(dashboard).collect()
}

/// Serves metrics and the page from now on, if there is a place for one of them. What hinders that is told, and no reason to stop.
pub(crate) fn serve(
    process: &Process,
    dir: &Path,
    bind: IpAddr,
    door: Option<TcpListener>,
    page: Option<TcpListener>,
) -> Option<Box<dyn Service>> {
    let listeners: Vec<Listener> = door.map(Listener::plain).into_iter().chain(page.map(Listener::secret)).collect();
    if listeners.is_empty() {
        return None;
    }
    let site = Front(Arc::new(Shown {
        roster: process.roster(),
        host: host::name(),
        dir: dir.to_owned(),
        guard: Guard::new(dir, identity::names(bind)),
        held: Mutex::default(),
        viewers: Mutex::default(),
    }));
    let server = Server { listeners, limits: Limits::default(), site };
    let running = server.start("metrics").map_err(|e| warn(&process.log, &format!("metrics are not served: {e}"))).ok()?;
    Some(Box::new(Served(Some(running))))
}

/// The server, while it runs.
struct Served(Option<Running>);

impl Service for Served {
    fn name(&self) -> &'static str {
        "metrics"
    }

    fn kind(&self) -> Kind {
        Kind::Front
    }

    fn caller(&self) -> Option<&Caller> {
        None
    }

    fn serves(&self) -> bool {
        self.0.is_some()
    }

    fn stop(&mut self) -> bool {
        self.0 = None;
        true
    }
}

fn warn(log: &Log, text: &str) {
    eprintln!("nacre: {text}");
    log.say(Level::Warn, text);
}

/// Contents of the view.
struct Shown {
    roster: Roster,
    host: String,
    dir: PathBuf,
    guard: Guard,
    held: Mutex<Held>,
    viewers: Mutex<Viewers>,
}

/// Pages that are open.
#[derive(Default)]
struct Viewers {
    all: Vec<Viewer>,
    /// True if a thread serves them.
    served: bool,
}

/// A page that is open, and the sections that it has.
struct Viewer {
    frames: Frames,
    /// The cookie of somebody who is let in from elsewhere.
    cookie: Option<Digest>,
    has: BTreeMap<&'static str, String>,
}

/// Answers of the last moments.
#[derive(Default)]
struct Held {
    text: Option<(Instant, Bytes)>,
    /// The newest picture that a monitor of this process made, while no other is known to lead.
    picture: Option<Made>,
    /// The newest picture that another host's monitor made, for the page.
    other: Option<Made>,
    /// Client that asks the monitors, while somebody looks at the page.
    client: Option<Client>,
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
struct Front(Arc<Shown>);

impl Site for Front {
    async fn identity(&self) -> Option<Identity> {
        let site = self.0.clone();
        httpd::blocking(move || site.guard.identity()).await?
    }

    async fn answer(&self, asked: Asked) -> Reply {
        if asked.secret && (!asked.looks() || asked.path() == "/login") {
            return self.door(asked).await;
        }
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
            _ if !asked.secret && !self.0.is_here(&asked) => Reply::new(403, "text/html; charset=utf-8", FRONT),
            // Who is not in yet sees the login as it should be.
            "/page.css" => safe(Reply::new(200, "text/css; charset=utf-8", page::CSS)),
            "/page.js" => safe(Reply::new(200, "text/javascript; charset=utf-8", page::JS)),
            path if asked.secret => {
                let (site, cookie) = (self.0.clone(), asked.head("cookie").and_then(taken));
                let is_in = async |cookie| httpd::blocking(move || site.guard.is_in(&cookie)).await == Some(true);
                match cookie {
                    Some(cookie) if is_in(cookie).await => self.shown(path, &asked, Some(cookie)).await,
                    _ if path == "/" => safe(Reply::text(303, "log in").with("location", "/login")),
                    _ => safe(Reply::text(401, "log in first: /login")),
                }
            }
            path => self.shown(path, &asked, None).await,
        }
    }
}

impl Front {
    /// Returns the page of somebody who may see all; with a cookie if that is why.
    async fn shown(&self, path: &str, asked: &Asked, cookie: Option<Digest>) -> Reply {
        match path {
            "/" => {
                let site = self.0.clone();
                match httpd::blocking(move || site.page(cookie.is_some())).await {
                    Some(page) => safe(Reply::new(200, "text/html; charset=utf-8", page)),
                    None => Reply::text(500, "the page cannot be written: the log of this process says why"),
                }
            }
            // A page of elsewhere may not even open it.
            "/stream" if asked.head("sec-fetch-site").is_some_and(|word| word != "same-origin") => {
                safe(Reply::text(403, "this is for the page of this host alone"))
            }
            "/stream" => self.0.clone().stream(cookie),
            _ => Reply::text(404, "there is nothing here; /metrics has the metrics"),
        }
    }

    /// Answers somebody who comes in or goes out, through TLS.
    async fn door(&self, asked: Asked) -> Reply {
        let html = |status, told, link: Option<&str>| {
            safe(Reply::new(status, "text/html; charset=utf-8", page::login(&self.0.host, link, told)))
        };
        if asked.looks() {
            let link = asked.query("link").filter(|link| link.len() <= PASSWORD_BYTES);
            return html(200, page::Told::Nothing, link.as_deref());
        }
        if asked.method() != "POST" || !matches!(asked.path(), "/login" | "/logout") {
            return safe(Reply::text(405, "only GET and HEAD are served here, and POST of a login").with("allow", "GET, HEAD"));
        }
        if !is_from_here(asked.head("host"), asked.head("origin"), asked.head("sec-fetch-site")) {
            return safe(Reply::text(403, "this form is not of this page"));
        }
        if asked.path() == "/logout" {
            if let Some(cookie) = asked.head("cookie").and_then(taken) {
                self.0.guard.leave(&cookie);
            }
            return safe(Reply::text(303, "bye").with("location", "/login").with("set-cookie", &give("")));
        }
        let of = asked.peer.ip();
        let body = match asked.body().await {
            Ok(body) => body,
            Err(why) => return safe(Reply::text(why.status(), "the form cannot be read")),
        };
        let field = |name| httpd::form(&body, name).filter(|text| text.len() <= PASSWORD_BYTES);
        let with = match (field("link"), field("password")) {
            (Some(link), _) => With::Link(link),
            (None, Some(password)) => With::Password(password),
            (None, None) => return html(400, page::Told::Wrong, None),
        };
        let site = self.0.clone();
        match httpd::blocking(move || site.guard.enter(of, with)).await {
            Some(Ok(Entered::In(secret))) => {
                safe(Reply::text(303, "welcome").with("location", "/").with("set-cookie", &give(&secret)))
            }
            Some(Ok(Entered::Wrong)) => html(403, page::Told::Wrong, None),
            Some(Ok(Entered::Wait(left))) => {
                let secs = left.as_secs() + 1;
                html(429, page::Told::Wait(secs), None).with("retry-after", &secs.to_string())
            }
            Some(Err(_)) | None => safe(Reply::text(500, "nobody can be let in: the log of this process says why")),
        }
    }
}

const FRONT: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>nacre: metrics</title>\
    <p><a href=\"/metrics\">Metrics</a> of this host, for Prometheus.\
    <p>The page of the cluster is shown through TLS, at port 8443 unless another was chosen: <code>nacre page link --dir DIR</code> on this \
    host prints where. On the host itself it is here.";

/// A page may load what comes from here, and nothing else; nobody keeps it or puts it into a frame.
fn safe(reply: Reply) -> Reply {
    const POLICY: &str = "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; script-src 'self'; connect-src 'self'; \
        form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    let reply = reply.with("content-security-policy", POLICY).with("x-content-type-options", "nosniff");
    // With less, browsers do not say where a form comes from.
    reply.with("referrer-policy", "same-origin").with("x-frame-options", "DENY").with("cache-control", "no-store")
}

impl Shown {
    /// Says whether somebody at this host asks, by a name of this host.
    fn is_here(&self, asked: &Asked) -> bool {
        (asked.peer.ip().is_loopback() || asked.peer.ip() == asked.local.ip())
            && is_ours(asked.head("host").unwrap_or_default(), &self.host)
    }

    fn page(&self, elsewhere: bool) -> String {
        self.look(|view| page::page(view, elsewhere))
    }

    /// Lets somebody look at what there is now.
    fn look<T>(&self, show: impl FnOnce(&View<'_>) -> T) -> T {
        let mut held = self.held();
        let daemons = self.roster.daemons();
        let mut told = Vec::new();
        for (name, caller) in &daemons {
            let command = if name.starts_with("mon.") { r#"{"prefix":"mon_status"}"# } else { r#"{"prefix":"status"}"# };
            told.push(Told { name: name.clone(), answer: ask(caller, command, PATIENCE / 4) });
        }
        let leads = self.follow(&daemons, &told, &mut held);
        // A monitor of this host knows at once that there is no majority; a host without one asks.
        let mons = || told.iter().filter(|t| t.name.starts_with("mon.")).filter_map(|t| t.answer.as_ref());
        // One that only learns (it is `synchronizing`, in Ceph's words) knows who leads, too.
        let follows = |mon: &Value| matches!(mon["state"].as_str(), Some("leader" | "peon" | "synchronizing"));
        let alone = mons().next().is_some() && !mons().any(follows);
        let agree = leads || !alone && self.ask_others(&mut held);
        let made = [&held.picture, &held.other].into_iter().flatten().max_by_key(|made| made.at);
        let slow = made.map_or(Vec::new(), |made| slow_here(&made.value, &daemons));
        let answers: Vec<(String, bool)> = told.iter().map(|t| (t.name.clone(), t.answer.is_some())).collect();
        show(&View {
            picture: made.map(|made| &made.value),
            age: made.map_or(Duration::ZERO, |made| made.at.elapsed()),
            agree,
            host: &self.host,
            version: env!("CARGO_PKG_VERSION"),
            daemons: &answers,
            slow: &slow,
        })
    }

    /// Sees to it that there is a new picture of another host's leader. Says whether monitors answer.
    fn ask_others(&self, held: &mut Held) -> bool {
        if held.other.as_ref().is_some_and(Made::is_fresh) {
            return true;
        }
        if held.client.is_none() {
            held.client = token::administrator(&self.dir).ok();
            // What the session takes does not count as what the picture takes.
            let first = json!({"prefix": "fsid"});
            held.client = held.client.take().filter(|client| client.command_within(&first, PATIENCE).is_ok());
        }
        let begin = Instant::now();
        let asked = json!({"prefix": "nacre picture", "format": "json"});
        let told = held.client.as_ref().and_then(|client| client.command_within(&asked, PATIENCE).ok());
        match told.and_then(|reply| serde_json::from_str(&reply.output).ok()) {
            Some(value) => {
                held.other = Some(Made { value, at: Instant::now(), took: begin.elapsed() });
                true
            }
            // Monitors may be elsewhere by now: ceph.conf is read again.
            None => {
                held.client = None;
                false
            }
        }
    }

    /// Begins to bring what changes to a page.
    fn stream(self: Arc<Self>, cookie: Option<Digest>) -> Reply {
        let (reply, frames) = Reply::parts(200, "text/event-stream", 1);
        let mut viewers = self.viewers();
        viewers.all.retain(|viewer| !viewer.frames.is_gone());
        if viewers.all.len() >= VIEWERS {
            return Reply::text(503, "too many pages are open").with("retry-after", "10");
        }
        viewers.all.push(Viewer { frames, cookie, has: BTreeMap::new() });
        if !viewers.served {
            let site = self.clone();
            let thread = std::thread::Builder::new().name("page".into()).stack_size(1 << 20);
            let body = move || {
                while site.bring() {
                    std::thread::sleep(EVERY);
                }
            };
            viewers.served = thread.spawn(body).is_ok();
        }
        drop(viewers);
        safe(reply)
    }

    /// Brings each page what it has not. Says whether somebody looks.
    fn bring(&self) -> bool {
        let now = self.look(page::sections);
        // Who went out, or whose time is over, gets no more.
        let cookies: BTreeSet<Digest> = self.viewers().all.iter().filter_map(|viewer| viewer.cookie).collect();
        let out: BTreeSet<Digest> = cookies.into_iter().filter(|cookie| !self.guard.is_in(cookie)).collect();
        let mut viewers = self.viewers();
        viewers.all.retain_mut(|viewer| {
            if viewer.cookie.is_some_and(|cookie| out.contains(&cookie)) {
                return false;
            }
            let changed: Vec<_> = now.iter().filter(|(id, html)| viewer.has.get(id) != Some(html)).cloned().collect();
            match viewer.frames.send(page::event(&changed)) {
                Sent::Taken => viewer.has.extend(changed),
                // It gets the difference to what it has with the next one.
                Sent::Full => {}
                Sent::Gone => return false,
            }
            true
        });
        viewers.served = !viewers.all.is_empty();
        let served = viewers.served;
        drop(viewers);
        if !served {
            self.held().client = None;
        }
        served
    }

    fn viewers(&self) -> MutexGuard<'_, Viewers> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        let off = |made: &&Made| made.value["modules"]["prometheus"]["status"] == 0;
        out.put(
            "nacre_metrics_off",
            face::text::Kind::Gauge,
            "Whether somebody switched the module prometheus off",
            &[],
            u8::from(held.picture.as_ref().is_some_and(|made| off(&made))),
        );
        if let Some(made) = held.picture.as_ref().filter(|made| !off(made)) {
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
                if let Some(value) =
                    ask(&daemons[leader].1, r#"{"prefix":"nacre picture","images":"all","format":"json"}"#, PICTURE_PATIENCE)
                {
                    held.picture = Some(Made { value, at: Instant::now(), took: begin.elapsed() });
                }
            }
            return true;
        }
        if in_state("peon").or(in_state("synchronizing")).is_some() {
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

/// Returns true if a request names this host: by an address, as `localhost` or by its name; with or without a port.
fn is_ours(named: &str, host: &str) -> bool {
    let without_port = named.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(named, |(name, _)| name);
    without_port == "localhost" || without_port == host || without_port.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Operations of this host's OSDs that take too long, if the cluster knows of some.
fn slow_here(picture: &Value, daemons: &[(String, Caller)]) -> Vec<Slow> {
    let slow = |osd: &&Value| osd["slow_ops"].as_u64().unwrap_or(0) > 0;
    let names = picture["osds"].as_array().into_iter().flatten().filter(slow).map(|osd| format!("osd.{}", osd["id"]));
    let mut found = Vec::new();
    for name in names {
        let Some((_, caller)) = daemons.iter().find(|(daemon, _)| *daemon == name) else { continue };
        let Some(told) = ask(caller, r#"{"prefix":"dump_blocked_ops"}"#, PATIENCE / 4) else { continue };
        for op in told["ops"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let waits = text(&op["type_data"]["flag_point"]);
            found.push(Slow { osd: name.clone(), age: op["age"].as_f64().unwrap_or(0.0), what: text(&op["description"]), waits });
        }
    }
    found.sort_by(|a, b| b.age.total_cmp(&a.age));
    found.truncate(SLOW);
    found
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn a_page_is_shown_by_names_of_this_host_alone() {
        for name in
            ["localhost", "localhost:9283", "127.0.0.1:9283", "10.0.0.7", "[::1]:9283", "[fd00::1]", "host-a:9283", "host-a"]
        {
            assert!(is_ours(name, "host-a"), "{name}");
        }
        for name in ["", "evil.example", "evil.example:9283", "127.0.0.1.evil.example", "host-b", "localhost.evil:9283"] {
            assert!(!is_ours(name, "host-a"), "{name}");
        }
    }
}
