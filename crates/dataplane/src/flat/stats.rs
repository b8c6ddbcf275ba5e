//! What a switch counts.

use super::reason::{SwitchDrop, SwitchDrops};

/// Counters of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounts {
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
    /// Frames that came and whose name was not known; what became of them is the policy's to say.
    pub unknown: u64,
    /// Frames dropped, where they came in; those that a port did not take ([`SwitchDrop::PortFull`]), where they would have left.
    pub drops: SwitchDrops,
}

impl PortCounts {
    pub(super) const fn drop(&mut self, reason: SwitchDrop) {
        self.drops.count(reason);
    }
}

impl std::ops::AddAssign<&Self> for PortCounts {
    fn add_assign(&mut self, other: &Self) {
        self.rx_frames += other.rx_frames;
        self.rx_bytes += other.rx_bytes;
        self.tx_frames += other.tx_frames;
        self.tx_bytes += other.tx_bytes;
        self.flooded += other.flooded;
        self.unknown += other.unknown;
        self.drops += &other.drops;
    }
}
