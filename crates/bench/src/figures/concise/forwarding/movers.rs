//! What moves the packets: nothing but a lookup, or the whole switch.

use super::rotation::{OWN, PORTS, Rotation, Rule, Side, Stations, name, next_hop, port};
use crate::error::BenchError;
use crate::figures::concise::fibs::{Asker, UNKNOWN};
use crate::gateway::slab::NoBuffers;
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

/// Generator and sink: each burst is sent as it came.
pub(super) fn idle<P: PacketBuf>(rotation: &Rotation<P>, packets: usize) {
    let (mut entry, mut exits, mut burst) = (rotation.entry(), exits(rotation), Burst::new());
    for number in 0..packets / BURST {
        entry.rx_burst(&mut burst);
        exits[number % PORTS].tx_burst(&mut burst);
    }
}

fn exits<P: PacketBuf>(rotation: &Rotation<P>) -> [Side<P>; PORTS] {
    std::array::from_fn(|exit| rotation.exit(exit))
}

/// Forwards packets by a bare table: looks their names up, writes the address of the next hop, and sends them out where
/// the action says. What a port does not take is dropped.
pub(super) struct Mover<'a, P, X> {
    asker: &'a mut dyn Asker,
    hasher: NameHasher,
    entry: X,
    exits: [X; PORTS],
    burst: Burst<P>,
    leaving: [Burst<P>; PORTS],
}

impl<'a, P: PacketBuf, X: RxPort<P> + TxPort<P>> Mover<'a, P, X> {
    pub(super) fn new(asker: &'a mut dyn Asker, entry: X, exits: [X; PORTS]) -> Self {
        let leaving = std::array::from_fn(|_| Burst::new());
        Self { asker, hasher: NameHasher::new(SEED), entry, exits, burst: Burst::new(), leaving }
    }

    /// Moves one burst.
    #[inline]
    pub(super) fn turn(&mut self) {
        let Self { asker, hasher, entry, exits, burst, leaving } = self;
        let (mut hashes, mut actions) = ([KeyHash::new(0); BURST], [UNKNOWN; BURST]);
        let taken = entry.rx_burst(burst);
        for (hash, packet) in hashes.iter_mut().zip(burst.iter()) {
            *hash = hasher.hash(&name(packet.data()));
        }
        asker.ask(&hashes[..taken], &mut actions[..taken]);
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

/// Forwards so many packets of a rotation by a bare table.
pub(super) fn forward<P: PacketBuf>(rotation: &Rotation<P>, asker: &mut dyn Asker, packets: usize) {
    let mut mover = Mover::new(asker, rotation.entry(), exits(rotation));
    for _ in 0..packets / BURST {
        mover.turn();
    }
}

/// What the whole switch does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// Sends them on as they are.
    Forwards,
    /// Routes them: each to its next hop.
    Routes,
}

impl Whole {
    pub(super) const ALL: [Self; 2] = [Self::Forwards, Self::Routes];

    /// Its name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Forwards => "flat switch, forwarding",
            Self::Routes => "flat switch, routing",
        }
    }

    /// What becomes of packets.
    pub(super) const fn rule(self) -> Rule {
        match self {
            Self::Forwards => Rule::Unchanged,
            Self::Routes => Rule::Routed,
        }
    }

    /// The table of a switch that does so, as one by MAC addresses has it by default. The names themselves are not kept: nothing
    /// of them is looked at when packets are forwarded.
    pub(super) fn fib(self, stations: &Stations) -> Result<Arc<FlatFib>, BenchError> {
        let failed = |error| BenchError::of(self.name(), error);
        let config = NameConfig {
            kind: NameKind::Mac,
            hasher: hasher(),
            ports: PORTS + 1,
            expected: stations.addresses.len() as u64,
            check_bits: CheckBits::new(MAX_CHECK_BITS).unwrap_or_default(),
            filter_rate: None,
            spreads_aliens: false,
        };
        let names = stations.addresses.iter().zip(&stations.set.actions);
        let names = names.filter_map(|(&address, &action)| {
            let port = PortNo::new(port(action))?; // there are few
            let action = match self {
                Self::Forwards => Action::Forward(port),
                Self::Routes => Action::Route { port, next_hop: next_hop(action), source: OWN },
            };
            Some((FlatName::Mac(MacAddr(address)), action))
        });
        let mut table = NameTable::new(config).map_err(failed)?;
        table.change_to(&names.collect::<Vec<_>>()).map_err(failed)?;
        Ok(Arc::clone(table.fib()))
    }
}

fn hasher() -> KeyHasher {
    KeyHasher::new(HashSeed::new(SEED, !SEED))
}

/// A switch between these ports, of which the last is the one that packets come from, with all that a daemon's has.
pub(super) fn switch_between<P: PacketBuf + 'static, X: RxPort<P> + TxPort<P> + 'static>(
    fib: &FlatFib,
    ports: impl Iterator<Item = [X; 2]>,
) -> Result<Worker<P>, BenchError> {
    let rate = StormRate::new(10_000, 1_000).map_err(|error| BenchError::of("storm guard", error))?;
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
    switch_between(fib, (0..=PORTS).map(|exit| [rotation.exit(exit), rotation.exit(exit)]))
}

/// Has a switch turn until it is told to stop, likewise.
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

/// Has a switch turn until it has moved so many packets of a rotation, and asks for the time before each turn, as its worker does.
pub(super) fn turn<P: PacketBuf + 'static>(switch: &mut Worker<P>, rotation: &Rotation<P>, packets: usize) {
    let start = Instant::now();
    rotation.limit(packets / BURST * BURST);
    while rotation.left() > 0 || switch.graph().held() > 0 {
        switch.turn(start.elapsed());
    }
    rotation.limit(usize::MAX);
}
