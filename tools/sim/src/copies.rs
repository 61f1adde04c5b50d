//! Whether all copies of each object are equal, when nothing goes wrong any more.

use crate::cluster::{Cluster, StoreKind};
use objectstore::memory::MemStore;
use objectstore::{Hold, Limit, View};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;
use types::ObjectId;

/// Until what copies that are not needed any more have is removed.
const STRAYS: Duration = Duration::from_secs(60);
const ALL: Limit = Limit { entries: 1_000_000, bytes: usize::MAX };

/// All that a store holds of an object, as text that can be compared.
pub(crate) fn content(store: &MemStore, object: &ObjectId) -> Result<String, String> {
    let read = || -> objectstore::Read<Option<String>> {
        let Some(stat) = store.stat(Hold(0), object)? else { return Ok(None) };
        let data = store.read(Hold(0), object, 0, stat.size)?.to_vec();
        let (xattrs, header) = (store.xattrs(Hold(0), object)?, store.omap_header(Hold(0), object)?);
        let omap = store.omap_scan(Hold(0), object, (Bound::Unbounded, Bound::Unbounded), ALL)?;
        let digest = crate::trace::digest(&data);
        Ok(Some(format!("{} bytes {digest:x}, record {:?}, {xattrs:?}, {header:?}, {:?}", stat.size, stat.info, omap.entries)))
    };
    match read() {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(format!("{object:?} is listed and not there")),
        Err(why) => Err(format!("{object:?} cannot be read: {why:?}")),
    }
}

impl Cluster {
    /// Each object is on as many OSDs as the pool has copies, and everywhere the same: data, attributes, omap and record. Only where
    /// the stores are trusted ones.
    pub(crate) fn check_copies(&mut self) -> Result<(), String> {
        if self.plan.store != StoreKind::Reference {
            return Ok(());
        }
        let end = self.world.now() + STRAYS;
        loop {
            let found = if self.plan.code.is_some() { self.compare_shards() } else { self.compare_copies() };
            match found {
                // What is not needed any more goes by itself, a little later.
                Err(why) if self.world.now() >= end => {
                    let (_, _, groups) = self.command(r#"{"prefix":"pg dump","dumpcontents":["pgs_brief"]}"#)?;
                    return Err(format!("{why}; the groups are\n{}", String::from_utf8_lossy(&groups)));
                }
                Err(_) => self.world.run_for(Duration::from_secs(1)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Returns how many reads OSDs answered for groups that they do not lead, since they were started.
    pub(crate) fn count_asides(&mut self) -> Result<(), String> {
        self.asides = 0;
        for osd in self.osds.clone() {
            let call = self.world.call(osd, r#"{"prefix":"perf dump"}"#);
            let mut text = None;
            self.world.run_while(Duration::from_secs(5), |world| {
                text = world.take_answers().into_iter().find(|(_, answered, ..)| *answered == call).map(|(.., text)| text);
                text.is_none()
            });
            // One that is frozen has nothing to say just now.
            let Some(text) = text else { continue };
            let told: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            self.asides += told["osd"]["replica_read_served"].as_u64().ok_or("no count of reads at copies that do not lead")?;
        }
        Ok(())
    }

    fn compare_copies(&self) -> Result<(), String> {
        let mut copies: BTreeMap<ObjectId, Vec<(usize, String)>> = BTreeMap::new();
        for (osd, meaning) in self.meanings.iter().enumerate() {
            let store = meaning.borrow().content();
            for object in store.objects().filter(|object| object.pool >= 0) {
                copies.entry(object.clone()).or_default().push((osd, content(&store, object)?));
            }
        }
        for (object, held) in copies {
            let on: Vec<usize> = held.iter().map(|(osd, _)| *osd).collect();
            if on.len() != self.plan.size as usize {
                return Err(format!("{object:?} of a pool of {} copies is on {on:?}", self.plan.size));
            }
            if let Some((osd, other)) = held.iter().find(|(_, text)| *text != held[0].1) {
                return Err(format!("copies of {object:?} differ: on osd.{} {}\n  on osd.{osd} {other}", held[0].0, held[0].1));
            }
        }
        Ok(())
    }
}
