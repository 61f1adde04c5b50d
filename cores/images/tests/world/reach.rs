//! Headers say what their owners wrote. Work on an image goes no further than the rights of who ordered it, whatever a
//! header says.

use super::{Image as Made, OTHER, POOL, Spec, World};
use bytes::Bytes;
use denc::Encode;
use images::{Fail, Image, Io, Place, Progress, Reach, Request, flatten, migrate, remove};
use maps::OsdMap;
use messages::class::rbd::feature;
use messages::code;
use messages::ops::Pairs;
use messages::osd::{Op, OpArgs};
use objecter::SnapContext;
use std::rc::Rc;
use types::Errno;

const ORDER: u8 = 16;
const OBJECT: u64 = 1 << ORDER;
const PLAIN: u64 = feature::LAYERING;

/// One pool, and nothing else.
struct Only(i64);

impl Reach for Only {
    fn allows(&self, _: &OsdMap, request: &Request) -> bool {
        match request {
            Request::Op(op) => op.locator.pool == self.0,
            Request::Watch(at, _) | Request::Notify(at, ..) => at.pool == self.0,
            Request::NewSnap(pool) | Request::FreeSnap(pool, _) => *pool == self.0,
            _ => true,
        }
    }
}

fn spec(pool: i64, name: &'static str) -> Spec {
    Spec { pool, name, size: 3 * OBJECT, order: ORDER, features: PLAIN }
}

impl World {
    /// Objects of an image's data.
    fn objects_of(&self, image: &Made) -> usize {
        let prefix = format!("rbd_data.{}.", image.id);
        self.left().into_iter().filter(|name| name.contains(&prefix)).count()
    }

    /// An image by the name `forged`, whose header says that its data is in another pool, under a prefix.
    fn forge(&mut self, id: &'static str, prefix: &str, data_pool: i64) {
        let key = |name: &str| (POOL, String::new(), Bytes::copy_from_slice(name.as_bytes()));
        let prefix = Bytes::copy_from_slice(prefix.as_bytes());
        let input = ((3 * OBJECT, ORDER), ((PLAIN | feature::DATA_POOL, prefix), data_pool)).to_bytes();
        let create = || Op::new(code::CREATE, OpArgs::None);
        let header = vec![create(), Op::call("rbd", "create", &input)];
        self.client(&key(&format!("rbd_header.{id}")), header, SnapContext::default());
        let id = Bytes::from_static(id.as_bytes()).to_bytes();
        self.client(&key("rbd_id.forged"), vec![create(), Op::call("rbd", "set_id", &id)], SnapContext::default());
    }

    fn fill_omap(&mut self, oid: &'static str, keys: usize, bytes: usize) {
        let pairs: Pairs = (0..keys).map(|n| (Bytes::from(format!("{n:016X}")), Bytes::from(vec![0; bytes]))).collect();
        let set = Op { input: pairs.to_bytes(), ..Op::new(code::OMAPSETVALS, OpArgs::None) };
        self.client(&(POOL, String::new(), Bytes::from_static(oid.as_bytes())), vec![set], SnapContext::default());
    }
}

fn only(io: &Io) -> Io {
    io.within(Rc::new(Only(POOL)))
}

fn errno<T: std::fmt::Debug>(result: Option<Result<T, Fail>>) -> Errno {
    result.expect("it ends").expect_err("refused").errno
}

#[test]
fn a_parent_that_one_may_not_read_is_not_copied() {
    let mut world = World::new(1);
    let mut victim = world.make(spec(OTHER, "victim"));
    world.fill(&victim, 0, 100, 7);
    let snap = world.snapshot(&mut victim);
    let thief = world.clone_of(&victim, snap, spec(POOL, "thief"));
    let id = thief.id.clone();
    let flat = world.work(usize::MAX, {
        let id = id.clone();
        |io| async move { flatten::flatten(&only(&io), &Place::new(POOL, ""), &id, &Progress::default()).await }
    });
    assert_eq!(errno(flat), Errno::EPERM);
    assert_eq!(world.objects_of(&thief), 0, "nothing of it came");
    // Whoever may read it may have it.
    let flat =
        world.work(usize::MAX, |io| async move { flatten::flatten(&io, &Place::new(POOL, ""), &id, &Progress::default()).await });
    assert_eq!(flat, Some(Ok(())));
}

#[test]
fn data_in_a_pool_where_one_has_no_rights_is_not_removed() {
    let mut world = World::new(2);
    let victim = world.make(spec(OTHER, "victim"));
    world.fill(&victim, 0, 100, 7);
    for (prefix, refused) in [(format!("rbd_data.{}", victim.id), Errno::EIO), (format!("rbd_data.{POOL}.ff"), Errno::EPERM)] {
        let mut world = world.clone();
        world.forge("ff", &prefix, OTHER);
        for reach in [true, false] {
            let removed = world.clone().work(usize::MAX, |io| async move {
                let io = if reach { only(&io) } else { io };
                remove::by_name(&io, &Place::new(POOL, ""), "forged", Some("ff"), &Progress::default()).await
            });
            match (reach, refused) {
                // Its own name there, and rights: an image whose data is elsewhere.
                (false, Errno::EPERM) => assert_eq!(removed, Some(Ok(()))),
                _ => assert_eq!(errno(removed), refused, "{prefix}"),
            }
        }
        assert_eq!(world.objects_of(&victim), 1);
    }
}

#[test]
fn a_source_where_one_has_no_rights_is_not_migrated() {
    let mut world = World::new(3);
    let victim = world.make(spec(OTHER, "victim"));
    world.fill(&victim, 0, 100, 7);
    let target = world.prepare(&victim, spec(POOL, "target"), false);
    let (id, before) = (target.id.clone(), world.objects_of(&victim));
    let done = world.work(usize::MAX, |io| async move {
        migrate::execute(&only(&io), &Place::new(POOL, ""), &id, &Progress::default()).await
    });
    assert_eq!(errno(done), Errno::EPERM);
    let id = target.id.clone();
    let done = world.work(usize::MAX, |io| async move {
        migrate::commit(&only(&io), &Place::new(POOL, ""), &id, &Progress::default()).await
    });
    assert!(done.expect("it ends").is_err());
    assert_eq!(world.objects_of(&victim), before);
}

#[test]
fn what_is_read_of_what_others_wrote_has_a_bound() {
    let mut world = World::new(4);
    world.fill_omap("rbd_task", 200, 100 << 10);
    let read = world.work(usize::MAX, |io| async move { io.omap(&Place::new(POOL, ""), "rbd_task").await });
    assert_eq!(errno(read), Errno::EFBIG);
    let image = world.make(spec(POOL, "a"));
    let id = image.id.clone();
    let opened = world.work(usize::MAX, |io| async move { Image::open(&io, &Place::new(POOL, ""), &id).await.map(|i| i.size) });
    assert_eq!(opened, Some(Ok(3 * OBJECT)));
}
