//! The 64-bit mixing function that tables share.

/// A bijection of 64-bit words in which every output bit depends on every input bit (Stafford's variant 13 of the
/// 64-bit finaliser).
#[inline(always)]
pub(crate) const fn mix64(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
