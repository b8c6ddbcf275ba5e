//! The control network, and cuts: of one direction between two of its ends, a node's cable, a pair of nodes on the fabric, a
//! whole bridge.

use crate::testbed::LabError;
use crate::testbed::context::LabContext;
use crate::testbed::exec::Cmd;
use crate::testbed::plan::{CONTROL, CONTROL_BRIDGE, NodePort, Plan};
use scalebricks_types::NodeId;
use std::net::Ipv4Addr;

/// A MAC address that no interface has.
const UNUSED: &str = "02:00:00:00:00:fe";

/// An end of the control network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlEnd {
    /// A node.
    Node(NodeId),
    /// A NATS server.
    Log(u8),
}

impl ControlEnd {
    /// Its address, its namespace, and its port at the control bridge.
    fn place(self, plan: &Plan) -> (Ipv4Addr, String, String) {
        match self {
            Self::Node(node) => (Plan::control_address(node), plan.node(node), format!("c-n{}", node.get())),
            Self::Log(server) => (Plan::log_address(server), plan.log_server(server), format!("c-l{server}")),
        }
    }
}

impl LabContext<'_> {
    /// Builds the network of the control plane, which uses the kernel's stack.
    pub(super) fn control(&self) -> Result<(), LabError> {
        let switch = self.plan.switch();
        self.ip(&switch, &format!("link add name {CONTROL_BRIDGE} type bridge stp_state 0"))?;
        self.ip(&switch, &format!("link set {CONTROL_BRIDGE} up"))?;
        let nodes = self.plan.size.nodes().map(ControlEnd::Node);
        for end in nodes.chain(self.plan.servers().map(ControlEnd::Log)) {
            let (address, namespace, port) = end.place(self.plan);
            let ends = format!("{CONTROL} netns {namespace} type veth peer name {port} netns {switch}");
            Cmd::new(&format!("ip link add name {ends}")).run(self.interrupt)?;
            self.ip(&switch, &format!("link set {port} addrgenmode none master {CONTROL_BRIDGE} up"))?;
            self.ip(&namespace, &format!("addr add {address}/24 dev {CONTROL}"))?;
            self.ip(&namespace, &format!("link set {CONTROL} up"))?;
        }
        Ok(())
    }

    /// Drops, or no longer drops, everything that one end of the control network sends to another. The sender gets no error: the
    /// kernel sends to an unused MAC address.
    ///
    /// # Errors
    /// The error of a command.
    pub fn set_control_way(&self, from: ControlEnd, to: ControlEnd, is_open: bool) -> Result<(), LabError> {
        let ((_, namespace, _), (address, ..)) = (from.place(self.plan), to.place(self.plan));
        let line = if is_open {
            format!("neigh del {address} dev {CONTROL}")
        } else {
            format!("neigh replace {address} lladdr {UNUSED} dev {CONTROL} nud permanent")
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
        self.set_up(&ControlEnd::Node(node).place(self.plan).2, is_up)
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
