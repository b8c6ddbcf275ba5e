//! The throughput of RFC 2544 §26.1: the highest rate at which a trial loses nothing.

/// Upper end of a search in packets per second: faster than any cluster on one core.
pub const FASTEST: f64 = 2e7;

/// Number of halvings of the search interval.
pub const HALVINGS: i32 = 11;

/// The remaining interval, which is the accuracy of a search.
pub fn resolution() -> f64 {
    FASTEST / f64::from(HALVINGS).exp2()
}

/// Performs one search; returns the highest rate found without loss, or `None`. A single lost packet fails a
/// trial, whatever lost it.
///
/// # Errors
/// The error of a trial.
pub fn throughput<E>(mut lost: impl FnMut(f64) -> Result<usize, E>) -> Result<Option<f64>, E> {
    let (mut low, mut high) = (0.0, FASTEST);
    for _ in 0..HALVINGS {
        let rate = f64::midpoint(low, high);
        if lost(rate)? == 0 {
            low = rate;
        } else {
            high = rate;
        }
    }
    Ok((low > 0.0).then_some(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_search_ends_below_the_first_rate_that_loses_and_within_its_resolution() {
        for limit in [1e5, 1_234_567.0, 9_999_999.0, 19.9e6] {
            let mut trials = 0;
            let search = throughput(|rate| {
                trials += 1;
                Ok::<_, Infallible>(usize::from(rate > limit))
            });
            let Ok(Some(found)) = search else { unreachable!("there is a rate") };
            assert!(found <= limit && limit - found <= resolution(), "{found} for {limit}");
            assert_eq!(trials, HALVINGS);
        }
    }

    #[test]
    fn one_lost_packet_fails_a_trial_and_a_cluster_that_always_loses_has_no_rate() {
        assert_eq!(throughput(|_| Ok::<_, Infallible>(1)), Ok(None));
        assert_eq!(throughput(|_| Err::<usize, _>("stop")), Err("stop"));
    }
}
