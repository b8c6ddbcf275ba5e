//! A cluster in memory: packets go in at its outside links; packets and drops come out.

use crate::demo::config::DemoConfig;
use crate::demo::report::result::Footprint;
use scalebricks_apps::gateway::{
    Architecture, Cluster, ClusterConfig, ClusterError, Dropped, FlowSpec, FlowTables, Node,
};
use scalebricks_elements::gateway::{BaseStation, OutputPort, OutsideMacs};
use scalebricks_io::{Packet, Pool};
use scalebricks_types::NodeId;
use std::time::Duration;

/// A packet that left the cluster.
#[derive(Debug)]
pub struct Left {
    /// The node where it left.
    pub node: NodeId,
    /// The node's port.
    pub output: OutputPort,
    /// The frame.
    pub packet: Packet,
}

/// A cluster of one architecture with its flows.
#[derive(Debug)]
pub struct MemoryCluster {
    cluster: Cluster,
    threads: usize,
}

impl MemoryCluster {
    /// A cluster with its tables filled. The capacities are those of each outside link and of each pair of nodes, in frames.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn new(
        config: &DemoConfig,
        architecture: Architecture,
        flows: &[FlowSpec],
        base_stations: Vec<BaseStation>,
        (outside_capacity, fabric_capacity): (usize, usize),
        buffers: Pool,
    ) -> Result<Self, ClusterError> {
        let cluster_config = ClusterConfig {
            appliance: None,
            size: config.size,
            architecture,
            gpt: config.gpt,
            policy: config.policy,
            seed: config.hash_seed(),
            base_stations,
            outside_capacity,
            fabric_capacity,
            buffers,
        };
        let mut cluster = Cluster::new(&cluster_config, flows)?;
        cluster.nodes_mut().iter_mut().for_each(Node::list_drops);
        Ok(Self { cluster, threads: config.threads })
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node<Packet>] {
        self.cluster.nodes()
    }

    /// The MAC addresses at each node's outside links.
    pub fn macs(&mut self) -> Vec<OutsideMacs> {
        self.cluster.links_mut().iter().map(|link| link.macs).collect()
    }

    /// Sends a packet to a node; `None` if the link is full.
    pub fn put_in(&mut self, node: NodeId, from: OutputPort, packet: Packet) -> Option<()> {
        let link = self.cluster.links_mut().get_mut(node.index())?;
        let port = match from {
            OutputPort::Internet => &mut link.internet,
            OutputPort::BaseStation => &mut link.base_station,
        };
        port.send(packet).ok()
    }

    /// Lets the nodes forward until no packet is left in the cluster; how long that took.
    pub fn forward(&mut self) -> Duration {
        self.cluster.run_until_idle(self.threads)
    }

    /// The packets that left since the last call, by node and port.
    pub fn take_left(&mut self) -> Vec<Left> {
        let mut left = Vec::new();
        for (number, link) in self.cluster.links_mut().iter_mut().enumerate() {
            let node = NodeId::new(number as u8); // a cluster has at most 256 nodes
            for (output, port) in [
                (OutputPort::Internet, &mut link.internet),
                (OutputPort::BaseStation, &mut link.base_station),
            ] {
                left.extend(std::iter::from_fn(|| Some(Left { node, output, packet: port.receive()? })));
            }
        }
        left
    }

    /// The packets that nodes dropped since the last call.
    pub fn take_drops(&mut self) -> Vec<Dropped> {
        self.cluster.nodes_mut().iter_mut().flat_map(Node::take_drops).collect()
    }

    /// Sizes of its tables, and bytes on its fabric.
    pub fn footprint(&self) -> Footprint {
        let sizes = || self.cluster.tables().iter().map(FlowTables::sizes);
        Footprint {
            fabric_bytes: self.cluster.fabric_stats().bytes,
            gpt_bytes_per_node: sizes().map(|sizes| sizes.gpt_bytes as u64).max().unwrap_or(0),
            fib_bytes_per_node: sizes().map(|sizes| sizes.fib_bytes as u64).max().unwrap_or(0),
        }
    }
}
