//! The four architectures as wirings.

use super::{Directory, FabricIn, FabricOut, FromPort, Handle, Steer, ToPort, Unknown, Valiant};
use crate::architecture::Architecture;
use crate::fabric_mac::{OutputPort, Phase};
use crate::node::{NodeConfig, NodeTables};
use scalebricks_graph::Builder;
use scalebricks_io::{PacketBuf, RxPort, TxPort};
use std::sync::Arc;

/// The two halves of a port.
pub struct End<P> {
    /// What comes in.
    pub rx: Box<dyn RxPort<P>>,
    /// What goes out.
    pub tx: Box<dyn TxPort<P>>,
}

/// The ports of a node.
pub struct Ends<P> {
    /// Towards the Internet.
    pub internet: End<P>,
    /// Towards the base stations.
    pub base_station: End<P>,
    /// Towards the other nodes.
    pub fabric: End<P>,
}

/// A node of an architecture as a graph.
///
/// ```text
/// from_internet ─────┐         ┌─ away ───────────────────▶ to_fabric
///                    ├─▶ steer ┤                              ▲
/// from_base_station ─┘     ▲   └─ here, found ─┐              │ onward
///                          └──── missed ────┐  ▼              │
/// from_fabric ── handle ─────────────────▶ handle ─▶ to_base_station, to_internet
/// ```
///
/// | architecture | `away` leads to | what is here leads to | beside that |
/// |---|---|---|---|
/// | full duplication | the fabric | `handle`, with the flow's state | |
/// | hash partition | the fabric, to be looked up | `lookup` | `lookup` is a second `Steer`, behind the fabric too |
/// | VLB | `valiant`, and then the fabric | `handle`, with the flow's state | |
/// | `ScaleBricks` | the fabric | `handle` | what `handle` misses leads to `steer`, once |
pub fn wiring<P: PacketBuf + 'static>(config: &NodeConfig, tables: NodeTables, ends: Ends<P>) -> Builder<P> {
    let NodeTables { gpt, lookup, fib, counters } = tables;
    let mut builder = Builder::new();
    // Before the others, so that what is under way goes before what is new.
    builder.add("from_fabric", FabricIn::new(ends.fabric.rx, config.id));
    builder.add("from_internet", FromPort::new(ends.internet.rx, OutputPort::BaseStation));
    builder.add("from_base_station", FromPort::new(ends.base_station.rx, OutputPort::Internet));
    let (directory, phase) = match config.architecture {
        Architecture::FullDuplication | Architecture::Vlb => {
            (Directory::Fib(Arc::clone(&fib)), Phase::Handling)
        }
        Architecture::HashPartition => (Directory::Gpt(gpt), Phase::Lookup),
        Architecture::ScaleBricks => (Directory::Gpt(gpt), Phase::Handling),
    };
    builder.add("steer", Steer::new(config, directory, phase));
    builder.add("handle", Handle::new(config, fib, counters));
    builder.add("unknown", Unknown::default());
    builder.add("to_base_station", ToPort::new(ends.base_station.tx, config));
    builder.add("to_internet", ToPort::new(ends.internet.tx, config));
    builder.add("to_fabric", FabricOut::new(ends.fabric.tx));

    builder.connect("from_internet", 0, "steer", 0).connect("from_base_station", 0, "steer", 1);
    builder.connect("from_fabric", 0, "handle", 0).connect("from_fabric", 2, "to_fabric", 0);
    builder.connect("steer", 3, "unknown", 0);
    builder.connect("handle", 0, "to_base_station", 0).connect("handle", 1, "to_internet", 0);
    match config.architecture {
        Architecture::FullDuplication => {
            builder.connect("steer", 0, "to_fabric", 0).connect("steer", 2, "handle", 2);
        }
        Architecture::Vlb => {
            builder.add("valiant", Valiant::new(config)).connect("steer", 2, "handle", 2);
            builder.connect("steer", 0, "valiant", 0).connect("valiant", 0, "to_fabric", 0);
        }
        Architecture::HashPartition => {
            let directory = lookup.map_or_else(|| Directory::Gpt(Box::new(Nowhere)), Directory::Gpt);
            builder.add("lookup", Steer::new(config, directory, Phase::Handling));
            builder.connect("steer", 0, "to_fabric", 0).connect("steer", 1, "lookup", 3);
            builder.connect("from_fabric", 1, "lookup", 2).connect("lookup", 0, "to_fabric", 0);
            builder.connect("lookup", 1, "handle", 1).connect("lookup", 3, "unknown", 0);
        }
        Architecture::ScaleBricks => {
            builder.connect("steer", 0, "to_fabric", 0).connect("steer", 1, "handle", 1);
        }
    }
    if config.architecture == Architecture::ScaleBricks {
        builder.connect("handle", 2, "steer", 4);
    } else {
        builder.connect("handle", 2, "unknown", 0);
    }
    if config.architecture != Architecture::HashPartition {
        builder.connect("from_fabric", 1, "unknown", 0);
    }
    builder
}

/// A table that holds no flow.
struct Nowhere;

impl scalebricks_tables::GptReader for Nowhere {
    fn lookup_batch(
        &mut self,
        keys: scalebricks_tables::KeyBatch<'_>,
        hints: &mut [scalebricks_types::NodeHint],
    ) {
        hints[..keys.len()].fill(scalebricks_types::NodeHint::NONE);
    }
}
