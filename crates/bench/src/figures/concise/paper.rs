//! All numbers of the Concise paper: measured on an i7-4770 (four cores, 3.4 GHz, 8 MB L3 cache) with four
//! threads, 256 actions and names generated during the run unless stated otherwise.
//!
//! The numbers come from its text and tables, never from plots. Doubtful ones are marked;
//! `docs/concise-figures.md` numbers the doubts C1 to C16.

use crate::names::population::Kind;

/// Text of pages where the paper has a curve or bar without a number.
pub const PLOTTED: &str = "plotted only";
/// Text of pages where the paper has nothing.
pub const NOT_GIVEN: &str = "not given";
/// Mark of a number that contradicts another one.
pub const DOUBT: &str = " (!)";

/// A structure's memory and lines in Table II.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryCell {
    /// Memory. The paper writes M, but only MiB match its formulas.
    pub mib: f64,
    /// Maximum cache lines per query.
    pub lines: u32,
    /// The numbers of doubts.
    pub doubt: Option<&'static str>,
}

impl MemoryCell {
    /// Memory and lines, with a mark if doubtful.
    pub fn texts(&self) -> [String; 2] {
        let mark = if self.doubt.is_some() { DOUBT } else { "" };
        [format!("{}{mark}", self.mib), self.lines.to_string()]
    }
}

const fn cell(mib: f64, lines: u32) -> MemoryCell {
    MemoryCell { mib, lines, doubt: None }
}

const fn doubtful(mib: f64, lines: u32, doubt: &'static str) -> MemoryCell {
    MemoryCell { mib, lines, doubt: Some(doubt) }
}

/// A row of Table II.
#[derive(Debug, Clone, Copy)]
pub struct FibMemory {
    /// Kind of names.
    pub kind: Kind,
    /// Number of names.
    pub names: u64,
    /// Bits per action.
    pub value_bits: u8,
    /// Concise, cuckoo, BUFFALO, orthogonal filters.
    cells: [MemoryCell; 4],
}

impl FibMemory {
    /// The entry for a structure.
    pub fn of(&self, structure: &str) -> Option<MemoryCell> {
        let place = match structure {
            "othello" => 0,
            "cuckoo" => 1,
            "buffalo" => 2,
            "orthogonal" => 3,
            _ => return None,
        };
        Some(self.cells[place])
    }
}

const fn fib_memory(kind: Kind, names: u64, value_bits: u8, cells: [MemoryCell; 4]) -> FibMemory {
    FibMemory { kind, names, value_bits, cells }
}

/// Table II.
pub const TABLE_2: [FibMemory; 8] = [
    fib_memory(Kind::Mac, 700_000, 4, [cell(1.0, 2), cell(5.62, 2), cell(2.64, 8), cell(7.36, 15)]),
    fib_memory(Kind::Mac, 5_000_000, 8, [cell(16.0, 2), cell(40.15, 2), cell(27.70, 8), cell(112.06, 16)]),
    fib_memory(
        Kind::Mac,
        30_000_000,
        8,
        [cell(96.0, 2), doubtful(321.23, 2, "C2"), cell(166.23, 8), cell(672.34, 16)],
    ),
    fib_memory(
        Kind::Ipv4,
        1_000_000,
        4,
        [cell(1.5, 2), doubtful(4.27, 2, "C3"), cell(3.77, 8), cell(10.52, 15)],
    ),
    fib_memory(
        Kind::Ipv6,
        2_000_000,
        8,
        [doubtful(4.0, 2, "C1"), cell(34.13, 6), cell(11.08, 8), cell(44.82, 16)],
    ),
    fib_memory(Kind::Header, 300_000, 8, [cell(1.0, 2), cell(14.46, 6), cell(1.67, 8), cell(6.72, 16)]),
    fib_memory(
        Kind::Header,
        1_400_000,
        16,
        [cell(8.0, 2), cell(67.46, 6), doubtful(18.21, 1024, "C4, C11"), cell(66.60, 17)],
    ),
    fib_memory(
        Kind::File,
        359_194,
        4,
        [cell(0.5, 2), doubtful(19.32, 10, "C11"), cell(1.35, 8), doubtful(5.47, 15, "C4")],
    ),
];

/// A row of Table I: n names of L bits, w actions, t fields or filters.
#[derive(Debug, Clone, Copy)]
pub struct Formula {
    /// The paper's name.
    pub fib: &'static str,
    /// Our structure.
    pub structure: &'static str,
    /// Build time.
    pub build: &'static str,
    /// Memory.
    pub bits: &'static str,
    /// Query time.
    pub query: &'static str,
    /// Further remarks.
    pub note: &'static str,
    /// Bits per name by the formula, for names and actions of these bits, with t = 1 where the formula has t.
    pub bits_per_name: Option<fn(f64, f64) -> f64>,
}

/// Table I.
pub const TABLE_1: [Formula; 5] = [
    Formula {
        fib: "Concise",
        structure: "othello",
        build: "O(n)",
        bits: "at most 4·n·log w",
        query: "O(1)",
        note: "exactly 2 reads; the bound holds for option 2 (C8)",
        bits_per_name: Some(|_, value| 4.0 * value),
    },
    Formula {
        fib: "(2,4)-Cuckoo",
        structure: "cuckoo",
        build: "O(n)",
        bits: "about 1.1·n·(L + log w)",
        query: "O(1)",
        note: "at most 8 reads (C11)",
        bits_per_name: Some(|name, value| 1.1 * (name + value)),
    },
    Formula {
        fib: "SetSep",
        structure: "setsep",
        build: "O(n·log w)",
        bits: "(2 + 1.5·log w)·n",
        query: "O(log w)",
        note: "\"no method for updates\" (C15)",
        bits_per_name: Some(|_, value| 2.0 + 1.5 * value),
    },
    Formula {
        fib: "BUFFALO",
        structure: "buffalo",
        build: "O(n·t)",
        bits: "α·n",
        query: "O(t·w)",
        note: "may err",
        bits_per_name: None,
    },
    Formula {
        fib: "Tuple space",
        structure: "tuple-space",
        build: "O(n·(t + log w))",
        bits: "O(n·(t + log w))",
        query: "O(t)",
        note: "t fields",
        bits_per_name: None,
    },
];

/// Table III: bits of one update message by entropy. Names, bits per action, bits for an addition, bits for a
/// change of action.
pub const TABLE_3: [(u64, u8, f64, f64); 2] = [(300_000, 8, 75.2, 65.6), (1_400_000, 16, 107.2, 88.8)];

/// Figure 3, with four threads and generated names: the text's rate for a structure at this many names with
/// 256 actions.
pub fn lookups(structure: &str, names: u64, value_bits: u8) -> &'static str {
    match structure {
        "setsep" if names == 1_400_000 && value_bits == 8 => "211",
        "othello" if names == 1_400_000 && value_bits == 8 => "470",
        "othello" if names < 2_000_000 => "over 400",
        "othello" => "about 100",
        "cuckoo" => "20 to 50 % of Concise's",
        _ => PLOTTED,
    }
}

/// The same for Concise as a number, in million lookups per second.
pub const fn lookups_of_concise(names: u64) -> f64 {
    match names {
        1_400_000 => 470.0,
        0..2_000_000 => 400.0,
        _ => 100.0,
    }
}

/// Threads for [`lookups`].
pub const THREADS: usize = 4;

/// Nanoseconds for a lookup, and for generating the name, at a million names with four threads (footnotes of
/// Figure 3).
pub const LOOKUP_AND_NAME_NS: (f64, f64) = (4.5, 4.1);

/// Million names per second that registers generate (the paper contradicts itself: C10).
pub const NAMES_A_SECOND: f64 = 200.0;

/// Memory of `SetSep` at 1.4 M names and 256 actions (C6: decimal MB, but MiB for Concise).
pub const SETSEP_MB: f64 = 2.19;

/// Figure 7: million names built per second with query and control structure (four million names take a
/// second).
pub const BUILD: f64 = 4.0;

/// The same for `SetSep`: a million names take ten seconds.
pub const SETSEP_BUILD: f64 = 0.1;

/// Figure 8: million additions per second.
pub const UPDATES: f64 = 1.0;

/// Thousand changes of actions per second of `SetSep`, at most.
pub const SETSEP_UPDATES: &str = "under 0.01";

/// A reconstruction at a million names: probability per added name, and its duration in seconds.
pub const REBUILD: (f64, f64) = (1.3e-6, 0.2);

/// The same as text.
pub const RECONSTRUCTION: &str = "1.3 in a million additions, 0.2 s each, at 1 M names";

/// Figure 6: the delay of Concise at the trace's 210 Kpps and at a hundred times that rate.
pub const DELAY: &str = "under 1 µs";

/// Figure 6: the percentile up to which Concise's delay is below the cuckoo table's, at each rate.
pub const DELAY_CROSSINGS: [&str; 2] = ["up to the 90th percentile", "up to the 60th percentile"];

/// Figure 9: Concise's forwarding rate relative to a structure, with 64-bit names on one core.
pub fn forwarding(structure: &str, names: u64) -> &'static str {
    match structure {
        "cuckoo" if names < 2_000_000 => "2 times its rate, 10–20 % of its memory",
        "orthogonal" if names < 2_000_000 => "4 times its rate, 10–20 % of its memory",
        "cuckoo" | "orthogonal" | "binary-search" => "a higher rate, 10–20 % of its memory",
        _ => NOT_GIVEN,
    }
}

/// Figures 10 and 11: forwarding rates of Concise and the cuckoo table between four virtio ports, by frame
/// length.
pub fn links(structure: &str, octets: usize) -> &'static str {
    match (structure, octets) {
        ("othello", 64) => "over 1 Mpps",
        ("othello", _) => "over 1 Mpps, at least 12 Gb/s",
        ("cuckoo", _) => "60–80 % of Concise",
        _ => NOT_GIVEN,
    }
}

/// Concise needs at most this share of the cuckoo table's memory and is more than this many times as fast
/// (caption of Table I).
pub const OVER_CUCKOO: (f64, f64) = (0.40, 2.0);

/// Figure 5: what the text says about lookups during updates.
pub fn beside(names: u64) -> &'static str {
    if names == 4_000_000 { "\"negligible\"; plotted only" } else { "\"very small drop\"; plotted only" }
}

/// Figure 12: share of unknown names that pass, and the additional memory in MB at a million names.
pub const ALIENS: (f64, f64) = (1e-5, 2.0);

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of the paper's option 2.
    fn slots(names: u64) -> u64 {
        (names * 4).div_ceil(3).next_power_of_two() + names.next_power_of_two()
    }

    #[test]
    fn table_2_is_what_the_papers_own_rules_give_but_where_it_is_marked() {
        for row in TABLE_2 {
            let own = (slots(row.names) * u64::from(row.value_bits)) as f64 / 8.0 / f64::from(1 << 20);
            let cell = row.of("othello").unwrap();
            assert_eq!((own - cell.mib).abs() < 1e-9, cell.doubt.is_none(), "{row:?}: {own}");
            let orthogonal = row.of("orthogonal").unwrap();
            let bits = f64::from(row.value_bits) / std::f64::consts::LN_2
                * (f64::from(row.value_bits) / 1e-4).log2();
            let own = bits * row.names as f64 / 8.0 / f64::from(1 << 20);
            assert_eq!(
                (own / orthogonal.mib - 1.0).abs() < 0.02,
                orthogonal.doubt.is_none(),
                "{row:?}: {own}"
            );
        }
    }
}
