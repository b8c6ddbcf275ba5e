//! Which batches may be in the log already.

use super::call::{Call, Reply};
use crate::remote::codec::Request;
use scalebricks_control::engine::WriterId;
use scalebricks_types::PartitionId;
use std::collections::HashMap;

/// Writers of partitions that are remembered. A process has one writer, so this is out of reach.
const LIMIT: usize = 1 << 17;

/// How far each writer got with each partition.
///
/// An append that was never sent is refused, which says that the batch is not in the log. An earlier attempt at it may be,
/// so this is said only of batches that the writer never came to.
#[derive(Debug, Default)]
pub(super) struct Sent(HashMap<(PartitionId, WriterId), u64>);

impl Sent {
    /// Notes whether an append may be in the log already, and that it may be from now on, if it is sent.
    pub(super) fn mark(&mut self, call: &mut Call, is_sent: bool) {
        let Request::Append { partition, batch } = &call.request else { return };
        let Reply::Append { is_repeat, .. } = &mut call.reply else { return };
        let key = (*partition, batch.id.writer);
        let highest = self.0.get(&key).copied();
        *is_repeat = highest.map_or(self.0.len() >= LIMIT, |highest| batch.id.number <= highest);
        if is_sent && (highest.is_some() || self.0.len() < LIMIT) {
            self.0.insert(key, batch.id.number.max(highest.unwrap_or(0)));
        }
    }
}
