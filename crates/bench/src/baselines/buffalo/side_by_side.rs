//! BUFFALO with interleaved filters, for which the Concise paper counts lines: eight rows per name, one bit
//! per action.

use super::K_MAX;
use crate::baselines::sliced::Sliced;
use crate::baselines::{Answer, Baseline, BaselineError, Lines, Touch};
use crate::keys::mix;
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

    #[inline(always)]
    fn find(&self, name: KeyHash, touch: &mut impl Touch) -> Answer {
        let (mut fitting, mut picked) = (0, 0);
        self.0.fitting(name, touch, |first, mut fits| {
            while fits != 0 {
                fitting += 1;
                // Picks each fitting action with equal probability.
                if mix(name.get() ^ fitting).is_multiple_of(fitting) {
                    picked = (first + u64::from(fits.trailing_zeros())) as u16; // below 65,536
                }
                fits &= fits - 1;
            }
            true
        });
        match fitting {
            0 => Answer::Unknown,
            1 => Answer::Action(picked),
            _ => Answer::Picked(picked),
        }
    }
}

impl Baseline for SideBySide {
    fn name(&self) -> &'static str {
        "buffalo"
    }

    fn table_bytes(&self) -> u64 {
        self.0.table_bytes()
    }

    fn look_up(&self, name: KeyHash) -> Answer {
        self.find(name, &mut ())
    }

    fn prefetch(&self, name: KeyHash) {
        self.0.prefetch(name);
    }

    fn lines(&self, name: KeyHash) -> usize {
        let mut lines = Lines::default();
        self.find(name, &mut lines);
        lines.take()
    }
}
