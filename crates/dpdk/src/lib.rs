//! The traits of `scalebricks-io` for network interfaces over DPDK, as a safe interface.
//!
//! * [`Eal`]: DPDK's environment, which exists once per process and until its end.
//! * [`Pool`]: allocates [`Mbuf`]s, packets that return their memory when dropped.
//! * [`Port`]: an interface, found by its name or created from the arguments of a virtual device. It has [`RxQueue`]s and
//!   [`TxQueue`]s, each for one thread at a time.
//! * [`peers`]: two of DPDK's hash tables, for comparison.
//! * [`route_peers`]: its tables for longest-prefix match.
//! * [`forward_peers`]: the inner loop of its example l3fwd.
//!
//! Types enforce what C leaves to the caller: two threads cannot use a queue at once, a sent packet cannot be used, and
//! nothing is freed while it is reachable. The environment and pools are never freed, as packets may be in use anywhere.
//!
//! Without the feature `dpdk`, this crate is empty.
#![cfg(feature = "dpdk")]

mod eal;
mod error;
pub mod forward_peers;
mod mbuf;
pub mod peers;
mod pool;
mod port;
mod queue;
pub mod route_peers;

pub use eal::{Eal, EalConfig, Memory, RegisteredThread, SimdBits, version};
pub use error::DpdkError;
pub use mbuf::Mbuf;
pub use pool::{Pool, PoolConfig};
pub use port::{LinkStatus, Port, PortConfig, PortInfo, PortStats, Started};
pub use queue::{RxQueue, TxQueue};
