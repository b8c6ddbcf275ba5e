//! One gateway node, measured alone: its work by stage, the paper's Figures 8 to 10, and what it is compared with.
//!
//! | module | what it holds |
//! |---|---|
//! | [`flows`], [`traffic`] | flows from numbers, and their packets, with the judging of what becomes of them |
//! | [`slab`], [`ring`] | packet memory, and ports that give out and take back packets in rotation |
//! | [`tables`], [`chained`] | the tables of a node in several makes |
//! | [`rig`] | a node between such ports, and the loops it is measured against |
//! | [`stages`], [`split`] | nanoseconds by stage, and what follows for nodes of one core and of two |
//! | [`bubble`] | a thread that takes half of the cache |
//! | [`latency`] | how long packets take through clusters of all architectures, by load |

pub mod bubble;
pub mod chained;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod flows;
pub mod latency;
pub mod rig;
pub mod ring;
pub mod slab;
pub mod split;
pub mod stages;
pub mod tables;
pub mod traffic;

use crate::error::BenchError;
use crate::session::Session;
use crate::{figures, pin};
use ring::{ROTATION, Ring};
use scalebricks_types::ClusterSize;
use slab::{Slab, SlabPacket};
#[cfg(feature = "dpdk")]
use stages::{BOTH, BOTH_UP};
use stages::{EXTERNAL, HANDLING, INGRESS, Plan, ROLES};
use tables::{Exact, Spread, TableMaker, Tables};

/// Bytes a flow of all tables there are at once, both keys counted, and of making them.
const FLOW_BYTES: u64 = 480;

/// Measures one node, for each number of flows.
///
/// # Errors
/// [`BenchError`]; a packet that was lost or changed is one.
pub fn measure(session: &mut Session<'_>, flows: &[u64]) -> Result<(), BenchError> {
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
        session.console().note("gateway: rte_hash, EFD and mbufs left out, not built in (--features dpdk)");
    }
    let ring = Ring::new(Slab::new(ROTATION).packets, &stages::traffic(flows::MIN_FLOWS, EXTERNAL));
    let first = session.rows().len();
    for &flows in flows {
        if session.fits(flows, FLOW_BYTES)? {
            one(session, flows, size, &ring)?;
        }
    }
    latency::measure(session, flows.iter().copied().max().unwrap_or(flows::MIN_FLOWS), size)?;
    figures::gateway::show(session, first);
    Ok(())
}

/// One number of flows.
fn one(
    session: &mut Session<'_>,
    flows: u64,
    size: ClusterSize,
    ring: &Ring<SlabPacket>,
) -> Result<(), BenchError> {
    let busy = session.busy("making tables");
    let tables = all_tables(flows, size)?;
    drop(busy);
    let plan = |roles, suffix| Plan { flows, size, ring, tables: &tables, roles, suffix };
    let found = stages::measure(session, &plan(&ROLES, ""))?;
    split::tell(session, &found, flows, "");
    #[cfg(feature = "dpdk")]
    with_mbufs(session, flows, size, &tables)?;
    if pin::cores() > 1 {
        let suffix = ", half the cache";
        let bubble = bubble::Bubble::of_half();
        let found = stages::measure(session, &plan(&[INGRESS, HANDLING, EXTERNAL], suffix))?;
        drop(bubble);
        split::tell(session, &found, flows, suffix);
    }
    Ok(())
}

/// Some of it with DPDK's packets.
#[cfg(feature = "dpdk")]
fn with_mbufs(
    session: &mut Session<'_>,
    flows: u64,
    size: ClusterSize,
    tables: &[Tables],
) -> Result<(), BenchError> {
    let ring = Ring::new(dpdk::packets(ROTATION)?, &stages::traffic(flows::MIN_FLOWS, EXTERNAL));
    let ours: Vec<Tables> = tables.iter().filter(|tables| tables.exact == Exact::Cuckoo).cloned().collect();
    let (roles, suffix) = (&[INGRESS, HANDLING, BOTH, BOTH_UP], ", mbufs");
    stages::measure(session, &Plan { flows, size, ring: &ring, tables: &ours, roles, suffix })?;
    Ok(())
}

/// All sets of tables that are built in.
fn all_tables(flows: u64, size: ClusterSize) -> Result<Vec<Tables>, BenchError> {
    let mut maker = TableMaker::new(flows, size);
    let mut tables = Vec::new();
    for exact in Exact::built_in() {
        for spread in [Spread::FullDuplication, Spread::ScaleBricks] {
            tables.push(maker.tables(spread, exact)?);
        }
    }
    if cfg!(feature = "dpdk") {
        tables.push(maker.tables(Spread::Efd, Exact::RteHash)?);
    }
    Ok(tables)
}
