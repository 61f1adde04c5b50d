//! `nacre explain image`: who uses an image, what holds it, what it does, whether it is slow.
//!
//! The image's header says who has it open, who holds its lock, and what it is made of; the leader's picture says what it does. What monitors know
//! alone is not enough, so this program asks as a client of the cluster.

use crate::reading;
use crate::token::administrator;
use anyhow::{Context, Result, bail};
use face::top::plain;
use grammar::units::{bytes, span};
use images::Place;
use images::describe::{Described, describe};
use messages::class::rbd::feature;
use messages::ops::WatchItem;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use types::UTime;

/// Time that the cluster may take.
const PATIENCE: Duration = Duration::from_secs(20);
const PICTURE: Duration = Duration::from_secs(10);
/// Time that names of images take that nobody looked at before.
const NAMES: Duration = Duration::from_secs(3);
/// Most lines of one kind.
const SHOWN: usize = 8;
/// From this many times of what half of the images need on, an image is slow.
const SLOW: f64 = 3.0;

/// An answer as `nacre explain` gives it.
#[derive(Debug, Default)]
struct Told {
    answer: Vec<String>,
    because: Vec<(String, String)>,
    helps: Vec<(String, String)>,
}

impl Told {
    fn because(&mut self, text: String, command: impl Into<String>) {
        self.because.push((text, command.into()));
    }

    fn helps(&mut self, text: impl Into<String>, command: impl Into<String>) {
        self.helps.push((text.into(), command.into()));
    }

    fn text(&self) -> String {
        let mut out = self.answer.iter().map(|line| plain(line) + "\n").collect::<String>();
        for (head, lines) in [("because", &self.because), ("helps", &self.helps)] {
            for (at, (text, command)) in lines.iter().enumerate() {
                out += &format!("  {:<9} {}\n", if at == 0 { head } else { "" }, plain(text));
                if !command.is_empty() {
                    out += &format!("  {:<9} $ {}\n", "", plain(command));
                }
            }
        }
        out
    }

    fn dump(&self) -> Value {
        let lines = |all: &[(String, String)]| {
            all.iter().map(|(text, command)| json!({"text": text, "command": command})).collect::<Vec<_>>()
        };
        json!({"answer": self.answer, "because": lines(&self.because), "helps": lines(&self.helps)})
    }
}

/// Runs `nacre explain image`; gives the exit code.
pub(crate) fn explain(dir: &Path, spec: &str, as_json: bool) -> Result<u8> {
    let parts: Vec<&str> = spec.split('/').collect();
    let (pool, nspace, name) = match parts[..] {
        [pool, name] => (pool, "", name),
        [pool, nspace, name] => (pool, nspace, name),
        _ => bail!("'{}' names no image: as POOL/IMAGE or POOL/NAMESPACE/IMAGE", plain(spec)),
    };
    let (of_pool, of_nspace, of_name) = (pool.to_owned(), nspace.to_owned(), name.to_owned());
    let job = Box::new(move |io: images::work::Io| -> std::pin::Pin<Box<dyn Future<Output = _>>> {
        Box::pin(async move {
            let map = io.map().map_err(|fail| fail.what)?;
            let id = map.pool_name.iter().find(|(_, name)| **name == of_pool).map(|(id, _)| *id);
            let id = id.ok_or_else(|| format!("there is no pool '{of_pool}'"))?;
            let found = describe(&io, &Place::new(id, of_nspace), &of_name).await.map_err(|fail| fail.what)?;
            let fenced: Vec<bool> = found.lock.lockers.values().map(|holder| map.is_blocklisted(&holder.addr)).collect();
            Ok::<_, String>((found, fenced, io.now()))
        })
    });
    let (found, fenced, now) = match reading::read(dir, PATIENCE, job)? {
        Ok(found) => found,
        Err(why) => bail!("{}; `rbd ls {pool}` lists images, `rbd trash ls {pool}` those that were removed", plain(&why)),
    };
    let told = tell(spec, &found, &fenced, now, &picture(dir, pool, nspace, name)?, (pool, nspace, name));
    if as_json {
        println!("{}", serde_json::to_string_pretty(&told.dump())?);
    } else {
        println!("{}", told.text().trim_end());
    }
    Ok(0)
}

/// The leader's picture. It is asked for again if it does not know the image's name yet.
fn picture(dir: &Path, pool: &str, nspace: &str, name: &str) -> Result<Value> {
    let client = administrator(dir)?;
    let ask = || -> Result<Value> {
        let reply = client.command_within(&json!({"prefix": "nacre picture", "images": "all", "format": "json"}), PICTURE);
        let reply = reply.map_err(|failure| failure.sentence(&client))?;
        serde_json::from_str(&reply.output).context("the monitors' answer cannot be read")
    };
    let first = ask()?;
    if figures(&first, pool, nspace, name).is_some() {
        return Ok(first);
    }
    std::thread::sleep(NAMES);
    ask()
}

/// Returns what an image did in the last seconds: per second writes, reads, bytes written and read; nanoseconds of a write and of a read.
fn figures(picture: &Value, pool: &str, nspace: &str, name: &str) -> Option<[f64; 6]> {
    let all = picture["images"].as_array()?;
    let one = all.iter().find(|image| image["pool"] == pool && image["namespace"] == nspace && image["name"] == name)?;
    Some(std::array::from_fn(|at| one["rates"][at].as_f64().unwrap_or(0.0)))
}

/// The time of an operation that half of the images that do something need at most.
fn usual(picture: &Value, at: usize) -> Option<f64> {
    let mut times: Vec<f64> =
        picture["images"].as_array()?.iter().filter_map(|image| image["rates"][at].as_f64()).filter(|time| *time > 0.0).collect();
    times.sort_by(f64::total_cmp);
    // Of two, one is not the usual one.
    (times.len() >= 3).then(|| times[times.len() / 2])
}

fn tell(
    spec: &str,
    found: &Described,
    fenced: &[bool],
    now: UTime,
    picture: &Value,
    (pool, nspace, name): (&str, &str, &str),
) -> Told {
    let mut told = Told::default();
    users(&mut told, spec, found, fenced);
    made_of(&mut told, spec, found, now);
    match figures(picture, pool, nspace, name) {
        None => told.because("nothing was read or written in it since the leading monitor leads".into(), "nacre top"),
        Some([writes, reads, written, read, write_time, read_time]) => {
            let text = format!(
                "in the last seconds: {writes:.0} writes and {reads:.0} reads a second, {} and {} a second",
                bytes(written as u64),
                bytes(read as u64)
            );
            told.because(text, "nacre top");
            for (time, at, what) in [(write_time, 4, "write"), (read_time, 5, "read")] {
                if time <= 0.0 {
                    continue;
                }
                let usual = usual(picture, at);
                let beside = usual
                    .map_or(String::new(), |usual| format!("; half of the images in use need at most {:.1} ms", usual / 1e6));
                told.because(format!("a {what} takes {:.1} ms at the OSDs{beside}", time / 1e6), "");
                if usual.is_some_and(|usual| time > SLOW * usual) {
                    told.answer.push(format!("Its {what}s are slower than those of other images: {:.1} ms.", time / 1e6));
                    told.helps("see whether a disk below it is slow, or its clients write in large pieces", "nacre explain slow");
                }
            }
        }
    }
    told
}

/// Tells who has it open, and who holds its lock.
fn users(told: &mut Told, spec: &str, found: &Described, fenced: &[bool]) {
    let watchers = &found.watchers;
    told.answer.push(match watchers.len() {
        0 => format!("Nobody has image {spec} open."),
        1 => format!("Image {spec} is open at one client: {}.", watchers[0].addr),
        n => format!("Image {spec} is open at {n} clients."),
    });
    for watcher in watchers.iter().take(SHOWN) {
        told.because(format!("{} at {} watches it", watcher.name, watcher.addr), format!("rbd status {spec}"));
    }
    if watchers.len() > SHOWN {
        told.because(format!("{} others watch it", watchers.len() - SHOWN), "");
    }
    for ((holder, info), fenced) in found.lock.lockers.iter().zip(fenced).take(SHOWN) {
        // A lock's record has the address in another form than a watch has it.
        let same = |watcher: &WatchItem| watcher.addr.addr == info.addr.addr && watcher.addr.nonce == info.addr.nonce;
        let lives = watchers.iter().any(|watcher| same(watcher) || watcher.name == holder.locker);
        told.because(
            format!("{} at {} has its lock, '{}'", holder.locker, info.addr, holder.cookie),
            format!("rbd lock ls {spec}"),
        );
        if *fenced {
            told.answer.push(format!(
                "The client that has its lock, {}, is on the blocklist: whoever opens the image next takes the lock.",
                holder.locker
            ));
        } else if !lives {
            told.answer.push(format!(
                "The client that has its lock, {}, does not watch it any more: it died, or cannot be reached. Whoever opens the image next takes the lock.",
                holder.locker
            ));
            told.helps("let nothing of it come late, and take its lock away", format!("ceph osd blocklist add {}", info.addr));
            told.helps("the same", format!("rbd lock rm {spec} '{}' {}", holder.cookie, holder.locker));
        }
    }
    if found.lock.lockers.is_empty() && found.image.features & feature::EXCLUSIVE_LOCK == 0 {
        told.because(
            "it has no exclusive lock: several clients may write at the same time".into(),
            format!("rbd feature enable {spec} exclusive-lock"),
        );
    }
}

/// Tells what it is made of, and what keeps it from being removed.
fn made_of(told: &mut Told, spec: &str, found: &Described, now: UTime) {
    let image = &found.image;
    let clones: u64 = image.snaps.iter().map(|snap| u64::from(snap.info.child_count)).sum();
    told.because(format!("it has {}, in objects named {}.…", bytes(image.size), image.prefix), format!("rbd du {spec}"));
    if let Some(newest) = image.snaps.last() {
        let age = span(u64::from(now.sec.saturating_sub(newest.info.timestamp.sec)));
        let copies = if clones > 0 { format!(", and {clones} clones of them") } else { String::new() };
        let text = format!("it has {} snapshots, the newest made {age} ago{copies}", image.snaps.len());
        told.because(text, format!("rbd snap ls {spec}"));
    }
    if image.parent.is_some() {
        let parent = found.parent.as_ref().map_or_else(|| "an image in the trash".to_owned(), |name| format!("image {name}"));
        told.because(format!("it is a clone of {parent}, and reads what it has not from there"), format!("rbd info {spec}"));
    }
    let mut keeps = Vec::new();
    if !found.watchers.is_empty() {
        keeps.push("it is open".to_owned());
    }
    if !image.snaps.is_empty() {
        keeps.push(if clones > 0 { "it has snapshots with clones".to_owned() } else { "it has snapshots".to_owned() });
    }
    told.answer.push(if keeps.is_empty() {
        "It can be removed.".into()
    } else {
        format!("It cannot be removed now: {}.", keeps.join(", and "))
    });
    if clones > 0 {
        told.helps("let clones stand alone, or remove them", format!("rbd children {spec}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use messages::EntityNum;
    use messages::class::lock::{LockInfo, LockerId, LockerInfo};
    use types::EntityAddr;

    /// An image without snapshots, a client that watches it, and the holder of its lock.
    fn used(watcher: &str, nonce: u32, holder: &str, of_holder: u32) -> Described {
        let addr = |text: &str, nonce| EntityAddr { addr: text.parse().ok(), nonce, ..EntityAddr::default() };
        let at = Place::new(1, "");
        let image = images::Image {
            at: at.clone(),
            id: "5e2a".into(),
            data: at,
            prefix: "rbd_data.5e2a".into(),
            size: 1 << 30,
            layout: images::layout::Layout::plain(22),
            features: feature::EXCLUSIVE_LOCK,
            parent: None,
            overlap: None,
            snapc: objecter::SnapContext::default(),
            snaps: Vec::new(),
        };
        let watchers = vec![WatchItem { name: EntityNum::client(7), cookie: 1, timeout: 30, addr: addr(watcher, nonce) }];
        let locker = LockerId { locker: EntityNum::client(8), cookie: "auto 1".into() };
        let info = LockerInfo { addr: addr(holder, of_holder), ..LockerInfo::default() };
        Described { image, watchers, lock: LockInfo { lockers: [(locker, info)].into(), ..LockInfo::default() }, parent: None }
    }

    #[test]
    fn a_dead_holder_of_a_lock_is_told_from_one_that_lives() {
        let told = |found: &Described, fenced| {
            let mut told = Told::default();
            users(&mut told, "p/i", found, &[fenced]);
            told.text()
        };
        let mut alive = used("10.0.0.1:0", 5, "10.0.0.1:0", 5);
        if let Some(info) = alive.lock.lockers.values_mut().next() {
            info.addr.kind = types::AddrType::Legacy;
        }
        let text = told(&alive, false);
        assert!(text.starts_with("Image p/i is open at one client") && !text.contains("blocklist"), "{text}");
        // Another process at the same host holds it no more.
        for dead in [used("10.0.0.1:0", 5, "10.0.0.1:0", 6), used("10.0.0.1:0", 5, "10.0.0.2:0", 5)] {
            let text = told(&dead, false);
            assert!(text.contains("does not watch it any more") && text.contains("rbd lock rm p/i 'auto 1' client.8"), "{text}");
            assert!(told(&dead, true).contains("is on the blocklist: whoever opens"), "{text}");
        }
    }

    #[test]
    fn slow_is_what_is_slower_than_others() {
        let image =
            |name: &str, time: f64| json!({"pool": "p", "namespace": "", "name": name, "rates": [10, 0, 4096, 0, time, 0]});
        let picture = json!({"images": [image("a", 1e6), image("b", 1.1e6), image("c", 9e6), image("idle", 0.0)]});
        assert_eq!(figures(&picture, "p", "", "c").map(|all| all[4]), Some(9e6));
        assert_eq!(figures(&picture, "p", "n", "c"), None);
        assert_eq!(usual(&picture, 4), Some(1.1e6));
        assert_eq!((usual(&picture, 5), usual(&Value::Null, 4)), (None, None));
    }
}
