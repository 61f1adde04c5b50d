//! Figures by image: who looks at what, sums, rates, names. The module above explains them.
//!
//! *All images of pools for images* have sums, from the first report on, for metrics and pages; a new leader begins
//! with nothing. Their names are looked up while somebody sees them ([`Images::see`]). Sums of images that are gone are
//! forgotten.
//!
//! Each [`Spec`] that somebody looks at has its own sums besides, from the first look on. It is forgotten when nobody
//! looked for [`EXPIRE`]. Rates are means over the last whole period of [`PERIOD`]; the first period is shorter.

use grammar::{Refusal, refuse};
use messages::internal::ImageFigures;
use monstate::state::State;
use node::{Mono, Now};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use types::PoolId;

/// The figures, in the order in which they are told.
pub const FIGURES: [&str; 6] = ["write_ops", "read_ops", "write_bytes", "read_bytes", "write_latency", "read_latency"];
/// Indices of the latencies among the figures, and of the operations that each belongs to.
const LATENCIES: [(usize, usize); 2] = [(4, 0), (5, 1)];
/// The period over which rates are measured, and the first one.
const PERIOD: Duration = Duration::from_secs(5);
const FIRST_PERIOD: Duration = Duration::from_secs(2);
/// The period of all images: OSDs report them so often if nobody looks.
const LONG_PERIOD: Duration = Duration::from_secs(10);
/// A spec is forgotten after so long without a look.
const EXPIRE: Duration = Duration::from_secs(60);
/// Interval at which OSDs are told to go on counting.
const TELL: Duration = Duration::from_secs(15);
/// Time when a name is looked up again, and when after a failed attempt.
const RENAMED: Duration = Duration::from_secs(60);
const FAILED: Duration = Duration::from_secs(5);
/// Most specs at which somebody looks.
const SPECS: usize = 256;
/// Most images of one spec; others are left out.
const IMAGES: usize = 16_384;
/// Most images in one answer.
const SHOWN: usize = 64;

type Sums = [u64; 6];

/// An image, by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image {
    /// The image's pool.
    pub pool: PoolId,
    /// The image's namespace; empty for the default one.
    pub nspace: String,
    /// The image's id, not its name.
    pub id: String,
}

/// The images that somebody looks at: all, or those of one namespace of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spec(pub Option<(String, String)>);

impl Spec {
    /// Parses `[POOL[/NAMESPACE]]`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let (pool, nspace) = text.split_once('/').map_or((text, None), |(pool, nspace)| (pool, Some(nspace)));
        if pool.is_empty() || nspace.is_some_and(|n| n.is_empty() || n.contains('/')) {
            refuse!(EINVAL, "Invalid pool spec: {text}");
        }
        Ok(Self(Some((pool.into(), nspace.unwrap_or_default().into()))))
    }

    /// Says whether the spec takes an image.
    fn takes(&self, state: &State, image: &Image) -> bool {
        match &self.0 {
            None => state.osdmap.pool(image.pool).is_some_and(|p| p.application_metadata.contains_key("rbd")),
            Some((pool, nspace)) => state.pool_id(pool) == Some(image.pool) && *nspace == image.nspace,
        }
    }
}

/// Work of the images of one spec.
#[derive(Clone, Debug, Default)]
struct Look {
    asked: Mono,
    totals: BTreeMap<Image, Sums>,
    /// Time when the current period began.
    since: Mono,
    filling: BTreeMap<Image, Sums>,
    /// The period before: its length and figures.
    last: Option<(Duration, BTreeMap<Image, Sums>)>,
}

impl Look {
    /// Ends the current period if it has lasted so long.
    fn end_period(&mut self, now: Mono, length: Duration) {
        let span = now.since(self.since);
        if span >= length {
            self.since = now;
            self.last = Some((span, std::mem::take(&mut self.filling)));
        }
    }
}

/// Record of an image's name.
#[derive(Clone, Debug)]
struct Name {
    text: Option<String>,
    /// Time to look it up again; never while a look-up is in flight.
    due: Mono,
}

/// Questions that have become due.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// True if OSDs must be told to count.
    pub tell: bool,
    /// Images whose names must be looked up.
    pub names: Vec<Image>,
}

/// Figures that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Operations and bytes per second, and the time of one operation.
    Stats,
    /// All that was counted since somebody began to look.
    Counters,
}

/// An image as metrics and pages show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The image's pool.
    pub pool: PoolId,
    /// The image's namespace; empty for the default one.
    pub nspace: String,
    /// The image's name.
    pub name: String,
    /// The image, by id.
    pub image: Image,
    /// All that was counted: figures in the order of [`FIGURES`], latencies as sums in nanoseconds.
    pub sums: [u64; 6],
    /// Its work in the last period: per second; latencies in nanoseconds for one operation.
    pub rates: [f64; 6],
}

/// All figures by image.
#[derive(Clone, Debug, Default)]
pub struct Images {
    all: Look,
    /// Time when somebody saw all images last.
    seen: Option<Mono>,
    /// Reports on images that had no room among all.
    left_out: u64,
    looks: BTreeMap<Spec, Look>,
    names: BTreeMap<Image, Name>,
    told: Option<Mono>,
}

impl Images {
    /// Notes that somebody looks.
    pub fn look(&mut self, now: Mono, spec: Spec) {
        if !self.looks.contains_key(&spec) && self.looks.len() >= SPECS {
            return;
        }
        let look = self.looks.entry(spec).or_insert_with(|| Look { since: now, ..Look::default() });
        look.asked = now;
    }

    /// Notes that somebody sees all images: their names are looked up for a while from now.
    pub fn see(&mut self, now: Mono) {
        self.seen = Some(now);
    }

    /// Gives all images whose names are known, and how many reports were left out for want of room. Those that did most
    /// in the last period come first.
    pub fn rows(&self) -> (Vec<Row>, u64) {
        let row = |(image, sums): (&Image, &Sums)| {
            let name = self.names.get(image)?.text.clone()?;
            let rates = rates(&self.all, image);
            Some(Row { pool: image.pool, nspace: image.nspace.clone(), name, image: image.clone(), sums: *sums, rates })
        };
        let mut rows: Vec<Row> = self.all.totals.iter().filter_map(row).collect();
        let busy = |row: &Row| row.rates[0] + row.rates[1];
        rows.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
        (rows, self.left_out)
    }

    /// Gives the images that did something in the last period, so many at most, the busiest first; by id, with what each did.
    pub fn busiest(&self, most: usize) -> Vec<(Image, [f64; 6])> {
        let Some((_, last)) = &self.all.last else { return Vec::new() };
        let mut busy: Vec<(&Image, [f64; 6])> = last.keys().map(|image| (image, rates(&self.all, image))).collect();
        busy.sort_by(|a, b| (b.1[0] + b.1[1]).total_cmp(&(a.1[0] + a.1[1])).then_with(|| a.0.cmp(b.0)));
        busy.into_iter().take(most).map(|(image, rates)| (image.clone(), rates)).collect()
    }

    /// Forgets images of pools that are gone.
    pub fn prune(&mut self, state: &State) {
        self.all.totals.retain(|image, _| state.osdmap.pool(image.pool).is_some());
    }

    /// Takes in what an OSD counted.
    pub fn report(&mut self, state: &State, figures: &[ImageFigures]) {
        for f in figures {
            let (Ok(nspace), Ok(id)) = (std::str::from_utf8(&f.nspace), std::str::from_utf8(&f.image)) else { continue };
            let image = Image { pool: f.pool, nspace: nspace.into(), id: id.into() };
            let sums = [f.write_ops, f.read_ops, f.write_bytes, f.read_bytes, f.write_nanos, f.read_nanos];
            if Spec(None).takes(state, &image) {
                if self.all.totals.len() < IMAGES || self.all.totals.contains_key(&image) {
                    add(self.all.totals.entry(image.clone()).or_default(), &sums);
                    add(self.all.filling.entry(image.clone()).or_default(), &sums);
                } else {
                    self.left_out += 1;
                }
            }
            for (_, look) in self.looks.iter_mut().filter(|(spec, _)| spec.takes(state, &image)) {
                if look.totals.len() < IMAGES || look.totals.contains_key(&image) {
                    add(look.totals.entry(image.clone()).or_default(), &sums);
                    add(look.filling.entry(image.clone()).or_default(), &sums);
                }
            }
        }
    }

    /// Follows the time: periods end, looks expire, OSDs must be told, names are due.
    pub fn tick(&mut self, now: Mono) -> Wanted {
        self.looks.retain(|_, look| now.since(look.asked) < EXPIRE);
        self.all.end_period(now, LONG_PERIOD);
        self.seen = self.seen.filter(|seen| now.since(*seen) < EXPIRE);
        if self.looks.is_empty() {
            self.told = None;
            if self.seen.is_none() {
                self.names.clear();
                return Wanted::default();
            }
        }
        for look in self.looks.values_mut() {
            look.end_period(now, if look.last.is_none() { FIRST_PERIOD } else { PERIOD });
        }
        let tell = !self.looks.is_empty() && self.told.is_none_or(|told| now.since(told) >= TELL);
        if tell {
            self.told = Some(now);
        }
        Wanted { tell, names: self.due_names(now) }
    }

    fn due_names(&mut self, now: Mono) -> Vec<Image> {
        let Self { looks, names, all, seen, .. } = self;
        let mut due = Vec::new();
        let seen = seen.is_some().then_some(&*all);
        for image in looks.values().chain(seen).flat_map(|look| look.totals.keys()) {
            let name = names.entry(image.clone()).or_insert(Name { text: None, due: Mono(0) });
            if name.due <= now {
                name.due = Mono::NEVER;
                due.push(image.clone());
            }
        }
        due
    }

    /// Takes names that were looked up; none if that failed.
    pub fn named(&mut self, now: Mono, images: Vec<Image>, found: Option<&BTreeMap<String, String>>) {
        for image in images {
            let Some(name) = self.names.get_mut(&image) else { continue };
            name.due = now.plus(if found.is_some() { RENAMED } else { FAILED });
            if let Some(found) = found {
                name.text = found.get(&image.id).cloned();
                if name.text.is_none() {
                    // It is gone, or not there yet: then it comes again with its next operation.
                    self.all.totals.remove(&image);
                }
            }
        }
    }

    /// Answers a command. The images with most of the figure `sort_by` in the last period come first.
    pub fn answer(&self, state: &State, now: Now, spec: &Spec, kind: Kind, sort_by: &str) -> Value {
        let sort = FIGURES.iter().position(|f| *f == sort_by).unwrap_or(0);
        let look = self.looks.get(spec);
        let mut rows: Vec<(f64, &Image, &Sums)> =
            look.into_iter().flat_map(|l| l.totals.iter().map(|(i, sums)| (rates(l, i)[sort], i, sums))).collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut pools: Vec<String> = Vec::new();
        let mut shown = Vec::new();
        for (_, image, sums) in rows {
            let Some(name) = self.names.get(image).and_then(|n| n.text.as_deref()) else { continue };
            let Some(pool) = state.osdmap.pool_name.get(&image.pool) else { continue };
            let values: Vec<Value> = match (kind, look) {
                (Kind::Stats, Some(look)) => rates(look, image).map(|r| json!(r)).to_vec(),
                _ => sums.map(|s| json!(s)).to_vec(),
            };
            let pool = if image.nspace.is_empty() { pool.clone() } else { format!("{pool}/{}", image.nspace) };
            let index = pools.iter().position(|p| *p == pool).unwrap_or_else(|| {
                pools.push(pool);
                pools.len() - 1
            });
            if values.iter().any(|v| v.as_f64() != Some(0.0)) && shown.len() < SHOWN {
                shown.push(json!({format!("{index}/{name}"): values}));
            }
        }
        let (descriptors, list) = match kind {
            Kind::Stats => ("stat_descriptors", "stats"),
            Kind::Counters => ("counter_descriptors", "counters"),
        };
        let pools: Map<String, Value> = pools.into_iter().enumerate().map(|(i, p)| (i.to_string(), json!(p))).collect();
        json!({
            "timestamp": f64::from(now.wall.sec),
            descriptors: FIGURES,
            "pool_descriptors": pools,
            list: shown,
        })
    }
}

fn add(sums: &mut Sums, more: &Sums) {
    for (sum, n) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(*n);
    }
}

/// Returns what an image did in the last period: per second; latencies in nanoseconds for one operation.
fn rates(look: &Look, image: &Image) -> [f64; 6] {
    let Some((span, sums)) = look.last.as_ref().and_then(|(span, all)| Some((span, all.get(image)?))) else { return [0.0; 6] };
    let mut rates = sums.map(|n| n as f64 / span.as_secs_f64());
    for (latency, ops) in LATENCIES {
        rates[latency] = if sums[ops] == 0 { 0.0 } else { sums[latency] as f64 / sums[ops] as f64 };
    }
    rates
}

#[cfg(test)]
mod tests;
