//! Code that the processes of nodes, switches and graphs share.
//!
//! | module | content |
//! |---|---|
//! | [`workers`] | the threads that move packets: stopping, idling, cores |
//! | [`configuration`] | a configuration and its path |
//! | [`periodic`] | threads that repeat a task |
//! | [`thread`] | threads with an asynchronous runtime |
//! | [`vlan`] | ports that share a device by VLAN |
//! | `devices` | ports over DPDK, and the queues of each worker: with the feature `dpdk` |
//! | `service` | the service manager, and signals: with the feature `dpdk` |

pub mod configuration;
#[cfg(feature = "dpdk")]
pub(crate) mod devices;
pub mod periodic;
#[cfg(feature = "dpdk")]
pub(crate) mod service;
pub mod thread;
pub mod vlan;
pub mod workers;
