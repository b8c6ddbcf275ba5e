//! Network interfaces of Linux, received from and sent to by packet sockets (`packet(7)`): no driver is unbound, and the
//! system's own network stack keeps working beside it.
//!
//! ```text
//! interface ─▶ ring shared with the kernel (TPACKET_V3) ─▶ PacketSocket: frames where they lie
//!                                                           └─▶ PacketRx: copies in buffers of a Pool
//! PacketTx ─▶ interface, one system call per frame
//! ```
//!
//! The kernel fills blocks of the ring and hands each over when it is full or [`RETIRE`] has passed. What does not fit is
//! dropped by the kernel and counted.
//!
//! **Offloads.** A socket sees frames as the kernel handles them, not as they are on the wire. The card has not filled in the
//! checksums of frames that are sent, nor cut them into segments (TSO); those that were received may be several that the
//! kernel joined (GRO). Such a frame has up to 64 KiB, and the ring has room for it.

mod port;

use crate::capture::LinkType;
use ferranet::{BpfInsn, Channel, ChannelBuilder, Receiver, RingConfig};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::time::{Duration, UNIX_EPOCH};

pub use port::{PacketRx, PacketTx, PortDrops, open_port};

/// Time after which the kernel hands over a block that is not full.
pub const RETIRE: Duration = Duration::from_millis(10);

/// A block holds the largest frame that the kernel joins, and many small ones.
const BLOCK_BYTES: u32 = 1 << 20;

/// Hardware types of interfaces whose frames are Ethernet (`linux/if_arp.h`).
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;

/// Error numbers of Linux.
const ENETDOWN: i32 = 100;

/// Which frames of an interface are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Those that come in and those that this machine sends.
    BothWays,
    /// Those that come in.
    Incoming,
}

/// How an interface is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSocketConfig {
    /// Which frames are received. On the loopback interface each packet is sent and comes in; it is received once.
    pub heard: Heard,
    /// Also receive frames to other stations, as long as the socket is open.
    pub promiscuous: bool,
    /// Size of the ring, MiB; memory of the kernel.
    pub ring_mib: u32,
}

impl Default for PacketSocketConfig {
    /// Both ways, promiscuous, a ring of 16 MiB.
    fn default() -> Self {
        Self { heard: Heard::BothWays, promiscuous: true, ring_mib: 16 }
    }
}

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PacketSocketError {
    /// No interface has this name.
    #[error("there is no network interface '{name}'; there are {}", known.join(", "))]
    NoInterface {
        /// The name.
        name: String,
        /// All names.
        known: Vec<String>,
    },
    /// The process has no right to open packet sockets.
    #[error(
        "interface {name}: packet sockets need the right CAP_NET_RAW: run as root, or grant it once by `setcap cap_net_raw+ep PROGRAM`"
    )]
    NotAllowed {
        /// The interface.
        name: String,
    },
    /// The interface was removed.
    #[error("interface {name} was removed")]
    Removed {
        /// The interface.
        name: String,
    },
    /// The system refuses.
    #[error("interface {name}: {error}")]
    System {
        /// The interface.
        name: String,
        /// Its error.
        error: io::Error,
    },
}

/// A frame of an interface, where the kernel has put it.
#[derive(Debug, Clone, Copy)]
pub struct SocketFrame<'a> {
    /// An Ethernet frame, or an IP packet: see [`PacketSocket::link`].
    pub bytes: &'a [u8],
    /// Length before the kernel cut it, bytes.
    pub original_len: u32,
    /// When the kernel received or sent it, since 1970-01-01 UTC.
    pub timestamp: Duration,
}

/// What the kernel says of a socket, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketStats {
    /// Frames for the socket, dropped ones included.
    pub frames: u64,
    /// Those of them that the kernel dropped because the ring was full.
    pub dropped: u64,
}

/// A network interface to receive from.
#[derive(Debug)]
pub struct PacketSocket {
    name: String,
    index: u32,
    link: LinkType,
    receiver: Receiver,
}

/// What the system says of an interface.
struct Interface {
    index: u32,
    is_ethernet: bool,
    is_loopback: bool,
}

fn interface(name: &str) -> Result<Interface, PacketSocketError> {
    let system = |error: nix::Error| PacketSocketError::System { name: name.to_owned(), error: error.into() };
    let entries: Vec<_> = getifaddrs().map_err(system)?.collect();
    let (mut is_known, mut is_ethernet, mut is_loopback) = (false, false, false);
    for entry in entries.iter().filter(|entry| entry.interface_name == name) {
        is_known = true;
        is_loopback |= entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        // Interfaces without hardware address, such as TUN, have no such entry.
        let link = entry.address.as_ref().and_then(|address| address.as_link_addr());
        is_ethernet |= link.is_some_and(|link| [ETHERNET, LOOPBACK].contains(&link.hatype()));
    }
    match if_nametoindex(name) {
        Ok(index) if is_known => Ok(Interface { index, is_ethernet, is_loopback }),
        _ => {
            let known: BTreeSet<String> = entries.into_iter().map(|entry| entry.interface_name).collect();
            let known = known.into_iter().collect();
            Err(PacketSocketError::NoInterface { name: name.to_owned(), known })
        }
    }
}

fn refused(name: &str, error: &ferranet::Error) -> PacketSocketError {
    let name = name.to_owned();
    let system = error.as_io().map(|error| (error.kind(), error.raw_os_error()));
    match system {
        Some((ErrorKind::PermissionDenied, _)) => PacketSocketError::NotAllowed { name },
        Some((_, Some(number))) => {
            PacketSocketError::System { name, error: io::Error::from_raw_os_error(number) }
        }
        _ => PacketSocketError::System { name, error: io::Error::other(error.to_string()) },
    }
}

/// A filter of classic BPF that refuses frames that this machine sends.
fn not_outgoing() -> Vec<BpfInsn> {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// The packet's type, at the offsets for what is beside the packet (`SKF_AD_OFF + SKF_AD_PKTTYPE`).
    const PACKET_TYPE: u32 = 0xffff_f004;
    const OUTGOING: u32 = 4;
    vec![
        BpfInsn::new(LOAD_BYTE, 0, 0, PACKET_TYPE),
        BpfInsn::new(JUMP_IF_EQUAL, 0, 1, OUTGOING),
        BpfInsn::new(RETURN, 0, 0, 0),
        BpfInsn::new(RETURN, 0, 0, u32::MAX),
    ]
}

/// A channel that is yet to be opened.
fn channel(name: &str, interface: &Interface) -> ChannelBuilder {
    let builder = Channel::builder(name);
    // Without a link header, frames of all other kinds begin with the IP header.
    if interface.is_ethernet { builder } else { builder.dgram() }
}

impl PacketSocket {
    /// Opens an interface.
    ///
    /// # Errors
    /// [`PacketSocketError`].
    pub fn open(name: &str, config: &PacketSocketConfig) -> Result<Self, PacketSocketError> {
        let interface = interface(name)?;
        let ring = RingConfig {
            block_size: BLOCK_BYTES,
            block_count: config.ring_mib.max(2),
            retire_blk_tov_ms: RETIRE.as_millis() as u32, // a constant
            ..RingConfig::rx_default()
        };
        let mut builder = channel(name, &interface).rx_ring(ring).promiscuous(config.promiscuous);
        if config.heard == Heard::Incoming || interface.is_loopback {
            builder = builder.filter(not_outgoing());
        }
        // A group of one: a receiver without a sender, whose socket would receive too.
        let receiver = builder.build_fanout_rx(1).map_err(|error| refused(name, &error))?.pop();
        let receiver = receiver.ok_or_else(|| PacketSocketError::Removed { name: name.to_owned() })?;
        let link = if interface.is_ethernet { LinkType::ETHERNET } else { LinkType::RAW };
        Ok(Self { name: name.to_owned(), index: interface.index, link, receiver })
    }

    /// The interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What frames are: Ethernet, or raw IP packets of interfaces of other kinds, whose link header the kernel takes off.
    pub const fn link(&self) -> LinkType {
        self.link
    }

    /// Calls `each` with every frame of the next block, in order; returns their number. Waits at most for `wait`, or until
    /// the interface goes down.
    ///
    /// # Errors
    /// [`PacketSocketError`]. An interface that is down is no error: it may come up again.
    pub fn receive(
        &mut self,
        wait: Duration,
        mut each: impl FnMut(&SocketFrame<'_>),
    ) -> Result<usize, PacketSocketError> {
        let error = match self.receiver.recv_block_timeout(wait) {
            Ok(None) => return Ok(0),
            Ok(Some(block)) => {
                for frame in block.frames() {
                    each(&SocketFrame {
                        bytes: frame.data(),
                        original_len: u32::try_from(frame.wire_len()).unwrap_or(u32::MAX),
                        timestamp: frame
                            .timestamp()
                            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                            .unwrap_or_default(),
                    });
                }
                return Ok(block.len());
            }
            Err(error) => error,
        };
        if error.as_io().and_then(io::Error::raw_os_error) != Some(ENETDOWN) {
            return Err(refused(&self.name, &error));
        }
        self.check().map(|()| 0)
    }

    /// Fails if the interface was removed. To be called now and then: a socket says only that its interface is down.
    ///
    /// # Errors
    /// [`PacketSocketError::Removed`].
    pub fn check(&self) -> Result<(), PacketSocketError> {
        match interface(&self.name) {
            Ok(now) if now.index == self.index => Ok(()),
            Ok(_) | Err(PacketSocketError::NoInterface { .. }) => {
                Err(PacketSocketError::Removed { name: self.name.clone() })
            }
            Err(error) => Err(error),
        }
    }

    /// What the kernel says of the socket.
    ///
    /// # Errors
    /// [`PacketSocketError::System`].
    pub fn stats(&mut self) -> Result<SocketStats, PacketSocketError> {
        let stats = self.receiver.stats().map_err(|error| refused(&self.name, &error))?;
        Ok(SocketStats { frames: stats.received, dropped: stats.dropped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_is_named_with_those_that_exist() {
        let error = PacketSocket::open("no-such-port", &PacketSocketConfig::default()).unwrap_err();
        let PacketSocketError::NoInterface { known, .. } = &error else { panic!("{error}") };
        assert!(known.iter().any(|name| name == "lo"), "{known:?}");
        assert!(error.to_string().starts_with("there is no network interface 'no-such-port'; there are "));
    }

    #[test]
    fn errors_of_the_system_say_what_to_do() {
        let denied = ferranet::Error::Socket(io::Error::from_raw_os_error(1));
        assert!(refused("eth0", &denied).to_string().contains("CAP_NET_RAW: run as root"));
        let busy = ferranet::Error::Bind(io::Error::from_raw_os_error(16));
        assert_eq!(
            refused("eth0", &busy).to_string(),
            "interface eth0: Device or resource busy (os error 16)"
        );
    }
}
