//! Statistics over several runs.

/// Median, minimum and maximum of some runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The median; for an even number of runs, the mean of the two middle values.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Summary {
    /// The statistics of figures in any order; all zero if there are none.
    pub fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        let last = sorted.len().saturating_sub(1);
        Self {
            median: f64::midpoint(at(last / 2), at(sorted.len() / 2)),
            min: at(0),
            max: at(last),
            runs: sorted.len(),
        }
    }

    /// A figure that does not vary.
    pub const fn exact(figure: f64) -> Self {
        Self { median: figure, min: figure, max: figure, runs: 1 }
    }
}

/// The value at this quantile of sorted figures; 0 if there are none.
#[expect(clippy::cast_sign_loss, reason = "a share of a number of figures")]
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_figures() {
        let figures: Vec<f64> = (1..=200).map(f64::from).collect();
        for (share, want) in [(0.0, 1.0), (0.5, 100.0), (0.99, 198.0), (1.0, 200.0)] {
            assert!((percentile(&figures, share) - want).abs() < 1e-12, "{share}");
        }
        assert!(percentile(&[], 0.5).abs() < 1e-12);
    }

    #[test]
    fn medians_are_in_the_middle() {
        let three = Summary::of(&[3.0, 1.0, 2.0]);
        assert_eq!(three, Summary { median: 2.0, min: 1.0, max: 3.0, runs: 3 });
        let four = Summary::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(four, Summary { median: 2.5, min: 1.0, max: 4.0, runs: 4 });
        assert_eq!(Summary::of(&[5.0]), Summary::exact(5.0));
        assert_eq!(Summary::of(&[]).runs, 0);
    }
}
