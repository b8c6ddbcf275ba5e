//! A full mesh of [nodes](super::node) in memory, in virtual time.

use crate::router::cluster::RouterError;
use crate::router::network::{Network, Wiring};
use crate::router::node::{NodeConfig, NodeTables};
use scalebricks_io::Packet;

/// Nodes of a cluster joined by links. External port `p` of node `n` has the number of both sides of the [`Network`] that
/// [`port`](Self::port) gives.
#[derive(Debug)]
pub struct NodeCluster {
    /// Nodes and links.
    pub network: Network,
    /// By node: the number of its first external port.
    first: Vec<usize>,
    /// By node and node: the number of the link.
    links: Vec<Vec<Option<usize>>>,
}

impl NodeCluster {
    /// A cluster of these nodes, by number. A link exists where both nodes have one to the other. `port_rate` and
    /// `link_rate` are in bytes per second.
    ///
    /// # Errors
    /// [`RouterError`].
    pub fn new(
        nodes: &[(NodeConfig, NodeTables)],
        (port_rate, link_rate): (u64, u64),
        buffers: usize,
    ) -> Result<Self, RouterError> {
        let registry = scalebricks_elements::registry::<Packet>();
        let graphs = nodes.iter().map(|(config, tables)| config.graph(tables, &registry));
        let mut wiring = Wiring::new(graphs.collect::<Result<_, _>>()?);
        let (mut first, mut links) = (Vec::new(), vec![vec![None; nodes.len()]; nodes.len()]);
        let mut ports = 0;
        for (from, (config, _)) in nodes.iter().enumerate() {
            first.push(ports);
            for port in &config.ports {
                wiring.inlet((from, &port.interface.device));
                ports = wiring.outlet((from, &port.interface.device), port_rate) + 1;
            }
            for link in &config.links {
                let back = nodes
                    .get(link.node.index())
                    .and_then(|(far, _)| far.links.iter().find(|back| back.node == config.id));
                let Some(back) = back else {
                    let text = format!("node {} has no link back to node {}", link.node, config.id);
                    return Err(RouterError::Node(text));
                };
                let number = wiring.link((from, &link.device), (link.node.index(), &back.device), link_rate);
                links[from][link.node.index()] = Some(number);
            }
        }
        Ok(Self { network: wiring.finish(buffers)?, first, links })
    }

    /// The number of the link from a node to another; `None` if there is none.
    pub fn link(&self, from: usize, to: usize) -> Option<usize> {
        self.links.get(from)?.get(to).copied().flatten()
    }

    /// The number of an external port.
    pub fn port(&self, node: usize, port: usize) -> usize {
        self.first.get(node).map_or(usize::MAX, |first| first + port)
    }

    /// Cuts the link from a node to another in this direction, or mends it. Nobody tells the nodes.
    pub fn cut(&mut self, from: usize, to: usize, is_cut: bool) {
        if let Some(link) = self.link(from, to) {
            self.network.cut(link, is_cut);
        }
    }
}
