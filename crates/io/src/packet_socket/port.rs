//! An interface as a port.

use super::{PacketSocket, PacketSocketConfig, PacketSocketError, channel, interface, refused};
use crate::capture::LinkType;
use crate::packet::{Burst, PacketBuf};
use crate::pool::{Packet, Pool};
use crate::port::{RxPort, TxPort};
use ferranet::{RingConfig, Sender};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The receiving side of an Ethernet interface as a port. Frames are copied into buffers of a pool.
#[derive(Debug)]
pub struct PacketRx {
    socket: PacketSocket,
    pool: Pool,
    /// Frames of the last block that no burst has taken.
    waiting: VecDeque<Packet>,
    drops: Arc<PortDrops>,
}

/// The sending side: one system call per frame.
#[derive(Debug)]
pub struct PacketTx {
    sender: Sender,
    drops: Arc<PortDrops>,
}

/// Frames that a port lost, by reason. Any thread may read it.
#[derive(Debug, Default)]
pub struct PortDrops {
    ring_full: AtomicU64,
    no_buffer: AtomicU64,
    too_long: AtomicU64,
    refused: AtomicU64,
}

impl PortDrops {
    /// Counters by name. `ring_full`: received, and dropped by the kernel, because the port was polled too seldom; `no_buffer`:
    /// received while the pool was empty; `too_long`: received, and longer than a buffer: the kernel may have joined them
    /// (GRO); `refused`: sent, and refused by the kernel: longer than the interface's MTU, or the interface is down.
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("ring_full", self.ring_full.load(Relaxed)),
            ("no_buffer", self.no_buffer.load(Relaxed)),
            ("too_long", self.too_long.load(Relaxed)),
            ("refused", self.refused.load(Relaxed)),
        ]
    }
}

/// Opens both sides of an interface. `config` should hear incoming frames only, or the port receives what it sends.
///
/// # Errors
/// [`PacketSocketError`], also for an interface that is not Ethernet.
pub fn open_port(
    name: &str,
    config: &PacketSocketConfig,
    pool: Pool,
) -> Result<(PacketRx, PacketTx, Arc<PortDrops>), PacketSocketError> {
    let socket = PacketSocket::open(name, config)?;
    if socket.link() != LinkType::ETHERNET {
        let error = io::Error::other("it is no Ethernet interface, as a port that sends must be");
        return Err(PacketSocketError::System { name: name.to_owned(), error });
    }
    // Protocol 0 receives nothing.
    let quiet = channel(name, &interface(name)?).protocol(0).basic().rx_ring(RingConfig::small());
    let (sender, _) = quiet.build_sync().map_err(|error| refused(name, &error))?;
    let drops = Arc::new(PortDrops::default());
    let receives = PacketRx { socket, pool, waiting: VecDeque::new(), drops: Arc::clone(&drops) };
    Ok((receives, PacketTx { sender, drops: Arc::clone(&drops) }, drops))
}

impl RxPort<Packet> for PacketRx {
    fn rx_burst(&mut self, burst: &mut Burst<Packet>) -> usize {
        let Self { socket, pool, waiting, drops } = self;
        if waiting.is_empty() {
            let longest = pool.packet_bytes();
            // An interface that was removed receives nothing, like one that is down.
            let came = socket.receive(Duration::ZERO, |frame| {
                if frame.bytes.len() > longest {
                    drops.too_long.fetch_add(1, Relaxed);
                } else if let Some(packet) = pool.packet(frame.bytes) {
                    waiting.push_back(packet);
                } else {
                    drops.no_buffer.fetch_add(1, Relaxed);
                }
            });
            // After a full ring, blocks come.
            if came.is_ok_and(|count| count > 0)
                && let Ok(stats) = socket.stats()
            {
                drops.ring_full.store(stats.dropped, Relaxed);
            }
        }
        let taken = waiting.len().min(burst.remaining_capacity());
        burst.extend(waiting.drain(..taken));
        taken
    }
}

impl TxPort<Packet> for PacketTx {
    fn tx_burst(&mut self, burst: &mut Burst<Packet>) -> usize {
        let mut sent = 0;
        for packet in burst.iter() {
            match send(self.sender.as_fd(), packet.data(), SendFlags::DONTWAIT) {
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => break,
                Err(_) => {
                    self.drops.refused.fetch_add(1, Relaxed);
                }
            }
            sent += 1;
        }
        burst.drain(..sent);
        sent
    }
}
