//! Commands on the rules of the CRUSH map.

use super::shared::edit;
use super::{Cx, Row, erasure, row};
use crush::{Map, RuleSpec, Step, op};
use grammar::{Args, Outcome, Refusal, Reply, refuse};
use maps::pool_type;
use serde_json::{Value, json};

pub(super) const ROWS: &[Row] = &[
    row("osd crush rule ls", "list the rules", "osd", "r", ls),
    row("osd crush rule list", "list the rules", "osd", "r", ls),
    row(
        "osd crush rule ls-by-class <class:String goodchars=[A-Za-z0-9-_.]>",
        "list the rules that take only a device class",
        "osd",
        "r",
        ls_by_class,
    ),
    row("osd crush rule dump <name:String goodchars=[A-Za-z0-9-_.] req=false>", "show a rule, or all", "osd", "r", dump),
    row(
        "osd crush rule create-simple <name:String goodchars=[A-Za-z0-9-_.]> <root:String goodchars=[A-Za-z0-9-_.]> <type:String goodchars=[A-Za-z0-9-_.]> <mode:Choices req=false strings=firstn|indep>",
        "make a rule that spreads copies over buckets of a type",
        "osd",
        "rw",
        create_simple,
    ),
    row(
        "osd crush rule create-replicated <name:String goodchars=[A-Za-z0-9-_.]> <root:String goodchars=[A-Za-z0-9-_.]> <type:String goodchars=[A-Za-z0-9-_.]> <class:String goodchars=[A-Za-z0-9-_.] req=false>",
        "make a rule for replicated pools",
        "osd",
        "rw",
        create_replicated,
    ),
    row(
        "osd crush rule create-erasure <name:String goodchars=[A-Za-z0-9-_.]> <profile:String goodchars=[A-Za-z0-9-_.=] req=false>",
        "make a rule for erasure-coded pools",
        "osd",
        "rw",
        create_erasure,
    ),
    row(
        "osd crush rule rename <srcname:String goodchars=[A-Za-z0-9-_.]> <dstname:String goodchars=[A-Za-z0-9-_.]>",
        "give a rule another name",
        "osd",
        "rw",
        rename,
    ),
    row("osd crush rule rm <name:String goodchars=[A-Za-z0-9-_.]>", "remove a rule", "osd", "rw", rm),
];

fn rule_dump(map: &Map, n: usize) -> Option<Value> {
    let rule = map.rules.get(n)?.as_ref()?;
    let steps: Vec<Value> = rule.steps.iter().map(|s| step_dump(map, s)).collect();
    Some(json!({
        "rule_id": n,
        "rule_name": map.rule_names.get(&(n as i32)).cloned().unwrap_or_default(),
        "ruleset": rule.mask.ruleset,
        "type": rule.mask.kind,
        "min_size": rule.mask.min_size,
        "max_size": rule.mask.max_size,
        "steps": steps,
    }))
}

/// All rules as structures.
pub(super) fn rules_dump(map: &Map) -> Vec<Value> {
    (0..map.rules.len()).filter_map(|n| rule_dump(map, n)).collect()
}

fn ls(cx: &mut Cx<'_>, _: &Args) -> Outcome {
    let names: Vec<&String> = cx.state.osdmap.crush.rule_names.values().collect();
    Ok(cx.show("rules", json!(names), || names.iter().map(|n| format!("{n}\n")).collect()))
}

fn ls_by_class(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap.crush;
    if args.str("class").is_empty() {
        refuse!(EINVAL, "no class specified");
    }
    let Some(class) = map.class_id(args.str("class")) else {
        refuse!(ENOENT, "failed to get rules by class '{}'", args.str("class"))
    };
    let takes = |n: u32| map.rule_takes(n).iter().any(|t| map.split_shadow(*t).is_some_and(|(_, c)| c == class));
    let names: Vec<&String> = map.rule_names.iter().filter(|(n, _)| takes(**n as u32)).map(|(_, name)| name).collect();
    Ok(cx.show("rules", json!(names), || names.iter().map(|n| format!("{n}\n")).collect()))
}

fn dump(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let map = &cx.state.osdmap.crush;
    let value = match args.opt("name") {
        None => json!(rules_dump(map)),
        Some(name) => match map.rule_id(name).and_then(|n| rule_dump(map, n as usize)) {
            Some(rule) => rule,
            None => refuse!(ENOENT, "unknown crush rule '{name}'"),
        },
    };
    Ok(cx.structure(if value.is_array() { "rules" } else { "rule" }, &value))
}

fn create(cx: &mut Cx<'_>, args: &Args, spec: RuleSpec) -> Outcome {
    let name = args.str("name");
    let existing = cx.state.osdmap.crush.rule_id(name);
    if existing.is_some() {
        return Ok(Reply::status(format!("rule {name} already exists")));
    }
    edit(cx, |m| m.add_simple_rule(&spec))?;
    Ok(Reply::default())
}

fn spec(args: &Args) -> RuleSpec {
    RuleSpec {
        name: args.str("name").into(),
        root: args.str("root").into(),
        failure_domain: args.str("type").into(),
        class: args.str("class").into(),
        kind: pool_type::REPLICATED,
        ..RuleSpec::default()
    }
}

fn create_simple(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let spec = RuleSpec { indep: args.str("mode") == "indep", ..spec(args) };
    create(cx, args, spec)
}

fn create_replicated(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    create(cx, args, spec(args))
}

fn create_erasure(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (name, profile) = (args.str("name"), args.opt("profile").filter(|p| !p.is_empty()).unwrap_or(erasure::DEFAULT));
    if cx.state.osdmap.crush.rule_id(name).is_some() {
        return Ok(Reply::status(format!("rule {name} already exists")));
    }
    let profile = erasure::find(cx, profile)?;
    let number = of_profile(cx, name, &profile)?;
    Ok(Reply::status(format!("created rule {name} at {number}")))
}

/// Gives the number of the rule of that name, which is made as a profile says if it is not there.
pub(super) fn of_profile(cx: &mut Cx<'_>, name: &str, profile: &ec::Profile) -> Result<u32, Refusal> {
    if let Some(id) = cx.state.osdmap.crush.rule_id(name) {
        return Ok(id as u32);
    }
    let word = |key: &str| profile.pairs.get(key).cloned().unwrap_or_default();
    let spec = RuleSpec {
        name: name.into(),
        root: word("crush-root"),
        failure_domain: word("crush-failure-domain"),
        class: word("crush-device-class"),
        indep: true,
        kind: pool_type::ERASURE,
        max_size: (profile.k + profile.m) as u8,
    };
    edit(cx, |m| m.add_simple_rule(&spec)).map(u32::from)
}

fn rename(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let (from, to) = (args.str("srcname"), args.str("dstname"));
    let map = &cx.state.osdmap.crush;
    if map.rule_id(from).is_none() && map.rule_id(to).is_some() {
        return Ok(Reply::status(format!("already renamed to '{to}'")));
    }
    edit(cx, |m| m.rename_rule(from, to))?;
    Ok(Reply::default())
}

fn rm(cx: &mut Cx<'_>, args: &Args) -> Outcome {
    let name = args.str("name");
    let Some(rule) = cx.state.osdmap.crush.rule_id(name) else { return Ok(Reply::status(format!("rule {name} does not exist"))) };
    if let Some(id) = cx.state.osdmap.pools.iter().find(|(_, p)| i32::from(p.crush_rule) == rule).map(|(id, _)| *id) {
        refuse!(EBUSY, "crush rule {name} ({rule}) is in use by pool '{}'", cx.state.pool_name(id));
    }
    edit(cx, |m| m.remove_rule(rule as u8))?;
    Ok(Reply::default())
}

/// The steps of a rule as a structure.
fn step_dump(map: &Map, step: &Step) -> Value {
    let kind = || map.type_name(step.arg2).unwrap_or("?");
    let choose = |name: &str| json!({"op": name, "num": step.arg1, "type": kind()});
    let number = |name: &str| json!({"op": name, "num": step.arg1});
    match step.op {
        op::NOOP => json!({"op": "noop"}),
        op::TAKE => json!({"op": "take", "item": step.arg1, "item_name": map.name_of(step.arg1).unwrap_or_default()}),
        op::EMIT => json!({"op": "emit"}),
        op::CHOOSE_FIRSTN => choose("choose_firstn"),
        op::CHOOSE_INDEP => choose("choose_indep"),
        op::CHOOSELEAF_FIRSTN => choose("chooseleaf_firstn"),
        op::CHOOSELEAF_INDEP => choose("chooseleaf_indep"),
        op::SET_CHOOSE_TRIES => number("set_choose_tries"),
        op::SET_CHOOSELEAF_TRIES => number("set_chooseleaf_tries"),
        op::SET_CHOOSE_LOCAL_TRIES => number("set_choose_local_tries"),
        op::SET_CHOOSE_LOCAL_FALLBACK_TRIES => number("set_choose_local_fallback_tries"),
        op::SET_CHOOSELEAF_VARY_R => number("set_chooseleaf_vary_r"),
        op::SET_CHOOSELEAF_STABLE => number("set_chooseleaf_stable"),
        other => json!({"opcode": other, "arg1": step.arg1, "arg2": step.arg2}),
    }
}
