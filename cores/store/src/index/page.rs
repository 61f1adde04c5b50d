//! Pages of the tree: how entries lie in them, and how a list of entries is cut into pages.

use crate::block::{BLOCK, MOST_BLOCKS, PAGE_BLOCKS, Run};
use bytes::Bytes;
use denc::len32;
use kernels::{SEED, crc32c};
use node::Buf;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

const PAGE: usize = PAGE_BLOCKS as usize * BLOCK;
/// Largest page, in blocks: the bound of what a forged pointer can make us read.
pub(crate) const LARGEST: u32 = 32_768;
const MAGIC: u32 = u32::from_le_bytes(*b"NPg1");
const HEADER: usize = 32;
/// An entry of more bytes than this has a page of its own, so that its small neighbours are not written again with it.
const LONG: usize = PAGE / 2;

/// A pointer to a page, with the checksum that the page must have. The blocks of a page need not follow each other on
/// disk: a full disk may have no two free blocks side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ptr {
    /// First block of the page.
    pub(crate) block: u64,
    /// Number of blocks of the page, in all its pieces.
    pub(crate) blocks: u32,
    /// Checksum of the whole page.
    pub(crate) crc: u32,
    /// The pieces of the page in order, if it has more than one.
    pub(crate) pieces: Option<Arc<[Run]>>,
}

/// Bit of the word of a further piece where its number of blocks begins; its first block is below.
const PIECE_LEN: u32 = 44;

impl Ptr {
    /// Bytes of a pointer to a page in one piece. Each further piece takes [`Self::PIECE`] more.
    pub(crate) const SIZE: usize = 16;
    /// Bytes of each piece but the first.
    pub(crate) const PIECE: usize = 8;

    /// Makes a pointer to a page that lies in `runs`, of which there is at least one.
    pub(crate) fn new(runs: &[Run], crc: u32) -> Self {
        let blocks = runs.iter().map(|run| run.1).sum();
        Self { block: runs[0].0, blocks, crc, pieces: (runs.len() > 1).then(|| runs.into()) }
    }

    /// Returns where the page lies.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let whole = self.pieces.is_none().then_some((self.block, self.blocks));
        whole.into_iter().chain(self.pieces.iter().flat_map(|pieces| pieces.iter().copied()))
    }

    /// First block, blocks of the first piece, checksum; then a word for each further piece.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (first, rest) = match &self.pieces {
            None => (self.blocks, &[][..]),
            Some(pieces) => (pieces[0].1, &pieces[1..]),
        };
        let mut out = Vec::with_capacity(Self::SIZE + rest.len() * Self::PIECE);
        out.extend_from_slice(&self.block.to_le_bytes());
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
        rest.iter().for_each(|(block, n)| out.extend_from_slice(&(block | u64::from(*n) << PIECE_LEN).to_le_bytes()));
        out
    }

    /// The inverse of [`Self::encode`]. None for a place that no disk has, and for more blocks than [`LARGEST`].
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (block, rest) = bytes.split_first_chunk::<8>()?;
        let (first, rest) = rest.split_first_chunk::<4>()?;
        let (crc, rest) = rest.split_first_chunk::<4>()?;
        let (block, first, crc) = (u64::from_le_bytes(*block), u32::from_le_bytes(*first), u32::from_le_bytes(*crc));
        let good = |(block, n): Run| n > 0 && n <= LARGEST && block < MOST_BLOCKS;
        if rest.is_empty() {
            return good((block, first)).then_some(Self { block, blocks: first, crc, pieces: None });
        }
        let (words, []) = rest.as_chunks::<{ Self::PIECE }>() else { return None };
        let further = words.iter().map(|word| {
            let word = u64::from_le_bytes(*word);
            (word & ((1 << PIECE_LEN) - 1), (word >> PIECE_LEN) as u32)
        });
        let pieces: Arc<[Run]> = std::iter::once((block, first)).chain(further).collect();
        let blocks = pieces.iter().try_fold(0u32, |sum, run| sum.checked_add(run.1)).filter(|n| *n <= LARGEST)?;
        pieces.iter().all(|run| good(*run)).then_some(Self { block, blocks, crc, pieces: Some(pieces) })
    }

    /// Returns true if so many bytes can be a pointer.
    fn is_size(len: usize) -> bool {
        len >= Self::SIZE && (len - Self::SIZE).is_multiple_of(Self::PIECE)
    }
}

/// A page in memory. Every offset in it was checked once and is good.
#[derive(Clone, Debug)]
pub(crate) struct PageRef {
    bytes: Bytes,
    pub(crate) crc: u32,
    count: u32,
    prefix: u32,
    level: u8,
}

impl PageRef {
    /// Takes the bytes of a page that was read from `block`. None if they are not a page that belongs there.
    pub(crate) fn parse(bytes: Bytes, block: u64) -> Option<Self> {
        let crc = crc32c(SEED, &bytes);
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let address = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        let (count, prefix, level) = (word(24)?, word(28)?, *bytes.get(4)?);
        if word(0)? != MAGIC || address != block || (count as usize).checked_mul(4)? > bytes.len() {
            return None;
        }
        let page = Self { count, prefix, level, crc, bytes };
        let whole = page.checked();
        whole.then_some(page)
    }

    /// Says whether every entry lies inside the page.
    fn checked(&self) -> bool {
        let len = self.bytes.len();
        let table = HEADER + self.prefix as usize + self.count as usize * 4;
        self.prefix as usize <= len
            && table <= len
            && (0..self.count as usize).all(|i| {
                let at = self.offset(i);
                at >= table
                    && at + 8 <= len
                    && (self.word(at) as usize)
                        .checked_add(self.word(at + 4) as usize)
                        .and_then(|n| n.checked_add(at + 8))
                        .is_some_and(|end| end <= len)
                    && (self.level == 0 || Ptr::is_size(self.word(at + 4) as usize))
            })
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]])
    }

    fn offset(&self, i: usize) -> usize {
        self.word(HEADER + self.prefix as usize + i * 4) as usize
    }

    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    /// Level in the tree; 0 for leaves.
    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// Bytes of memory that the page takes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    fn prefix(&self) -> &[u8] {
        &self.bytes[HEADER..HEADER + self.prefix as usize]
    }

    /// Gives what follows the common prefix in entry `i`'s key.
    fn suffix(&self, i: usize) -> &[u8] {
        let at = self.offset(i);
        &self.bytes[at + 8..at + 8 + self.word(at) as usize]
    }

    pub(crate) fn key(&self, i: usize) -> Bytes {
        if self.prefix == 0 {
            let at = self.offset(i) + 8;
            return self.bytes.slice(at..at + self.suffix(i).len());
        }
        [self.prefix(), self.suffix(i)].concat().into()
    }

    /// Gives the value of entry `i`. It shares the page's memory.
    pub(crate) fn value(&self, i: usize) -> Bytes {
        let at = self.offset(i);
        let from = at + 8 + self.word(at) as usize;
        self.bytes.slice(from..from + self.word(at + 4) as usize)
    }

    /// Gives entries as they go into another page. Their keys share one piece of memory: a merge takes nearly all of a page's.
    pub(crate) fn entries(&self, range: Range<usize>) -> impl Iterator<Item = Entry> + '_ {
        let whole = |i: usize| self.prefix().len() + self.suffix(i).len();
        let mut keys = Vec::new();
        if self.prefix > 0 {
            keys.reserve_exact(range.clone().map(whole).sum());
            range.clone().for_each(|i| keys.extend([self.prefix(), self.suffix(i)].into_iter().flatten()));
        }
        let (keys, mut at) = (Bytes::from(keys), 0);
        range.map(move |i| {
            if self.prefix == 0 {
                return (self.key(i), self.value(i));
            }
            let end = at + whole(i);
            (keys.slice(std::mem::replace(&mut at, end)..end), self.value(i))
        })
    }

    /// Compares entry `i`'s key with `key`.
    pub(crate) fn cmp_key(&self, i: usize, key: &[u8]) -> Ordering {
        let prefix = self.prefix();
        let n = prefix.len().min(key.len());
        prefix[..n].cmp(&key[..n]).then_with(|| if n < prefix.len() { Ordering::Greater } else { self.suffix(i).cmp(&key[n..]) })
    }

    /// Index of the first entry whose key is at least `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let prefix = self.prefix();
        let n = prefix.len().min(key.len());
        match key[..n].cmp(prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => (),
        }
        let key = &key[n..];
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let mid = (low + high) / 2;
            if self.suffix(mid) < key { low = mid + 1 } else { high = mid }
        }
        low
    }

    /// Index of the child of an inner page that `key` belongs to. The first child also takes what is before its own
    /// key.
    pub(crate) fn child_for(&self, key: &[u8]) -> usize {
        let at = self.lower_bound(key);
        if at < self.len() && self.cmp_key(at, key).is_eq() { at } else { at.saturating_sub(1) }
    }

    /// Gives the pointer of child `i` of an inner page.
    pub(crate) fn child(&self, i: usize) -> Option<Ptr> {
        Ptr::decode(&self.value(i))
    }
}

/// An entry on its way into a page: key and value.
pub(crate) type Entry = (Bytes, Bytes);

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

fn shared_prefix(entries: &[Entry]) -> usize {
    match entries {
        [] => 0,
        [first, .., last] => common_prefix(&first.0, &last.0),
        [one] => one.0.len(),
    }
}

fn cost(entry: &Entry, prefix: usize) -> usize {
    12 + entry.0.len() - prefix + entry.1.len()
}

/// Cuts a sorted list of entries into pages: long ones alone, the others spread evenly, none with more than a page.
pub(crate) fn cut(entries: &[Entry]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut start = 0;
    for i in 0..=entries.len() {
        let long = i < entries.len() && cost(&entries[i], 0) > LONG;
        if long || i == entries.len() {
            cut_short(entries, start..i, &mut out);
            start = i + 1;
        }
        if long {
            out.push(i..i + 1);
        }
    }
    out
}

fn cut_short(entries: &[Entry], range: Range<usize>, out: &mut Vec<Range<usize>>) {
    let part = &entries[range.clone()];
    if part.is_empty() {
        return;
    }
    let prefix = shared_prefix(part);
    let room = PAGE - HEADER - prefix;
    let total: usize = part.iter().map(|e| cost(e, prefix)).sum();
    if total <= room {
        out.push(range);
        return;
    }
    let even = total / total.div_ceil(room * 9 / 10) + 1;
    let (mut start, mut used) = (range.start, 0);
    for (i, entry) in range.clone().zip(part) {
        let size = cost(entry, prefix);
        if used > 0 && (used + size > room || used >= even) {
            out.push(start..i);
            (start, used) = (i, 0);
        }
        used += size;
    }
    out.push(start..range.end);
}

/// Fewest children of an inner page. With long keys it becomes a long page rather than a level that does not narrow.
const CHILDREN: usize = 4;

/// Cuts a sorted list of children into inner pages. Each has several, unless there is but one child at all.
pub(crate) fn cut_inner(entries: &[Entry]) -> Vec<Range<usize>> {
    let prefix = shared_prefix(entries);
    let room = (PAGE - HEADER).saturating_sub(prefix).max(PAGE / 2);
    let total: usize = entries.iter().map(|e| cost(e, prefix)).sum();
    let even = total / total.div_ceil(room * 9 / 10).max(1) + 1;
    let (mut out, mut start, mut used): (Vec<Range<usize>>, _, _) = (Vec::new(), 0, 0);
    for (i, entry) in entries.iter().enumerate() {
        let size = cost(entry, prefix);
        if i - start >= CHILDREN && (used >= even || used + size > room) {
            out.push(start..i);
            (start, used) = (i, 0);
        }
        used += size;
    }
    match out.last_mut() {
        Some(last) if entries.len() - start < CHILDREN => last.end = entries.len(),
        _ => out.push(start..entries.len()),
    }
    out.retain(|r| !r.is_empty());
    out
}

/// Says whether a page of these entries would be so empty that it should not stand alone.
pub(crate) fn is_thin(entries: &[Entry]) -> bool {
    let prefix = shared_prefix(entries);
    entries.iter().try_fold(HEADER + prefix, |sum, e| Some(sum + cost(e, prefix)).filter(|sum| *sum < PAGE / 3)).is_some()
}

/// Number of blocks of a page with these entries.
pub(crate) fn blocks_for(entries: &[Entry]) -> u32 {
    let prefix = shared_prefix(entries);
    let size = HEADER + prefix + entries.iter().map(|e| cost(e, prefix)).sum::<usize>();
    len32(size.div_ceil(BLOCK)).max(PAGE_BLOCKS)
}

/// Lays entries out as a page for `runs`, which have as many blocks as [`blocks_for`] says.
pub(crate) fn build(entries: &[Entry], level: u8, runs: &[Run], generation: u64) -> (Ptr, PageRef) {
    let block = runs[0].0;
    let prefix = shared_prefix(entries);
    let blocks = blocks_for(entries);
    let mut buf = Buf::zeroed(blocks as usize * BLOCK);
    buf[..4].copy_from_slice(&MAGIC.to_le_bytes());
    buf[4] = level;
    buf[8..16].copy_from_slice(&block.to_le_bytes());
    buf[16..24].copy_from_slice(&generation.to_le_bytes());
    buf[24..28].copy_from_slice(&len32(entries.len()).to_le_bytes());
    buf[28..32].copy_from_slice(&len32(prefix).to_le_bytes());
    if let Some(first) = entries.first() {
        buf[HEADER..HEADER + prefix].copy_from_slice(&first.0[..prefix]);
    }
    let table = HEADER + prefix;
    let mut at = table + entries.len() * 4;
    for (i, (key, value)) in entries.iter().enumerate() {
        buf[table + i * 4..][..4].copy_from_slice(&len32(at).to_le_bytes());
        let suffix = &key[prefix..];
        buf[at..at + 4].copy_from_slice(&len32(suffix.len()).to_le_bytes());
        buf[at + 4..at + 8].copy_from_slice(&len32(value.len()).to_le_bytes());
        at += 8;
        buf[at..at + suffix.len()].copy_from_slice(suffix);
        at += suffix.len();
        buf[at..at + value.len()].copy_from_slice(value);
        at += value.len();
    }
    let bytes = buf.freeze();
    let crc = crc32c(SEED, &bytes);
    let page = PageRef { bytes, crc, count: len32(entries.len()), prefix: len32(prefix), level };
    let ptr = Ptr::new(runs, crc);
    debug_assert_eq!(ptr.blocks, blocks, "the runs are as long as the page");
    (ptr, page)
}

impl PageRef {
    /// Gives all bytes of the page, for writing it.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }
}

/// The shortest key that is larger than `left` and not larger than `right`.
pub(crate) fn separator(left: &[u8], right: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&right[..(common_prefix(left, right) + 1).min(right.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: usize) -> Entry {
        (Bytes::copy_from_slice(key.as_bytes()), Bytes::from(vec![value as u8; value]))
    }

    #[test]
    fn pages_find_what_was_put_in() {
        let entries: Vec<Entry> = (0..90).map(|i| entry(&format!("prefix/{:04}", i * 2), i)).collect();
        let (ptr, built) = build(&entries, 0, &[(77, 2)], 5);
        let page = PageRef::parse(built.bytes(), 77).expect("a page");
        assert_eq!((ptr.blocks, page.crc, page.len()), (2, ptr.crc, 90));
        assert!(PageRef::parse(built.bytes(), 78).is_none(), "misplaced");
        let (_, plain) = build(&[entry("a", 1), entry("b", 2)], 0, &[(7, 2)], 5);
        assert_eq!(plain.entries(0..2).collect::<Vec<_>>(), [entry("a", 1), entry("b", 2)]);
        for part in [0..90, 3..3, 17..54] {
            assert_eq!(page.entries(part.clone()).collect::<Vec<_>>(), entries[part]);
        }
        for (i, e) in entries.iter().enumerate() {
            assert_eq!((page.key(i), page.value(i)), *e);
            assert_eq!(page.lower_bound(&e.0), i);
        }
        for (key, at) in [("", 0), ("prefix/0001", 1), ("prefix", 0), ("prefix/9", 90), ("q", 90), ("prefix/0002x", 2)] {
            assert_eq!(page.lower_bound(key.as_bytes()), at, "{key}");
        }
    }

    #[test]
    fn cuts_fit_and_long_entries_stand_alone() {
        let mut entries: Vec<Entry> = (0..500).map(|i| entry(&format!("k{i:05}"), i % 97)).collect();
        entries[250].1 = Bytes::from(vec![1; 100_000]);
        entries[251].0 = Bytes::from([b"k00251".to_vec(), vec![b'x'; 9000]].concat());
        let cuts = cut(&entries);
        assert!(cuts.windows(2).all(|w| w[0].end == w[1].start) && cuts[0].start == 0 && cuts.last().unwrap().end == 500);
        assert!(cuts.contains(&(250..251)) && cuts.contains(&(251..252)));
        for range in cuts {
            let part = &entries[range];
            assert!(part.len() == 1 || blocks_for(part) == PAGE_BLOCKS);
            let (_, page) = build(part, 0, &[(1, blocks_for(part))], 1);
            assert!(PageRef::parse(page.bytes(), 1).is_some());
        }
    }

    #[test]
    fn levels_narrow_whatever_the_keys() {
        for key in [1, 100, 4000, 9000] {
            let mut n = 1000;
            let entry =
                |i: usize| (Bytes::from([vec![b'k'; key], (i as u32).to_be_bytes().to_vec()].concat()), Bytes::from(vec![0; 16]));
            while n > 1 {
                let mut entries: Vec<Entry> = (0..n).map(entry).collect();
                // No common prefix to save the day.
                entries[0].0 = Bytes::new();
                let cuts = cut_inner(&entries);
                assert!(cuts.windows(2).all(|w| w[0].end == w[1].start) && cuts[0].start == 0 && cuts.last().unwrap().end == n);
                assert!(cuts.len() * CHILDREN <= n.max(CHILDREN));
                n = cuts.len();
            }
        }
    }

    #[test]
    fn flipped_bits_never_make_a_page_that_panics() {
        let entries: Vec<Entry> = (0..40).map(|i| entry(&format!("key{i:03}"), 20)).collect();
        let (_, page) = build(&entries, 0, &[(3, 2)], 1);
        for bit in 0..page.bytes().len() * 8 {
            let mut bytes = page.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Some(page) = PageRef::parse(bytes.into(), 3) {
                (0..page.len()).for_each(|i| drop((page.key(i), page.value(i))));
                page.lower_bound(b"key020");
            }
        }
    }

    #[test]
    fn pointers_name_pieces_and_no_place_that_no_disk_has() {
        let runs: Vec<Run> = (0..9).map(|i| (MOST_BLOCKS - 1 - i * 70, 1 + (i % 3) as u32)).collect();
        for runs in [&runs[..1], &runs[..2], &runs[..]] {
            let ptr = Ptr::new(runs, 0x1234_5678);
            let bytes = ptr.encode();
            assert_eq!((bytes.len(), Ptr::decode(&bytes).as_ref()), (Ptr::SIZE + (runs.len() - 1) * Ptr::PIECE, Some(&ptr)));
            assert!(ptr.runs().eq(runs.iter().copied()) && Ptr::is_size(bytes.len()));
            assert!((0..bytes.len()).all(|n| Ptr::decode(&bytes[..n]).is_none_or(|cut| cut.blocks < ptr.blocks)));
        }
        for bad in [(MOST_BLOCKS, 1), (5, 0), (5, LARGEST + 1)] {
            assert_eq!(Ptr::decode(&Ptr::new(&[bad], 1).encode()), None);
            assert_eq!(Ptr::decode(&Ptr::new(&[(7, 1), bad], 1).encode()), None);
        }
        assert_eq!(Ptr::decode(&Ptr::new(&[(7, LARGEST), (7, 1)], 1).encode()), None, "more than a page may have");
    }

    #[test]
    fn separators_separate() {
        for (a, b) in [("abc", "abd"), ("ab", "abc"), ("a", "b"), ("", "x"), ("abc", "b")] {
            let s = separator(a.as_bytes(), b.as_bytes());
            assert!(a.as_bytes() < &s[..] && &s[..] <= b.as_bytes());
        }
    }
}
