//! `FlatFlood`.

use super::action::PortNo;
use super::storm::StormGuard;
use crate::shared_names::drops;
use scalebricks_graph::{Control, Element, Frame, Out, SlotList, Spec, element};
use scalebricks_io::PacketBuf;
use std::sync::Arc;

element! {
    /// Lets frames of a port through that are to be flooded, as many as the storm guard has tokens for. An app
    /// makes it; no configuration can name it.
    #[derive(Debug)]
    pub struct FlatFlood as "FlatFlood" { port: PortNo, has_others: bool, storm: Option<Arc<StormGuard>>, }
    inputs { push "in": "Frames of one port.", }
    outputs { push "out": "Frames for all ports but those of the group they came by.", }
    drops {
        SPLIT_HORIZON = drops::SPLIT_HORIZON,
        STORM = "storm": "More frames to be flooded than the storm guard lets through.",
    }
    counters { FLOODED = "flooded": "Frames that came and were flooded.", }
}

impl FlatFlood {
    /// One for the frames of a port. `has_others` says whether there is a port by which they may leave; without a guard,
    /// everything is flooded.
    pub const fn new(port: PortNo, has_others: bool, storm: Option<Arc<StormGuard>>) -> Self {
        Self { port, has_others, storm }
    }
}

impl Control for FlatFlood {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
}

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
