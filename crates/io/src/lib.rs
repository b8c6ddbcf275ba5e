//! Packet buffers, bursts and ports.
//!
//! | module | contents |
//! |---|---|
//! | [`capture`] | pcap and pcapng files, plain or gzipped, read and written by frames |
//! | [`decompress`] | a stream that may be gzipped |
//! | [`packet`] | traits for packet buffers, bursts, and tags |
//! | [`pool`] | a bounded pool of buffers on the heap |
//! | [`port`] | traits for ports, and a port in memory |
//! | [`switch`] | an Ethernet switch in memory that forwards by destination MAC |

#![forbid(unsafe_code)]

pub mod capture;
mod gzip;
pub mod packet;
pub mod pool;
pub mod port;
pub mod switch;

pub use capture::{CaptureError, CaptureReader, CaptureWriter, CapturedFrame, LinkType};
pub use gzip::decompress;
pub use packet::{BURST, Burst, PacketBuf, PacketSource, RoomError, Tag, reframed};
pub use pool::{Packet, Pool, PoolError};
pub use port::{MemoryPort, Port, RxPort, TxPort, memory_port_pair};
pub use switch::{MemorySwitch, SwitchPort, SwitchStats};
