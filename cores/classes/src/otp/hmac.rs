//! SHA-1 (FIPS 180-4), its keyed form (RFC 2104), and the short codes that are made of it (RFC 4226). One-time passwords
//! are the only thing here that still uses SHA-1.

/// Bytes of a digest.
const DIGEST: usize = 20;
/// Bytes that are mixed at once.
const BLOCK: usize = 64;

fn mix(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for i in 16..80 {
        words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (i, word) in words.into_iter().enumerate() {
        let (f, k) = match i / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(more);
    }
}

fn sha1(data: &[u8]) -> [u8; DIGEST] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut padded = data.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(BLOCK), 0);
    if padded.len() - data.len() < 9 {
        padded.resize(padded.len() + BLOCK, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    padded.chunks_exact(BLOCK).for_each(|block| mix(&mut state, block));
    let mut digest = [0; DIGEST];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn hmac(key: &[u8], data: &[u8]) -> [u8; DIGEST] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..DIGEST].copy_from_slice(&sha1(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let with = |pad: u8, rest: &[u8]| sha1(&[&block.map(|b| b ^ pad), rest].concat());
    with(0x5c, &with(0x36, data))
}

/// A key of at most one block that gives the same codes. A long one is hashed for each code otherwise.
pub(super) fn short(key: &[u8]) -> Vec<u8> {
    if key.len() > BLOCK { sha1(key).to_vec() } else { key.to_vec() }
}

/// The code of a key and a counter, of `digits` digits: 6, 7 or 8.
pub(super) fn code(key: &[u8], counter: u64, digits: usize) -> String {
    let mac = hmac(key, &counter.to_be_bytes());
    let at = usize::from(mac[DIGEST - 1] & 15);
    let number = u32::from_be_bytes([mac[at] & 0x7f, mac[at + 1], mac[at + 2], mac[at + 3]]);
    let modulus = match digits {
        6 => 1_000_000,
        7 => 10_000_000,
        _ => 100_000_000,
    };
    format!("{:0digits$}", number % modulus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Examples of FIPS 180-4, and lengths around the ends of a block.
    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(hex(&sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&sha1(long)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        assert_eq!(hex(&sha1(&[b'a'; 1000])), "291e9a6c66994949b57ba5e650361e98fc36b1ba");
    }

    #[test]
    fn a_short_key_gives_the_codes_of_the_long_one() {
        for length in [0, 1, BLOCK, BLOCK + 1, 5_000] {
            let key = vec![7; length];
            assert!(short(&key).len() <= BLOCK && code(&short(&key), 5, 6) == code(&key, 5, 6), "{length}");
        }
    }

    /// Examples of RFC 2202 and of RFC 4226, appendix D.
    #[test]
    fn codes_are_those_of_the_standard() {
        assert_eq!(hex(&hmac(b"Jefe", b"what do ya want for nothing?")), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        assert_eq!(
            hex(&hmac(&[0xaa; 80], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "aa4ae5e15272d00e95705637ce8a3b55ed402112"
        );
        let codes = ["755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"];
        for (counter, expected) in codes.into_iter().enumerate() {
            assert_eq!(code(b"12345678901234567890", counter as u64, 6), expected);
        }
    }
}
