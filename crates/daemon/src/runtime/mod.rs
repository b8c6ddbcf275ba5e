//! Code that the processes of nodes, switches and graphs share.
//!
//! | module | content |
//! |---|---|
//! | [`workers`] | the threads that move packets: stopping, idling, cores |
//! | [`configuration`] | a configuration and its path |
//! | [`periodic`] | threads that repeat a task |
//! | [`vlan`] | ports that share a device by VLAN |
//! | `devices` | ports over DPDK, and the queues of each worker: with the feature `dpdk` |
//! | `service` | the service manager, and signals: with the feature `dpdk` |

pub mod configuration;
#[cfg(feature = "dpdk")]
pub(crate) mod devices;
pub mod periodic;
#[cfg(feature = "dpdk")]
pub(crate) mod service;
pub mod vlan;
pub mod workers;

/// Whether a port is a device of DPDK: on the PCI bus (0000:01:00.0), or virtual (`net_tap0`), with or without arguments. All
/// others are interfaces of Linux.
pub(crate) fn is_dpdk(device: &str) -> bool {
    device.contains([':', ',']) || device.starts_with("net_")
}

/// The version of DPDK, if it is built in.
#[cfg(feature = "dpdk")]
pub fn dpdk_version() -> Option<String> {
    Some(scalebricks_dpdk::version())
}

/// The version of DPDK, if it is built in.
#[cfg(not(feature = "dpdk"))]
pub const fn dpdk_version() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::is_dpdk;

    #[test]
    fn ports_are_told_apart_by_their_names() {
        assert!(["0000:01:00.0", "net_tap0", "net_af_packet0,iface=eth0"].into_iter().all(is_dpdk));
        assert!(!["eth0", "lo", "enp1s0f0np0", "wg-office"].into_iter().any(is_dpdk));
    }
}
