//! Mixes the bits of numbers: for seeds, and for random numbers that must be the same on every machine. Not for secrets.

/// The increment of [`SplitMix64`]: 2^64 divided by the golden ratio.
pub const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection of 64-bit words in which every output bit depends on every input bit (Stafford's variant 13 of the
/// 64-bit finaliser of `MurmurHash3`). 0 maps to 0.
#[inline(always)]
pub const fn mix64(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The first number of the [`SplitMix64`] with this seed: a bijection that also moves 0.
#[inline(always)]
pub const fn splitmix64(seed: u64) -> u64 {
    mix64(seed.wrapping_add(GAMMA))
}

/// A random generator: a Weyl sequence, mixed (Steele, Lea, Flood, OOPSLA 2014). Eight bytes of state, and every number
/// once in 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number. Cost: two multiplications.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        let number = splitmix64(self.0);
        self.0 = self.0.wrapping_add(GAMMA);
        number
    }

    /// The number that comes after `count` others.
    #[inline]
    pub const fn after(self, count: u64) -> u64 {
        splitmix64(self.0.wrapping_add(count.wrapping_mul(GAMMA)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference() {
        // From the program of Steele and Vigna (splitmix64.c, seed 1234567).
        let mut random = SplitMix64(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.next_u64()), expected);
        assert_eq!(splitmix64(1_234_567), expected[0]);
        assert_eq!([0, 1, 2].map(|count| SplitMix64(1_234_567).after(count)), expected);
    }
}
