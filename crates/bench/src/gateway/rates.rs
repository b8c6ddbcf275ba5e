//! Rates of whole nodes with all sets of tables, and `ScaleBricks` compared with full duplication.

use super::core_split::{Cores, Target, judge, rate};
use super::joined_ports::{PacketStore, TrafficMix};
use super::packet_slab::SlabPacket;
use super::stages::{EXTERNAL, HANDLING, traffic};
use super::tables::{ExactTable, Placement, Tables};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::row::Metric;
use scalebricks_report::stats::Summary;
use scalebricks_types::ClusterSize;

/// What is measured together.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// Flows of the cluster.
    pub flows: u64,
    /// Cluster size.
    pub size: ClusterSize,
    /// All sets of tables.
    pub tables: &'a [Tables],
    /// The packets.
    pub home: &'a PacketStore<SlabPacket>,
    /// Cores that are busy with something else.
    pub spare: usize,
    /// Suffix of the variants.
    pub suffix: &'a str,
}

/// The rates of a node or of plain forwarding, by run.
struct NodeRates<'a> {
    what: Target<'a>,
    cores: Cores,
    rates: Vec<f64>,
}

/// Interleaves nodes with all tables, on each supported number of cores, and adds a row for each.
///
/// # Errors
/// [`BenchError`], also for a lost or changed packet.
pub fn measure(bench: &mut BenchRun<'_>, plan: &Plan<'_>) -> Result<(), BenchError> {
    let packets = bench.options.pick(1 << 16, 1 << 21);
    let kinds = TrafficMix { outside: traffic(plan.flows, EXTERNAL), fabric: traffic(plan.flows, HANDLING) };
    let mut found = Vec::new();
    for cores in Cores::there(plan.spare) {
        let nodes = plan.tables.iter().map(|tables| Target::Node(tables, plan.size));
        for what in nodes.chain([Target::Plain]) {
            if matches!(what, Target::Node(..)) {
                judge(what, cores, &kinds, plan.home)?;
            }
            found.push(NodeRates { what, cores, rates: Vec::new() });
        }
    }
    let runs = bench.options.runs();
    let bar = bench.progress(runs * found.len());
    for _ in 0..runs {
        for found in &mut found {
            bench.check()?;
            found.rates.push(rate(found.what, found.cores, &kinds, plan.home, packets)?);
            bar.add(1);
        }
    }
    bar.finish();
    for found in &found {
        let case = bench
            .case(&found.what.name(), plan.flows)
            .variant(format!("{}{}", found.cores.name(), plan.suffix))
            .threads(found.cores.threads());
        let case = match found.what {
            Target::Node(tables, _) => tables.describe(case),
            Target::Plain => case,
        };
        bench.add(case, Metric::PacketRate, Summary::of(&found.rates));
    }
    for exact in ExactTable::built_in() {
        compare(bench, &found, exact, plan);
    }
    Ok(())
}

/// Compares `ScaleBricks` with full duplication for the same exact table: in total; through its smaller
/// tables alone, with one core for everything; and through the second core.
fn compare(bench: &mut BenchRun<'_>, found: &[NodeRates<'_>], exact: ExactTable, plan: &Plan<'_>) {
    let rates = |spread: Placement, cores: Cores| {
        let is = |found: &&NodeRates<'_>| match found.what {
            Target::Node(tables, _) => {
                tables.spread == spread && tables.exact == exact && found.cores == cores
            }
            Target::Plain => false,
        };
        found.iter().find(is).map(|found| &found.rates[..])
    };
    let gain = |cores| {
        let (ours, full) = (rates(Placement::ScaleBricks, cores)?, rates(Placement::FullDuplication, cores)?);
        Some(ours.iter().zip(full).map(|(ours, full)| ours / full).collect::<Vec<f64>>())
    };
    let (all, tables) = (gain(Cores::Two), gain(Cores::One));
    let core = all.iter().flatten().zip(tables.iter().flatten()).map(|(all, tables)| all / tables);
    let core: Vec<f64> = core.collect();
    for (variant, figures) in [
        ("core split, over full duplication", all),
        ("of it by smaller tables", tables),
        ("of it by the idle core", (!core.is_empty()).then_some(core)),
    ] {
        let Some(figures) = figures else { continue };
        let case = bench
            .case(&format!("scalebricks {}", exact.name()), plan.flows)
            .variant(format!("{variant}{}", plan.suffix));
        bench.add(case, Metric::Ratio, Summary::of(&figures));
    }
}
