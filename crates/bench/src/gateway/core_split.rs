//! The rate of a whole node: packets per second that enter it and all leave.
//!
//! A node handles the share `1/n` of the packets that enter at it and sends the rest to others. As many come
//! from them over the fabric. With the paper's *core split*, one core takes the packets that enter and
//! another those from the fabric, on two pinned threads. With *run to completion*, one core does both. Each
//! core runs a [`Node`] of the product between the rings of [`super::joined_ports`].

use super::flows::{self, NODES};
use super::joined_ports::{CorePorts, JoinedPort, PacketStore, TrafficMix, Verifier};
use super::packet_ring::ROTATION;
use super::packet_slab::NoBuffers;
use super::tables::Tables;
use crate::error::BenchError;
use crate::pin;
use crate::timing::Clock;
use scalebricks_apps::gateway::{Node, NodePorts, NodeStats};
use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};
use scalebricks_types::ClusterSize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Packets sent before the clock starts.
const WARM_UP: u64 = 8 * ROTATION as u64;

/// Packets must have been lost if a core finds nothing to do for this long.
const STALL: Duration = Duration::from_secs(5);

/// Turns without a packet between two checks of the clock.
const IDLE_TURNS: u32 = 1 << 16;

/// Number of cores of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// One core for everything.
    One,
    /// Two cores: one for packets that enter, one for the fabric.
    Two,
}

impl Cores {
    /// The variants that this machine supports with `spare` cores left over.
    pub fn there(spare: usize) -> Vec<Self> {
        let both = [(Self::Two, 2), (Self::One, 1)];
        both.into_iter().filter(|(_, cores)| cores + spare <= pin::cores()).map(|(cores, _)| cores).collect()
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "run to completion",
            Self::Two => "core split",
        }
    }

    /// Number of threads.
    pub const fn threads(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// What runs on a core.
trait Core: Send {
    /// Takes packets from its ports and forwards them; returns how many.
    fn turn(&mut self) -> usize;

    /// Packets that left the node here, and packets dropped.
    fn left(&self) -> (u64, u64);
}

impl<P: PacketBuf + 'static> Core for Node<P> {
    fn turn(&mut self) -> usize {
        Self::turn(self, Duration::ZERO)
    }

    fn left(&self) -> (u64, u64) {
        let NodeStats { base_station_out, dropped, .. } = self.stats();
        (base_station_out, dropped.iter().map(|(_, count)| count).sum())
    }
}

/// Plain forwarding instead of a node: every fourth packet that enters leaves here, as many as belong to the
/// node.
struct Plain<P: PacketBuf> {
    ports: CorePorts<P>,
    entered: usize,
    left: u64,
}

impl<P: PacketBuf> Plain<P> {
    const fn new(ports: CorePorts<P>) -> Self {
        Self { ports, entered: 0, left: 0 }
    }
}

impl<P: PacketBuf> Core for Plain<P> {
    fn turn(&mut self) -> usize {
        let (mut burst, mut others) = (Burst::new(), Burst::new());
        let mut own = Burst::new();
        let from_fabric = self.ports.fabric.rx_burst(&mut burst);
        burst.iter_mut().for_each(super::node_rig::swap_addresses);
        self.ports.base_station.tx_burst(&mut burst);
        let entered = self.ports.internet.rx_burst(&mut burst);
        for mut packet in burst.drain(..) {
            super::node_rig::swap_addresses(&mut packet);
            let which = if self.entered.is_multiple_of(NODES) { &mut own } else { &mut others };
            which.push(packet);
            self.entered += 1;
        }
        let left = from_fabric + self.ports.base_station.tx_burst(&mut own);
        self.ports.fabric.tx_burst(&mut others);
        self.left += left as u64;
        from_fabric + entered
    }

    fn left(&self) -> (u64, u64) {
        (self.left, 0)
    }
}

/// A node with these tables, or plain forwarding.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// A node.
    Node(&'a Tables, ClusterSize),
    /// Plain forwarding, which shows the cost of generator, sink and rings.
    Plain,
}

impl Target<'_> {
    /// Its name in results.
    pub fn name(self) -> String {
        match self {
            Self::Node(tables, _) => tables.name(),
            Self::Plain => "plain forwarding".to_owned(),
        }
    }

    fn core<'c, P: PacketBuf + 'static>(self, worker: usize, ports: CorePorts<P>) -> Box<dyn Core + 'c> {
        let Self::Node(tables, size) = self else { return Box::new(Plain::new(ports)) };
        let port = |port: JoinedPort<P>| Box::new(port);
        let ports = NodePorts {
            internet: port(ports.internet),
            base_station: port(ports.base_station),
            fabric: port(ports.fabric),
        };
        let config = flows::node_config(flows::HERE, size);
        Box::new(Node::new(config, tables.for_worker(worker), ports, Box::new(NoBuffers)))
    }
}

/// Sends packets through a node and checks each, without measuring.
///
/// # Errors
/// [`BenchError::Check`] for the first fault or a lost packet.
pub fn judge<P: PacketBuf + 'static>(
    what: Target<'_>,
    cores: Cores,
    kinds: &TrafficMix,
    home: &PacketStore<P>,
) -> Result<(), BenchError> {
    let judge = Arc::new(Verifier::default());
    judge.turn(true);
    run(what, cores, kinds, home, &judge, 0)?;
    let problem = match judge.verdict() {
        (_, Some(fault)) => fault.to_owned(),
        (judged, None) if judged < WARM_UP => format!("{judged} packets were judged"),
        _ => return Ok(()),
    };
    Err(BenchError::check(&what.name(), problem))
}

/// Packets per second that left.
///
/// # Errors
/// [`BenchError::Check`] if a packet was lost.
pub fn rate<P: PacketBuf + 'static>(
    what: Target<'_>,
    cores: Cores,
    kinds: &TrafficMix,
    home: &PacketStore<P>,
    packets: u64,
) -> Result<f64, BenchError> {
    let (left, seconds) = run(what, cores, kinds, home, &Arc::default(), packets)?;
    Ok(left as f64 / seconds)
}

/// Warms up, then lets `packets` packets enter; returns how many left in how many seconds.
fn run<P: PacketBuf + 'static>(
    what: Target<'_>,
    cores: Cores,
    kinds: &TrafficMix,
    home: &PacketStore<P>,
    judge: &Arc<Verifier>,
    packets: u64,
) -> Result<(u64, f64), BenchError> {
    let there = home.len();
    let (mut first, mut second) = match cores {
        Cores::One => (what.core(0, kinds.one_core(home, judge)), None),
        Cores::Two => {
            let [external, internal] = kinds.two_cores(home, judge);
            (what.core(0, external), Some(what.core(1, internal)))
        }
    };
    let (stop, left_there) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stop, left_there) = (&stop, &left_there);
    let panicked = |_| BenchError::Threads("a measuring thread panicked".to_owned());
    let clock = if cores == Cores::One { Clock::chosen() } else { Clock::Wall };
    let (found, dropped) = std::thread::scope(|scope| {
        let second = second.as_mut().map(|core| scope.spawn(move || internal(&mut **core, stop, left_there)));
        let first = scope.spawn(|| external(first.as_mut(), stop, left_there, clock, packets));
        let (found, dropped) = first.join().map_err(panicked)?;
        let dropped_there = second.map_or(Ok(0), |second| second.join().map_err(panicked))?;
        Ok::<_, BenchError>((found, dropped + dropped_there))
    })?;
    // Dropping the ports returns all packets; neither core sends any more.
    drop((first, second));
    let lost = there - home.len();
    let found = found.filter(|_| dropped == 0 && lost == 0);
    found.ok_or_else(|| {
        let problem =
            format!("{}: {dropped} packets dropped, {lost} lost, or none moved any more", cores.name());
        BenchError::check(&what.name(), problem)
    })
}

/// The core for the fabric: runs until stopped and publishes how many packets left. Returns the packets
/// dropped.
fn internal(core: &mut dyn Core, stop: &AtomicBool, left: &AtomicU64) -> u64 {
    pin::to_core(1);
    let mut taken = 0;
    while !stop.load(Ordering::Relaxed) {
        let moved = core.turn();
        if moved == 0 {
            std::hint::spin_loop();
        } else {
            // A node keeps no packets after a turn, so what it took has left.
            taken += moved as u64;
            left.store(taken, Ordering::Relaxed);
        }
    }
    let (left, dropped) = core.left();
    dropped.max(taken - left.min(taken))
}

/// The core for packets that enter. Returns the packets that left both cores and the seconds, if packets
/// moved to the end, and the packets dropped.
fn external(
    core: &mut dyn Core,
    stop: &AtomicBool,
    left_there: &AtomicU64,
    clock: Clock,
    packets: u64,
) -> (Option<(u64, f64)>, u64) {
    pin::to_core(0);
    let mut found = None;
    if entered(core, WARM_UP) {
        let left = |core: &dyn Core| core.left().0 + left_there.load(Ordering::Relaxed);
        let (before, start) = (left(core), clock.now());
        if entered(core, packets) {
            let seconds = clock.now().saturating_sub(start).as_secs_f64();
            found = Some((left(core) - before, seconds));
        }
    }
    stop.store(true, Ordering::Relaxed);
    (found, core.left().1)
}

/// Runs a core until it has taken this many packets; `false` if none came for too long.
fn entered(core: &mut dyn Core, packets: u64) -> bool {
    let (mut taken, mut idle, mut idle_since) = (0, 0_u32, None);
    while taken < packets {
        let moved = core.turn();
        taken += moved as u64;
        if moved > 0 {
            (idle, idle_since) = (0, None);
            continue;
        }
        std::hint::spin_loop();
        idle = idle.wrapping_add(1);
        if idle.is_multiple_of(IDLE_TURNS) {
            let now = Clock::Wall.now();
            if now.saturating_sub(*idle_since.get_or_insert(now)) > STALL {
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::packet_slab::{Slab, SlabPacket};
    use crate::gateway::stages::{EXTERNAL, HANDLING, traffic};
    use crate::gateway::tables::{ExactTable, Placement, TableFactory};

    const FLOWS: u64 = 1000;

    fn size() -> ClusterSize {
        ClusterSize::new(NODES).unwrap()
    }

    fn kinds(flows: u64) -> TrafficMix {
        TrafficMix { outside: traffic(flows, EXTERNAL), fabric: traffic(flows, HANDLING) }
    }

    #[test]
    fn every_packet_that_enters_leaves_as_it_must_on_one_core_and_on_two() {
        let home: PacketStore<SlabPacket> = PacketStore::new(Slab::new(ROTATION).packets);
        let mut maker = TableFactory::new(FLOWS, size(), flows::HERE);
        for spread in [Placement::FullDuplication, Placement::ScaleBricks] {
            let tables = maker.tables(spread, ExactTable::Cuckoo).unwrap();
            for cores in [Cores::One, Cores::Two] {
                judge(Target::Node(&tables, size()), cores, &kinds(FLOWS), &home).unwrap();
                assert!(
                    rate(Target::Node(&tables, size()), cores, &kinds(FLOWS), &home, 20_000).unwrap() > 0.0
                );
                assert_eq!(home.len(), ROTATION);
            }
        }
        for cores in [Cores::One, Cores::Two] {
            assert!(rate(Target::Plain, cores, &kinds(FLOWS), &home, 20_000).unwrap() > 0.0);
        }
    }

    #[test]
    fn packets_that_are_dropped_are_no_rate() {
        let home: PacketStore<SlabPacket> = PacketStore::new(Slab::new(ROTATION).packets);
        // Tables without most of the flows.
        let tables = TableFactory::new(64, size(), flows::HERE)
            .tables(Placement::FullDuplication, ExactTable::Cuckoo)
            .unwrap();
        for cores in [Cores::One, Cores::Two] {
            let error = rate(Target::Node(&tables, size()), cores, &kinds(FLOWS), &home, 20_000).unwrap_err();
            assert!(error.to_string().contains("dropped"), "{error}");
            // Dropped packets do not return.
            assert!(home.len() < ROTATION);
        }
    }
}
