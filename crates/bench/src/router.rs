//! RouteBricks' experiments with our routers (SOSP 2009, sections 4 to 6): one server and a cluster, with packets from
//! memory, beside DPDK in the same run.
//!
//! | module | contents |
//! |---|---|
//! | `table`, `packets` | the table of routes, packets to its destinations, and checks of those that leave |
//! | `rig`, `bed` | routers between the ports of a ring, judged and measured in turns |
//! | `workloads` over `ipsec`, `peers` | Figure 8: forwarding, routing and tunnels by frame length, beside l3fwd |
//! | `null_ports` | minimal forwarding beside testpmd, between DPDK's devices |
//! | `batching` | Table 1: packets per poll and per transaction |
//! | `open_loop`, `latency` | latency and processor time by load; a timeout for incomplete batches |
//! | `nodes` over `circulation` | RB4: four nodes beside one server |
//! | `bounds` over `count` | Tables 2 and 3: clock, memory, empty polls, instructions |
//! | `cores` | Figures 6 and 7: two cores, queues of their own and shared ones |
//!
//! The ports are generator and sink, inline ([`packet_ring`](crate::gateway::packet_ring)); their cost is measured in the
//! same round and subtracted where the rows say so. Packets arrive at port 1, and go to 65,536 addresses in rotation, in
//! random prefixes of a full table, so that they leave by the other three ports.

mod batching;
mod bed;
mod bounds;
mod circulation;
mod cores;
mod count;
mod ipsec;
mod latency;
mod nodes;
#[cfg(feature = "dpdk")]
mod null_ports;
mod open_loop;
mod packets;
#[cfg(feature = "dpdk")]
mod peers;
mod rig;
mod table;
mod workloads;

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::figures;
use crate::options::named;
use bed::Bed;
pub use count::count;

// Names of rows, for the figures.
pub(crate) use batching::{KN, KP};
pub(crate) use bounds::{CLOCK, STREAMS};
pub(crate) use cores::{BATCHES, FIGURE_6, UNTOUCHED};
pub(crate) use latency::{LOADS, OPEN_LOOP};
pub(crate) use nodes::{BESIDE, CLUSTER};
pub(crate) use workloads::{FRAMES, MBUFS};

/// The packets and the name of testpmd in results.
pub(crate) const NULL_PORTS: &str = "64 bytes, net_null";
pub(crate) const TESTPMD: &str = "testpmd, io";

/// The function of a part.
type Run = fn(&mut BenchRun<'_>, &Bed) -> Result<(), BenchError>;

/// The parts, which can run alone, in the order in which they run: the name on the command line, and the function.
const PARTS: &[(&str, Run)] = &[
    ("figure-8", workloads::run),
    #[cfg(feature = "dpdk")]
    ("testpmd", null_ports::run),
    ("table-1", batching::run),
    ("figure-6", cores::figure_6),
    ("figure-7", cores::figure_7),
    ("latency", latency::by_load),
    ("timeout", latency::timeouts),
    ("nodes", nodes::run),
    ("table-3", bounds::run),
];

/// The name of a part on the command line.
///
/// # Errors
/// A message with the valid names.
pub fn part(name: &str) -> Result<&'static str, String> {
    named(PARTS.iter().map(|(name, _)| *name), |name| name)(if name == "table-2" { "table-3" } else { name })
}

/// Measures the requested parts.
///
/// # Errors
/// [`BenchError`], also for a packet that is lost or wrong.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    #[cfg(feature = "dpdk")]
    crate::gateway::dpdk::start(0)?;
    let busy = bench.busy("making tables");
    let bed = Bed::new(bench)?;
    drop(busy);
    let first = bench.rows().len();
    let wanted = &bench.options.parts;
    for &(name, run) in PARTS {
        if wanted.as_ref().is_none_or(|parts| parts.contains(&name)) {
            bench.check()?;
            bench.console.note(&format!("router: {name}"));
            run(bench, &bed)?;
        }
    }
    figures::router::show(bench, first);
    Ok(())
}
