//! Tags: one byte per slot, from the key's hash; zero if the slot is empty. The tags of a bucket are one
//! word, and those of a table are a thirty-third of its memory: they stay in the cache where keys and values
//! do not. So a lookup reads the memory of one slot, not of eight, and a lookup of an absent key mostly reads
//! none.

use super::store::SLOTS;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOW_BITS: u64 = 0x7F7F_7F7F_7F7F_7F7F;

/// The tag of a key: never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u8);

impl Tag {
    pub(super) const EMPTY: Self = Self(0);

    /// One of 255 tags, from a byte without a pattern.
    #[inline(always)]
    pub(super) const fn of(byte: u8) -> Self {
        Self(byte + (byte == 0) as u8)
    }
}

/// A bucket's tags if all its slots have this one.
#[inline(always)]
pub(super) const fn in_all_slots(tag: Tag) -> u32 {
    tag.0 as u32 * ONES as u32
}

/// The tags of a key's two buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct TagPair(u64);

impl TagPair {
    #[inline(always)]
    pub(super) const fn new(first: u32, second: u32) -> Self {
        Self(first as u64 | (second as u64) << 32)
    }

    /// The slots with this tag.
    #[inline(always)]
    pub(super) const fn with(self, tag: Tag) -> SlotMask {
        let differ = self.0 ^ (tag.0 as u64 * ONES);
        // The high bit of each byte that is zero. This is exact, because no carry leaves a byte.
        SlotMask(!(((differ & LOW_BITS) + LOW_BITS) | differ | LOW_BITS))
    }

    /// The slots in use.
    #[inline(always)]
    pub(super) const fn used(self) -> SlotMask {
        SlotMask(self.with(Tag::EMPTY).0 ^ !LOW_BITS)
    }
}

/// Some of the eight slots of two buckets, numbered across both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotMask(u64);

impl SlotMask {
    #[inline(always)]
    pub(super) const fn none(self) -> bool {
        self.0 == 0
    }

    /// The lowest slot, if there is one.
    #[inline(always)]
    pub(super) const fn lowest(self) -> u32 {
        self.0.trailing_zeros() / 8
    }

    /// The slots in the bucket that has more of them; if both have the same number, those in the first.
    #[inline(always)]
    pub(super) const fn of_fuller_half(self) -> Self {
        // Bit 7 of each byte: the sum of four bits is the top byte of a product.
        let (first, second) = (self.0 as u32, (self.0 >> 32) as u32);
        let in_first = (first >> 7).wrapping_mul(ONES as u32) >> 24;
        let in_second = (second >> 7).wrapping_mul(ONES as u32) >> 24;
        Self(if in_second > in_first { (second as u64) << 32 } else { first as u64 })
    }

    #[inline(always)]
    pub(super) const fn without_lowest(self) -> Self {
        Self(self.0 & self.0.wrapping_sub(1))
    }

    /// All slots, lowest first.
    #[inline(always)]
    pub(super) fn each(self) -> impl Iterator<Item = u32> {
        let mut left = self;
        std::iter::from_fn(move || {
            let lowest = (!left.none()).then(|| left.lowest());
            left = left.without_lowest();
            lowest
        })
    }
}

/// The tags of a bucket, with the tag of one slot replaced.
#[inline(always)]
pub(super) const fn replaced(tags: u32, slot: u32, tag: Tag) -> u32 {
    let shift = slot % SLOTS as u32 * 8;
    tags & !(0xFF << shift) | (tag.0 as u32) << shift
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Few different values, so that tags are often equal, including values for which a carry or a borrow
    /// between bytes would give wrong results.
    fn byte() -> impl Strategy<Value = u8> {
        prop::sample::select(vec![0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF])
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 4096 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lanes_are_those_of_equal_bytes(first in prop::array::uniform4(byte()), second in prop::array::uniform4(byte()), tag in byte()) {
            let pair = TagPair::new(u32::from_le_bytes(first), u32::from_le_bytes(second));
            let bytes = [first, second].concat();
            let lanes = |wanted: &dyn Fn(u8) -> bool| -> Vec<u32> {
                (0..8).zip(&bytes).filter(|(_, byte)| wanted(**byte)).map(|(lane, _)| lane).collect()
            };
            prop_assert_eq!(pair.with(Tag(tag)).each().collect::<Vec<_>>(), lanes(&|byte| byte == tag));
            prop_assert_eq!(pair.used().each().collect::<Vec<_>>(), lanes(&|byte| byte != 0));
            let (in_first, in_second) = lanes(&|byte| byte == tag).into_iter().partition::<Vec<_>, _>(|&lane| lane < 4);
            let more = if in_second.len() > in_first.len() { in_second } else { in_first };
            prop_assert_eq!(pair.with(Tag(tag)).of_fuller_half().each().collect::<Vec<_>>(), more);
        }

        #[test]
        fn one_tag_is_replaced(tags: [u8; 4], slot in 0u32..4, byte: u8) {
            let mut plain = tags;
            plain[slot as usize] = byte.max(1);
            prop_assert_eq!(replaced(u32::from_le_bytes(tags), slot, Tag::of(byte)), u32::from_le_bytes(plain));
        }
    }
}
