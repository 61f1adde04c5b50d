//! Where items are: moving them between buckets by names of places.

use crate::build::check_name;
use crate::error::{Error, Result};
use crate::map::Map;
use std::collections::BTreeMap;
use std::fmt;

/// A place, as commands name it: type of bucket → its name (`root=default host=a`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location(pub BTreeMap<String, String>);

impl Location {
    /// From arguments of the form `type=name`.
    pub fn parse<S: AsRef<str>>(args: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut place = BTreeMap::new();
        for arg in args {
            let arg = arg.as_ref();
            let (kind, name) = arg.split_once('=').ok_or_else(|| Error::Invalid(format!("'{arg}' is not TYPE=NAME")))?;
            if kind.is_empty() || name.is_empty() {
                return Err(Error::Invalid(format!("'{arg}' is not TYPE=NAME")));
            }
            place.insert(kind.to_owned(), name.to_owned());
        }
        Ok(Self(place))
    }

    /// The place of a host, as a person gives it: `rack=r1,datacenter=d1`, with commas or spaces in between. Below
    /// `root=default` if no root is named.
    pub fn of_host(text: &str) -> Result<Self> {
        let pairs: Vec<&str> = text.split([',', ' ']).filter(|pair| !pair.is_empty()).collect();
        if pairs.is_empty() {
            return Err(Error::Invalid("a place is TYPE=NAME, as rack=r1,datacenter=d1; none was given".into()));
        }
        let mut place = Self::parse(&pairs)?;
        if place.0.len() < pairs.len() {
            return Err(Error::Invalid(format!("'{text}' names a type twice")));
        }
        place.0.values().try_for_each(|name| check_name(name))?;
        if let Some(kind) = ["osd", "host"].into_iter().find(|kind| place.0.contains_key(*kind)) {
            return Err(Error::Invalid(format!("'{kind}' is no type of bucket that a host can be put into")));
        }
        place.0.entry("root".into()).or_insert_with(|| "default".into());
        Ok(place)
    }
}

/// As [`Location::of_host`] reads it.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
        f.write_str(&pairs.join(" "))
    }
}

impl Map {
    /// Puts an item that has no place yet (a device, or a bucket without parent) at `place`, making the buckets that do
    /// not exist. The lowest type named that exists receives what is below.
    pub fn insert_item(&mut self, item: i32, weight: u32, name: &str, place: &Location) -> Result<()> {
        self.insert_unshadowed(item, weight, name, place)?;
        self.rebuild_shadow_trees();
        Ok(())
    }

    fn insert_unshadowed(&mut self, item: i32, weight: u32, name: &str, place: &Location) -> Result<()> {
        self.check_place(item, place)?;
        self.check_absent(item, place)?;
        match self.id_of(name) {
            Some(id) if id != item => return Err(Error::Exists(format!("bucket or device '{name}'"))),
            Some(_) => {}
            None => {
                check_name(name)?;
                self.names.insert(item, name.to_owned());
            }
        }
        if item >= self.max_devices {
            self.max_devices = item + 1;
        }
        let own_kind = self.kind_of(item).unwrap_or(0);
        let kinds: Vec<(i32, String)> = self.types.iter().map(|(k, n)| (*k, n.clone())).filter(|(k, _)| *k > own_kind).collect();
        let mut below = item;
        for (kind, kind_name) in kinds {
            let Some(bucket_name) = place.0.get(&kind_name) else { continue };
            let weight = if below == item { weight } else { self.bucket(below).map_or(0, |b| b.weight) };
            let (target, existed) = match self.id_of(bucket_name) {
                Some(id) => (id, true),
                None => (self.add_bucket(kind, bucket_name, self.default_alg())?, false),
            };
            self.append(target, below, weight)?;
            if existed {
                return Ok(());
            }
            below = target;
        }
        if below == item {
            return Err(Error::Invalid(format!("no place was given for '{name}'")));
        }
        Ok(())
    }

    /// Refuses places that are not buckets of the named types, that name one bucket twice, or that lie below the item itself.
    fn check_place(&self, item: i32, place: &Location) -> Result<()> {
        for (kind, name) in &place.0 {
            let number = self.type_id(kind).ok_or_else(|| Error::NotFound(format!("bucket type '{kind}'")))?;
            let Some(id) = self.id_of(name) else {
                check_name(name)?;
                // The first of two buckets of one name would be made, and then be put into itself.
                if place.0.iter().any(|(other, same)| other != kind && same == name) {
                    return Err(Error::Invalid(format!("a place names '{name}' twice, and a bucket has one type")));
                }
                continue;
            };
            if self.kind_of(id) != Some(number) || id >= 0 {
                return Err(Error::Invalid(format!("'{name}' exists and is not of type '{kind}'")));
            }
            if self.is_under(id, item) {
                return Err(Error::Invalid(format!("'{name}' is below the item that would be put into it")));
            }
        }
        Ok(())
    }

    /// Refuses a place with a bucket that contains the item already.
    fn check_absent(&self, item: i32, place: &Location) -> Result<()> {
        let mut buckets = place.0.values().filter_map(|name| Some((name, self.bucket(self.id_of(name)?)?)));
        match buckets.find(|(_, bucket)| bucket.items.contains(&item)) {
            Some((name, _)) => Err(Error::Exists(format!("item {item} in '{name}'"))),
            None => Ok(()),
        }
    }

    /// Refuses a place where a host cannot be put: types that this map does not have, names that something else has, a
    /// bucket that exists elsewhere than `place` says.
    pub fn check_host_place(&self, place: &Location) -> Result<()> {
        // No item has this number.
        self.check_place(i32::MIN, place)?;
        let named = self.types.values().filter_map(|kind| Some((kind, place.0.get(kind)?)));
        let mut above = named.skip_while(|(_, name)| self.id_of(name).is_none());
        let Some((kind, name)) = above.next() else { return Ok(()) };
        let id = self.id_of(name).unwrap_or_default();
        let elsewhere = above.find(|(_, top)| self.id_of(top).is_none_or(|top| !self.is_under(id, top)));
        match elsewhere {
            None => Ok(()),
            Some((top_kind, top)) => Err(Error::Invalid(format!(
                "{kind} '{name}' exists and is not below {top_kind} '{top}'; `ceph osd crush move {name} {top_kind}={top}` puts it there"
            ))),
        }
    }

    /// Returns true if the item is in the lowest bucket that `place` names.
    pub fn is_at(&self, item: i32, place: &Location) -> bool {
        let lowest = self.types.iter().filter(|(k, _)| **k > 0).find_map(|(_, kind)| place.0.get(kind));
        let bucket = lowest.and_then(|name| self.bucket(self.id_of(name)?));
        bucket.is_some_and(|b| b.items.contains(&item))
    }

    /// The weight of an item where it is; 0 if it has no place.
    pub fn item_weight(&self, item: i32) -> u32 {
        let parent = self.parents(item).first().and_then(|id| self.bucket(*id));
        parent.and_then(|b| Some(b.item_weight(b.position(item)?))).unwrap_or(0)
    }

    /// Gives an item this weight and place, wherever it was (`osd crush set`). Returns whether anything changed.
    pub fn update_item(&mut self, item: i32, weight: u32, name: &str, place: &Location) -> Result<bool> {
        if !self.is_at(item, place) {
            self.detach(item)?;
            self.insert_item(item, weight, name, place)?;
            return Ok(true);
        }
        let renamed = self.name_of(item) != Some(name);
        if renamed {
            self.check_new_name(name)?;
            self.names.insert(item, name.to_owned());
        }
        if self.item_weight(item) == weight {
            return Ok(renamed);
        }
        self.adjust_item_weight(item, weight)?;
        Ok(true)
    }

    /// Puts a device at a place if it is not there yet, keeping the weight that it may have (`osd crush
    /// create-or-move`). Returns whether anything changed.
    pub fn create_or_move_item(&mut self, item: i32, weight: u32, name: &str, place: &Location) -> Result<bool> {
        if self.is_at(item, place) {
            return Ok(false);
        }
        let weight = if self.parents(item).is_empty() { weight } else { self.item_weight(item) };
        self.check_place(item, place)?;
        self.detach(item)?;
        self.insert_item(item, weight, name, place)?;
        Ok(true)
    }

    /// Moves a bucket, with all that is in it, to another place.
    pub fn move_bucket(&mut self, id: i32, place: &Location) -> Result<()> {
        let weight = self.bucket(id).ok_or_else(|| Error::NotFound(format!("bucket {id}")))?.weight;
        let name = self.name_of(id).unwrap_or_default().to_owned();
        if self.is_at(id, place) {
            return Ok(());
        }
        self.check_place(id, place)?;
        self.detach(id)?;
        self.insert_item(id, weight, &name, place)
    }

    /// Puts a bucket at a further place, besides those that it has.
    pub fn link_bucket(&mut self, id: i32, place: &Location) -> Result<()> {
        let weight = self.bucket(id).ok_or_else(|| Error::NotFound(format!("bucket {id}")))?.weight;
        let name = self.name_of(id).unwrap_or_default().to_owned();
        if self.is_at(id, place) {
            return Ok(());
        }
        self.insert_item(id, weight, &name, place)
    }

    /// Exchanges what two buckets contain; their names and places stay.
    pub fn swap_buckets(&mut self, a: i32, b: i32) -> Result<()> {
        if self.bucket(a).is_none() || self.bucket(b).is_none() {
            return Err(Error::NotFound("one of the buckets".into()));
        }
        if self.is_under(a, b) || self.is_under(b, a) {
            return Err(Error::Invalid("one of the buckets contains the other".into()));
        }
        let contents = |id| -> Vec<(i32, u32)> {
            self.bucket(id).map_or(Vec::new(), |b| b.items.iter().copied().zip(b.item_weights()).collect())
        };
        let (of_a, of_b) = (contents(a), contents(b));
        for (bucket, old, new) in [(a, &of_a, &of_b), (b, &of_b, &of_a)] {
            old.iter().try_for_each(|(item, _)| self.take_out(bucket, *item))?;
            new.iter().try_for_each(|(item, weight)| self.append(bucket, *item, *weight))?;
        }
        self.rebuild_shadow_trees();
        Ok(())
    }

    /// Takes an item out of every bucket that it is in. It stays known.
    pub fn unlink_item(&mut self, item: i32, under: Option<i32>) -> Result<usize> {
        let parents: Vec<i32> = self.parents(item).into_iter().filter(|p| under.is_none_or(|u| self.is_under(*p, u))).collect();
        parents.iter().try_for_each(|parent| self.take_out(*parent, item))?;
        self.rebuild_shadow_trees();
        Ok(parents.len())
    }

    /// Removes a device or an empty bucket from the map. A bucket that a rule starts from stays.
    pub fn remove_item(&mut self, item: i32) -> Result<()> {
        if let Some(bucket) = self.bucket(item) {
            if !bucket.items.is_empty() {
                return Err(Error::Busy(format!("bucket '{}'", self.name_of(item).unwrap_or("?"))));
            }
            if self.is_taken_by_rule(item) {
                return Err(Error::Busy(format!("bucket '{}', by a rule,", self.name_of(item).unwrap_or("?"))));
            }
        } else if !self.names.contains_key(&item) && self.parents(item).is_empty() {
            return Err(Error::NotFound(format!("item {item}")));
        }
        self.detach(item)?;
        if item < 0 {
            self.drop_bucket(item);
        } else {
            self.names.remove(&item);
            self.device_classes.remove(&item);
        }
        self.rebuild_shadow_trees();
        Ok(())
    }

    fn detach(&mut self, item: i32) -> Result<()> {
        self.parents(item).into_iter().try_for_each(|parent| self.take_out(parent, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Alg, ONE};

    #[test]
    fn places_of_hosts_are_read_or_refused() {
        let place = Location::of_host("rack=r1, datacenter=d1").unwrap();
        assert_eq!(place.to_string(), "datacenter=d1 rack=r1 root=default");
        assert_eq!(Location::of_host(&place.to_string()).unwrap(), place);
        assert_eq!(Location::of_host("root=fast").unwrap().to_string(), "root=fast");
        for (text, says) in [
            ("", "none was given"),
            (" ,", "none was given"),
            ("rack", "'rack' is not"),
            ("rack=", "'rack=' is not"),
            ("=r1", "'=r1' is not"),
            ("rack=r1,rack=r2", "twice"),
            ("rack=r/1", "'r/1'"),
            ("host=h,rack=r1", "'host'"),
            ("osd=osd.1", "'osd'"),
        ] {
            let error = Location::of_host(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_host_goes_where_the_tree_allows() {
        let mut map = Map::new();
        map.add_bucket(map.type_id("root").unwrap(), "default", Alg::Straw2).unwrap();
        let check = |map: &Map, text: &str| map.check_host_place(&Location::of_host(text).unwrap()).map_err(|e| e.to_string());
        assert_eq!(check(&map, "rack=r1,datacenter=d1"), Ok(()));
        assert_eq!(check(&map, "rack=r1,root=other"), Ok(()));
        assert!(check(&map, "shelf=s1").unwrap_err().contains("'shelf'"));
        assert!(check(&map, "rack=default").unwrap_err().contains("not of type 'rack'"));
        let place = Location::parse(["root=default", "datacenter=d1", "rack=r1", "host=h"]).unwrap();
        map.create_or_move_item(0, ONE, "osd.0", &place).unwrap();
        assert_eq!(check(&map, "rack=r1,datacenter=d1"), Ok(()));
        assert_eq!(check(&map, "rack=r1"), Ok(()));
        assert_eq!(check(&map, "rack=r2,datacenter=d1"), Ok(()));
        for text in ["rack=r1,datacenter=d2", "rack=r1,row=a", "rack=r1,root=other"] {
            assert!(check(&map, text).unwrap_err().contains("'r1' exists and is not below"), "{text}");
        }
    }

    #[test]
    fn a_place_that_names_a_bucket_twice_is_refused_and_makes_no_cycle() {
        let mut map = Map::new();
        let parse = |text: &str| Location::parse(text.split(' ')).unwrap();
        map.create_or_move_item(0, ONE, "osd.0", &parse("root=default host=h")).unwrap();
        let host = map.id_of("h").unwrap();
        for text in ["root=tie host=tie", "rack=tie datacenter=tie root=default"] {
            let place = parse(text);
            let errors = [
                map.create_or_move_item(0, ONE, "osd.0", &place).unwrap_err(),
                map.insert_item(1, ONE, "osd.1", &place).unwrap_err(),
                map.move_bucket(host, &place).unwrap_err(),
                map.link_bucket(host, &place).unwrap_err(),
            ];
            assert!(errors.iter().all(|why| matches!(why, Error::Invalid(_))), "{text}: {errors:?}");
            assert!(crate::tree::is_shallow(&map) && map.id_of("tie").is_none());
        }
        assert!(map.update_item(0, ONE, "osd.0", &parse("root=tie host=tie")).is_err());
        assert!(crate::tree::is_shallow(&map));
    }

    #[test]
    fn what_is_in_a_bucket_moves_below_another_one_in_it() {
        let mut map = Map::new();
        let parse = |text: &str| Location::parse(text.split(' ')).unwrap();
        map.create_or_move_item(0, ONE, "osd.0", &parse("root=default host=h")).unwrap();
        let host = map.id_of("h").unwrap();
        map.move_bucket(host, &parse("root=default rack=r1")).unwrap();
        assert_eq!(map.parents(host), [map.id_of("r1").unwrap()]);
        assert_eq!(map.parents(map.id_of("r1").unwrap()), [map.id_of("default").unwrap()]);
        assert!(map.create_or_move_item(0, ONE, "osd.0", &parse("rack=r1 host=h2")).unwrap());
        assert!(map.link_bucket(host, &parse("root=default rack=r1")).is_ok(), "it is there already");
        assert!(map.link_bucket(map.id_of("r1").unwrap(), &parse("root=default region=r")).is_err(), "it would be there twice");
    }
}
