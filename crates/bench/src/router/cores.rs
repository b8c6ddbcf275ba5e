//! Figures 6 and 7: two cores in parallel or as a pipeline, with queues of their own or shared ones.
//!
//! A queue is a ring in memory. Its sending end makes a new packet of each, so that packets circulate. A core is a pinned
//! thread that runs a graph of minimal forwarding. Queues that two cores use have a lock at the shared end. The time of the
//! queues is part of all figures.

use super::bed::Bed;
use super::packets::{Lengths, RouterPackets};
use super::rig::{GraphForwarder, NOW};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, joined};
use crate::gateway::packet_ring::PacketKind;
use crate::gateway::packet_slab::{NoBuffers, Slab, SlabPacket};
use crate::pin;
use crate::row::Metric;
use crate::timing::Clock;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_graph::Clock as GraphClock;
use scalebricks_io::{BURST, Burst, MemoryPort, PacketBuf, RxPort, TxPort, memory_port_pair};
use scalebricks_report::stats::Summary;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Duration;

/// Packets of a queue that circulate: more than the first-level cache holds.
const PACKETS: usize = 2048;
/// Bytes of a frame without its FCS.
const FRAME: usize = 60;
/// Turns between two looks at the clock.
const TURNS: usize = 64;

/// A port over an end of a queue.
struct QueuePort {
    end: PortEnd,
    /// Packets per transaction.
    kn: usize,
    /// Makes new packets of those that are sent; `None` between two cores of a pipeline.
    kind: Option<Arc<RouterPackets>>,
    number: usize,
}

/// An end of a queue, of one core or of two.
enum PortEnd {
    Own(MemoryPort<SlabPacket>),
    Shared(Arc<Mutex<MemoryPort<SlabPacket>>>),
}

impl PortEnd {
    /// One transaction.
    #[inline]
    fn with<T>(&mut self, work: impl FnOnce(&mut MemoryPort<SlabPacket>) -> T) -> T {
        match self {
            Self::Own(port) => work(port),
            Self::Shared(port) => work(&mut port.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl RxPort<SlabPacket> for QueuePort {
    fn rx_burst(&mut self, burst: &mut Burst<SlabPacket>) -> usize {
        let before = burst.len();
        loop {
            let most = burst.remaining_capacity().min(self.kn);
            let came = self.end.with(|port| {
                if most == BURST {
                    return port.rx_burst(burst);
                }
                let from = burst.len();
                burst.extend(std::iter::from_fn(|| port.receive()).take(most));
                burst.len() - from
            });
            if came < most || burst.is_full() {
                return burst.len() - before;
            }
        }
    }
}

impl TxPort<SlabPacket> for QueuePort {
    fn tx_burst(&mut self, burst: &mut Burst<SlabPacket>) -> usize {
        let all = burst.len();
        if let Some(kind) = &self.kind {
            for packet in burst.iter_mut() {
                kind.renew(packet, self.number);
                self.number = if self.number + 1 < kind.count() { self.number + 1 } else { 0 };
            }
        }
        while !burst.is_empty() {
            let count = burst.len().min(self.kn);
            // The ring has room for all packets.
            self.end.with(|port| burst.drain(..count).for_each(|packet| drop(port.send(packet))));
        }
        all
    }
}

/// What the two cores do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// One core, one path.
    Alone,
    /// Each core has a path.
    Parallel,
    /// The first core receives, the second sends.
    Pipeline,
    /// Both cores receive from one queue and send to one.
    SingleQueue,
    /// Each core receives from a port of its own; both send to both ports, which have one queue each.
    OverlappingSingle,
    /// The same with a queue per core at each port.
    OverlappingMulti,
}

impl Layout {
    /// All of Figure 6.
    pub(super) const ALL: [Self; 6] = [
        Self::Alone,
        Self::Parallel,
        Self::Pipeline,
        Self::SingleQueue,
        Self::OverlappingSingle,
        Self::OverlappingMulti,
    ];

    /// Its name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "one core",
            Self::Parallel => "parallel, multi-queue",
            Self::Pipeline => "pipeline",
            Self::SingleQueue => "one port, single queue",
            Self::OverlappingSingle => "overlapping, single queue",
            Self::OverlappingMulti => "overlapping, multi-queue",
        }
    }

    const fn cores(self) -> usize {
        if matches!(self, Self::Alone) { 1 } else { 2 }
    }

    const fn overlaps(self) -> bool {
        matches!(self, Self::OverlappingSingle | Self::OverlappingMulti)
    }
}

/// Packets per poll and per transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    kp: usize,
    kn: usize,
}

const BATCHED: Batch = Batch { kp: 32, kn: 32 };
const SINGLE: Batch = Batch { kp: 1, kn: 1 };

/// The devices of all cores, and packets for their queues.
struct Wiring {
    slab: Vec<SlabPacket>,
    kind: Arc<RouterPackets>,
    kn: usize,
    cores: Vec<Devices<SlabPacket>>,
}

impl Wiring {
    fn new(bed: &Bed, cores: usize, kn: usize) -> Self {
        let kind = Arc::new(RouterPackets::untouched(&bed.table, &Lengths::of(64)));
        let cores = (0..cores).map(|_| Devices::new(GraphClock::Wall)).collect();
        Self { slab: Slab::new(4 * PACKETS).packets, kind, kn, cores }
    }

    /// A queue with packets: its sending and its receiving end.
    fn queue(&mut self, packets: usize) -> [MemoryPort<SlabPacket>; 2] {
        let (mut near, far) = memory_port_pair(4 * PACKETS);
        let rest = self.slab.len().saturating_sub(packets);
        for (number, mut packet) in self.slab.drain(rest..).enumerate() {
            // The tail of the frame, which no one writes.
            let _ = packet.append(&[0xAB; FRAME]);
            self.kind.renew(&mut packet, number);
            drop(near.send(packet));
        }
        [near, far]
    }

    fn port(&self, end: PortEnd, renews: bool) -> QueuePort {
        let kind = renews.then(|| Arc::clone(&self.kind));
        QueuePort { end, kn: self.kn, kind, number: 0 }
    }

    fn receive(&mut self, core: usize, device: &str, end: PortEnd) {
        let port = self.port(end, false);
        self.cores[core].receive(Some(device), ReceiveBinding::Port(Box::new(port)));
    }

    fn send(&mut self, core: usize, device: &str, end: PortEnd, renews: bool) {
        let port = self.port(end, renews);
        self.cores[core].send(device, SendBinding::Port(Box::new(port)));
    }

    fn connect(&mut self, layout: Layout) {
        let shared = |end| Arc::new(Mutex::new(end));
        match layout {
            Layout::Alone | Layout::Parallel => {
                for core in 0..layout.cores() {
                    let [near, far] = self.queue(PACKETS);
                    self.receive(core, "eth1", PortEnd::Own(far));
                    self.send(core, "eth2", PortEnd::Own(near), true);
                }
            }
            Layout::Pipeline => {
                let ([near, far], [middle, end]) = (self.queue(PACKETS), self.queue(0));
                self.receive(0, "eth1", PortEnd::Own(far));
                self.send(0, "eth2", PortEnd::Own(middle), false);
                self.receive(1, "eth1", PortEnd::Own(end));
                self.send(1, "eth2", PortEnd::Own(near), true);
            }
            Layout::SingleQueue => {
                let [near, far] = self.queue(2 * PACKETS).map(shared);
                for core in 0..2 {
                    self.receive(core, "eth1", PortEnd::Shared(Arc::clone(&far)));
                    self.send(core, "eth2", PortEnd::Shared(Arc::clone(&near)), true);
                }
            }
            Layout::OverlappingSingle => {
                for (port, device) in ["eth1", "eth2"].into_iter().enumerate() {
                    let [near, far] = self.queue(PACKETS);
                    self.receive(port, "in", PortEnd::Own(far));
                    let near = shared(near);
                    for core in 0..2 {
                        self.send(core, device, PortEnd::Shared(Arc::clone(&near)), true);
                    }
                }
            }
            Layout::OverlappingMulti => {
                for core in 0..2 {
                    for (input, device) in [("in", "eth1"), ("in2", "eth2")] {
                        let [near, far] = self.queue(PACKETS / 2);
                        self.receive(core, input, PortEnd::Own(far));
                        self.send(core, device, PortEnd::Own(near), true);
                    }
                }
            }
        }
    }
}

/// The graph of each core.
fn text(layout: Layout, by: &str, kp: usize) -> String {
    let spread = format!(
        "RoundRobinSwitch;\nspread[0] -> ToDevice(eth1, BURST {kp});\nspread[1] -> ToDevice(eth2, BURST {kp});\n"
    );
    match layout {
        Layout::OverlappingSingle => format!("FromDevice(in, BURST {kp}) -> spread :: {spread}"),
        Layout::OverlappingMulti => {
            format!(
                "FromDevice(in, BURST {kp}) -> spread :: {spread}FromDevice(in2, BURST {kp}) -> spread;\n"
            )
        }
        _ if by == "Click" => format!("FromDevice(eth1, BURST {kp}) -> ToDevice(eth2, BURST {kp});\n"),
        _ => format!("FromDevice(eth1, BURST {kp}) -> [1] ToDevice(eth2);\n"),
    }
}

/// Packets per second that all cores forward, or the last one of a pipeline.
fn rate(bed: &Bed, layout: Layout, by: &str, batch: Batch, time: Duration) -> Result<f64, BenchError> {
    let mut wiring = Wiring::new(bed, layout.cores(), batch.kn);
    wiring.connect(layout);
    let mut graphs = Vec::new();
    for devices in wiring.cores {
        let text = text(layout, by, batch.kp);
        graphs.push(GraphForwarder::new(layout.name(), &text, devices, &[], Box::new(NoBuffers))?);
    }
    let barrier = Barrier::new(graphs.len());
    let barrier = &barrier;
    let rates: Result<Vec<f64>, BenchError> = std::thread::scope(|scope| {
        let run = |(core, mut graph): (usize, GraphForwarder<SlabPacket>)| {
            scope.spawn(move || {
                pin::to_core(core);
                barrier.wait();
                run_for(&mut graph, time / 4);
                let (packets, seconds) = run_for(&mut graph, time);
                // The others go on until all have measured.
                run_for(&mut graph, time / 4);
                packets as f64 / seconds
            })
        };
        let threads: Vec<_> = graphs.into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| joined(thread.join())).collect()
    });
    let rates = rates?;
    let all = if layout == Layout::Pipeline {
        rates.last().copied().unwrap_or_default()
    } else {
        rates.iter().sum()
    };
    if all > 0.0 { Ok(all) } else { Err(BenchError::check(layout.name(), "no packet moved")) }
}

/// Runs a graph for this time; returns packets and seconds.
fn run_for(graph: &mut GraphForwarder<SlabPacket>, time: Duration) -> (usize, f64) {
    let start = Clock::Wall.now();
    let mut packets = 0;
    loop {
        for _ in 0..TURNS {
            graph.worker.turn(NOW);
            packets += graph.worker.brought();
        }
        let elapsed = Clock::Wall.now().saturating_sub(start);
        if elapsed >= time {
            return (packets, elapsed.as_secs_f64());
        }
    }
}

/// What is measured in turns: a layout, a form, a batch and its name.
type Plan = (Layout, &'static str, Batch, &'static str);

fn measure(bench: &mut BenchRun<'_>, bed: &Bed, plans: &[Plan]) -> Result<(), BenchError> {
    if pin::cores() < 2 {
        bench.console.note("router: two cores are needed and there is one");
        return Ok(());
    }
    let (time, runs) = (Duration::from_millis(bench.options.pick(40, 200)), bench.options.runs());
    let mut rates = vec![Vec::new(); plans.len()];
    let bar = bench.progress(runs * plans.len());
    for _ in 0..runs {
        for ((layout, by, batch, _), rates) in plans.iter().zip(&mut rates) {
            bench.check()?;
            rates.push(rate(bed, *layout, by, *batch, time)?);
            bar.add(1);
        }
    }
    bar.finish();
    for ((layout, by, Batch { kp, .. }, name), rates) in plans.iter().zip(rates) {
        let case = bench.case(layout.name(), bed.routes()).format(*by).variant((*name).to_owned());
        bench.add(case.batch(*kp).threads(layout.cores()), Metric::PacketRate, Summary::of(&rates));
    }
    Ok(())
}

/// The variant of Figure 6, and those of Figure 7.
pub(crate) const FIGURE_6: &str = "figure 6";
pub(crate) const UNTOUCHED: &str = "figure 7, single packets";
pub(crate) const BATCHES: &str = "figure 7, batches";

/// Measures Figure 6.
///
/// # Errors
/// [`BenchError`].
pub(super) fn figure_6(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let forms = |layout: Layout| if layout.overlaps() { &["Click"][..] } else { &["Click", "fused"][..] };
    let plans = Layout::ALL.into_iter();
    let plans = plans.flat_map(|layout| forms(layout).iter().map(move |by| (layout, *by, BATCHED, FIGURE_6)));
    measure(bench, bed, &plans.collect::<Vec<Plan>>())
}

/// Measures Figure 7: the untouched server, with several queues, with batches, and with both.
///
/// # Errors
/// [`BenchError`].
pub(super) fn figure_7(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let mut plans = Vec::new();
    for layout in [Layout::SingleQueue, Layout::Parallel] {
        for (batch, name) in [(SINGLE, UNTOUCHED), (BATCHED, BATCHES)] {
            plans.extend(["Click", "fused"].map(|by| (layout, by, batch, name)));
        }
    }
    measure(bench, bed, &plans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn all_layouts_forward_with_single_packets_and_with_batches() {
        let options = Options { quick: true, runs: Some(1), ..Options::default() };
        let bench = BenchRun::for_test("router", options);
        let bed = Bed::new(&bench).unwrap();
        for layout in Layout::ALL {
            for (by, batch) in [("Click", SINGLE), ("fused", BATCHED)] {
                // On a busy machine, a core may get no time in a short run while the other one runs.
                let times = (2..12).map(|shift| Duration::from_millis(1 << shift));
                let mut rates = times.map(|time| rate(&bed, layout, by, batch, time));
                assert!(rates.any(|rate| rate.is_ok_and(|rate| rate > 0.0)), "{} {by}", layout.name());
            }
        }
    }
}
