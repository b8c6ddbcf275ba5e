//! Devices over DPDK, by their names in the configuration.

use super::args::RunArgs;
use crate::error::ProcessError;
use crate::runtime::devices::{self, Devices, PortRequest};
use scalebricks_apps::click::devices::{ReceiveBinding, SendBinding};
use scalebricks_dpdk::{Mbuf, Pool};
use std::sync::Arc;

/// The open devices.
pub(super) struct Ports {
    /// Both sides of each device.
    pub(super) by_name: Vec<(String, ReceiveBinding<Mbuf>, SendBinding<Mbuf>)>,
    /// Packet memory.
    pub(super) pool: Pool,
}

/// Starts DPDK and opens all devices.
///
/// # Errors
/// [`ProcessError::Ports`].
pub(super) fn open(args: &RunArgs) -> Result<Ports, ProcessError> {
    let names: Vec<&str> = args.options.port.iter().map(|(_, device)| &**device).collect();
    let dpdk = devices::settings(&names, args.options.buffers(), args.options.packet_bytes);
    let mtu = u16::try_from(args.options.packet_bytes).unwrap_or(u16::MAX);
    let wanted: Vec<PortRequest<'_>> =
        args.options.port.iter().map(|(_, device)| PortRequest { device, vlan: None, mtu }).collect();
    let opened = devices::open(&dpdk, 1, &wanted, |_, _| true, &Arc::default());
    let Devices { workers, pool, .. } = opened.map_err(|error| ProcessError::Ports(error.to_string()))?;
    let halves = workers.into_iter().flatten();
    let named = args.options.port.iter().zip(halves).map(|((name, _), half)| {
        let (receives, sends) = half.split();
        (name.clone(), ReceiveBinding::Port(Box::new(receives) as _), SendBinding::Port(Box::new(sends) as _))
    });
    Ok(Ports { by_name: named.collect(), pool })
}
