//! The schedules of all levels, and the loop that does what they say.

use super::levels::{self, Level};
use super::reach::{self, By};
use super::schedule::{self, Interval, Schedule, StartTime};
use super::text::indented;
use super::{Desk, Kind, answer, refused};
use grammar::{Outcome, Refusal, Reply, refuse};
use images::{Fail, Io, Place, Progress, image, mirror, remove};
use monstate::state::Change;
use node::Level as LogLevel;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, PoolId};

/// Seconds after which pools, namespaces and images are listed anew.
const REFRESH: u64 = 60;

/// Target of a schedule: the trash of a pool and namespace, or an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    pool: PoolId,
    nspace: String,
    image: Option<String>,
}

/// Time when a target is due, and its name.
#[derive(Clone, Debug)]
struct Due {
    at: u64,
    name: String,
}

/// All schedules of one kind.
pub(super) struct Schedules {
    kind: Kind,
    by_key: BTreeMap<String, (Level, Schedule)>,
    targets: BTreeMap<Target, Due>,
    /// Targets that are being worked on.
    busy: BTreeSet<Target>,
    /// Number of changes by orders. What was read before the last one is out of date.
    version: u64,
    refreshed: u64,
    at_work: bool,
}

impl Schedules {
    pub(super) fn new(kind: Kind) -> Self {
        let (by_key, targets, busy) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { kind, by_key, targets, busy, version: 0, refreshed: 0, at_work: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Gives the schedule that counts for a target: the one of the smallest level around it.
    fn find(&self, target: &Target) -> Option<&Schedule> {
        self.around(target).map(|(_, schedule)| schedule)
    }

    fn around(&self, target: &Target) -> Option<&(Level, Schedule)> {
        let covers = |level: &Level| level.covers(Some(target.pool), Some(&target.nspace), target.image.as_deref());
        let around = self.by_key.values().filter(|(level, _)| covers(level));
        around.max_by_key(|(level, _)| level.depth())
    }

    /// Lists the schedules of a level and of all within it. If it has none of its own, also the one that it inherits.
    fn list(&self, level: &Level) -> Value {
        let own = self.by_key.contains_key(&level.key());
        let mut inherited: Option<&Level> = None;
        for (other, _) in self.by_key.values().filter(|(other, _)| !own && level.is_within(other)) {
            if inherited.is_none_or(|i| other.is_within(i)) {
                inherited = Some(other);
            }
        }
        let mut all = Map::new();
        for (key, (other, schedule)) in &self.by_key {
            if other.key() == level.key() || inherited == Some(other) || other.is_within(level) {
                all.insert(key.clone(), json!({"name": other.name, "schedule": schedule.to_json()}));
            }
        }
        all.into()
    }

    /// Gives the targets of a pool and namespace that were found last, with their names.
    fn known_in(&self, at: &Place) -> Vec<(Target, String)> {
        let here = self.targets.iter().filter(|(target, _)| target.pool == at.pool && target.nspace == at.nspace);
        here.map(|(target, due)| (target.clone(), due.name.clone())).collect()
    }

    /// Takes in which targets exist. `anew`: the times of those that are not due yet are computed again.
    fn retarget(&mut self, found: BTreeMap<Target, String>, now: types::UTime, anew: bool) {
        let mut targets = BTreeMap::new();
        for (target, name) in found {
            let before = self.targets.get(&target).map(|due| due.at).filter(|at| !anew || *at <= u64::from(now.sec));
            let Some(next) = self.find(&target).and_then(|schedule| schedule.next(now)) else { continue };
            targets.insert(target, Due { at: before.unwrap_or(next), name });
        }
        self.targets = targets;
    }

    fn status(&self, level: &Level, io: &Io) -> Value {
        let mut due: Vec<(&Target, &Due)> = self.targets.iter().collect();
        due.sort_by_key(|(_, due)| due.at);
        let shown = due.into_iter().filter(|(t, _)| level.matches(t.pool, &t.nspace, t.image.as_deref()));
        let map = io.map().ok();
        let pool_name = |pool: &PoolId| map.as_ref().and_then(|m| m.pool_name.get(pool).cloned()).unwrap_or_default();
        match self.kind {
            Kind::Purge => {
                let row = |(t, due): (&Target, &Due)| json!({"schedule_time": schedule::shown(due.at), "pool_id": t.pool.to_string(), "pool_name": pool_name(&t.pool), "namespace": t.nspace});
                json!({"scheduled": shown.map(row).collect::<Value>()})
            }
            Kind::Mirror => {
                let row = |(_, due): (&Target, &Due)| json!({"schedule_time": schedule::shown(due.at), "image": due.name});
                json!({"scheduled_images": shown.map(row).collect::<Value>()})
            }
        }
    }
}

/// Carries out what is ordered about schedules.
pub(super) async fn carry_out(desk: &Desk, kind: Kind, level: &str, plan: super::Plan, by: &By) -> (Outcome, Vec<Change>) {
    match carry_out_at(desk, kind, level, plan, by).await {
        Ok((reply, changes)) => (Ok(reply), changes),
        Err(refusal) => (Err(refusal), Vec::new()),
    }
}

async fn carry_out_at(desk: &Desk, kind: Kind, level: &str, plan: super::Plan, by: &By) -> Result<(Reply, Vec<Change>), Refusal> {
    use super::Plan;
    let level = levels::by_name(desk.io(), kind, level).await?;
    let all = desk.schedules(kind);
    match plan {
        Plan::List => Ok((answer(indented(&all.borrow().list(&level)))?, Vec::new())),
        Plan::Status => Ok((answer(indented(&all.borrow().status(&level, desk.io())))?, Vec::new())),
        Plan::Add { interval, start } => {
            let (interval, start) = (Interval::parse(&interval)?, start_time(start.as_deref())?);
            let mut schedule = all.borrow().by_key.get(&level.key()).map(|(_, s)| s.clone()).unwrap_or_default();
            schedule.add(interval, start);
            change(desk, kind, level, Some(schedule), by).await
        }
        Plan::Remove { interval, start } => {
            let before = all.borrow().by_key.get(&level.key()).map(|(_, s)| s.clone());
            let left = match (before, interval) {
                // As in Ceph, that is an error only if the pool never had a schedule.
                (None, _) => None,
                (Some(_), None) => None,
                (Some(mut schedule), Some(interval)) => {
                    schedule.remove(Interval::parse(&interval)?, start_time(start.as_deref())?);
                    Some(schedule).filter(|s| !s.is_empty())
                }
            };
            change(desk, kind, level, left, by).await
        }
    }
}

fn start_time(text: Option<&str>) -> Result<Option<StartTime>, Refusal> {
    text.filter(|t| !t.is_empty()).map(StartTime::parse).transpose()
}

/// Stores the schedule that a level has from now on. Then it counts.
async fn change(
    desk: &Desk,
    kind: Kind,
    level: Level,
    schedule: Option<Schedule>,
    by: &By,
) -> Result<(Reply, Vec<Change>), Refusal> {
    let text = schedule.as_ref().map(|s| indented(&s.to_json()));
    let note = note(kind, &level);
    let mut changes = vec![if text.is_some() { reach::note(&note, by, "") } else { reach::forget(&note) }];
    match (level.pool, text) {
        (None, text) => {
            let set = vec![("mgr".to_owned(), kind.option().to_owned(), text)];
            changes.push(Change::Config { by: "mgr".into(), set });
        }
        (Some(pool), Some(text)) => {
            desk.io().omap_set(&Place::new(pool, ""), kind.object(), level.key(), text).await.map_err(refused)?
        }
        (Some(pool), None) => erase(desk.io(), kind, pool, level.key()).await?,
    }
    {
        let mut all = desk.schedules(kind).borrow_mut();
        match schedule {
            Some(schedule) => drop(all.by_key.insert(level.key(), (level, schedule))),
            None => drop(all.by_key.remove(&level.key())),
        }
        all.version += 1;
    }
    retarget(desk, kind, true).await.map_err(refused)?;
    work(desk, kind);
    Ok((Reply::default(), changes))
}

/// The name under which the monitors keep who set the schedule of a level.
fn note(kind: Kind, level: &Level) -> String {
    format!("{}/{}", kind.object(), level.key())
}

async fn erase(io: &Io, kind: Kind, pool: PoolId, key: String) -> Result<(), Refusal> {
    match io.omap_remove(&Place::new(pool, ""), kind.object(), key).await {
        Err(fail) if fail.errno == Errno::ENOENT => {
            refuse!(ENOENT, "[errno 2] RADOS object not found (Failed to operate write op for oid {})", kind.object())
        }
        other => other.map_err(refused),
    }
}

/// Begins to load the schedules that were ordered before.
pub(super) async fn begin(desk: &Desk, kind: Kind) {
    if let Err(fail) = refresh(desk, kind).await {
        desk.say(LogLevel::Error, format!("{} cannot be read: {fail}", kind.object()));
    }
    work(desk, kind);
}

/// Reads all schedules and lists what they are about.
async fn refresh(desk: &Desk, kind: Kind) -> Result<(), Fail> {
    let version = desk.schedules(kind).borrow().version;
    let read = load(desk, kind).await?;
    {
        let mut all = desk.schedules(kind).borrow_mut();
        if all.version == version {
            all.by_key = read;
        }
        all.refreshed = u64::from(desk.io().now().sec);
    }
    retarget(desk, kind, false).await
}

async fn load(desk: &Desk, kind: Kind) -> Result<BTreeMap<String, (Level, Schedule)>, Fail> {
    let io = desk.io();
    let mut found = BTreeMap::new();
    if let Some(schedule) = desk.global(kind).and_then(|text| Schedule::from_json(&text)) {
        found.insert(String::new(), (Level::default(), schedule));
    }
    for (pool, pool_name) in io.pools()? {
        let at = Place::new(pool, "");
        let stored = match io.omap(&at, kind.object()).await {
            Err(fail) if fail.errno == Errno::EFBIG => {
                desk.say(LogLevel::Error, format!("schedules of pool {pool_name} cannot be read: {fail}"));
                continue;
            }
            other => other?,
        };
        for (key, value) in stored {
            let key = String::from_utf8_lossy(&key).into_owned();
            // Whoever may write in a pool says nothing about another one.
            if key.split('/').next().and_then(|id| id.parse().ok()) != Some(pool) {
                desk.say(LogLevel::Warn, format!("schedule {} of pool {pool_name} is for no part of it; it stays", shown(&key)));
                continue;
            }
            match levels::by_key(io, kind, &key).await {
                Ok(level) => match std::str::from_utf8(&value).ok().and_then(Schedule::from_json) {
                    Some(schedule) => drop(found.insert(key, (level, schedule))),
                    None => {
                        desk.say(LogLevel::Warn, format!("schedule {} of pool {pool_name} cannot be read; it stays", shown(&key)))
                    }
                },
                // What the schedule was for is gone.
                Err(why) if why.errno == Errno::EINVAL => io.omap_remove(&at, kind.object(), key).await?,
                // What one image says of itself stops no other one's schedule.
                Err(why) => {
                    desk.say(
                        LogLevel::Warn,
                        format!("schedule {} of pool {pool_name} cannot be used now: {}", shown(&key), why.text),
                    );
                    let before = desk.schedules(kind).borrow().by_key.get(&key).cloned();
                    found.extend(before.map(|before| (key, before)));
                }
            }
        }
    }
    Ok(found)
}

/// A key as it may stand in the log: others wrote it.
fn shown(key: &str) -> String {
    key.chars().take(64).collect::<String>().escape_default().to_string()
}

/// Lists the pools, namespaces or images that the schedules are about.
async fn retarget(desk: &Desk, kind: Kind, anew: bool) -> Result<(), Fail> {
    let io = desk.io();
    let mut found = BTreeMap::new();
    if !desk.schedules(kind).borrow().is_empty() {
        for (pool, pool_name) in io.pools()? {
            let wanted = |nspace: Option<&str>| {
                let all = desk.schedules(kind).borrow();
                all.by_key.values().any(|(l, _)| {
                    l.pool.is_none_or(|p| p == pool) && (nspace.is_none() || l.nspace.is_none() || l.nspace.as_deref() == nspace)
                })
            };
            if !wanted(None) {
                continue;
            }
            for nspace in io.namespaces(pool).await? {
                if !wanted(Some(&nspace)) {
                    continue;
                }
                let at = Place::new(pool, nspace);
                // A place whose images cannot be listed keeps those that it had.
                match targets(io, kind, &at, &pool_name).await {
                    Ok(here) => found.extend(here),
                    Err(fail) => {
                        desk.say(LogLevel::Warn, format!("images of pool {pool_name}, namespace '{}': {fail}", at.nspace));
                        found.extend(desk.schedules(kind).borrow().known_in(&at));
                    }
                }
            }
        }
    }
    desk.schedules(kind).borrow_mut().retarget(found, io.now(), anew);
    Ok(())
}

async fn targets(io: &Io, kind: Kind, at: &Place, pool_name: &str) -> Result<BTreeMap<Target, String>, Fail> {
    let mut found = BTreeMap::new();
    let target = |image| Target { pool: at.pool, nspace: at.nspace.clone(), image };
    if kind == Kind::Purge {
        found.insert(target(None), pool_name.to_owned());
        return Ok(found);
    }
    let primaries = mirror::primaries(io, at).await?;
    if primaries.is_empty() {
        return Ok(found);
    }
    let names: BTreeMap<String, String> = image::names(io, at).await?.into_iter().collect();
    for id in primaries {
        let Some(name) = names.get(&id) else { continue };
        let within = if at.nspace.is_empty() { pool_name.to_owned() } else { format!("{pool_name}/{}", at.nspace) };
        found.insert(target(Some(id)), format!("{within}/{name}"));
    }
    Ok(found)
}

/// Starts the loop if there are schedules and it does not run.
fn work(desk: &Desk, kind: Kind) {
    let mut all = desk.schedules(kind).borrow_mut();
    if all.is_empty() || std::mem::replace(&mut all.at_work, true) {
        return;
    }
    drop(all);
    let desk = desk.clone();
    desk.clone().spawn(async move {
        while !desk.schedules(kind).borrow().is_empty() {
            let now = u64::from(desk.io().now().sec);
            if now >= desk.schedules(kind).borrow().refreshed + REFRESH
                && let Err(fail) = refresh(&desk, kind).await
            {
                desk.schedules(kind).borrow_mut().refreshed = now;
                desk.say(LogLevel::Warn, format!("{} cannot be looked at: {fail}", kind.object()));
            }
            start_due(&desk, kind);
            desk.pause().await;
        }
        desk.schedules(kind).borrow_mut().at_work = false;
    });
}

/// Begins all that is due, each as a job of its own.
fn start_due(desk: &Desk, kind: Kind) {
    let now = desk.io().now();
    let mut all = desk.schedules(kind).borrow_mut();
    let due: Vec<Target> = all.targets.iter().filter(|(_, d)| d.at <= u64::from(now.sec)).map(|(t, _)| t.clone()).collect();
    for target in due {
        match all.find(&target).and_then(|schedule| schedule.next(now)) {
            Some(next) => drop(all.targets.get_mut(&target).map(|due| due.at = next)),
            None => drop(all.targets.remove(&target)),
        }
        // Work that takes longer than its interval is not begun twice.
        if !all.busy.insert(target.clone()) {
            continue;
        }
        let desk = desk.clone();
        desk.clone().spawn(async move {
            run(&desk, kind, &target).await;
            desk.schedules(kind).borrow_mut().busy.remove(&target);
        });
    }
}

/// Returns who set the schedule that counts for a target.
fn by(desk: &Desk, kind: Kind, target: &Target) -> By {
    let all = desk.schedules(kind).borrow();
    let Some((level, _)) = all.around(target) else { return By::Nobody };
    match reach::noted(&desk.0.keys.borrow(), &note(kind, level), "") {
        By::Nobody if level.pool.is_none() => By::Everybody,
        by => by,
    }
}

async fn run(desk: &Desk, kind: Kind, target: &Target) {
    let at = Place::new(target.pool, target.nspace.clone());
    let by = by(desk, kind, target);
    let io = &desk.io_for(&by, &at);
    match (kind, &target.image) {
        (Kind::Mirror, Some(id)) => match mirror::make_snapshot(io, &at, id).await {
            Ok(snap) => desk.say(LogLevel::Debug, format!("image {id} has mirror snapshot {snap}")),
            Err(fail) => desk.say(LogLevel::Warn, format!("image {id} gets no mirror snapshot: {fail}")),
        },
        _ => match remove::purge(io, &at, &Progress::default()).await {
            Ok((removed, failed)) => {
                if removed > 0 {
                    desk.say(LogLevel::Info, format!("trash of pool {}: {removed} images removed", target.pool));
                }
                failed.into_iter().for_each(|fail| desk.say(LogLevel::Warn, format!("trash of pool {}: {fail}", target.pool)));
            }
            Err(fail) => desk.say(LogLevel::Warn, format!("trash of pool {} is not purged: {fail}", target.pool)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::UTime;

    fn level(pool: Option<PoolId>, nspace: Option<&str>, image: Option<&str>, name: &str) -> Level {
        Level { pool, nspace: nspace.map(str::to_owned), image: image.map(str::to_owned), name: name.into() }
    }

    fn with(levels: &[(Level, &str)]) -> Schedules {
        let mut all = Schedules::new(Kind::Mirror);
        for (level, interval) in levels {
            let mut schedule = Schedule::default();
            schedule.add(Interval::parse(interval).unwrap(), None);
            all.by_key.insert(level.key(), (level.clone(), schedule));
        }
        all
    }

    fn target(pool: PoolId, nspace: &str, image: &str) -> Target {
        Target { pool, nspace: nspace.into(), image: Some(image.into()) }
    }

    #[test]
    fn the_smallest_level_around_holds() {
        let all = with(&[
            (level(None, None, None, ""), "1d"),
            (level(Some(12), None, None, "p/"), "2d"),
            (level(Some(12), Some("n"), None, "p/n/"), "3d"),
            (level(Some(12), Some("n"), Some("ff"), "p/n/i"), "4d"),
        ]);
        let found = |t: Target| all.find(&t).map(|s| s.to_json()[0]["interval"].clone());
        assert_eq!(found(target(12, "n", "ff")), Some(json!("4d")));
        assert_eq!(found(target(12, "n", "aa")), Some(json!("3d")));
        assert_eq!(found(target(12, "", "ff")), Some(json!("2d")));
        assert_eq!(found(target(1, "n", "ff")), Some(json!("1d")));
        assert_eq!(with(&[(level(Some(12), None, None, "p/"), "2d")]).find(&target(1, "", "ff")), None);
    }

    #[test]
    fn lists_have_the_inherited_one_and_all_within() {
        let (pool, nspace, other) =
            (level(Some(1), None, None, "p/"), level(Some(1), Some("n"), None, "p/n/"), level(Some(2), None, None, "q/"));
        let all = with(&[(pool.clone(), "2d"), (nspace.clone(), "3d"), (other.clone(), "1d")]);
        let keys = |level: &Level| all.list(level).as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&level(None, None, None, "")), "1 1/n 2");
        assert_eq!(keys(&pool), "1 1/n");
        assert_eq!(keys(&nspace), "1/n");
        assert_eq!(keys(&level(Some(1), Some("m"), None, "p/m/")), "1");
        assert_eq!(keys(&level(Some(1), Some("n"), Some("f"), "p/n/i")), "1/n");
        assert_eq!(keys(&level(Some(3), None, None, "r/")), "");
    }

    #[test]
    fn times_stay_until_somebody_changes_the_schedule() {
        let mut all = with(&[(level(None, None, None, ""), "1h")]);
        let found = || BTreeMap::from([(target(1, "", "a"), "p/a".to_owned())]);
        all.retarget(found(), UTime { sec: 3000, nsec: 0 }, false);
        let at = |all: &Schedules| all.targets.values().next().unwrap().at;
        assert_eq!(at(&all), 3600);
        // What became due while nobody looked stays due.
        all.retarget(found(), UTime { sec: 4000, nsec: 0 }, false);
        assert_eq!(at(&all), 3600);
        all.retarget(found(), UTime { sec: 4000, nsec: 0 }, true);
        assert_eq!(at(&all), 3600);
        all.targets.values_mut().for_each(|due| due.at = 7200);
        all.by_key.values_mut().for_each(|(_, s)| s.add(Interval::parse("10m").unwrap(), None));
        all.retarget(found(), UTime { sec: 4000, nsec: 0 }, true);
        assert_eq!(at(&all), 4200);
        all.retarget(BTreeMap::new(), UTime { sec: 4000, nsec: 0 }, false);
        assert!(all.targets.is_empty());
    }
}
