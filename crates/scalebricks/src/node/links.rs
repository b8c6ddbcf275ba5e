//! The node's ports over DPDK: each worker gets the queues it needs.
//!
//! One core a queue (RouteBricks §4.2): no two workers share a queue to receive from, and none to send to, but where a
//! device has too few of them; then they take turns. Ports of several roles may share a device, a VLAN each.

use super::config::{Layout, NodeFile, Port, Role};
use super::vlan::{self, Demux};
use scalebricks_dataplane::PortRole;
use scalebricks_dataplane::node::{NodePorts, Port as DataPort};
use scalebricks_dataplane::tap::Taps;
use scalebricks_dpdk::{
    DpdkError, Eal, EalConfig, Mbuf, Memory, Pool, PoolConfig, Port as Device, PortConfig, RxQueue, Started,
    TxQueue,
};
use scalebricks_io::{Burst, RxPort, TxPort};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a buffer beyond the largest IP packet: Ethernet, two tags, and some.
const FRAME_ROOM: u16 = 64;

/// A role's device.
#[derive(Debug, Clone)]
pub struct Link {
    /// The role.
    pub role: Role,
    /// The device, which roles may share.
    pub device: Arc<Device>,
}

/// Everything that was opened.
pub struct Links {
    /// Proof that DPDK runs.
    pub eal: Eal,
    /// By role: Internet, base station, fabric.
    pub by_role: [Link; 3],
    /// One set a worker.
    pub workers: Vec<NodePorts<Mbuf>>,
    /// Where packets lie.
    pub pool: Pool,
    /// Frames dropped for their VLAN tag: another's, or none.
    pub other_vlan: Arc<AtomicU64>,
}

/// Starts DPDK and opens all ports.
///
/// # Errors
/// [`DpdkError`].
pub fn open(config: &NodeFile, taps: &Taps) -> Result<Links, DpdkError> {
    let eal = Eal::start(&eal_config(config))?;
    let data_bytes = config.ports.iter().map(|port| port.mtu).max().unwrap_or_default();
    let pool = PoolConfig {
        packets: config.dpdk.packets,
        cache: 256,
        data_bytes: data_bytes.saturating_add(FRAME_ROOM).max(2_048),
    };
    let pool = Pool::new(eal, "packets", &pool)?;
    let other_vlan = Arc::new(AtomicU64::new(0));
    let mut devices: Vec<Opened> = Vec::new();
    let mut links = Vec::new();
    let mut workers: Vec<Vec<Half>> = (0..config.workers.count()).map(|_| Vec::new()).collect();
    for port in &config.ports {
        let at = devices.iter().position(|opened| opened.name == name(&port.device)).unwrap_or(devices.len());
        if at == devices.len() {
            devices.push(Opened::new(eal, config, port, pool, &other_vlan)?);
        }
        links.push(Link { role: port.role, device: Arc::clone(&devices[at].device) });
        for (worker, halves) in workers.iter_mut().enumerate() {
            let receives = receives(config.workers.layout, port.role, worker);
            halves.push(devices[at].half(port, worker, receives));
        }
    }
    let workers = workers.into_iter().map(|halves| {
        let [internet, base_station, fabric] = <[Half; 3]>::try_from(halves).ok()?;
        let tapped = |role, half| -> Box<dyn DataPort<Mbuf>> { Box::new(taps.port(role, half)) };
        Some(NodePorts {
            internet: tapped(PortRole::Internet, internet),
            base_station: tapped(PortRole::BaseStation, base_station),
            fabric: tapped(PortRole::Fabric, fabric),
        })
    });
    let workers = workers.collect::<Option<_>>().unwrap_or_default(); // three roles, three halves
    let links = <[Link; 3]>::try_from(links);
    let Ok(links) = links else { unreachable!("a link for each of three ports") };
    Ok(Links { eal, by_role: links, workers, pool, other_vlan })
}

fn eal_config(config: &NodeFile) -> EalConfig {
    let memory = if config.dpdk.huge_pages {
        Memory::HugePages
    } else {
        Memory::Ordinary { mib: config.dpdk.memory_mib }
    };
    let pci = config.ports.iter().any(|port| is_physical(&port.device));
    // What DPDK finds is in `status`; what it misses is said.
    let quiet = "--log-level=lib.eal:warning".to_owned();
    EalConfig { memory, pci, extra: [&[quiet], &config.dpdk.arguments[..]].concat() }
}

/// Whether a device is on the PCI bus.
fn is_physical(device: &str) -> bool {
    name(device).contains(':')
}

fn name(device: &str) -> &str {
    device.split(',').next().unwrap_or(device)
}

/// Whether a worker receives from a port.
fn receives(layout: Layout, role: Role, worker: usize) -> bool {
    match layout {
        Layout::RunToCompletion => true,
        Layout::Split => (role == Role::Fabric) == (worker == 1),
    }
}

/// A device with the queues nobody has yet.
struct Opened {
    name: String,
    device: Arc<Device>,
    rx: Vec<Rx>,
    tx: Vec<Arc<Mutex<TxQueue>>>,
}

/// A queue to receive from: one port's, or several ports' by VLAN.
enum Rx {
    Own(Option<RxQueue>),
    ByVlan(Arc<Mutex<Demux<Mbuf, RxQueue>>>),
}

impl Opened {
    fn new(
        eal: Eal,
        config: &NodeFile,
        port: &Port,
        pool: Pool,
        other_vlan: &Arc<AtomicU64>,
    ) -> Result<Self, DpdkError> {
        let workers = config.workers.count();
        let device_name = name(&port.device).to_owned();
        let users: Vec<&Port> =
            config.ports.iter().filter(|other| name(&other.device) == device_name).collect();
        let reads =
            |worker: &usize| users.iter().any(|user| receives(config.workers.layout, user.role, *worker));
        let (split, is_shared) = (config.workers.layout == Layout::Split, users.len() > 1);
        let asked = PortConfig {
            // Workers that share a queue by VLAN share one: each finds there what is for its ports.
            rx_queues: if split && is_shared { 1 } else { (0..workers).filter(reads).count() as u16 }, // at most 64
            tx_queues: workers as u16,
            fewer_tx_queues: true,
            // Virtual devices take what their buffers hold, and refuse to be told.
            mtu: users.iter().map(|user| user.mtu).max().filter(|_| is_physical(&port.device)),
            ..PortConfig::default()
        };
        let Started { port: device, rx, tx } = Device::start(eal, &port.device, &asked, pool)?;
        let vlans: Vec<u16> = users.iter().filter_map(|user| user.vlan).collect();
        let rx = rx.into_iter().map(|queue| {
            if vlans.is_empty() {
                Rx::Own(Some(queue))
            } else {
                Rx::ByVlan(Arc::new(Mutex::new(Demux::new(queue, &vlans, Arc::clone(other_vlan)))))
            }
        });
        let tx = tx.into_iter().map(|queue| Arc::new(Mutex::new(queue)));
        Ok(Self { name: device_name, rx: rx.collect(), tx: tx.collect(), device: Arc::new(device) })
    }

    /// A worker's half of a port.
    fn half(&mut self, port: &Port, worker: usize, receives: bool) -> Half {
        // Where one worker of two receives, its queue is the only one.
        let queue = worker.min(self.rx.len() - 1);
        let rx = match self.rx.get_mut(queue).filter(|_| receives) {
            None => RxHalf::None,
            Some(Rx::Own(queue)) => queue.take().map_or(RxHalf::None, RxHalf::Own),
            Some(Rx::ByVlan(demux)) => RxHalf::ByVlan(Arc::clone(demux)),
        };
        Half { rx, tx: Arc::clone(&self.tx[worker % self.tx.len()]), vlan: port.vlan }
    }
}

enum RxHalf {
    None,
    Own(RxQueue),
    ByVlan(Arc<Mutex<Demux<Mbuf, RxQueue>>>),
}

/// What a worker has of a port. A queue to send to is its own where the device has enough; the lock is then always
/// free, and costs a few nanoseconds a burst.
struct Half {
    rx: RxHalf,
    tx: Arc<Mutex<TxQueue>>,
    vlan: Option<u16>,
}

impl RxPort<Mbuf> for Half {
    fn rx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        match (&mut self.rx, self.vlan) {
            (RxHalf::Own(queue), _) => queue.rx_burst(burst),
            (RxHalf::ByVlan(demux), Some(vlan)) => {
                demux.lock().unwrap_or_else(PoisonError::into_inner).take(vlan, burst)
            }
            (RxHalf::None | RxHalf::ByVlan(_), _) => 0,
        }
    }
}

impl TxPort<Mbuf> for Half {
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let mut queue = self.tx.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(vlan) = self.vlan else { return queue.tx_burst(burst) };
        let untagged = burst.iter_mut().position(|packet| !vlan::push(packet, vlan));
        let tagged = untagged.unwrap_or(burst.len());
        let mut rest: Burst<Mbuf> = burst.drain(tagged..).collect();
        let sent = queue.tx_burst(burst);
        for packet in burst.iter_mut() {
            vlan::pop(packet);
        }
        burst.extend(rest.drain(..));
        sent
    }
}
