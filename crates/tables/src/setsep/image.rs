//! The words of one block as readers, snapshots and the control structure share them: 8 words of choices (256 x 2
//! bits), then 64 groups bit-packed, one word for each bit of a group.

use super::geometry::{BUCKETS, CANDIDATES, GROUPS, bucket_of};
use super::params::Params;
use super::solver::{Fields, is_marked};

/// Words of choices: one cache line.
pub(super) const CHOICE_WORDS: usize = BUCKETS * 2 / 64;

/// Where things lie in a block's words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) params: Params,
    pub(super) words: usize,
    /// Bits of a field.
    width: u32,
    /// Fields of a group.
    fields: usize,
    /// [`Params::fingerprint`].
    pub(super) fingerprint: u32,
}

impl Layout {
    pub(super) fn of(params: &Params) -> Self {
        let (width, fields) = (params.format().field_bits(), params.value_bits() as usize);
        Self { params: *params, words: params.slot_words(), width, fields, fingerprint: params.fingerprint() }
    }

    #[inline(always)]
    const fn field_at(&self, group: usize, bit: usize) -> usize {
        CHOICE_WORDS * 64 + (group * self.fields + bit) * self.width as usize
    }

    /// The fields of a group.
    #[inline]
    pub(super) fn group(&self, words: &[u64], group: usize) -> Fields {
        let mut fields = [0; 8];
        for (bit, field) in fields.iter_mut().enumerate().take(self.fields) {
            let at = self.field_at(group, bit);
            let (word, shift) = (at / 64, at % 64);
            let low = words[word] >> shift;
            let high = if shift + self.width as usize > 64 { words[word + 1] << (64 - shift) } else { 0 };
            *field = (low | high) & (u64::MAX >> (64 - self.width));
        }
        fields
    }

    /// Stores the fields of a group.
    #[inline]
    pub(super) fn set_group(&self, words: &mut [u64], group: usize, fields: &Fields) {
        let mask = u64::MAX >> (64 - self.width);
        for (bit, &field) in fields.iter().enumerate().take(self.fields) {
            let at = self.field_at(group, bit);
            let (word, shift) = (at / 64, at % 64);
            words[word] = words[word] & !(mask << shift) | field << shift;
            if shift + self.width as usize > 64 {
                let over = 64 - shift;
                words[word + 1] = words[word + 1] & !(mask >> over) | field >> over;
            }
        }
    }

    /// Stores the fields of a group; whether they differ from what was there.
    #[inline]
    pub(super) fn replace_group(&self, words: &mut [u64], group: usize, fields: &Fields) -> bool {
        let differs = self.group(words, group) != *fields;
        if differs {
            self.set_group(words, group, fields);
        }
        differs
    }

    /// One bit a group: whether it is marked.
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

/// The group these words send a hash to, which must lie in their block.
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
                    layout.set_group(&mut words, group, &fields(group));
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
