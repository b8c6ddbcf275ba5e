//! The node's ports: their devices, and the queues of each worker.

use super::config::{Layout, NodeFile, Role};
use crate::runtime::devices::{self, Devices, Half, PortRequest};
use scalebricks_apps::gateway::node::NodePorts;
use scalebricks_dpdk::{DpdkError, Eal, Mbuf, Pool, Port as Device};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The device of a port.
#[derive(Debug, Clone)]
pub struct PortDevice {
    /// The role of the port.
    pub role: Role,
    /// The device, which ports may share.
    pub device: Arc<Device>,
}

/// The open ports.
pub struct OpenPorts {
    /// Proof that DPDK runs.
    pub eal: Eal,
    /// By role: Internet, base station, fabric.
    pub by_role: [PortDevice; 3],
    /// The ports of each worker.
    pub workers: Vec<NodePorts<Mbuf>>,
    /// Packet memory.
    pub pool: Pool,
    /// Frames dropped because they have another VLAN tag or none.
    pub other_vlan: Arc<AtomicU64>,
}

/// Starts DPDK and opens all ports.
///
/// # Errors
/// [`DpdkError`].
pub fn open(config: &NodeFile) -> Result<OpenPorts, DpdkError> {
    let wanted = config.ports.each_ref().map(|port| PortRequest {
        device: &port.device,
        vlan: port.vlan,
        mtu: port.mtu,
    });
    let receives = |port: usize, worker| receives(config.workers.layout, config.ports[port].role, worker);
    let other_vlan = Arc::new(AtomicU64::new(0));
    let opened = devices::open(&config.dpdk, config.workers.count(), &wanted, receives, &other_vlan)?;
    let Devices { eal, by_port, workers, pool } = opened;
    let links = config.ports.iter().zip(by_port).map(|(port, device)| PortDevice { role: port.role, device });
    let workers = workers.into_iter().map(|halves| {
        let [internet, base_station, fabric] = <[Half; 3]>::try_from(halves).ok()?;
        Some(NodePorts {
            internet: Box::new(internet),
            base_station: Box::new(base_station),
            fabric: Box::new(fabric),
        })
    });
    let workers = workers.collect::<Option<_>>().unwrap_or_default(); // three roles, three halves
    let Ok(by_role) = <[PortDevice; 3]>::try_from(links.collect::<Vec<_>>()) else {
        unreachable!("one device for each of three ports")
    };
    Ok(OpenPorts { eal, by_role, workers, pool, other_vlan })
}

/// Whether a worker receives from a port.
fn receives(layout: Layout, role: Role, worker: usize) -> bool {
    match layout {
        Layout::RunToCompletion => true,
        Layout::Split => (role == Role::Fabric) == (worker == 1),
    }
}
