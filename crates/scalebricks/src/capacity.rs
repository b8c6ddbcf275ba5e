//! How many flows fit in the memory of a cluster: measured by filling the real tables, and by the paper's formula.

use crate::demo::config::{CAPACITY_BUDGET_BYTES, DemoConfig};
use crate::report::result::FlowCapacity;
use scalebricks_dataplane::Architecture;
use scalebricks_dataplane::table_set::{self, TableSetError};
use scalebricks_types::ClusterSize;

/// Bits of a FIB entry in the paper's formula (ScaleBricks §4.5).
const ENTRY_BITS: f64 = 64.0;

/// Fills the tables of one architecture until a node's 16 MiB are used. Takes a second or so.
///
/// # Errors
/// [`TableSetError`] if the tables could not be made at all.
pub fn measure(config: &DemoConfig, architecture: Architecture) -> Result<FlowCapacity, TableSetError> {
    let filled = table_set::capacity(architecture, config.size, CAPACITY_BUDGET_BYTES, config.hash_seed())?;
    Ok(FlowCapacity { measured: filled.flows, formula: by_formula(architecture, config.size, CAPACITY_BUDGET_BYTES) })
}

/// Flows of 64-bit entries that fit in `bytes_per_node`: M/64 for a full copy, M·n/64 for a partition, and
/// M·n/(64 + (0.5 + 1.5·log2 n)·n) for `ScaleBricks`, whose every node holds a few bits of every flow.
pub fn by_formula(architecture: Architecture, size: ClusterSize, bytes_per_node: usize) -> u64 {
    let bits = bytes_per_node as f64 * 8.0;
    let nodes = size.get() as f64;
    let flows = match architecture {
        Architecture::FullDuplication | Architecture::Vlb => bits / ENTRY_BITS,
        Architecture::HashPartition => bits * nodes / ENTRY_BITS,
        Architecture::ScaleBricks => bits * nodes / (ENTRY_BITS + (0.5 + 1.5 * nodes.log2()) * nodes),
    };
    flows as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_gives_the_paper_s_ratios() {
        let ratio = |nodes| {
            let size = ClusterSize::new(nodes).unwrap();
            let flows = |architecture| by_formula(architecture, size, CAPACITY_BUDGET_BYTES) as f64;
            flows(Architecture::ScaleBricks) / flows(Architecture::FullDuplication)
        };
        for (nodes, want) in [(4, 3.28), (8, 4.92), (16, 6.10), (32, 6.40)] {
            assert!((ratio(nodes) - want).abs() < 0.01, "{nodes} nodes: {}", ratio(nodes));
        }
        let four = ClusterSize::new(4).unwrap();
        assert_eq!(by_formula(Architecture::HashPartition, four, 16 << 20), 4 * (2 << 20));
        assert_eq!(by_formula(Architecture::Vlb, four, 16 << 20), 2 << 20);
    }
}
