//! The entry node of packets: one for all packets, any by the kernel's hash, or a fixed one per phone.

use crate::testbed::LabError;
use crate::testbed::context::LabContext;
use crate::testbed::exec::Cmd;
use crate::testbed::plan::{Family, GATEWAY_ROUTE, Plan};
use scalebricks_types::NodeId;
use std::fmt::Write as _;

/// Routing table of the Internet host for phones with their own entry node; at the base station, that of node 0.
const TABLE: u16 = 100;

/// Where packets enter the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// At one node.
    One(NodeId),
    /// At all nodes, by the kernel's hash of addresses and ports.
    All,
}

impl LabContext<'_> {
    /// Sets the entry node of both directions.
    ///
    /// # Errors
    /// The error of a command.
    pub fn enter(&self, entry: Entry) -> Result<(), LabError> {
        let is_entry = |node: &NodeId| entry == Entry::All || entry == Entry::One(*node);
        let hops = |device: &str, address: &dyn Fn(NodeId) -> String| {
            let nodes = self.plan.size.nodes().filter(is_entry);
            nodes.fold(String::new(), |text, node| text + " nexthop via " + &address(node) + " dev " + device)
        };
        for family in Family::ALL {
            let hops = hops("inet0", &|node| Plan::internet_address(node, family).to_string());
            let line = format!("{} route replace {}{hops}", family.option(), family.ues());
            self.ip(&self.plan.inet(), &line)?;
        }
        let hops = hops("ran0", &|node| Plan::ran_address(node).to_string());
        self.ip(&self.plan.ran(), &format!("route replace {GATEWAY_ROUTE}{hops}"))
    }

    /// Sends the packets of each phone to [its own entry node](crate::testbed::plan::Ue::entry), in both directions. These
    /// routes override those of [`enter`](Self::enter). The two nodes that a packet meets are then known.
    ///
    /// # Errors
    /// The error of a command.
    pub fn use_own_entries(&self) -> Result<(), LabError> {
        let size = self.plan.size;
        for family in Family::ALL {
            let mut lines = format!("rule add pref {TABLE} lookup {TABLE}\n");
            for ue in self.plan.ues() {
                let (to, via) = (ue.address(family), Plan::internet_address(ue.entry(size), family));
                // Writing to a String cannot fail.
                let _ = writeln!(lines, "route replace {to} via {via} dev inet0 table {TABLE}");
            }
            self.batch(&self.plan.inet(), family, lines)?;
        }
        let mut lines = String::new();
        for node in size.nodes() {
            let (table, ports) = (TABLE + u16::from(node.get()), Plan::source_ports(node));
            let (first, last) = (ports.start, ports.end - 1);
            let via = Plan::ran_address(node);
            let _ = writeln!(lines, "rule add pref {table} ipproto udp sport {first}-{last} lookup {table}");
            let _ = writeln!(lines, "route replace {GATEWAY_ROUTE} via {via} dev ran0 table {table}");
        }
        self.batch(&self.plan.ran(), Family::V4, lines)
    }

    fn batch(&self, namespace: &str, family: Family, lines: String) -> Result<(), LabError> {
        let line = format!("ip -n {namespace} {} -batch -", family.option());
        Cmd::new(&line).input(lines).run(self.interrupt).map(drop)
    }
}
