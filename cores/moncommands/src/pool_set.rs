//! Commands on settings of pools.

use super::shared::{barren, ctx};
use super::{Cx, Row, row};
use grammar::Args;
use grammar::units::{number, parse};
use grammar::{Outcome, Refusal, Reply, refuse};
use maps::autoscale_mode as mode;
use maps::{OptValue, Pool, opts, pool_flags};
use monstate::pools::set_opt;
use serde_json::{Map, Value, json};

pub(super) const ROWS: &[Row] = &[
    row(
        "osd pool set <pool:Poolname> <var:Choices strings=size|min_size|pg_num|pgp_num|pgp_num_actual|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|hit_set_period|hit_set_count|hit_set_fpp|use_gmt_hitset|target_max_bytes|target_max_objects|cache_target_dirty_ratio|cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|min_read_recency_for_promote|min_write_recency_for_promote|fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|bulk> <val:String> <yes_i_really_mean_it:Bool req=false>",
        "change a setting of a pool",
        "osd",
        "rw",
        set,
    ),
    row(
        "osd pool get <pool:Poolname> <var:Choices strings=size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|hit_set_period|hit_set_count|hit_set_fpp|use_gmt_hitset|target_max_objects|target_max_bytes|cache_target_dirty_ratio|cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|erasure_code_profile|min_read_recency_for_promote|all|min_write_recency_for_promote|fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|bulk>",
        "show a setting of a pool, or all",
        "osd",
        "r",
        get,
    ),
];

/// Settings that are kept as numbered options, with the type of their values.
const OPTS: [(&str, i32, char); 24] = [
    ("scrub_min_interval", opts::SCRUB_MIN_INTERVAL, 'd'),
    ("scrub_max_interval", opts::SCRUB_MAX_INTERVAL, 'd'),
    ("deep_scrub_interval", opts::DEEP_SCRUB_INTERVAL, 'd'),
    ("recovery_priority", opts::RECOVERY_PRIORITY, 'i'),
    ("recovery_op_priority", opts::RECOVERY_OP_PRIORITY, 'i'),
    ("scrub_priority", opts::SCRUB_PRIORITY, 'i'),
    ("compression_mode", opts::COMPRESSION_MODE, 's'),
    ("compression_algorithm", opts::COMPRESSION_ALGORITHM, 's'),
    ("compression_required_ratio", opts::COMPRESSION_REQUIRED_RATIO, 'd'),
    ("compression_max_blob_size", opts::COMPRESSION_MAX_BLOB_SIZE, 'i'),
    ("compression_min_blob_size", opts::COMPRESSION_MIN_BLOB_SIZE, 'i'),
    ("csum_type", opts::CSUM_TYPE, 'i'),
    ("csum_max_block", opts::CSUM_MAX_BLOCK, 'i'),
    ("csum_min_block", opts::CSUM_MIN_BLOCK, 'i'),
    ("fingerprint_algorithm", opts::FINGERPRINT_ALGORITHM, 's'),
    ("pg_num_min", opts::PG_NUM_MIN, 'i'),
    ("target_size_bytes", opts::TARGET_SIZE_BYTES, 'i'),
    ("target_size_ratio", opts::TARGET_SIZE_RATIO, 'd'),
    ("pg_autoscale_bias", opts::PG_AUTOSCALE_BIAS, 'd'),
    ("read_lease_interval", opts::READ_LEASE_INTERVAL, 'd'),
    ("dedup_tier", opts::DEDUP_TIER, 'i'),
    ("dedup_chunk_algorithm", opts::DEDUP_CHUNK_ALGORITHM, 's'),
    ("dedup_cdc_chunk_size", opts::DEDUP_CDC_CHUNK_SIZE, 'i'),
    ("pg_num_max", opts::PG_NUM_MAX, 'i'),
];

/// The largest `pg_autoscale_bias`, as in Ceph.
const MOST_BIAS: f64 = 1000.0;

/// The name of a numbered option.
pub(super) fn opt_name(key: i32) -> Option<&'static str> {
    OPTS.iter().find(|(_, k, _)| *k == key).map(|(name, ..)| *name)
}

/// Flags that are set like settings.
const FLAGS: [(&str, u64); 8] = [
    ("hashpspool", pool_flags::HASHPSPOOL),
    ("nodelete", pool_flags::NODELETE),
    ("nopgchange", pool_flags::NOPGCHANGE),
    ("nosizechange", pool_flags::NOSIZECHANGE),
    ("write_fadvise_dontneed", pool_flags::WRITE_FADVISE_DONTNEED),
    ("noscrub", pool_flags::NOSCRUB),
    ("nodeep-scrub", pool_flags::NODEEP_SCRUB),
    ("bulk", pool_flags::BULK),
];

fn flag_value(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => refuse!(EINVAL, "'{text}' is neither true nor false"),
    }
}

/// Reads a flag as settings of erasure-coded pools take it.
fn strict_flag(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => refuse!(EINVAL, "expecting value 'true', 'false', '0', or '1'"),
    }
}

/// Reason why `fast_read` does nothing.
const NO_FAST_READ: &str = "shards are not read before they are needed";

fn count(var: &str, text: &str) -> Result<u32, Refusal> {
    match text.trim().parse::<u32>() {
        Ok(n) => Ok(n),
        Err(_) => refuse!(EINVAL, "error parsing integer value '{text}' of {var}"),
    }
}

fn set(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let pool = cx.existing_pool(args, "pool")?;
    let (var, val) = (args.str("var"), args.str("val"));
    let ctx = ctx(cx);
    let crush = cx.state.osdmap.crush.clone();
    let sure = args.flag("yes_i_really_mean_it");
    let inc = cx.inc();
    match var {
        "pg_num" => ctx.set_pg_num(inc, pool, count(var, val)?)?,
        "size" => {
            ctx.check_may_resize(pool)?;
            ctx.set_size(inc, pool, count(var, val)?, sure)?;
        }
        "min_size" => ctx.set_min_size(inc, pool, count(var, val)?)?,
        "pgp_num" => set_pgp_num(ctx.edit(inc, pool)?, count(var, val)?, false)?,
        "pgp_num_actual" => set_pgp_num(ctx.edit(inc, pool)?, count(var, val)?, true)?,
        _ => {
            let p = ctx.edit(inc, pool)?;
            set_simple(p, &crush, var, val, sure)?;
            if var == "crush_rule" {
                ctx.check_rule(&crush, p.crush_rule, p.type_, p.size.into())?;
            }
        }
    }
    let changed = cx.inc().new_pools.get(&pool).cloned().filter(|_| var == "crush_rule");
    let barren = changed.map_or(String::new(), |pool| barren(&cx.state.osdmap, &cx.state.osdmap.crush, &pool));
    let idle = OPTS.iter().find(|(name, ..)| *name == var).and_then(|(_, key, _)| monstate::pools::without_effect(*key));
    let idle = idle.map(|(_, why)| why).or((var == "fast_read" && val != "0" && val != "false").then_some(NO_FAST_READ));
    let idle = idle.map(|why| format!("; it is kept and has no effect: {why}")).unwrap_or_default();
    Ok(Reply::status(format!("set pool {pool} {var} to {val}{barren}{idle}")))
}

/// Sets where the number of groups that are placed apart goes, or with `now` what it is.
fn set_pgp_num(p: &mut Pool, n: u32, now: bool) -> Result<(), Refusal> {
    if p.has_flag(pool_flags::NOPGCHANGE) {
        refuse!(EPERM, "the number of this pool's groups may not change: its nopgchange flag is set");
    }
    let most = if now { p.pg_num } else { p.pg_num.max(p.pg_num_target) };
    if n == 0 || n > most {
        refuse!(EINVAL, "specified pgp_num {n} is outside of 1...{most} (pg_num)");
    }
    if now {
        p.pgp_num = n;
    }
    p.pgp_num_target = n;
    Ok(())
}

fn set_simple(p: &mut Pool, crush: &crush::Map, var: &str, val: &str, sure: bool) -> Result<(), Refusal> {
    if let Some((_, bit)) = FLAGS.iter().find(|(name, _)| *name == var) {
        if var == "hashpspool" && !sure {
            refuse!(EPERM, "changing hashpspool moves all data of the pool; pass --yes-i-really-mean-it to go on");
        }
        p.flags = if flag_value(val)? { p.flags | bit } else { p.flags & !bit };
        return Ok(());
    }
    if let Some((_, key, kind)) = OPTS.iter().find(|(name, ..)| *name == var) {
        return set_numbered(p, *key, *kind, var, val);
    }
    match var {
        "crush_rule" => match crush.rule_id(val) {
            Some(id) if crush.rule(id as u32).is_some_and(|r| r.mask.kind == p.type_) => p.crush_rule = id as u8,
            Some(_) => refuse!(EINVAL, "crush rule {val} is not for pools of this type"),
            None => refuse!(ENOENT, "crush rule {val} does not exist"),
        },
        "fast_read" if p.is_erasure() => p.fast_read = strict_flag(val)?,
        "fast_read" => {
            if flag_value(val)? {
                refuse!(EINVAL, "fast read is not supported in replication pool");
            }
        }
        "pg_autoscale_mode" => match mode::parse(val) {
            Some(mode) => p.pg_autoscale_mode = mode,
            None => refuse!(EINVAL, "specified invalid mode {val}"),
        },
        "allow_ec_overwrites" if p.is_erasure() => match strict_flag(val)? {
            true => p.flags |= pool_flags::EC_OVERWRITES,
            false => refuse!(EINVAL, "ec overwrites cannot be disabled once enabled"),
        },
        "allow_ec_overwrites" => refuse!(EINVAL, "ec overwrites can only be enabled for an erasure coded pool"),
        // The remaining settings belong to cache tiers.
        _ => refuse!(EOPNOTSUPP, "'{var}' belongs to cache tiers, which are not supported"),
    }
    Ok(())
}

fn set_numbered(p: &mut Pool, key: i32, kind: char, var: &str, val: &str) -> Result<(), Refusal> {
    let value = match kind {
        's' => {
            let allowed: &[&str] = match var {
                "compression_mode" => &["none", "passive", "aggressive", "force", "unset"],
                "compression_algorithm" => &["none", "snappy", "zlib", "zstd", "lz4", "unset"],
                _ => refuse!(EOPNOTSUPP, "'{var}' belongs to deduplication, which is not supported"),
            };
            if !allowed.contains(&val) {
                refuse!(EINVAL, "'{val}' is none of {}", allowed.join(", "));
            }
            OptValue::Str(val.into())
        }
        'd' => match val.parse::<f64>() {
            Ok(x) if var == "pg_autoscale_bias" && !(0.0..=MOST_BIAS).contains(&x) => {
                refuse!(EINVAL, "pg_autoscale_bias must be between 0 and {MOST_BIAS}")
            }
            Ok(x) if x.is_finite() && x >= 0.0 => OptValue::Double(x),
            Ok(x) if x < 0.0 => refuse!(EINVAL, "{var} cannot be negative"),
            _ => refuse!(EINVAL, "error parsing floating point value '{val}' of {var}"),
        },
        _ if var.starts_with("dedup") => refuse!(EOPNOTSUPP, "'{var}' belongs to deduplication, which is not supported"),
        _ if var == "csum_type" => OptValue::Int(csum_type(val)?),
        _ if var == "recovery_priority" => match val.parse::<i64>() {
            Ok(n) if (-10..=10).contains(&n) => OptValue::Int(n),
            _ => refuse!(EINVAL, "pool recovery_priority must be between -10 and 10"),
        },
        _ => match parse(val, true).and_then(|n| i64::try_from(n).ok()) {
            Some(n) => OptValue::Int(n),
            None => refuse!(EINVAL, "error parsing integer value '{val}' of {var}"),
        },
    };
    if let (opts::PG_NUM_MIN, OptValue::Int(n)) = (key, &value)
        && *n > i64::from(p.pg_num)
    {
        refuse!(EINVAL, "pg_num_min {n} is above pg_num {}", p.pg_num);
    }
    if let (opts::PG_NUM_MAX, OptValue::Int(n)) = (key, &value)
        && *n != 0
        && *n < i64::from(p.pg_num)
    {
        refuse!(EINVAL, "pg_num_max {n} is below pg_num {}", p.pg_num);
    }
    set_opt(p, key, value);
    Ok(())
}

/// Names of checksum types by number, as Ceph's option of the store has them.
const CSUM: [&str; 6] = ["none", "xxhash32", "xxhash64", "crc32c", "crc32c_16", "crc32c_8"];

fn csum_type(name: &str) -> Result<i64, Refusal> {
    match CSUM.iter().position(|n| *n == name) {
        Some(at) => Ok(at as i64 + 1),
        None => refuse!(EINVAL, "'{name}' is none of {}", CSUM.join(", ")),
    }
}

/// The value of a setting. None if it is not set, or not for such pools.
fn value_of(cx: &Cx<'_>, p: &Pool, var: &str) -> Option<Value> {
    if let Some((_, bit)) = FLAGS.iter().find(|(name, _)| *name == var) {
        return Some(json!(p.has_flag(*bit)));
    }
    if let Some((_, key, _)) = OPTS.iter().find(|(name, ..)| *name == var) {
        return p.opts.get(key).map(|v| match v {
            OptValue::Str(s) => json!(s),
            OptValue::Int(n) if var == "csum_type" => json!(CSUM.get(*n as usize - 1).copied().unwrap_or("none")),
            OptValue::Int(n) => json!(n),
            OptValue::Double(x) => json!(x),
        });
    }
    Some(match var {
        "size" => json!(p.size),
        "min_size" => json!(p.min_size),
        "pg_num" => json!(p.pg_num),
        "pgp_num" => json!(p.pgp_num),
        "crush_rule" => json!(
            cx.state.osdmap.crush.rule_names.get(&i32::from(p.crush_rule)).cloned().unwrap_or_else(|| p.crush_rule.to_string())
        ),
        "use_gmt_hitset" => json!(p.use_gmt_hitset),
        "fast_read" => json!(u32::from(p.fast_read)),
        "pg_autoscale_mode" => json!(maps::autoscale_mode::name(p.pg_autoscale_mode)),
        "allow_ec_overwrites" if p.is_erasure() => json!(p.has_flag(pool_flags::EC_OVERWRITES)),
        "erasure_code_profile" if p.is_erasure() => json!(p.erasure_code_profile),
        _ => return None,
    })
}

/// All settings, in the order of `get … all`.
const ALL: [&str; 43] = [
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "hashpspool",
    "allow_ec_overwrites",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "use_gmt_hitset",
    "erasure_code_profile",
    "fast_read",
    "scrub_min_interval",
    "scrub_max_interval",
    "deep_scrub_interval",
    "recovery_priority",
    "recovery_op_priority",
    "scrub_priority",
    "compression_mode",
    "compression_algorithm",
    "compression_required_ratio",
    "compression_max_blob_size",
    "compression_min_blob_size",
    "csum_type",
    "csum_min_block",
    "csum_max_block",
    "fingerprint_algorithm",
    "pg_autoscale_mode",
    "pg_autoscale_bias",
    "pg_num_min",
    "pg_num_max",
    "target_size_bytes",
    "target_size_ratio",
    "dedup_tier",
    "dedup_chunk_algorithm",
    "dedup_cdc_chunk_size",
    "read_lease_interval",
    "eio",
    "bulk",
];

fn text_of(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Number(n) if n.is_f64() => number(n.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    }
}

fn get(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let id = cx.existing_pool(args, "pool")?;
    let p = &cx.state.osdmap.pools[&id];
    let var = args.str("var");
    let (name, asked): (&str, Vec<&str>) = (args.str("pool"), if var == "all" { ALL.to_vec() } else { vec![var] });
    let found: Vec<(&str, Value)> = asked.iter().filter_map(|v| Some((*v, value_of(cx, p, v)?))).collect();
    if found.is_empty() {
        let tier = ["hit_set", "cache_", "target_max", "recency", "gmt"].iter().any(|w| var.contains(w));
        let why = match var {
            _ if tier => format!("pool '{name}' is not a tier pool: variable not applicable"),
            "erasure_code_profile" | "allow_ec_overwrites" => {
                format!("pool '{name}' is not a erasure pool: variable not applicable")
            }
            _ => format!("option '{var}' is not set on pool '{name}'"),
        };
        let errno = if tier || var.contains("e") && OPTS.iter().all(|(n, ..)| *n != var) {
            types::Errno::EACCES
        } else {
            types::Errno::ENOENT
        };
        return Err(Refusal::new(errno, why));
    }
    let mut value = Map::new();
    value.insert("pool".into(), json!(name));
    value.insert("pool_id".into(), json!(id));
    value.extend(found.iter().map(|(k, v)| ((*k).to_string(), v.clone())));
    // Ceph has a number for this one in text, and a truth in structures.
    let number = |k: &str, v: &Value| (k == "use_gmt_hitset").then(|| u8::from(v == &json!(true)).to_string());
    let line = |(k, v): &(&str, Value)| format!("{k}: {}\n", number(k, v).unwrap_or_else(|| text_of(v)));
    Ok(cx.show("pool", Value::Object(value), || found.iter().map(line).collect()))
}
