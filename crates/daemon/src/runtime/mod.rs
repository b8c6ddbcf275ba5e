//! What a gateway node and a switch share as processes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`workers`] | the threads that move packets: how they are asked to stop, what they do when there is nothing to do, on which cores they are |
//! | [`vlan`] | sub-ports |
//! | `devices` | ports over DPDK, and whose queues are whose: with the feature `dpdk` |
//! | `service` | the service manager, and signals: with the feature `dpdk` |

#[cfg(feature = "dpdk")]
pub(crate) mod devices;
#[cfg(feature = "dpdk")]
pub(crate) mod service;
pub mod vlan;
pub mod workers;
