//! The encoding of a map: no envelope, a magic number in front; parts were appended over the years, so a map may end
//! after any of them. What is read is also checked: whatever passes can be placed with.

use crate::map::{Alg, Bucket, ChooseArg, Contents, Map, Rule, Tunables, index_of};
use crate::{Profile, tree};
use denc::{Decode, DecodeError, Encode, Reader, Result, put_count};
use std::collections::BTreeMap;

const MAGIC: u32 = 0x0001_0000;

/// Most buckets and devices that are accepted: bounds what a forged header may reserve and what a walk may cost.
const MAX_BUCKETS: i32 = 1 << 20;
const MAX_DEVICES: i32 = 1 << 24;
/// Rules are numbered by a byte.
const MAX_RULES: u32 = 256;

impl Encode for Map {
    fn encode(&self, out: &mut Vec<u8>) {
        MAGIC.encode(out);
        (self.buckets.len() as u32).encode(out);
        (self.rules.len() as u32).encode(out);
        self.max_devices.encode(out);
        for bucket in &self.buckets {
            encode_bucket(bucket.as_ref(), out);
        }
        for rule in &self.rules {
            encode_rule(rule.as_ref(), out);
        }
        self.types.encode(out);
        self.names.encode(out);
        self.rule_names.encode(out);
        self.tunables.encode(out);
        self.device_classes.encode(out);
        self.class_names.encode(out);
        self.class_buckets.encode(out);
        put_count(out, self.choose_args.len());
        for (pool, args) in &self.choose_args {
            pool.encode(out);
            // Buckets that override nothing are left out.
            let used = || args.iter().filter(|(_, arg)| !arg.weight_set.is_empty() || !arg.ids.is_empty());
            put_count(out, used().count());
            for (index, arg) in used() {
                index.encode(out);
                arg.weight_set.encode(out);
                arg.ids.encode(out);
            }
        }
    }
}

impl Decode for Map {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        if r.u32()? != MAGIC {
            return Err(DecodeError::Invalid("magic of a CRUSH map"));
        }
        let max_buckets = r.get::<i32>()?;
        let max_rules = r.u32()?;
        let max_devices = r.get::<i32>()?;
        if !(0..=MAX_BUCKETS).contains(&max_buckets) || max_rules > MAX_RULES || !(0..=MAX_DEVICES).contains(&max_devices) {
            return Err(DecodeError::Invalid("size of a CRUSH map"));
        }
        let mut map = Map { max_devices, tunables: Tunables::of(Profile::Argonaut), ..Map::default() };
        for index in 0..max_buckets {
            map.buckets.push(decode_bucket(r, -1 - index)?);
        }
        for _ in 0..max_rules {
            map.rules.push(decode_rule(r)?);
        }
        map.types = r.get()?;
        map.names = r.get()?;
        map.rule_names = r.get()?;
        decode_appended(r, &mut map)?;
        if !tree::is_shallow(&map) {
            return Err(DecodeError::Invalid("CRUSH map: a bucket contains itself, or lies too deep"));
        }
        Ok(map)
    }
}

/// The parts that older maps lack.
fn decode_appended(r: &mut Reader<'_>, map: &mut Map) -> Result<()> {
    let t = &mut map.tunables;
    if r.is_empty() {
        return Ok(());
    }
    (t.choose_local_tries, t.choose_local_fallback_tries, t.choose_total_tries) = (r.get()?, r.get()?, r.get()?);
    if r.is_empty() {
        return Ok(());
    }
    t.chooseleaf_descend_once = r.get()?;
    if r.is_empty() {
        return Ok(());
    }
    t.chooseleaf_vary_r = r.get()?;
    if r.is_empty() {
        return Ok(());
    }
    t.straw_calc_version = r.get()?;
    if r.is_empty() {
        return Ok(());
    }
    t.allowed_bucket_algs = r.get()?;
    if r.is_empty() {
        return Ok(());
    }
    t.chooseleaf_stable = r.get()?;
    if r.is_empty() {
        return Ok(());
    }
    (map.device_classes, map.class_names, map.class_buckets) = (r.get()?, r.get()?, r.get()?);
    if r.is_empty() {
        return Ok(());
    }
    let sets = r.count(12)?;
    for _ in 0..sets {
        let pool: i64 = r.get()?;
        let args = decode_choose_args(r, map)?;
        map.choose_args.insert(pool, args);
    }
    Ok(())
}

fn decode_choose_args(r: &mut Reader<'_>, map: &Map) -> Result<BTreeMap<u32, ChooseArg>> {
    let mut args = BTreeMap::new();
    for _ in 0..r.count(12)? {
        let index = r.u32()?;
        let arg = ChooseArg { weight_set: r.get()?, ids: r.get()? };
        let Some(Some(bucket)) = map.buckets.get(index as usize) else {
            return Err(DecodeError::Invalid("CRUSH choose_args: no such bucket"));
        };
        let size = bucket.items.len();
        if arg.weight_set.iter().any(|w| w.len() != size) || !(arg.ids.is_empty() || arg.ids.len() == size) {
            return Err(DecodeError::Invalid("CRUSH choose_args: size differs from the bucket's"));
        }
        args.insert(index, arg);
    }
    Ok(args)
}

impl Encode for Tunables {
    fn encode(&self, out: &mut Vec<u8>) {
        self.choose_local_tries.encode(out);
        self.choose_local_fallback_tries.encode(out);
        self.choose_total_tries.encode(out);
        self.chooseleaf_descend_once.encode(out);
        self.chooseleaf_vary_r.encode(out);
        self.straw_calc_version.encode(out);
        self.allowed_bucket_algs.encode(out);
        self.chooseleaf_stable.encode(out);
    }
}

fn encode_rule(rule: Option<&Rule>, out: &mut Vec<u8>) {
    u32::from(rule.is_some()).encode(out);
    if let Some(rule) = rule {
        put_count(out, rule.steps.len());
        rule.mask.encode(out);
        rule.steps.iter().for_each(|step| step.encode(out));
    }
}

fn decode_rule(r: &mut Reader<'_>) -> Result<Option<Rule>> {
    if r.u32()? == 0 {
        return Ok(None);
    }
    let len = r.count(12)?;
    let mask = r.get()?;
    let steps = (0..len).map(|_| r.get()).collect::<Result<_>>()?;
    Ok(Some(Rule { mask, steps }))
}

fn encode_bucket(bucket: Option<&Bucket>, out: &mut Vec<u8>) {
    let Some(b) = bucket else {
        return 0u32.encode(out);
    };
    let alg = b.alg() as u8;
    u32::from(alg).encode(out);
    b.id.encode(out);
    b.kind.encode(out);
    alg.encode(out);
    b.hash.encode(out);
    b.weight.encode(out);
    put_count(out, b.items.len());
    b.items.iter().for_each(|i| i.encode(out));
    let put_pairs = |out: &mut Vec<u8>, a: &[u32], b: &[u32]| {
        a.iter().zip(b).for_each(|(a, b)| {
            a.encode(out);
            b.encode(out);
        });
    };
    match &b.contents {
        Contents::Uniform { item_weight } => item_weight.encode(out),
        Contents::List { weights, sums } => put_pairs(out, weights, sums),
        Contents::Tree { nodes } => {
            out.push(nodes.len() as u8);
            nodes.iter().for_each(|w| w.encode(out));
        }
        Contents::Straw { weights, straws } => put_pairs(out, weights, straws),
        Contents::Straw2 { weights } => weights.iter().for_each(|w| w.encode(out)),
    }
}

fn decode_bucket(r: &mut Reader<'_>, id: i32) -> Result<Option<Bucket>> {
    let number = r.u32()?;
    if number == 0 {
        return Ok(None);
    }
    let alg = u8::try_from(number).ok().and_then(Alg::from_number);
    let alg = alg.ok_or(DecodeError::Invalid("algorithm of a CRUSH bucket"))?;
    let (found_id, kind, found_alg, hash, weight) = (r.get::<i32>()?, r.get::<u16>()?, r.u8()?, r.u8()?, r.u32()?);
    if found_id != id || found_alg != alg as u8 || hash != 0 || kind == 0 {
        return Err(DecodeError::Invalid("head of a CRUSH bucket"));
    }
    let size = r.count(4)?;
    let items: Vec<i32> = (0..size).map(|_| r.get()).collect::<Result<_>>()?;
    let contents = match alg {
        Alg::Uniform => Contents::Uniform { item_weight: r.get()? },
        Alg::List => {
            let (weights, sums) = pairs(r, size)?;
            Contents::List { weights, sums }
        }
        Alg::Tree => Contents::Tree { nodes: tree_nodes(r, size)? },
        Alg::Straw => {
            let (weights, straws) = pairs(r, size)?;
            Contents::Straw { weights, straws }
        }
        Alg::Straw2 => Contents::Straw2 { weights: (0..size).map(|_| r.get()).collect::<Result<_>>()? },
    };
    debug_assert_eq!(index_of(id), !id as usize);
    Ok(Some(Bucket { id, kind, hash, weight, items, contents }))
}

fn pairs(r: &mut Reader<'_>, n: usize) -> Result<(Vec<u32>, Vec<u32>)> {
    let (mut a, mut b) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for _ in 0..n {
        a.push(r.get()?);
        b.push(r.get()?);
    }
    Ok((a, b))
}

/// Nodes of a tree bucket: a power of two of them, with a leaf (an odd node) for each item.
fn tree_nodes(r: &mut Reader<'_>, size: usize) -> Result<Vec<u32>> {
    let n = usize::from(r.u8()?);
    let fits = if size == 0 { n == 0 || n.is_power_of_two() } else { n.is_power_of_two() && n >= 2 * size };
    if !fits {
        return Err(DecodeError::Invalid("nodes of a CRUSH tree bucket"));
    }
    (0..n).map(|_| r.get()).collect()
}
