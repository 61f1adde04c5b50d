//! The only source of chance: xoshiro256** seeded through splitmix64, so that a seed says everything.

/// A stream of pseudo-random numbers. Never use it for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

/// One step of splitmix64; also a good mixer of bits.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self { s: std::array::from_fn(|_| splitmix(&mut state)) }
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "a generator never ends; it is no iterator")]
    pub fn next(&mut self) -> u64 {
        let result = self.s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = self.s[1] << 17;
        self.s[2] ^= self.s[0];
        self.s[3] ^= self.s[1];
        self.s[1] ^= self.s[2];
        self.s[0] ^= self.s[3];
        self.s[2] ^= t;
        self.s[3] = self.s[3].rotate_left(45);
        result
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a choice among nothing");
        // The bias is below n / 2^64: of no consequence here.
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// An index of a sequence of `len` items.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// One of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// A number in `low..=high` whose magnitude (not value) is even: small ones are as likely as large ones.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let bits = 64 - (high - low).leading_zeros();
        let bound = (high - low).min((1u64 << self.below(u64::from(bits) + 1)) - 1);
        low + self.below(bound + 1)
    }

    /// Another stream, independent of what this one gives afterwards.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next())
    }

    /// 32 bytes, as machines want their seed.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        for chunk in seed.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes());
        }
        seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_everything_and_choices_stay_in_bounds() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        for _ in 0..1000 {
            assert_eq!(a.next(), b.next());
        }
        assert_ne!(Rng::new(8).next(), Rng::new(7).next());
        let mut seen = [0u32; 7];
        for _ in 0..7000 {
            seen[a.index(7)] += 1;
            assert!((3..=9).contains(&a.between(3, 9)));
            assert!((4..=1000).contains(&a.magnitude(4, 1000)));
        }
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
    }
}
