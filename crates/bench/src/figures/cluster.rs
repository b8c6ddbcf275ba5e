//! Flows that fit in a cluster's memory, in closed form (§6.3), with one key per flow and equal nodes.
//!
//! Each of `n` nodes handles `F/n` of `F` flows, with entries of `E` bits. Full copies take `F·E` bits per
//! node. Hash partitioning takes `F/n·E`. ScaleBricks takes `F/n·E`, plus `F·G` for a table that maps every
//! flow to its node in `G` bits. With `M` bits per node, `M/E`, `M·n/E` and `M·n/(E + G·n)` flows fit.

use super::paper;
use scalebricks_types::ClusterSize;

/// Flows of full copies in `memory_bits` bits per node.
pub fn full_copy(memory_bits: f64, entry_bits: f64) -> f64 {
    memory_bits / entry_bits
}

/// Flows of hash partitioning, counting entries only: the hash determines the node of a key.
pub fn hash_partition(memory_bits: f64, entry_bits: f64, nodes: usize) -> f64 {
    memory_bits * nodes as f64 / entry_bits
}

/// Flows of ScaleBricks if its table takes `gpt_bits` bits per key.
pub fn scalebricks(memory_bits: f64, entry_bits: f64, gpt_bits: f64, nodes: usize) -> f64 {
    let nodes = nodes as f64;
    memory_bits * nodes / (entry_bits + gpt_bits * nodes)
}

/// Bits per key of the paper's table for this many nodes: 0.5 + 1.5·log2 n.
pub fn ideal_gpt_bits(nodes: usize) -> f64 {
    0.5 + 1.5 * (nodes as f64).log2()
}

/// The same with whole value bits, as real tables have; no value bits for one node.
pub fn whole_gpt_bits(nodes: usize) -> f64 {
    paper::bits_per_key(if nodes > 1 { value_bits(nodes) } else { 0 })
}

/// Value bits needed to number this many nodes.
pub fn value_bits(nodes: usize) -> u8 {
    ClusterSize::new(nodes).map_or(u8::BITS as u8, ClusterSize::value_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(got: f64, want: f64) {
        assert!((got - want).abs() < 0.006, "{got} is not {want}");
    }

    fn gain(nodes: usize, gpt_bits: f64) -> f64 {
        scalebricks(1e9, 64.0, gpt_bits, nodes) / full_copy(1e9, 64.0)
    }

    #[test]
    fn the_gains_are_the_known_ones() {
        for (nodes, want) in [(4, 3.28), (8, 4.92), (16, 6.10), (30, 6.40), (32, 6.40)] {
            near(gain(nodes, ideal_gpt_bits(nodes)), want);
        }
        near(gain(33, whole_gpt_bits(33)), 5.59);
        near(hash_partition(1e9, 64.0, 8) / full_copy(1e9, 64.0), 8.0);
    }

    #[test]
    fn thirty_nodes_are_best_by_the_formula() {
        let of = |nodes: &usize| gain(*nodes, ideal_gpt_bits(*nodes));
        let best = (1..=64_usize).max_by(|a, b| of(a).total_cmp(&of(b))).unwrap();
        assert!((29..=30).contains(&best), "{best}");
    }

    #[test]
    fn bits_of_whole_values() {
        near(whole_gpt_bits(4), 3.5);
        near(whole_gpt_bits(5), 5.0);
        near(whole_gpt_bits(64), 9.5);
        near(whole_gpt_bits(1), 0.5);
    }
}
