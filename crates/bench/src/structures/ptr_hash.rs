//! `PtrHash` (Groot Koerkamp, SEA 2025): a perfect hash function with an array of packed values. Uses its
//! fastest preset, which maps `n` keys to 1.01·n numbers, and no further hashing of random keys, as its
//! authors recommend.

use super::packed::Packed;
use super::queries::{LookupMode, Queries, in_calls};
use super::{Build, Table};
use crate::error::BenchError;
use crate::keys::KeySet;
use ptr_hash::hash::NoHash;
use ptr_hash::{FastPtrHash, PtrHashParams};
use scalebricks_types::KeyHash;

/// Keys in flight, as its authors recommend.
const AHEAD: usize = 32;

type Function = FastPtrHash<NoHash, u64>;

/// Converts a key set for a build.
pub fn prepare(set: &KeySet) -> Build<'_> {
    let keys: Vec<u64> = set.hashes.iter().map(|hash| hash.get()).collect();
    Box::new(move || {
        let function = Function::try_new(&keys, PtrHashParams::default_fast())
            .ok_or_else(|| BenchError::of("ptr_hash", "no function found in ten attempts"))?;
        let mut values = Packed::new(function.max_index(), set.value_bits);
        let mut given = set.values.iter();
        function.index_stream::<AHEAD, _>(&keys).for_each(|place| {
            if let Some(&value) = given.next() {
                values.put(place, value);
            }
        });
        Ok(Box::new(Filled { function, values }))
    })
}

struct Filled {
    function: Function,
    values: Packed,
}

impl Filled {
    /// A call as a stream: the function's own prefetching, followed by a ring of positions whose values are
    /// being fetched.
    fn stream(&self, hashes: &[KeyHash], answers: &mut [u8]) {
        let mut ring = [0; AHEAD];
        let (mut asked, mut answers) = (0, answers.iter_mut());
        let keys = hashes.iter().map(|hash| hash.get());
        self.function.index_stream::<AHEAD, _>(keys).for_each(|place| {
            self.values.prefetch(place);
            let before = std::mem::replace(&mut ring[asked % AHEAD], place);
            asked += 1;
            if asked > AHEAD
                && let Some(answer) = answers.next()
            {
                *answer = self.values.get(before);
            }
        });
        for (late, answer) in (asked.saturating_sub(AHEAD)..asked).zip(answers) {
            *answer = self.values.get(ring[late % AHEAD]);
        }
    }

    /// A call in the function's own batches, with the remainder one by one.
    fn batches(&self, hashes: &[KeyHash], answers: &mut [u8]) {
        let (batches, rest) = hashes.as_chunks::<AHEAD>();
        let (answered, late) = answers.split_at_mut(batches.len() * AHEAD);
        for (hashes, answers) in batches.iter().zip(answered.chunks_mut(AHEAD)) {
            let places = self.function.index_batch::<AHEAD, _>(hashes.map(KeyHash::get));
            for &place in &places {
                self.values.prefetch(place);
            }
            for (answer, place) in answers.iter_mut().zip(places) {
                *answer = self.values.get(place);
            }
        }
        for (&hash, answer) in rest.iter().zip(late) {
            *answer = self.one(hash);
        }
    }

    /// Looks up one key.
    #[inline(always)]
    fn one(&self, hash: KeyHash) -> u8 {
        self.values.get(self.function.index(&hash.get()))
    }
}

impl Table for Filled {
    #[expect(clippy::cast_sign_loss, reason = "sizes are not negative")]
    fn table_bytes(&self) -> u64 {
        let (pilots, remap) = self.function.bits_per_element();
        ((pilots + remap) * self.function.n() as f64 / 8.0) as u64 + self.values.bytes() as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        in_calls(mode, queries.hashes, answers, |hashes, answers| match mode {
            LookupMode::Stream(_) => self.stream(hashes, answers),
            LookupMode::Batch(_) => self.batches(hashes, answers),
            _ => hashes.iter().zip(answers).for_each(|(&hash, answer)| *answer = self.one(hash)),
        });
    }
}
