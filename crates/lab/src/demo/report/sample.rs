//! A small report for tests.

use super::result::{ArchitectureResult, Footprint, Machine, Report, Speed};

/// Two architectures, one of which dropped packets.
pub fn report() -> Report {
    let result = |name, mpps, gpt, fib, flows| ArchitectureResult {
        name,
        speed: Speed { mpps, mpps_min: mpps * 0.9, mpps_median: mpps, mpps_max: mpps * 1.1 },
        hops_mean: 0.75,
        hops_max: 1,
        footprint: Footprint { fabric_bytes: 1 << 30, gpt_bytes_per_node: gpt, fib_bytes_per_node: fib },
        capacity_flows: flows,
        packets_in: 1_000,
        packets_out: 1_000,
        dropped: std::collections::BTreeMap::new(),
        lost: 0,
        misdelivered: 0,
        fragments_made: 0,
        packets_fragmented: 0,
        icmp_sent: 0,
        capacity_formula_flows: 2 * flows,
        problems: Vec::new(),
    };
    let mut full = result("full-duplication", 2.0, 0, 64 << 20, 250_000);
    full.packets_out = 995;
    full.dropped.insert("no_buffer".to_owned(), 5);
    Report {
        nodes: 4,
        flows: 1_000_000,
        seed: 1,
        threads: 2,
        architectures: vec![full, result("scalebricks", 3.0, 1 << 20, 16 << 20, 820_000)],
        input: "synthetic".to_owned(),
        key: "flow5",
        flows_per_node: vec![250_000; 4],
        capacity_budget_bytes: 16 << 20,
        version: "0.0.0",
        commit: "0123456789ab".to_owned(),
        date: "2026-01-31".to_owned(),
        command: "scalebricks demo".to_owned(),
        machine: Machine { cpu: "A & B".to_owned(), cpu_family: Some(1), cpu_model: Some(2), cores: 2 },
    }
}
