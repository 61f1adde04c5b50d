//! Unpredictable bytes from a seed.

use ring::hmac;

/// A generator of keys, challenges and cookies: HMAC-SHA256 of a counter under the seed. The same seed gives the same
/// bytes, so a simulated run can be repeated.
pub(crate) struct Random {
    key: hmac::Key,
    counter: u64,
}

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &seed), counter: 0 }
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(32) {
            self.counter += 1;
            let block = hmac::sign(&self.key, &self.counter.to_le_bytes());
            chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
        }
        bytes
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}
