//! Where a key belongs: from hash to bucket, from bucket to candidate groups, from key to array positions.

pub(super) use crate::mix::mix64;

/// Buckets per block.
pub const BUCKETS: usize = 256;
/// Groups per block.
pub const GROUPS: usize = 64;
/// Number of groups a bucket can choose from.
pub const CANDIDATES_PER_BUCKET: usize = 4;

/// The global bucket of a hash: its place in the hash range, scaled. Blocks are therefore ranges of the hash,
/// a partition is a whole number of blocks, and doubling the number of blocks splits each block in two.
#[inline(always)]
pub(super) const fn bucket_of(hash: u64, blocks: u32) -> (u32, usize) {
    let bucket = ((hash as u128 * (blocks as u128 * BUCKETS as u128)) >> 64) as u64;
    ((bucket >> 8) as u32, (bucket & 0xFF) as usize)
}

/// The key's two hashes from which every function of the family `H_i = G1 + i·G2` of the paper's formats is
/// computed (paper §4.2).
///
/// G1, G2 and their sums have 32 bits, as in DPDK's EFD, and an index has at most 16 bits. A key's functions
/// all differ, except for the few keys whose G2 ends in 16 zeros. Two keys hardly ever agree in both G1 and
/// G2.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    pub(super) g1: u32,
    pub(super) g2: u32,
}

impl Family {
    /// The family of a key.
    #[inline(always)]
    pub(super) const fn of(hash: u64, seed: u64) -> Self {
        let word = mix64(hash ^ seed);
        Self { g1: word as u32, g2: (word >> 32) as u32 }
    }

    /// The array cell, out of 2^`position_bits`, that a function selects: the function's top bits.
    #[inline(always)]
    pub(super) const fn position(self, index: u32, position_bits: u32) -> u32 {
        self.g1.wrapping_add(index.wrapping_mul(self.g2)) >> (32 - position_bits)
    }
}

/// Offsets from a bucket's own place to its candidate groups, for each quarter of the block's buckets.
///
/// Computed candidates balance as well as random ones: the loads of 20,000 blocks of 24 keys per group agree
/// to two digits. Sixteen offsets fit one vector register, while a table of 1024 entries would need gather
/// loads.
pub(super) const OFFSETS: [u8; 16] = [0, 1, 7, 23, 0, 3, 13, 40, 0, 5, 21, 47, 0, 11, 29, 55];

/// The candidate groups of each bucket of a block: the bucket's number plus an offset, modulo the number of
/// groups. Each group is a candidate of exactly 16 buckets, and the four candidates of a bucket differ.
pub(super) static CANDIDATES: [[u8; CANDIDATES_PER_BUCKET]; BUCKETS] = candidates();

/// The inverse mapping: the (bucket, choice) pairs that lead to each group, ordered by bucket.
pub(super) static MEMBERS: [[(u8, u8); BUCKETS * CANDIDATES_PER_BUCKET / GROUPS]; GROUPS] =
    members(&candidates());

const fn candidates() -> [[u8; CANDIDATES_PER_BUCKET]; BUCKETS] {
    let mut table = [[0; CANDIDATES_PER_BUCKET]; BUCKETS];
    let mut b = 0;
    while b < BUCKETS {
        let mut choice = 0;
        while choice < CANDIDATES_PER_BUCKET {
            let offset = OFFSETS[b / GROUPS * CANDIDATES_PER_BUCKET + choice] as usize;
            table[b][choice] = ((b + offset) % GROUPS) as u8;
            choice += 1;
        }
        b += 1;
    }
    table
}

const fn members(candidates: &[[u8; 4]; BUCKETS]) -> [[(u8, u8); 16]; GROUPS] {
    let mut table = [[(0, 0); 16]; GROUPS];
    let mut filled = [0; GROUPS];
    let mut b = 0;
    while b < BUCKETS {
        let mut choice = 0;
        while choice < CANDIDATES_PER_BUCKET {
            let group = candidates[b][choice] as usize;
            table[group][filled[group]] = (b as u8, choice as u8);
            filled[group] += 1;
            choice += 1;
        }
        b += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::{KeyHash, PartitionCount};

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn candidates_are_distinct_and_every_group_serves_sixteen_buckets() {
        let mut served = [0; GROUPS];
        for (bucket, row) in CANDIDATES.iter().enumerate() {
            for (choice, &group) in row.iter().enumerate() {
                served[usize::from(group)] += 1;
                assert!(!row[..choice].contains(&group), "bucket {bucket} twice in group {group}");
                assert!(MEMBERS[usize::from(group)].contains(&(bucket as u8, choice as u8)));
            }
        }
        assert_eq!(served, [16; GROUPS]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn a_partition_is_a_whole_number_of_blocks_and_doubling_splits_them() {
        let partitions = PartitionCount::new(8).unwrap();
        for i in 0..10_000_u64 {
            let hash = mix64(i);
            let (block, bucket) = bucket_of(hash, 24);
            assert_eq!(block / 3, u32::from(partitions.of(KeyHash::new(hash)).0));
            assert!(bucket < BUCKETS);
            assert_eq!(bucket_of(hash, 48).0 / 2, block);
        }
        assert_eq!(
            bucket_of(u64::MAX, super::super::params::MAX_BLOCKS),
            (super::super::MAX_BLOCKS - 1, 255)
        );
    }
}
