//! Routers between ports in memory, and how they are judged and measured.

use super::packets::RouterPackets;
use super::table::PORTS;
use crate::error::BenchError;
use crate::gateway::packet_ring::{ROTATION, Ring};
use crate::timing;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_graph::{Clock, Ledger, Worker};
use scalebricks_io::{BURST, Burst, PacketBuf, PacketSource, RxPort, TxPort};
use scalebricks_tables::prefetch_in_front;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// A ring of packets of the router.
pub(super) type RouterRing<P> = Ring<P, Arc<RouterPackets>>;

/// The worker's time: it stands still.
pub(super) const NOW: Duration = Duration::from_secs(1);

/// Seconds of a run.
const RUN_S: [f64; 2] = [0.005, 0.1];

/// Something that forwards packets between ports.
pub(super) trait Forwarder: Send {
    /// Takes packets from its ports and forwards them; 0 if there was nothing to do.
    fn turn(&mut self) -> usize;

    /// Sends what waits to become a burst.
    fn flush(&mut self) {}

    /// What the forwarder says is wrong after it has forwarded this many packets.
    fn fault(&self, _packets: usize) -> Option<String> {
        None
    }
}

/// An error of the benchmark.
pub(super) fn failed(name: &str, error: &impl Display) -> BenchError {
    BenchError::check(name, error.to_string())
}

/// A graph of the Click language.
pub(super) struct GraphForwarder<P: PacketBuf> {
    pub(super) worker: Worker<P>,
    ledger: Ledger,
    /// A counter of all elements that must have counted all packets.
    counts: Option<&'static str>,
}

impl<P: PacketBuf + 'static> GraphForwarder<P> {
    /// The graph of this text, whose devices are the ones of `devices`. Handlers are written before the first turn.
    ///
    /// # Errors
    /// [`BenchError::Check`] with the errors of the text.
    pub(super) fn new(
        name: &str,
        text: &str,
        mut devices: Devices<P>,
        writes: &[(String, &str, String)],
        buffers: Box<dyn PacketSource<P> + Send>,
    ) -> Result<Self, BenchError> {
        let registry = scalebricks_elements::registry::<P>();
        let router =
            Router::read(name, text.as_bytes(), &[], &registry).map_err(|errors| failed(name, &errors))?;
        let mut ledger = Ledger::new();
        let mut graph = router.graph(&registry, &mut ledger).map_err(|errors| failed(name, &errors))?;
        router.open(&mut graph, &mut devices).map_err(|errors| failed(name, &errors))?;
        for (element, handler, value) in writes {
            graph.write(element, handler, value).map_err(|error| failed(name, &error))?;
        }
        let worker = Worker::new(graph, buffers, ());
        Ok(Self { worker, ledger, counts: None })
    }

    /// Requires that this counter counts all packets.
    #[must_use]
    pub(super) fn that_counts(mut self, counter: &'static str) -> Self {
        self.counts = Some(counter);
        self
    }
}

impl<P: PacketBuf + 'static> Forwarder for GraphForwarder<P> {
    fn turn(&mut self) -> usize {
        self.worker.turn(NOW)
    }

    fn fault(&self, packets: usize) -> Option<String> {
        let counter = self.counts?;
        let counted: u64 = self.ledger.snapshot().iter().filter_map(|one| one.get(counter)).sum();
        (counted != packets as u64).then(|| format!("{counted} of {packets} packets were {counter}"))
    }
}

/// Devices `eth1` to `eth4` over the ports of a ring; packets arrive at `eth1`. `per_call` packets pass per transaction.
pub(super) fn ring_devices<P: PacketBuf + 'static>(ring: &RouterRing<P>, per_call: usize) -> Devices<P> {
    let mut devices = Devices::new(Clock::Wall);
    for port in 1..=PORTS {
        let device = format!("eth{port}");
        let end = |gives| Box::new(ring.port(port, gives).per_call(per_call));
        devices.receive(Some(&device), ReceiveBinding::Port(end(port == 1)));
        devices.send(&device, SendBinding::Port(end(false)));
    }
    devices
}

/// A router that is judged and measured in turns with others.
pub(super) trait Measured: Send {
    /// What it does, and who does it.
    fn name(&self) -> [&'static str; 2];

    /// Forwards some packets and checks each.
    ///
    /// # Errors
    /// [`BenchError::Check`] for the first fault or a lost packet.
    fn judge(&mut self) -> Result<(), BenchError>;

    /// Makes the packets its own, and forwards some.
    fn prepare(&mut self);

    /// Forwards about this many packets.
    ///
    /// # Errors
    /// [`BenchError::Check`] if packets were lost.
    fn pass(&mut self, packets: usize) -> Result<(), BenchError>;

    /// Lets as many pass from generator to sink alone.
    fn pass_ports(&mut self, packets: usize);

    /// Mean bytes of its frames with FCS.
    fn frame_bytes(&self) -> f64;

    /// Nanoseconds per packet, with generator and sink.
    ///
    /// # Errors
    /// As [`Self::pass`].
    fn measure(&mut self, packets: usize) -> Result<f64, BenchError> {
        self.prepare();
        let (passed, seconds) = timing::pinned(|| self.pass(packets))?;
        passed.map(|()| seconds * 1e9 / packets as f64)
    }

    /// Nanoseconds per packet of generator and sink alone.
    ///
    /// # Errors
    /// [`BenchError::Threads`].
    fn ports(&mut self, packets: usize) -> Result<f64, BenchError> {
        self.pass_ports(ROTATION);
        let ((), seconds) = timing::pinned(|| self.pass_ports(packets))?;
        Ok(seconds * 1e9 / packets as f64)
    }
}

/// How many packets take about as long as a run shall.
///
/// # Errors
/// As [`Measured::measure`].
pub(super) fn packets_per_run(of: &mut dyn Measured, is_quick: bool) -> Result<usize, BenchError> {
    let few = if is_quick { ROTATION } else { 4 * ROTATION };
    let seconds = of.measure(few)? * few as f64 / 1e9;
    let runs = (RUN_S[usize::from(!is_quick)] / seconds.max(1e-6)).ceil();
    #[expect(clippy::cast_sign_loss, reason = "a positive quotient")]
    Ok(few * (runs as usize).clamp(1, 256))
}

/// A forwarder between the ports of a ring.
pub(super) struct Contender<P: PacketBuf> {
    name: [&'static str; 2],
    forwarder: Box<dyn Forwarder>,
    kind: Arc<RouterPackets>,
    ring: RouterRing<P>,
    per_call: usize,
}

impl<P: PacketBuf + 'static> Contender<P> {
    /// A forwarder of these packets: what it does, and its name.
    pub(super) fn new(
        name: [&'static str; 2],
        forwarder: impl Forwarder + 'static,
        kind: &Arc<RouterPackets>,
        ring: &RouterRing<P>,
    ) -> Self {
        let (kind, ring) = (Arc::clone(kind), ring.clone());
        Self { name, forwarder: Box::new(forwarder), kind, ring, per_call: WHOLE }
    }

    /// The same between ports that take so many packets per transaction.
    #[must_use]
    pub(super) fn per_call(mut self, packets: usize) -> Self {
        self.per_call = packets;
        self
    }

    /// Runs until about this many packets were taken.
    fn forward(&mut self, packets: usize) {
        self.ring.limit(packets);
        while self.ring.left() > 0 {
            self.forwarder.turn();
        }
        // Packets that wait in queues or for a device.
        while self.ring.len() < ROTATION && self.forwarder.turn() > 0 {}
        self.forwarder.flush();
    }

    /// Nanoseconds of a turn that finds no packet.
    ///
    /// # Errors
    /// [`BenchError::Threads`].
    pub(super) fn empty_turn(&mut self, turns: usize) -> Result<f64, BenchError> {
        self.ring.limit(0);
        let ((), seconds) = timing::pinned(|| {
            for _ in 0..turns {
                self.forwarder.turn();
            }
        })?;
        Ok(seconds * 1e9 / turns as f64)
    }
}

impl<P: PacketBuf + 'static> Measured for Contender<P> {
    fn name(&self) -> [&'static str; 2] {
        self.name
    }

    fn judge(&mut self) -> Result<(), BenchError> {
        // The first turn of a graph copies its tables, and takes no packets.
        self.ring.limit(0);
        self.forwarder.turn();
        self.ring.send_of(Arc::clone(&self.kind));
        self.ring.check(|_| ());
        let all = 2 * self.kind.len();
        self.forward(all);
        let checked = self.ring.checked();
        let fault = checked.fault.map(str::to_owned).or_else(|| {
            let is_lost = checked.packets != all || self.ring.len() != ROTATION;
            is_lost.then(|| format!("{} of {all} packets left", checked.packets))
        });
        let fault = fault.or_else(|| self.forwarder.fault(all));
        fault.map_or(Ok(()), |fault| Err(BenchError::check(&self.name.join(", "), fault)))
    }

    fn prepare(&mut self) {
        self.ring.limit(0);
        self.forwarder.turn();
        self.ring.send_of(Arc::clone(&self.kind));
        self.forward(ROTATION);
    }

    fn pass(&mut self, packets: usize) -> Result<(), BenchError> {
        self.forward(packets);
        let lost = ROTATION - self.ring.len().min(ROTATION);
        if lost == 0 {
            return Ok(());
        }
        Err(BenchError::check(&self.name.join(", "), format!("{lost} packets were lost")))
    }

    fn pass_ports(&mut self, packets: usize) {
        self.ring.limit(usize::MAX);
        let end = |port, gives| self.ring.port(port, gives).per_call(self.per_call);
        let (mut rx, mut tx) = (end(1, true), end(2, false));
        let (mut passed, mut burst) = (0, Burst::new());
        while passed < packets {
            passed += rx.rx_burst(&mut burst);
            // As all routers do; otherwise the sink would wait for memory that they do not wait for.
            burst.iter().for_each(|packet| prefetch_in_front(packet.data(), 0));
            tx.tx_burst(&mut burst);
        }
    }

    fn frame_bytes(&self) -> f64 {
        self.kind.frame_bytes()
    }
}

/// Packets per transaction of a port that takes a burst at once.
pub(super) const WHOLE: usize = BURST;
