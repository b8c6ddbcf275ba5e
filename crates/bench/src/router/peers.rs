//! DPDK's example l3fwd between the ports of a ring, over `rte_lpm` and `rte_fib`.

use super::bed::{Bed, ROUTE};
use super::packets::{Lengths, RouterPackets};
use super::rig::{Contender, Forwarder, Measured, RouterRing, failed};
use super::table::{Hop, PORTS, RouteTable, gateway_mac, mac};
use crate::benches::lpm::family::Family;
use crate::error::BenchError;
use crate::gateway::dpdk::{eal, name};
use crate::gateway::packet_ring::{ROTATION, Ring, RingPort};
use scalebricks_dpdk::Mbuf;
use scalebricks_dpdk::forward_peers::{Addresses, L3fwd};
use scalebricks_dpdk::route_peers::{EntryBytes, Room, RteFib, RteLpm};
use scalebricks_io::{BURST, Burst, RxPort, TxPort};
use std::net::Ipv4Addr;
use std::sync::Arc;

type End = RingPort<Mbuf, Arc<RouterPackets>>;

/// A table of DPDK with all routes.
#[derive(Debug, Clone)]
enum PeerTable {
    Lpm(Arc<RteLpm>),
    Fib(Arc<RteFib>),
}

/// All tables that this processor and library have, with the name of the router that uses each.
///
/// # Errors
/// [`BenchError::Structure`] if a table cannot hold the routes.
fn tables(table: &RouteTable<Ipv4Addr>) -> Result<Vec<(&'static str, PeerTable)>, BenchError> {
    // Without a spare group, `rte_lpm` refuses the last prefix.
    let room = Room { routes: table.routes.len() + 1, groups: Ipv4Addr::groups(&table.routes) + 64 };
    let mut lpm = RteLpm::new(eal()?, &name(), room).map_err(|error| BenchError::of("rte_lpm", error))?;
    each(table, |address, length, hop| lpm.add(address, length, hop))?;
    let mut all = vec![("l3fwd, rte_lpm", PeerTable::Lpm(Arc::new(lpm)))];
    for (scalar, wide, entry) in [
        ("l3fwd, rte_fib", "l3fwd, rte_fib with AVX-512", EntryBytes::Four),
        ("l3fwd, rte_fib of two bytes", "l3fwd, rte_fib of two bytes with AVX-512", EntryBytes::Two),
    ] {
        let made = RteFib::new(eal()?, &name(), room, entry);
        let mut fib = made.map_err(|error| BenchError::of("rte_fib", error))?;
        each(table, |address, length, hop| fib.add(address, length, hop))?;
        let by = if fib.select_avx512(eal()?) { wide } else { scalar };
        all.push((by, PeerTable::Fib(Arc::new(fib))));
    }
    Ok(all)
}

fn each<E: std::error::Error + Send + Sync + 'static>(
    table: &RouteTable<Ipv4Addr>,
    mut add: impl FnMut(u32, u8, u32) -> Result<(), E>,
) -> Result<(), BenchError> {
    for (prefix, hop) in &table.routes {
        add(prefix.address().to_bits(), prefix.length(), Hop::of(*hop).port as u32)
            .map_err(|error| BenchError::of("DPDK's table of routes", error))?;
    }
    Ok(())
}

/// Marks the packets as a network card does. They keep the mark.
fn mark(packets: &mut [Mbuf]) {
    packets.iter_mut().for_each(L3fwd::mark);
}

/// l3fwd with one of the tables.
struct L3fwdLoop {
    state: L3fwd,
    table: PeerTable,
    rx: End,
    tx: Vec<End>,
    burst: Burst<Mbuf>,
}

impl L3fwdLoop {
    /// The loop between the ports of a ring; packets arrive at port 1.
    fn new(table: PeerTable, ring: &RouterRing<Mbuf>) -> Self {
        let addresses = |port: usize| {
            let mut both: Addresses = [0; 12];
            both[..6].copy_from_slice(&gateway_mac(port, 0).0);
            both[6..].copy_from_slice(&mac(port).0);
            both
        };
        let ports: Vec<Addresses> = (0..=PORTS).map(addresses).collect();
        let tx = (0..=PORTS).map(|port| ring.port(port, false)).collect();
        Self { state: L3fwd::new(&ports), table, rx: ring.port(1, true), tx, burst: Burst::new() }
    }

    /// Sends from ports that have at least this many packets.
    #[inline]
    fn send(&mut self, least: usize) {
        for (port, tx) in self.tx.iter_mut().enumerate() {
            self.state.take(port, least, &mut self.burst);
            if !self.burst.is_empty() {
                tx.tx_burst(&mut self.burst);
            }
        }
    }
}

impl Forwarder for L3fwdLoop {
    #[inline]
    fn turn(&mut self) -> usize {
        let count = self.rx.rx_burst(&mut self.burst);
        match &self.table {
            PeerTable::Lpm(table) => self.state.lpm(table, &mut self.burst, 1),
            PeerTable::Fib(table) => self.state.fib(table, &mut self.burst),
        }
        self.send(BURST);
        count
    }

    fn flush(&mut self) {
        self.send(1);
    }

    fn fault(&self, _: usize) -> Option<String> {
        let dropped = self.state.dropped();
        (dropped > 0).then(|| format!("{dropped} packets were dropped"))
    }
}

/// A ring of DPDK's packets.
///
/// # Errors
/// [`BenchError::Structure`] if there is no memory.
pub(super) fn ring(bed: &Bed, lengths: &Lengths) -> Result<RouterRing<Mbuf>, BenchError> {
    let mut packets = crate::gateway::dpdk::packets(ROTATION)?;
    if packets.len() < ROTATION {
        return Err(failed("mbufs", &"the pool is too small"));
    }
    mark(&mut packets);
    Ok(Ring::new(packets, Arc::new(RouterPackets::routed_by_port(&bed.table, lengths))))
}

/// l3fwd with all tables between the ports of this ring.
///
/// # Errors
/// [`BenchError::Structure`].
pub(super) fn contenders(
    bed: &Bed,
    lengths: &Lengths,
    ring: &RouterRing<Mbuf>,
) -> Result<Vec<Box<dyn Measured>>, BenchError> {
    let kind = Arc::new(RouterPackets::routed_by_port(&bed.table, lengths));
    let one = |(by, table)| {
        Box::new(Contender::new([ROUTE, by], L3fwdLoop::new(table, ring), &kind, ring)) as Box<dyn Measured>
    };
    Ok(tables(&bed.table)?.into_iter().map(one).collect())
}
