//! Table 1: minimal forwarding by packets per poll (kp) and packets per transaction with a port (kn).
//!
//! kp is the `BURST` of the graph's devices. A network card transfers several descriptors in one transaction of PCI Express,
//! kn of them. Here a port of the ring takes a lock, and is called, once per kn packets; this costs far less. The
//! time of the ports is part of these figures.

use super::bed::{Bed, FORWARD};
use super::packets::{Lengths, RouterPackets};
use super::rig::{Contender, GraphForwarder, Measured, packets_per_run, ring_devices};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::gateway::packet_slab::NoBuffers;
use crate::rounds;
use crate::row::Metric;
use scalebricks_report::stats::Summary;
use std::sync::Arc;

/// Packets per poll.
pub(crate) const KP: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Packets per transaction.
pub(crate) const KN: [usize; 3] = [1, 16, 32];

/// A graph that forwards untouched with this burst.
fn text(by: &str, kp: usize) -> String {
    let (input, burst) = if by == "Click" { ("", format!(", BURST {kp}")) } else { ("[1] ", String::new()) };
    format!("FromDevice(eth1, BURST {kp}) -> {input}ToDevice(eth2{burst});\n")
}

/// Measures.
///
/// # Errors
/// [`BenchError`], also for a packet that is lost or wrong.
pub(super) fn run(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let lengths = Lengths::of(64);
    let ring = bed.ring(&lengths);
    let kind = Arc::new(RouterPackets::untouched(&bed.table, &lengths));
    let mut all = Vec::new();
    for by in ["Click", "fused"] {
        for (kp, kn) in KP.into_iter().flat_map(|kp| KN.map(|kn| (kp, kn))) {
            let devices = ring_devices(&ring, kn);
            let graph = GraphForwarder::new(FORWARD, &text(by, kp), devices, &[], Box::new(NoBuffers))?;
            let mut contender = Contender::new([FORWARD, by], graph, &kind, &ring).per_call(kn);
            contender.judge()?;
            let case = bench.case("batching", bed.routes()).format(by).variant(format!("kn {kn}"));
            let packets = packets_per_run(&mut contender, bench.options.quick)?;
            all.push((contender, case.batch(kp).threads(1), packets, Vec::new()));
        }
    }
    let runs = bench.options.runs();
    let bar = bench.progress(runs * all.len());
    for _ in 0..runs {
        for (contender, _, packets, rates) in &mut all {
            rates.push(rounds::retry_rejected(bench, || Ok(1e9 / contender.measure(*packets)?))?);
            bar.add(1);
        }
    }
    bar.finish();
    for (_, case, _, rates) in all {
        bench.add(case, Metric::PacketRate, Summary::of(&rates));
    }
    Ok(())
}
