//! Rendezvous hashing (Thaler and Ravishankar, 1998): of several nodes the one with the highest hash of its number and a name. When
//! one of the nodes goes, only the names that it had move.

use scalebricks_types::NodeId;

/// The weight of a node for a name. The name's 56 low bits count.
pub(crate) const fn weight(name: u64, node: NodeId) -> u64 {
    mix(name << 8 | node.get() as u64)
}

/// Scatters all bits, and gives different numbers for different ones (the finaliser of `SplitMix64`).
pub(crate) const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
