//! The ports of `--port`: interfaces of Linux by packet sockets, and devices of DPDK.

use crate::error::ProcessError;
use crate::flows::summary::{Frames, PortCounters};
use crate::runtime::is_dpdk;
use scalebricks_io::packet_socket::SocketStats;
use scalebricks_io::{LinkType, PacketSocket, PacketSocketConfig, SocketFrame};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What ports had since the start, for the thread that shows it.
#[derive(Debug, Default)]
pub(in super::super) struct Seen {
    frames: AtomicU64,
    bytes: AtomicU64,
    no_packet: AtomicU64,
    dropped: AtomicU64,
}

/// A copy of [`Seen`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    /// Frames without an IP packet that the tracker takes.
    pub(super) no_packet: u64,
    pub(super) dropped: u64,
}

impl Seen {
    pub(super) fn counters(&self) -> Counters {
        Counters {
            frames: self.frames.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            no_packet: self.no_packet.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
        }
    }

    #[cfg(test)]
    pub(super) fn set_for_test(&self, [frames, bytes, no_packet, dropped]: [u64; 4]) {
        self.set(&Counters { frames, bytes, no_packet, dropped });
    }

    fn set(&self, counters: &Counters) {
        self.frames.store(counters.frames, Relaxed);
        self.bytes.store(counters.bytes, Relaxed);
        self.no_packet.store(counters.no_packet, Relaxed);
        self.dropped.store(counters.dropped, Relaxed);
    }
}

/// Takes received frames.
type Take<'a> = dyn FnMut(&SocketFrame<'_>, LinkType) + 'a;

enum Port {
    Socket(PacketSocket),
    #[cfg(feature = "dpdk")]
    Device(device::Device),
}

impl Port {
    fn name(&self) -> &str {
        match self {
            Self::Socket(socket) => socket.name(),
            #[cfg(feature = "dpdk")]
            Self::Device(device) => device.name(),
        }
    }

    fn receive(&mut self, wait: Duration, take: &mut Take<'_>) -> Result<usize, ProcessError> {
        match self {
            Self::Socket(socket) => {
                let link = socket.link();
                socket.receive(wait, |frame| take(frame, link)).map_err(ProcessError::from)
            }
            #[cfg(feature = "dpdk")]
            Self::Device(device) => Ok(device.receive(wait, take)),
        }
    }

    fn stats(&mut self) -> Result<SocketStats, ProcessError> {
        match self {
            Self::Socket(socket) => socket.check().and_then(|()| socket.stats()).map_err(ProcessError::from),
            #[cfg(feature = "dpdk")]
            Self::Device(device) => device.stats(),
        }
    }
}

/// Open ports.
pub(super) struct Ports {
    list: Vec<Port>,
    seen: Arc<Seen>,
    /// The port to wait at.
    turn: usize,
}

impl Ports {
    /// How long to wait for frames: Ctrl-C is noticed that much late.
    pub(super) const WAIT: Duration = Duration::from_millis(50);

    /// The same with several ports, all of which must be looked at.
    const WAIT_AT_ONE: Duration = Duration::from_millis(2);

    pub(super) fn open(names: &[String]) -> Result<Self, ProcessError> {
        let mut once = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !once.insert(name.as_str())) {
            return Err(ProcessError::Usage(format!("--port {twice} is given twice")));
        }
        let (devices, interfaces): (Vec<&str>, Vec<&str>) =
            names.iter().map(String::as_str).partition(|name| is_dpdk(name));
        let config = PacketSocketConfig::default();
        let open =
            |name: &&str| PacketSocket::open(name, &config).map(Port::Socket).map_err(ProcessError::from);
        let mut list: Vec<Port> = interfaces.iter().map(open).collect::<Result<_, _>>()?;
        list.extend(dpdk(&devices)?);
        Ok(Self { list, seen: Arc::default(), turn: 0 })
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.list.iter().map(Port::name).collect()
    }

    pub(super) fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }

    /// Whether frames of a port may lack their checksums.
    pub(super) fn has_offloads(&self) -> bool {
        self.list.iter().any(|port| matches!(port, Port::Socket(_)))
    }

    /// Calls `take` with the frames of all ports, of each in order; returns their number. Waits if there are none.
    pub(super) fn receive(&mut self, wait: Duration, take: &mut Take<'_>) -> Result<usize, ProcessError> {
        let mut came = 0;
        for port in &mut self.list {
            came += port.receive(Duration::ZERO, take)?;
        }
        let count = self.list.len();
        self.turn = (self.turn + 1) % count.max(1);
        match self.list.get_mut(self.turn) {
            Some(port) if came == 0 => {
                port.receive(if count == 1 { wait } else { wait.min(Self::WAIT_AT_ONE) }, take)
            }
            _ => Ok(came),
        }
    }

    /// Updates the counters of the ports.
    ///
    /// # Errors
    /// [`ProcessError::Ports`] if a port is gone.
    pub(super) fn count(&mut self, frames: &mut Frames) -> Result<(), ProcessError> {
        let mut counters = Counters {
            frames: frames.all,
            bytes: frames.bytes,
            no_packet: frames.without_packet().map(|(_, count)| count).sum(),
            dropped: 0,
        };
        frames.ports.resize_with(self.list.len(), PortCounters::default);
        let mut result = Ok(());
        for (port, last) in self.list.iter_mut().zip(&mut frames.ports) {
            port.name().clone_into(&mut last.name);
            match port.stats() {
                Ok(stats) => (last.frames, last.dropped) = (stats.frames, stats.dropped),
                Err(error) => result = result.and(Err(error)),
            }
            counters.dropped += last.dropped;
        }
        self.seen.set(&counters);
        result
    }
}

#[cfg(not(feature = "dpdk"))]
fn dpdk(names: &[&str]) -> Result<Vec<Port>, ProcessError> {
    match names {
        [] => Ok(Vec::new()),
        [name, ..] => Err(ProcessError::Usage(format!(
            "--port {name} is a device of DPDK, without which this program was built: name an interface of `ip link`, or build it with --features dpdk"
        ))),
    }
}

#[cfg(feature = "dpdk")]
fn dpdk(names: &[&str]) -> Result<Vec<Port>, ProcessError> {
    if names.is_empty() { Ok(Vec::new()) } else { device::open(names) }
}

/// Devices of DPDK, one queue each.
#[cfg(feature = "dpdk")]
mod device {
    use super::super::now;
    use super::{Port, ProcessError, Take};
    use crate::runtime::devices::{self, Devices, Half, PortRequest};
    use scalebricks_dpdk::{Mbuf, Port as Handle};
    use scalebricks_io::packet_socket::SocketStats;
    use scalebricks_io::{Burst, LinkType, PacketBuf, RxPort, SocketFrame};
    use std::sync::Arc;
    use std::time::Duration;

    /// Buffers: a queue cannot hold them all.
    const BUFFERS: usize = 8_192;

    /// Longest packet, bytes.
    const PACKET_BYTES: u16 = 9_216;

    /// Sleep of a port without packets.
    const NAP: Duration = Duration::from_micros(100);

    pub(super) struct Device {
        name: String,
        half: Half,
        handle: Arc<Handle>,
    }

    /// Starts DPDK and opens devices.
    pub(super) fn open(names: &[&str]) -> Result<Vec<Port>, ProcessError> {
        let buffers = u32::try_from(BUFFERS * (names.len() + 1)).unwrap_or(u32::MAX);
        let settings = devices::settings(names, buffers, u32::from(PACKET_BYTES));
        let wanted: Vec<PortRequest<'_>> =
            names.iter().map(|device| PortRequest { device, vlan: None, mtu: PACKET_BYTES }).collect();
        let opened = devices::open(&settings, 1, &wanted, |_, _| true, &Arc::default());
        let Devices { by_port, workers, .. } =
            opened.map_err(|error| ProcessError::Ports(error.to_string()))?;
        let halves = workers.into_iter().flatten().zip(by_port).zip(names);
        let device = |((half, handle), name): (_, &&str)| {
            Port::Device(Device { name: (*name).to_owned(), half, handle })
        };
        Ok(halves.map(device).collect())
    }

    impl Device {
        pub(super) fn name(&self) -> &str {
            &self.name
        }

        pub(super) fn receive(&mut self, wait: Duration, take: &mut Take<'_>) -> usize {
            let mut burst = Burst::<Mbuf>::new();
            let came = self.half.rx_burst(&mut burst);
            let timestamp = now();
            for packet in &burst {
                let bytes = packet.data();
                let original_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                take(&SocketFrame { bytes, original_len, timestamp }, LinkType::ETHERNET);
            }
            if came == 0 && !wait.is_zero() {
                std::thread::sleep(wait.min(NAP));
            }
            came
        }

        pub(super) fn stats(&self) -> Result<SocketStats, ProcessError> {
            let stats = self.handle.stats().map_err(|error| ProcessError::Ports(error.to_string()))?;
            let dropped = stats.rx_missed + stats.rx_no_buffer + stats.rx_errors + stats.rx_shared;
            Ok(SocketStats { frames: stats.rx_packets + dropped - stats.rx_shared, dropped })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(names: &[&str]) -> ProcessError {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Ports::open(&names).err().unwrap()
    }

    #[test]
    fn wrong_ports_are_refused() {
        let twice = open(&["no-such", "no-such"]);
        assert_eq!((twice.exit_code(), twice.to_string()), (2, "--port no-such is given twice".to_owned()));
        let missing = open(&["no-such"]).to_string();
        assert!(
            missing.starts_with("ports: there is no network interface 'no-such'; there are "),
            "{missing}"
        );
    }

    #[cfg(not(feature = "dpdk"))]
    #[test]
    fn devices_need_dpdk() {
        assert!(open(&["0000:01:00.0"]).to_string().contains("without which this program was built"));
    }
}
