//! The words of one block, as readers, snapshots and the control structure share them: 8 words of choices
//! (256 x 2 bits), then 64 bit-packed groups, one word for each bit of a group.

use super::format::Format;
use super::geometry::{BUCKETS, CANDIDATES, GROUPS, bucket_of};
use super::linear::Rows;
use super::params::Params;
use super::solver::{Fields, is_marked};
use std::ops::RangeInclusive;

/// Words of choices: one cache line.
pub(super) const CHOICE_WORDS: usize = BUCKETS * 2 / 64;

/// The layout of a block's words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(super) params: Params,
    pub(super) words: usize,
    /// Bits per field.
    width: u32,
    /// Fields per group.
    fields: usize,
    /// Bits per group, which is also the number of words for all groups.
    group_bits: usize,
    pub(super) group_words: usize,
    /// [`Params::fingerprint`].
    pub(super) fingerprint: u32,
    /// The row hash of the linear formats.
    pub(super) rows: Rows,
}

/// The fields of a group without gaps, in the first [`Layout::group_words`] words; the remaining words are 0.
pub(super) type Packed = [u64; 8];

impl Layout {
    pub(super) fn of(params: &Params) -> Self {
        let (width, fields) = (params.format().field_bits(), params.value_bits() as usize);
        let group_bits = params.group_bits();
        let (words, group_words) = (params.slot_words(), group_bits.div_ceil(64));
        Self {
            params: *params,
            words,
            width,
            fields,
            group_bits,
            group_words,
            fingerprint: params.fingerprint(),
            rows: Rows::of(params),
        }
    }

    /// The first bit of a group.
    #[inline(always)]
    const fn bit_of(&self, group: usize) -> usize {
        CHOICE_WORDS * 64 + group * self.group_bits
    }

    /// The word that contains a group's first bit.
    #[inline]
    pub(super) const fn word_of(&self, group: usize) -> usize {
        self.bit_of(group) / 64
    }

    /// The words that a lookup in a group reads. The searched formats read 64 bits from each function on, at
    /// most up to the block's end, and read all functions at once if they fit in 64 bits.
    pub(super) fn words_read(&self, group: usize) -> RangeInclusive<usize> {
        let first = self.bit_of(group);
        if self.params.format().is_linear() {
            return first / 64..=(first + self.group_bits - 1) / 64;
        }
        let is_brute = self.params.format() == Format::Brute;
        let last = if self.group_bits <= 64 && !is_brute { 0 } else { self.group_bits - self.width as usize };
        first / 64..=((first + last) / 64 + 1).min(self.words - 1)
    }

    /// The number of a group's bits in its packed word `at`.
    #[inline(always)]
    pub(super) const fn bits_in(&self, at: usize) -> u32 {
        let left = self.group_bits - at * 64;
        if left < 64 { left as u32 } else { 64 }
    }

    /// Packs fields without gaps.
    pub(super) fn pack(&self, fields: &Fields) -> Packed {
        let mut packed = [0; 8];
        for (bit, &field) in fields.iter().enumerate().take(self.fields) {
            let (word, shift) = (bit * self.width as usize / 64, bit * self.width as usize % 64);
            packed[word] |= field << shift;
            if shift + self.width as usize > 64 {
                packed[word + 1] |= field >> (64 - shift);
            }
        }
        packed
    }

    /// Unpacks packed fields.
    pub(super) fn unpack(&self, packed: &[u64]) -> Fields {
        let mut fields = [0; 8];
        for (bit, field) in fields.iter_mut().enumerate().take(self.fields) {
            let (word, shift) = (bit * self.width as usize / 64, bit * self.width as usize % 64);
            let low = packed[word] >> shift;
            let high = if shift + self.width as usize > 64 { packed[word + 1] << (64 - shift) } else { 0 };
            *field = (low | high) & (u64::MAX >> (64 - self.width));
        }
        fields
    }

    /// The fields of a group.
    #[inline]
    pub(super) fn group(&self, words: &[u64], group: usize) -> Fields {
        let mut packed = [0; 8];
        let (first, shift) = (self.bit_of(group) / 64, self.bit_of(group) % 64);
        for (at, word) in packed.iter_mut().enumerate().take(self.group_words) {
            *word = words[first + at] >> shift;
            if shift + self.bits_in(at) as usize > 64 {
                *word |= words[first + at + 1] << (64 - shift);
            }
        }
        self.unpack(&packed)
    }

    /// Stores the packed fields of a group. Returns whether they differ from the previous ones.
    #[inline]
    pub(super) fn set_group(&self, words: &mut [u64], group: usize, packed: &[u64]) -> bool {
        let (first, shift) = (self.bit_of(group) / 64, self.bit_of(group) % 64);
        let mut differs = 0;
        for (at, &new) in packed.iter().enumerate().take(self.group_words) {
            let bits = self.bits_in(at);
            let mask = u64::MAX >> (64 - bits);
            let difference = (words[first + at] >> shift ^ new) & mask;
            // In the first word, only the bits that belong to the group count.
            let difference = difference & u64::MAX >> shift;
            words[first + at] ^= difference << shift;
            differs |= difference;
            if shift + bits as usize > 64 {
                let over = 64 - shift;
                let difference = (words[first + at + 1] ^ new >> over) & mask >> over;
                words[first + at + 1] ^= difference;
                differs |= difference;
            }
        }
        differs != 0
    }

    /// One bit per group: set if the group is marked.
    pub(super) fn marks(&self, words: &[u64]) -> u64 {
        (0..GROUPS).fold(0, |marks, group| {
            marks | u64::from(is_marked(&self.group(words, group), &self.params)) << group
        })
    }
}

/// The choice of a bucket.
#[inline(always)]
pub(super) fn choice(words: &[u64], bucket: usize) -> u8 {
    ((words[bucket / 32] >> (bucket % 32 * 2)) & 3) as u8
}

/// Stores the choice of a bucket.
pub(super) fn set_choice(words: &mut [u64], bucket: usize, choice: u8) {
    let (word, shift) = (bucket / 32, bucket % 32 * 2);
    words[word] = words[word] & !(3 << shift) | u64::from(choice) << shift;
}

/// The group that these words select for a hash. The hash must lie in their block.
pub(super) fn group_of(words: &[u64], hash: u64, blocks: u32) -> usize {
    let (_, bucket) = bucket_of(hash, blocks);
    usize::from(CANDIDATES[bucket][usize::from(choice(words, bucket))])
}

#[cfg(test)]
mod tests {
    use super::super::format::Format;
    use super::super::geometry::mix64;
    use super::*;
    use scalebricks_types::PartitionCount;

    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
    fn what_is_stored_is_read_and_neighbours_stay() {
        for format in Format::ALL {
            for bits in 1..=8 {
                let params = Params::new(1, bits, PartitionCount::ONE).unwrap().with_format(format).unwrap();
                let layout = Layout::of(&params);
                let mut words = vec![u64::MAX; layout.words];
                let field = |group: usize, bit: usize| {
                    mix64((group * 8 + bit) as u64) & (u64::MAX >> (64 - format.field_bits()))
                };
                let fields =
                    |group| std::array::from_fn(|bit| if bit < bits.into() { field(group, bit) } else { 0 });
                for group in (0..GROUPS).rev() {
                    layout.set_group(&mut words, group, &layout.pack(&fields(group)));
                }
                for bucket in 0..BUCKETS {
                    set_choice(&mut words, bucket, (mix64(bucket as u64) & 3) as u8);
                }
                for group in 0..GROUPS {
                    assert_eq!(layout.group(&words, group), fields(group), "{format:?}, {bits} bits");
                }
                for bucket in 0..BUCKETS {
                    assert_eq!(u64::from(choice(&words, bucket)), mix64(bucket as u64) & 3);
                }
            }
        }
    }
}
