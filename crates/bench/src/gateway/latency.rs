//! How long packets take through a cluster, by architecture and load.
//!
//! All nodes of a cluster in memory, generator and sink take turns on one core, so that a hop more costs what its work
//! costs and nothing waits for the system's scheduler. Packets come at their time whether the cluster keeps up or not
//! (an open loop); a packet that finds its link full is lost. The time of a packet runs from when it was due until it
//! was taken from the far end. By the clock of `--clock cpu` time stands still while others have the core.

use super::flows;
use crate::error::BenchError;
use crate::pin;
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;
use crate::timing::Clock;
use scalebricks_dataplane::{Architecture, Cluster, ClusterConfig, FlowSpec, Policy};
use scalebricks_io::{PacketBuf, Pool, Tag};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, FlowIndex};
use std::time::Duration;

/// Packets that an outside link holds.
const LINK: usize = 4096;

/// Flows, at the most: latencies are about hops and queues.
const MAX_FLOWS: u64 = 250_000;

/// How long a load is offered.
const OFFERED: Duration = Duration::from_millis(100);

/// Loads at which all are compared, in percent of the least loss-free rate.
const LOADS: [u64; 3] = [25, 50, 75];

/// Halvings of the interval in which the loss-free rate is looked for.
const HALVINGS: usize = 8;

/// What was found at one rate.
struct Run {
    lost: u64,
    /// Nanoseconds of each packet that arrived.
    times: Vec<u64>,
}

impl Run {
    fn mean(&self) -> f64 {
        self.times.iter().sum::<u64>() as f64 / self.times.len().max(1) as f64
    }

    fn p99(&mut self) -> f64 {
        self.times.sort_unstable();
        self.times.get(self.times.len() * 99 / 100).copied().unwrap_or(0) as f64
    }
}

/// One architecture's cluster.
struct Contestant {
    architecture: Architecture,
    cluster: Cluster,
    pool: Pool,
    frames: Vec<Vec<u8>>,
}

impl Contestant {
    fn new(architecture: Architecture, count: u64, size: ClusterSize) -> Result<Self, BenchError> {
        let failed =
            |error: Box<dyn std::error::Error + Send + Sync>| BenchError::of(architecture.name(), error);
        let pool = Pool::new(16 * LINK, 128).map_err(|error| failed(error.into()))?;
        let config = ClusterConfig {
            size,
            architecture,
            gpt: Structure::SetSep,
            policy: Policy::default(),
            seed: flows::SEED,
            base_stations: flows::base_stations(),
            outside_capacity: LINK,
            fabric_capacity: LINK,
            buffers: pool.clone(),
        };
        let specs: Vec<FlowSpec> = (0..count)
            .map(|flow| {
                let state = flows::state(flow, FlowIndex(0));
                FlowSpec {
                    key: flows::key(flow),
                    uplink_teid: flows::uplink(flow),
                    downlink_teid: state.teid,
                    base_station: state.base_station,
                    qfi: None,
                    node: state.node,
                }
            })
            .collect();
        let cluster = Cluster::new(&config, &specs).map_err(|error| failed(error.into()))?;
        let frames =
            (0..1 << 14).map(|n| super::traffic::downstream_frame(crate::keys::mix(n) % count)).collect();
        Ok(Self { architecture, cluster, pool, frames })
    }

    /// Offers so many packets a second.
    fn offer(&mut self, rate: f64) -> Run {
        let nodes = self.cluster.nodes().len();
        let total = (rate * OFFERED.as_secs_f64()).max(1.0);
        let nanoseconds = 1e9 / rate;
        let (mut sent, mut lost, mut times) = (0.0_f64, 0, Vec::new());
        let (mut number, mut idle) = (0_usize, 0);
        let clock = Clock::chosen();
        let start = clock.now();
        let since = || u64::try_from(clock.now().saturating_sub(start).as_nanos()).unwrap_or(u64::MAX);
        while idle < 2 {
            let now = since();
            while sent < total && sent * nanoseconds <= now as f64 {
                lost += u64::from(!self.inject(number, nodes, sent * nanoseconds));
                sent += 1.0;
                number += 1;
            }
            let moved: usize =
                self.cluster.nodes_mut().iter_mut().map(|node| node.turn(Duration::ZERO)).sum();
            let now = since();
            for link in self.cluster.links_mut() {
                while let Some(packet) = link.base_station.receive() {
                    times.push(now.saturating_sub(packet.tag().id));
                }
            }
            idle = if moved == 0 && sent >= total { idle + 1 } else { 0 };
        }
        // What left no far end was dropped on its way.
        lost = lost.max(number as u64 - times.len() as u64);
        Run { lost, times }
    }

    /// Sends a packet into a node, those of a flow into any; whether its link had room.
    fn inject(&mut self, number: usize, nodes: usize, due: f64) -> bool {
        let frame = &self.frames[number % self.frames.len()];
        let node = crate::keys::mix(number as u64) as usize % nodes;
        let link = &mut self.cluster.links_mut()[node];
        let Some(mut packet) = self.pool.packet(frame) else { return false };
        #[expect(clippy::cast_sign_loss, reason = "a time since the start")]
        packet.set_tag(Tag { id: due as u64, ..Tag::default() });
        let own = link.macs.internet.octets();
        packet.data_mut()[..6].copy_from_slice(&own);
        link.internet.send(packet).is_ok()
    }

    /// The highest rate found at which no packet is lost.
    fn loss_free(&mut self) -> f64 {
        let (mut low, mut high) = (1e4, 2e7);
        for _ in 0..HALVINGS {
            let rate = f64::midpoint(low, high);
            // A disturbance of the machine loses packets, too: a second try decides.
            if self.offer(rate).lost == 0 || self.offer(rate).lost == 0 {
                low = rate;
            } else {
                high = rate;
            }
        }
        low
    }
}

/// Measures all architectures; rows for the loss-free rate, and for mean and 99th percentile by load.
///
/// # Errors
/// [`BenchError`].
pub fn measure(session: &mut Session<'_>, asked: u64, size: ClusterSize) -> Result<(), BenchError> {
    let count = asked.min(MAX_FLOWS);
    let busy = session.busy("measuring latencies");
    let contestants: Result<Vec<Contestant>, BenchError> = Architecture::ALL
        .into_iter()
        .map(|architecture| Contestant::new(architecture, count, size))
        .collect();
    let mut contestants = contestants?;
    let runs = session.options().runs();
    // On a core of its own, as whatever is timed.
    let found = std::thread::scope(|scope| {
        let measured = scope.spawn(|| {
            pin::to_core(0);
            all(&mut contestants, runs)
        });
        measured.join().map_err(|_| BenchError::Threads("a thread that measured has panicked".to_owned()))
    })?;
    drop(busy);
    for (name, variant, metric, figures) in found {
        let variant = Some(variant);
        let subject = Subject { variant, threads: Some(1), ..session.subject(name, count) };
        session.add(subject, metric, Summary::of(&figures));
    }
    session.check()
}

/// A row: whose, at which load, what, and its figures.
type Found = (&'static str, String, Metric, Vec<f64>);

fn all(contestants: &mut [Contestant], runs: usize) -> Vec<Found> {
    let mut found = Vec::new();
    let rates: Vec<f64> = contestants.iter_mut().map(Contestant::loss_free).collect();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    for (contestant, &own) in contestants.iter().zip(&rates) {
        let name = contestant.architecture.name();
        found.push((name, "loss-free".to_owned(), Metric::PacketRate, vec![own]));
    }
    let loads = LOADS.map(|percent| (format!("at {:.2} Mpps", least * percent as f64 / 1e8), Some(percent)));
    for (variant, percent) in loads.into_iter().chain([("at its loss-free rate".to_owned(), None)]) {
        let mut figures = vec![(Vec::new(), Vec::new()); contestants.len()];
        for _ in 0..runs {
            for ((contestant, figures), &own) in contestants.iter_mut().zip(&mut figures).zip(&rates) {
                let rate = percent.map_or(own, |percent| least * percent as f64 / 100.0);
                let mut run = contestant.offer(rate);
                figures.0.push(run.mean());
                figures.1.push(run.p99());
            }
        }
        for (contestant, (means, p99s)) in contestants.iter().zip(figures) {
            let name = contestant.architecture.name();
            found.push((name, variant.clone(), Metric::LatencyMean, means));
            found.push((name, variant.clone(), Metric::LatencyP99, p99s));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_slowly_arrives_in_all_architectures() {
        let size = ClusterSize::new(flows::NODES).unwrap();
        for architecture in Architecture::ALL {
            let mut contestant = Contestant::new(architecture, 1000, size).unwrap();
            let run = contestant.offer(20_000.0);
            assert_eq!((run.lost, run.times.len()), (0, 2000), "{architecture}");
        }
    }
}
