//! Packet buffers, bursts and ports.
//!
//! | module | contents |
//! |---|---|
//! | [`capture`] | pcap and pcapng files, plain or gzipped, read and written by frames |
//! | [`gzip`] | streams and text files that may be gzipped |
//! | [`packet`] | traits for packet buffers, bursts, and tags |
//! | [`packet_socket`] | network interfaces of Linux as ports, by packet sockets |
//! | [`pool`] | a bounded pool of buffers on the heap |
//! | [`port`] | traits for ports, and a port in memory |
//! | [`secret_file`] | files with keys and passwords, whose permissions are checked |
//! | [`switch`] | an Ethernet switch in memory that forwards by destination MAC |

#![forbid(unsafe_code)]

pub mod capture;
pub mod gzip;
pub mod packet;
pub mod packet_socket;
pub mod pool;
pub mod port;
pub mod secret_file;
pub mod switch;

pub use capture::{CaptureError, CaptureReader, CaptureWriter, CapturedFrame, LinkType};
pub use gzip::open_text;
pub use packet::{BURST, Burst, PacketBuf, PacketSource, RoomError, Tag, reframed};
pub use packet_socket::{Heard, PacketSocket, PacketSocketConfig, PacketSocketError, SocketFrame};
pub use pool::{Packet, Pool, PoolError};
pub use port::{MemoryPort, Port, RxPort, TxPort, memory_port_pair};
pub use switch::{MemorySwitch, SwitchPort, SwitchStats};
