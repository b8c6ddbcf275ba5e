//! Where packets enter the cluster: all at one node, at any, or those of each phone at a node of its own.

use super::Network;
use crate::testbed::LabError;
use crate::testbed::exec::Cmd;
use crate::testbed::plan::{Family, GATEWAY_ROUTE, Plan};
use scalebricks_types::NodeId;
use std::fmt::Write as _;

/// Routing table of the Internet host for phones whose packets enter at a node of their own; at the base station, that of node 0.
const TABLE: u16 = 100;

/// Where packets enter the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// At one node.
    One(NodeId),
    /// At all of these, by the kernel's hash of addresses and ports.
    All,
}

impl Network<'_> {
    /// Lets packets of both directions enter elsewhere from now on.
    ///
    /// # Errors
    /// What a command said.
    pub fn enter(&self, entry: Entry) -> Result<(), LabError> {
        let nodes: Vec<NodeId> = match entry {
            Entry::One(node) => vec![node],
            Entry::All => self.plan.size.nodes().collect(),
        };
        let hops = |device: &str, address: &dyn Fn(NodeId) -> String| {
            nodes.iter().fold(String::new(), |mut text, node| {
                let _ = write!(text, " nexthop via {} dev {device}", address(*node));
                text
            })
        };
        for family in Family::ALL {
            let hops = hops("inet0", &|node| Plan::internet_address(node, family).to_string());
            let option = family.option();
            self.ip(&self.plan.inet(), &format!("{option} route replace {}{hops}", family.ues()))?;
        }
        let hops = hops("ran0", &|node| Plan::ran_address(node).to_string());
        self.ip(&self.plan.ran(), &format!("route replace {GATEWAY_ROUTE}{hops}"))
    }

    /// Lets the packets of each phone enter at [its own node](crate::testbed::plan::Ue::entry), in both directions, from now on and
    /// whatever [`enter`](Self::enter) says: a packet then meets two nodes that are known beforehand.
    ///
    /// # Errors
    /// What a command said.
    pub fn steer(&self) -> Result<(), LabError> {
        let size = self.plan.size;
        for family in Family::ALL {
            let mut lines = format!("rule add pref {TABLE} lookup {TABLE}\n");
            for ue in self.plan.ues() {
                let (via, bits) = (Plan::internet_address(ue.entry(size), family), family.bits());
                // Writing to a String cannot fail.
                let _ = writeln!(
                    lines,
                    "route replace {}/{bits} via {via} dev inet0 table {TABLE}",
                    ue.address(family)
                );
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
