//! One colour per structure, in every figure.

use plotters::prelude::RGBColor;
use scalebricks_report::picture::OURS;

/// Names of structures in the names of series, and their colours. Forms of one structure have shades of its colour.
const STRUCTURES: [(&str, RGBColor); 25] = [
    ("setsep", OURS),
    ("linear", OURS),
    ("scalebricks", OURS),
    ("dense", RGBColor(0x4f, 0xb0, 0xd8)),
    ("brute", RGBColor(0x12, 0x3f, 0x6b)),
    ("paper", RGBColor(0x8a, 0x63, 0xb3)),
    ("othello", RGBColor(0xc2, 0x57, 0x1a)),
    ("cuckoo", RGBColor(0x3b, 0x8b, 0x5b)),
    ("dhash", RGBColor(0x0f, 0x9d, 0x8a)),
    ("full-copy", RGBColor(0x6b, 0x72, 0x79)),
    ("full copies", RGBColor(0x6b, 0x72, 0x79)),
    ("full-duplication", RGBColor(0x6b, 0x72, 0x79)),
    ("hash-partition", RGBColor(0xb5, 0x86, 0x0b)),
    ("hash partitioning", RGBColor(0xb5, 0x86, 0x0b)),
    ("vlb", RGBColor(0xa8, 0x32, 0x44)),
    ("chained", RGBColor(0xd0, 0x7a, 0x63)),
    ("rte_hash", RGBColor(0x4c, 0x4f, 0x8f)),
    ("efd", RGBColor(0x7f, 0x8c, 0x1f)),
    ("hashbrown", RGBColor(0x9e, 0x4b, 0x6c)),
    ("buffalo", RGBColor(0x5a, 0x7d, 0x2a)),
    ("orthogonal", RGBColor(0xc0, 0x7f, 0xa8)),
    ("binary-search", RGBColor(0x8c, 0x6d, 0x4f)),
    ("flat switch", RGBColor(0x1f, 0x5f, 0xa8)),
    ("click", RGBColor(0xd0, 0x8a, 0x14)),
    ("fused", RGBColor(0x1f, 0x5f, 0xa8)),
];

/// Colours of series that name no structure.
const OTHERS: [RGBColor; 8] = [
    RGBColor(0x22, 0x26, 0x2b),
    RGBColor(0xc4, 0x4e, 0x52),
    RGBColor(0x55, 0x8b, 0x2f),
    RGBColor(0x7b, 0x52, 0xab),
    RGBColor(0xa0, 0x7a, 0x1f),
    RGBColor(0x9c, 0x3d, 0x6e),
    RGBColor(0x3f, 0x5c, 0x9a),
    RGBColor(0x6b, 0x72, 0x79),
];

/// The colour of a series: that of the structure that its name begins with or mentions first, or else that of its index.
pub(super) fn colour_of(name: &str, index: usize) -> RGBColor {
    let name = name.to_lowercase();
    // Of "SetSep dense", the form counts.
    let name = name.strip_prefix("setsep ").unwrap_or(&name);
    let first = STRUCTURES.iter().filter_map(|(structure, colour)| Some((name.find(structure)?, colour)));
    first.min_by_key(|&(at, _)| at).map_or(OTHERS[index % OTHERS.len()], |(_, &colour)| colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_has_its_colour_whatever_is_said_of_it() {
        assert_eq!(colour_of("othello, 16 nodes", 0), colour_of("Othello", 5));
        assert_eq!(colour_of("scalebricks cuckoo", 3), OURS, "the first name counts");
        assert_eq!(colour_of("SetSep dense", 0), colour_of("dense, here", 0));
        assert_ne!(colour_of("cuckoo", 0), OURS);
        assert_ne!(colour_of("formula", 0), colour_of("formula", 1));
    }

    #[test]
    fn no_two_structures_that_meet_in_a_figure_share_a_colour() {
        for together in [
            &["linear", "dense", "brute", "paper", "othello", "full copies", "hash partitioning"][..],
            &["setsep", "othello", "cuckoo", "buffalo", "orthogonal", "binary-search", "flat switch"],
            &["dhash", "chained", "cuckoo", "hashbrown", "rte_hash"],
            &["scalebricks", "full-duplication", "hash-partition", "vlb", "efd", "rte_hash", "chained"],
            &["click", "fused"],
        ] {
            for (at, name) in together.iter().enumerate() {
                let same = together[..at].iter().find(|other| colour_of(other, 0) == colour_of(name, 0));
                assert_eq!(same, None, "{name}");
            }
        }
    }
}
