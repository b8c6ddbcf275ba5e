//! A run: one way of spreading, one traffic matrix.

use super::report::RunResult;
use super::traffic::{Arrivals, Destinations, Planned, Spread, TTL, frame};
use super::{PORT_RATE, PORTS, RouterDemoError};
use etherparse::{NetSlice, SlicedPacket};
use scalebricks_apps::router::cluster::{RouterCluster, RouterConfig, Steering, port_mac};
use scalebricks_apps::router::fairness::{jain, least};
use scalebricks_apps::router::mix::MixPacket;
use scalebricks_apps::router::network::Departure;
use scalebricks_apps::router::reorder::Reordering;
use scalebricks_apps::router::routes::{Exits, next_hop_mac};
use scalebricks_console::interrupt::Interrupt;
use scalebricks_console::output::Progress;
use scalebricks_io::PacketBuf;
use scalebricks_types::ClusterSize;
use std::time::{Duration, Instant};

/// What the links pass at once. A hop takes up to a step longer.
const STEP: Duration = Duration::from_micros(20);

/// Longest time after the last arrival until everything has left.
const DRAIN: Duration = Duration::from_secs(2);

/// Steps between two looks at the interrupt.
const LOOK: u64 = 256;

/// Problems that are described; all are counted.
const PROBLEMS: usize = 5;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct RouterRun<'a> {
    /// Number of nodes.
    pub size: ClusterSize,
    /// How packets are spread.
    pub steering: Steering,
    /// Who sends to whom.
    pub spread: Spread,
    /// Number of packets.
    pub packets: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// The packets of a capture in place of mixes of flows.
    pub capture: Option<&'a [MixPacket]>,
}

/// What left, and whether it is right.
#[derive(Debug, Default)]
struct Audit {
    order: Reordering,
    paths: Reordering,
    late_on_a_path: u64,
    links_passed: u64,
    most_nodes: u64,
    delivered: u64,
    wrong: u64,
    problems: Vec<String>,
    bytes_by_input: Vec<u64>,
}

impl Audit {
    fn check(&mut self, planned: &Planned, departure: &Departure) {
        let tag = departure.packet.tag();
        self.delivered += 1;
        self.links_passed += u64::from(tag.hops);
        self.most_nodes = self.most_nodes.max(1 + u64::from(tag.hops));
        self.bytes_by_input[planned.input] += planned.bytes as u64;
        self.order.arrive(planned.flow, planned.number);
        let path = planned.flow.rotate_left(24) ^ departure.path();
        self.late_on_a_path += u64::from(self.paths.arrive(path, planned.number));
        if let Err(why) = verify(planned, departure) {
            self.wrong += 1;
            if self.problems.len() < PROBLEMS {
                self.problems.push(format!("packet {} of flow {:#x}: {why}", planned.number, planned.flow));
            }
        }
    }
}

/// The right port, next hop, TTL, checksum and destination.
fn verify(planned: &Planned, departure: &Departure) -> Result<(), String> {
    let exit = planned.destination.exit;
    let expected = exit.output_node.index() * usize::from(PORTS) + exit.port.index();
    if departure.port != expected {
        return Err(format!("left by port {}, not {expected}", departure.port));
    }
    let bytes = departure.packet.data();
    let sliced = SlicedPacket::from_ethernet(bytes).map_err(|error| error.to_string())?;
    let Some(NetSlice::Ipv4(ip)) = sliced.net else { return Err("it is not IPv4".to_owned()) };
    let header = ip.header().to_header();
    let next_hop = next_hop_mac(exit.output_node, exit.next_hop).octets();
    let own = port_mac(exit.output_node, exit.port.get()).octets();
    if bytes.get(..6) != Some(&next_hop[..]) || bytes.get(6..12) != Some(&own[..]) {
        return Err(format!("MAC addresses {:02x?}", bytes.get(..12)));
    }
    if header.time_to_live != TTL - 1 {
        return Err(format!("TTL {}, not {}", header.time_to_live, TTL - 1));
    }
    if header.calc_header_checksum() != header.header_checksum {
        return Err("the checksum is wrong".to_owned());
    }
    if header.destination != planned.destination.address.octets() || bytes.len() != planned.bytes {
        return Err("destination or length changed".to_owned());
    }
    Ok(())
}

impl RouterRun<'_> {
    /// Its name.
    pub fn name(&self) -> String {
        format!("{}, {}", self.spread.name(), self.steering.name())
    }

    fn config(&self) -> RouterConfig {
        let mut config = RouterConfig {
            size: self.size,
            ports: PORTS,
            port_rate: PORT_RATE,
            link_rate: 0,
            steering: self.steering,
            queue: 16_384,
            burst: None,
            seed: self.seed,
        };
        config.link_rate = config.link_share(if self.steering == Steering::Valiant { 2 } else { 3 });
        config
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`RouterDemoError`].
    pub fn execute(
        &self,
        destinations: &Destinations<'_>,
        exits: &Exits,
        progress: &Progress,
        interrupt: &Interrupt,
    ) -> Result<RunResult, RouterDemoError> {
        let nodes = self.size.get();
        let mut cluster =
            RouterCluster::new(&self.config(), destinations.table, &exits.next_hops(), 1 << 18)?;
        let mut arrivals = Arrivals::new(destinations, nodes, self.spread, self.capture);
        let (mut sent, mut bytes) = (Vec::new(), Vec::new());
        let mut offered = vec![0u64; nodes];
        let mut audit = Audit { bytes_by_input: vec![0; nodes], ..Audit::default() };
        let (mut busy, mut last) = (Duration::ZERO, Duration::ZERO);
        for step in 0u64.. {
            if step % LOOK == 0 {
                interrupt.check()?;
            }
            let until = cluster.network.now() + STEP;
            while (sent.len() as u64) < self.packets {
                let Some(packet) = arrivals.next(until)? else { break };
                frame(&packet, &mut bytes);
                cluster.network.inject(packet.input, sent.len() as u64, &bytes)?;
                offered[packet.input] += packet.bytes as u64;
                last = packet.at;
                sent.push(packet);
            }
            let start = Instant::now();
            cluster.network.step(STEP)?;
            busy += start.elapsed();
            let departed = cluster.network.take_departed();
            progress.add(departed.len() as u64);
            for departure in &departed {
                if let Some(planned) = sent.get(departure.id() as usize) {
                    audit.check(planned, departure);
                }
            }
            let is_over = sent.len() as u64 == self.packets && audit.delivered == self.packets;
            if is_over || sent.len() as u64 == self.packets && cluster.network.now() > last + DRAIN {
                break;
            }
        }
        let shares: Vec<f64> = audit
            .bytes_by_input
            .iter()
            .zip(&offered)
            .filter(|&(_, &all)| all > 0)
            .map(|(&got, &all)| got as f64 / all.max(1) as f64)
            .collect();
        let order = audit.order.counts();
        let packets = self.packets.max(1) as f64;
        Ok(RunResult {
            spread: self.spread.name(),
            steering: self.steering.name(),
            sent: self.packets,
            delivered: audit.delivered,
            dropped: cluster.network.dropped(),
            wrong: audit.wrong,
            late_on_a_path: audit.late_on_a_path,
            nodes_mean: 1.0 + audit.links_passed as f64 / audit.delivered.max(1) as f64,
            nodes_max: audit.most_nodes,
            offered_gbps: offered.iter().sum::<u64>() as f64 * 8e-9 / last.as_secs_f64().max(1e-9),
            sprayed: cluster.network.counter("sprayed"),
            sequences: order.sequence_ratio(),
            late: order.late_ratio(),
            flows_late: order.flow_ratio(),
            flows: order.flows,
            jain: jain(&shares),
            least: least(&shares),
            ns_per_packet: busy.as_nanos() as f64 / packets,
            problems: audit.problems,
        })
    }
}
