//! A flow's state at its handling node: the meaning of the FIB's 16-byte value, and the flow's counters.

use scalebricks_tables::huge::HugeSlice;
use scalebricks_tables::{FibValue, prefetch_read};
use scalebricks_types::{FlowIndex, NodeHint, NodeId, Qfi, Teid};
use scalebricks_wire::MacAddr;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A base station: its index in the cluster's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BaseStationId(pub u16);

/// Where GTP-U packets for a base station are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseStation {
    /// Its tunnel address.
    pub address: Ipv4Addr,
    /// The MAC address of the next hop towards it.
    pub mac: MacAddr,
}

/// The FIB's value for a flow, used in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowState {
    /// The tunnel at the base station. Downstream packets carry it.
    pub teid: Teid,
    /// Index of the flow's counters at its handling node.
    pub index: FlowIndex,
    /// The base station that serves the UE.
    pub base_station: BaseStationId,
    /// The node the flow is pinned to.
    pub node: NodeId,
    /// The QoS flow identifier, if downstream packets carry a PDU session container.
    pub qfi: Option<Qfi>,
}

const NO_QFI: u8 = 0xff;

impl FlowState {
    /// Word 0: TEID, counter index. Word 1: base station (16 bits), node (8), QFI or 0xff (8), 32 bits zero.
    #[inline]
    pub fn encode(&self) -> FibValue {
        let qfi = self.qfi.map_or(NO_QFI, Qfi::get);
        [
            u64::from(self.teid.get()) | u64::from(self.index.0) << 32,
            u64::from(self.base_station.0) | u64::from(self.node.get()) << 16 | u64::from(qfi) << 24,
        ]
    }

    /// Decodes a FIB value made by [`FlowState::encode`].
    #[inline]
    pub const fn decode(value: FibValue) -> Self {
        let [low, high] = value;
        Self {
            teid: Teid::new(low as u32),
            index: FlowIndex((low >> 32) as u32),
            base_station: BaseStationId(high as u16),
            node: NodeId::new((high >> 16) as u8),
            qfi: match Qfi::new((high >> 24) as u8) {
                Ok(qfi) => Some(qfi),
                Err(_) => None, // NO_QFI is no QFI
            },
        }
    }

    /// The node in a FIB value; the hint that a full-copy FIB gives.
    pub const fn node_of(value: FibValue) -> NodeHint {
        NodeHint::new(Self::decode(value).node.get() as u16)
    }
}

/// Traffic of one flow, in packets and bytes of inner IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCount {
    /// Packets to the UE.
    pub downstream_packets: u64,
    /// Their bytes.
    pub downstream_bytes: u64,
    /// Packets from the UE.
    pub upstream_packets: u64,
    /// Their bytes.
    pub upstream_bytes: u64,
}

/// Saturating, since counts also arrive from other nodes.
impl std::ops::AddAssign for FlowCount {
    fn add_assign(&mut self, other: Self) {
        self.downstream_packets = self.downstream_packets.saturating_add(other.downstream_packets);
        self.downstream_bytes = self.downstream_bytes.saturating_add(other.downstream_bytes);
        self.upstream_packets = self.upstream_packets.saturating_add(other.upstream_packets);
        self.upstream_bytes = self.upstream_bytes.saturating_add(other.upstream_bytes);
    }
}

impl std::iter::Sum for FlowCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |mut sum, count| {
            sum += count;
            sum
        })
    }
}

/// Counters of the flows pinned to one node, 32 bytes per flow, indexed by [`FlowIndex`].
///
/// One worker writes, so an addition is a plain load and store; any thread may read. The number of counters can grow at
/// any time and never shrinks: counters live in chunks that never move.
#[derive(Debug)]
pub struct FlowCounters {
    chunks: Box<[OnceLock<Chunk>]>,
}

/// A flow's counters share one cache line. A chunk fills one huge page, if one is available.
type Chunk = HugeSlice<[AtomicU64; 4]>;

/// Flows per chunk: 2 MiB.
const CHUNK: usize = 1 << 16;

/// Maximum number of chunks: 2^26 flows.
const MAX_CHUNKS: usize = 1 << 10;

impl FlowCounters {
    /// Maximum number of flows that can be counted.
    pub const MAX_FLOWS: usize = MAX_CHUNKS * CHUNK;

    /// Allocates zeroed counters for this many flows.
    pub fn new(flows: usize) -> Self {
        let counters = Self { chunks: (0..MAX_CHUNKS).map(|_| OnceLock::new()).collect() };
        counters.reserve(flows);
        counters
    }

    /// Grows to this many counters, up to 2^26. New ones are zero; existing ones keep their values.
    pub fn reserve(&self, flows: usize) {
        for chunk in self.chunks.iter().take(flows.div_ceil(CHUNK)) {
            chunk.get_or_init(|| HugeSlice::zeroed(CHUNK));
        }
    }

    /// Memory of all counters in bytes.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.get().is_some()).count() * CHUNK * size_of::<[AtomicU64; 4]>()
    }

    #[inline]
    fn get(&self, flow: FlowIndex) -> Option<&[AtomicU64; 4]> {
        let flow = flow.0 as usize;
        self.chunks.get(flow / CHUNK)?.get()?.get(flow % CHUNK)
    }

    /// Zeroes a flow's counters. The node's worker must not count this flow meanwhile.
    pub fn reset(&self, flow: FlowIndex) {
        for counter in self.get(flow).into_iter().flatten() {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Prefetches the cache line of a flow's counters for writing.
    #[inline]
    pub fn prefetch(&self, flow: FlowIndex) {
        if let Some(counts) = self.get(flow) {
            prefetch_read(counts);
        }
    }

    /// Counts a packet of the flow. Only the node's own worker may call it; otherwise counts are lost.
    #[inline]
    pub fn count(&self, flow: FlowIndex, upstream: bool, bytes: usize) {
        let Some(counts) = self.get(flow) else { return };
        let at = if upstream { 2 } else { 0 };
        let add = |counter: &AtomicU64, n| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        };
        add(&counts[at], 1);
        add(&counts[at + 1], bytes as u64);
    }

    /// The flow's counters; zeros for an unknown index.
    pub fn read(&self, flow: FlowIndex) -> FlowCount {
        let Some(counts) = self.get(flow) else { return FlowCount::default() };
        let [downstream_packets, downstream_bytes, upstream_packets, upstream_bytes] =
            [0, 1, 2, 3].map(|i| counts[i].load(Ordering::Relaxed));
        FlowCount { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_flow_survives_its_fib_value(teid: u32, index: u32, bs: u16, node: u8, qfi in proptest::option::of(0u8..64)) {
            let state = FlowState {
                teid: Teid::new(teid),
                index: FlowIndex(index),
                base_station: BaseStationId(bs),
                node: NodeId::new(node),
                qfi: qfi.map(|q| Qfi::new(q).unwrap()),
            };
            prop_assert_eq!(FlowState::decode(state.encode()), state);
            prop_assert_eq!(FlowState::node_of(state.encode()), NodeHint::new(u16::from(node)));
        }
    }

    #[test]
    fn a_flow_counts_within_one_line() {
        let counters = FlowCounters::new(3);
        for flow in 0..3 {
            let at = std::ptr::from_ref(counters.get(FlowIndex(flow)).unwrap()).addr();
            assert_eq!(at % 32, 0, "flow {flow}");
        }
    }

    #[test]
    fn counts_go_to_their_direction() {
        let counters = FlowCounters::new(2);
        counters.count(FlowIndex(1), false, 100);
        counters.count(FlowIndex(1), true, 7);
        counters.count(FlowIndex(1), true, 8);
        counters.count(FlowIndex(MAX_CHUNKS as u32 * CHUNK as u32), true, 8); // no such flow: ignored
        let want = FlowCount {
            downstream_packets: 1,
            downstream_bytes: 100,
            upstream_packets: 2,
            upstream_bytes: 15,
        };
        assert_eq!(counters.read(FlowIndex(1)), want);
        assert_eq!(counters.read(FlowIndex(0)), FlowCount::default());
        let beyond = FlowIndex(CHUNK as u32);
        assert_eq!(counters.read(beyond), FlowCount::default());
        counters.count(beyond, true, 8);
        assert_eq!(counters.read(beyond), FlowCount::default(), "not reserved yet");
        counters.reserve(CHUNK + 1);
        counters.count(beyond, true, 8);
        assert_eq!(counters.read(beyond).upstream_bytes, 8);
        assert_eq!(counters.read(FlowIndex(1)), want, "as it was");
        counters.reset(FlowIndex(1));
        assert_eq!(counters.read(FlowIndex(1)), FlowCount::default());
    }
}
