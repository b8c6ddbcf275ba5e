//! The networks of the control plane, and what is cut: a direction between two of its ends, a node's cables, a pair of nodes on the fabric, a
//! whole bridge.

use super::Network;
use crate::testbed::LabError;
use crate::testbed::exec::Cmd;
use crate::testbed::plan::{ControlNet, Link, Plan};
use scalebricks_types::NodeId;
use std::net::Ipv4Addr;

/// A MAC address that nobody has: frames to it are sent, and nobody takes them.
const NOBODY: &str = "02:00:00:00:00:fe";

/// An end of a network of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlEnd {
    /// A node.
    Node(NodeId),
    /// A NATS server that stores the log.
    Log(u8),
}

impl ControlEnd {
    const fn address(self, plan: &Plan, net: ControlNet) -> Ipv4Addr {
        match self {
            Self::Node(node) => Plan::control_address(net, node),
            Self::Log(server) => plan.log_address(server),
        }
    }

    fn namespace(self, plan: &Plan) -> String {
        match self {
            Self::Node(node) => plan.node(node),
            Self::Log(server) => plan.log_server(server),
        }
    }

    /// The bridge's port for it.
    fn port(self, net: ControlNet) -> String {
        match self {
            Self::Node(node) => format!("{}-n{}", net.letter(), node.get()),
            Self::Log(server) => format!("{}-l{server}", net.letter()),
        }
    }
}

impl Network<'_> {
    /// The networks over which nodes reach each other's control planes and the log.
    pub(super) fn control(&self) -> Result<(), LabError> {
        self.control_net(ControlNet::Mesh)?;
        if self.plan.log_network() == ControlNet::Log { self.control_net(ControlNet::Log) } else { Ok(()) }
    }

    fn control_net(&self, net: ControlNet) -> Result<(), LabError> {
        let (switch, bridge, interface) = (self.plan.switch(), net.bridge(), net.interface());
        self.ip(&switch, &format!("link add name {bridge} type bridge stp_state 0"))?;
        self.ip(&switch, &format!("link set {bridge} up"))?;
        let nodes = self.plan.size.nodes().map(ControlEnd::Node);
        let servers = self.plan.servers().map(ControlEnd::Log).filter(|_| net == self.plan.log_network());
        for end in nodes.chain(servers) {
            let (namespace, port) = (end.namespace(self.plan), end.port(net));
            let address = end.address(self.plan, net);
            Cmd::new(&format!(
                "ip link add name {interface} netns {namespace} type veth peer name {port} netns {switch}"
            ))
            .run(self.interrupt)?;
            self.ip(&switch, &format!("link set {port} addrgenmode none master {bridge} up"))?;
            self.ip(&namespace, &format!("addr add {address}/24 dev {interface}"))?;
            self.ip(&namespace, &format!("link set {interface} up"))?;
        }
        Ok(())
    }

    /// Loses everything that one end sends to another, or no longer. Nobody is told: the kernel sends it to an address that
    /// nobody has.
    ///
    /// # Errors
    /// What a command said.
    pub fn set_control_way(&self, from: ControlEnd, to: ControlEnd, is_open: bool) -> Result<(), LabError> {
        let is_log = [from, to].iter().any(|end| matches!(end, ControlEnd::Log(_)));
        let net = if is_log { self.plan.log_network() } else { ControlNet::Mesh };
        let (address, interface) = (to.address(self.plan, net), net.interface());
        let line = if is_open {
            format!("neigh del {address} dev {interface}")
        } else {
            format!("neigh replace {address} lladdr {NOBODY} dev {interface} nud permanent")
        };
        self.ip(&from.namespace(self.plan), &line)
    }

    /// The same in both directions.
    ///
    /// # Errors
    /// What a command said.
    pub fn set_control_pair(&self, a: ControlEnd, b: ControlEnd, is_open: bool) -> Result<(), LabError> {
        self.set_control_way(a, b, is_open)?;
        self.set_control_way(b, a, is_open)
    }

    /// Loses everything between a node and the log, or no longer: neither end is told.
    ///
    /// # Errors
    /// What a command said.
    pub fn set_log_way(&self, node: NodeId, is_open: bool) -> Result<(), LabError> {
        let servers = self.plan.servers().map(ControlEnd::Log);
        servers
            .into_iter()
            .try_for_each(|server| self.set_control_pair(ControlEnd::Node(node), server, is_open))
    }

    /// Takes the bridge's end of a node's cable down, or up: the node's end has no carrier meanwhile.
    ///
    /// # Errors
    /// What a command said.
    pub fn set_port(&self, link: Link, node: NodeId, is_up: bool) -> Result<(), LabError> {
        let state = if is_up { "up" } else { "down" };
        self.ip(&self.plan.switch(), &format!("link set {} {state}", link.port(node)))
    }

    /// Takes a node's port out of the bridge of an outside link, or puts it back: the link stays up, and nobody is behind it.
    ///
    /// # Errors
    /// What a command said.
    pub fn set_member(&self, link: Link, node: NodeId, is_member: bool) -> Result<(), LabError> {
        let master = if is_member { format!("master {}", link.bridge()) } else { "nomaster".to_owned() };
        self.ip(&self.plan.switch(), &format!("link set {} {master}", link.port(node)))
    }

    /// Takes a whole bridge down, or up: links to it stay up.
    ///
    /// # Errors
    /// What a command said.
    pub fn set_bridge(&self, bridge: &str, is_up: bool) -> Result<(), LabError> {
        let state = if is_up { "up" } else { "down" };
        self.ip(&self.plan.switch(), &format!("link set {bridge} {state}"))
    }

    /// Loses what two nodes send to each other over the fabric, in both directions, or no longer: a bridge forwards nothing between
    /// two ports that are isolated.
    ///
    /// # Errors
    /// What a command said.
    pub fn set_fabric_pair(&self, a: NodeId, b: NodeId, is_open: bool) -> Result<(), LabError> {
        let isolated = if is_open { "off" } else { "on" };
        for node in [a, b] {
            let line = format!("bridge link set dev {} isolated {isolated}", Link::Fabric.port(node));
            Cmd::new(&line).inside(&self.plan.switch()).run(self.interrupt)?;
        }
        Ok(())
    }

    /// Takes the control network's end of a node's cable down, or up.
    ///
    /// # Errors
    /// What a command said.
    pub fn set_control_port(&self, node: NodeId, is_up: bool) -> Result<(), LabError> {
        let state = if is_up { "up" } else { "down" };
        self.ip(
            &self.plan.switch(),
            &format!("link set {} {state}", ControlEnd::Node(node).port(ControlNet::Mesh)),
        )
    }
}
