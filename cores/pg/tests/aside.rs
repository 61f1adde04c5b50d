//! Reads that clients send to a member that does not lead.

mod bench;

use bench::several::Several;
use bytes::Bytes;
use messages::osd::{Op, code, flags};
use types::Errno;

impl Several {
    /// Reads an object at this member, whoever leads.
    fn read_at(&mut self, osd: i32, tid: u64) -> Result<Bytes, i32> {
        let read = Op::extent(code::READ, 0, 0, Bytes::new());
        let op = messages::osd::OsdOp { flags: flags::BALANCE_READS, ..bench::request("a", vec![read]) };
        self.osd(osd).deliver(types::SessionId(10), bench::peer(10), tid, op);
        self.settle();
        self.content(tid).expect("an answer")
    }
}

#[test]
fn damage_that_a_read_meets_is_mended_although_nobody_writes() {
    let mut all = Several::new(3);
    all.write("a", "one");
    all.kill(2);
    all.start(2, &[0, 1, 2]);
    let sent_back = Err(Errno::EAGAIN.wire());
    assert_eq!(all.read_at(2, 1), sent_back, "nobody knows yet what is durable everywhere");
    assert_eq!(all.read_at(2, 2), Ok(Bytes::from_static(b"one")));
    let object = all.osd(2).store.objects().next().expect("the object").clone();
    all.osd(2).store.damaged.insert(object);
    assert_eq!(all.read_at(2, 3), sent_back);
    all.osd(2).store.damaged.clear();
    all.pass(5);
    assert!(all.osd(0).logged.iter().any(|line| line.contains("osd.2 lacks")), "the primary was told");
    assert_eq!(all.read_at(2, 4), Ok(Bytes::from_static(b"one")));
}

/// A primary takes up what another copy did, and its own disk is the slow one.
#[test]
fn nobody_is_told_of_changes_that_are_not_durable_at_the_primary() {
    let mut all = Several::new(2);
    // osd.0 is the map's first choice: it leads as soon as its log can be brought up to the other one's.
    all.change(|map| {
        map.osd_weight = vec![0x1_0000; 2];
        map.pg_upmap.insert(bench::several::GROUP, vec![0, 1]);
    });
    all.write("a", "one");
    all.kill(0);
    all.write("a", "two");
    let newest = all.pg(1).query().last_update;
    all.osd(0).store.hold_commits = true;
    all.start(0, &[0, 1]);
    for _ in 0..50 {
        if all.pg(0).is_active() {
            break;
        }
        all.osd(0).store.commit(1);
        all.pass(1);
    }
    assert!(all.leads() == Some(0) && all.pg(0).is_active() && all.pg(0).query().last_update >= newest);
    // It dies at once: what it told of must be there.
    all.osd(0).restart();
    assert!(all.pg(0).query().last_update >= newest, "it served before its disk had what it took up");
}
