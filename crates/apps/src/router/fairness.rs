//! How evenly a router serves its inputs.

/// Jain's index of shares: 1 if all are equal, 1/n if one gets everything (Jain, Chiu, Hawe, DEC-TR-301, 1984). 1 for no
/// shares.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

/// The smallest share relative to the mean; 1 for no shares.
pub fn least(shares: &[f64]) -> f64 {
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    if mean > 0.0 { shares.iter().copied().fold(f64::INFINITY, f64::min) / mean } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair_and_one_for_all_is_not() {
        assert!((jain(&[3.0; 5]) - 1.0).abs() < 1e-12 && (least(&[3.0; 5]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!(least(&[1.0, 0.0]).abs() < 1e-12);
        assert!((least(&[1.0, 3.0]) - 0.5).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12 && (least(&[]) - 1.0).abs() < 1e-12);
    }
}
