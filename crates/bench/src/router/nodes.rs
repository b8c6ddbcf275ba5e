//! RB4: four nodes of the cluster router on one core, beside one server, and latency over two and three nodes.
//!
//! The nodes are the product's graphs ([`RouterConfig::node`]) and take turns. Links between them are rings in memory. Each
//! node has one external port. Packets go to all other nodes alike. What leaves becomes a new packet of the node where it
//! arrived, so that packets circulate.

use super::bed::Bed;
use super::circulation::Cluster;
use super::latency::{add_trials, figures, on_core};
use super::open_loop::{Entry, LINK, Offered, Outside, PATIENCE, Trial};
use super::packets::{Lengths, RouterPackets};
use super::rig::{Contender, Measured, WHOLE};
use super::table::{GATEWAYS, Hop};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::gateway::packet_ring::ROTATION;
use crate::gateway::packet_slab::{NoBuffers, Slab, SlabPacket};
use crate::row::Metric;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::router::cluster::{RouterConfig, Steering, port_mac};
use scalebricks_apps::router::routes::next_hop_mac;
use scalebricks_elements::fabric::mac::{ExternalPort, RouterMac};
use scalebricks_elements::fabric::next_hops::NextHops;
use scalebricks_graph::{Clock as GraphClock, Worker};
use scalebricks_io::{Burst, MemoryPort, PacketBuf, TxPort, memory_port_pair};
use scalebricks_report::stats::Summary;
use scalebricks_tables::lpm::{Lpm, Params};
use scalebricks_types::{ClusterSize, NodeId};
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, header};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// Nodes.
pub(super) const NODES: usize = 4;
/// Rate of an external port and of a link, bytes per second: 10 Gb/s, as in RB4.
const RATE: u64 = 1_250_000_000;
/// Packets of each node that circulate, and that a queue holds.
pub(super) const PACKETS: usize = 2048;
/// The work of four nodes in results.
pub(crate) const CLUSTER: &str = "four nodes, route";
/// The first time that nodes see.
pub(super) const BEGIN: Duration = Duration::from_secs(1);
/// Share of the capacity at which latencies are measured.
const LOAD: f64 = 0.5;

/// The packets of each node.
pub(super) type Kinds = Vec<Arc<RouterPackets>>;

/// Counts the link in the packet's tag.
struct CountedLink(MemoryPort<SlabPacket>);

impl TxPort<SlabPacket> for CountedLink {
    fn tx_burst(&mut self, burst: &mut Burst<SlabPacket>) -> usize {
        for packet in burst.iter_mut() {
            let mut tag = packet.tag();
            tag.hops = tag.hops.saturating_add(1);
            packet.set_tag(tag);
        }
        self.0.tx_burst(burst)
    }
}

/// Routes of all nodes and packets that arrive at each.
pub(super) struct Plan {
    table: Arc<Lpm<Ipv4Addr>>,
    hops: Vec<Arc<NextHops>>,
    size: ClusterSize,
}

/// The node by which packets to a next hop leave, and the number of its next hop.
const fn exit_of(hop: Hop) -> (usize, u16) {
    let index = hop.index();
    (index % NODES, (index / NODES) as u16)
}

fn node_id(node: usize) -> NodeId {
    NodeId::new(node as u8) // four
}

impl Plan {
    pub(super) fn new(bed: &Bed) -> Result<Self, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::check("nodes", error.to_string());
        let table = Lpm::<Ipv4Addr>::new(Params::FAST);
        let port = ExternalPort::new(0).ok_or_else(|| failed(&"no port 0"))?;
        for (prefix, hop) in &bed.table.routes {
            let (node, number) = exit_of(Hop::of(*hop));
            let mac = RouterMac::new(node_id(node), port, number);
            table.insert(*prefix, mac.hop()).map_err(|error| failed(&error))?;
        }
        let hops = (0..NODES).map(|node| {
            let hops = NextHops::new(GATEWAYS);
            for number in 0..GATEWAYS as u16 {
                hops.set(number, Some(next_hop_mac(node_id(node), number)));
            }
            Arc::new(hops)
        });
        let size = ClusterSize::new(NODES).map_err(|error| failed(&error))?;
        Ok(Self { table: Arc::new(table), hops: hops.collect(), size })
    }

    /// The packets of each node: to destinations behind the others.
    pub(super) fn kinds(bed: &Bed, lengths: &Lengths) -> Kinds {
        let of = |node: usize| {
            let all = bed.table.destinations.iter().map(|(to, hop)| (*to, exit_of(*hop)));
            let others = all.filter(|(_, (exit, _))| *exit != node).map(|(to, (exit, number))| {
                let exit_node = node_id(exit);
                let front = header(next_hop_mac(exit_node, number), port_mac(exit_node, 0), ETHERTYPE_IPV4);
                (to, exit, front)
            });
            Arc::new(RouterPackets::through_cluster(node as u8, others, lengths))
        };
        (0..NODES).map(of).collect()
    }

    /// The workers of all nodes over these external ports; links count themselves in tags.
    pub(super) fn workers(
        &self,
        steering: Steering,
        receives: Vec<MemoryPort<SlabPacket>>,
        sends: Vec<Box<dyn TxPort<SlabPacket> + Send>>,
    ) -> Result<Vec<Worker<SlabPacket>>, BenchError> {
        let name = steering.name();
        let failed = |error: &dyn std::fmt::Display| BenchError::check(name, error.to_string());
        let config = RouterConfig {
            size: self.size,
            ports: 1,
            port_rate: RATE,
            link_rate: RATE,
            steering,
            queue: 4 * PACKETS,
            burst: None,
            seed: 1,
        };
        let mut devices: Vec<Devices<SlabPacket>> =
            (0..NODES).map(|_| Devices::new(GraphClock::Wall)).collect();
        for (from, to) in (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to))) {
            if from != to {
                let (near, far) = memory_port_pair(4 * PACKETS);
                let link = SendBinding::Port(Box::new(CountedLink(near)));
                devices[from].send(&format!("node{to}"), link);
                devices[to].receive(Some(&format!("node{from}")), ReceiveBinding::Port(Box::new(far)));
            }
        }
        let registry = scalebricks_elements::registry::<SlabPacket>();
        let mut workers = Vec::new();
        let ends = receives.into_iter().zip(sends).zip(devices);
        for (node, ((receive, send), mut devices)) in ends.enumerate() {
            let (mut graph, _) = config
                .node(node_id(node), &self.table, &self.hops[node], &registry)
                .map_err(|error| failed(&error))?;
            devices.receive(Some("port0"), ReceiveBinding::Port(Box::new(receive)));
            devices.send("port0", SendBinding::Port(send));
            graph.open(&mut devices).map_err(|errors| failed(&format!("{errors:?}")))?;
            workers.push(Worker::new(graph, Box::new(NoBuffers), ()));
        }
        Ok(workers)
    }
}

/// One turn of all nodes.
pub(super) fn turn(workers: &mut [Worker<SlabPacket>], now: Duration) -> usize {
    workers.iter_mut().map(|worker| worker.turn(now)).sum()
}

/// The rates of four nodes in all ways, and of one server that routes or forwards, in the same rounds.
///
/// # Errors
/// [`BenchError`], also for a packet that is lost or wrong.
pub(super) fn run(bench: &mut BenchRun<'_>, bed: &Bed) -> Result<(), BenchError> {
    let plan = Plan::new(bed)?;
    for lengths in [Lengths::of(64), bed.mix.clone()] {
        let ring = bed.ring(&lengths);
        let mut servers: Vec<Contender<SlabPacket>> = bed.ours(&ring, &lengths, WHOLE)?;
        let mut clusters = Vec::new();
        for steering in Steering::ALL {
            clusters.push(Cluster::new(&plan, bed, &lengths, steering)?);
        }
        rates(bench, bed, &lengths.name, &mut servers, &mut clusters)?;
        for cluster in &clusters {
            let [work, by] = cluster.name();
            let case = bench.case(work, bed.routes()).format(by);
            let case = case.variant(lengths.name.clone()).threads(1).nodes(NODES);
            bench.add_exact(case, Metric::LinksPerPacket, cluster.links_per_packet());
        }
    }
    latencies(bench, bed, &plan)
}

fn rates(
    bench: &mut BenchRun<'_>,
    bed: &Bed,
    packets: &str,
    servers: &mut [Contender<SlabPacket>],
    clusters: &mut [Cluster],
) -> Result<(), BenchError> {
    let servers = servers.iter_mut().map(|one| one as &mut dyn Measured);
    let mut all: Vec<&mut dyn Measured> =
        servers.chain(clusters.iter_mut().map(|one| one as &mut dyn Measured)).collect();
    super::workloads::measure(bench, bed, &format!("{packets}{BESIDE}"), &mut all)
}

/// Suffix of the packets' name, also for the single server of the same round.
pub(crate) const BESIDE: &str = ", beside nodes";

/// Latencies over two nodes (Direct VLB, all direct) and three (Valiant, of the packets that passed two links), and of one
/// server, each at half of its capacity.
fn latencies(bench: &mut BenchRun<'_>, bed: &Bed, plan: &Plan) -> Result<(), BenchError> {
    let time = Duration::from_millis(bench.options.pick(10, 50));
    let runs = bench.options.runs();
    let mut nets = Vec::new();
    for steering in [Steering::Direct, Steering::Valiant, Steering::Flowlets] {
        nets.push((steering, Net::new(plan, bed, steering)?, 0.0, Vec::new()));
    }
    for (_, net, capacity, _) in &mut nets {
        let rates = on_core(|| (0..runs).map(|_| net.capacity(time)).collect::<Vec<f64>>())?;
        *capacity = Summary::of(&rates).median;
    }
    for _ in 0..runs {
        for (_, net, capacity, trials) in &mut nets {
            bench.check()?;
            trials.push(on_core(|| net.offer(*capacity * LOAD, time))?);
        }
    }
    for (steering, _, capacity, trials) in nets {
        for links in 0..3 {
            let of_links = |trial: &Trial| trial.with_links(links);
            let found: Vec<_> = trials.iter().map(of_links).filter(|trial| trial.left() > 0).collect();
            if found.len() < runs {
                continue; // this way does not go over so many
            }
            let case = bench.case(CLUSTER, bed.routes()).format(steering.name()).threads(1);
            let case = case.variant(format!("open loop, over {} nodes", links + 1)).nodes(NODES).load(LOAD);
            add_trials(bench, &case, &found.iter().map(figures).collect::<Vec<_>>());
        }
        let case = bench.case(CLUSTER, bed.routes()).format(steering.name()).threads(1);
        let case = case.variant("capacity, open loop".to_owned()).nodes(NODES);
        bench.add(case, Metric::PacketRate, Summary::of(&vec![capacity; runs]));
    }
    Ok(())
}

/// Nodes with an outside that offers packets at a rate.
struct Net {
    workers: Vec<Worker<SlabPacket>>,
    outside: Outside<Arc<RouterPackets>>,
    /// The time of the nodes when the next trial begins.
    begin: Duration,
}

impl Net {
    fn new(plan: &Plan, bed: &Bed, steering: Steering) -> Result<Self, BenchError> {
        let kinds = Plan::kinds(bed, &Lengths::of(64));
        let (mut entries, mut receives, mut exits) = (Vec::new(), Vec::new(), Vec::new());
        let mut sends: Vec<Box<dyn TxPort<SlabPacket> + Send>> = Vec::new();
        for kind in &kinds {
            let (link, inner) = memory_port_pair(LINK);
            entries.push(Entry::new(link, Arc::clone(kind)));
            receives.push(inner);
            let (inner, exit) = memory_port_pair(2 * ROTATION);
            sends.push(Box::new(inner));
            exits.push(exit);
        }
        let mut free = Slab::new(2 * ROTATION).packets;
        for packet in &mut free {
            let _ = packet.append(&[0xAB; 60]);
        }
        let workers = plan.workers(steering, receives, sends)?;
        Ok(Self { workers, outside: Outside { entries, exits, free }, begin: BEGIN })
    }

    fn offer(&mut self, rate: f64, time: Duration) -> Trial {
        let (begin, workers) = (self.begin, &mut self.workers);
        self.begin += BETWEEN;
        let offered = Offered::PerSecond(rate);
        self.outside.offer(offered, time, PATIENCE, |now| turn(workers, begin + now))
    }

    fn capacity(&mut self, time: Duration) -> f64 {
        let (begin, workers) = (self.begin, &mut self.workers);
        self.begin += BETWEEN;
        self.outside.capacity(time, |now| turn(workers, begin + now))
    }
}

/// The nodes' time between the beginnings of two trials, longer than any takes.
const BETWEEN: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn four_nodes_route_every_packet_to_its_exit_and_valiant_takes_more_links() {
        let options = Options { quick: true, runs: Some(1), ..Options::default() };
        let bench = BenchRun::for_test("router", options);
        let bed = Bed::new(&bench).unwrap();
        let plan = Plan::new(&bed).unwrap();
        let links = Steering::ALL.map(|steering| {
            let mut cluster = Cluster::new(&plan, &bed, &bed.mix.clone(), steering).unwrap();
            cluster.judge().unwrap();
            assert!(cluster.measure(10_000).unwrap() > 0.0 && cluster.ports(10_000).unwrap() > 0.0);
            cluster.links_per_packet()
        });
        assert!(links[0] > 1.3 && (1.0..1.2).contains(&links[1]), "{links:?}");
    }
}
