//! The node's ports: a device by role, queues by worker.

use super::config::{Layout, NodeFile, Role};
use crate::runtime::devices::{self, Devices, Half, Wanted};
use scalebricks_apps::gateway::node::NodePorts;
use scalebricks_dpdk::{DpdkError, Eal, Mbuf, Pool, Port as Device};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

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
pub fn open(config: &NodeFile) -> Result<Links, DpdkError> {
    let wanted =
        config.ports.each_ref().map(|port| Wanted { device: &port.device, vlan: port.vlan, mtu: port.mtu });
    let receives = |port: usize, worker| receives(config.workers.layout, config.ports[port].role, worker);
    let other_vlan = Arc::new(AtomicU64::new(0));
    let opened = devices::open(&config.dpdk, config.workers.count(), &wanted, receives, &other_vlan)?;
    let Devices { eal, by_port, workers, pool } = opened;
    let links = config.ports.iter().zip(by_port).map(|(port, device)| Link { role: port.role, device });
    let workers = workers.into_iter().map(|halves| {
        let [internet, base_station, fabric] = <[Half; 3]>::try_from(halves).ok()?;
        Some(NodePorts {
            internet: Box::new(internet),
            base_station: Box::new(base_station),
            fabric: Box::new(fabric),
        })
    });
    let workers = workers.collect::<Option<_>>().unwrap_or_default(); // three roles, three halves
    let Ok(by_role) = <[Link; 3]>::try_from(links.collect::<Vec<_>>()) else {
        unreachable!("a link for each of three ports")
    };
    Ok(Links { eal, by_role, workers, pool, other_vlan })
}

/// Whether a worker receives from a port.
fn receives(layout: Layout, role: Role, worker: usize) -> bool {
    match layout {
        Layout::RunToCompletion => true,
        Layout::Split => (role == Role::Fabric) == (worker == 1),
    }
}
