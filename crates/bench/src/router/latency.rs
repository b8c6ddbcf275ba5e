//! Latency by load, processor time by load (Figure 9), and a timeout for incomplete batches.

use super::bed::{Bed, FORMS, ROUTE};
use super::open_loop::{Entry, LINK, Offered, Outside, PATIENCE, Trial};
use super::packets::{Lengths, RouterPackets};
use super::rig::{GraphForwarder, NOW};
use super::table::PORTS;
use crate::bench_run::BenchRun;
use crate::error::{BenchError, joined};
use crate::gateway::packet_ring::{PacketKind, ROTATION};
use crate::gateway::packet_slab::{Slab, SlabPacket};
use crate::pin;
use crate::row::Metric;
use crate::timing::Clock;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::router::server::Form;
use scalebricks_graph::Clock as GraphClock;
use scalebricks_io::{Burst, MemoryPort, PacketBuf, RxPort, memory_port_pair};
use scalebricks_report::stats::Summary;
use std::sync::Arc;
use std::time::Duration;

/// Loads in per cent of the capacity.
pub(crate) const LOADS: [u32; 8] = [10, 20, 40, 60, 80, 90, 95, 99];

/// The name of trials by load in results.
pub(crate) const OPEN_LOOP: &str = "open loop";

/// Rates of the timeouts' experiment, packets per second.
const RATES: [f64; 3] = [1e4, 1e5, 1e6];

/// How packets wait for a batch: packets of a batch, and how long they wait at most. The first does not wait.
const WAITS: [(usize, Option<Duration>, &str); 4] = [
    (1, None, "no batches"),
    (16, None, "batches of 16, no timeout"),
    (16, Some(Duration::from_micros(100)), "batches of 16, timeout 100 µs"),
    (16, Some(Duration::from_micros(10)), "batches of 16, timeout 10 µs"),
];

/// A port that gives packets to the router only in whole batches, as network cards with several descriptors per
/// transaction do, or after a timeout.
struct BatchPort {
    port: MemoryPort<SlabPacket>,
    batch: usize,
    timeout: Option<Duration>,
    waiting: Burst<SlabPacket>,
    since: Duration,
}

impl RxPort<SlabPacket> for BatchPort {
    fn rx_burst(&mut self, burst: &mut Burst<SlabPacket>) -> usize {
        if self.batch <= 1 {
            return self.port.rx_burst(burst);
        }
        let was_empty = self.waiting.is_empty();
        self.port.rx_burst(&mut self.waiting);
        if self.waiting.is_empty() {
            return 0;
        }
        if was_empty && self.timeout.is_some() {
            self.since = Clock::chosen().now();
        }
        let is_due = |timeout| Clock::chosen().now().saturating_sub(self.since) >= timeout;
        if self.waiting.len() < self.batch && !self.timeout.is_some_and(is_due) {
            return 0;
        }
        let count = self.waiting.len().min(burst.remaining_capacity());
        burst.extend(self.waiting.drain(..count));
        count
    }
}

/// A server with its outside.
struct Server {
    graph: GraphForwarder<SlabPacket>,
    outside: Outside<Arc<RouterPackets>>,
}

impl Server {
    fn new(bed: &Bed, form: Form, batch: usize, timeout: Option<Duration>) -> Result<Self, BenchError> {
        let kind = Arc::new(RouterPackets::routed(&bed.table, &Lengths::of(64)));
        let mut devices = Devices::new(GraphClock::Wall);
        let (mut entries, mut exits) = (Vec::new(), Vec::new());
        for port in 1..=PORTS {
            let device = format!("eth{port}");
            let (link, inner) = memory_port_pair(LINK);
            let inner =
                BatchPort { port: inner, batch, timeout, waiting: Burst::new(), since: Duration::ZERO };
            devices.receive(Some(&device), ReceiveBinding::Port(Box::new(inner)));
            if port == 1 {
                entries.push(Entry::new(link, Arc::clone(&kind)));
            }
            let (inner, exit) = memory_port_pair(2 * ROTATION);
            devices.send(&device, SendBinding::Port(Box::new(inner)));
            exits.push(exit);
        }
        let mut graph = bed.route_graph(form, devices)?;
        // It copies its tables.
        graph.worker.turn(NOW);
        let mut free = Slab::new(2 * ROTATION).packets;
        for packet in &mut free {
            let _ = packet.append(&[0xAB; 60][..kind.room(0)]);
        }
        Ok(Self { graph, outside: Outside { entries, exits, free } })
    }

    fn offer(&mut self, rate: f64, time: Duration) -> Trial {
        let graph = &mut self.graph;
        self.outside.offer(Offered::PerSecond(rate), time, PATIENCE, |_| graph.worker.turn(NOW))
    }

    fn capacity(&mut self, time: Duration) -> f64 {
        let graph = &mut self.graph;
        self.outside.capacity(time, |_| graph.worker.turn(NOW))
    }

    fn empty_ns(&mut self) -> f64 {
        let graph = &mut self.graph;
        self.outside.empty_ns(1 << 14, |_| graph.worker.turn(NOW))
    }
}

/// Metrics of a trial, and its figures.
const METRICS: [Metric; 6] = [
    Metric::LatencyMean,
    Metric::LatencyP50,
    Metric::LatencyP99,
    Metric::LatencyP999,
    Metric::LatencyMax,
    Metric::PacketLoss,
];

pub(super) fn figures(trial: &Trial) -> [f64; METRICS.len()] {
    [trial.mean(), trial.at(0.5), trial.at(0.99), trial.at(0.999), trial.at(1.0), trial.lost_share()]
}

/// Adds a row per metric.
pub(super) fn add_trials(bench: &mut BenchRun<'_>, case: &crate::row::Case, trials: &[[f64; METRICS.len()]]) {
    for (at, metric) in METRICS.into_iter().enumerate() {
        let of_metric: Vec<f64> = trials.iter().map(|trial| trial[at]).collect();
        bench.add(case.clone(), metric, Summary::of(&of_metric));
    }
}

/// Runs work on a pinned thread.
pub(super) fn on_core<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin::to_core(0);
            work()
        });
        joined(thread.join())
    })
}

/// Latency and processor time by load.
///
/// # Errors
/// [`BenchError`].
pub(super) fn by_load(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let time = Duration::from_millis(bench.options.pick(10, 50));
    let runs = bench.options.runs();
    let bar = bench.progress(FORMS.len() * LOADS.len() * runs);
    let mut servers = Vec::new();
    for (by, form) in FORMS {
        let mut server = Server::new(bed, form, 1, None)?;
        let capacities = on_core(|| (0..runs).map(|_| server.capacity(time)).collect::<Vec<f64>>())?;
        let empty = on_core(|| (0..runs).map(|_| server.empty_ns()).collect::<Vec<f64>>())?;
        let case = bench.case(ROUTE, bed.routes()).format(by).threads(1);
        let capacity = Summary::of(&capacities);
        bench.add(case.clone().variant("capacity, open loop".to_owned()), Metric::PacketRate, capacity);
        let empty = Summary::of(&empty);
        bench.add(case.clone().variant("empty poll, open loop".to_owned()), Metric::PollTime, empty);
        servers.push((server, case, capacity.median, empty.median));
    }
    for load in LOADS {
        let mut trials = vec![(Vec::new(), Vec::new()); servers.len()];
        for _ in 0..runs {
            for ((server, _, capacity, empty), (trials, busy)) in servers.iter_mut().zip(&mut trials) {
                bench.check()?;
                let trial = on_core(|| server.offer(*capacity * f64::from(load) / 100.0, time))?;
                trials.push(figures(&trial));
                busy.push(trial.busy_ns(*empty));
                bar.add(1);
            }
        }
        for ((_, case, capacity, _), (trials, busy)) in servers.iter().zip(&trials) {
            let case = case.clone().load(f64::from(load) / 100.0).variant(OPEN_LOOP.to_owned());
            add_trials(bench, &case, trials);
            let rates = vec![capacity * f64::from(load) / 100.0; runs];
            bench.add(case.clone(), Metric::PacketRate, Summary::of(&rates));
            bench.add(case, Metric::BusyTime, Summary::of(busy));
        }
    }
    bar.finish();
    Ok(())
}

/// Latency at low loads by how packets wait for a batch.
///
/// # Errors
/// [`BenchError`].
pub(super) fn timeouts(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let time = Duration::from_millis(bench.options.pick(20, 100));
    let runs = bench.options.runs();
    let mut servers = Vec::new();
    for (batch, timeout, name) in WAITS {
        servers.push((Server::new(bed, Form::Fused, batch, timeout)?, batch, name));
    }
    for rate in RATES {
        let mut trials = vec![Vec::new(); servers.len()];
        for _ in 0..runs {
            for ((server, ..), trials) in servers.iter_mut().zip(&mut trials) {
                bench.check()?;
                let trial = on_core(|| server.offer(rate, time))?;
                trials.push(figures(&trial));
            }
        }
        for ((_, batch, name), trials) in servers.iter().zip(&trials) {
            let case = bench.case(ROUTE, bed.routes()).format("fused").variant((*name).to_owned());
            let case = case.batch(*batch).threads(1).load(rate);
            add_trials(bench, &case, trials);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn what_is_offered_slowly_leaves_and_incomplete_batches_wait_for_the_timeout() {
        let options = Options { quick: true, runs: Some(1), ..Options::default() };
        let bench = BenchRun::for_test("router", options);
        let bed = Bed::new(&bench).unwrap();
        let time = Duration::from_millis(20);
        for (_, form) in FORMS {
            let trial = Server::new(&bed, form, 1, None).unwrap().offer(1e4, time);
            assert_eq!((trial.offered, trial.left()), (200, 200));
            assert!(trial.at(0.5) > 0.0 && trial.at(0.5) <= trial.at(1.0) && trial.busy_ns(0.0) > 0.0);
        }
        // 200 packets are twelve batches and a half. A batch holds more than 16 if packets came while the thread waited.
        let trial = Server::new(&bed, Form::Fused, 16, None).unwrap().offer(1e4, time);
        assert_eq!(trial.offered, 200);
        assert!((185..=200).contains(&trial.left()), "{} left", trial.left());
        assert!(trial.at(1.0) >= 1.4e6, "the first of a batch waits for 15 others: {}", trial.at(1.0));
        let timeout = Some(Duration::from_micros(50));
        let trial = Server::new(&bed, Form::Fused, 16, timeout).unwrap().offer(1e4, time);
        assert_eq!((trial.offered, trial.left()), (200, 200));
        // Those that came while the thread waited leave with an older one.
        assert!(trial.at(0.5) >= 5e4, "most wait for the timeout: {}", trial.at(0.5));
    }
}
