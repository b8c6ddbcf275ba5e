//! The fabric's probes, as a worker sends, echoes and receives them; and the ways that its node uses.

use crate::fabric_health::probe::{FRAME_BYTES, Kind, Probe};
use crate::fabric_health::{FabricHealth, Routes};
use crate::fabric_mac::{FabricMac, Phase};
use crate::node::Node;
use crate::reason::DropReason;
use scalebricks_io::{Burst, PacketBuf};
use scalebricks_types::NodeId;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at the ways and at what is due.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Echoes that a worker sends to one node in a [`WINDOW`], at the most: one for each worker that a node can have. Whoever replays probes
/// cannot make it send more.
const ECHOES: u8 = 64;

/// See [`ECHOES`].
const WINDOW: Duration = Duration::from_millis(100);

/// What a node's worker needs for it.
#[derive(Debug)]
pub(crate) struct Prober {
    health: Arc<FabricHealth>,
    routes: Arc<Routes>,
    generation: u64,
    next_probe: Duration,
    /// By node: echoes sent to it since the window began.
    echoes: Box<[u8; 256]>,
    window: Duration,
}

impl Prober {
    /// Whether one more echo may go to this node.
    fn may_echo(&mut self, to: NodeId, now: Duration) -> bool {
        if now >= self.window + WINDOW || now < self.window {
            self.window = now;
            self.echoes.fill(0);
        }
        let sent = &mut self.echoes[to.index()];
        *sent = sent.saturating_add(1);
        *sent <= ECHOES
    }

    /// VLB: whether a packet for `node` gets there over `intermediate`, as far as is known.
    pub(crate) fn leads_over(&self, intermediate: NodeId, node: NodeId) -> bool {
        self.routes.leads_over(intermediate, node)
    }
}

impl<P: PacketBuf> Node<P> {
    /// Takes part in probing from now on, and goes round what is broken.
    pub fn set_fabric_health(&mut self, health: Arc<FabricHealth>) {
        let (routes, generation) = (health.routes(), health.generation());
        let next_probe = if health.interval().is_some() { Duration::ZERO } else { Duration::MAX };
        let (echoes, window) = (Box::new([0; 256]), Duration::ZERO);
        self.goes_round = !routes.is_direct();
        self.prober = Some(Box::new(Prober { health, routes, generation, next_probe, echoes, window }));
        self.probing_due = Duration::ZERO;
    }

    /// Sends probes if they are due, and takes the newest ways.
    #[cold]
    pub(crate) fn look_after_fabric(&mut self, now: Duration) {
        let Some(prober) = &mut self.prober else {
            self.probing_due = Duration::MAX;
            return;
        };
        self.probing_due = now + LOOK_EVERY;
        let generation = prober.health.generation();
        if generation != prober.generation {
            (prober.routes, prober.generation) = (prober.health.routes(), generation);
            self.goes_round = !prober.routes.is_direct();
        }
        if now >= prober.next_probe {
            prober.next_probe = prober.health.interval().map_or(Duration::MAX, |interval| now + interval);
            let health = Arc::clone(&prober.health);
            self.send_probes(&health, now);
        }
    }

    fn send_probes(&mut self, health: &FabricHealth, now: Duration) {
        let source = self.own_fabric[0];
        let mut burst = Burst::new();
        for to in health.others() {
            let frame = health.probe_for(to, source, now);
            match self.buffers.alloc().and_then(|mut packet| packet.append(&frame).ok().map(|()| packet)) {
                Some(packet) => burst.push(packet),
                None => self.stats.probes_unsent += 1,
            }
            if burst.is_full() {
                self.flush_probes(&mut burst);
            }
        }
        self.flush_probes(&mut burst);
    }

    /// Sends probes ahead of the frames that wait for a congested fabric. What is refused is not sent later: it would be old.
    fn flush_probes(&mut self, burst: &mut Burst<P>) {
        if !burst.is_empty() {
            self.stats.probes_out += self.ports.fabric.tx_burst(burst) as u64;
            self.stats.probes_unsent += burst.drain(..).len() as u64;
        }
    }

    /// A frame for this node's probe address: a probe is echoed, an echo is taken in. Such frames do not count as packets.
    pub(crate) fn receive_probe(&mut self, packet: P, now: Duration) {
        let opened = self.prober.as_mut().and_then(|prober| {
            let probe = prober.health.open(packet.data())?;
            prober.health.receive(probe, now);
            let is_due = probe.kind == Kind::Probe && prober.may_echo(probe.from, now);
            Some((Arc::clone(&prober.health), probe, is_due))
        });
        let Some((health, probe, is_due)) = opened else {
            return self.drop_packet(packet, DropReason::BadProbe);
        };
        self.stats.fabric_in -= 1;
        self.stats.probes_in += 1;
        if is_due {
            self.send_echo(packet, &health, &probe, now);
        } else {
            self.stats.probes_unsent += u64::from(probe.kind == Kind::Probe);
        }
    }

    /// The echo takes the place of the probe in its buffer.
    fn send_echo(&mut self, mut packet: P, health: &FabricHealth, probe: &Probe, now: Duration) {
        let echo = health.echo_of(probe, self.own_fabric[0], now);
        packet.truncate(FRAME_BYTES);
        if let Some(place) = packet.data_mut().first_chunk_mut() {
            *place = echo;
        }
        self.flush_probes(&mut std::iter::once(packet).collect());
    }

    /// The address to send a frame to, where some ways are broken.
    #[cold]
    #[inline(never)]
    pub(crate) fn go_round(&mut self, mac: FabricMac) -> FabricMac {
        let routes = self.prober.as_ref().map(|prober| &prober.routes);
        match routes.and_then(|routes| routes.via(mac.node)) {
            Some(relay) if !mac.phase.is_indirect() && mac.phase != Phase::Probe => {
                self.stats.relayed += 1;
                mac.by_way_of(relay)
            }
            _ => mac,
        }
    }
}
