//! Windows of applied batches: a batch that is logged twice is void the second time.
//!
//! A retry may be logged long after the first attempt, and in another order. So a partition's state remembers for each writer
//! which of its last batches were applied. Batches below the window are void: a writer has at most [`WINDOW`] batches to a
//! partition unconfirmed, and never goes back.
//!
//! Writers are numbered in the order in which they start. Of more than [`MAX_WRITERS`] the oldest is forgotten, and its later
//! batches, and those of older writers, are void: the writer has to draw a new number.

use crate::engine::{BatchId, WriterId};
use borsh::{BorshDeserialize, BorshSerialize};
use std::collections::BTreeMap;

/// Most unconfirmed batches of one writer to one partition.
pub const WINDOW: u64 = 1024;

/// Writers remembered.
pub const MAX_WRITERS: usize = 1024;

/// Numbers are below: no writer gets there, and sums of two of them are numbers.
const MAX_NUMBER: u64 = 1 << 63;

const WORDS: usize = WINDOW as usize / 64;

/// The state of a batch in the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not applied yet; now it counts as applied.
    New,
    /// Applied already.
    Duplicate,
    /// Below the window: unknown.
    Below,
    /// Of a writer that was forgotten.
    Retired,
}

/// The batches of one writer.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct Window {
    /// The highest number seen.
    highest: u64,
    /// Whether the number was seen, by number modulo [`WINDOW`], for the highest and those up to `WINDOW - 1` below.
    seen: [u64; WORDS],
}

impl Window {
    const EMPTY: Self = Self { highest: 0, seen: [0; WORDS] };

    const fn place(number: u64) -> (usize, u64) {
        let at = number % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }

    fn admit(&mut self, number: u64) -> Verdict {
        if number + WINDOW <= self.highest {
            return Verdict::Below;
        }
        let (word, bit) = Self::place(number);
        if number <= self.highest {
            if self.seen[word] & bit != 0 {
                return Verdict::Duplicate;
            }
        } else if number - self.highest >= WINDOW {
            *self = Self { highest: number, ..Self::EMPTY };
        } else {
            // The numbers in between take the places of those that fall below.
            for between in self.highest + 1..=number {
                let (word, bit) = Self::place(between);
                self.seen[word] &= !bit;
            }
            self.highest = number;
        }
        self.seen[word] |= bit;
        Verdict::New
    }
}

/// The batches of all writers.
#[derive(Debug, Clone, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub(super) struct Writers {
    known: BTreeMap<WriterId, Window>,
    /// Writers up to this one are forgotten.
    retired: Option<WriterId>,
}

impl Writers {
    /// Judges a batch; a new one counts as applied from then on.
    pub(super) fn admit(&mut self, id: BatchId) -> Verdict {
        if self.retired.is_some_and(|retired| id.writer <= retired) {
            return Verdict::Retired;
        }
        if id.number == 0 || id.number >= MAX_NUMBER {
            return Verdict::Below;
        }
        let verdict = self.known.entry(id.writer).or_insert(Window::EMPTY).admit(id.number);
        if self.known.len() > MAX_WRITERS
            && let Some((oldest, _)) = self.known.pop_first()
        {
            self.retired = Some(oldest);
        }
        verdict
    }

    /// Whether a log can lead to this state.
    pub(super) fn is_valid(&self) -> bool {
        self.known.len() <= MAX_WRITERS && self.known.values().all(|window| window.highest < MAX_NUMBER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const fn id(writer: u64, number: u64) -> BatchId {
        BatchId { writer: WriterId(writer), number }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A window agrees with a set of all numbers.
        #[test]
        fn windows_agree_with_sets(numbers in proptest::collection::vec(
            prop_oneof![8 => 1_u64..50, 4 => 1_000_u64..1_100, 1 => 1_u64..10_000, 1 => Just(MAX_NUMBER - 1)], 1..400)
        ) {
            let mut writers = Writers::default();
            let (mut seen, mut highest) = (BTreeSet::new(), 0);
            for number in numbers {
                let wanted = if number + WINDOW <= highest {
                    Verdict::Below
                } else if seen.insert(number) {
                    Verdict::New
                } else {
                    Verdict::Duplicate
                };
                highest = highest.max(number);
                prop_assert_eq!(writers.admit(id(7, number)), wanted, "{}", number);
            }
            let bytes = borsh::to_vec(&writers).unwrap();
            prop_assert_eq!(borsh::from_slice::<Writers>(&bytes).unwrap(), writers.clone());
            prop_assert!(writers.is_valid());
        }
    }

    #[test]
    fn the_oldest_writer_is_forgotten_for_good() {
        let mut writers = Writers::default();
        for writer in 1..=MAX_WRITERS as u64 {
            assert_eq!(writers.admit(id(writer, 1)), Verdict::New);
        }
        assert_eq!(writers.admit(id(1, 1)), Verdict::Duplicate);
        assert_eq!(writers.admit(id(5_000, 1)), Verdict::New);
        for number in 1..4 {
            assert_eq!(writers.admit(id(1, number)), Verdict::Retired);
            assert_eq!(writers.admit(id(0, number)), Verdict::Retired);
        }
        assert_eq!(writers.admit(id(2, 1)), Verdict::Duplicate);
    }

    #[test]
    fn numbers_that_no_writer_uses_are_void() {
        let mut writers = Writers::default();
        assert_eq!(writers.admit(id(1, 0)), Verdict::Below);
        assert_eq!(writers.admit(id(1, MAX_NUMBER)), Verdict::Below);
    }
}
