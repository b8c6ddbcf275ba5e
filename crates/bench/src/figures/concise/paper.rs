//! What the Concise paper reports, as far as it is known here: from the paper's text on an i7-4770 with four threads.
//! Where nothing stands, pages say so; no number is read off a plot.

/// What pages say where the paper's number is not known.
pub const NOT_GIVEN: &str = "not given";

/// Table II: megabytes of a FIB of 5 M MAC addresses and 256 actions, by structure.
const MEGABYTES: [(&str, u32); 4] = [("othello", 16), ("cuckoo", 40), ("buffalo", 28), ("orthogonal", 112)];

/// Megabytes of a structure, for the names and value bits for which the paper has some.
pub fn megabytes(structure: &str, names: u64, value_bits: u8) -> Option<u32> {
    let is_known = names == 5_000_000 && value_bits == 8;
    MEGABYTES.iter().find(|row| is_known && row.0 == structure).map(|row| row.1)
}

/// Lookups of Othello with four threads, making names included, in millions a second.
pub fn lookups(structure: &str, names: u64) -> &'static str {
    match structure {
        "setsep" if names == 1_400_000 => "211 (4 threads, l = 8)",
        "othello" if names == 1_400_000 => "470 (4 threads, l = 8)",
        "othello" if names < 2_000_000 => "over 400 (4 threads)",
        "othello" => "about 100 (4 threads)",
        _ => NOT_GIVEN,
    }
}

/// Nanoseconds a lookup with making the name, and of that making it.
pub const NAME_AND_LOOKUP_NS: (f64, f64) = (4.5, 4.1);

/// Names built a second, in millions.
pub const BUILD: &str = "4";

/// Updates a second, in millions.
pub const UPDATES: &str = "at least 1";

/// A reconstruction at a million names: how often one name added forces it, and what it takes.
pub const RECONSTRUCTION: &str = "1.3 in a million additions, 0.2 s each, at 1 M names";

/// Figure 6: the delay of Concise, at the trace's 210 Kpps and at a hundred times that rate.
pub const DELAY: &str = "under 1 µs";

/// Figure 6: up to which percentile the delay of Concise is below that of the cuckoo table, at either rate.
pub const DELAY_CROSSINGS: [&str; 2] = ["up to the 90th percentile", "up to the 60th percentile"];

/// Figure 9: how many times the rate of a structure Concise forwards, with 64-bit names, on one core.
pub fn forwarding(structure: &str, names: u64) -> &'static str {
    match structure {
        "cuckoo" if names < 2_000_000 => "2 times its rate, 10–20 % of its memory",
        "orthogonal" if names < 2_000_000 => "4 times its rate, 10–20 % of its memory",
        "cuckoo" | "orthogonal" | "binary-search" => "a higher rate, 10–20 % of its memory",
        _ => NOT_GIVEN,
    }
}

/// Figures 10 and 11: what Concise and the cuckoo table forward between four virtio ports, by the frame's octets.
pub fn links(structure: &str, octets: usize) -> &'static str {
    match (structure, octets) {
        ("othello", 64) => "over 1 Mpps",
        ("othello", _) => "over 1 Mpps, at least 12 Gb/s",
        ("cuckoo", _) => "60–80 % of Concise",
        _ => NOT_GIVEN,
    }
}
