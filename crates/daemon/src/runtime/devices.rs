//! Ports over DPDK: each worker gets the queues it needs.
//!
//! One core per queue (RouteBricks §4.2): workers do not share receive queues, and share send queues only if a device
//! has too few of them. Several ports may share a device, each with its own VLAN.

use super::vlan::{self, Demux};
use crate::node::config::Dpdk;
use scalebricks_dpdk::{
    DpdkError, Eal, EalConfig, Mbuf, Memory, Pool, PoolConfig, Port as Device, PortConfig, RxQueue, Started,
    TxQueue,
};
use scalebricks_io::{Burst, RxPort, TxPort};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a buffer beyond the largest packet: Ethernet header, two tags, and a reserve.
const FRAME_ROOM: u16 = 64;

/// A port to open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortRequest<'a> {
    /// The device, with its arguments.
    pub(crate) device: &'a str,
    /// Its VLAN, if it shares its device.
    pub(crate) vlan: Option<u16>,
    /// Largest packet after the Ethernet header, bytes.
    pub(crate) mtu: u16,
}

/// The open devices.
pub(crate) struct Devices {
    /// Proof that DPDK runs.
    pub(crate) eal: Eal,
    /// The device of each port; ports may share one.
    pub(crate) by_port: Vec<Arc<Device>>,
    /// Each worker's half of each port.
    pub(crate) workers: Vec<Vec<Half>>,
    /// Packet memory.
    pub(crate) pool: Pool,
}

/// Starts DPDK and opens all ports. `receives` returns whether a worker receives from a port, by their numbers.
/// `other_vlan` counts frames that are dropped because they have another VLAN tag or none.
///
/// # Errors
/// [`DpdkError`].
pub(crate) fn open(
    dpdk: &Dpdk,
    workers: usize,
    ports: &[PortRequest<'_>],
    receives: impl Fn(usize, usize) -> bool,
    other_vlan: &Arc<AtomicU64>,
) -> Result<Devices, DpdkError> {
    let eal = Eal::start(&eal_config(dpdk, ports))?;
    let data_bytes = ports.iter().map(|port| port.mtu).max().unwrap_or_default();
    let pool = PoolConfig {
        packets: dpdk.packets,
        // Small pools are shared by several workers.
        cache: PoolConfig::default().cache.min(dpdk.packets / 8),
        data_bytes: data_bytes.saturating_add(FRAME_ROOM).max(2_048),
    };
    let pool = Pool::new(eal, "packets", &pool)?;
    let mut devices: Vec<Opened> = Vec::new();
    let mut by_port = Vec::with_capacity(ports.len());
    let mut halves: Vec<Vec<Half>> = (0..workers).map(|_| Vec::new()).collect();
    for (place, port) in ports.iter().enumerate() {
        let at = devices.iter().position(|opened| opened.name == name(port.device)).unwrap_or(devices.len());
        if at == devices.len() {
            let users = ports.iter().enumerate().filter(|(_, other)| name(other.device) == name(port.device));
            let users: Vec<_> = users.collect();
            // All workers of a device shared by VLAN use the same queue.
            let readers =
                users.iter().map(|(user, _)| (0..workers).filter(|worker| receives(*user, *worker)).count());
            let readers = readers.min().unwrap_or_default();
            let users: Vec<PortRequest<'_>> = users.iter().map(|(_, user)| **user).collect();
            devices.push(Opened::new(eal, &users, readers, workers, pool, other_vlan)?);
        }
        by_port.push(Arc::clone(&devices[at].device));
        for (worker, halves) in halves.iter_mut().enumerate() {
            halves.push(devices[at].half(port.vlan, worker, receives(place, worker)));
        }
    }
    Ok(Devices { eal, by_port, workers: halves, pool })
}

/// DPDK's settings for these devices, so many buffers of that size, and no more: huge pages if one is on the PCI bus.
pub(crate) fn settings(devices: &[&str], buffers: u32, packet_bytes: u32) -> Dpdk {
    let mebibytes = (u64::from(buffers) * u64::from(packet_bytes)) >> 20;
    Dpdk {
        huge_pages: devices.iter().any(|device| is_physical(device)),
        memory_mib: u32::try_from(2 * mebibytes).unwrap_or(u32::MAX).max(256),
        packets: buffers,
        arguments: Vec::new(),
    }
}

fn eal_config(dpdk: &Dpdk, ports: &[PortRequest<'_>]) -> EalConfig {
    let memory = if dpdk.huge_pages { Memory::HugePages } else { Memory::Ordinary { mib: dpdk.memory_mib } };
    let pci = ports.iter().any(|port| is_physical(port.device));
    // `status` shows the devices; only warnings are logged.
    let quiet = "--log-level=lib.eal:warning".to_owned();
    EalConfig { memory, pci, extra: [&[quiet], &dpdk.arguments[..]].concat() }
}

/// Whether a device is on the PCI bus.
fn is_physical(device: &str) -> bool {
    name(device).contains(':')
}

fn name(device: &str) -> &str {
    device.split(',').next().unwrap_or(device)
}

/// A device with its unassigned queues.
struct Opened {
    name: String,
    device: Arc<Device>,
    rx: Vec<Rx>,
    tx: Vec<Arc<Mutex<TxQueue>>>,
}

/// A receive queue of one port, or of several ports by VLAN.
enum Rx {
    Own(Option<RxQueue>),
    ByVlan(Arc<Mutex<Demux<Mbuf, RxQueue>>>),
}

impl Opened {
    /// Opens the device of these ports, from which `readers` workers receive.
    fn new(
        eal: Eal,
        users: &[PortRequest<'_>],
        readers: usize,
        workers: usize,
        pool: Pool,
        other_vlan: &Arc<AtomicU64>,
    ) -> Result<Self, DpdkError> {
        let device = users[0].device;
        let asked = PortConfig {
            rx_queues: readers as u16, // at most 64
            tx_queues: workers as u16,
            fewer_tx_queues: true,
            // Virtual devices accept any size that fits their buffers, and refuse to set one.
            mtu: users.iter().map(|user| user.mtu).max().filter(|_| is_physical(device)),
            ..PortConfig::default()
        };
        let Started { port, rx, tx } = Device::start(eal, device, &asked, pool)?;
        let vlans: Vec<u16> = users.iter().filter_map(|user| user.vlan).collect();
        let rx = rx.into_iter().map(|queue| {
            if vlans.is_empty() {
                Rx::Own(Some(queue))
            } else {
                Rx::ByVlan(Arc::new(Mutex::new(Demux::new(queue, &vlans, Arc::clone(other_vlan)))))
            }
        });
        let tx = tx.into_iter().map(|queue| Arc::new(Mutex::new(queue)));
        Ok(Self { name: name(device).to_owned(), rx: rx.collect(), tx: tx.collect(), device: Arc::new(port) })
    }

    /// A worker's half of a port.
    fn half(&mut self, vlan: Option<u16>, worker: usize, receives: bool) -> Half {
        // If only one of two workers receives, its queue is the only one.
        let queue = worker.min(self.rx.len() - 1);
        let rx = match self.rx.get_mut(queue).filter(|_| receives) {
            None => RxHalf::None,
            Some(Rx::Own(queue)) => queue.take().map_or(RxHalf::None, RxHalf::Own),
            Some(Rx::ByVlan(demux)) => RxHalf::ByVlan(Arc::clone(demux)),
        };
        Half { rx, tx: Arc::clone(&self.tx[worker % self.tx.len()]), vlan }
    }
}

enum RxHalf {
    None,
    Own(RxQueue),
    ByVlan(Arc<Mutex<Demux<Mbuf, RxQueue>>>),
}

/// A worker's half of a port. If the device has enough send queues, the worker has its own; the lock is then always
/// free, and costs a few nanoseconds per burst.
pub(crate) struct Half {
    rx: RxHalf,
    tx: Arc<Mutex<TxQueue>>,
    vlan: Option<u16>,
}

impl Half {
    /// Splits it into the receiving and the sending side.
    pub(crate) fn split(self) -> (Self, Self) {
        let Self { rx, tx, vlan } = self;
        (Self { rx, tx: Arc::clone(&tx), vlan }, Self { rx: RxHalf::None, tx, vlan })
    }
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
