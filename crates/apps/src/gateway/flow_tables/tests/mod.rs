//! The tables as a whole: compared with plain maps, and with threads that read and count.

mod cases;
mod digests;
mod feeders;
mod growth;
mod model;
mod moves;
mod readers;

use super::*;
use crate::gateway::architecture::Architecture;
use scalebricks_elements::gateway::flow::{BaseStationId, FlowCount};
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_tables::{FibError, FibValue, KeyBatch};
use scalebricks_types::{Applied, ClusterSize, Delta, FlowIndex, HashSeed, NodeHint, PartitionId, Qfi};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashSeed::from_u64(7))
}

/// Tables of node `id`.
fn tables(id: u8, workers: usize, expected: usize) -> FlowTables {
    let partitions = PartitionCount::new(16).unwrap();
    let params = Params::for_keys(Structure::SetSep, 1_000, 4, partitions).unwrap();
    FlowTables::for_log(NodeId::new(id), params, hasher(), workers, expected)
}

/// Every architecture; the one with a GPT twice, once per structure.
fn all_kinds() -> impl Iterator<Item = (Architecture, Structure)> {
    let with = |gpt| move |architecture| (architecture, gpt);
    let other = [Architecture::ScaleBricks].into_iter().map(with(Structure::Othello));
    Architecture::ALL.into_iter().map(with(Structure::SetSep)).chain(other)
}

/// Four nodes.
fn layout(architecture: Architecture, gpt: Structure) -> Layout {
    Layout { size: ClusterSize::new(4).unwrap(), architecture, gpt, seed: HashSeed::from_u64(7) }
}

fn short_key(n: u32) -> FlowKey {
    FlowKey::five_tuple_v4(Ipv4Addr::from(n), Ipv4Addr::new(198, 51, 100, 7), 17, 53, 4000)
}

fn long_key(n: u32) -> FlowKey {
    let address = Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(n));
    FlowKey::five_tuple_v6(address, Ipv6Addr::LOCALHOST, 17, 53, 4000)
}

/// A flow whose fields are all derived from one number, so that a mix of two flows is detected.
fn state(uplink: u32, n: u32) -> PinnedState {
    PinnedState {
        downlink_teid: Teid::new(n),
        uplink_teid: Teid::new(uplink),
        base_station: BaseStationId(n as u16),
        qfi: Qfi::new(n as u8 & 63).ok(),
    }
}

/// The result of a worker's lookup.
fn look(tables: &NodeTables, key: FlowKey) -> Option<FlowState> {
    let mut value = [None];
    tables.fib.lookup_batch(KeyBatch::new(&[key], &[hasher().hash(&key)]), &mut value);
    value[0].map(FlowState::decode)
}

/// The node that a key's packets go to, if this node knows it.
fn named(tables: &mut NodeTables, here: NodeId, key: FlowKey) -> Option<NodeHint> {
    let (keys, hashes) = ([key], [hasher().hash(&key)]);
    let mut hint = [NodeHint::NONE];
    tables.gpt.lookup_batch(KeyBatch::new(&keys, &hashes), &mut hint);
    if let Some(lookup) = &mut tables.lookup {
        if hint != [NodeHint::new(here.get().into())] {
            return None;
        }
        lookup.lookup_batch(KeyBatch::new(&keys, &hashes), &mut hint);
    }
    Some(hint[0])
}

fn packets(downstream_packets: u64) -> FlowCount {
    FlowCount { downstream_packets, ..FlowCount::default() }
}

/// Stops threads when dropped, also if a test fails: otherwise the test would wait for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
