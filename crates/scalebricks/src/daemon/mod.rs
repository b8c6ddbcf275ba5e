//! What a gateway node and a switch share as processes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`workers`] | the threads that move packets: how they are asked to stop, what they do when there is nothing to do, on which cores they are |
//! | `service` | the service manager, and signals: with the feature `dpdk` |

#[cfg(feature = "dpdk")]
pub(crate) mod service;
pub mod workers;
