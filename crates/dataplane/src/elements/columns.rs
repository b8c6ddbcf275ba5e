//! What is known of a packet between elements.

use crate::classify::Parsed;
use crate::fabric_mac::OutputPort;
use scalebricks_graph::{Column, PortId};
use scalebricks_tables::FibValue;
use scalebricks_types::{FlowKey, KeyHash, Teid};

impl Column for Parsed {
    const NAME: &'static str = "parsed";
    const POISON: Self = Self { user_offset: u16::MAX, user_len: usize::MAX / 2, ..Self::NOTHING };
}

/// A packet's key with its hash.
#[derive(Debug, Clone, Copy)]
pub struct Keyed {
    pub(crate) key: FlowKey,
    pub(crate) hash: KeyHash,
}

impl Column for Keyed {
    const NAME: &'static str = "keyed";
    const POISON: Self = Self { key: FlowKey::teid(Teid::new(u32::MAX)), hash: KeyHash::new(u64::MAX) };
}

/// What a FIB holds for a packet's key, with the key's hash.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    pub(crate) value: FibValue,
    pub(crate) hash: KeyHash,
}

impl Column for Found {
    const NAME: &'static str = "found";
    const POISON: Self = Self { value: [u64::MAX; 2], hash: KeyHash::new(u64::MAX) };
}

/// In [`Meta::flags`](scalebricks_graph::Meta): the frame was forwarded once more already.
pub(super) const AGAIN: u16 = 1;
/// The same: it is to be cut into fragments of its outer packet.
pub(super) const IN_PIECES: u16 = 2;

/// The same: it stands for no packet that came in, such as an answer of the node itself.
pub(super) const OTHER: u16 = 4;

/// The outside port that a packet came in by, at its ingress node: [`Meta::port`](scalebricks_graph::Meta).
pub(super) const fn entry_of(output: OutputPort) -> PortId {
    PortId(output.opposite() as u16)
}

/// Where a packet leaves that came in by this port.
#[inline(always)]
pub(super) const fn output_of(entry: PortId) -> OutputPort {
    if entry.0 == OutputPort::Internet as u16 { OutputPort::BaseStation } else { OutputPort::Internet }
}
