//! How many flows a cluster holds in a given memory per node: measured by filling the real tables, not by a formula.
//!
//! A flow has two keys, one per direction, in each table that holds it, and each key takes 32 bytes in a FIB (16 of
//! key, 16 of state; more for IPv6 five-tuples, which are not counted here). Flows are spread evenly over the nodes.

use super::{FlowTablesError, Layout};
use crate::gateway::architecture::Architecture;
use scalebricks_tables::compact::{Control, Table};
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::{Fib, FibError};
use scalebricks_types::{ClusterSize, FlowKey, KeyHash, KeyHasher, NodeId, Teid};

/// The measured capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Flows in the whole cluster.
    pub flows: u64,
    /// Bytes per node of the table that names nodes, beyond the FIB, when full.
    pub gpt_bytes: usize,
    /// Bytes of FIB per node when full.
    pub fib_bytes: usize,
}

/// Keys of a flow in each table that holds it.
const KEYS_PER_FLOW: u64 = 2;

/// Fills the tables of one node of a cluster within `budget_bytes`.
///
/// # Errors
/// [`FlowTablesError`] if the GPT could not be built at all.
pub fn capacity(layout: &Layout, budget_bytes: usize) -> Result<Capacity, FlowTablesError> {
    let hasher = KeyHasher::new(layout.seed);
    let nodes = layout.size.get() as u64;
    match layout.architecture {
        Architecture::FullDuplication | Architecture::Vlb => {
            let (keys, fib_bytes) = fill(hasher, budget_bytes);
            Ok(Capacity { flows: keys / KEYS_PER_FLOW, gpt_bytes: 0, fib_bytes })
        }
        Architecture::HashPartition => {
            // 1/n of all locations and 1/n of all flows: two tables of one size.
            let (keys, bytes) = fill(hasher, budget_bytes / 2);
            Ok(Capacity { flows: keys * nodes / KEYS_PER_FLOW, gpt_bytes: bytes, fib_bytes: bytes })
        }
        Architecture::ScaleBricks => scalebricks(hasher, layout, budget_bytes),
    }
}

/// The capacity by the paper's own counting (§6.3): entries of 64 bits, one key per flow, 0.5 + 1.5·log2 n bits of GPT.
/// The paper derives it for ScaleBricks; the others follow from the same counting.
pub fn capacity_by_formula(architecture: Architecture, size: ClusterSize, budget_bytes: usize) -> f64 {
    let (bits, n) = (budget_bytes as f64 * 8.0, size.get() as f64);
    match architecture {
        Architecture::FullDuplication | Architecture::Vlb => bits / 64.0,
        Architecture::HashPartition => bits * n / 64.0,
        Architecture::ScaleBricks => bits * n / (64.0 + (0.5 + 1.5 * n.log2()) * n),
    }
}

/// Distinct keys of the most common kind.
fn key(n: u64) -> FlowKey {
    FlowKey::teid(Teid::new(n as u32)) // below 2^32: a budget for more would be hundreds of gigabytes
}

/// Fills a FIB made for a budget until it refuses; returns its keys and bytes.
fn fill(hasher: KeyHasher, budget_bytes: usize) -> (u64, usize) {
    let fib = PartialFib::new(FibConfig::new(hasher).short_keys_within(budget_bytes));
    let mut keys = 0;
    while insert(&fib, hasher, keys).is_ok() {
        keys += 1;
    }
    (keys, fib.table_bytes())
}

fn insert(fib: &PartialFib, hasher: KeyHasher, n: u64) -> Result<(), FibError> {
    let key = key(n);
    fib.insert(&key, hasher.hash(&key), [n, n])
}

/// The most flows for which the GPT of all flows and the FIB of one node's share fit together.
fn scalebricks(hasher: KeyHasher, layout: &Layout, budget_bytes: usize) -> Result<Capacity, FlowTablesError> {
    let nodes = layout.size.get() as u64;
    // The FIB's share beside a GPT for this many flows: sizes only, nothing is filled yet.
    let fits = |flows: u64| -> Result<bool, FlowTablesError> {
        let gpt = Table::new(layout.gpt_params(flows * KEYS_PER_FLOW)?);
        let Some(rest) = budget_bytes.checked_sub(gpt.table_bytes()) else { return Ok(false) };
        let share = flows.div_ceil(nodes) * KEYS_PER_FLOW;
        Ok(slots_for(share)
            <= PartialFib::new(FibConfig::new(hasher).short_keys_within(rest)).short_slots() as u64)
    };
    let (mut low, mut high) = (0, budget_bytes as u64 * 8); // one bit per flow is out of reach
    while low + 1 < high {
        let middle = low.midpoint(high);
        if fits(middle)? { low = middle } else { high = middle }
    }
    // Now with real tables; if one holds less than its size promises, retry with slightly fewer flows.
    let mut flows = low;
    loop {
        let keys: Vec<(KeyHash, u8)> = (0..flows * KEYS_PER_FLOW)
            .map(|n| (hasher.hash(&key(n)), NodeId::new((n / KEYS_PER_FLOW % nodes) as u8).get()))
            .collect();
        let gpt = Control::build(layout.gpt_params(keys.len() as u64)?, &keys)?.export();
        let gpt_bytes = gpt.table_bytes();
        let rest = budget_bytes.saturating_sub(gpt_bytes);
        let fib = PartialFib::new(FibConfig::new(hasher).short_keys_within(rest));
        let share = flows.div_ceil(nodes) * KEYS_PER_FLOW;
        if gpt_bytes <= budget_bytes && (0..share).all(|n| insert(&fib, hasher, n).is_ok()) {
            return Ok(Capacity { flows, gpt_bytes, fib_bytes: fib.table_bytes() });
        }
        flows -= (flows / 200).max(1).min(flows);
    }
}

/// Slots that hold this many keys at the load a cuckoo table reaches, 95 %.
const fn slots_for(keys: u64) -> u64 {
    (keys * 100).div_ceil(95)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_tables::compact::Structure;
    use scalebricks_types::HashSeed;

    const BUDGET_BYTES: usize = 1 << 20;

    fn of(nodes: usize, architecture: Architecture, gpt: Structure) -> Capacity {
        let size = ClusterSize::new(nodes).unwrap();
        capacity(&Layout { size, architecture, gpt, seed: HashSeed::new(1, 2) }, BUDGET_BYTES).unwrap()
    }

    fn at(nodes: usize, architecture: Architecture) -> Capacity {
        of(nodes, architecture, Structure::SetSep)
    }

    #[test]
    fn tables_stay_within_their_budget_and_scalebricks_grows_with_the_nodes() {
        let full = at(4, Architecture::FullDuplication);
        for (nodes, architecture) in [
            (4, Architecture::FullDuplication),
            (4, Architecture::HashPartition),
            (2, Architecture::ScaleBricks),
            (4, Architecture::ScaleBricks),
            (16, Architecture::ScaleBricks),
        ] {
            let capacity = at(nodes, architecture);
            assert!(capacity.gpt_bytes + capacity.fib_bytes <= BUDGET_BYTES, "{architecture}: {capacity:?}");
            assert!(
                capacity.gpt_bytes + capacity.fib_bytes > BUDGET_BYTES * 9 / 10,
                "{architecture}: {capacity:?}"
            );
        }
        // 2 x 32 bytes at 95 %: a megabyte holds about 15,500 flows.
        assert!((14_000..16_400).contains(&full.flows), "{full:?}");
        let ratio = |nodes| at(nodes, Architecture::ScaleBricks).flows as f64 / full.flows as f64;
        assert!(ratio(4) > 3.0 && ratio(4) < 4.0, "{}", ratio(4));
        assert!(ratio(16) > ratio(4));
        let othello = of(16, Architecture::ScaleBricks, Structure::Othello);
        assert!(othello.gpt_bytes + othello.fib_bytes <= BUDGET_BYTES, "{othello:?}");
        assert!(
            othello.flows > full.flows && othello.flows < at(16, Architecture::ScaleBricks).flows,
            "{othello:?}"
        );
    }

    #[test]
    fn the_formula_gives_the_papers_ratios() {
        let ratio = |nodes| {
            let size = ClusterSize::new(nodes).unwrap();
            capacity_by_formula(Architecture::ScaleBricks, size, BUDGET_BYTES)
                / capacity_by_formula(Architecture::FullDuplication, size, BUDGET_BYTES)
        };
        for (nodes, want) in [(4, 3.28), (8, 4.92), (16, 6.10), (32, 6.40)] {
            assert!((ratio(nodes) - want).abs() < 0.01, "{nodes} nodes: {}", ratio(nodes));
        }
    }
}
