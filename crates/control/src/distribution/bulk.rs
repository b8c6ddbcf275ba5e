//! Whole FIBs and long deltas that an owner sends a node in pieces.

use super::message::{FibPiece, GptPiece, Message, Part, Report};
use super::transfer::{Limits, Transfer};
use crate::partition::Partition;
use scalebricks_tables::FibValue;
use scalebricks_types::{Delta, FlowKey, NodeId, PartitionId, Position};
use std::ops::Range;
use std::time::Duration;

/// Bytes of a FIB entry in a message, at most.
const ENTRY_BYTES: usize = 1 + 40 + 16;

/// All that a node's FIB is to hold of a partition, in the order of hashes.
pub(super) fn fib_entries(partition: &Partition, node: NodeId) -> Vec<(FlowKey, FibValue)> {
    let own = partition.sessions().filter(|(_, session)| session.node == node);
    own.map(|(key, session)| (key, session.value)).collect()
}

/// A whole FIB being sent, as of its start, while updates continue. Memory: 64 bytes per key, until the node has it.
#[derive(Debug)]
pub(super) struct FibTransfer {
    transfer: Transfer,
    entries: Vec<(FlowKey, FibValue)>,
    /// The node's sweep that asks for it; 0 if the node is behind.
    wrong: u32,
    /// Whole FIBs that the node had when it began.
    wholes: u32,
}

impl FibTransfer {
    /// That of the partition now, which is that of any position `at` since the last entry that meant something for the node.
    pub(super) fn new(
        partition: &Partition,
        node: NodeId,
        at: Position,
        wrong: u32,
        report: &Report,
        now: Duration,
    ) -> Self {
        let entries = fib_entries(partition, node);
        let part = Part { at, ..Part::default() };
        let transfer = Transfer::new(part, entries.len() as u64, now);
        Self { transfer, entries, wrong, wholes: report.wholes }
    }

    /// Whether the node has it, because its entries were wrong.
    pub(super) const fn has_mended(&self, report: &Report) -> bool {
        self.wrong > 0 && report.wholes > self.wholes
    }

    /// Whether the transfer is over: the node has the image, gets a newer one from another owner, or needs none.
    pub(super) fn is_over(&self, report: &Report) -> bool {
        let at = self.transfer.part().at;
        if report.wholes > self.wholes || report.fib_part.at > at {
            return true;
        }
        let is_begun = at > Position(0) && report.fib_part.at == at;
        let is_in_vain = if self.wrong == 0 {
            report.fib >= at
        } else {
            report.fib > at || report.sweep.number != self.wrong
        };
        !is_begun && is_in_vain
    }

    /// The pieces to send now.
    pub(super) fn pieces(
        &mut self,
        partition: PartitionId,
        report: &Report,
        limits: &Limits,
        now: Duration,
    ) -> Vec<Message> {
        self.transfer.heard(report.fib_part, now);
        let piece = (limits.piece_bytes / ENTRY_BYTES).max(1) as u64;
        let (position, keys, wrong) = (self.transfer.part().at, self.entries.len() as u64, self.wrong);
        let mut pieces = Vec::new();
        while let Some(range) = self.transfer.next(piece, limits.window, now) {
            let (first, entries) = (range.start, part_of(&self.entries, range));
            pieces.push(Message::FibPiece(FibPiece { partition, position, keys, first, wrong, entries }));
        }
        pieces
    }
}

/// A long delta being sent.
#[derive(Debug)]
pub(super) struct GptTransfer {
    transfer: Transfer,
    bytes: Vec<u8>,
    position: Position,
    previous: Position,
}

impl GptTransfer {
    pub(super) fn new(delta: &Delta, now: Duration) -> Self {
        let Delta { position, previous, .. } = *delta;
        let bytes = delta.encode();
        let part = Part { at: position, since: previous, have: 0 };
        Self { transfer: Transfer::new(part, bytes.len() as u64, now), bytes, position, previous }
    }

    /// Whether the transfer is over: the node has this or something newer, gets something newer from another owner, or a whole FIB
    /// was sent since, and these bits may name its node for keys that the node has never had.
    pub(super) fn is_over(&self, report: &Report, wholes: Position) -> bool {
        report.gpt >= self.position || report.gpt_part.at > self.position || self.position < wholes
    }

    /// The pieces to send now.
    pub(super) fn pieces(
        &mut self,
        partition: PartitionId,
        report: &Report,
        limits: &Limits,
        now: Duration,
    ) -> Vec<Message> {
        self.transfer.heard(report.gpt_part, now);
        let (position, previous, bytes) = (self.position, self.previous, self.bytes.len() as u64);
        let mut pieces = Vec::new();
        while let Some(range) = self.transfer.next(limits.piece_bytes.max(1) as u64, limits.window, now) {
            let (first, part) = (range.start, part_of(&self.bytes, range));
            pieces.push(Message::GptPiece(GptPiece { partition, position, previous, bytes, first, part }));
        }
        pieces
    }
}

fn part_of<T: Clone>(all: &[T], range: Range<u64>) -> Vec<T> {
    let part = all.get(range.start as usize..range.end as usize); // of a slice in memory
    part.unwrap_or_default().to_vec()
}
