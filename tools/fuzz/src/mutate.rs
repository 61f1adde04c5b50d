//! A deterministic mutator: the same seed gives the same inputs.

/// A small source of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n.max(1) as u64) as usize
    }
}

/// Numbers at which lengths, counts and signs go wrong.
const EDGES: [u64; 18] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Longest input.
const LONGEST: usize = 1 << 16;

/// A new input out of one of `seeds`, perhaps crossed with another.
pub fn mutate(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seeds.get(dice.below(seeds.len())).cloned().unwrap_or_default();
    for _ in 0..1 + dice.below(6) {
        change(&mut bytes, seeds, dice);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len());
    match dice.below(12) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
        1 if !bytes.is_empty() => bytes[at] = dice.roll() as u8,
        // A number of any width, in its place.
        2..=5 if !bytes.is_empty() => {
            let width = [1, 2, 4, 8][dice.below(4)];
            let edge = EDGES[dice.below(EDGES.len())].wrapping_add(dice.below(5) as u64).wrapping_sub(2);
            let value = edge.to_le_bytes();
            let n = width.min(bytes.len() - at);
            bytes[at..at + n].copy_from_slice(&value[..n]);
        }
        // A number of four bytes that is there already moves a little.
        6 if bytes.len() >= at + 4 => {
            let old = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let new = old.wrapping_add(dice.below(9) as u32).wrapping_sub(4);
            bytes[at..at + 4].copy_from_slice(&new.to_le_bytes());
        }
        7 => bytes.truncate(at),
        8 => {
            let n = 1 + dice.below(16);
            let piece: Vec<u8> = (0..n).map(|_| dice.roll() as u8).collect();
            bytes.splice(at..at, piece);
        }
        // A part comes again.
        9 if !bytes.is_empty() => {
            let n = (1 + dice.below(64)).min(bytes.len() - at);
            let piece = bytes[at..at + n].to_vec();
            let to = dice.below(bytes.len());
            bytes.splice(to..to, piece);
        }
        10 if !bytes.is_empty() => {
            let n = (1 + dice.below(32)).min(bytes.len() - at);
            bytes.drain(at..at + n);
        }
        // The rest is another's.
        _ => {
            let Some(other) = seeds.get(dice.below(seeds.len())) else { return };
            bytes.truncate(at);
            bytes.extend_from_slice(&other[dice.below(other.len()).min(other.len())..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_most_differ() {
        let seeds = vec![vec![1; 40], b"another".to_vec(), Vec::new()];
        let inputs = |seed| {
            let mut dice = Dice(seed);
            (0..500).map(|_| mutate(&seeds, &mut dice)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        let different: std::collections::BTreeSet<_> = inputs(1).into_iter().collect();
        assert!(different.len() > 300, "{}", different.len());
    }
}
