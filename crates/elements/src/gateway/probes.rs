//! `Probes`.

use crate::gateway::fabric::health::FabricHealth;
use crate::gateway::fabric::health::probe::{FRAME_BYTES, Kind, Probe};
use crate::gateway::fabric::mac::{FabricMac, OutputPort};
use crate::gateway::reason::DropReason;
use scalebricks_graph::{Bursts, Control, Element, Frame, Out, element};
use scalebricks_io::PacketBuf;
use scalebricks_types::NodeId;
use scalebricks_wire::MacAddr;
use std::sync::Arc;
use std::time::Duration;

/// Most echoes that a worker sends to one node per [`WINDOW`]: one for each worker that a node can have. Replayed
/// probes cannot make it send more.
const ECHOES: u8 = 64;

/// See [`ECHOES`].
const WINDOW: Duration = Duration::from_millis(100);

element! {
    /// Sends the fabric's probes when they are due, echoes probes of other nodes, and receives echoes. Without fabric
    /// health it takes no part in probing.
    pub struct Probes as "Probes" { source: MacAddr, health: Option<Arc<FabricHealth>>, budget: Budget, }
    inputs { burst "in" [Optional]: "Frames for this node's probe address.", }
    outputs { burst "out": "Probes and echoes.", }
    drops { BAD_PROBE = DropReason::BadProbe, }
    counters {
        RECEIVED = "probes_received": "Probes and echoes received from the fabric.",
        UNSENT = "probes_unsent": "Probes and echoes that were not sent: no buffer was free, or the other node asked for too many.",
    }
}

/// Echoes sent to each node in the current window.
#[derive(Debug)]
struct Budget {
    echoes: Box<[u8; 256]>,
    window: Duration,
}

impl Budget {
    /// Whether another echo may go to this node.
    fn may_echo(&mut self, to: NodeId, now: Duration) -> bool {
        if now >= self.window + WINDOW || now < self.window {
            self.window = now;
            self.echoes.fill(0);
        }
        let sent = &mut self.echoes[to.index()];
        *sent = sent.saturating_add(1);
        *sent <= ECHOES
    }
}

impl Probes {
    /// Creates the element of a node.
    pub fn new(id: NodeId) -> Self {
        let source = FabricMac::handling(id, OutputPort::ALL[0]).encode();
        let budget = Budget { echoes: Box::new([0; 256]), window: Duration::ZERO };
        Self { source, health: None, budget }
    }

    /// Starts probing: sends probes whenever its timer expires.
    pub(super) fn set_health(&mut self, health: Arc<FabricHealth>) {
        self.health = Some(health);
    }
}

impl Control for Probes {}

impl<P: PacketBuf> Element<P> for Probes {
    fn timer(&mut self, _: u64, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let now = out.now();
        let Some(health) = &self.health else { return };
        let Some(interval) = health.interval() else { return };
        // A worker has room for a million timers, and a node sets one.
        let _timer = out.wake_in(interval, 0);
        for to in health.others() {
            let probe = health.probe_for(to, self.source, now);
            match frame.alloc().and_then(|mut packet| packet.append(&probe).ok().map(|()| packet)) {
                Some(packet) => frame.send(0, packet),
                None => out.count(Self::UNSENT, 1),
            }
        }
    }

    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let now = out.now();
        bursts.each(|chunk| {
            for packet in chunk.packets.drain(..) {
                let health = self.health.as_ref();
                let Some((health, probe)) =
                    health.and_then(|health| Some((health, health.open(packet.data())?)))
                else {
                    out.drop_packet(packet, Self::BAD_PROBE, frame);
                    continue;
                };
                health.receive(probe, now);
                out.count(Self::RECEIVED, 1);
                if probe.kind != Kind::Probe {
                    continue;
                }
                if self.budget.may_echo(probe.from, now) {
                    frame.send(0, echo(packet, health, &probe, self.source, now));
                } else {
                    out.count(Self::UNSENT, 1);
                }
            }
        });
    }
}

/// The echo reuses the probe's buffer.
fn echo<P: PacketBuf>(
    mut packet: P,
    health: &FabricHealth,
    probe: &Probe,
    source: MacAddr,
    now: Duration,
) -> P {
    let echo = health.echo_of(probe, source, now);
    packet.truncate(FRAME_BYTES);
    if let Some(place) = packet.data_mut().first_chunk_mut() {
        *place = echo;
    }
    packet
}
