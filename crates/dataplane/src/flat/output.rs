//! The ports of a switch: what came by them, what waits to leave by them, who may not send to whom.

use super::action::{MAX_PORTS, PortNo};
use super::reason::SwitchDrop;
use super::stats::PortCounts;
use scalebricks_io::Port;
use scalebricks_io::{Burst, PacketBuf};

/// Ports between which nothing is sent: a frame that came by one of them leaves by none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortGroup(pub u16);

/// A port, as a switch is given it.
pub struct SwitchPort<P> {
    /// The queues.
    pub port: Box<dyn Port<P>>,
    /// Its group, if it is in one; else it is alone.
    pub group: Option<PortGroup>,
}

struct One<P> {
    port: Box<dyn Port<P>>,
    group: Option<PortGroup>,
    waiting: Burst<P>,
    counts: PortCounts,
}

/// All ports.
pub(super) struct Output<P> {
    ports: Vec<One<P>>,
}

impl<P: PacketBuf> One<P> {
    /// Sends what waits. What the port does not take is dropped: a switch that waited for one port would hold up all.
    fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let bytes = |burst: &Burst<P>| burst.iter().map(|packet| packet.data().len() as u64).sum::<u64>();
        let all = bytes(&self.waiting);
        let sent = self.port.tx_burst(&mut self.waiting);
        self.counts.tx_frames += sent as u64;
        self.counts.tx_bytes += all - bytes(&self.waiting);
        self.waiting.drain(..).for_each(|_| self.counts.drop(SwitchDrop::PortFull));
    }
}

impl<P: PacketBuf> Output<P> {
    pub(super) fn new(ports: Vec<SwitchPort<P>>) -> Self {
        let one = |SwitchPort { port, group }| One {
            port,
            group,
            waiting: Burst::new(),
            counts: PortCounts::default(),
        };
        Self { ports: ports.into_iter().take(MAX_PORTS).map(one).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = PortCounts> + '_ {
        self.ports.iter().map(|port| port.counts)
    }

    /// The counters of a port there is.
    pub(super) fn count(&mut self, port: PortNo) -> &mut PortCounts {
        &mut self.ports[port.index()].counts
    }

    pub(super) fn receive(&mut self, port: PortNo, burst: &mut Burst<P>) -> usize {
        let Some(one) = self.ports.get_mut(port.index()) else { return 0 };
        let came = one.port.rx_burst(burst);
        one.counts.rx_frames += came as u64;
        one.counts.rx_bytes += burst.iter().map(|packet| packet.data().len() as u64).sum::<u64>();
        came
    }

    /// Whether what came by one port may leave by another.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub(super) fn may_send(&self, from: PortNo, to: PortNo) -> Result<(), SwitchDrop> {
        let port = self.ports.get(to.index()).ok_or(SwitchDrop::NoSuchPort)?;
        let group_of_from = self.ports.get(from.index()).and_then(|port| port.group);
        if from == to || (port.group.is_some() && port.group == group_of_from) {
            return Err(SwitchDrop::SplitHorizon);
        }
        Ok(())
    }

    /// The ports by which a frame may leave, ascending.
    pub(super) fn others(&self, from: PortNo) -> impl Iterator<Item = PortNo> + '_ {
        let ports = (0..self.ports.len()).filter_map(PortNo::new);
        ports.filter(move |&to| self.may_send(from, to).is_ok())
    }

    /// Sends a frame, at the latest at the next [`flush`](Self::flush), or drops it.
    #[inline]
    pub(super) fn send(&mut self, from: PortNo, to: PortNo, packet: P) {
        if let Err(reason) = self.may_send(from, to) {
            return self.drop(from, reason);
        }
        let port = &mut self.ports[to.index()];
        port.waiting.push(packet);
        if port.waiting.is_full() {
            port.flush();
        }
    }

    /// Counts a frame that goes nowhere.
    #[inline]
    pub(super) fn drop(&mut self, port: PortNo, reason: SwitchDrop) {
        self.count(port).drop(reason);
    }

    pub(super) fn flush(&mut self) {
        self.ports.iter_mut().for_each(One::flush);
    }
}
