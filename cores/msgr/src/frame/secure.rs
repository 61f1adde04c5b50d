//! AES-128-GCM over frames.

use super::{FrameError, GCM_TAG};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// One direction of a secure connection: a key, and a nonce that counts sealed blocks.
pub(crate) struct Cipher {
    key: LessSafeKey,
    fixed: [u8; 4],
    counter: u64,
}

/// Bytes of a connection secret that are used: key, nonce of the server's blocks, nonce of the client's.
const SECRET: usize = 40;

impl Cipher {
    /// The two ciphers of the accepting side: for what it receives, for what it sends. The connecting side swaps them.
    pub(crate) fn pair(secret: &[u8]) -> Option<(Cipher, Cipher)> {
        let secret = secret.get(..SECRET)?;
        let cipher = |nonce: &[u8]| {
            let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &secret[..16]).ok()?);
            let counter = u64::from_le_bytes(nonce[4..].try_into().ok()?);
            Some(Cipher { key, fixed: nonce[..4].try_into().ok()?, counter })
        };
        Some((cipher(&secret[28..40])?, cipher(&secret[16..28])?))
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.fixed);
        nonce[4..].copy_from_slice(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals all of `block` but its last [`GCM_TAG`] bytes, where the tag is put.
    pub(crate) fn seal(&mut self, block: &mut [u8]) {
        let nonce = self.nonce();
        let (plain, tag) = block.split_at_mut(block.len() - GCM_TAG);
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), plain);
        tag.copy_from_slice(sealed.expect("a frame is far below the cipher's limit").as_ref());
    }

    /// Opens `block`, whose last [`GCM_TAG`] bytes are the tag.
    pub(crate) fn open(&mut self, block: &mut [u8]) -> Result<(), FrameError> {
        let nonce = self.nonce();
        self.key.open_in_place(nonce, Aad::empty(), block).map(drop).map_err(|_| FrameError::Sealed)
    }
}
