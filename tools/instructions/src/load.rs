//! The client: keeps so many operations of one kind in flight.

use bytes::Bytes;
use messages::code::{self, flags};
use messages::osd::Op;
use node::{Mono, Now};
use objecter::{Driver, Event, Objecter, OpRequest};
use std::cell::RefCell;
use std::rc::Rc;
use types::{Locator, PoolId, Rope};

/// Bytes of an operation.
const BLOCK: u64 = 4096;
/// Large objects that are overwritten, as images are: 4 MiB each.
const IMAGES: u64 = 4;
const IMAGE_BLOCKS: u64 = 1024;

/// What the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Writes 4 KiB to objects that are not there.
    Write,
    /// Fills the large objects, a mebibyte at a time.
    Prepare,
    /// Writes 4 KiB somewhere into the large objects.
    Overwrite,
    /// Reads objects of 4 KiB that were written by `Write`.
    Read,
}

/// Orders for the client, and what came of them.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) kind: Option<Kind>,
    pub(crate) depth: usize,
    pub(crate) left: u64,
    pub(crate) open: usize,
    /// Objects written by `Write` until now.
    written: u64,
    prepared: u64,
    steps: u64,
}

/// The client's driver.
pub(crate) struct Load {
    orders: Rc<RefCell<Orders>>,
    pool: Option<PoolId>,
    asked: bool,
    data: Bytes,
}

const POOL: &str = "bench";

impl Load {
    pub(crate) fn new(orders: Rc<RefCell<Orders>>) -> Self {
        let data: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        Self { orders, pool: None, asked: false, data: data.into() }
    }

    fn find_pool(&mut self, objecter: &mut Objecter) {
        let Some(map) = objecter.map() else { return };
        self.pool = map.pool_name.iter().find(|(_, name)| *name == POOL).map(|(id, _)| *id);
        if self.pool.is_none() {
            // A pool that is older than the OSD's first map would be lost to it.
            if !self.asked && map.is_up(0) {
                let create = format!(r#"{{"prefix":"osd pool create","pool":"{POOL}","pg_num":32}}"#);
                objecter.command(create, Rope::new());
                self.asked = true;
            }
            objecter.want_newer_map();
        }
    }

    fn request(&self, kind: Kind, orders: &mut Orders) -> (String, Op, u32) {
        orders.steps += 1;
        // A walk through all residues, far from sequential.
        let somewhere = orders.steps.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let small = |n| format!("benchmark_data_host_{}_object{n}", 4711);
        match kind {
            Kind::Write => {
                orders.written += 1;
                let at = (orders.written % 64 * BLOCK) as usize;
                let data = self.data.slice(at..at + BLOCK as usize);
                (small(orders.written - 1), Op::extent(code::WRITE, 0, BLOCK, data), flags::WRITE)
            }
            Kind::Prepare => {
                let (image, part) = (orders.prepared / 4 % IMAGES, orders.prepared % 4);
                orders.prepared += 1;
                let data = self.data.clone();
                (format!("rbd_data.1234.{image:016x}"), Op::extent(code::WRITE, part << 20, 1 << 20, data), flags::WRITE)
            }
            Kind::Overwrite => {
                let (image, block) = (somewhere % IMAGES, somewhere / IMAGES % IMAGE_BLOCKS);
                let at = (orders.steps % 64 * BLOCK) as usize;
                let data = self.data.slice(at..at + BLOCK as usize);
                (format!("rbd_data.1234.{image:016x}"), Op::extent(code::WRITE, block * BLOCK, BLOCK, data), flags::WRITE)
            }
            Kind::Read => (small(somewhere % orders.written), Op::extent(code::READ, 0, BLOCK, Bytes::new()), flags::READ),
        }
    }
}

impl Driver for Load {
    fn event(&mut self, _now: Now, event: Event, _objecter: &mut Objecter) {
        let Event::Done { result, .. } = event else { return };
        let reply = result.expect("the pool is there");
        assert_eq!(reply.result, 0, "an operation failed");
        if self.orders.borrow().kind == Some(Kind::Read) {
            assert_eq!(reply.ops[0].output.len() as u64, BLOCK, "a short read");
        }
        self.orders.borrow_mut().open -= 1;
    }

    fn turn(&mut self, now: Now, objecter: &mut Objecter) {
        if self.pool.is_none() {
            self.find_pool(objecter);
        }
        let Some(pool) = self.pool else { return };
        let orders = &mut *self.orders.borrow_mut();
        let Some(kind) = orders.kind else { return };
        while orders.open < orders.depth && orders.left > 0 {
            let (oid, op, flags) = self.request(kind, orders);
            let locator = Locator::pool(pool);
            objecter.submit(OpRequest {
                locator,
                oid: oid.into(),
                ops: vec![op],
                flags,
                mtime: now.wall,
                ..OpRequest::default()
            });
            orders.left -= 1;
            orders.open += 1;
        }
    }

    fn deadline(&self) -> Mono {
        let orders = self.orders.borrow();
        if orders.left > 0 && orders.open < orders.depth { Mono(0) } else { Mono::NEVER }
    }
}
