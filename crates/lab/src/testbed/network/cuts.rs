//! The networks of the control plane, and cuts: of one direction between two of its ends, a node's cable, a pair of nodes on the fabric, a
//! whole bridge.

use crate::testbed::LabError;
use crate::testbed::context::LabContext;
use crate::testbed::exec::Cmd;
use crate::testbed::plan::{ControlNet, NodePort, Plan};
use scalebricks_types::NodeId;
use std::net::Ipv4Addr;

/// A MAC address that no interface has.
const UNUSED: &str = "02:00:00:00:00:fe";

/// An end of a network of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlEnd {
    /// A node.
    Node(NodeId),
    /// A NATS server.
    Log(u8),
}

impl ControlEnd {
    /// Its address, its namespace, and its port at the bridge.
    fn place(self, plan: &Plan, net: ControlNet) -> (Ipv4Addr, String, String) {
        let letter = net.letter();
        match self {
            Self::Node(node) => {
                (Plan::control_address(net, node), plan.node(node), format!("{letter}-n{}", node.get()))
            }
            Self::Log(server) => {
                (plan.log_address(server), plan.log_server(server), format!("{letter}-l{server}"))
            }
        }
    }
}

impl LabContext<'_> {
    /// Builds the networks between nodes, and between nodes and log.
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
            let (address, namespace, port) = end.place(self.plan, net);
            let ends = format!("{interface} netns {namespace} type veth peer name {port} netns {switch}");
            Cmd::new(&format!("ip link add name {ends}")).run(self.interrupt)?;
            self.ip(&switch, &format!("link set {port} addrgenmode none master {bridge} up"))?;
            self.ip(&namespace, &format!("addr add {address}/24 dev {interface}"))?;
            self.ip(&namespace, &format!("link set {interface} up"))?;
        }
        Ok(())
    }

    /// Drops, or no longer drops, everything that one end sends to another. The sender gets no error: the
    /// kernel sends to an unused MAC address.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_control_way(&self, from: ControlEnd, to: ControlEnd, is_open: bool) -> Result<(), LabError> {
        let is_log = [from, to].iter().any(|end| matches!(end, ControlEnd::Log(_)));
        let net = if is_log { self.plan.log_network() } else { ControlNet::Mesh };
        let interface = net.interface();
        let ((_, namespace, _), (address, ..)) = (from.place(self.plan, net), to.place(self.plan, net));
        let line = if is_open {
            format!("neigh del {address} dev {interface}")
        } else {
            format!("neigh replace {address} lladdr {UNUSED} dev {interface} nud permanent")
        };
        self.ip(&namespace, &line)
    }

    /// The same in both directions.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_control_pair(&self, a: ControlEnd, b: ControlEnd, is_open: bool) -> Result<(), LabError> {
        self.set_control_way(a, b, is_open)?;
        self.set_control_way(b, a, is_open)
    }

    /// Drops, or no longer drops, everything between a node and the log. Neither end gets an error.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_log_way(&self, node: NodeId, is_open: bool) -> Result<(), LabError> {
        let mut servers = self.plan.servers().map(ControlEnd::Log);
        servers.try_for_each(|server| self.set_control_pair(ControlEnd::Node(node), server, is_open))
    }

    /// Sets the bridge's end of a node's cable up or down. While it is down, the node's end has no carrier.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_port(&self, port: NodePort, node: NodeId, is_up: bool) -> Result<(), LabError> {
        self.set_up(&port.bridge_port(node), is_up)
    }

    /// The same for a node's cable of the control network.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_control_port(&self, node: NodeId, is_up: bool) -> Result<(), LabError> {
        self.set_up(&ControlEnd::Node(node).place(self.plan, ControlNet::Mesh).2, is_up)
    }

    /// Sets a bridge, or one of its ports, up or down. The links to a bridge that is down stay up.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_up(&self, interface: &str, is_up: bool) -> Result<(), LabError> {
        let state = if is_up { "up" } else { "down" };
        self.ip(&self.plan.switch(), &format!("link set {interface} {state}"))
    }

    /// Removes a node's port from its bridge, or adds it again. The link stays up without neighbours.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_member(&self, port: NodePort, node: NodeId, is_member: bool) -> Result<(), LabError> {
        let master = if is_member { format!("master {}", port.bridge()) } else { "nomaster".to_owned() };
        self.ip(&self.plan.switch(), &format!("link set {} {master}", port.bridge_port(node)))
    }

    /// Drops, or no longer drops, what two nodes send to each other over the fabric: a bridge does not forward between isolated
    /// ports.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_fabric_pair(&self, a: NodeId, b: NodeId, is_open: bool) -> Result<(), LabError> {
        let isolated = if is_open { "off" } else { "on" };
        [a, b].iter().try_for_each(|node| {
            let port = NodePort::Fabric.bridge_port(*node);
            self.bridge(&format!("link set dev {port} isolated {isolated}"))
        })
    }
}
