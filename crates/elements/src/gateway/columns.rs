//! Columns that gateway elements pass beside packets in slots.

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::packet::classify::Parsed;
use crate::gateway::punt::PuntReason;
use crate::gateway::reason::DropReason;
use scalebricks_graph::Column;
use scalebricks_tables::FibValue;
use scalebricks_types::{FlowKey, KeyHash, Teid};

impl Column for Parsed {
    const NAME: &'static str = "parsed";
    const POISON: Self = Self { user_offset: u16::MAX, user_len: usize::MAX / 2, ..Self::NOTHING };
}

/// A packet's key and its hash.
#[derive(Debug, Clone, Copy)]
pub struct HashedKey {
    pub(crate) key: FlowKey,
    pub(crate) hash: KeyHash,
}

impl Column for HashedKey {
    const NAME: &'static str = "keyed";
    const POISON: Self = Self { key: FlowKey::teid(Teid::new(u32::MAX)), hash: KeyHash::new(u64::MAX) };
}

/// The FIB value found for a packet's key, and the key's hash.
#[derive(Debug, Clone, Copy)]
pub struct FibHit {
    pub(crate) value: FibValue,
    pub(crate) hash: KeyHash,
}

impl Column for FibHit {
    const NAME: &'static str = "found";
    const POISON: Self = Self { value: [u64::MAX; 2], hash: KeyHash::new(u64::MAX) };
}

/// Why a packet goes to the slow path, and its outside link: where it came from or will leave.
#[derive(Debug, Clone, Copy)]
pub struct PuntInfo {
    pub(crate) why: PuntReason,
    pub(crate) link: OutputPort,
}

impl Column for PuntInfo {
    const NAME: &'static str = "punted";
    const POISON: Self = Self { why: PuntReason::NoFlow(DropReason::GraphError), link: OutputPort::Internet };
}
