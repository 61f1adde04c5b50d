//! What the cluster did: figures of the last day, in a bounded memory, and when pools will be full.
//!
//! *Two rings for a figure.* The last half hour in steps of [`FINE_SECS`], for what the whole cluster does; the last day in steps of
//! [`COARSE_SECS`], for pools, too. A step is the mean of what was seen in it, and nothing where nobody led. Steps are counted by the clock of the
//! day, so those of several leaders fit together.
//!
//! *A change of the leader.* Fine steps are gone with a leader. Of the coarse ones a mean of [`KEPT_SECS`] is kept with the monitors' state, under
//! `config-key` [`PLACE`]`N`: [`CHUNKS`] values of [`STEPS`] steps each, the oldest written over. A new leader, and a cluster that starts again,
//! begin with these. That is a value of some kilobytes each quarter of an hour, whatever the cluster does.
//!
//! *Bounds*: [`POOLS`] pools, those with most data; [`KEPT_POOLS`] of them are kept. [`bytes_at_most`] says what all takes.
//!
//! *Images and disks* have the last day, too, in the leader's memory alone: [`IMAGES`] images, the busiest, and [`OSDS`] OSDs.
//!
//! *When is a pool full?* When the OSD that is full first takes no more, which [`crate::room::room`] follows. [`forecast`] says how that
//! is foretold.

pub mod forecast;
mod many;
mod ring;

use crate::figures::{Image, Images};
use crate::room::room;
use crate::soft::Soft;
use bytes::Bytes;
use forecast::Forecast;
use many::Many;
use monstate::state::{Change, State};
use node::Now;
use ring::Ring;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PoolId};

/// Seconds of a fine step, and how many there are: half an hour.
pub const FINE_SECS: u64 = 10;
const FINE: usize = 180;
/// Seconds of a coarse step, and how many there are: a day.
pub const COARSE_SECS: u64 = 60;
const COARSE: usize = 1440;
/// Seconds of a step that is kept.
pub const KEPT_SECS: u64 = 900;
/// Steps of a value that is kept, and how many values there are: a day.
const STEPS: u64 = 12;
const CHUNKS: u64 = 8;
/// Beginning of the keys under which they are kept.
pub const PLACE: &str = "nacre/history/";
/// Most pools that have a history, and most of which it is kept.
pub const POOLS: usize = 64;
const KEPT_POOLS: usize = 32;
/// Most images that have a history.
pub const IMAGES: usize = 200;
/// Most OSDs that have one.
pub const OSDS: usize = 1024;
/// Seconds of a step as people see it, of images and OSDs, and how many.
const SHOWN_SECS: u64 = 1800;
const SHOWN: u64 = 48;
/// Most bytes of a value that is read.
const MOST_BYTES: usize = 64 << 10;

/// Figures of the cluster: bytes in use and in all, rates per second, mean microseconds of a durable write.
const OF_CLUSTER: [&str; 8] =
    ["used", "total", "read_ops", "write_ops", "read_bytes", "write_bytes", "recovery_bytes", "commit_us"];
/// Figures of a pool: bytes of data, bytes that clients can still write, rates per second.
const OF_POOLS: [&str; 6] = ["stored", "room", "read_ops", "write_ops", "read_bytes", "write_bytes"];

/// Returns the most bytes that all rings take.
pub fn bytes_at_most() -> usize {
    let values = OF_CLUSTER.len() * (FINE + COARSE) + 2 * POOLS * OF_POOLS.len() * COARSE;
    values * size_of::<f32>() + OfImages::bytes_at_most(IMAGES) + OfOsds::bytes_at_most(OSDS)
}

/// Of an image: operations, writes, nanoseconds of a write.
type OfImages = Many<Image, 3>;
/// Of an OSD: the share of it that is in use, microseconds of a durable write.
type OfOsds = Many<OsdId, 2>;

/// A figure: of a pool, or of the cluster.
type Name = (Option<PoolId>, &'static str);

fn written((pool, figure): &Name) -> String {
    pool.map_or_else(|| (*figure).to_owned(), |pool| format!("{pool}.{figure}"))
}

fn read(text: &str) -> Option<Name> {
    let find = |list: &[&'static str], text: &str| list.iter().find(|figure| **figure == text).copied();
    match text.split_once('.') {
        None => Some((None, find(&OF_CLUSTER, text)?)),
        Some((pool, figure)) => Some((Some(pool.parse().ok()?), find(&OF_POOLS, figure)?)),
    }
}

/// The history of one figure.
#[derive(Clone, Debug)]
struct Series {
    fine: Ring,
    coarse: Ring,
    /// The coarse step that is being filled: its number, the sum of what was seen, how often.
    filling: (u64, f64, u32),
}

impl Series {
    fn new() -> Self {
        Self { fine: Ring::new(FINE), coarse: Ring::new(COARSE), filling: (0, 0.0, 0) }
    }

    /// Takes what is seen at a time, in seconds.
    fn see(&mut self, secs: u64, value: f64, fine: bool) {
        if fine {
            self.fine.put(secs / FINE_SECS, value);
        }
        let step = secs / COARSE_SECS;
        if step != self.filling.0 {
            self.filling = (step, 0.0, 0);
        }
        self.filling.1 += value;
        self.filling.2 += 1;
        self.coarse.put(step, self.filling.1 / f64::from(self.filling.2));
    }
}

/// The history of a cluster.
#[derive(Clone, Debug)]
pub struct History {
    series: BTreeMap<Name, Series>,
    images: OfImages,
    osds: OfOsds,
    /// The fine step that was seen last.
    seen: Option<u64>,
    /// The kept step that was written last, or in which this leader began.
    kept: Option<u64>,
    /// Time when this leader began, in seconds: a step that it saw in part is not kept.
    began: u64,
    forecasts: BTreeMap<PoolId, Forecast>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            series: BTreeMap::new(),
            images: Many::new(IMAGES),
            osds: Many::new(OSDS),
            seen: None,
            kept: None,
            began: 0,
            forecasts: BTreeMap::new(),
        }
    }
}

impl History {
    /// Follows the time. Gives what is to be durable now.
    pub fn tick(&mut self, now: Now, state: &State, soft: &Soft, images: &Images) -> Vec<Change> {
        let secs = u64::from(now.wall.sec);
        if self.seen == Some(secs / FINE_SECS) {
            return Vec::new();
        }
        self.seen = Some(secs / FINE_SECS);
        let begins = self.kept.is_none();
        if begins {
            self.recall(state.keys.range(PLACE.to_owned()..).map_while(|(key, value)| key.starts_with(PLACE).then_some(value)));
            (self.kept, self.began) = (Some(secs / KEPT_SECS), secs);
        }
        self.look(secs, state, soft);
        self.look_at_many(secs, state, soft, images);
        if begins {
            self.foretell(secs);
        }
        self.keep(secs)
    }

    fn look(&mut self, secs: u64, state: &State, soft: &Soft) {
        let (space, rates) = (soft.total_space(state), soft.rates(None));
        let pace = soft.pace(None);
        let copied = if pace.secs > 0.0 { pace.bytes as f64 / pace.secs } else { 0.0 };
        let up = soft.osds.iter().filter(|(osd, _)| state.osdmap.is_up(**osd)).filter_map(|(_, osd)| osd.report.as_ref());
        let times: Vec<f64> = up.map(|report| f64::from(report.commit_latency_us)).filter(|us| *us > 0.0).collect();
        let mean = if times.is_empty() { 0.0 } else { times.iter().sum::<f64>() / times.len() as f64 };
        let all = [
            space.total.saturating_sub(space.available) as f64,
            space.total as f64,
            rates.read_ops as f64,
            rates.write_ops as f64,
            rates.read_bytes as f64,
            rates.write_bytes as f64,
            copied,
            mean,
        ];
        for (figure, value) in OF_CLUSTER.into_iter().zip(all) {
            // Before OSDs have reported, nothing is known of space.
            if space.total > 0 || !matches!(figure, "used" | "total") {
                self.see(secs, (None, figure), value);
            }
        }
        for id in self.shown(secs, state, soft) {
            let Some(pool) = state.osdmap.pool(id) else { continue };
            let rates = soft.rates(Some(id));
            let values = [
                soft.pool_sum(id).num_bytes.max(0) as f64,
                room(state, soft, id, pool).map_or(f64::NAN, |room| room.bytes as f64),
                rates.read_ops as f64,
                rates.write_ops as f64,
                rates.read_bytes as f64,
                rates.write_bytes as f64,
            ];
            for (figure, value) in OF_POOLS.into_iter().zip(values) {
                self.see(secs, (Some(id), figure), value);
            }
        }
    }

    /// Looks at images and OSDs.
    fn look_at_many(&mut self, secs: u64, state: &State, soft: &Soft, images: &Images) {
        let busy = images.busiest(IMAGES * 2).into_iter().map(|(image, rates)| {
            let takes = if rates[4] > 0.0 { rates[4] } else { f64::NAN };
            (image, [rates[0] + rates[1], rates[0], takes])
        });
        let busy: Vec<_> = busy.collect();
        self.images.look(secs, &busy, |image| state.osdmap.pool(image.pool).is_some());
        let of_osds = soft.osds.iter().filter(|(osd, _)| state.osdmap.is_up(**osd)).map(|(osd, told)| {
            let space = soft.space(*osd);
            let used = 1.0 - space.available as f64 / space.total.max(1) as f64;
            let takes = told.report.as_ref().map_or(0, |report| report.commit_latency_us);
            // One that is empty is known all the same.
            (*osd, [used.max(1e-6), if takes > 0 { f64::from(takes) } else { f64::NAN }])
        });
        let of_osds: Vec<_> = of_osds.collect();
        self.osds.look(secs, &of_osds, |osd| state.osdmap.exists(*osd));
    }

    /// Returns the last day of an image, for people: `{"ops": […], "write_ops": […], "write_ns": […]}` in steps of half an hour. None of one that was
    /// not among the busiest.
    pub fn of_image(&self, secs: u64, image: &Image) -> Option<Value> {
        let told = |figure: usize| self.images.told(image, figure, secs, SHOWN, SHOWN_SECS).map(shown);
        Some(json!({"ops": told(0)?, "write_ops": told(1)?, "write_ns": told(2)?}))
    }

    /// Returns the last day of an OSD, for people: `{"used": […], "commit_us": […]}` in steps of half an hour.
    pub fn of_osd(&self, secs: u64, osd: OsdId) -> Option<Value> {
        let told = |figure: usize| self.osds.told(&osd, figure, secs, SHOWN, SHOWN_SECS).map(shown);
        Some(json!({"used": told(0)?, "commit_us": told(1)?}))
    }

    /// Returns the time that durable writes of an OSD took in the last day: the mean of it, and the longest five minutes, in microseconds; and seconds of which that
    /// is known.
    pub fn writes_of(&self, osd: OsdId) -> Option<(f64, f64, u64)> {
        let (mean, most) = self.osds.day(&osd, 1)?;
        Some((mean, most, self.osds.known(&osd)))
    }

    /// Returns the pools that are looked at: those with most data. Forgets those that are gone, and those of which nothing was seen for a day.
    fn shown(&mut self, secs: u64, state: &State, soft: &Soft) -> Vec<PoolId> {
        let oldest = (secs / COARSE_SECS).saturating_sub(COARSE as u64);
        self.series.retain(|(pool, _), series| {
            pool.is_none_or(|pool| state.osdmap.pool(pool).is_some()) && series.coarse.newest().is_some_and(|at| at >= oldest)
        });
        self.forecasts.retain(|pool, _| state.osdmap.pool(*pool).is_some());
        let mut pools: Vec<PoolId> = state.osdmap.pools.keys().copied().collect();
        if pools.len() > POOLS {
            pools.sort_by_key(|id| (std::cmp::Reverse(soft.pool_sum(*id).num_bytes), *id));
            pools.truncate(POOLS);
        }
        let known: BTreeSet<PoolId> = self.series.keys().filter_map(|(pool, _)| *pool).collect();
        // Pools whose order changes all day have no more than twice the room.
        pools.retain(|id| known.contains(id) || known.len() < 2 * POOLS);
        pools
    }

    fn see(&mut self, secs: u64, name: Name, value: f64) {
        if value.is_finite() {
            self.series.entry(name).or_insert_with(Series::new).see(secs, value, name.0.is_none());
        }
    }

    /// Keeps the last step once it is over, if this leader saw all of it: a cluster that lives for minutes leaves nothing.
    fn keep(&mut self, secs: u64) -> Vec<Change> {
        let now = secs / KEPT_SECS;
        if self.kept.is_none_or(|kept| kept == now) {
            return Vec::new();
        }
        self.kept = Some(now);
        self.foretell(secs);
        let last = now.saturating_sub(1);
        if self.began > last * KEPT_SECS {
            return Vec::new();
        }
        let first = last - last % STEPS;
        let mut of_pools: Vec<(f64, PoolId)> = self
            .series
            .iter()
            .filter_map(|((pool, figure), series)| (*figure == "stored").then(|| Some((series.coarse.last()?, (*pool)?)))?)
            .collect();
        of_pools.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let kept: BTreeSet<PoolId> = of_pools.into_iter().take(KEPT_POOLS).map(|(_, id)| id).collect();
        let mut lines = Vec::new();
        for (name, series) in self.series.iter().filter(|((pool, _), _)| pool.is_none_or(|pool| kept.contains(&pool))) {
            let steps: Vec<Option<f64>> = (first..=last).map(|step| mean(&series.coarse, step)).collect();
            if steps.iter().any(Option::is_some) {
                let steps: Vec<String> = steps.iter().map(|v| v.map_or("null".into(), |v| format!("{v:.5e}"))).collect();
                lines.push(format!("\"{}\":[{}]", written(name), steps.join(",")));
            }
        }
        let value = format!("{{\"version\":1,\"from\":{first},\"series\":{{{}}}}}", lines.join(","));
        let key = format!("{PLACE}{}", first / STEPS % CHUNKS);
        vec![Change::Key { key, value: Some(Bytes::from(value)) }]
    }

    /// Takes what was kept. What is no history is left out: it may come from a hand.
    fn recall<'a>(&mut self, kept: impl Iterator<Item = &'a Bytes>) {
        let mut found: Vec<(u64, Value)> = kept
            .take(CHUNKS as usize)
            .filter(|bytes| bytes.len() <= MOST_BYTES)
            .filter_map(|bytes| serde_json::from_slice::<Value>(bytes).ok())
            .filter(|value| value["version"] == 1)
            .filter_map(|value| Some((value["from"].as_u64().filter(|from| *from < u64::from(u32::MAX))?, value)))
            .collect();
        found.sort_by_key(|(from, _)| *from);
        for (from, value) in &found {
            for (text, steps) in value["series"].as_object().into_iter().flatten().take((KEPT_POOLS + 1) * OF_CLUSTER.len()) {
                let Some(name) = read(text) else { continue };
                for (step, value) in (*from..from + STEPS).zip(steps.as_array().into_iter().flatten()) {
                    let Some(value) = value.as_f64().filter(|value| value.is_finite()) else { continue };
                    let series = self.series.entry(name).or_insert_with(Series::new);
                    let per = KEPT_SECS / COARSE_SECS;
                    (step * per..(step + 1) * per).for_each(|step| series.coarse.put(step, value));
                }
            }
        }
    }

    /// Foretells anew when pools will be full.
    fn foretell(&mut self, secs: u64) {
        let last = secs / KEPT_SECS;
        let first = last.saturating_sub(STEPS * CHUNKS);
        let rooms = self.series.iter().filter(|((_, figure), _)| *figure == "room");
        self.forecasts = rooms
            .filter_map(|((pool, _), series)| {
                let points: Vec<(f64, f64)> =
                    (first..last).filter_map(|step| Some(((step * KEPT_SECS) as f64, mean(&series.coarse, step)?))).collect();
                Some(((*pool)?, forecast::foretell(&points)?))
            })
            .collect();
    }

    /// Returns when a pool will be full; none if it does not fill, or too little is known.
    pub fn forecast(&self, pool: PoolId) -> Option<Forecast> {
        self.forecasts.get(&pool).copied()
    }

    /// Returns how many seconds of the last day something is known of.
    pub fn known(&self) -> u64 {
        self.series.get(&(None, "write_ops")).map_or(0, |series| series.coarse.known() as u64 * COARSE_SECS)
    }

    /// The figures for people: those of the cluster in the last half hour, in steps of 30 s, and in the last day, in steps of a quarter of an hour; of
    /// each pool what is done to it in the last day, in steps of half an hour. A step in which nothing is known is `null`.
    pub fn dump(&self, secs: u64) -> Value {
        let steps = |ring: &Ring, step: u64, count: u64, of: u64| -> Vec<Value> {
            let last = secs / (step * of);
            (last.saturating_sub(count)..last).map(|at| ring.mean(at * of..(at + 1) * of).map_or(Value::Null, short)).collect()
        };
        let (mut lately, mut day, mut pools) = (json!({}), json!({}), json!({}));
        for ((pool, figure), series) in &self.series {
            match pool {
                None => {
                    lately[*figure] = steps(&series.fine, FINE_SECS, 60, 3).into();
                    day[*figure] = steps(&series.coarse, COARSE_SECS, 96, 15).into();
                }
                Some(pool) if matches!(*figure, "read_ops" | "write_ops") => {
                    pools[pool.to_string()][*figure] = steps(&series.coarse, COARSE_SECS, 48, 30).into();
                }
                Some(_) => {}
            }
        }
        json!({"known_seconds": self.known(), "lately": lately, "day": day, "pools": pools})
    }
}

/// The mean of a step that is kept.
fn mean(coarse: &Ring, step: u64) -> Option<f64> {
    let per = KEPT_SECS / COARSE_SECS;
    coarse.mean(step * per..(step + 1) * per)
}

/// Steps as people see them.
fn shown(steps: Vec<Option<f64>>) -> Vec<Value> {
    steps.into_iter().map(|step| step.map_or(Value::Null, short)).collect()
}

/// A number with three digits that count, so that it is short.
fn short(value: f64) -> Value {
    if value.abs() >= 100.0 { json!(value.round() as i64) } else { json!((value * 100.0).round() / 100.0) }
}

#[cfg(test)]
mod tests;
