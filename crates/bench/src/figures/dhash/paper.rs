//! Numbers of the DHash paper, and what an ideal hash function gives.

/// Table II: name, packets, maximum and mean sessions. Frames have 67 bytes on average.
pub(super) const FILES: [(&str, u64, u64, u64); 3] = [
    ("File-1", 5_242_880, 262_144, 249_036),
    ("File-2", 10_485_760, 524_288, 498_073),
    ("File-3", 20_971_520, 1_048_576, 996_189),
];

/// Bytes of a frame, on average.
pub(super) const FRAME_BYTES: u64 = 67;

/// Table IV, seven cores: the number of the function, its name here, Mpps, false positives in percent.
pub(super) const SIGNATURES: [(u8, &str, f64, f64); 4] = [
    (1, "xor", 15.9, 0.18),
    (2, "crc-of-xor", 16.1, 0.10),
    (3, "mirrored-crc", 15.2, 0.33),
    (4, "two-halves", 16.3, 0.0),
];

/// Sessions in a bucket at 1,048,576 in 100,000 buckets. An ideal signature has one false positive in 2^32 / 9.5 lookups.
pub(super) const MEAN_SESSIONS: f64 = 10.48576;

/// Table V: variant here; Mpps at most, six pipelines; first hits in percent; mean comparisons; and an ideal hash's first
/// hits in percent, comparisons of hits, and of all lookups of the trace.
pub(super) struct Search {
    pub(super) variant: &'static str,
    pub(super) mpps: f64,
    pub(super) first_hit: Option<f64>,
    pub(super) comparisons: f64,
    pub(super) ideal: [f64; 3],
}

pub(super) const SEARCHES: [Search; 2] = [
    Search {
        variant: crate::dhash::WITHOUT_MAJOR,
        mpps: 15.7,
        first_hit: None,
        comparisons: 6.8,
        ideal: [9.5, 6.2, 6.7],
    },
    Search {
        variant: crate::dhash::WITH_MAJOR,
        mpps: 16.3,
        first_hit: Some(67.0),
        comparisons: 3.0,
        ideal: [67.0, 1.9, 2.6],
    },
];

/// Sessions in conflict lists, of 1 M.
pub(super) const IN_LISTS: u64 = 11_413;

/// Memory: part as named in our rows, the paper's MB.
pub(super) const MEMORY_MB: [(&str, &str); 3] =
    [("signatures", "6.4"), ("list heads", "0.8 (\"TCB pool\")"), ("conflict entries", "0.3")];

/// Memory of the table with lists, MB.
pub(super) const TABLE_MB: f64 = 7.5;

/// One core with File-3, the whole stack, Mpps; the traditional table with seven cores, and DHash with seven.
pub(super) const STACK_MPPS: [f64; 3] = [3.3, 13.9, 16.3];

/// Table I: what is measured, sessions, and the shares of I/O, IP, TCP without lookup, and lookup, in percent.
pub(super) const TABLE_1_SHARES: [(&str, u64, [&str; 4]); 2] =
    [("Libnids", 10, ["4.1", "4.6", "32.5", "58.8"]), ("Libnids", 131_072, ["0.14", "0.16", "1.1", "98.6"])];

/// Table III: cycles with File-1, in order of stages.
pub(super) const STAGE_CYCLES: [u32; 5] = [35, 30, 50, 100, 700];

/// Clock of the paper's machine without turbo.
pub(super) const CLOCK_GHZ: f64 = 2.4;

/// Figures 6 and 7, with File-3: cores, and the Mpps that the text names.
pub(super) const STACK_BY_CORES: [(u32, &str); 3] = [(1, "3.3"), (6, "15.2"), (7, "16.3")];

/// The expected share of sessions that find no slot in their bucket of 16, by the Poisson distribution.
pub(super) fn ideal_in_lists(sessions: f64, buckets: f64) -> f64 {
    let mean = sessions / buckets;
    let (mut probability, mut excess) = ((-mean).exp(), 0.0);
    for count in 0..200_u32 {
        excess += probability * f64::from(count.saturating_sub(16));
        probability *= mean / f64::from(count + 1);
    }
    excess / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The derived numbers that the goals rest on.
    #[test]
    fn an_ideal_hash_puts_half_a_percent_into_lists() {
        let lists = |sessions: f64| ideal_in_lists(sessions, 1e5) * sessions;
        assert!((5_300.0..5_500.0).contains(&lists(1e6)), "{}", lists(1e6));
        assert!((8_250.0..8_350.0).contains(&lists(1_048_576.0)), "{}", lists(1_048_576.0));
        assert!((0.09..0.11).contains(&ideal_in_lists(16.0, 1.0)), "load 1");
    }

    #[test]
    fn mean_sessions_are_nearly_nineteen_twentieths() {
        for (_, packets, most, mean) in FILES {
            assert_eq!(packets, 20 * most);
            assert!((most * 19 / 20).abs_diff(mean) < 50, "{most}");
        }
    }
}
