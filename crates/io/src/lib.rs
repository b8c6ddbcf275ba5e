//! Packet buffers, bursts and ports.
//!
//! | module | what it holds |
//! |---|---|
//! | [`packet`] | the buffer trait the data plane is written against, bursts, and the tag a buffer carries |
//! | [`pool`] | buffers on the heap, recycled through a bounded pool |
//! | [`port`] | ports as traits, and the in-memory port made of two rings |
//! | [`switch`] | an Ethernet switch in memory that forwards by destination MAC |

#![forbid(unsafe_code)]

pub mod packet;
pub mod pool;
pub mod port;
pub mod switch;

pub use packet::{BURST, Burst, PacketBuf, PacketSource, RoomError, Tag};
pub use pool::{Packet, Pool, PoolError};
pub use port::{MemoryPort, RxPort, TxPort, memory_port_pair};
pub use switch::{MemorySwitch, SwitchPort, SwitchStats};
