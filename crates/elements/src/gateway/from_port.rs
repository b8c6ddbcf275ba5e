//! `FromPort`.

use crate::gateway::role::PortRole;
use scalebricks_graph::{Control, Element, Frame, Out, SLOTS, Upstream, element};
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_tables::prefetch_in_front;

/// Most packets taken from a port per turn. They share a turn's fixed cost.
const MOST: usize = 4 * BURST;

/// Packets taken from each outside port per turn while all ports are busy: a busy node then looks up more packets at
/// once.
const SHARE: usize = 2 * BURST;

element! {
    /// Takes frames from a port. While the fabric is congested it takes none from outside ports: packets already on the
    /// fabric go first.
    pub struct FromPort as "FromPort" { role: PortRole, }
    outputs { burst "out": "Frames.", }
    counters { RECEIVED = "received": "Frames received.", }
    hooks { Begin, }
}

impl FromPort {
    /// Takes from this port of the worker.
    pub const fn new(role: PortRole) -> Self {
        Self { role }
    }
}

impl Control for FromPort {}

impl<P: PacketBuf> Element<P> for FromPort {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let is_fabric = self.role == PortRole::Fabric;
        if !is_fabric && out.is_blocked() {
            return;
        }
        let (mut all, mut most, used) = (0, if is_fabric { MOST } else { SHARE }, frame.used());
        while all < most && used + all + BURST <= SLOTS {
            // Prefetches the first lines, so that the loads of the pass over the frames overlap.
            let came = frame.receive(self.role as usize, 0, |burst| {
                burst.iter().for_each(|packet| prefetch_in_front(packet.data(), 0));
            });
            all += came;
            if came < BURST {
                break;
            }
            if all == SHARE && !is_fabric {
                most = out.intake(used).clamp(SHARE, MOST);
            }
        }
        if all > 0 {
            out.count(Self::RECEIVED, all as u64);
        }
    }
}
