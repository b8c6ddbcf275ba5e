//! Computes where a name's two slots are.
//!
//! Positions are computed from all 64 bits of the hash, mixed with the seed of the name's range. The seed
//! changes the factor of the first product, not the hash: two names that collide under one seed do not
//! collide under others, whatever bits they share.

use super::params::{Params, range_of};
use crate::mix::mix64;
use scalebricks_types::KeyHash;

/// The factor of the first product under seed 0.
pub(super) const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// What each seed adds to the factor. It is even, so that the factor stays odd, and has 32 bits, which every
/// vector unit can multiply.
pub(super) const STEP: u64 = 0xB529_7A4E;
/// The factor of the second product.
pub(super) const FINAL: u64 = 0xD6E8_FEB8_6659_FD93;
/// The factor of checksums.
pub(super) const CHECK: u64 = 0xC2B2_AE3D_27D4_EB4F;

/// How positions are computed in a table with certain parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placement {
    /// Combined with every hash before anything else.
    pub(super) key: u64,
    pub(super) ranges: u32,
    pub(super) slots: [u32; 2],
    pub(super) value_bits: u32,
    pub(super) check_bits: u32,
}

impl Placement {
    pub(super) fn of(params: &Params) -> Self {
        Self {
            key: mix64(params.seed()),
            ranges: params.ranges(),
            slots: params.slots(),
            value_bits: params.value_bits().into(),
            check_bits: params.check_bits().into(),
        }
    }

    /// The number of a hash's range.
    #[inline(always)]
    pub(super) const fn range(&self, hash: u64) -> u32 {
        range_of(hash, self.ranges)
    }

    /// The slots of a name under a seed: one of the first array and one of the second. Numbers of the second
    /// array continue those of the first.
    #[inline(always)]
    pub(super) const fn pair(&self, hash: u64, seed: u8) -> [u32; 2] {
        let x = (hash ^ self.key).wrapping_mul(FACTOR.wrapping_add(seed as u64 * STEP));
        let z = (x ^ (x >> 32)).wrapping_mul(FINAL);
        let a = ((z >> 32) * self.slots[0] as u64) >> 32;
        let b = ((z & 0xFFFF_FFFF) * self.slots[1] as u64) >> 32;
        [a as u32, self.slots[0] + b as u32] // each below its array's length
    }

    /// The XOR of the two slots of a name with this value: the value, with its checksum above.
    #[inline(always)]
    pub(super) const fn difference(&self, hash: u64, value: u16) -> u32 {
        value as u32 | self.checksum(hash) << self.value_bits
    }

    /// The checksum of a name.
    #[inline(always)]
    pub(super) const fn checksum(&self, hash: u64) -> u32 {
        if self.check_bits == 0 {
            return 0;
        }
        ((hash ^ self.key).wrapping_mul(CHECK) >> (64 - self.check_bits)) as u32 // at most 23 bits
    }

    /// The value in the XOR of a name's slots. `None` if the checksum shows that the name is not in the
    /// table.
    #[inline(always)]
    pub(super) fn value(&self, hash: KeyHash, difference: u32) -> Option<u16> {
        let is_right = difference >> self.value_bits == self.checksum(hash.get());
        is_right.then_some((difference & ((1 << self.value_bits) - 1)) as u16) // at most 16 bits
    }
}
