//! Commands on the auth database: entities, keys, capabilities.

use super::{Cx, Row, row};
use caps::{MgrCaps, MonCaps, OsdCaps};
use grammar::{Args, Outcome, Refusal, Reply, refuse};
use monstate::state::Change;
use msgr::auth::{EntityKey, Key, Keyring};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::EntityName;

pub(super) const ROWS: &[Row] = &[
    row("auth ls", "list entities with their keys and rights", "auth", "rx", ls),
    row("auth list", "list entities with their keys and rights", "auth", "rx", ls),
    row("auth get <entity:String>", "show an entity as a keyring", "auth", "rx", get),
    row("auth get-key <entity:String>", "show an entity's key", "auth", "rx", get_key),
    row("auth print-key <entity:String>", "show an entity's key", "auth", "rx", get_key),
    row("auth print_key <entity:String>", "show an entity's key", "auth", "rx", get_key),
    row("auth export <entity:String req=false>", "get a keyring of an entity, or of all", "auth", "rx", export),
    row("auth import", "take entities from a keyring", "auth", "rwx", import),
    row(
        "auth add <entity:String> <caps:String n=N req=false>",
        "add an entity, with the key in a keyring or a new one",
        "auth",
        "rwx",
        add,
    ),
    row(
        "auth get-or-create <entity:String> <caps:String n=N req=false>",
        "show an entity as a keyring; make it if it does not exist",
        "auth",
        "rwx",
        get_or_create,
    ),
    row(
        "auth get-or-create-key <entity:String> <caps:String n=N req=false>",
        "show an entity's key; make it if it does not exist",
        "auth",
        "rwx",
        get_or_create_key,
    ),
    row("auth caps <entity:String> <caps:String n=N>", "set an entity's rights", "auth", "rwx", set_caps),
    row("auth rotate <entity:String>", "give an entity a new key, and show it as a keyring", "auth", "rwx", rotate),
    row("auth rm <entity:String>", "remove an entity", "auth", "rwx", rm),
    row("auth del <entity:String>", "remove an entity", "auth", "rwx", rm),
];

fn name(args: &Args) -> Result<EntityName, Refusal> {
    let text = args.str("entity");
    // Older keyrings say `admin` for `client.admin`. Anything else must say what it is.
    match text.parse::<EntityName>() {
        Ok(name) if !name.id.contains(['[', ']', '\n']) => Ok(name),
        _ => refuse!(EINVAL, "bad entity name '{text}'"),
    }
}

fn existing<'a>(cx: &Cx<'a>, args: &Args) -> Result<(EntityName, &'a EntityKey), Refusal> {
    let name = name(args)?;
    match cx.state.auth.get(&name) {
        Some(entity) => Ok((name, entity)),
        None => refuse!(ENOENT, "failed to find {name} in keyring"),
    }
}

/// Reads rights from arguments: service and text in turn, each checked.
fn rights(args: &Args) -> Result<BTreeMap<String, String>, Refusal> {
    let list = args.list("caps");
    if !list.len().is_multiple_of(2) {
        refuse!(EINVAL, "bad capabilities request; odd number of arguments");
    }
    let caps: BTreeMap<String, String> = list.chunks(2).map(|c| (c[0].clone(), c[1].clone())).collect();
    check(&caps)?;
    Ok(caps)
}

fn check(caps: &BTreeMap<String, String>) -> Result<(), Refusal> {
    for (service, text) in caps {
        let error = match service.as_str() {
            "mon" => MonCaps::parse(text).err(),
            "mgr" => MgrCaps::parse(text).err(),
            "osd" => OsdCaps::parse(text).err(),
            "mds" => None,
            other => refuse!(EINVAL, "unknown cap type '{other}'"),
        };
        if let Some(why) = error {
            refuse!(EINVAL, "{service} capability parse failed: {why}");
        }
    }
    Ok(())
}

/// Writes an entity as `keyring` text.
fn section(name: &EntityName, key: &Key, caps: &BTreeMap<String, String>) -> String {
    let entity = EntityKey { key: *key, caps: caps.clone() };
    Keyring { entities: [(name.clone(), entity)].into() }.to_string()
}

fn entity_dump(name: &EntityName, entity: &EntityKey) -> Value {
    json!({"entity": name.to_string(), "key": entity.key.to_base64(), "caps": entity.caps})
}

fn ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let all = &cx.state.auth.keyring.entities;
    let value = json!({"auth_dump": all.iter().map(|(n, e)| entity_dump(n, e)).collect::<Vec<_>>()});
    let reply = cx.show("auth", value, || {
        let mut out = String::new();
        for (name, entity) in all.iter().filter(|(n, _)| n.kind != types::EntityType::Mon) {
            out.push_str(&format!("{name}\n\tkey: {}\n", entity.key.to_base64()));
            entity.caps.iter().for_each(|(s, c)| out.push_str(&format!("\tcaps: [{s}] {c}\n")));
        }
        out
    });
    // A structure needs no heading.
    Ok(if cx.format.is_structured() { reply } else { reply.with_status("installed auth entries:\n") })
}

fn get(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, entity) = existing(cx, args)?;
    let value = json!([entity_dump(&name, entity)]);
    let reply = cx.show("auth", value, || section(&name, &entity.key, &entity.caps));
    Ok(reply.with_status(format!("exported keyring for {name}")))
}

fn get_key(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let text = args.str("entity");
    let found = text.parse::<EntityName>().ok().and_then(|name| cx.state.auth.get(&name));
    let Some(entity) = found else { refuse!(ENOENT, "don't have {text}") };
    let key = entity.key.to_base64();
    Ok(cx.show("auth", json!({"key": key}), || key.clone()))
}

fn export(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    if args.opt("entity").is_none() {
        let all = &cx.state.auth.keyring.entities;
        let value = all.iter().map(|(n, e)| entity_dump(n, e)).collect();
        let reply = cx.show("auth", value, || all.iter().map(|(n, e)| section(n, &e.key, &e.caps)).collect());
        return Ok(reply.with_status("exported master keyring"));
    }
    let (name, entity) = existing(cx, args)?;
    let value = json!([entity_dump(&name, entity)]);
    let reply = cx.show("auth", value, || section(&name, &entity.key, &entity.caps));
    Ok(reply.with_status(format!("export auth(key={})", entity.key.to_base64())))
}

fn keyring(cx: &Cx<'_>) -> Result<Keyring, Refusal> {
    match Keyring::parse(&cx.input) {
        Ok(keyring) => Ok(keyring),
        Err(why) => refuse!(EINVAL, "error decoding keyring: {why}"),
    }
}

/// Takes out capabilities that allow nothing, as `ceph-authtool --cap mon ''` writes them: as good as none.
fn without_empty(caps: &mut BTreeMap<String, String>) {
    caps.retain(|_, cap| !cap.trim().is_empty());
}

fn import(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    if cx.input.is_empty() {
        refuse!(EINVAL, "auth import: no data supplied");
    }
    let keyring = keyring(cx)?;
    for (name, mut entity) in keyring.entities {
        if entity.caps.is_empty() {
            refuse!(EINVAL, "auth import: no caps supplied for {name}");
        }
        without_empty(&mut entity.caps);
        check(&entity.caps)?;
        cx.changes.push(Change::Auth { name, entity: Some(entity) });
    }
    Ok(Reply::status("imported keyring"))
}

fn add(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = name(args)?;
    let mut entity = EntityKey { key: Key::new(cx.now.wall, cx.chance), caps: rights(args)? };
    if !cx.input.is_empty() {
        let keyring = keyring(cx)?;
        let Some(given) = keyring.entities.get(&name) else { refuse!(EINVAL, "key for {name} not found in provided keyring") };
        let mut given = given.clone();
        without_empty(&mut given.caps);
        if !given.caps.is_empty() && !entity.caps.is_empty() {
            refuse!(EINVAL, "caps cannot be specified both in keyring and in command");
        }
        entity.key = given.key;
        if entity.caps.is_empty() {
            check(&given.caps)?;
            entity.caps = given.caps.clone();
        }
    }
    if let Some(old) = cx.state.auth.get(&name) {
        let same_key = cx.input.is_empty() || old.key == entity.key;
        if !same_key {
            refuse!(EEXIST, "entity {name} exists but key does not match");
        }
        if old.caps.len() != entity.caps.len() {
            refuse!(EINVAL, "entity {name} exists but caps do not match");
        }
        if let Some((service, _)) = entity.caps.iter().find(|(service, cap)| old.caps.get(*service) != Some(*cap)) {
            refuse!(EINVAL, "entity {name} exists but cap {service} does not match");
        }
        return Ok(Reply::default());
    }
    let told = format!("added key for {name}");
    cx.changes.push(Change::Auth { name, entity: Some(entity) });
    Ok(Reply::status(told))
}

/// Finds the entity, or makes it with these rights. One that has other rights is refused.
fn found_or_made(cx: &mut Cx<'_>, args: &Args) -> Result<(EntityName, EntityKey), Refusal> {
    let (name, caps) = (name(args)?, rights(args)?);
    if let Some(old) = cx.state.auth.get(&name) {
        let differs = !args.list("caps").is_empty() && old.caps != caps;
        if differs {
            let service = caps.iter().find(|(s, c)| old.caps.get(*s) != Some(c)).map_or("", |(s, _)| s.as_str());
            refuse!(EINVAL, "key for {name} exists but cap {service} does not match");
        }
        return Ok((name, old.clone()));
    }
    let entity = EntityKey { key: Key::new(cx.now.wall, cx.chance), caps };
    cx.changes.push(Change::Auth { name: name.clone(), entity: Some(entity.clone()) });
    Ok((name, entity))
}

fn get_or_create(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, entity) = found_or_made(cx, args)?;
    let value = json!([{"entity": name.to_string(), "key": entity.key.to_base64()}]);
    Ok(cx.show("auth", value, || section(&name, &entity.key, &BTreeMap::new())))
}

fn get_or_create_key(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (_, entity) = found_or_made(cx, args)?;
    let key = entity.key.to_base64();
    Ok(cx.show("auth", json!({"key": key}), || format!("{key}\n")))
}

fn set_caps(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, old) = existing(cx, args)?;
    let entity = EntityKey { key: old.key, caps: rights(args)? };
    let told = format!("updated caps for {name}");
    cx.changes.push(Change::Auth { name, entity: Some(entity) });
    Ok(Reply::status(told))
}

/// Gives an entity another key. Its rights stay. Whoever has the old one is refused from now on; sessions that are open
/// end as when rights are taken away.
fn rotate(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, old) = existing(cx, args)?;
    if matches!(name.kind, types::EntityType::Mon) {
        refuse!(EINVAL, "the monitors' own key is not rotated: each monitor has it in its keyring, and all need the same");
    }
    let entity = EntityKey { key: Key::new(cx.now.wall, cx.chance), caps: old.caps.clone() };
    let value = json!([entity_dump(&name, &entity)]);
    let reply = cx.show("auth", value, || section(&name, &entity.key, &entity.caps));
    cx.changes.push(Change::Auth { name, entity: Some(entity) });
    Ok(reply)
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = name(args)?;
    if cx.state.auth.get(&name).is_none() {
        return Ok(Reply::status(format!("entity {name} does not exist")));
    }
    cx.changes.push(Change::Auth { name, entity: None });
    Ok(Reply::status("updated"))
}
