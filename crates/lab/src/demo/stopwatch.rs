//! Packets and forwarding time of each slice of a run.

use crate::demo::report::result::Speed;
use std::time::Duration;

/// Slices of a run, which show how much rates vary.
pub const SLICES: usize = 10;

/// Shorter runs say more about the clock and the first packets than about the rate: they have none.
const MIN_TIMED: Duration = Duration::from_millis(50);

/// Packets and time of each slice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stopwatch([(u64, Duration); SLICES]);

impl Stopwatch {
    /// Adds packets of a slice and their time.
    pub fn add(&mut self, slice: usize, packets: u64, time: Duration) {
        if let Some((all, total)) = self.0.get_mut(slice) {
            *all += packets;
            *total += time;
        }
    }

    /// The rates; all zero if the packets took less than 50 ms together.
    pub fn speed(&self) -> Speed {
        let packets = self.0.iter().map(|slice| slice.0).sum();
        let Some(all) = rate_of_run(packets, self.0.iter().map(|slice| slice.1).sum()) else {
            return Speed::default();
        };
        let mut rates: Vec<f64> = self.0.iter().filter_map(|&(packets, time)| mpps(packets, time)).collect();
        rates.sort_by(f64::total_cmp);
        let at = |place: usize| rates.get(place).copied().unwrap_or(0.0);
        Speed {
            mpps: all,
            mpps_min: at(0),
            mpps_median: f64::midpoint(at(rates.len().saturating_sub(1) / 2), at(rates.len() / 2)),
            mpps_max: at(rates.len().saturating_sub(1)),
        }
    }
}

/// Millions of packets per second of a whole run, or nothing if it took less than 50 ms.
pub fn rate_of_run(packets: u64, time: Duration) -> Option<f64> {
    mpps(packets, time).filter(|_| time >= MIN_TIMED)
}

fn mpps(packets: u64, time: Duration) -> Option<f64> {
    (packets > 0 && !time.is_zero()).then(|| packets as f64 / time.as_secs_f64() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_packets_over_time() {
        assert_eq!(Stopwatch::default().speed(), Speed::default());
        let mut watch = Stopwatch::default();
        watch.add(0, 1_000_000, Duration::from_secs(1));
        watch.add(1, 3_000_000, Duration::from_secs(1));
        watch.add(1, 1_000_000, Duration::from_secs(1));
        watch.add(2, 6_000_000, Duration::from_secs(1));
        let speed = watch.speed();
        assert_eq!((speed.mpps_min, speed.mpps_median, speed.mpps_max), (1.0, 2.0, 6.0));
        assert!((speed.mpps - 11.0 / 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_short_run_has_no_rate() {
        let mut watch = Stopwatch::default();
        let short = Duration::from_micros(49_999);
        watch.add(0, 1000, short);
        assert_eq!(watch.speed(), Speed::default());
        assert_eq!(rate_of_run(1000, short), None);
        assert_eq!(rate_of_run(50_000, MIN_TIMED), Some(1.0));
        watch.add(1, 1000, Duration::from_micros(1));
        assert!(watch.speed().mpps > 0.0);
    }
}
