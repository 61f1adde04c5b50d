//! What may stand on a disk: each structure with right checksums around it, and a whole store with changed bytes.

use super::{MACHINE, PLAIN};
use crate::Target;
use bytes::Bytes;
use node::{DeviceId, Mono, Now, Output, Outputs};
use objectstore::{MetaChange, Mutation, ObjectChange, ObjectStore, Ticket, Transaction};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use store::fsck::{self, BlockRead};
use store::testdisk::{Dice, TestDisk};
use store::{Config, Store, fuzz};
use types::{Fsid, HObject, Locator, PgId, SpgId};

const BLOCK: usize = 4096;
/// What the small store's file may grow to.
const CAPACITY: usize = 16 << 20;

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target { name: "superblock", run: fuzz::superblock, seeds: || image_parts(12, 300), slack: PLAIN },
        Target { name: "journal-group", run: fuzz::journal_group, seeds: group_seeds, slack: PLAIN },
        Target { name: "index-page", run: fuzz::page, seeds: page_seeds, slack: PLAIN },
        Target { name: "index-value", run: fuzz::value, seeds: value_seeds, slack: PLAIN },
        Target {
            name: "store",
            run: whole_store,
            seeds: || vec![vec![0; 9], vec![1; 20], vec![2, 0, 1, 40, 0, 9, 9, 9, 9]],
            slack: MACHINE,
        },
        Target { name: "group-records", run: pg::fuzz::stored, seeds: pg::fuzz::seeds, slack: PLAIN },
        Target { name: "group-letters", run: pg::fuzz::letter, seeds: pg::fuzz::letters, slack: PLAIN },
        Target { name: "mon-superblock", run: mon::fuzz::superblock, seeds: || vec![vec![1; 60], vec![0; 60]], slack: PLAIN },
        Target { name: "mon-log", run: mon::fuzz::log, seeds: mon::fuzz::groups, slack: MACHINE },
        Target { name: "mon-log-1", run: mon::fuzz::log_1, seeds: mon_log_seeds, slack: MACHINE },
        Target { name: "mon-beginning", run: mon::fuzz::beginning, seeds: || vec![mon::fuzz::first()], slack: MACHINE },
        Target { name: "mon-voter", run: mon::fuzz::message, seeds: mon::fuzz::messages, slack: MACHINE },
        Target { name: "mon-snapshot", run: mon::fuzz::snapshot, seeds: || vec![mon::fuzz::seed()], slack: PLAIN },
        Target {
            name: "mon-proposal",
            run: mon::fuzz::proposal,
            seeds: || vec![vec![1, 1, 0, 0, 0, 0], vec![0; 40]],
            slack: MACHINE,
        },
    ]
}

/// A small store with objects, attributes, keys, a clone, and journal behind its checkpoint.
fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let config = Config {
            uuid: [7; 16],
            fsid: Fsid([9; 16]),
            whoami: 3,
            memory: 16 << 20,
            journal_bytes: 1 << 20,
            separate_journal: false,
            write_ahead: 0,
            // The clone shares its omap.
            copied_omap: 0,
            replaced: Config::REPLACED,
            discard: false,
        };
        let (mut store, mut disk, mut dice) = (Store::create(config), TestDisk::new(CAPACITY), Dice(1));
        let mut clock = 0;
        let mut run = |store: &mut Store| {
            for _ in 0..5_000 {
                clock += 1_000_000;
                let now = Now { mono: Mono(clock), ..Now::default() };
                let mut out = Outputs::default();
                store.turn(now, &mut out);
                for output in out.0 {
                    if let Output::Disk(request) = output {
                        disk.submit(request);
                    }
                }
                match disk.step(&mut dice) {
                    Some(done) => store.disk_done(now, done),
                    None if store.ready() => break,
                    None => {}
                }
            }
            while store.poll_event().is_some() {}
        };
        run(&mut store);
        for i in 0..60u64 {
            let object = HObject::head(Bytes::from(format!("object{i}")), &Locator::pool(1));
            let mutations = vec![
                Mutation::of(object.clone(), ObjectChange::Write(0, vec![i as u8; 100 + 1500 * (i as usize % 7)].into())),
                MetaChange::Set(Bytes::from(format!("l{i}")), vec![1; 30].into()).into(),
            ];
            let scope = SpgId::whole(PgId::new(1, 0));
            let transaction: Transaction = mutations.into_iter().collect();
            store.submit(transaction.in_scope(scope), Ticket(i)).expect("there is space");
            if i % 20 == 5 {
                run(&mut store);
            }
        }
        run(&mut store);
        disk.bytes().to_vec()
    })
}

/// The image with some bytes changed.
struct Changed(BTreeMap<u64, Vec<u8>>);

impl Changed {
    fn block(&mut self, n: u64) -> &mut [u8] {
        let image = image();
        let at = n as usize * BLOCK;
        self.0.entry(n).or_insert_with(|| image[at..at + BLOCK].to_vec())
    }
}

impl BlockRead for Changed {
    fn read(&mut self, device: DeviceId, offset: u64, buf: &mut [u8]) -> Result<(), String> {
        let image = image();
        if device.0 != 0 {
            return Err("there is no such disk".into());
        }
        let from = usize::try_from(offset).map_err(|e| e.to_string())?;
        let end = from.checked_add(buf.len()).filter(|end| *end <= image.len()).ok_or("beyond the end")?;
        buf.copy_from_slice(&image[from..end]);
        for (n, block) in &self.0 {
            let at = *n as usize * BLOCK;
            if at >= from && at + BLOCK <= end {
                buf[at - from..at - from + BLOCK].copy_from_slice(block);
            }
        }
        Ok(())
    }

    fn len(&mut self, device: DeviceId) -> u64 {
        if device.0 == 0 { image().len() as u64 } else { 0 }
    }

    fn capacity(&mut self, device: DeviceId) -> u64 {
        if device.0 == 0 { CAPACITY as u64 } else { 0 }
    }
}

/// Changes as the input tells (kind, where, what), then a check of the store, which opens it and reads all of it.
fn whole_store(bytes: &[u8]) {
    let blocks = (image().len() / BLOCK) as u64;
    let mut disk = Changed(BTreeMap::new());
    for change in bytes.chunks_exact(9).take(20) {
        let place = u64::from(u16::from_le_bytes([change[1], change[2]]));
        let at = usize::from(u16::from_le_bytes([change[3], change[4]]));
        let value = &change[5..9];
        match change[0] % 3 {
            // A field of both superblocks, sealed again.
            0 => {
                for slot in [0, 8] {
                    let block = disk.block(slot);
                    let at = 12 + at % 200;
                    block[at..at + 4].copy_from_slice(value);
                    fuzz::seal_block(block);
                }
            }
            // The end of a field of eight bytes, where it counts most.
            1 => {
                for slot in [0, 8] {
                    let block = disk.block(slot);
                    let at = 12 + at % 200;
                    block[at..at + 8].copy_from_slice(&[value, &value[..4]].concat());
                    fuzz::seal_block(block);
                }
            }
            _ => {
                let block = disk.block(place % blocks);
                let at = at % (BLOCK - 4);
                block[at..at + 4].copy_from_slice(value);
            }
        }
    }
    let report = fsck::check(&mut disk, &Config::default(), bytes.first().is_some_and(|b| b & 128 != 0));
    let _ = report.findings.iter().map(ToString::to_string).collect::<Vec<_>>();
}

/// The first superblock, and pages as they lie on the disk.
fn image_parts(skip: usize, len: usize) -> Vec<Vec<u8>> {
    vec![image()[skip..skip + len].to_vec(), image()[8 * BLOCK + skip..8 * BLOCK + skip + len].to_vec()]
}

fn group_seeds() -> Vec<Vec<u8>> {
    let mut all = vec![vec![0; 60]];
    for block in image().chunks_exact(BLOCK).filter(|b| b.starts_with(b"NACREGRP")).take(40) {
        let (lsn, durable) = (&block[40..48], &block[56..64]);
        let (len, records) = (u32::from_le_bytes([block[64], block[65], block[66], block[67]]), &block[72..76]);
        let end = (96 + len as usize).min(BLOCK);
        // Without the table of its data's checksums the data is left out, too.
        all.push([lsn, durable, &[0; 4], records, &[0; 8], &block[96..end]].concat());
    }
    all
}

fn page_seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let image = image();
    for (i, block) in image.chunks_exact(BLOCK).enumerate().filter(|(_, b)| b.starts_with(b"NPg1")) {
        all.push(image[i * BLOCK + 4..((i + 2) * BLOCK).min(image.len())].to_vec());
        if all.len() == 40 || block.is_empty() {
            break;
        }
    }
    all.push(vec![0; 64]);
    all
}

fn value_seeds() -> Vec<Vec<u8>> {
    let mut all = vec![vec![0; 20], vec![1, 0, 0, 0, 8], vec![2; 40]];
    all.extend(group_seeds().into_iter().map(|g| g[32.min(g.len())..].to_vec()));
    all
}

fn mon_log_seeds() -> Vec<Vec<u8>> {
    // generation, predecessor, durable, count, payload, first, then one entry
    let head = [&3u64.to_le_bytes()[..], &0u32.to_le_bytes(), &4u64.to_le_bytes(), &1u32.to_le_bytes()].concat();
    let entry = [&5u64.to_le_bytes()[..], &1u64.to_le_bytes(), &6u32.to_le_bytes(), &[1, 1, 0, 0, 0, 0]].concat();
    vec![[&head[..], &(entry.len() as u32).to_le_bytes(), &5u64.to_le_bytes(), &entry].concat()]
}
