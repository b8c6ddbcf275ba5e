//! What moves the packets: nothing but a lookup, or the whole switch.

use super::rotation::{OWN, PORTS, Rotation, Rule, Side, Stations, name, next_hop, port};
use crate::error::BenchError;
use crate::figures::concise::fibs::{Asker, UNKNOWN};
use crate::gateway::slab::NoBuffers;
use crate::names::NameHasher;
use crate::names::population::SEED;
use scalebricks_dataplane::flat::names::MAX_CHECK_BITS;
use scalebricks_dataplane::flat::{
    Action, CheckBits, FlatFib, FlatName, FlatSwitch, NameConfig, NameKind, NameTable, PortNo, StormGuard,
    StormRate, SwitchPolicy, SwitchPort, Unknown,
};
use scalebricks_io::{BURST, Burst, PacketBuf, Port, RxPort, TxPort};
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
pub(super) fn switch_between<P: PacketBuf + 'static>(
    fib: &FlatFib,
    ports: impl Iterator<Item = Box<dyn Port<P>>>,
) -> Result<FlatSwitch<P>, BenchError> {
    let rate = StormRate::new(10_000, 1_000).map_err(|error| BenchError::of("storm guard", error))?;
    let policy = SwitchPolicy {
        kind: NameKind::Mac,
        hasher: hasher(),
        verify_ipv4_checksum: true,
        storm: Some(Arc::new(StormGuard::new(rate, PORTS + 1))),
    };
    let ports = ports.map(|port| SwitchPort { port, group: None }).collect();
    Ok(FlatSwitch::new(policy, fib.reader(Unknown::Flood), ports, Box::new(NoBuffers)))
}

/// A switch between the ports of a rotation.
pub(super) fn switch<P: PacketBuf + 'static>(
    fib: &FlatFib,
    rotation: &Rotation<P>,
) -> Result<FlatSwitch<P>, BenchError> {
    switch_between(fib, (0..=PORTS).map(|exit| Box::new(rotation.exit(exit)) as Box<dyn Port<P>>))
}

/// Has a switch turn until it is told to stop, likewise.
#[cfg(feature = "dpdk")]
pub(super) fn turn_until<P: PacketBuf>(switch: &mut FlatSwitch<P>, stop: &std::sync::atomic::AtomicBool) {
    let start = Instant::now();
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        switch.turn(start.elapsed());
    }
}

/// Has a switch turn until it has moved so many packets, and asks for the time before each turn, as its worker does.
pub(super) fn turn<P: PacketBuf>(switch: &mut FlatSwitch<P>, packets: usize) {
    let start = Instant::now();
    for _ in 0..packets / BURST {
        switch.turn(start.elapsed());
    }
}
