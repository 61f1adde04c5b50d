//! Rules: finding, making, removing.

use crate::build::check_name;
use crate::error::{Error, Result};
use crate::map::{Map, Mask, Rule, Step, op};

/// A pool names its rule by a byte.
const MAX_RULES: usize = 256;

/// Shape of a simple rule: copies (or shards) below `root`, no two in the same failure domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSpec {
    /// Name of the rule.
    pub name: String,
    /// Name of the bucket to start from.
    pub root: String,
    /// Type of bucket that holds at most one copy; empty or `osd`: the device itself.
    pub failure_domain: String,
    /// Class of devices; empty for all.
    pub class: String,
    /// True if positions matter (erasure coding).
    pub indep: bool,
    /// 1: for replicated pools, 3: for erasure-coded ones.
    pub kind: u8,
    /// Largest pool size; 0 takes the usual (10, or 20 where positions matter).
    pub max_size: u8,
}

impl Map {
    /// The rule that a pool with this `crush_rule`, type and size uses.
    pub fn find_rule(&self, ruleset: u8, kind: u8, size: u8) -> Option<u32> {
        let fits =
            |r: &Rule| r.mask.ruleset == ruleset && r.mask.kind == kind && (r.mask.min_size..=r.mask.max_size).contains(&size);
        self.rules.iter().position(|r| r.as_ref().is_some_and(fits)).map(|n| n as u32)
    }

    /// Adds a rule; its number is the first that is free.
    pub fn add_rule(&mut self, name: &str, kind: u8, sizes: (u8, u8), steps: Vec<Step>) -> Result<u8> {
        check_name(name)?;
        if self.rule_id(name).is_some() {
            return Err(Error::Exists(format!("rule '{name}'")));
        }
        let taken = |n: usize| self.rules.iter().flatten().any(|r| usize::from(r.mask.ruleset) == n);
        let free = (0..MAX_RULES).find(|n| self.rules.get(*n).is_none_or(Option::is_none) && !taken(*n));
        let number = free.ok_or_else(|| Error::Invalid("all numbers for rules are taken".into()))?;
        if number >= self.rules.len() {
            self.rules.resize_with(number + 1, || None);
        }
        let mask = Mask { ruleset: number as u8, kind, min_size: sizes.0, max_size: sizes.1 };
        self.rules[number] = Some(Rule { mask, steps });
        self.rule_names.insert(number as i32, name.to_owned());
        Ok(number as u8)
    }

    /// Adds the rule that `spec` describes.
    pub fn add_simple_rule(&mut self, spec: &RuleSpec) -> Result<u8> {
        let mut root = self.id_of(&spec.root).ok_or_else(|| Error::NotFound(format!("root item {}", spec.root)))?;
        let kind = match spec.failure_domain.as_str() {
            "" => 0,
            name => self.type_id(name).ok_or_else(|| Error::Invalid(format!("unknown type {name}")))?,
        };
        if !spec.class.is_empty() {
            let class = self.class_id(&spec.class);
            let class = class.ok_or_else(|| Error::Invalid(format!("device class {} does not exist", spec.class)))?;
            let shadow = self.class_buckets.get(&root).and_then(|shadows| shadows.get(&class));
            root =
                *shadow.ok_or_else(|| Error::Invalid(format!("root {} has no devices with class {}", spec.root, spec.class)))?;
        }
        let step = |op, arg1, arg2| Step { op, arg1, arg2 };
        let mut steps = Vec::new();
        if spec.indep {
            // Holes cost redundancy: try harder than the tunables say.
            steps.push(step(op::SET_CHOOSELEAF_TRIES, 5, 0));
            steps.push(step(op::SET_CHOOSE_TRIES, 100, 0));
        }
        let choose = match (spec.indep, kind == 0) {
            (false, false) => op::CHOOSELEAF_FIRSTN,
            (false, true) => op::CHOOSE_FIRSTN,
            (true, false) => op::CHOOSELEAF_INDEP,
            (true, true) => op::CHOOSE_INDEP,
        };
        steps.extend([step(op::TAKE, root, 0), step(choose, 0, kind), step(op::EMIT, 0, 0)]);
        let usual = if spec.indep { (3, 20) } else { (1, 10) };
        let sizes = (usual.0, if spec.max_size == 0 { usual.1 } else { spec.max_size });
        self.add_rule(&spec.name, spec.kind, sizes, steps)
    }

    /// Removes a rule. Whether a pool uses it is the caller's to check.
    pub fn remove_rule(&mut self, number: u8) -> Result<()> {
        let rule = self.rules.get_mut(usize::from(number)).and_then(Option::take);
        if rule.is_none() {
            return Err(Error::NotFound(format!("rule {number}")));
        }
        self.rule_names.remove(&i32::from(number));
        self.rebuild_shadow_trees();
        Ok(())
    }

    /// Gives a rule another name.
    pub fn rename_rule(&mut self, from: &str, to: &str) -> Result<()> {
        let number = self.rule_id(from).ok_or_else(|| Error::NotFound(format!("rule '{from}'")))?;
        check_name(to)?;
        if self.rule_id(to).is_some() {
            return Err(Error::Exists(format!("rule '{to}'")));
        }
        self.rule_names.insert(number, to.to_owned());
        Ok(())
    }

    /// Items that a rule starts from.
    pub fn rule_takes(&self, number: u32) -> Vec<i32> {
        let steps = self.rule(number).map_or(&[][..], |r| &r.steps);
        steps.iter().filter(|s| s.op == op::TAKE).map(|s| s.arg1).collect()
    }

    /// Returns true if a rule starts from this item or one of its shadows.
    pub(crate) fn is_taken_by_rule(&self, item: i32) -> bool {
        let shadows: Vec<i32> = self.class_buckets.get(&item).map_or(Vec::new(), |s| s.values().copied().collect());
        let takes = |n: usize| self.rule_takes(n as u32).into_iter().any(|i| i == item || shadows.contains(&i));
        (0..self.rules.len()).any(takes)
    }
}
