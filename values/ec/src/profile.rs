//! Profiles: the text that says which code a pool has.
//!
//! A profile is a map of words. [`merge`] makes one of what a user typed, [`Profile::parse`] completes it with the
//! defaults of its plugin and technique, as Ceph's monitors store and print it. Checks have Ceph's order; where several
//! things are wrong, the first is said, as clients see it from Ceph.

use crate::code::{Code, MOST_SHARDS};
use crate::matrix;
use crate::numbers;
use std::collections::BTreeMap;
use types::Errno;

/// Words of a profile, in the order in which they are printed.
pub type Pairs = BTreeMap<String, String>;

/// Bytes of a profile at most, keys and values together.
const MOST_TEXT: usize = 8192;
/// Bytes of a unit at most.
const MOST_UNIT: u64 = 16 << 20;
/// Bytes of a chunk, at most, that packets may force: the smallest multiple of both a block and a grain.
const MOST_GRAIN: usize = 4 << 20;
/// Bytes of a block of disks.
const BLOCK: usize = 4096;

/// Place where Ceph looks for plugins, unless it is told otherwise.
const PLUGINS: &str = "/usr/lib/x86_64-linux-gnu/ceph/erasure-code";

/// Reason why a profile is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error number: Ceph's, or `EOPNOTSUPP` for what Ceph has and we have not.
    pub errno: Errno,
    /// A sentence: Ceph's, or ours with what serves instead.
    pub text: String,
}

type Checked<T> = Result<T, Refusal>;

fn refuse<T>(errno: Errno, text: impl Into<String>) -> Checked<T> {
    Err(Refusal { errno, text: text.into() })
}

fn invalid<T>(text: impl Into<String>) -> Checked<T> {
    refuse(Errno::EINVAL, text)
}

fn not_here<T>(text: impl Into<String>) -> Checked<T> {
    refuse(Errno::EOPNOTSUPP, text)
}

/// Plugin and technique: which matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technique {
    /// jerasure `reed_sol_van`
    ReedSolVan,
    /// jerasure `reed_sol_r6_op`
    ReedSolR6,
    /// jerasure `cauchy_orig`
    CauchyOrig,
    /// jerasure `cauchy_good`
    CauchyGood,
    /// isa `reed_sol_van`
    IsaReedSolVan,
    /// isa `cauchy`
    IsaCauchy,
}

impl Technique {
    fn by_packets(self) -> bool {
        matches!(self, Technique::CauchyOrig | Technique::CauchyGood)
    }

    fn is_isa(self) -> bool {
        matches!(self, Technique::IsaReedSolVan | Technique::IsaCauchy)
    }

    /// Returns what k and m are if the profile does not say.
    fn defaults(self) -> (&'static str, &'static str) {
        ("7", if self == Technique::ReedSolR6 { "2" } else { "3" })
    }
}

/// A profile that this program can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// All words, completed; as Ceph stores them.
    pub pairs: Pairs,
    /// The matrix.
    pub technique: Technique,
    /// Data shards, from 2 on.
    pub k: usize,
    /// Parities, from 1 on. k + m is at most [`MOST_SHARDS`].
    pub m: usize,
    /// Bytes of a packet; 0 for techniques without.
    pub packet: usize,
    /// Bytes of a chunk that the profile names (`stripe_unit`), 1 to 16 MiB.
    pub unit: Option<u32>,
    /// True if Ceph aligns each chunk by itself, not the whole row.
    pub per_chunk: bool,
}

/// Makes a profile of the words `typed`, each `name=value` or a name alone. `defaults` are those of the option
/// `osd_pool_default_erasure_code_profile`; they hold unless another plugin is named.
pub fn merge<'a>(defaults: &str, typed: impl IntoIterator<Item = &'a str>) -> Checked<Pairs> {
    let pair = |word: &'a str| word.split_once('=').unwrap_or((word, ""));
    let mut own = Pairs::new();
    for word in typed {
        let (key, value) = pair(word);
        if let Some(rest) = key.strip_prefix("ruleset-").filter(|_| word.contains('=')) {
            return invalid(format!("property '{key}' is no longer supported; try 'crush-{rest}' instead"));
        }
        own.insert(key.into(), value.into());
    }
    if own.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() > MOST_TEXT {
        return invalid(format!("a profile has at most {MOST_TEXT} bytes"));
    }
    let mut all: Pairs =
        defaults.split_ascii_whitespace().map(|word| word.split_once('=').unwrap_or((word, ""))).map(owned).collect();
    match (own.get("plugin"), all.get("plugin")) {
        (Some(plugin), Some(default)) if plugin != default => Ok(own),
        _ => {
            all.extend(own);
            Ok(all)
        }
    }
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// A profile in one line, as Ceph's sentences have it: `{k=2,m=1,plugin=jerasure}`.
pub fn print(pairs: &Pairs) -> String {
    let words: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
    format!("{{{}}}", words.join(","))
}

/// The value of a key, which is `default` if it is not there or empty; then it is there.
fn value<'a>(pairs: &'a mut Pairs, key: &str, default: &str) -> &'a str {
    let value = pairs.entry(key.into()).or_default();
    if value.is_empty() {
        *value = default.into();
    }
    value
}

fn int(pairs: &mut Pairs, key: &str, default: &str) -> Checked<i32> {
    let text = value(pairs, key, default);
    numbers::int(text)
        .or_else(|why| invalid(format!("could not convert {key}={text} to int because {why}, set to default {default}")))
}

/// Returns which technique a profile names. jerasure has no default of its own, isa has.
fn technique(pairs: &mut Pairs) -> Checked<Technique> {
    let Some(plugin) = pairs.get("plugin").cloned() else {
        return invalid(format!("erasure-code-profile {} must contain a plugin entry", print(pairs)));
    };
    let instead = "use plugin=jerasure";
    match plugin.as_str() {
        "jerasure" => {}
        "isa" => {
            let name = pairs.entry("technique".into()).or_insert_with(|| "reed_sol_van".into());
            return match name.as_str() {
                "reed_sol_van" => Ok(Technique::IsaReedSolVan),
                "cauchy" => Ok(Technique::IsaCauchy),
                _ => refuse(Errno::ENOENT, unknown_technique(name, "reed_sol_van,cauchy")),
            };
        }
        "lrc" => {
            return not_here(format!(
                "plugin=lrc is not supported: {instead} with the same k and m, where recovery reads k shards once for all that is lost"
            ));
        }
        "shec" => {
            return not_here(format!(
                "plugin=shec is not supported: it does not survive the loss of any m shards; {instead} with the same k and m"
            ));
        }
        "clay" => {
            return not_here(format!(
                "plugin=clay is not supported: small writes would change every shard; {instead} with the same k and m"
            ));
        }
        "jerasure_generic" | "jerasure_sse3" | "jerasure_sse4" | "jerasure_neon" => {
            return not_here(format!(
                "plugin={plugin} is an old name: {instead}, which takes the fastest instructions by itself"
            ));
        }
        _ => {
            let file = format!("{PLUGINS}/libec_{plugin}.so");
            let text = format!(
                "load dlopen({file}): {file}: cannot open shared object file: No such file or directory; the plugins are jerasure and isa"
            );
            return refuse(Errno::EIO, text);
        }
    }
    let name = pairs.get("technique").map_or("", String::as_str);
    match name {
        "reed_sol_van" => Ok(Technique::ReedSolVan),
        "reed_sol_r6_op" => Ok(Technique::ReedSolR6),
        "cauchy_orig" => Ok(Technique::CauchyOrig),
        "cauchy_good" => Ok(Technique::CauchyGood),
        "liberation" | "blaum_roth" | "liber8tion" => not_here(format!(
            "technique={name} is not supported: its chunks are no multiples of a disk's blocks; use technique=reed_sol_r6_op with the same k and m=2"
        )),
        _ => refuse(
            Errno::ENOENT,
            unknown_technique(name, "reed_sol_van, reed_sol_r6_op, cauchy_orig, cauchy_good, liberation, blaum_roth, liber8tion"),
        ),
    }
}

fn unknown_technique(name: &str, all: &str) -> String {
    format!("technique={name} is not a valid coding technique.  Choose one of the following: {all}")
}

/// The checks of k, m and w that Ceph's plugin makes.
fn counts(pairs: &mut Pairs, technique: Technique) -> Checked<(i32, i32, i32)> {
    let (default_k, default_m) = technique.defaults();
    let k = int(pairs, "k", default_k)?;
    let m = int(pairs, "m", default_m)?;
    let w = if technique.is_isa() { 8 } else { int(pairs, "w", "8")? };
    if k < 2 {
        return invalid(format!("k={k} must be >= 2"));
    }
    if m < 1 {
        return invalid(format!("m={m} must be >= 1"));
    }
    let words = [8, 16, 32].contains(&w);
    match technique {
        Technique::ReedSolR6 if m != 2 => invalid(format!("ReedSolomonRAID6: m={m} must be 2 for RAID6: revert to 2")),
        Technique::ReedSolR6 if !words => invalid(format!("ReedSolomonRAID6: w={w} must be one of {{8, 16, 32}} : revert to 8 ")),
        Technique::ReedSolVan if !words => {
            invalid(format!("ReedSolomonVandermonde: w={w} must be one of {{8, 16, 32}} : revert to 8"))
        }
        Technique::IsaReedSolVan if k > 32 => {
            invalid(format!("Vandermonde: m={m} should be less/equal than 32 : revert to k=32"))
        }
        Technique::IsaReedSolVan if m > 4 => {
            invalid(format!("Vandermonde: m={m} should be less than 5 to guarantee an MDS codec: revert to m=4"))
        }
        Technique::IsaReedSolVan if m == 4 && k > 21 => {
            invalid(format!("Vandermonde: k={k} should be less than 22 to guarantee an MDS codec with m=4: revert to k=21"))
        }
        _ => Ok((k, m, w)),
    }
}

impl Profile {
    /// Completes and checks a profile. `force` allows units that are no multiple of 4096 bytes.
    pub fn parse(mut pairs: Pairs, force: bool) -> Checked<Profile> {
        let technique = technique(&mut pairs)?;
        if pairs.contains_key("mapping") {
            return not_here("mapping= is not supported: shards lie at their own positions; leave it out");
        }
        let (k, m, w) = counts(&mut pairs, technique)?;
        let packet = if technique.by_packets() { int(&mut pairs, "packetsize", "2048")? } else { 0 };
        let aligns = technique == Technique::ReedSolVan || technique.by_packets();
        let per_chunk = aligns && ["yes", "true"].contains(&value(&mut pairs, "jerasure-per-chunk-alignment", "false"));
        for (key, default) in [("crush-root", "default"), ("crush-failure-domain", "host"), ("crush-device-class", "")] {
            value(&mut pairs, key, default);
        }
        if w != 8 {
            return not_here(format!("w={w} is not supported: use w=8, which is faster and stands the same losses"));
        }
        let (k, m) = (k as usize, m as usize);
        if k.saturating_add(m) > MOST_SHARDS {
            return not_here(format!("k={k} m={m} is not supported: use k and m of at most {MOST_SHARDS} together"));
        }
        if technique.by_packets() && packet < 1 {
            return invalid(format!("packetsize={packet} must be >= 1"));
        }
        let packet = packet as usize;
        let mut profile = Profile { pairs, technique, k, m, packet, unit: None, per_chunk };
        if profile.chunk_step().is_none_or(|step| step > MOST_GRAIN) {
            return not_here(format!(
                "packetsize={packet} is not supported: use 2048, so that chunks are multiples of a disk's blocks"
            ));
        }
        profile.unit = profile.checked_unit(force)?;
        Ok(profile)
    }

    /// Reads `stripe_unit`.
    fn checked_unit(&self, force: bool) -> Checked<Option<u32>> {
        let Some(text) = self.pairs.get("stripe_unit") else { return Ok(None) };
        let unit = numbers::bytes(text).or_else(|why| invalid(format!("could not parse stripe_unit '{text}': {why}")))?;
        if unit == 0 || unit > MOST_UNIT {
            return invalid(format!("stripe_unit {text} must be from 1 to {MOST_UNIT} bytes"));
        }
        let padded = self.padded(unit);
        if padded != unit {
            return invalid(format!("stripe_unit {unit} does not match ec profile alignment. Would be padded to {padded}"));
        }
        if !unit.is_multiple_of(BLOCK as u64) && !force {
            return invalid(
                "stripe_unit should be a multiple of 4096 bytes for best performance.use --force to override this check",
            );
        }
        Ok(Some(unit as u32))
    }

    /// Bytes of a chunk in Ceph, if one of `unit` bytes is wanted: rows, or chunks, are filled up to what the plugin
    /// wants. Clients see k times this as the width of a stripe.
    pub fn padded(&self, unit: u64) -> u64 {
        if self.technique.is_isa() {
            return unit.next_multiple_of(32);
        }
        let grain = 8 * self.packet.max(1) as u64;
        if self.per_chunk {
            // Without packets it is w times the width of a vector.
            let step = if self.technique.by_packets() { grain.next_multiple_of(16) } else { 128 };
            return unit.next_multiple_of(step);
        }
        // What Ceph aligns is the row, k times as much.
        unit.next_multiple_of(if (grain * 4).is_multiple_of(16) { grain * 4 } else { grain * 16 })
    }

    /// Returns what chunks on our disks are multiples of, in bytes: blocks and grains. `None` if that is beyond all
    /// bounds.
    pub fn chunk_step(&self) -> Option<usize> {
        let grain = self.packet.checked_mul(8)?.max(1);
        let (mut a, mut b) = (BLOCK, grain);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        BLOCK.checked_mul(grain / a)
    }

    /// Bytes of a row as clients see it (`stripe_width`). `unit`: what the option `osd_pool_erasure_code_stripe_unit`
    /// says, for profiles that do not.
    pub fn stripe_width(&self, unit: u32) -> u64 {
        self.k as u64 * self.padded(self.unit.unwrap_or(unit).into())
    }

    /// Members that a group needs to serve: k + 1, or k if there is one parity.
    pub fn min_size(&self) -> usize {
        self.k + 1.min(self.m - 1)
    }

    /// The code.
    pub fn code(&self) -> Code {
        let (k, m) = (self.k, self.m);
        let rows = match self.technique {
            Technique::ReedSolVan => matrix::vandermonde(k, m),
            Technique::ReedSolR6 | Technique::IsaReedSolVan => matrix::powers(k, m),
            Technique::CauchyOrig => matrix::cauchy_orig(k, m),
            Technique::CauchyGood => matrix::cauchy_good(k, m),
            // The plugin takes a shortcut for a single parity: the sum of the data.
            Technique::IsaCauchy if m == 1 => vec![1; k],
            Technique::IsaCauchy => matrix::cauchy_isa(k, m),
        };
        Code::new(k, m, self.packet, rows)
    }
}
