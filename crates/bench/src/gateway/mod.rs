//! One gateway node measured alone: its work by stage, the paper's Figures 8 to 10, and its competitors.
//!
//! | module | contents |
//! |---|---|
//! | [`flows`], [`traffic`] | flows from numbers, their packets, and checks of the packets that leave |
//! | [`packet_slab`], [`packet_ring`] | packet memory, and ports that rotate packets |
//! | [`tables`], [`chained`], [`read_only`] | several kinds of tables for a node |
//! | [`node_rig`] | a node between such ports, and the bare loops it is compared with |
//! | [`stages`] | nanoseconds per stage |
//! | [`joined_ports`], [`core_split`], [`rates`] | rates of whole nodes on one core and on two, joined by rings |
//! | [`conditions`] | keys per call, bits per value and memory pages of each table |
//! | [`cache_pressure`] | a thread that occupies half of the cache |
//! | [`cluster`], [`rfc2544`], [`latency`] | whole clusters: loss-free rates and latencies by load |

pub mod cache_pressure;
pub mod chained;
pub mod cluster;
pub mod conditions;
pub mod core_split;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod flows;
pub mod joined_ports;
pub mod latency;
pub mod node_rig;
pub mod packet_ring;
pub mod packet_slab;
pub mod rates;
pub mod read_only;
pub mod rfc2544;
pub mod stages;
pub mod tables;
pub mod traffic;

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::{figures, pin};
use joined_ports::PacketStore;
use packet_ring::{ROTATION, Ring};
use packet_slab::{Slab, SlabPacket};
use scalebricks_allocator::HugePages;
use scalebricks_types::ClusterSize;
#[cfg(feature = "dpdk")]
use stages::{BOTH, BOTH_UP, HANDLING, INGRESS};
use stages::{EXTERNAL, MEASURED, Plan};
use tables::{ExactTable, Placement, TableFactory, Tables};

/// Bytes per flow of all tables together, for two keys and the build.
const FLOW_BYTES: u64 = 480;

/// Measures one node for each number of flows.
///
/// # Errors
/// [`BenchError`], also for a lost or changed packet.
pub fn measure(bench: &mut BenchRun<'_>, flows: &[u64]) -> Result<(), BenchError> {
    let size = ClusterSize::new(flows::NODES).map_err(|error| BenchError::Usage(error.to_string()))?;
    for flows in flows {
        if !(flows::MIN_FLOWS..=flows::MAX_FLOWS).contains(flows) {
            let (least, most) = (flows::MIN_FLOWS, flows::MAX_FLOWS);
            return Err(BenchError::Usage(format!("gateway: {flows} flows are not in {least} to {most}")));
        }
    }
    #[cfg(feature = "dpdk")]
    dpdk::start(flows.iter().copied().max().unwrap_or(0))?;
    if cfg!(not(feature = "dpdk")) {
        bench.console.note("gateway: rte_hash, EFD and mbufs left out, not built in (--features dpdk)");
    }
    let ring = Ring::new(Slab::new(ROTATION).packets, stages::traffic(flows::MIN_FLOWS, EXTERNAL));
    let home = PacketStore::new(Slab::new(ROTATION).packets);
    let first = bench.rows().len();
    if pin::cores() < 2 {
        bench.console.note("gateway: core split left out, there is one core");
    }
    let mut huge = None;
    for &flows in flows {
        if bench.fits(flows, FLOW_BYTES)? {
            huge = one(bench, flows, size, &ring, &home)?.max(huge);
        }
    }
    latency::measure(bench, flows.iter().copied().max().unwrap_or(flows::MIN_FLOWS), size)?;
    conditions::add_table(bench, huge);
    figures::gateway::show(bench, first);
    Ok(())
}

/// Measures one number of flows. Returns the bytes on transparent huge pages while its tables existed.
fn one(
    bench: &mut BenchRun<'_>,
    flows: u64,
    size: ClusterSize,
    ring: &Ring<SlabPacket>,
    home: &PacketStore<SlabPacket>,
) -> Result<Option<u64>, BenchError> {
    let busy = bench.busy("making tables");
    let tables = all_tables(flows, size)?;
    drop(busy);
    stages::measure(bench, &Plan { flows, size, ring, tables: &tables, roles: &MEASURED, suffix: "" })?;
    #[cfg(feature = "dpdk")]
    with_mbufs(bench, flows, size, &tables)?;
    let plan = rates::Plan { flows, size, tables: &tables, home, spare: 0, suffix: "" };
    rates::measure(bench, &plan)?;
    // The cache pressure needs a core of its own; with two cores, one is left for the node.
    for spare_of in [2, 1].into_iter().filter(|&cores| cores < pin::cores()).take(1) {
        let bubble = cache_pressure::CachePressure::of_half(spare_of);
        rates::measure(bench, &rates::Plan { spare: 1, suffix: ", half the cache", ..plan })?;
        drop(bubble);
    }
    Ok(HugePages::held_bytes())
}

/// Repeats some measurements with DPDK's packets.
#[cfg(feature = "dpdk")]
fn with_mbufs(
    bench: &mut BenchRun<'_>,
    flows: u64,
    size: ClusterSize,
    tables: &[Tables],
) -> Result<(), BenchError> {
    let ring = Ring::new(dpdk::packets(ROTATION)?, stages::traffic(flows::MIN_FLOWS, EXTERNAL));
    let ours: Vec<Tables> =
        tables.iter().filter(|tables| tables.exact == ExactTable::Cuckoo).cloned().collect();
    let (roles, suffix) = (&[INGRESS, HANDLING, BOTH, BOTH_UP], ", mbufs");
    stages::measure(bench, &Plan { flows, size, ring: &ring, tables: &ours, roles, suffix })?;
    Ok(())
}

/// All available sets of tables.
fn all_tables(count: u64, size: ClusterSize) -> Result<Vec<Tables>, BenchError> {
    let mut maker = TableFactory::new(count, size, flows::HERE);
    let mut tables = Vec::new();
    for exact in ExactTable::built_in() {
        for spread in [Placement::FullDuplication, Placement::ScaleBricks] {
            tables.push(maker.tables(spread, exact)?);
        }
    }
    if cfg!(feature = "dpdk") {
        tables.push(maker.tables(Placement::Efd, ExactTable::RteHash)?);
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::row::Metric;
    use scalebricks_console::{Console, Interrupt};
    use std::collections::BTreeSet;

    /// The figures of a quick run are meaningless; the test checks that all are there and no packet was lost.
    #[test]
    fn a_run_measures_all_and_fills_every_place() {
        let (options, console, interrupt) = (
            Options { quick: true, runs: Some(1), ..Options::default() },
            Console::new(true),
            Interrupt::default(),
        );
        let mut bench = BenchRun::new("gateway", &options, &console, &interrupt);
        measure(&mut bench, &[1000]).unwrap();
        let (rows, exhibits) = bench.finish();
        let split: BTreeSet<String> = rows
            .iter()
            .filter(|row| row.metric == Metric::PacketRate && row.median > 0.0)
            .filter(|row| row.case.is_variant("core split"))
            .map(|row| row.case.structure.clone())
            .collect();
        let mut wanted = BTreeSet::new();
        if pin::cores() > 1 {
            wanted.insert("plain forwarding".to_owned());
            for exact in ExactTable::built_in() {
                wanted
                    .extend(["full-duplication", "scalebricks"].map(|way| format!("{way} {}", exact.name())));
            }
            if cfg!(feature = "dpdk") {
                wanted.insert("efd rte_hash".to_owned());
            }
        }
        assert_eq!(split, wanted);
        assert!(rows.iter().all(|row| row.median >= 0.0 && row.median.is_finite()));
        for row in rows.iter().filter(|row| row.case.structure.starts_with("efd")) {
            assert_eq!(row.case.value_bits, Some(8));
        }
        let names: Vec<&str> = exhibits.sheets.iter().map(|sheet| sheet.name.as_str()).collect();
        let places = [
            "gateway-terms",
            "gateway-stages",
            "figure-8",
            "figure-9",
            "gateway-headline",
            "figure-10-throughput",
            "figure-10",
        ];
        assert_eq!(names, places);
        let page = include_str!("../../../../docs/gateway-figures.md");
        for sheet in &exhibits.sheets {
            assert!(page.contains(&format!("<!-- begin {} -->", sheet.name)), "no place for {}", sheet.name);
            // The measurement with half of the cache needs a second core.
            assert!(!sheet.rows.is_empty() || sheet.name == "figure-9" && pin::cores() < 2, "{}", sheet.name);
        }
    }
}
