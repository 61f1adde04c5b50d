//! Commands on profiles of erasure codes, and what rules and pools ask of a profile.
//!
//! Profiles live in the OSD map, where stock clients read them. A profile is completed and checked when it is set
//! ([`ec::Profile`]), and read again by whoever uses it: one that an earlier program stored may be refused then.

use super::{Cx, Row, row};
use ec::{Pairs, Profile};
use grammar::{Args, Outcome, Refusal, Reply, refuse};
use maps::Layout;
use monstate::effective;
use monstate::pools::Shards;
use serde_json::json;

pub(super) const ROWS: &[Row] = &[
    row("osd erasure-code-profile ls", "list the erasure code profiles", "osd", "r", ls),
    row("osd erasure-code-profile get <name:String goodchars=[A-Za-z0-9-_.]>", "show an erasure code profile", "osd", "r", get),
    row(
        "osd erasure-code-profile set <name:String goodchars=[A-Za-z0-9-_.]> <profile:String n=N req=false> <force:Bool req=false>",
        "make an erasure code profile",
        "osd",
        "rw",
        set,
    ),
    row("osd erasure-code-profile rm <name:String goodchars=[A-Za-z0-9-_.]>", "remove an erasure code profile", "osd", "rw", rm),
];

/// The name of the profile that is taken where none is named.
pub(super) const DEFAULT: &str = "default";

fn refusal(refused: ec::Refusal) -> Refusal {
    Refusal::new(refused.errno, refused.text)
}

/// Returns what profiles have that do not say otherwise.
fn defaults(cx: &Cx<'_>) -> String {
    effective::of_monitor(cx.state, cx.env, "osd_pool_default_erasure_code_profile")
}

/// Finds a profile and reads it. The one called `default` is made of the option if somebody removed it.
pub(super) fn find(cx: &mut Cx<'_>, name: &str) -> Result<Profile, Refusal> {
    let stored = cx.state.osdmap.erasure_code_profiles.get(name).cloned();
    let made = stored.is_none() && name == DEFAULT;
    let pairs = match stored {
        None if made => ec::merge(&defaults(cx), []).map_err(refusal)?,
        pairs => pairs.unwrap_or_default(),
    };
    if !pairs.contains_key("plugin") {
        refuse!(
            EINVAL,
            "cannot determine the erasure code plugin because there is no 'plugin' entry in the erasure_code_profile {}",
            ec::print(&pairs)
        );
    }
    let profile = Profile::parse(pairs, true).map_err(refusal)?;
    if made {
        cx.inc().new_erasure_code_profiles.insert(name.into(), profile.pairs.clone());
    }
    Ok(profile)
}

/// Bytes of a chunk, at most, of pools whose profile names no unit: a key of the store's extents.
const MOST_CHUNK: u32 = 64 << 10;

/// Returns what a pool is made by that has this profile.
pub(super) fn shards(cx: &Cx<'_>, name: &str, profile: &Profile) -> Result<Shards, Refusal> {
    let unit = effective::monitor_number(cx.state, cx.env, "osd_pool_erasure_code_stripe_unit");
    let Ok(stripe_width) = u32::try_from(profile.stripe_width(unit.clamp(1.0, f64::from(16 << 20)) as u32)) else {
        refuse!(EINVAL, "rows of profile {name} are longer than 4 GiB");
    };
    let few = |n: usize| u8::try_from(n).expect("a profile has at most 64 shards");
    Ok(Shards {
        profile: name.into(),
        layout: Layout { data: few(profile.k), most_chunk: MOST_CHUNK, profile: profile.pairs.clone() },
        parities: few(profile.m),
        stripe_width,
        min_size: few(profile.min_size()),
    })
}

/// Names of profiles that take only devices of this class.
pub(super) fn of_class<'a>(cx: &Cx<'a>, class: &str) -> Vec<&'a str> {
    let profiles = cx.state.osdmap.erasure_code_profiles.iter();
    profiles
        .filter(|(_, pairs)| pairs.get("crush-device-class").is_some_and(|c| c == class))
        .map(|(name, _)| name.as_str())
        .collect()
}

fn ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let names: Vec<&String> = cx.state.osdmap.erasure_code_profiles.keys().collect();
    Ok(cx.show("erasure-code-profiles", json!(names), || names.iter().map(|n| format!("{n}\n")).collect()))
}

fn get(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name");
    let Some(profile) = cx.state.osdmap.erasure_code_profiles.get(name) else {
        refuse!(ENOENT, "unknown erasure code profile '{name}'")
    };
    Ok(cx.show("profile", json!(profile), || profile.iter().map(|(k, v)| format!("{k}={v}\n")).collect()))
}

fn set(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name");
    // Scripts put the flag among the words, too.
    let words = args.list("profile");
    let force = args.flag("force") || words.iter().any(|word| word == "--force");
    let words = words.iter().map(String::as_str).filter(|word| *word != "--force");
    let pairs = ec::merge(&defaults(cx), words).map_err(refusal)?;
    if let Some(domain) = pairs.get("crush-failure-domain")
        && cx.state.osdmap.crush.type_id(domain).is_none()
    {
        refuse!(EINVAL, "erasure-code-profile {} contains an invalid failure-domain {domain:?}", ec::print(&pairs));
    }
    let profile = Profile::parse(pairs, force).map_err(refusal)?.pairs;
    if let Some(stored) = cx.state.osdmap.erasure_code_profiles.get(name) {
        let existing: Pairs = Profile::parse(stored.clone(), true).map_or(stored.clone(), |profile| profile.pairs);
        if existing == profile {
            return Ok(Reply::default());
        }
        if !force {
            refuse!(
                EPERM,
                "will not override erasure code profile {name} because the existing profile {} is different from the proposed profile {}",
                ec::print(&existing),
                ec::print(&profile)
            );
        }
    }
    let name = name.to_string();
    cx.inc().new_erasure_code_profiles.insert(name, profile);
    Ok(Reply::default())
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name").to_string();
    let map = &cx.state.osdmap;
    let users = map.pools.iter().filter(|(_, p)| p.is_erasure() && p.erasure_code_profile == name);
    let users: String = users.map(|(id, _)| format!("{} ", cx.state.pool_name(*id))).collect();
    if !users.is_empty() {
        refuse!(EBUSY, "{users}pool(s) are using the erasure code profile '{name}'");
    }
    if !map.erasure_code_profiles.contains_key(&name) {
        return Ok(Reply::status(format!("erasure-code-profile {name} does not exist")));
    }
    cx.inc().old_erasure_code_profiles.push(name);
    Ok(Reply::default())
}
