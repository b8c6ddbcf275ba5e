//! An interface as a port.

use super::{
    PacketSocket, PacketSocketConfig, PacketSocketError, SocketStats, channel, interface, refused,
};
use crate::capture::LinkType;
use crate::packet::{Burst, PacketBuf};
use crate::pool::{Packet, Pool};
use crate::port::{RxPort, TxPort};
use ferranet::{RingConfig, Sender};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Packets that were lost between a port and its interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortDrops {
    /// Received when no buffer of the pool was free.
    pub no_buffer: u64,
    /// Received, longer than a buffer: switch off GRO at the interface.
    pub too_long: u64,
    /// Sent, and refused by the kernel: longer than the interface's MTU, or the interface is down.
    pub refused: u64,
}

/// An Ethernet interface as a port. Received frames are copied into buffers of a pool; a burst is sent by one system call
/// per frame.
#[derive(Debug)]
pub struct PacketPort {
    socket: PacketSocket,
    sender: Sender,
    pool: Pool,
    /// Frames of the last block that no burst has taken.
    waiting: VecDeque<Packet>,
    drops: PortDrops,
}

impl PacketPort {
    /// Opens an interface. `config` should hear incoming frames only, or the port receives what it sends.
    ///
    /// # Errors
    /// [`PacketSocketError`], also for an interface that is not Ethernet.
    pub fn open(name: &str, config: &PacketSocketConfig, pool: Pool) -> Result<Self, PacketSocketError> {
        let socket = PacketSocket::open(name, config)?;
        if socket.link() != LinkType::ETHERNET {
            let error = io::Error::other("it is no Ethernet interface, as a port that sends must be");
            return Err(PacketSocketError::System { name: name.to_owned(), error });
        }
        // Protocol 0 receives nothing.
        let quiet = channel(name, &interface(name)?).protocol(0).basic().rx_ring(RingConfig::small());
        let (sender, _) = quiet.build_sync().map_err(|error| refused(name, &error))?;
        Ok(Self { socket, sender, pool, waiting: VecDeque::new(), drops: PortDrops::default() })
    }

    /// Packets that were lost.
    pub const fn drops(&self) -> PortDrops {
        self.drops
    }

    /// What the kernel says of the receiving socket.
    ///
    /// # Errors
    /// [`PacketSocketError::System`].
    pub fn stats(&mut self) -> Result<SocketStats, PacketSocketError> {
        self.socket.stats()
    }
}

impl RxPort<Packet> for PacketPort {
    fn rx_burst(&mut self, burst: &mut Burst<Packet>) -> usize {
        let Self { socket, pool, waiting, drops, .. } = self;
        if waiting.is_empty() {
            let longest = pool.packet_bytes();
            // An interface that was removed receives nothing, like one that is down.
            let _ = socket.receive(Duration::ZERO, |frame| match pool.packet(frame.bytes) {
                Some(packet) => waiting.push_back(packet),
                None if frame.bytes.len() > longest => drops.too_long += 1,
                None => drops.no_buffer += 1,
            });
        }
        let taken = waiting.len().min(burst.remaining_capacity());
        burst.extend(waiting.drain(..taken));
        taken
    }
}

impl TxPort<Packet> for PacketPort {
    fn tx_burst(&mut self, burst: &mut Burst<Packet>) -> usize {
        let mut sent = 0;
        for packet in burst.iter() {
            match send(self.sender.as_fd(), packet.data(), SendFlags::DONTWAIT) {
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => break,
                Err(_) => self.drops.refused += 1,
            }
            sent += 1;
        }
        burst.drain(..sent);
        sent
    }
}
