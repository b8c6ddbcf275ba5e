//! Ports, packets and pools over DPDK, safe to use: the traits of `scalebricks-io` for real network interfaces.
//!
//! * [`Eal`]: DPDK's environment, one a process, for as long as the process lives.
//! * [`Pool`] gives [`Mbuf`]s, packets that own their memory and give it back when dropped.
//! * [`Port`]: an interface, found by its name or made from a virtual device's arguments; starting it gives its
//!   [`RxQueue`]s and [`TxQueue`]s, each for one thread at a time.
//!
//! * [`peers`]: two of DPDK's own tables, to compare with.
//!
//! What C leaves to the caller's care is said in types: a queue cannot be used by two threads at once, a packet that was
//! sent is gone, one that was not sent is still there, and nothing is freed while it can be reached. Environment and pools
//! are never taken down, because packets that may be anywhere live in them; the system takes them back at the end.
//!
//! Without the feature `dpdk` this crate is empty and needs nothing.
#![cfg(feature = "dpdk")]

mod eal;
mod error;
mod mbuf;
pub mod peers;
mod pool;
mod port;
mod queue;

pub use eal::{Eal, EalConfig, Memory, RegisteredThread};
pub use error::DpdkError;
pub use mbuf::Mbuf;
pub use pool::{Pool, PoolConfig};
pub use port::{LinkStatus, Port, PortConfig, PortInfo, PortStats, Started};
pub use queue::{RxQueue, TxQueue};
