//! `nacre support --anonymous`: names are written over, each by what stays the same for it in all archives of the cluster.
//!
//! *What is hidden*: names of pools, namespaces, images, hosts, buckets of the CRUSH map and clients, as monitors and images' directories
//! know them; serial numbers of disks; the folder of the cluster; IP addresses; names of objects in operations; what stands in quotes in a log, since it
//! may be a name of something that is gone.
//!
//! *How*: `image-3f2a91c07b`: the kind, and the beginning of a digest of the name with a secret of the cluster (that of its monitors, which
//! every host has). So the same name looks the same in every archive, and nobody outside can try names.
//!
//! *What stays*: numbers, also of a name that is nothing but one; the names that Ceph and this program give by themselves ([`KEPT`]), and of
//! monitors and managers.

use crate::client::Client;
use crate::{host, reading};
use anyhow::{Context, Result, bail};
use face::login::digest_of;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

/// Most time that the directories of all images may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Names that tell nothing of anybody.
const KEPT: [&str; 11] =
    ["default", "admin", "rbd", "osd", "mon", "mgr", "client", "localhost", "device_health_metrics", ".mgr", "host"];
/// Digits of a digest that are shown.
const DIGITS: usize = 10;
/// Longest text in quotes that is taken for a name.
const QUOTED: usize = 128;

/// Words in place of names.
pub(crate) struct Hider {
    secret: String,
    /// Word for each name.
    known: BTreeMap<String, String>,
    /// Names with signs that no word has, the longest first.
    odd: Vec<(String, String)>,
}

impl Hider {
    /// Finds all names of the cluster. It needs a majority of the monitors: a name that nobody tells cannot be hidden.
    pub(crate) fn of(dir: &Path, client: &Client) -> Result<Self> {
        let keyring =
            std::fs::read_to_string(dir.join("mon/keyring")).context("read the monitors' secret, which names are hidden by")?;
        let mut hider = Self::new(&keyring);
        let ask = |command: Value| -> Result<Value> {
            let reply = client.command(&command).map_err(|failure| failure.sentence(client));
            serde_json::from_str(&reply.context("names cannot be hidden that the monitors do not tell")?.output)
                .context("the monitors' answer cannot be read")
        };
        for pool in ask(json!({"prefix": "osd dump", "format": "json"}))?["pools"].as_array().into_iter().flatten() {
            hider.know("pool", &pool["pool_name"]);
        }
        for bucket in ask(json!({"prefix": "osd crush dump", "format": "json"}))?["buckets"].as_array().into_iter().flatten() {
            hider.know(bucket["type_name"].as_str().unwrap_or("bucket"), &bucket["name"]);
        }
        for entity in ask(json!({"prefix": "auth ls", "format": "json"}))?["auth_dump"].as_array().into_iter().flatten() {
            let name = entity["entity"].as_str().and_then(|name| name.strip_prefix("client.")).unwrap_or_default();
            hider.learn("client", name);
        }
        let mut told: Vec<Value> = Vec::new();
        for what in ["osd metadata", "mon metadata"] {
            told.extend(ask(json!({"prefix": what, "format": "json"}))?.as_array().cloned().unwrap_or_default());
        }
        for daemon in &told {
            hider.know("host", &daemon["hostname"]);
            let serials = daemon["device_ids"].as_str().unwrap_or_default().split(',');
            serials.filter_map(|one| one.split_once('=')).for_each(|(_, serial)| hider.learn("disk", serial));
        }
        hider.learn("host", &host::name());
        let full = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        hider.learn("host", full.trim());
        hider.learn("folder", &dir.display().to_string());
        for (kind, name) in names_of_images(dir)? {
            hider.learn(kind, &name);
        }
        hider.odd.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Ok(hider)
    }

    fn new(secret: &str) -> Self {
        Self { secret: secret.to_owned(), known: BTreeMap::new(), odd: Vec::new() }
    }

    fn know(&mut self, kind: &str, name: &Value) {
        self.learn(kind, name.as_str().unwrap_or_default());
    }

    fn learn(&mut self, kind: &str, name: &str) {
        if name.is_empty() || KEPT.contains(&name) || name.bytes().all(|b| b.is_ascii_digit()) || self.known.contains_key(name) {
            return;
        }
        let hidden = self.digest(kind, name);
        if !name.chars().all(is_word) {
            self.odd.push((name.to_owned(), hidden.clone()));
        }
        self.known.insert(name.to_owned(), hidden);
    }

    /// Returns the word for a name.
    fn digest(&self, kind: &str, name: &str) -> String {
        let digest = digest_of(&format!("{}\nnacre support\n{name}", self.secret));
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{kind}-{}", &digits[..DIGITS])
    }

    /// Hides what is in a structure: in names of fields whole names alone, so that it stays one that can be read.
    pub(crate) fn hide_structure(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hide(text),
            Value::Array(all) => all.iter_mut().for_each(|value| self.hide_structure(value)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                *fields = old
                    .into_iter()
                    .map(|(name, mut value)| {
                        self.hide_structure(&mut value);
                        (self.hide_field(&name), value)
                    })
                    .collect::<Map<_, _>>();
            }
            _ => {}
        }
    }

    fn hide_field(&self, name: &str) -> String {
        if let Some(hidden) = self.known.get(name) {
            return hidden.clone();
        }
        // `client.NAME`, `rbd_id.NAME`, an address.
        if name.contains(['.', ':', '/', ' ', '\'']) { self.hide(name) } else { name.to_owned() }
    }

    /// Hides what is in a text.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut text = self.odd.iter().fold(text.to_owned(), |text, (name, hidden)| text.replace(name, hidden));
        text = self.hide_objects(&text);
        text = self.hide_quoted(&text);
        text = self.hide_addresses(&text);
        each_run(&text, is_word, |word| self.hide_word(word))
    }

    /// A word: a name as it stands, a name between dots, dashes and underscores, or the name of a client.
    fn hide_word(&self, word: &str) -> String {
        if let Some(hidden) = self.known.get(word) {
            return hidden.clone();
        }
        if let Some(name) = word.strip_prefix("client.").filter(|name| is_name(name)) {
            return format!("client.{}", self.digest("client", name));
        }
        // Where each part begins and ends.
        let joints: Vec<usize> = word.char_indices().filter(|(_, c)| matches!(c, '.' | '-' | '_')).map(|(at, _)| at).collect();
        if joints.is_empty() || joints.len() > 24 {
            return word.to_owned();
        }
        let begins = std::iter::once(0).chain(joints.iter().map(|at| at + 1));
        let runs = begins
            .flat_map(|from| joints.iter().copied().chain([word.len()]).filter(move |to| *to > from).map(move |to| (from, to)));
        let found = runs
            .filter(|(from, to)| to - from > 2 && self.known.contains_key(&word[*from..*to]))
            .max_by_key(|(from, to)| to - from);
        match found {
            Some((from, to)) => {
                format!("{}{}{}", self.hide_word(&word[..from]), self.known[&word[from..to]], self.hide_word(&word[to..]))
            }
            None => word.to_owned(),
        }
    }

    /// Names of objects as operations name them: `osd_op(client.4120.0:7 2.1f NAME [write] e12)`, and `2:f8b0c2a1:::NAME:head`.
    fn hide_objects(&self, text: &str) -> String {
        let mut parts = text.split("osd_op(");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out.push_str("osd_op(");
            let line = part.find('\n').unwrap_or(part.len());
            // Behind who asked, and the group; until what is asked. A name may have spaces.
            let from = part[..line].match_indices(' ').nth(1).map(|(at, _)| at + 1);
            let to = part[..line].rfind(" [");
            match (from, to) {
                (Some(from), Some(to)) if from <= to => {
                    out.push_str(&part[..from]);
                    out.push_str(&self.hide_object(&part[from..to]));
                    out.push_str(&part[to..]);
                }
                _ => out.push_str(part),
            }
        }
        let mut parts = out.split(":::");
        let mut hidden = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find([':', '"', '\n']).unwrap_or(part.len());
            hidden.push_str(":::");
            hidden.push_str(&self.hide_object(&part[..end]));
            hidden.push_str(&part[end..]);
        }
        hidden
    }

    /// An object. Those of block images say no more than the image's id and a number.
    fn hide_object(&self, name: &str) -> String {
        let of_image = ["rbd_data.", "rbd_header.", "rbd_object_map."].iter().any(|head| name.starts_with(head));
        let of_all =
            ["", "rbd_directory", "rbd_children", "rbd_info", "rbd_trash", "rbd_namespace", "rbd_mirroring"].contains(&name);
        if of_image || of_all { name.to_owned() } else { self.digest("object", name) }
    }

    /// Returns the text that stands in quotes.
    fn hide_quoted(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\'') {
            let (before, from) = (&rest[..at], &rest[at + 1..]);
            let opens = !before.chars().next_back().is_some_and(char::is_alphanumeric);
            let quoted = from.find('\'').map(|end| &from[..end]);
            let quoted = quoted.filter(|q| {
                opens && !q.is_empty() && q.len() <= QUOTED && !q.contains('\n') && !q.starts_with(' ') && !q.ends_with(' ')
            });
            out.push_str(before);
            match quoted {
                Some(quoted) => {
                    let hidden = self.known.get(quoted).cloned();
                    let stays = KEPT.contains(&quoted) || quoted.bytes().all(|b| b.is_ascii_digit());
                    out.push_str(&format!(
                        "'{}'",
                        hidden.unwrap_or_else(|| if stays { quoted.to_owned() } else { self.digest("text", quoted) })
                    ));
                    rest = &from[quoted.len() + 1..];
                }
                None => {
                    out.push('\'');
                    rest = from;
                }
            }
        }
        out + rest
    }

    fn hide_addresses(&self, text: &str) -> String {
        each_run(text, |c| c.is_ascii_hexdigit() || c == ':' || c == '.', |run| self.hide_address(run))
    }

    fn hide_address(&self, run: &str) -> String {
        let hidden = |ip: IpAddr, rest: &str| match ip.is_loopback() || ip.is_unspecified() {
            true => format!("{ip}{rest}"),
            false => format!("{}{rest}", self.digest("ip", &ip.to_string())),
        };
        if let Ok(ip) = run.parse::<Ipv6Addr>() {
            return if run.contains("::") || run.matches(':').count() == 7 { hidden(ip.into(), "") } else { run.to_owned() };
        }
        // `10.0.0.1:3300`
        let end = run.find(':').unwrap_or(run.len());
        match run[..end].parse::<std::net::Ipv4Addr>() {
            Ok(ip) => hidden(ip.into(), &run[end..]),
            Err(_) => run.to_owned(),
        }
    }
}

/// Writes a text anew: each longest run of such characters, the empty ones between others too, becomes what `hide` makes of it.
fn each_run(text: &str, is_in: impl Fn(char) -> bool, hide: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_in(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        out.push_str(&hide(run));
        let mut chars = after.chars();
        out.extend(chars.next());
        rest = chars.as_str();
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// Says whether a client is known by a name, not by a number.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !KEPT.contains(&name) && !name.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Names of namespaces and images, those in the trash among them.
fn names_of_images(dir: &Path) -> Result<BTreeSet<(&'static str, String)>> {
    let job = Box::new(move |io: images::Io| -> std::pin::Pin<Box<dyn Future<Output = _>>> {
        Box::pin(async move {
            let mut found = BTreeSet::new();
            for (pool, _) in io.pools()? {
                for nspace in io.namespaces(pool).await? {
                    let at = images::Place::new(pool, nspace.clone());
                    found.insert(("namespace", nspace));
                    found.extend(images::image::names(&io, &at).await?.into_iter().map(|(_, name)| ("image", name)));
                    found.extend(images::trash::names(&io, &at).await?.into_iter().map(|name| ("image", name)));
                }
            }
            images::Result::Ok(found)
        })
    });
    match reading::read(dir, PATIENCE, job)? {
        Ok(found) => Ok(found),
        Err(fail) => bail!("the names of images cannot be read, so they cannot be hidden: {}", fail.what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hider() -> Hider {
        let mut hider = Hider::new("secret");
        for (kind, name) in [
            ("pool", "customers"),
            ("pool", "rbd"),
            ("image", "db-1"),
            ("image", "my disk's"),
            ("image", "7"),
            ("host", "kvm1"),
            ("client", "alice"),
        ] {
            hider.learn(kind, name);
        }
        hider
    }

    #[test]
    fn no_name_is_left_wherever_it_stands() {
        let hider = hider();
        for text in [
            "customers/db-1",
            "pool 'customers' was made",
            "pool 'of former days' was removed",
            "osd_op(client.4120.0:7 2.1f 2:f8b0::::rbd_id.db-1:head [stat])",
            "2:f8b0c2a1:::secrets of alice:head",
            "osd_op(client.4120.0:6 1.4 rbd_id.my disk\\'s [create,call] e11)",
            "slow: osd_op(client.4120.0:6 1.4 of former days [create] e11)",
            "client.alice has it",
            "client.bob has it",
            "nacre-support-kvm1-2026",
            "rbd_id.db-1",
            "an image called my disk's is slow",
            "at 10.1.2.3:3300 and [fd00::17]:6800",
        ] {
            let hidden = hider.hide(text);
            for name in ["customers", "db-1", "former", "alice", "bob", "kvm1", "my disk", "10.1.2.3", "fd00"] {
                assert!(!hidden.contains(name), "{text}: {hidden}");
            }
        }
    }

    #[test]
    fn what_is_no_name_stays() {
        let hider = hider();
        for text in [
            "osd.0 is down for 7 s since 12:34:56, the monitors' state is kept, others' too",
            "version 16.2.15 at 127.0.0.1:3300 of client.4120, client.admin",
            "rbd_data.1234.0000000000000001 2:f8b0c2a1:::rbd_data.1234.0000000000000001:head",
            "pool 'rbd' of 3 copies",
            "osd_op(client.4120.0:6 1.4 rbd_data.10.00ff [write] e11)",
        ] {
            assert_eq!(hider.hide(text), text);
        }
        let mut value = json!({"alice": 1, "write_ops": 2, "client.alice": "customers", "name": ["db-1", 7]});
        hider.hide_structure(&mut value);
        let text = value.to_string();
        assert!(!text.contains("alice") && !text.contains("customers") && !text.contains("db-1"), "{text}");
        assert!(text.contains("\"write_ops\":2") && text.contains(",7]"), "{text}");
    }

    #[test]
    fn the_same_name_looks_the_same_and_only_with_the_same_secret() {
        assert_eq!(hider().hide("db-1"), hider().hide("db-1"));
        let mut other = Hider::new("another");
        other.learn("image", "db-1");
        assert_ne!(other.hide("db-1"), hider().hide("db-1"));
    }
}
