//! Packets that circulate through four nodes.

use super::bed::Bed;
use super::nodes::{BEGIN, CLUSTER, Kinds, NODES, PACKETS, Plan, turn};
use super::packets::{Lengths, RouterPackets};
use super::rig::Measured;
use crate::error::BenchError;
use crate::gateway::packet_ring::PacketKind;
use crate::gateway::packet_slab::{Slab, SlabPacket};
use crate::timing::Clock;
use scalebricks_apps::router::cluster::Steering;
use scalebricks_graph::Worker;
use scalebricks_io::{Burst, MemoryPort, PacketBuf, RxPort, Tag, TxPort, memory_port_pair};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where packets leave all nodes, and enter as new ones.
struct Exchange {
    entries: Vec<MemoryPort<SlabPacket>>,
    kinds: Kinds,
    numbers: Vec<usize>,
    left: usize,
    hops: usize,
    /// Whether packets are judged, and the first fault.
    is_judged: bool,
    fault: Option<&'static str>,
}

impl Exchange {
    fn take_back(&mut self, node: usize, mut packet: SlabPacket) {
        let kind = &self.kinds[node];
        kind.renew(&mut packet, self.numbers[node]);
        packet.set_tag(Tag::default());
        self.numbers[node] = if self.numbers[node] + 1 < kind.count() { self.numbers[node] + 1 } else { 0 };
        // The link holds all packets.
        drop(self.entries[node].send(packet));
    }
}

/// The external port of a node, as the exchange sees it.
struct ExitPort {
    node: usize,
    exchange: Arc<Mutex<Exchange>>,
}

fn locked(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TxPort<SlabPacket> for ExitPort {
    fn tx_burst(&mut self, burst: &mut Burst<SlabPacket>) -> usize {
        let count = burst.len();
        let mut exchange = locked(&self.exchange);
        for packet in burst.drain(..) {
            let node = RouterPackets::node_of(packet.data()) % NODES;
            exchange.hops += usize::from(packet.tag().hops);
            if exchange.is_judged {
                let found = exchange.kinds[node].fault(self.node, packet.data());
                exchange.fault = exchange.fault.or(found);
            }
            exchange.take_back(node, packet);
        }
        exchange.left += count;
        count
    }
}

/// Four nodes with packets that circulate.
pub(super) struct Cluster {
    name: [&'static str; 2],
    workers: Vec<Worker<SlabPacket>>,
    exchange: Arc<Mutex<Exchange>>,
    frame_bytes: f64,
    /// When the nodes' time begins.
    start: Duration,
    /// The ports without nodes: what each node receives, and the exit of node 0.
    bare: (Vec<MemoryPort<SlabPacket>>, ExitPort),
}

impl Cluster {
    pub(super) fn new(
        plan: &Plan,
        bed: &Bed,
        lengths: &Lengths,
        steering: Steering,
    ) -> Result<Self, BenchError> {
        let kinds = Plan::kinds(bed, lengths);
        let (exchange, receives) = exchange(&kinds);
        let (bare_exchange, bare) = self::exchange(&kinds);
        let exit = |node| ExitPort { node, exchange: Arc::clone(&exchange) };
        let sends = (0..NODES).map(|node| Box::new(exit(node)) as Box<dyn TxPort<SlabPacket> + Send>);
        let workers = plan.workers(steering, receives, sends.collect())?;
        let bare = (bare, ExitPort { node: 0, exchange: bare_exchange });
        let frame_bytes = kinds.first().map_or(0.0, |kind| kind.frame_bytes());
        let (name, start) = ([CLUSTER, steering.name()], Clock::Wall.now());
        Ok(Self { name, workers, exchange, frame_bytes, start, bare })
    }

    /// Runs until this many packets have left. Returns false if none moved any more.
    fn forward(&mut self, packets: usize) -> bool {
        let (wanted, mut idle) = (locked(&self.exchange).left + packets, 0);
        loop {
            let moved = turn(&mut self.workers, BEGIN + Clock::Wall.now().saturating_sub(self.start));
            idle = if moved == 0 { idle + 1 } else { 0 };
            let left = locked(&self.exchange).left;
            if left >= wanted || idle > IDLE {
                return left >= wanted;
            }
        }
    }

    fn stopped(&self) -> BenchError {
        BenchError::check(&self.name.join(", "), "packets were lost, or none moved any more")
    }

    /// Links between nodes that a packet has passed, on average.
    pub(super) fn links_per_packet(&self) -> f64 {
        let exchange = locked(&self.exchange);
        exchange.hops as f64 / exchange.left.max(1) as f64
    }
}

/// How often in a row nodes may find nothing to do.
const IDLE: usize = 1 << 20;

/// Packets of all nodes at their external ports.
fn exchange(kinds: &Kinds) -> (Arc<Mutex<Exchange>>, Vec<MemoryPort<SlabPacket>>) {
    let (entries, receives) = (0..NODES).map(|_| memory_port_pair(NODES * PACKETS)).unzip();
    let numbers = vec![0; NODES];
    let mut exchange =
        Exchange { entries, kinds: kinds.clone(), numbers, left: 0, hops: 0, is_judged: false, fault: None };
    for (place, mut packet) in Slab::new(NODES * PACKETS).packets.into_iter().enumerate() {
        // The longest frame once, so that its tail is there.
        let _ = packet.append(&[0xAB; 2000][..kinds[0].room(place)]);
        exchange.take_back(place % NODES, packet);
    }
    (Arc::new(Mutex::new(exchange)), receives)
}

impl Measured for Cluster {
    fn name(&self) -> [&'static str; 2] {
        self.name
    }

    fn judge(&mut self) -> Result<(), BenchError> {
        locked(&self.exchange).is_judged = true;
        let has_passed = self.forward(2 * NODES * PACKETS);
        let mut exchange = locked(&self.exchange);
        exchange.is_judged = false;
        let fault = exchange.fault.take();
        drop(exchange);
        match fault {
            Some(fault) => Err(BenchError::check(&self.name.join(", "), fault)),
            None if !has_passed => Err(self.stopped()),
            None => Ok(()),
        }
    }

    fn prepare(&mut self) {
        self.forward(NODES * PACKETS);
    }

    fn pass(&mut self, packets: usize) -> Result<(), BenchError> {
        if self.forward(packets) { Ok(()) } else { Err(self.stopped()) }
    }

    fn pass_ports(&mut self, packets: usize) {
        let (receives, exit) = &mut self.bare;
        let (mut passed, mut burst) = (0, Burst::new());
        while passed < packets {
            for receive in receives.iter_mut() {
                passed += receive.rx_burst(&mut burst);
                exit.tx_burst(&mut burst);
            }
        }
    }

    fn frame_bytes(&self) -> f64 {
        self.frame_bytes
    }
}
