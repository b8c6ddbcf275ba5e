//! Ports, and the graph between them.

use super::text::PortNames;
use scalebricks_elements::flat::{
    FibReader, FlatFlood, FlatInput, FlatLookup, FlatOutput, FloodShare, LookupRules, MAX_PORTS, PortNo,
    StormGuard,
};
use scalebricks_graph::Builder;
use scalebricks_io::{PacketBuf, RxPort, TxPort};
use std::sync::Arc;

/// Ports that send nothing to each other: a frame that arrived at one of them leaves by none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortGroup(pub u16);

/// A worker's queues of a port.
pub struct SwitchPort<P> {
    /// The receive queue.
    pub rx: Box<dyn RxPort<P>>,
    /// The send queue.
    pub tx: Box<dyn TxPort<P>>,
    /// Its group, if any.
    pub group: Option<PortGroup>,
}

impl<P> std::fmt::Debug for SwitchPort<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SwitchPort").field("group", &self.group).finish_non_exhaustive()
    }
}

/// A switch's settings for frames, besides its names.
#[derive(Debug, Clone)]
pub struct SwitchPolicy {
    /// How frames are parsed.
    pub rules: LookupRules,
    /// The flooding limit, shared by all workers; `None`: unlimited.
    pub storm: Option<Arc<StormGuard>>,
}

/// An element's role for a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElementRole {
    In,
    Lookup,
    Flood,
    Out,
}

impl ElementRole {
    /// The name of this port's element.
    fn of(self, port: &str) -> String {
        let part = match self {
            Self::In => "in",
            Self::Lookup => "lookup",
            Self::Flood => "flood",
            Self::Out => "out",
        };
        format!("{port}/{part}")
    }
}

/// The port of an element.
pub(super) fn port_of(element: &str) -> Option<&str> {
    element.split_once('/').map(|(port, _)| port)
}

/// Which ports may send to which.
struct Groups(Vec<Option<PortGroup>>);

impl Groups {
    /// By port: whether frames from `from` may leave by it.
    fn may_send(&self, from: usize) -> Box<[bool]> {
        let group = self.0[from];
        let may =
            |(to, other): (usize, &Option<PortGroup>)| to != from && (group.is_none() || *other != group);
        self.0.iter().enumerate().map(may).collect()
    }

    /// By input port: what this port receives of flooded frames.
    fn shares(&self, to: usize) -> Box<[FloodShare]> {
        let share = |from| {
            let may_send = self.may_send(from);
            match (may_send[to], may_send[to + 1..].contains(&true)) {
                (false, _) => FloodShare::Nothing,
                (true, true) => FloodShare::Copy,
                (true, false) => FloodShare::Itself,
            }
        };
        (0..self.0.len()).map(share).collect()
    }
}

/// The graph of a switch between these ports, numbered by index; those beyond [`MAX_PORTS`] or without a name are left
/// out. Each port has its own reader of the FIB, from `reader`.
pub fn wiring<P: PacketBuf + 'static>(
    policy: &SwitchPolicy,
    reader: impl Fn() -> FibReader,
    names: &PortNames,
    ports: Vec<SwitchPort<P>>,
) -> Builder<P> {
    let mut builder = Builder::new();
    let groups = Groups(ports.iter().map(|port| port.group).take(MAX_PORTS).collect());
    let names = &names.all()[..names.all().len().min(groups.0.len())];
    for ((at, name), SwitchPort { rx, tx, .. }) in names.iter().enumerate().zip(ports) {
        let Some(number) = PortNo::new(at) else { break };
        let [input, lookup, flood, output] =
            [ElementRole::In, ElementRole::Lookup, ElementRole::Flood, ElementRole::Out]
                .map(|part| part.of(name));
        let may_send = groups.may_send(at);
        let has_others = may_send.contains(&true);
        builder.add(&input, FlatInput::new(rx, number));
        builder.add(&lookup, FlatLookup::new(policy.rules, number, may_send.clone(), reader()));
        builder.add(&flood, FlatFlood::new(number, has_others, policy.storm.clone()));
        builder.add(&output, FlatOutput::new(tx, groups.shares(at)));
        builder.chain(&[&input, &lookup, &flood]).connect(&flood, 0, &ElementRole::Out.of(&names[0]), 0);
        for ((to, other), _) in names.iter().enumerate().zip(&may_send).filter(|(_, may_send)| **may_send) {
            builder.connect(&lookup, 1 + to, &ElementRole::Out.of(other), 1);
        }
        if let Some(next) = names.get(at + 1) {
            builder.connect(&output, 0, &ElementRole::Out.of(next), 0);
        }
    }
    builder
}
