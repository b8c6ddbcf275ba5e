//! The switch's ports over DPDK: each worker gets a queue of each to receive from, and one to send to, shared where a device has
//! too few.

use super::config::SwitchFile;
use scalebricks_dataplane::flat::SwitchPort;
use scalebricks_dpdk::{
    DpdkError, Eal, EalConfig, Mbuf, Memory, Pool, PoolConfig, Port, PortConfig, RxQueue, Started, TxQueue,
};
use scalebricks_io::{Burst, RxPort, TxPort};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a buffer beyond the largest packet: Ethernet, two tags, and some.
const FRAME_ROOM: u16 = 64;

/// Everything that was opened.
pub(super) struct Links {
    /// Proof that DPDK runs.
    pub(super) eal: Eal,
    /// One set of ports a worker.
    pub(super) workers: Vec<Vec<SwitchPort<Mbuf>>>,
    /// Where frames lie.
    pub(super) pool: Pool,
    /// The devices, which are stopped when they are dropped.
    pub(super) devices: Vec<Port>,
}

/// Starts DPDK and opens all ports.
pub(super) fn open(file: &SwitchFile, devices: &[String]) -> Result<Links, DpdkError> {
    let eal = Eal::start(&eal_config(file, devices))?;
    let data_bytes = file.ports.iter().map(|port| port.mtu).max().unwrap_or_default();
    let pool = PoolConfig {
        packets: file.dpdk.packets,
        cache: 256,
        data_bytes: data_bytes.saturating_add(FRAME_ROOM).max(2_048),
    };
    let pool = Pool::new(eal, "packets", &pool)?;
    let count = file.workers.count();
    let mut workers: Vec<Vec<SwitchPort<Mbuf>>> = (0..count).map(|_| Vec::new()).collect();
    let mut opened = Vec::with_capacity(devices.len());
    for (port, device) in file.ports.iter().zip(devices) {
        let asked = PortConfig {
            rx_queues: count as u16, // at most 64
            tx_queues: count as u16,
            fewer_tx_queues: true,
            // Virtual devices take what their buffers hold, and refuse to be told.
            mtu: Some(port.mtu).filter(|_| is_physical(device)),
            ..PortConfig::default()
        };
        let Started { port: device, rx, tx } = Port::start(eal, device, &asked, pool)?;
        let tx: Vec<_> = tx.into_iter().map(|queue| Arc::new(Mutex::new(queue))).collect();
        let senders = tx.iter().cycle().map(Arc::clone);
        for ((worker, rx), tx) in workers.iter_mut().zip(rx).zip(senders) {
            worker.push(SwitchPort { port: Box::new(Half { rx, tx }), group: port.group });
        }
        opened.push(device);
    }
    Ok(Links { eal, workers, pool, devices: opened })
}

fn eal_config(file: &SwitchFile, devices: &[String]) -> EalConfig {
    let memory =
        if file.dpdk.huge_pages { Memory::HugePages } else { Memory::Ordinary { mib: file.dpdk.memory_mib } };
    let quiet = "--log-level=lib.eal:warning".to_owned();
    let pci = devices.iter().any(|device| is_physical(device));
    EalConfig { memory, pci, extra: [&[quiet], &file.dpdk.arguments[..]].concat() }
}

/// Whether a device is on the PCI bus.
fn is_physical(device: &str) -> bool {
    device.split(',').next().is_some_and(|name| name.contains(':'))
}

/// What a worker has of a port. A queue to send to is its own where the device has enough; the lock is then always free, and costs
/// a few nanoseconds a burst.
struct Half {
    rx: RxQueue,
    tx: Arc<Mutex<TxQueue>>,
}

impl RxPort<Mbuf> for Half {
    fn rx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.rx.rx_burst(burst)
    }
}

impl TxPort<Mbuf> for Half {
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.tx.lock().unwrap_or_else(PoisonError::into_inner).tx_burst(burst)
    }
}
