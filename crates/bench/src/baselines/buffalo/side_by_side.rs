//! BUFFALO with interleaved filters, for which the Concise paper counts lines: eight rows per name, one bit
//! per action.

use super::K_MAX;
use crate::baselines::sliced::Sliced;
use crate::baselines::{Answer, Baseline, BaselineError, Pick, Touch};
use scalebricks_types::KeyHash;

/// Interleaved filters of one size.
#[derive(Debug)]
pub struct SideBySide(Sliced);

impl SideBySide {
    /// Builds the filters with a total false-positive rate of `rate`.
    ///
    /// # Errors
    /// [`BaselineError::Action`] if an action has no filter.
    pub fn build(
        names: &[(KeyHash, u16)],
        actions: usize,
        rate: f64,
        seed: u64,
    ) -> Result<Self, BaselineError> {
        let mut counts = vec![0_u64; actions];
        for &(_, action) in names {
            let count = counts.get_mut(usize::from(action));
            *count.ok_or(BaselineError::Action { action, actions })? += 1;
        }
        let rows = Sliced::rows_for(rate, K_MAX, |of| counts.iter().map(|&names| of(names)).sum());
        let mut filters = Sliced::new(actions, rows, K_MAX, seed);
        for &(name, action) in names {
            filters.insert(name, usize::from(action) & !63, 1 << (action & 63));
        }
        Ok(Self(filters))
    }
}

impl Baseline for SideBySide {
    fn table_bytes(&self) -> u64 {
        self.0.table_bytes()
    }

    #[inline(always)]
    fn find(&self, name: KeyHash, touch: &mut impl Touch) -> Answer {
        let mut pick = Pick::new(name);
        self.0.fitting(name, touch, |first, mut fits| {
            while fits != 0 {
                pick.add((first + u64::from(fits.trailing_zeros())) as u16); // below 65,536
                fits &= fits - 1;
            }
            true
        });
        pick.answer()
    }

    fn prefetch(&self, name: KeyHash) {
        self.0.prefetch(name);
    }
}
