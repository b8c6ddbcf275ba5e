//! The graphs of a placement's cores.

use super::Placement;
use scalebricks_elements::{FlowBalance, handoff};
use scalebricks_graph::Builder;
use scalebricks_io::PacketBuf;
use scalebricks_types::HashSeed;

/// How packets are balanced.
#[derive(Debug, Clone, Copy)]
pub struct Balance {
    /// The secret of the hash. Take it from the system's random generator.
    pub secret: HashSeed,
    /// Offset of the IP header.
    pub offset: u16,
    /// Whether fragments with a wrong header checksum are refused.
    pub checksums: bool,
    /// Packets that a ring between two cores holds.
    pub ring: usize,
}

/// The graph of each core of a placement, in order, to be built and run on a worker each. `input` adds a core's sources and
/// returns the name of the last element; `application` adds a core's application and returns the name of its first
/// element. Names that begin with `pipeline_` are taken.
///
/// An input core completes packets from fragments that it has received itself. Devices with several queues send all fragments
/// of a packet to one queue, as they have no ports.
pub fn pipelines<P: PacketBuf + 'static>(
    placement: &Placement,
    balance: &Balance,
    mut input: impl FnMut(&mut Builder<P>, usize) -> String,
    mut application: impl FnMut(&mut Builder<P>, usize) -> String,
) -> Vec<Builder<P>> {
    let mut graphs: Vec<Builder<P>> = placement.cores().iter().map(|_| Builder::new()).collect();
    let applications: Vec<(usize, String)> = placement
        .applications()
        .filter_map(|core| Some((core, application(graphs.get_mut(core)?, core))))
        .collect();
    for (core, _) in placement.cores().iter().enumerate().filter(|(_, stages)| stages.has_input) {
        let Some(graph) = graphs.get_mut(core) else { continue };
        let source = input(graph, core);
        graph.add(
            "pipeline_balance",
            FlowBalance::with_secret(balance.secret, balance.offset, balance.checksums),
        );
        graph.connect(&source, 0, "pipeline_balance", 0);
        for (output, (to, first)) in applications.iter().enumerate() {
            if *to == core {
                graphs[core].connect("pipeline_balance", output, first, 0);
                continue;
            }
            let (near, far) = handoff(balance.ring);
            let (near_name, far_name) = (format!("pipeline_to_{to}"), format!("pipeline_from_{core}"));
            graphs[core].add(&near_name, near).connect("pipeline_balance", output, &near_name, 0);
            graphs[*to].add(&far_name, far).connect(&far_name, 0, first, 0);
        }
    }
    graphs
}
