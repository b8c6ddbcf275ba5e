//! What a switch says of itself, as JSON.

use scalebricks_dataplane::flat::PortCounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counters of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortView {
    /// Its name.
    pub name: String,
    /// Frames that came.
    pub rx_frames: u64,
    /// Bytes in them.
    pub rx_bytes: u64,
    /// Frames that left.
    pub tx_frames: u64,
    /// Bytes in them.
    pub tx_bytes: u64,
    /// Frames that came and were flooded.
    pub flooded: u64,
    /// Frames that came and whose name was not known.
    pub unknown: u64,
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl PortView {
    /// The counters of a port of this name.
    pub fn new(name: &str, counts: &PortCounts) -> Self {
        Self {
            name: name.to_owned(),
            rx_frames: counts.rx_frames,
            rx_bytes: counts.rx_bytes,
            tx_frames: counts.tx_frames,
            tx_bytes: counts.tx_bytes,
            flooded: counts.flooded,
            unknown: counts.unknown,
            dropped: counts.drops.iter().map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
        }
    }
}
