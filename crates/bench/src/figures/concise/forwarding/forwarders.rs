//! What forwards the packets: a bare lookup, or the whole switch.

use super::rotation::{Expected, Hosts, OWN, PORTS, Rotation, RotationPort, name, next_hop, port, port_of};
use crate::error::{BenchError, OrFail};
use crate::figures::concise::fibs::{FibReader, UNKNOWN};
use crate::gateway::packet_slab::NoBuffers;
use crate::names::NameHasher;
use crate::names::population::SEED;
use scalebricks_apps::switch::text::PortNames;
use scalebricks_apps::switch::{SwitchPolicy, SwitchPort, wiring};
use scalebricks_elements::flat::names::MAX_CHECK_BITS;
use scalebricks_elements::flat::{
    Action, CheckBits, FlatFib, FlatName, LookupRules, NameConfig, NameKind, NameTable, PortNo, StormGuard,
    StormRate, UnknownNamePolicy,
};
use scalebricks_graph::{Ledger, Registry, Worker};
use scalebricks_io::{BURST, Burst, PacketBuf, RxPort, TxPort};
use scalebricks_types::{HashSeed, KeyHash, KeyHasher};
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::set_addresses;
use std::sync::Arc;
use std::time::Instant;

/// Generator and sink: sends each burst unchanged.
pub(super) fn idle<P: PacketBuf>(rotation: &Rotation<P>, packets: usize) {
    let (mut entry, mut exits, mut burst) = (port_of(rotation, PORTS), exits(rotation), Burst::new());
    for number in 0..packets / BURST {
        entry.rx_burst(&mut burst);
        exits[number % PORTS].tx_burst(&mut burst);
    }
}

pub(super) fn exits<P: PacketBuf>(rotation: &Rotation<P>) -> [RotationPort<P>; PORTS] {
    std::array::from_fn(|exit| port_of(rotation, exit))
}

/// Forwards packets by a bare table: looks up names, writes the next hop's address, and sends packets to the
/// port of their action. Packets that a port does not accept are dropped.
pub(super) struct Forwarder<'a, P, X> {
    reader: FibReader<'a>,
    hasher: NameHasher,
    entry: X,
    exits: [X; PORTS],
    burst: Burst<P>,
    leaving: [Burst<P>; PORTS],
}

impl<'a, P: PacketBuf, X: RxPort<P> + TxPort<P>> Forwarder<'a, P, X> {
    pub(super) fn new(reader: FibReader<'a>, entry: X, exits: [X; PORTS]) -> Self {
        let leaving = std::array::from_fn(|_| Burst::new());
        Self { reader, hasher: NameHasher::new(SEED), entry, exits, burst: Burst::new(), leaving }
    }

    /// Forwards one burst.
    #[inline]
    pub(super) fn turn(&mut self) {
        let Self { reader, hasher, entry, exits, burst, leaving } = self;
        let (mut hashes, mut actions) = ([KeyHash::new(0); BURST], [UNKNOWN; BURST]);
        let taken = entry.rx_burst(burst);
        for (hash, packet) in hashes.iter_mut().zip(burst.iter()) {
            *hash = hasher.hash(&name(packet.data()));
        }
        reader(&hashes[..taken], &mut actions[..taken]);
        for (mut packet, &action) in burst.drain(..).zip(&actions) {
            let _ = set_addresses(packet.data_mut(), next_hop(action), OWN); // frames are longer than a header
            leaving[port(action)].push(packet);
        }
        for (exit, burst) in exits.iter_mut().zip(leaving).filter(|(_, burst)| !burst.is_empty()) {
            exit.tx_burst(burst);
            burst.clear();
        }
    }
}

/// Forwards this many packets of a rotation by a bare table.
pub(super) fn forward<P: PacketBuf>(rotation: &Rotation<P>, reader: FibReader<'_>, packets: usize) {
    let mut mover = Forwarder::new(reader, port_of(rotation, PORTS), exits(rotation));
    for _ in 0..packets / BURST {
        mover.turn();
    }
}

/// What the whole switch does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SwitchMode {
    /// Forwards them unchanged.
    Forwards,
    /// Routes each to its next hop.
    Routes,
}

impl SwitchMode {
    pub(super) const ALL: [Self; 2] = [Self::Forwards, Self::Routes];

    /// Its name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Forwards => "flat switch, forwarding",
            Self::Routes => "flat switch, routing",
        }
    }

    /// What packets must look like afterwards.
    pub(super) const fn rule(self) -> Expected {
        match self {
            Self::Forwards => Expected::Unchanged,
            Self::Routes => Expected::Routed,
        }
    }

    /// The FIB of a switch in this mode, with the defaults for MAC addresses. The names themselves are not
    /// stored, because forwarding does not use them.
    pub(super) fn fib(self, hosts: &Hosts) -> Result<Arc<FlatFib>, BenchError> {
        let config = NameConfig {
            kind: NameKind::Mac,
            hasher: hasher(),
            ports: PORTS + 1,
            expected: hosts.addresses.len() as u64,
            check_bits: CheckBits::new(MAX_CHECK_BITS).unwrap_or_default(),
            filter_rate: None,
            spreads_aliens: false,
        };
        let names = hosts.addresses.iter().zip(&hosts.set.actions);
        let names = names.filter_map(|(&address, &action)| {
            let port = PortNo::new(port(action))?; // there are few
            let action = match self {
                Self::Forwards => Action::Forward(port),
                Self::Routes => Action::Route { port, next_hop: next_hop(action), source: OWN },
            };
            Some((FlatName::Mac(MacAddr(address)), action))
        });
        let mut table = NameTable::new(config).of(self.name())?;
        table.change_to(&names.collect::<Vec<_>>()).of(self.name())?;
        Ok(Arc::clone(table.fib()))
    }
}

fn hasher() -> KeyHasher {
    KeyHasher::new(HashSeed::new(SEED, !SEED))
}

/// A switch between these ports with all features of the daemon's. Packets arrive at the last port.
pub(super) fn switch_between<P: PacketBuf + 'static, X: RxPort<P> + TxPort<P> + 'static>(
    fib: &FlatFib,
    ports: impl Iterator<Item = [X; 2]>,
) -> Result<Worker<P>, BenchError> {
    let rate = StormRate::new(10_000, 1_000).of("storm guard")?;
    let policy = SwitchPolicy {
        rules: LookupRules { kind: NameKind::Mac, hasher: hasher(), verify_ipv4_checksum: true },
        storm: Some(Arc::new(StormGuard::new(rate, PORTS + 1))),
    };
    let failed = |error: &dyn std::fmt::Display| BenchError::check("switch", error.to_string());
    let port = |[rx, tx]: [X; 2]| SwitchPort { rx: Box::new(rx), tx: Box::new(tx), group: None };
    let names = PortNames::new((0..=PORTS).map(|at| format!("port{at}")).collect());
    let names = names.map_err(|error| failed(&error))?;
    let builder = wiring(&policy, || fib.reader(UnknownNamePolicy::Flood), &names, ports.map(port).collect());
    let graph = builder.build(&Registry::new(), &mut Ledger::new()).map_err(|errors| failed(&errors))?;
    Ok(Worker::new(graph, Box::new(NoBuffers), ()))
}

/// A switch between the ports of a rotation.
pub(super) fn switch<P: PacketBuf + 'static>(
    fib: &FlatFib,
    rotation: &Rotation<P>,
) -> Result<Worker<P>, BenchError> {
    switch_between(fib, (0..=PORTS).map(|exit| [port_of(rotation, exit), port_of(rotation, exit)]))
}

/// Runs a switch until stopped.
#[cfg(feature = "dpdk")]
pub(super) fn turn_until<P: PacketBuf + 'static>(
    switch: &mut Worker<P>,
    stop: &std::sync::atomic::AtomicBool,
) {
    let start = Instant::now();
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        switch.turn(start.elapsed());
    }
}

/// Runs a switch until it has forwarded this many packets of a rotation. Reads the clock before each turn, as
/// a worker does.
pub(super) fn turn<P: PacketBuf + 'static>(switch: &mut Worker<P>, rotation: &Rotation<P>, packets: usize) {
    let start = Instant::now();
    rotation.limit(packets / BURST * BURST);
    while rotation.left() > 0 || switch.graph().held() > 0 {
        switch.turn(start.elapsed());
    }
    rotation.limit(usize::MAX);
}
