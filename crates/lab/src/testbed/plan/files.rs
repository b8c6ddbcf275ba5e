//! The configuration files of nodes and the flow files.

use super::{
    CONTROL_PORT, ControlNet, Family, GATEWAY, HOST_V4, HOST_V6, NodePort, Plan, STATION, TUNNEL_MTU, WORKER,
};
use scalebricks_apps::gateway::Architecture;
use scalebricks_types::NodeId;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::Ipv4Addr;

/// Capacity of the cluster, without the flows that no phone uses.
const FLOWS: u32 = 10_000;

/// The columns of a flow file.
const COLUMNS: &str = "ue,node,base_station,uplink_teid,downlink_teid,qfi\n";

/// First address and TEIDs of the flows that no phone uses: there is room for 2^22.
const MORE_UES: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);
const MORE_UPLINK: u32 = 0x0100_0000;
const MORE_DOWNLINK: u32 = 0x0200_0000;

impl Plan {
    fn device(&self, node: NodeId, port: NodePort) -> String {
        let (number, interface) = (port as u8, port.interface());
        if self.uses_xdp(node) {
            format!("net_af_xdp{number},iface={interface}")
        } else {
            // A ring of 8 MiB holds frames while the node sleeps or another process has its core.
            format!("net_af_packet{number},iface={interface},blocksz=4096,framesz=2048,framecnt=4096")
        }
    }

    /// A node's configuration. `admin` is the path of its socket.
    pub fn node_toml(&self, node: NodeId, admin: &str) -> String {
        let flows = if self.is_controlled { "" } else { "flows = \"flows.csv\"\n" };
        let has_gpt = self.architecture == Architecture::ScaleBricks;
        let gpt = if has_gpt { format!("gpt = \"{}\"\n", self.gpt) } else { String::new() };
        let mut text = format!(
            "# Written by the lab.\n\
             [cluster]\nnodes = {}\narchitecture = \"{}\"\n{gpt}secret = \"00112233445566778899aabbccddeeff\"\n\
             gateway = \"{GATEWAY}\"\ngateway_v6 = \"fd00:5b::1\"\nkey = \"ue\"\n\
             base_station_mtu = {TUNNEL_MTU}\nverify_ipv4_checksum = true\n\n\
             [node]\nid = {}\n{flows}admin = \"{admin}\"\ndrain_ms = 100\n\n\
             {WORKER}\n\
             [dpdk]\nmemory = \"ordinary\"\n\n\
             [[base_station]]\naddress = \"{STATION}\"\n",
            self.size.get(),
            self.architecture,
            node.get(),
        );
        if self.is_controlled {
            text += &self.control_toml(node);
        }
        for port in NodePort::ALL {
            let addresses = match port {
                NodePort::Internet => format!(
                    "addresses = [\"{}/24\", \"{}/64\"]\ngateways = [\"{HOST_V4}\", \"{HOST_V6}\"]\n",
                    Self::internet_address(node, Family::V4),
                    Self::internet_address(node, Family::V6)
                ),
                NodePort::Ran => format!("addresses = [\"{}/24\"]\n", Self::ran_address(node)),
                NodePort::Fabric => String::new(),
            };
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n[[port]]\nrole = \"{}\"\ndevice = \"{}\"\nmac = \"{}\"\nmtu = {}\n{addresses}",
                port.role(),
                self.device(node, port),
                Self::mac(node, port),
                port.mtu()
            );
        }
        text
    }

    /// The part of a node's configuration for the control plane.
    fn control_toml(&self, node: NodeId) -> String {
        let listen = |node| format!("{}:{CONTROL_PORT}", Self::control_address(ControlNet::Mesh, node));
        let mut text = format!(
            "\n[control]\nengine = \"{}\"\nreplicas = {}\nname = \"{}\"\nlisten = \"{}\"\n\
             key = \"cluster.key\"\nflows = {}\npartitions = 16\n",
            self.servers_url(),
            self.log_servers,
            self.name,
            listen(node),
            FLOWS + 2 * self.flows, // nodes share the remaining capacity, which cannot be used entirely
        );
        for peer in self.size.nodes().filter(|peer| *peer != node) {
            let [v4, v6] = Family::ALL.map(|family| Self::internet_address(peer, family));
            let _ = write!(
                text,
                "\n[[control.peer]]\nnode = {}\naddress = \"{}\"\ninternet = [\"{v4}\", \"{v6}\"]\n\
                 base_station = [\"{}\"]\n",
                peer.get(),
                listen(peer),
                Self::ran_address(peer)
            );
        }
        text
    }

    /// Writes the flow file of flows that no phone uses: equally many per node.
    ///
    /// # Errors
    /// As the writer.
    pub fn write_more_flows(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(COLUMNS.as_bytes())?;
        for number in 0..self.flows {
            let ue = Ipv4Addr::from_bits(MORE_UES.to_bits() + number);
            let (node, up, down) =
                (number as usize % self.size.get(), MORE_UPLINK + number, MORE_DOWNLINK + number);
            writeln!(to, "{ue},{node},{STATION},{up:#x},{down:#x},")?;
        }
        Ok(())
    }

    /// The flow file of the phones.
    pub fn flows_csv(&self) -> String {
        let mut text = String::from(COLUMNS);
        for ue in self.ues() {
            for family in Family::ALL {
                let qfi = ue.qfi().map(|qfi| qfi.to_string()).unwrap_or_default();
                let _ = writeln!(
                    text,
                    "{},{},{STATION},{:#x},{:#x},{qfi}",
                    ue.address(family),
                    ue.node.get(),
                    ue.uplink_teid(family),
                    ue.downlink_teid(family)
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_daemon::node::config::{EngineAt, NodeFile};
    use scalebricks_tables::compact::Structure;

    #[test]
    fn nodes_parse_their_configurations() {
        for (is_controlled, gpt, log_servers) in
            [(false, Structure::SetSep, 1), (true, Structure::Othello, 1), (true, Structure::SetSep, 3)]
        {
            let plan = Plan { is_controlled, gpt, log_servers, ..Plan::sample() };
            for node in plan.size.nodes() {
                let file = NodeFile::parse(&plan.node_toml(node, "/x/admin.sock")).unwrap();
                assert_eq!(file.gpt, gpt);
                let Some(control) = file.control else {
                    assert!(!is_controlled);
                    continue;
                };
                assert!(is_controlled);
                let EngineAt::Nats(nats) = control.engine else { panic!("{:?}", control.engine) };
                assert_eq!((nats.servers.len(), nats.replicas), (log_servers.into(), log_servers));
                assert_eq!(control.peers.len(), 3);
                let takeover = control.takeover.unwrap().addresses;
                assert!(takeover.keys().eq(control.peers.keys()));
                assert!(takeover.values().all(|addresses| addresses.len() == 3));
                assert!(!control.peers.contains_key(&node));
                assert!(!control.peers.values().any(|peer| *peer == control.listen));
            }
        }
    }
}
