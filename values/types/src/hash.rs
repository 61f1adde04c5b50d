//! The hash that spreads object names over placement groups (Jenkins' 1996 mix, `rjenkins` in pool settings).

fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    let step = |x: &mut u32, y: u32, z: u32, shifted: u32| *x = x.wrapping_sub(y).wrapping_sub(z) ^ shifted;
    step(a, *b, *c, *c >> 13);
    step(b, *c, *a, *a << 8);
    step(c, *a, *b, *b >> 13);
    step(a, *b, *c, *c >> 12);
    step(b, *c, *a, *a << 16);
    step(c, *a, *b, *b >> 5);
    step(a, *b, *c, *c >> 3);
    step(b, *c, *a, *a << 10);
    step(c, *a, *b, *b >> 15);
}

/// Hash of a name.
pub fn rjenkins(name: &[u8]) -> u32 {
    let (mut a, mut b, mut c) = (0x9e37_79b9u32, 0x9e37_79b9u32, 0u32);
    let mut chunks = name.chunks_exact(12);
    for k in &mut chunks {
        let word = |i: usize| u32::from_le_bytes([k[i], k[i + 1], k[i + 2], k[i + 3]]);
        a = a.wrapping_add(word(0));
        b = b.wrapping_add(word(4));
        c = c.wrapping_add(word(8));
        mix(&mut a, &mut b, &mut c);
    }
    c = c.wrapping_add(denc::low32(name.len() as u64));
    for (i, byte) in chunks.remainder().iter().enumerate() {
        let byte = u32::from(*byte);
        match i {
            0..4 => a = a.wrapping_add(byte << (8 * i)),
            4..8 => b = b.wrapping_add(byte << (8 * (i - 4))),
            // The lowest byte of c holds the length.
            _ => c = c.wrapping_add(byte << (8 * (i - 7))),
        }
    }
    mix(&mut a, &mut b, &mut c);
    c
}

/// The number of a placement group for hash `x` among `b` groups, `mask` = next power of two of b, minus 1: growing
/// `b` moves only the objects of the group that is split.
pub fn stable_mod(x: u32, b: u32, mask: u32) -> u32 {
    if x & mask < b { x & mask } else { x & (mask >> 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_wire_inventory() {
        assert_eq!(rjenkins(b"obj1"), 0x6cf8_deff);
        assert_eq!(rjenkins(b"ns1\x1fnobj"), 0x92fb_ef0c);
        assert_eq!(rjenkins(b"key1"), 0xefea_82ea);
        assert_eq!(rjenkins(b"benchmark_data_vm_5432_object0"), 0x0f95_8ff0);
        assert_eq!(stable_mod(0x6cf8_deff, 32, 31), 0x1f);
    }
}
