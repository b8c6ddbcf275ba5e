//! `FlatFlood`.

use super::action::PortNo;
use super::storm::StormGuard;
use crate::shared_names::drops;
use scalebricks_graph::{Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use std::sync::Arc;

element! {
    /// Passes on the frames of a port that are to be flooded, as far as the storm guard allows. Only programs make it;
    /// configurations cannot name it.
    pub struct FlatFlood as "FlatFlood" { port: PortNo, has_others: bool, storm: Option<Arc<StormGuard>>, }
    inputs { push "in": "Frames of one port.", }
    outputs { push "out": "Frames for all ports except those of the group they came from.", }
    drops {
        SPLIT_HORIZON = drops::SPLIT_HORIZON,
        STORM = "storm": "The storm guard's rate of flooded frames was exceeded.",
    }
    counters { FLOODED = "flooded": "Received frames that were flooded.", }
}

impl FlatFlood {
    /// For the frames of one port. `has_others` says whether there is a port by which they may leave. Without a guard,
    /// everything is flooded.
    pub const fn new(port: PortNo, has_others: bool, storm: Option<Arc<StormGuard>>) -> Self {
        Self { port, has_others, storm }
    }
}

impl Control for FlatFlood {}

impl<P: PacketBuf> Element<P> for FlatFlood {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<P>, out: &mut Out<'_>) {
        if !self.has_others {
            return out.drop_all(batch, Self::SPLIT_HORIZON);
        }
        if let Some(guard) = &self.storm {
            let now = out.now();
            batch.filter_map(|slot| {
                if guard.take(self.port, now) {
                    return Some(slot);
                }
                out.drop(slot, Self::STORM);
                None
            });
        }
        out.count(Self::FLOODED, batch.len() as u64);
        out.all(0, batch);
    }
}
