//! Publishes changes of routes to the tables of the workers.

use scalebricks_control::routes::{HopChange, IpPrefix, NumberedExit, RouteChange, RouteChanges};
use scalebricks_elements::fabric::mac::{ExternalPort, RouterMac};
use scalebricks_tables::lpm::{Address, Lpm, NextHop, Prefix};
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Takes changes of this node's next hops: the number, and its port and neighbour, or `None` if it is not used any more.
pub type HopSink = Box<dyn FnMut(u16, Option<(ExternalPort, IpAddr)>) + Send>;

/// The tables of a node's workers. All workers read the same ones, while this changes them.
pub struct RouteTables {
    node: NodeId,
    v4: Arc<Lpm<Ipv4Addr>>,
    v6: Arc<Lpm<Ipv6Addr>>,
    hops: HopSink,
    /// Routes that are in no table, by prefix: there was no room, or their port has no number.
    missing: BTreeMap<IpPrefix, NumberedExit>,
    own: BTreeMap<u16, (ExternalPort, IpAddr)>,
}

impl std::fmt::Debug for RouteTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouteTables").field("node", &self.node).finish_non_exhaustive()
    }
}

impl RouteTables {
    /// Tables of a node, which are empty.
    pub const fn new(node: NodeId, v4: Arc<Lpm<Ipv4Addr>>, v6: Arc<Lpm<Ipv6Addr>>, hops: HopSink) -> Self {
        Self { node, v4, v6, hops, missing: BTreeMap::new(), own: BTreeMap::new() }
    }

    /// The table of IPv4.
    pub const fn v4(&self) -> &Arc<Lpm<Ipv4Addr>> {
        &self.v4
    }

    /// The table of IPv6.
    pub const fn v6(&self) -> &Arc<Lpm<Ipv6Addr>> {
        &self.v6
    }

    /// This node's next hops, by number.
    pub const fn own_hops(&self) -> &BTreeMap<u16, (ExternalPort, IpAddr)> {
        &self.own
    }

    /// Number of selected routes that are in no table: it was full, or the port's number is too high.
    pub fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Publishes changes: new next hops first, then routes, then next hops that no route needs any more.
    pub fn publish(&mut self, changes: &RouteChanges) {
        let freed = self.define(&changes.hops);
        let mut has_room = false;
        for change in &changes.v4 {
            has_room |= self.route(change, IpPrefix::V4, |tables| &tables.v4);
        }
        for change in &changes.v6 {
            has_room |= self.route(change, IpPrefix::V6, |tables| &tables.v6);
        }
        for number in freed {
            self.own.remove(&number);
            (self.hops)(number, None);
        }
        if has_room && !self.missing.is_empty() {
            self.retry();
        }
    }

    /// Defines this node's new next hops; returns the numbers that are unused in the end.
    fn define(&mut self, changes: &[HopChange]) -> BTreeSet<u16> {
        let mut freed = BTreeSet::new();
        for HopChange { hop, is_used } in changes.iter().filter(|change| change.hop.exit.node == self.node) {
            if !is_used {
                freed.insert(hop.number);
                continue;
            }
            freed.remove(&hop.number);
            if let (Some(port), Some(address)) = (ExternalPort::new(hop.exit.port), hop.exit.next_hop) {
                self.own.insert(hop.number, (port, address));
                (self.hops)(hop.number, Some((port, address)));
            }
        }
        freed
    }

    /// Publishes a route; returns whether the table may have room that it had not.
    fn route<A: Address>(
        &mut self,
        change: &RouteChange<A>,
        family: impl Fn(Prefix<A>) -> IpPrefix,
        table: impl Fn(&Self) -> &Arc<Lpm<A>>,
    ) -> bool {
        let RouteChange { prefix, exit } = *change;
        self.missing.remove(&family(prefix));
        let Some(exit) = exit else { return table(self).remove(prefix).is_some() };
        let is_stored = hop(exit).is_some_and(|hop| table(self).insert(prefix, hop).is_ok());
        if !is_stored {
            // A longer path than before is no reason to keep the old one, which is not selected any more.
            table(self).remove(prefix);
            self.missing.insert(family(prefix), exit);
        }
        false
    }

    /// Tries the missing routes again, after others were removed.
    fn retry(&mut self) {
        self.missing.retain(|prefix, exit| {
            let Some(hop) = hop(*exit) else { return true };
            match prefix {
                IpPrefix::V4(prefix) => self.v4.insert(*prefix, hop).is_err(),
                IpPrefix::V6(prefix) => self.v6.insert(*prefix, hop).is_err(),
            }
        });
    }
}

/// The value of an exit in a table; `None` if no node has such a port.
fn hop(exit: NumberedExit) -> Option<NextHop> {
    let port = ExternalPort::new(exit.exit.port)?;
    Some(RouterMac::new(exit.exit.node, port, exit.number).hop())
}
