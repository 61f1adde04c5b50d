//! The page: what a person wants to know of a cluster within some seconds.
//!
//! In this order: is it well, and if not, what is to be done; how full is it; what goes on; which host or disk; who uses it; what
//! happened lately. It comes whole from here and can be read without JavaScript, on a phone and on paper. With JavaScript, the sections
//! that changed are put in place as they come ([`sections`]); nothing is computed in the browser.
//!
//! Everything that a cluster tells is written through `maud`, which escapes it.

use crate::values::{number, rows, scaled, text};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Contents of the view.
pub struct View<'a> {
    /// The picture of the cluster; none if there never was one.
    pub picture: Option<&'a Value>,
    /// Time since it was made.
    pub age: Duration,
    /// True if monitors agree: without, the picture is the last one that there was.
    pub agree: bool,
    /// The host that serves the page.
    pub host: &'a str,
    /// Its program.
    pub version: &'a str,
    /// Daemons of this host, and whether each answers.
    pub daemons: &'a [(String, bool)],
    /// Operations of this host's OSDs that take too long: OSD, age in seconds, what, and what it waits for.
    pub slow: &'a [Slow],
}

/// An operation that takes too long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slow {
    /// The OSD, as `osd.0`.
    pub osd: String,
    /// Its age in seconds.
    pub age: f64,
    /// The operation, in words.
    pub what: String,
    /// The thing that it waits for.
    pub waits: String,
}

/// Seconds after which a picture is said to be old.
const OLD: u64 = 30;
/// Images and lines of the log that are shown.
const SHOWN: usize = 12;
/// Disks that are shown each. Of more, those that somebody should look at, and a line for each host.
const DISKS: usize = 96;
/// Pools whose history is shown.
const CHARTS: usize = 24;
/// Rows of a table that grows with the cluster: hosts, pools, disks to look at.
const ROWS: usize = 100;

/// An amount of bytes: `3.1 TiB`.
fn bytes(n: f64) -> String {
    scaled(n, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], " ")
}

/// A count: `12.4 k`.
fn count(n: f64) -> String {
    scaled(n, 1000.0, &["", "k", "M", "G", "T"], " ")
}

/// A span of time: `4 min`.
fn span(secs: f64) -> String {
    match secs {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// A time of a nanosecond sum: `1.1 ms`.
fn millis(nanos: f64) -> String {
    if nanos <= 0.0 { "–".to_owned() } else { format!("{:.1} ms", nanos / 1e6) }
}

fn part(used: f64, total: f64) -> f64 {
    if total > 0.0 { (used / total * 100.0).clamp(0.0, 100.0) } else { 0.0 }
}

fn bar(percent: f64, label: &str) -> Markup {
    let class = if percent >= 85.0 { "bar full" } else { "bar" };
    html! {
        span class=(class) role="meter" aria-valuemin="0" aria-valuemax="100" aria-valuenow=(format!("{percent:.0}")) aria-label=(label) {
            span style=(format!("width:{percent:.1}%")) {}
        }
    }
}

/// A line of values over time, the oldest first, with the largest of them in words; nothing where nothing is known. It is as high as the largest
/// value is, and begins at zero.
fn chart(label: &str, values: &Value, say: impl Fn(f64) -> String) -> Markup {
    let known: Vec<(usize, f64)> = rows(values).enumerate().filter_map(|(at, value)| Some((at, value.as_f64()?))).collect();
    let (steps, most) = (rows(values).count(), known.iter().map(|(_, value)| *value).fold(0.0, f64::max));
    let mut path = String::new();
    let mut before = None;
    for (at, value) in &known {
        // A step of which nothing is known is a gap.
        let pen = if before.is_some_and(|before| before + 1 == *at) { 'L' } else { 'M' };
        let high = if most > 0.0 { 19.0 - 18.0 * value.max(0.0) / most } else { 19.0 };
        path.push_str(&format!("{pen}{at} {high:.1}"));
        before = Some(*at);
    }
    let between = if label.is_empty() { "" } else { ": " };
    let words = format!("{label}{between}at most {}", say(most));
    html! {
        @if known.len() > 1 {
            div.chart {
                span { (words) }
                svg viewBox=(format!("0 0 {} 20", steps.max(2) - 1)) preserveAspectRatio="none" role="img" aria-label=(words) { path d=(path); }
            }
        }
    }
}

/// Returns when something will be full: `in 12 to 19 d`.
fn forecast(told: &Value) -> Option<String> {
    let (soonest, latest) = (told[0].as_f64()?, told[1].as_f64()?);
    let (from, to) = (span(soonest), span(latest));
    Some(if from == to { format!("in {to}") } else { format!("in {from} to {to}") })
}

/// The sections of the page by their id, in order. Each is an element with that id.
pub fn sections(view: &View<'_>) -> Vec<(&'static str, String)> {
    let Some(all) = view.picture else { return vec![("head", head(view).into_string()), ("own", own(view).into_string())] };
    [
        ("head", head(view)),
        ("wrong", wrong(all, view.agree)),
        ("capacity", capacity(all)),
        ("clients", clients(all)),
        ("work", work(all)),
        ("hosts", hosts(all)),
        ("slow", slow(all, view.slow)),
        ("pools", pools(all)),
        ("images", images(all)),
        ("log", log(all)),
        ("own", own(view)),
    ]
    .into_iter()
    .map(|(id, section)| (id, section.into_string()))
    .collect()
}

/// The head of a page; a live one has a script that keeps it up to date.
fn document_head(title: &str, live: bool) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { "nacre: " (title) }
            link rel="stylesheet" href="/page.css";
            @if live { script src="/page.js" defer {} }
        }
    }
}

/// The whole page. To somebody who came from `elsewhere` it offers a way out.
pub fn page(view: &View<'_>, elsewhere: bool) -> String {
    let status = view.picture.map_or("no answer", |all| words(&all["health"]["status"], view.agree).1);
    html! {
        (DOCTYPE)
        html lang="en" {
            (document_head(status, true))
            body {
                main { @for (_, section) in sections(view) { (PreEscaped(section)) } }
                @if elsewhere { form.note method="post" action="/logout" { button { "Log out" } } }
                noscript { p.note { "This page shows one moment. Load it again for the next one, or allow JavaScript." } }
            }
        }
    }
    .into_string()
}

/// Text for somebody who is not in yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// The link or the password was wrong.
    Wrong,
    /// So many seconds until the next try is looked at.
    Wait(u64),
}

/// The page of those who are not in yet. A link comes in with a press of a button: programs that only look at what it leads to do not use it up.
pub fn login(host: &str, link: Option<&str>, told: Told) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            (document_head("log in", false))
            body { main {
                header class="login" { h1 { "nacre" } p { "The page of the cluster, at " b { (host) } "." } }
                section class="wide" {
                    @match told {
                        Told::Nothing => {}
                        Told::Wrong => p.bad role="alert" { "That was wrong. A link is good once, for ten minutes." },
                        Told::Wait(secs) => p.bad role="alert" { "Too many wrong tries: wait " (secs.max(1)) " s." },
                    }
                    form method="post" action="/login" {
                        @if let Some(link) = link {
                            input type="hidden" name="link" value=(link);
                            p { button autofocus { "Open the page" } }
                        } @else {
                            // For those who keep passwords, and for programs that read pages aloud: there is one user.
                            input type="text" name="user" value="nacre" autocomplete="username" hidden;
                            p { label for="password" { "Password" } }
                            p { input type="password" id="password" name="password" autocomplete="current-password" required autofocus; " " button { "Log in" } }
                        }
                    }
                    p.remedy { "On a host of the cluster, " code { "nacre page link --dir DIR" } " prints a link that is good once, and "
                        code { "nacre page password --dir DIR" } " makes a password." }
                }
            } }
        }
    }
    .into_string()
}

/// Class and word of a state of health.
fn words(status: &Value, agree: bool) -> (&'static str, &'static str) {
    match text(status) {
        _ if !agree => ("err", "monitors do not agree"),
        "HEALTH_OK" => ("ok", "well"),
        "HEALTH_WARN" => ("warn", "look at it"),
        _ => ("err", "mend it"),
    }
}

fn head(view: &View<'_>) -> Markup {
    let Some(all) = view.picture else {
        return html! {
            header id="head" class="err" {
                h1 { "nacre" }
                p.state { "No monitor answers." }
                p { "This is " b { (view.host) } ". Nothing is known of the cluster; below are the daemons of this host. "
                    "Are the other hosts up, and can this one reach them?" }
            }
        };
    };
    let (class, word) = words(&all["health"]["status"], view.agree);
    let findings = all["health"]["checks"].as_object().map_or(0, |c| c.values().filter(|c| c["muted"] != true).count());
    let inside = if view.agree { rows(&all["mons"]).filter(|m| m["in_quorum"] == true).count() } else { 0 };
    let old = !view.agree || view.age.as_secs() >= OLD;
    html! {
        header id="head" class=(class) {
            h1 { "nacre " small { (text(&all["fsid"]).get(..8).unwrap_or_default()) } }
            p.state { (word) @if findings > 0 { " · " (findings) @if findings == 1 { " finding" } @else { " findings" } } }
            p {
                (inside) " of " (rows(&all["mons"]).count()) " monitors agree"
                @if let Some(leader) = all["leader"].as_str() { ", " b { (leader) } " leads" }
                " · seen from " (view.host) " (" (view.version) ")"
                " · " span class=(if old { "age old" } else { "age" }) { "as of " (text(&all["at"]).get(..19).unwrap_or_default().replace('T', " ")) " UTC"
                    @if old { ", " (span(view.age.as_secs_f64())) " ago" } }
            }
        }
    }
}

fn wrong(all: &Value, agree: bool) -> Markup {
    let checks: BTreeMap<u8, Vec<(&String, &Value)>> =
        all["health"]["checks"].as_object().into_iter().flatten().fold(BTreeMap::new(), |mut by, (code, check)| {
            let rank = match (check["muted"] == true, text(&check["severity"])) {
                (true, _) => 3,
                (_, "HEALTH_ERR") => 0,
                (_, "HEALTH_WARN") => 1,
                _ => 2,
            };
            by.entry(rank).or_default().push((code, check));
            by
        });
    html! {
        section id="wrong" aria-live="polite" {
            h2 { "What is wrong" }
            @if !agree {
                div.finding.err {
                    p { b { "No majority of the monitors." } " Clients that are connected go on; nothing can be changed. What is shown is the last that was known." }
                    p { "Start the monitors' hosts. If a majority is lost for good: " code { "nacre mon rescue" } "." }
                }
            }
            @if checks.is_empty() && agree { p.none { "Nothing." } }
            @for (rank, checks) in &checks { @for (code, check) in checks {
                div class=(format!("finding {}", ["err", "warn", "note", "note"][usize::from(*rank)])) {
                    p { b { (text(&check["summary"]["message"])) } " " code { (code) } @if *rank == 3 { " muted" } }
                    @if rows(&check["detail"]).next().is_some() {
                        details { summary { "why" } ul { @for line in rows(&check["detail"]) { li { (text(&line["message"])) } } } }
                    }
                    @if let Some(words) = all["remedies"][code]["text"].as_str() {
                        p.remedy { (words) @if let Some(command) = all["remedies"][code]["command"].as_str() { " " code { (command) } } }
                    }
                }
            } }
        }
    }
}

fn capacity(all: &Value) -> Markup {
    let stats = &all["df"]["stats"];
    let (total, used) = (number(&stats["total_bytes"]), number(&stats["total_used_raw_bytes"]));
    let fullest = rows(&all["osds"])
        .filter(|o| o["in"] == true)
        .map(|o| (part(number(&o["total"]) - number(&o["available"]), number(&o["total"])), number(&o["id"])))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    html! {
        section id="capacity" {
            h2 { "Capacity" }
            p.big { (format!("{:.0} %", part(used, total))) " of " (bytes(total)) }
            (bar(part(used, total), "used"))
            p { (bytes(used)) " used, " (bytes(number(&stats["total_avail_bytes"]))) " free, all copies counted" }
            @if let Some((percent, id)) = fullest { p { "fullest: osd." (id) " with " (format!("{percent:.0} %")) } }
            @if let Some((pool, when)) = first_full(all) { p { "pool " b { (pool) } " is full " b { (when) } ", at the pace of the last day" } }
            (chart("in use, 24 h", &all["history"]["day"]["used"], bytes))
        }
    }
}

/// The pool that will be full first, and when.
fn first_full(all: &Value) -> Option<(&str, String)> {
    let soonest = |pool: &&Value| pool["full_seconds"][0].as_f64();
    let first = rows(&all["pools"])
        .filter(|pool| soonest(pool).is_some())
        .min_by(|a, b| soonest(a).partial_cmp(&soonest(b)).unwrap_or(std::cmp::Ordering::Equal))?;
    Some((text(&first["name"]), forecast(&first["full_seconds"])?))
}

fn clients(all: &Value) -> Markup {
    let rates = &all["rates"];
    let quiet = ["read_ops", "write_ops", "read_bytes", "write_bytes"].iter().all(|name| number(&rates[*name]) == 0.0);
    html! {
        section id="clients" {
            h2 { "Clients" }
            @if quiet { p.none { "Nothing is read or written." } } @else {
                table { tbody {
                    @for (name, ops, amount) in [("write", "write_ops", "write_bytes"), ("read", "read_ops", "read_bytes")] {
                        tr { th scope="row" { (name) } td.n { (count(number(&rates[ops]))) "/s" } td.n { (bytes(number(&rates[amount]))) "/s" } }
                    }
                } }
            }
            @let (lately, day) = (&all["history"]["lately"], &all["history"]["day"]);
            @let ops = |n: f64| format!("{}/s", count(n));
            (chart("writes, 30 min", &lately["write_ops"], ops)) (chart("writes, 24 h", &day["write_ops"], ops))
            (chart("reads, 30 min", &lately["read_ops"], ops)) (chart("reads, 24 h", &day["read_ops"], ops))
            (chart("a durable write takes, 24 h", &day["commit_us"], |us| millis(us * 1e3)))
        }
    }
}

fn work(all: &Value) -> Markup {
    let objects = &all["objects"];
    let pace = &all["recovery"];
    let copies = number(&objects["copies"]);
    let parts: Vec<(&str, f64, f64)> = [("degraded", copies), ("misplaced", copies), ("unfound", number(&objects["objects"]))]
        .into_iter()
        .map(|(name, of)| (name, number(&objects[name]), of))
        .filter(|(_, n, _)| *n > 0.0)
        .collect();
    html! {
        section id="work" {
            h2 { "What goes on" }
            @for (name, n, of) in &parts { p { b { (name) } ": " (count(*n)) " of " (count(*of)) " (" (format!("{:.2} %", part(*n, *of))) ")" } }
            @if number(&pace["objects"]) > 0.0 { p { "recovering " (count(number(&pace["objects"]))) " objects/s, " (bytes(number(&pace["bytes"]))) "/s" } }
            @for event in rows(&all["progress"]["events"]) {
                p { (text(&event["message"])) " " (bar(number(&event["progress"]) * 100.0, "done"))
                    @if let Some(left) = event["time_remaining"].as_f64() { " " (span(left)) " left" } }
            }
            h3 { "Placement groups" }
            ul.plain { @for state in rows(&all["states"]) { li { b { (number(&state["count"])) } " " (text(&state["state"])) } } }
            @if parts.is_empty() && rows(&all["states"]).next().is_none() { p.none { "There are none." } }
        }
    }
}

fn hosts(all: &Value) -> Markup {
    let mut by_host: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for osd in rows(&all["osds"]) {
        let name = osd["host"].as_str().or(osd["hostname"].as_str()).filter(|name| !name.is_empty()).unwrap_or("no host");
        by_host.entry(name).or_default().push(osd);
    }
    let many = by_host.values().map(Vec::len).sum::<usize>() > DISKS;
    if many {
        return hosts_in_short(&by_host);
    }
    html! {
        section id="hosts" class="wide" {
            h2 { "Hosts and disks" }
            @for (host, osds) in &by_host {
                h3 { (host) @let down = osds.iter().filter(|o| o["up"] != true).count(); @if down > 0 { " " span.bad { (down) " down" } } }
                div.scroll tabindex="0" { table {
                    thead { (disk_heads()) }
                    tbody { @for osd in osds { (disk(osd)) } }
                } }
            }
            @if by_host.is_empty() { p.none { "There are none." } }
        }
    }
}

fn used(osd: &Value) -> f64 {
    let total = number(&osd["total"]);
    part(total - number(&osd["available"]), total)
}

/// Says whether somebody should look at a disk.
fn is_odd(osd: &Value) -> bool {
    osd["up"] != true || osd["in"] != true || number(&osd["slow_ops"]) > 0.0 || used(osd) >= 85.0
}

/// Disks that somebody should look at, and a line for each host.
fn hosts_in_short(by_host: &BTreeMap<&str, Vec<&Value>>) -> Markup {
    let odd: Vec<(&str, &Value)> =
        by_host.iter().flat_map(|(host, osds)| osds.iter().filter(|osd| is_odd(osd)).map(|osd| (*host, *osd))).collect();
    html! {
        section id="hosts" class="wide" {
            h2 { "Hosts and disks" }
            @if odd.is_empty() { p { "All disks are up and in, none is slow, none is above 85 %." } } @else {
                div.scroll tabindex="0" { table {
                    thead { (disk_heads()) }
                    tbody { @for (_, osd) in odd.iter().take(ROWS) { (disk(osd)) } }
                } }
                @if odd.len() > ROWS { p.none { "and " (odd.len() - ROWS) " more" } }
            }
            div.scroll tabindex="0" { table {
                thead { tr { th { "host" } th.n { "up" } th { "fullest" } th.n { "slow" } } }
                tbody { @for (host, osds) in by_host.iter().take(ROWS) {
                    @let fullest = osds.iter().map(|osd| used(osd)).fold(0.0, f64::max);
                    tr {
                        th scope="row" { (host) }
                        td.n { (osds.iter().filter(|o| o["up"] == true).count()) " of " (osds.len()) }
                        td { (bar(fullest, "fullest")) " " (format!("{fullest:.0} %")) }
                        td.n { (osds.iter().map(|o| number(&o["slow_ops"])).sum::<f64>()) }
                    }
                } }
            } }
            @if by_host.len() > ROWS { p.none { "and " (by_host.len() - ROWS) " more hosts: " code { "ceph osd df tree" } } }
        }
    }
}

fn disk_heads() -> Markup {
    html! { tr { th { "OSD" } th { "state" } th { "disk" } th { "used" } th.n { "groups" } th.n { "write" } th { "write, 24 h" } } }
}

fn disk(osd: &Value) -> Markup {
    let (up, inside) = (osd["up"] == true, osd["in"] == true);
    let (total, free) = (number(&osd["total"]), number(&osd["available"]));
    let percent = part(total - free, total);
    html! {
        tr class=(if up { "" } else { "down" }) {
            th scope="row" { "osd." (number(&osd["id"])) }
            td {
                @if up { "up" } @else { span.bad { "down" } @if let Some(secs) = osd["down_seconds"].as_f64() { " " (span(secs)) } }
                @if !inside { ", out" }
                @if number(&osd["slow_ops"]) > 0.0 { " " span.bad { (number(&osd["slow_ops"])) " slow" } }
            }
            td { (text(&osd["class"])) " " (text(&osd["devices"])) }
            td { (bar(percent, "used")) " " (format!("{percent:.0} %")) " of " (bytes(total)) }
            td.n { (number(&osd["groups"])) }
            td.n { (millis(number(&osd["commit_us"]) * 1e3)) }
            td { (chart("", &osd["history"]["commit_us"], |us| millis(us * 1e3))) }
        }
    }
}

fn slow(all: &Value, here: &[Slow]) -> Markup {
    let total: f64 = rows(&all["osds"]).map(|osd| number(&osd["slow_ops"])).sum();
    html! {
        section id="slow" class="wide" {
            h2 { "Slow operations" }
            @if total == 0.0 && here.is_empty() { p.none { "None." } }
            @if total > 0.0 {
                ul.plain { @for osd in rows(&all["osds"]).filter(|osd| number(&osd["slow_ops"]) > 0.0) {
                    li { "osd." (number(&osd["id"])) " has " (number(&osd["slow_ops"])) ", the oldest for " (span(number(&osd["slow_oldest"]))) }
                } }
                p.remedy { "Which they are: " code { "ceph tell osd.N dump_blocked_ops" } }
            }
            @for op in here { p { b { (op.osd) } " for " (span(op.age)) ": " (op.what) @if !op.waits.is_empty() { " – " (op.waits) } } }
        }
    }
}

fn pools(all: &Value) -> Markup {
    let stats: BTreeMap<u64, &Value> = rows(&all["df"]["pools"]).map(|p| (p["id"].as_u64().unwrap_or(0), &p["stats"])).collect();
    html! {
        section id="pools" class="wide" {
            h2 { "Pools" }
            @if rows(&all["pools"]).next().is_none() { p.none { "There are none." } p.remedy { code { "ceph osd pool create NAME" } } } @else {
                div.scroll tabindex="0" { table {
                    thead { tr { th { "pool" } th { "copies" } th.n { "groups" } th.n { "stored" } th.n { "free" } th { "full" } th.n { "write" } th.n { "read" } th { "writes, 24 h" } } }
                    tbody { @for (at, pool) in rows(&all["pools"]).take(ROWS).enumerate() {
                        @let of = stats.get(&pool["id"].as_u64().unwrap_or(0)).copied().unwrap_or(&Value::Null);
                        tr {
                            th scope="row" { (text(&pool["name"])) }
                            td { @if pool["replicated"] == true { (number(&pool["size"])) } @else { "erasure" } }
                            td.n { (number(&pool["groups"])) }
                            td.n { (bytes(number(&of["stored"]))) }
                            td.n { (bytes(number(&of["max_avail"]))) }
                            td { (forecast(&pool["full_seconds"]).unwrap_or_else(|| "–".into())) }
                            td.n { (count(number(&pool["rates"]["write_ops"]))) "/s " (bytes(number(&pool["rates"]["write_bytes"]))) "/s" }
                            td.n { (count(number(&pool["rates"]["read_ops"]))) "/s " (bytes(number(&pool["rates"]["read_bytes"]))) "/s" }
                            // The page of a cluster with many pools stays short.
                            td { @if at < CHARTS { (chart("", &all["history"]["pools"][pool["id"].to_string()]["write_ops"], |n| format!("{}/s", count(n)))) } }
                        }
                    } }
                } }
            }
        }
    }
}

fn images(all: &Value) -> Markup {
    let busy = |image: &&Value| number(&image["rates"][0]) + number(&image["rates"][1]) > 0.0;
    let shown: Vec<&Value> = rows(&all["images"]).filter(busy).take(SHOWN).collect();
    html! {
        section id="images" class="wide" {
            h2 { "Busiest images" }
            @if shown.is_empty() { p.none { "No image is in use." } } @else {
                div.scroll tabindex="0" { table {
                    thead { tr {
                        th { "image" } th.n { "write" } th.n { "read" } th.n { "written" } th.n { "read" } th.n { "write takes" } th.n { "read takes" }
                        th { "operations, 24 h" }
                    } }
                    tbody { @for image in shown {
                        @let rate = |at: usize| number(&image["rates"][at]);
                        tr {
                            th scope="row" { (text(&image["pool"])) "/" @if !text(&image["namespace"]).is_empty() { (text(&image["namespace"])) "/" } (text(&image["name"])) }
                            td.n { (count(rate(0))) "/s" } td.n { (count(rate(1))) "/s" }
                            td.n { (bytes(rate(2))) "/s" } td.n { (bytes(rate(3))) "/s" }
                            td.n { (millis(rate(4))) } td.n { (millis(rate(5))) }
                            td { (chart("", &image["history"]["ops"], |n| format!("{}/s", count(n)))) }
                        }
                    } }
                } }
            }
        }
    }
}

fn log(all: &Value) -> Markup {
    // Of a finding whose figures change, the figures of now are above.
    let lines: Vec<&Value> = rows(&all["log"]).filter(|line| !text(&line["text"]).starts_with("Health check update: ")).collect();
    html! {
        section id="log" class="wide" {
            h2 { "Lately" }
            @if lines.is_empty() { p.none { "Nothing." } }
            ul.plain.log { @for line in lines.iter().rev().take(SHOWN) {
                li class=(text(&line["level"]).to_lowercase()) {
                    time { (text(&line["at"]).get(..19).unwrap_or_default().replace('T', " ")) } " " (text(&line["who"])) ": " (text(&line["text"]))
                }
            } }
        }
    }
}

fn own(view: &View<'_>) -> Markup {
    html! {
        section id="own" class="wide" {
            h2 { "This host" }
            ul.plain { @for (name, answers) in view.daemons {
                li { (name) " " @if *answers { "answers" } @else { span.bad { "does not answer" } } }
            } }
            p { a href="/metrics" { "metrics" } }
        }
    }
}

/// The style sheet.
pub const CSS: &str = include_str!("page.css");
/// Script that puts sections in place as they come.
pub const JS: &str = include_str!("page.js");

/// A message of the stream that brings sections that changed: server-sent events.
pub fn event(changed: &[(&'static str, String)]) -> String {
    let all: serde_json::Map<String, Value> =
        changed.iter().map(|(id, html)| ((*id).to_owned(), Value::from(html.as_str()))).collect();
    format!("data: {}\n\n", Value::Object(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view<'a>(picture: Option<&'a Value>, agree: bool) -> View<'a> {
        View { picture, age: Duration::from_secs(1), agree, host: "h<1>", version: "1", daemons: &[], slow: &[] }
    }

    #[test]
    fn names_are_written_as_text() {
        let bad = "<script>alert(\"x\")</script>\n'";
        let picture = json!({
            "fsid": bad, "leader": bad, "at": bad, "health": {"status": "HEALTH_WARN", "checks": {
                bad: {"severity": bad, "summary": {"message": bad}, "detail": [{"message": bad}]}}},
            "osds": [{"id": 1, "host": bad, "class": bad, "devices": bad}], "mons": [{"name": bad}],
            "pools": [{"id": 1, "name": bad}], "images": [{"pool": bad, "namespace": bad, "name": bad, "rates": [1, 1, 1, 1, 1, 1]}],
            "log": [{"at": bad, "who": bad, "level": bad, "text": bad}], "states": [{"state": bad, "count": 1}],
            "progress": {"events": [{"message": bad, "progress": 0.5}]},
        });
        let slow = [Slow { osd: bad.into(), age: 1.0, what: bad.into(), waits: bad.into() }];
        let told = page(&View { slow: &slow, daemons: &[(bad.to_owned(), false)], ..view(Some(&picture), true) }, false);
        assert!(!told.contains("<script>alert") && told.contains("&lt;script&gt;alert"), "{told}");
        // In a message of the stream a line end would begin another message.
        let message = event(&sections(&view(Some(&picture), true)));
        assert_eq!((message.lines().count(), message.ends_with("}\n\n")), (2, true));
    }

    #[test]
    fn who_is_not_in_sees_no_more_than_the_host() {
        let link = login("h<1>", Some("a\"><script>"), Told::Nothing);
        assert!(
            link.contains("h&lt;1&gt;")
                && link.contains("value=\"a&quot;&gt;&lt;script&gt;\"")
                && !link.contains("type=\"password\""),
            "{link}"
        );
        let password = login("h", None, Told::Wait(0));
        assert!(
            password.contains("type=\"password\"") && password.contains("wait 1 s") && !password.contains("name=\"link\""),
            "{password}"
        );
        assert!(login("h", None, Told::Wrong).contains("That was wrong") && !password.contains("That was wrong"));
    }

    #[test]
    fn a_page_without_a_picture_says_so() {
        let told = page(&view(None, false), false);
        assert!(told.contains("No monitor answers") && told.contains("h&lt;1&gt;"), "{told}");
        let empty = json!({});
        assert!(page(&view(Some(&empty), false), false).contains("No majority of the monitors"));
    }

    #[test]
    fn a_thousand_disks_are_a_short_page() {
        let osd = |id: i32| json!({"id": id, "host": format!("host-{}", id / 24), "up": id % 50 != 0, "in": true, "total": 1e13, "available": 5e12, "class": "ssd", "devices": "sda"});
        let picture = json!({"osds": (0..1000).map(osd).collect::<Vec<_>>(), "pools": (0..500).map(|id| json!({"id": id, "name": "pool"})).collect::<Vec<_>>()});
        let told = page(&view(Some(&picture), true), true);
        assert!(told.len() < 150_000, "{} bytes", told.len());
        assert!(told.contains("osd.50<") && !told.contains("osd.51<"), "those that are down are shown, the others are not");
    }

    #[test]
    fn history_is_a_line_with_gaps() {
        let line = chart("writes", &json!([0, 5, null, 10, 10]), |n| format!("{n}/s")).into_string();
        assert!(
            line.contains("writes: at most 10/s")
                && line.contains("d=\"M0 19.0L1 10.0M3 1.0L4 1.0\"")
                && line.contains("0 0 4 20"),
            "{line}"
        );
        for nothing in [json!(null), json!([]), json!([1]), json!([null, null]), json!({"a": 1})] {
            assert_eq!(chart("x", &nothing, bytes).into_string(), "");
        }
        let picture = json!({"pools": [{"id": 1, "name": "slow", "full_seconds": [2e6, 9e6]}, {"id": 2, "name": "quick<", "full_seconds": [4e5, 4.1e5]},
            {"id": 3, "name": "never", "full_seconds": null}], "history": {"day": {"used": [1, 2]}}});
        let told = capacity(&picture).into_string();
        assert!(told.contains("quick&lt;") && told.contains("in 5 d") && told.contains("in use, 24 h: at most 2 B"), "{told}");
        let pools = pools(&picture).into_string();
        assert!(pools.contains("in 23 d to 104 d") && pools.matches("–").count() == 1, "{pools}");
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!(
            ["999 B", "1.0 KiB", "1.5 GiB", "200 MiB"],
            [999.0, 1024.0, 1.5 * 1073741824.0, 200.0 * 1048576.0].map(bytes).each_ref().map(String::as_str)
        );
        assert_eq!((count(12_400.0).as_str(), count(7.0).as_str()), ("12.4 k", "7"));
        assert_eq!([span(4.0), span(240.0), span(7200.0), span(432_000.0)], ["4 s", "4 min", "2 h", "5 d"]);
    }
}
