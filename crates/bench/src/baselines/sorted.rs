//! Binary search over sorted hashes: no empty slots, but a cache line for nearly every step.

use super::{Answer, Baseline, BaselineError, Touch};
use scalebricks_types::KeyHash;

/// Hashes per cache line, and actions per cache line.
const HASHES_A_LINE: usize = 8;
const ACTIONS_A_LINE: usize = 32;

/// Names sorted by hash, ten bytes each.
#[derive(Debug)]
pub struct Sorted {
    hashes: Vec<KeyHash>,
    actions: Vec<u16>,
}

impl Sorted {
    /// Builds the table of these names.
    ///
    /// # Errors
    /// [`BaselineError::Twice`].
    pub fn build(names: &[(KeyHash, u16)]) -> Result<Self, BaselineError> {
        let mut names = names.to_vec();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(BaselineError::Twice(pair[0].0));
        }
        let (hashes, actions) = names.into_iter().unzip();
        Ok(Self { hashes, actions })
    }
}

impl Baseline for Sorted {
    fn table_bytes(&self) -> u64 {
        (self.hashes.len() * size_of::<KeyHash>() + self.actions.len() * size_of::<u16>()) as u64
    }

    fn find(&self, name: KeyHash, touch: &mut impl Touch) -> Answer {
        let (mut first, mut left) = (0, self.hashes.len());
        while left > 1 {
            let half = left / 2;
            touch.line(0, (first + half) / HASHES_A_LINE);
            if self.hashes[first + half] <= name {
                first += half;
            }
            left -= half;
        }
        touch.line(0, first / HASHES_A_LINE);
        if self.hashes.get(first) != Some(&name) {
            return Answer::Unknown;
        }
        touch.line(1, first / ACTIONS_A_LINE);
        Answer::Action(self.actions[first])
    }
}
