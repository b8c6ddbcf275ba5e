//! The four architectures as graphs.

use crate::gateway::appliance::Appliance;
use crate::gateway::architecture::Architecture;
use scalebricks_elements::gateway::{
    FabricOut, FabricSort, FromPort, Handle, LocationTable, NodeConfig, OutputPort, Phase, PortRole, Probes,
    SlowPath, Steer, SteerAndHandle, ToNextHop, ToPort, Valiant,
};

use crate::gateway::node::NodeTables;

use scalebricks_graph::Builder;
use scalebricks_io::PacketBuf;
use std::sync::Arc;

/// The elements' names.
pub(crate) mod name {
    pub(crate) const PROBES: &str = "probes";
    pub(crate) const FROM_FABRIC: &str = "from_fabric";
    pub(crate) const FROM_INTERNET: &str = "from_internet";
    pub(crate) const FROM_BASE_STATION: &str = "from_base_station";
    pub(crate) const FABRIC_SORT: &str = "fabric_sort";
    pub(crate) const STEER: &str = "steer";
    pub(crate) const LOOKUP: &str = "lookup";
    pub(crate) const VALIANT: &str = "valiant";
    pub(crate) const HANDLE: &str = "handle";
    pub(crate) const SLOW_PATH: &str = "slow_path";
    pub(crate) const TO_NEXT_HOP: &str = "to_next_hop";
    pub(crate) const TO_INTERNET: &str = "to_internet";
    pub(crate) const TO_BASE_STATION: &str = "to_base_station";
    pub(crate) const TO_FABRIC: &str = "to_fabric";
}
use name::{
    FABRIC_SORT, FROM_BASE_STATION, FROM_FABRIC, FROM_INTERNET, HANDLE, LOOKUP, PROBES, SLOW_PATH, STEER,
    TO_BASE_STATION, TO_FABRIC, TO_INTERNET, TO_NEXT_HOP, VALIANT,
};

/// Whether [`Steer`] and [`Handle`] run as one element. The node's behaviour is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As one element, except for the hash partition, which looks up another table in between.
    Joined,
    /// Separately: other elements can be inserted between them.
    Apart,
}

/// The graph of a node for its architecture, over a worker's ports in the order of [`PortRole::ALL`].
///
/// ```text
/// from_internet ─────┐          ┌─ away ───────────────────▶ to_fabric
///                    ├─▶ steer ─┤                              ▲ ▲
/// from_base_station ─┘    ▲     └─ here, found ─┐              │ │
///                         └──── missed ──────┐  ▼              │ │
/// from_fabric ───────────────────────────▶ handle ─▶ to_base_station, to_internet
///                                          ▲  └─ other ─▶ fabric_sort    │ │
///                                          └── judged ──────┴─┬ onward ──┘ │
///                                                             └ probes ────┘
/// ```
///
/// With an appliance, `handle` gives the packets that it finds to the appliance's elements, and these to `to_next_hop`:
///
/// ```text
/// handle ─┬─ from_inside ──▶ appliance ─┬─▶ to_next_hop ─┬─▶ to_internet, the port outside
///         └─ from_outside ─▶            └─ refused ─▶    └─▶ to_base_station, the port inside
/// ```
///
/// Packets for the node itself, and of unknown flows, go from `steer` and `handle` to `slow_path`.
///
/// | architecture | `away` leads to | local flows go to | in addition |
/// |---|---|---|---|
/// | full duplication | the fabric | `handle`, with the flow's state | |
/// | hash partition | the fabric, to be looked up | `lookup` | `lookup` is a second `Steer`, also used after the fabric |
/// | VLB | `valiant`, and then the fabric | `handle`, with the flow's state | |
/// | `ScaleBricks` | the fabric | `handle` | packets that `handle` misses go to `steer`, once |
pub fn wiring<P: PacketBuf + 'static>(
    config: &NodeConfig,
    tables: NodeTables,
    form: Form,
    appliance: Option<&Appliance>,
) -> Builder<P> {
    let NodeTables { architecture, gpt, lookup, fib, counters } = tables;
    let (directory, phase) = match architecture {
        Architecture::FullDuplication | Architecture::Vlb => {
            (LocationTable::Fib(Arc::clone(&fib)), Phase::Handling)
        }
        Architecture::HashPartition => (LocationTable::Gpt(gpt), Phase::Lookup),
        Architecture::ScaleBricks => (LocationTable::Gpt(gpt), Phase::Handling),
    };
    let steer = Steer::new(config, directory, phase);
    let handle = Handle::new(config, fib, counters);
    let mut builder = Builder::new();
    // The fabric first: packets on the fabric go before new ones.
    builder.add(PROBES, Probes::new(config.id)).add(FROM_FABRIC, FromPort::new(PortRole::Fabric));
    builder.add(FROM_INTERNET, FromPort::new(PortRole::Internet));
    builder.add(FROM_BASE_STATION, FromPort::new(PortRole::BaseStation));
    if form == Form::Joined && architecture != Architecture::HashPartition {
        let asks_again = architecture == Architecture::ScaleBricks;
        builder.add_joined(&[STEER, HANDLE], SteerAndHandle::new(steer, handle, asks_again));
    } else {
        builder.add(STEER, steer).add(HANDLE, handle);
    }
    builder.add(FABRIC_SORT, FabricSort::new(config.id));
    builder.add(SLOW_PATH, SlowPath::<P>::default()).add(TO_FABRIC, FabricOut::<P>::default());
    builder.add(TO_INTERNET, ToPort::new(PortRole::Internet));
    builder.add(TO_BASE_STATION, ToPort::new(PortRole::BaseStation));

    builder
        .connect(FROM_INTERNET, 0, STEER, 0)
        .connect(FROM_BASE_STATION, 0, STEER, 1)
        .connect(STEER, 3, SLOW_PATH, 0);
    builder.connect(FROM_FABRIC, 0, HANDLE, 0).connect(HANDLE, 3, FABRIC_SORT, 0);
    builder.connect(FABRIC_SORT, 0, HANDLE, 1).connect(FABRIC_SORT, 2, TO_FABRIC, 1);
    builder.connect(FABRIC_SORT, 3, PROBES, 0).connect(PROBES, 0, TO_FABRIC, 2);
    builder.connect(HANDLE, OutputPort::Internet as usize, TO_INTERNET, 0);
    builder
        .connect(HANDLE, OutputPort::BaseStation as usize, TO_BASE_STATION, 0)
        .connect(HANDLE, 4, SLOW_PATH, 0);
    if let Some(appliance) = appliance {
        builder.add(TO_NEXT_HOP, ToNextHop::new(config));
        appliance.add_to(&mut builder, HANDLE, TO_NEXT_HOP);
        builder.connect(TO_NEXT_HOP, OutputPort::Internet as usize, TO_INTERNET, 0);
        builder.connect(TO_NEXT_HOP, OutputPort::BaseStation as usize, TO_BASE_STATION, 0);
        builder.connect(TO_NEXT_HOP, 2, SLOW_PATH, 0);
    }
    match architecture {
        Architecture::FullDuplication => {
            builder.connect(STEER, 0, TO_FABRIC, 0).connect(STEER, 2, HANDLE, 3);
        }
        Architecture::Vlb => {
            builder.add(VALIANT, Valiant::new(config)).connect(STEER, 2, HANDLE, 3);
            builder.connect(STEER, 0, VALIANT, 0).connect(VALIANT, 0, TO_FABRIC, 0);
        }
        Architecture::HashPartition => {
            let directory = lookup.map_or_else(|| LocationTable::Gpt(Box::new(EmptyGpt)), LocationTable::Gpt);
            builder.add(LOOKUP, Steer::<P>::new(config, directory, Phase::Handling));
            builder.connect(STEER, 0, TO_FABRIC, 0).connect(STEER, 1, LOOKUP, 3);
            builder.connect(FABRIC_SORT, 1, LOOKUP, 2).connect(LOOKUP, 0, TO_FABRIC, 0);
            builder.connect(LOOKUP, 1, HANDLE, 2).connect(LOOKUP, 3, SLOW_PATH, 0);
        }
        Architecture::ScaleBricks => {
            builder.connect(STEER, 0, TO_FABRIC, 0).connect(STEER, 1, HANDLE, 2);
        }
    }
    if architecture == Architecture::ScaleBricks {
        builder.connect(HANDLE, 2, STEER, 4);
    } else {
        builder.connect(HANDLE, 2, SLOW_PATH, 0);
    }
    if architecture != Architecture::HashPartition {
        // Such a node is not asked for lookups; it handles what it holds.
        builder.connect(FABRIC_SORT, 1, HANDLE, 1);
    }
    builder
}

/// A table without flows.
struct EmptyGpt;

impl scalebricks_tables::GptReader for EmptyGpt {
    fn lookup_batch(
        &mut self,
        keys: scalebricks_tables::KeyBatch<'_>,
        hints: &mut [scalebricks_types::NodeHint],
    ) {
        hints[..keys.len()].fill(scalebricks_types::NodeHint::NONE);
    }
}
