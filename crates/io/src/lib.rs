//! Packet buffers, bursts and ports.
//!
//! | module | what it holds |
//! |---|---|
//! | [`capture`] | pcap and pcapng files, plain or gzipped, read and written frame by frame |
//! | [`packet`] | the buffer trait the data plane is written against, bursts, and the tag a buffer carries |
//! | [`pool`] | buffers on the heap, recycled through a bounded pool |
//! | [`port`] | ports as traits, and the in-memory port made of two rings |
//! | [`switch`] | an Ethernet switch in memory that forwards by destination MAC |

#![forbid(unsafe_code)]

pub mod capture;
pub mod packet;
pub mod pool;
pub mod port;
pub mod switch;

pub use capture::{CaptureError, CaptureReader, CaptureWriter, CapturedFrame, LinkType};
pub use packet::{BURST, Burst, PacketBuf, PacketSource, RoomError, Tag, reframed};
pub use pool::{Packet, Pool, PoolError};
pub use port::{MemoryPort, Port, RxPort, TxPort, memory_port_pair};
pub use switch::{MemorySwitch, SwitchPort, SwitchStats};
