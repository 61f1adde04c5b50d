//! The configuration database: options by section, with the history of who changed what.

use denc::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};
use types::{EntityName, EntityType, UTime};

/// Number of changes that `config log` remembers.
const REMEMBERED: usize = 200;

/// One change of options, as `config log` shows it and `config reset` undoes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the change, from 1 on.
    pub version: u64,
    /// Time when it was made.
    pub stamp: UTime,
    /// Author of the version.
    pub by: String,
    /// The options that changed.
    pub items: Vec<Item>,
}
denc::plain!(Step { version, stamp, by, items });

/// The change of one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The option's section.
    pub section: String,
    /// The option's name.
    pub name: String,
    /// Value before; empty if it was not set.
    pub before: String,
    /// Value after; empty if it is not set.
    pub after: String,
}
denc::plain!(Item { section, name, before, after });

/// Options by section: `global`, a kind (`osd`), an entity (`osd.0`), each perhaps with a mask (`osd/class:ssd`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigDb {
    /// Section → option → value.
    pub sections: BTreeMap<String, BTreeMap<String, String>>,
    /// The last changes, newest last.
    pub steps: VecStep,
    /// Number of changes so far.
    pub version: u64,
}
denc::plain!(ConfigDb { sections, steps, version });

/// A bounded list of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VecStep(pub VecDeque<Step>);

impl Encode for VecStep {
    fn encode(&self, out: &mut Vec<u8>) {
        denc::put_count(out, self.0.len());
        self.0.iter().for_each(|s| s.encode(out));
    }
}

impl Decode for VecStep {
    fn decode(r: &mut denc::Reader<'_>) -> denc::Result<Self> {
        Ok(Self(r.get::<Vec<Step>>()?.into()))
    }
}

/// A section's name, in its two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Daemons that it is for: `global`, `osd`, `osd.0`
    pub who: String,
    /// Its mask: `class:ssd`, `host:a`; empty for none.
    pub mask: String,
}

impl Section {
    /// Parses `global`, `client`, `osd.3`, `osd/class:ssd`, or `class:ssd` (of everybody). None if it means nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let (who, mask) = match text.split_once('/') {
            Some((who, mask)) => (who, mask),
            None if text.contains(':') => ("global", text),
            None => (text, ""),
        };
        let known = ["global", "mon", "mgr", "osd", "mds", "client"].contains(&who);
        let named = who.parse::<EntityName>().is_ok_and(|n| n.kind != EntityType::Auth);
        let masked = mask.is_empty() || mask.split_once(':').is_some_and(|(k, v)| !k.is_empty() && !v.is_empty());
        ((known || named) && masked).then(|| Self { who: who.into(), mask: mask.into() })
    }

    /// The section's name as it is stored.
    pub fn text(&self) -> String {
        if self.mask.is_empty() { self.who.clone() } else { format!("{}/{}", self.who, self.mask) }
    }
}

/// The place of an entity in the cluster, for masks.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Device class of an OSD.
    pub class: Option<String>,
    /// Type → name of the buckets above it.
    pub location: BTreeMap<String, String>,
    /// Type → how far away such a bucket is: its number in the CRUSH map. Lower ones are nearer.
    pub distance: BTreeMap<String, i32>,
}

impl Place {
    fn fits(&self, mask: &str) -> bool {
        match mask.split_once(':') {
            None => mask.is_empty(),
            Some(("class", class)) => self.class.as_deref() == Some(class),
            Some((kind, name)) => self.location.get(kind).is_some_and(|n| n == name),
        }
    }

    /// Says how near a mask is, for those that fit: a place counts above a class, a near one above a far one, and any
    /// above none. The greatest counts.
    fn nearness(&self, mask: &str) -> i32 {
        match mask.split_once(':') {
            None => i32::MIN,
            Some(("class", _)) => i32::MIN + 1,
            Some((kind, _)) => -self.distance.get(kind).copied().unwrap_or(i32::MAX - 2),
        }
    }
}

impl ConfigDb {
    /// Sets and removes options.
    pub fn change(&mut self, stamp: UTime, by: &str, set: &[(String, String, Option<String>)]) {
        self.version += 1;
        let mut items = Vec::new();
        for (section, name, value) in set {
            let options = self.sections.entry(section.clone()).or_default();
            let before = match value {
                Some(value) => options.insert(name.clone(), value.clone()),
                None => options.remove(name),
            };
            items.push(Item {
                section: section.clone(),
                name: name.clone(),
                before: before.unwrap_or_default(),
                after: value.clone().unwrap_or_default(),
            });
        }
        self.sections.retain(|_, options| !options.is_empty());
        self.steps.0.push_back(Step { version: self.version, stamp, by: by.into(), items });
        while self.steps.0.len() > REMEMBERED {
            self.steps.0.pop_front();
        }
    }

    /// The options that count for one entity: option → (section, value). Later ones win: everybody, its kind, the parts
    /// of its name before a dot (`client.a` for `client.a.b`), itself; within each the unmasked before the masked, and
    /// of those the nearer place last, whatever its name.
    pub fn for_entity(&self, name: &EntityName, place: &Place) -> BTreeMap<String, (String, String)> {
        let mut result = BTreeMap::new();
        let whole = name.to_string();
        let prefixes = whole.match_indices('.').skip(1).filter_map(|(dot, _)| whole.get(..dot));
        for who in ["global", name.kind.name()].into_iter().chain(prefixes).chain([whole.as_str()]) {
            let split = |section: &str| {
                section.split_once('/').map_or((section.to_owned(), String::new()), |(w, m)| (w.into(), m.into()))
            };
            let all = self.sections.iter().map(|(section, options)| (split(section), section, options));
            let mut fitting: Vec<_> = all.filter(|((w, mask), ..)| w == who && place.fits(mask)).collect();
            fitting.sort_by_key(|((_, mask), ..)| place.nearness(mask));
            for (_, section, options) in fitting {
                result.extend(options.iter().map(|(k, v)| (k.clone(), (section.clone(), v.clone()))));
            }
        }
        result
    }

    /// The value of an option in exactly this section.
    pub fn get(&self, section: &str, name: &str) -> Option<&String> {
        self.sections.get(section)?.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_specific_section_wins() {
        let mut db = ConfigDb::default();
        let set = |db: &mut ConfigDb, s: &str, n: &str, v: Option<&str>| {
            db.change(UTime::ZERO, "me", &[(s.into(), n.into(), v.map(String::from))]);
        };
        set(&mut db, "global", "a", Some("1"));
        set(&mut db, "osd", "a", Some("2"));
        set(&mut db, "osd/class:ssd", "a", Some("3"));
        set(&mut db, "osd.1", "a", Some("4"));
        let of = |id: &str, class: Option<&str>| {
            let place = Place { class: class.map(String::from), ..Place::default() };
            db.for_entity(&EntityName::new(EntityType::Osd, id), &place)["a"].1.clone()
        };
        assert_eq!((of("0", None), of("0", Some("ssd")), of("1", Some("ssd"))), ("2".into(), "3".into(), "4".into()));
        // Of two masks the nearer place counts, and a place above a class.
        for order in [["root:default", "host:h"], ["host:h", "root:default"]] {
            let mut db = ConfigDb::default();
            for (mask, value) in order.iter().zip(["x", "y"]).chain([(&"class:ssd", "z")]) {
                set(&mut db, &format!("osd/{mask}"), "b", Some(value));
            }
            let place = Place {
                class: Some("ssd".into()),
                location: [("host".into(), "h".into()), ("root".into(), "default".into())].into(),
                distance: [("host".into(), 1), ("root".into(), 11)].into(),
            };
            let (section, value) = db.for_entity(&EntityName::new(EntityType::Osd, "1"), &place)["b"].clone();
            assert_eq!((section.as_str(), value.as_str()), ("osd/host:h", if order[1] == "host:h" { "y" } else { "x" }));
        }
        set(&mut db, "osd.1", "a", None);
        assert_eq!(db.sections.len(), 3);
        assert_eq!(db.steps.0.back().unwrap().items[0].before, "4");
    }

    #[test]
    fn what_is_set_for_a_name_counts_for_names_that_begin_with_it_and_a_dot() {
        let mut db = ConfigDb::default();
        for (who, value) in [("global", "1"), ("client.foo", "2"), ("client.foo.bar", "3")] {
            db.change(UTime::ZERO, "me", &[(who.into(), "a".into(), Some(value.into()))]);
        }
        let of = |id: &str| db.for_entity(&EntityName::new(EntityType::Client, id), &Place::default())["a"].1.clone();
        assert_eq!((of("foo"), of("foo.baz"), of("foo.bar.baz"), of("fool")), ("2".into(), "2".into(), "3".into(), "1".into()));
    }

    #[test]
    fn sections_are_checked() {
        assert_eq!(Section::parse("osd/class:ssd").unwrap().text(), "osd/class:ssd");
        assert_eq!(Section::parse("host:a").unwrap().text(), "global/host:a");
        assert_eq!(Section::parse("osd.1/host:a").unwrap().mask, "host:a");
        assert!(Section::parse("nobody").is_none());
        assert!(Section::parse("osd/ssd").is_none());
    }
}
