//! Pseudo-random numbers as functions of a seed: reproducible in any order on any thread.

/// 64 random bits for `number` (two rounds of the `SplitMix64` finaliser, Steele et al. 2014).
#[inline]
pub const fn hash(seed: u64, salt: u64, number: u64) -> u64 {
    finalise(finalise(seed ^ salt.rotate_right(8)).wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

const fn finalise(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A permutation of the numbers with so many bits (2 to 32): every step is invertible.
#[inline]
pub const fn permute(seed: u64, bits: u32, number: u32) -> u32 {
    let mask = u32::MAX >> (32 - bits);
    let keys = finalise(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
    let mut x = number & mask;
    x = (x ^ keys as u32 & mask).wrapping_mul(0x85EB_CA6B) & mask;
    x ^= x >> (bits / 2);
    x = (x ^ (keys >> 32) as u32 & mask).wrapping_mul(0xC2B2_AE35) & mask;
    x ^= x >> (bits / 2);
    x = x.wrapping_mul(0x27D4_EB2F) & mask;
    x ^ x >> (bits / 2)
}

/// Fills the payload of packet `id`.
#[inline]
pub fn fill(seed: u64, id: u64, payload: &mut [u8]) {
    let mut state = hash(seed, 0x70, id);
    let (words, tail) = payload.as_chunks_mut::<8>();
    for word in words {
        state = state.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(0x9E37_79B9_7F4A_7C15);
        *word = (state ^ (state >> 32)).to_le_bytes();
    }
    let last = (state ^ (state >> 29)).to_be_bytes();
    let len = tail.len();
    tail.copy_from_slice(&last[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_bijective() {
        for bits in [2, 8, 15, 16, 20] {
            let mut seen = vec![false; 1 << bits];
            for number in 0..1u32 << bits {
                let image = permute(99, bits, number) as usize;
                assert!(!std::mem::replace(&mut seen[image], true), "{bits} bits: {image} twice");
            }
        }
    }

    #[test]
    fn payloads_differ_by_packet_and_by_seed() {
        let payload = |seed, id| {
            let mut bytes = [0; 21];
            fill(seed, id, &mut bytes);
            bytes
        };
        assert_eq!(payload(1, 2), payload(1, 2));
        assert_ne!(payload(1, 2), payload(1, 3));
        assert_ne!(payload(1, 2), payload(2, 2));
    }
}
